r"""Noise correlated over all steps by few buffers: its matrix, its recurrence, the best one.

C is the lower triangular Toeplitz matrix with c_0 = 1 and c_k = sum over j of w_j l_j^(k-1): each
row of C^-1 N follows from as many buffers as there are terms, however far back it reaches.
Proof: docs/proofs/training_noise.md, section 7.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.learning.noise.banded import largest_of
from unacorda.learning.noise.in_order import ToeplitzNoise

__all__ = ["Buffered", "BufferedRows"]

optimize: Any = later("scipy.optimize")
signal: Any = later("scipy.signal")

Floats = NDArray[np.float64]

_MOST_BUFFERS: Final = 3
_FINEST: Final = 30  # decays and weights are multiples of 2^-30
_SLOWEST: Final = 2.0**-20  # of 1 - decay
_BITS: Final = 8  # that are kept of a weight and of 1 - decay
_COEFFICIENT: Final = 48  # those of an event are multiples of 2^-48
_STARTS: Final = (0.3, 0.8)
_FAILED: Final = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffered(ToeplitzNoise):
    """Noise correlated over all steps by a few buffers of the size of a gradient, for ordered data.

    Source: Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024, arXiv:2404.16706 (BLT); McMahan,
    Xu, Zhang 2024, arXiv:2408.08868 (several uses of a unit).

    Parameters
    ----------
    buffers
        How many, from 1 to 3; a third gains little.
    decays, weights
        By default those with the least error of prefix sums for the steps of a plan. Decays are at
        least 0 and below 1, weights above 0 with a sum of at most 1, all multiples of 2^-30.

    Examples
    --------
    >>> Buffered(buffers=2).buffers
    2
    """

    buffers: int = 2
    decays: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.buffers not in range(1, _MOST_BUFFERS + 1):
            raise InvalidParameter("buffers", self.buffers, expected=f"1 to {_MOST_BUFFERS}")
        if not self.decays and not self.weights:
            return
        if not len(self.decays) == len(self.weights) == self.buffers:
            expected = f"{self.buffers} of them and as many weights, or neither"
            raise InvalidParameter("decays", self.decays, expected=expected)
        if not all(0 <= one <= 1 - _SLOWEST and _is_multiple(one) for one in self.decays):
            expected = "multiples of 2^-30 from 0 to 1 - 2^-20"
            raise InvalidParameter("decays", self.decays, expected=expected)
        if sum(self.weights) > 1 or not all(w > 0 and _is_multiple(w) for w in self.weights):
            expected = "multiples of 2^-30 above 0, together at most 1"
            raise InvalidParameter("weights", self.weights, expected=expected)

    def fitted(self, *, steps: int, separation: int) -> Buffered:
        """Return the noise of least error for a plan, or itself where decays are given.

        Parameters
        ----------
        steps
            How many there are.
        separation
            The least number of steps between two of one unit.

        Returns
        -------
        Buffered
            With all decays and scales.
        """
        return self if self.decays else _fitted(self.buffers, steps, separation)

    def inverse(self, steps: int) -> Floats:
        """Return the first column of C^-1."""
        above, below = _polynomials(self.decays, self.weights)
        return _response(above, below, steps)

    def encoder(self, steps: int) -> tuple[Fraction, ...]:
        """Return the first column of C, rounded up."""
        return _encoder(self, steps)

    def rows(self) -> BufferedRows:
        """Return the recurrence of the rows of C^-1 N."""
        return BufferedRows(self)


class BufferedRows:
    """The rows of C^-1 N: W_t = N_t - sum of w_j B_j, and then B_j becomes l_j B_j + W_t.

    truncation: how many units the integers of a row are off by, before C^-1.
    """

    def __init__(self, noise: Buffered) -> None:
        self._decays, self._weights = noise.decays, noise.weights
        self._sums = [w / (1 - decay) for w, decay in zip(noise.weights, noise.decays, strict=True)]
        self.truncation = 2 + math.ceil(sum(self._sums))
        self._held: list[list[Floats]] = []
        self._largest = [0.0] * noise.buffers
        self._most = [0.0] * noise.buffers

    def advance(self, fresh: list[Floats]) -> float:
        """Turn normals into the next row, in place; what it is off by, in units of 2^-53.

        The error is that of C times the computed rows.
        """
        if not self._held:
            self._held = [[np.zeros_like(part) for part in fresh] for _ in self._decays]
        size = largest_of(fresh)
        for weight, held, largest in zip(self._weights, self._held, self._largest, strict=True):
            size += weight * largest
            for new, old in zip(fresh, held, strict=True):
                np.subtract(new, weight * old, out=new)
        found, now = 2 * len(self._weights) * size, largest_of(fresh)
        for place, (decay, held) in enumerate(zip(self._decays, self._held, strict=True)):
            for new, old in zip(fresh, held, strict=True):
                np.multiply(old, decay, out=old)
                np.add(old, new, out=old)
            # A product and a sum of that size at most, at this step or at an earlier one.
            here = decay * self._largest[place] + now
            self._most[place] = max(self._most[place], here)
            self._largest[place] = largest_of(held)
            found += 2 * self._sums[place] * self._most[place]
        return found

    def last_entry(self, normals: Sequence[int]) -> int:
        """Return the last entry of C^-1 N in fixed point."""
        decays, weights = (
            [round(math.ldexp(one, _FINEST)) for one in numbers]
            for numbers in (self._decays, self._weights)
        )
        held, last = [0] * len(decays), 0
        for normal in normals:
            older = sum(weight * one for weight, one in zip(weights, held, strict=True))
            last = normal - (older >> _FINEST)
            held = [
                (decay * one >> _FINEST) + last for decay, one in zip(decays, held, strict=True)
            ]
        return last


@lru_cache(maxsize=16)
def _encoder(noise: Buffered, steps: int) -> tuple[Fraction, ...]:
    """The first column of C, each entry rounded up: sensitivities rise with entries, none below 0.

    Floats are off by less than 2^-40, relative, which the factor allows for.
    """
    powers = np.arange(steps - 1)
    column = np.zeros(steps - 1)
    for decay, weight in zip(noise.decays, noise.weights, strict=True):
        column += weight * np.power(decay, powers)
    above = np.ceil(np.ldexp(column * (1 + 2.0**-38), _COEFFICIENT)).astype(np.int64)
    unit = 1 << _COEFFICIENT
    return (Fraction(1), *(Fraction(min(one, unit), unit) for one in above.tolist()))


def _polynomials(decays: Sequence[float], weights: Sequence[float]) -> tuple[Floats, Floats]:
    """Q and P with C^-1 = Q / P as power series: Q is the product of 1 - l_j x, and P is C Q."""
    above = np.ones(1)
    for decay in decays:
        above = np.convolve(above, [1.0, -decay])
    below = above.copy()
    for place, weight in enumerate(weights):
        term = np.array([0.0, weight])
        for other, decay in enumerate(decays):
            if other != place:
                term = np.convolve(term, [1.0, -decay])
        below += term
    return above, below


def _response(above: Floats, below: Floats, steps: int) -> Floats:
    impulse = np.zeros(steps)
    impulse[0] = 1.0
    found: Floats = signal.lfilter(above, below, impulse)
    return found


@lru_cache(maxsize=16)
def _fitted(buffers: int, steps: int, separation: int) -> Buffered:
    """The least error at equal sensitivity, one buffer after the other from some starts.

    Whatever is found is priced for what it is: nothing is proved of its being the best.
    """
    own = np.zeros((2, 0))  # -ln(1 - decay), -ln(weight)

    def loss(flat: Floats) -> float:
        found = _log_error(*_numbers(flat.reshape(2, -1)), steps=steps, separation=separation)
        return found if math.isfinite(found) else _FAILED

    for _ in range(buffers):
        tries = []
        for share in _STARTS:
            slow = share * math.log(steps + 1)
            start = np.concatenate([own, [[slow], [2 + slow / 2]]], axis=1).reshape(-1)
            tries.append(optimize.minimize(loss, start, method="L-BFGS-B"))
        own = min(tries, key=lambda one: float(one.fun)).x.reshape(2, -1)
    decays, weights = _numbers(own)
    order = np.argsort(-decays)
    slowest = [max(_cut(1 - one, up=True), _SLOWEST) for one in decays[order].tolist()]
    return Buffered(
        buffers=buffers,
        decays=tuple(1 - one for one in slowest),
        weights=tuple(_cut(one, up=False) for one in weights[order].tolist()),
    )


def _numbers(own: Floats) -> tuple[Floats, Floats]:
    """Decays and weights from any numbers."""
    gaps, weights = np.exp(-np.abs(own))
    return 1 - gaps, weights / max(float(weights.sum()), 1.0)


def _log_error(decays: Floats, weights: Floats, *, steps: int, separation: int) -> float:
    """The logarithm of the error of prefix sums times the sensitivity, in floats."""
    above, below = _polynomials(decays.tolist(), weights.tolist())
    sums = np.cumsum(_response(above, below, steps))
    turns = -(-steps // separation)
    column = np.zeros(turns * separation)
    column[:steps] = _response(below, above, steps)
    moved = np.cumsum(column.reshape(turns, separation), axis=0).reshape(-1)[:steps]
    with np.errstate(over="ignore", invalid="ignore"):
        error = float(np.mean(np.cumsum(sums**2)))
        return 0.5 * math.log(error * float(moved @ moved)) if math.isfinite(error) else math.inf


def _cut(number: float, *, up: bool) -> float:
    """A number to 8 bits, a multiple of 2^-30 above 0."""
    unit = max(math.frexp(number)[1] - _BITS, -_FINEST)
    whole = math.ldexp(number, -unit)
    return math.ldexp(max(math.ceil(whole) if up else math.floor(whole), 1), unit)


def _is_multiple(number: float) -> bool:
    return float(math.ldexp(number, _FINEST)).is_integer()
