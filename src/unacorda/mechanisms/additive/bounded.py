r"""Bounded Laplace noise: drawn again until the answer lies within public bounds.

Drawing again changes the law by a factor that depends on the data, so the scale must be larger
than sensitivity / epsilon: by up to twice. Here everything lives on the public grid, where the
law is geometric and its normaliser a closed form, and no draw is ever rejected: a side is chosen
by a coin and a geometric number taken modulo the room on that side (docs/proofs/noise.md,
section 10).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import arrays, rounded, samplers
from unacorda.mechanisms.certified import CHUNK, magnitude_chunk
from unacorda.mechanisms.parameters import (
    Real,
    decimal_up,
    keep,
    positive,
    readable,
    whole,
)
from unacorda.mechanisms.protocol import PerNumberCalibrated
from unacorda.mechanisms.refine import LazyUniform, exp_bounds
from unacorda.privacy import events
from unacorda.privacy.enclosure import context, mpf

__all__ = ["BoundedLaplace", "least_scale"]

Floats: TypeAlias = NDArray[np.float64]

_SECURE = SecureBits()
_FARTHEST: Final = 1 << 53
_SLACK = 2.0**-42  # the comparison of the coin errs by less than 2^-43


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedLaplace(PerNumberCalibrated):
    r"""Release a number of [lower, upper], P(y) proportional to e^(-|y - x| / scale) on the grid.

    epsilon: of one number, above 0; sensitivity: by how much one number of x can move; lower,
    upper: public bounds, to which x is cut first; l0_sensitivity: how many numbers of an array can
    move, 1 by default; grid_log2: outputs are multiples of 2^grid_log2, by default about a
    millionth of the noise. The scale is the least that keeps epsilon, which plain Laplace noise of
    scale sensitivity / epsilon does not: see `scale`. The mean of what is released is not x, near
    a bound least of all.
    Source: Holohan, Antonatos, Braghin, Mac Aonghusa 2018, arXiv:1808.10410, Theorem 3.5; on the
    grid, docs/proofs/noise.md, section 10.

    >>> rating = BoundedLaplace(epsilon=1, sensitivity=1, lower=0, upper=5)
    >>> round(float(rating.scale), 3)
    1.589
    >>> rating.event
    Pure(epsilon=1)
    """

    epsilon: Real
    sensitivity: Real
    lower: Real
    upper: Real
    l0_sensitivity: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        epsilon, sensitivity = (
            positive("epsilon", self.epsilon),
            positive("sensitivity", self.sensitivity),
        )
        lower, upper = checks.exact("lower", self.lower), checks.exact("upper", self.upper)
        if lower >= upper:
            raise InvalidParameter("upper", self.upper, expected=f"above lower, {self.lower}")
        moved = whole("l0_sensitivity", self.l0_sensitivity, least=1, most=1 << 40)
        noise = checks.exact("sensitivity", sensitivity) / checks.exact("epsilon", epsilon)
        wanted = cast("int | None", self.grid_log2)
        smallest = min(checks.exact("sensitivity", sensitivity), upper - lower)
        farthest = max(abs(lower), abs(upper))
        grid, _ = rounded.grid_ratio(
            "sensitivity",
            min(noise, smallest),
            _default_grid(noise, smallest, farthest) if wanted is None else wanted,
        )
        keep(self, epsilon=epsilon, sensitivity=sensitivity, lower=readable(lower))
        keep(self, upper=readable(upper), l0_sensitivity=moved, grid_log2=grid)
        first, last = self._ends()
        if last <= first:
            raise InvalidParameter(
                "grid_log2", grid, expected="a finer one: two of its numbers within the bounds"
            )
        if max(-first, last) > _FARTHEST:
            raise InvalidParameter(
                "grid_log2", grid, expected="a coarser one: the bounds are beyond 2^53 steps of it"
            )
        samplers.within_range("sensitivity / epsilon in grid steps", self._ratio())

    @property
    def event(self) -> events.Event:
        """What one release costs, of the whole array together."""
        return events.Pure(epsilon=self.epsilon) * self.l0_sensitivity

    @property
    def scale(self) -> Real:
        """The scale of the noise, in the unit of x: as little as keeps epsilon, rounded up."""
        return readable(self._ratio() * self._step())

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The noisy number or float64 array within the bounds, of the shape of x.

        NaN counts as 0; whatever lies beyond a bound counts as the bound. Raises InvalidParameter
        for a dtype that is neither integer nor a float of at most 64 bits.
        """
        exact, floats, shape = arrays.summands(x)
        first, last = self._ends()
        if floats is None:
            end, half = max(-first, last) + 1, Fraction(1, 2)
            scaled = [arrays.exact_steps(value, self._step(), end=end) for value in exact]
            places = [min(max(math.floor(value + half), first), last) for value in scaled]
            steps = np.array(places, dtype=np.float64)
        else:
            steps = _nearest(floats, self.grid_log2, first=first, last=last)
        _move(steps, ratio=self._ratio(), first=first, last=last, bits=bits or _SECURE)
        return arrays.shaped(np.ldexp(steps, self.grid_log2), shape)

    def _step(self) -> Fraction:
        return Fraction(2) ** self.grid_log2

    def _ends(self) -> tuple[int, int]:
        """The least and the greatest multiple of the grid within the bounds."""
        step = self._step()
        lower, upper = checks.exact("lower", self.lower), checks.exact("upper", self.upper)
        return math.ceil(lower / step), math.floor(upper / step)

    def _ratio(self) -> Fraction:
        """The scale in steps of the grid."""
        first, last = self._ends()
        moved = math.ceil(checks.exact("sensitivity", self.sensitivity) / self._step())
        epsilon = checks.exact("epsilon", self.epsilon)
        return least_scale(epsilon, moved=min(moved, last - first), length=last - first)


def _default_grid(noise: Fraction, smallest: Fraction, farthest: Fraction) -> int:
    """A millionth of the noise, a move or the room; coarser beside large noise or far bounds.

    But never so coarse that rounding a move up adds more than a few parts in a thousand.
    """
    fine = rounded.default_grid_log2(min(noise, smallest))
    coarse = max(rounded.floor_log2(noise) - 32, rounded.floor_log2(farthest) - 52)
    return min(max(fine, coarse), rounded.floor_log2(smallest) - 8)


@lru_cache(maxsize=256)
def least_scale(epsilon: Fraction, *, moved: int, length: int) -> Fraction:
    r"""The least scale, in grid steps, that keeps epsilon on {0, ..., length}, rounded up.

    With q = e^(-1/scale) and W(x) = 1 + q - q^(x + 1) - q^(length - x + 1), which the normaliser
    is proportional to, the largest loss of a move by at most `moved` is
    moved / scale + ln(W(moved) / W(0)), and it falls as the scale rises.

    Bound       upper: of the loss, by 2^-90 at most, and of the scale at the 15th digit.
    Source      Holohan, Antonatos, Braghin, Mac Aonghusa 2018, Theorem 3.5, on a grid:
                docs/proofs/noise.md, section 10.
    """
    mp, goal = context(), mpf(epsilon) * (1 - context().ldexp(1, -90))

    def loss(rate: Any) -> Any:
        # Sums of expm1 keep all digits where the rate is small.
        centre = -mp.expm1(-rate * (moved + 1)) - mp.exp(-rate) * mp.expm1(-rate * (length - moved))
        return moved * rate + mp.log(centre / -mp.expm1(-rate * (length + 1)))

    low, high = mpf(epsilon) / (2 * moved + 1), mpf(epsilon) / moved
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) <= goal else (low, middle)
    return checks.exact("scale", decimal_up(1 / low))


@np.errstate(over="ignore", under="ignore")  # cut right after; below any half step
def _nearest(floats: Floats, grid_log2: int, *, first: int, last: int) -> Floats:
    """floor(x / grid + 1/2), cut to the ends: it moves no farther than x, rounded up, does.

    Rounding halves to even would: 1/2 and 3/2 become 0 and 2.
    """
    scaled = np.ldexp(np.nan_to_num(floats, nan=0.0, posinf=np.inf, neginf=-np.inf), -grid_log2)
    np.clip(scaled, float(first), float(last), out=scaled)
    steps = np.floor(scaled)
    steps += scaled - steps >= 0.5
    return steps


@np.errstate(over="ignore", under="ignore")  # e^-inf is 0
def _move(steps: Floats, *, ratio: Fraction, first: int, last: int, bits: RandomBits) -> None:
    """Replace each step, a whole number, by a draw of the law around it, within the ends."""
    rate = float(1 / ratio)
    fall = math.exp(-rate)
    for start in range(0, steps.size, CHUNK):
        part = steps[start : start + CHUNK]
        room = last + 1 - part  # from the step itself to the upper end
        below = part - first
        words = bits.words(part.size)
        up_weight = 1 - np.exp(room * -rate)
        total = up_weight + fall - np.exp((below + 1) * -rate)
        total *= words * 2.0**-64
        total -= up_weight
        up = total < 0
        for index in np.flatnonzero(~(np.abs(total, out=total) > _SLACK)).tolist():
            uniform = LazyUniform(int(words[index]), length=64, bits=bits)
            up[index] = _goes_up(uniform, int(room[index]), int(below[index]), ratio)
        distance, _ = magnitude_chunk(part.size, scale=ratio, shift=None, bits=bits)
        # The room is 1 at least on the side that is taken. Whole numbers below 2^54: exact.
        space = np.where(up, room, below)
        np.maximum(space, 1.0, out=space)
        distance -= np.floor(distance / space) * space
        part += np.where(up, distance, -1 - distance)


def _goes_up(uniform: LazyUniform, room: int, below: int, ratio: Fraction) -> bool:
    """Whether U < (1 - q^room) / (1 + q - q^room - q^(below + 1)), q = e^(-1/ratio), exactly."""
    if below == 0:
        return True
    while True:
        places = uniform.places
        ends = [exp_bounds(-n / ratio, places) for n in (room, Fraction(1), below + 1)]
        one = 1 << places
        # The weight above and the weight below, each from below and from above.
        up_low, up_high = one - ends[0][1], one - ends[0][0]
        down_low, down_high = max(ends[1][0] - ends[2][1], 0), ends[1][1] - ends[2][0]
        # U < up / (up + down) if and only if U down < (1 - U) up.
        left, whole_ = uniform.value, 1 << uniform.length
        if (left + 1) * down_high <= (whole_ - left - 1) * up_low:
            return True
        if left * down_low >= (whole_ - left) * up_high:
            return False
        uniform.extend()
