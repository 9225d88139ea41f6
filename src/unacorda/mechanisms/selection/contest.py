r"""The exact noisy maximum among up to millions of candidates.

Candidate i gets v_i = factor s_i + ln w_i + X_i, X_i independent standard noise: Gumbel or
exponential, ideal and continuous, so that no two are equal. A candidate may represent many equal
ones (such as the points of an interval); its noise is then their largest. float64 with a proved
error bound finds the candidates that may be in front. If it leaves their order open, these few are
compared in exact arithmetic, with as many more bits of noise as necessary. The released order is
therefore that of the ideal v_i, for all scores. The bounds are derived in docs/proofs/noisy_max.md,
sections 1 and 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda.balls import Ball, ball, bracket, ldexp
from unacorda.bits import RandomBits
from unacorda.mechanisms.noise.continuous import CHUNK
from unacorda.mechanisms.noise.refinement import minus_log_bounds, signed_uniform
from unacorda.mechanisms.selection.scores import Floats, Noise, exact_score, exponents

_SLACK: Final = 2.0**-24  # bound on the error of a value near 0, see the proof
_RELATIVE: Final = 2.0**-45  # and on what it grows by with the value
_TAIL: Final = -21.0  # ln U below this: too few bits of U have been read
_HEAD: Final = -(2.0**-26)  # ln U above this: its own logarithm is not known well enough
_BLOCK: Final = 1 << 9


class Entrant:
    """A leading candidate, with the bits of its noise read so far."""

    __slots__ = ("_base", "_copies", "_noise", "_uniform", "_weight", "index")

    def __init__(
        self,
        index: int,
        word: int,
        *,
        base: Fraction,
        weight: Fraction,
        copies: int,
        noise: Noise,
        bits: Any,
    ) -> None:
        self.index = index
        self._base, self._weight, self._copies, self._noise = base, weight, copies, noise
        _, self._uniform = signed_uniform(word, bits)

    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """Bounds of its value; None if the bits read so far give none."""
        places = self._uniform.places
        ends = [*_noise_bounds(self._noise, self._uniform, places, self._copies)]
        if self._weight != 1:
            low, high = _log_bounds(self._weight, places)
            ends = [
                end + part if end is not None else None
                for end, part in zip(ends, (low, high), strict=True)
            ]
        first, last = (
            self._base + Fraction(end, 1 << places) if end is not None else None for end in ends
        )
        return first, last

    def extend(self) -> None:
        """Read 64 more bits of its noise."""
        self._uniform.extend()


def noisy_argmax(
    scores: NDArray[Any],
    *,
    factor: Fraction,
    noise: Noise,
    count: int,
    bits: RandomBits,
    weights: NDArray[Any] | None = None,
    copies: NDArray[np.int64] | None = None,
) -> list[Entrant]:
    """The candidates with the `count` largest values, the largest first.

    scores: one row of `scores.score_rows`, at least `count` long; weights: exact, above 0, one
    for each candidate; all 1 by default. copies, with exponential noise only: how many candidates
    each one represents, 1 or more; its noise is the largest of theirs.
    """
    # Scores count from the count-th largest, so that values near the last place are near 0.
    reference = _largest(scores, count)
    indices = np.empty(0, dtype=np.int64)
    values: Floats = np.empty(0)
    words: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    cut = -np.inf
    for start in range(0, scores.size, CHUNK):
        part = scores[start : start + CHUNK]
        drawn = bits.words(part.size).view(np.int64)
        many = None if copies is None else copies[start : start + CHUNK]
        value, wild = _standard(noise, drawn, many)
        value += exponents(part, reference, factor=factor)
        if weights is not None:
            value += _logarithms(weights[start : start + CHUNK])
        value[wild] = np.inf
        near = np.flatnonzero(value >= cut)
        if near.size:
            values = np.concatenate([values, value[near]])
            indices = np.concatenate([indices, near + start])
            words = np.concatenate([words, drawn[near]])
            cut = _cut(values, count)
            kept = values >= cut
            values, indices, words = values[kept], indices[kept], words[kept]
    order = np.argsort(-values, kind="stable")
    level = exact_score(reference[()])
    entrants = [
        Entrant(
            int(indices[k]),
            int(words[k]),
            base=factor * (exact_score(scores[indices[k]]) - level),
            weight=Fraction(1) if weights is None else exact_score(weights[indices[k]]),
            copies=1 if copies is None else int(copies[indices[k]]),
            noise=noise,
            bits=bits,
        )
        for k in order.tolist()
    ]
    if not _apart(values[order]):
        _sort_exactly(entrants)
    return entrants[:count]


def difference_in_steps(larger: Entrant, smaller: Entrant, *, steps: Fraction) -> int:
    """floor(steps (v - v') + 1/2) for the values of two candidates, exactly."""
    while True:
        (low, high), (least, most) = larger.bounds(), smaller.bounds()
        if low is not None and high is not None and least is not None and most is not None:
            first = floor(steps * (low - most) + Fraction(1, 2))
            if first == floor(steps * (high - least) + Fraction(1, 2)):
                return first
        larger.extend()
        smaller.extend()


def _largest(scores: NDArray[Any], count: int) -> NDArray[Any]:
    """The count-th largest score, in an array of no dimension."""
    if count == 1:
        return np.asarray(scores.max(), dtype=scores.dtype)
    if scores.dtype.kind == "O":
        return np.asarray(sorted(scores.tolist())[-count], dtype=object)
    # At least `count` scores reach the count-th largest of the largest of blocks.
    blocks = scores.size // _BLOCK
    if blocks > count:
        tops = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        scores = scores[scores >= np.partition(tops, -count)[-count]]
    return np.asarray(np.partition(scores, -count)[-count])


@np.errstate(divide="ignore")  # ln 0 is refined
def _standard(
    noise: Noise, words: NDArray[np.int64], copies: NDArray[np.int64] | None = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Standard noise, each within 2^-26 of the truth, and the indices where it is not."""
    level = np.multiply(words, 2.0**-63)
    np.abs(level, out=level)
    np.log(level, out=level)
    wild = np.empty(0, dtype=np.int64)
    if level.min() < _TAIL:
        wild = np.flatnonzero(level < _TAIL).astype(np.int64, copy=False)
    if (noise == "gumbel" or copies is not None) and level.max() > _HEAD:
        wild = np.flatnonzero((level < _TAIL) | (level > _HEAD)).astype(np.int64, copy=False)
    if copies is not None:
        # Of N alike the largest is -ln(1 - U^(1/N)), in law.
        np.expm1(np.divide(level, copies, out=level), out=level)
        np.negative(level, out=level)
        np.log(level, out=level)
        return np.negative(level, out=level), wild
    np.negative(level, out=level)
    if noise == "gumbel":
        np.log(level, out=level)
        np.negative(level, out=level)
    return level, wild


def _logarithms(weights: NDArray[Any]) -> Floats:
    """Logarithms of positive exact numbers, each to within 2^-46 relative and 2^-52."""
    if weights.dtype.kind == "O":
        both = [(Fraction(weight).numerator, Fraction(weight).denominator) for weight in weights]
        return np.array([_float_log(top) - _float_log(bottom) for top, bottom in both])
    found: Floats = np.log(weights.astype(np.float64))
    return found


def _float_log(number: int) -> float:
    """The logarithm of a whole number of any size."""
    excess = max(number.bit_length() - 64, 0)
    return float(np.log(float(number >> excess)) + excess * np.log(2.0))


def _cut(values: Floats, count: int) -> float:
    """What a computed value must reach to be one of the `count` largest in truth."""
    known = values[values < np.inf]  # the others are kept, and prove nothing about the rest
    if known.size < count:
        return -np.inf
    least = float(np.partition(known, -count)[-count])
    return least - 3 * (_SLACK + _RELATIVE * abs(least)) if least > -np.inf else -np.inf


def _apart(values: Floats) -> bool:
    """Whether the order of these falling values is beyond doubt."""
    if values.size < 2:
        return True
    if not np.isfinite(values).all():
        return False
    doubt = _SLACK + _RELATIVE * np.abs(values)
    return bool((values[:-1] - values[1:] > 2 * (doubt[:-1] + doubt[1:])).all())


def _sort_exactly(entrants: list[Entrant]) -> None:
    """Put them in the order of their values, the largest first."""
    known = {id(entrant): entrant.bounds() for entrant in entrants}
    while True:
        # First those of which no lower end is known, then by falling lower ends.
        entrants.sort(key=lambda e: (0, 0) if (low := known[id(e)][0]) is None else (1, -low))
        ends = [(known[id(one)][0], known[id(other)][1]) for one, other in pairwise(entrants)]
        open_pairs = [
            pair
            for pair, (low, high) in zip(pairwise(entrants), ends, strict=True)
            if low is None or high is None or low <= high
        ]
        if not open_pairs:
            return
        for entrant in {id(e): e for pair in open_pairs for e in pair}.values():
            entrant.extend()
            known[id(entrant)] = entrant.bounds()


def _noise_bounds(
    noise: Noise, uniform: Any, places: int, copies: int
) -> tuple[int | None, int | None]:
    """Integers with low <= X 2^places <= high, None where there is no such end yet."""
    low, high = minus_log_bounds(uniform, places)
    if noise == "exponential":
        return (low, high) if copies == 1 else _largest_bounds(low, high, places, copies)
    # The Gumbel number -ln L falls as L = -ln U rises.
    return (
        None if high is None else -_log_bounds(Fraction(high, 1 << places), places)[1],
        None if low == 0 else -_log_bounds(Fraction(low, 1 << places), places)[0],
    )


def _largest_bounds(
    low: int, high: int | None, places: int, copies: int
) -> tuple[int | None, int | None]:
    """The same for -ln(1 - e^(-L / copies)), L the number between low and high; it falls in L."""

    def largest(end: int) -> Ball:
        return -(-(ldexp(-end, -places) / copies).expm1()).log()

    return (
        0 if high is None else max(bracket(lambda: largest(high), places)[0], 0),
        None if low == 0 else bracket(lambda: largest(low), places)[1],
    )


def _log_bounds(number: Fraction, places: int) -> tuple[int, int]:
    """Integers with low <= ln(number) 2^places <= high, for a number above 0."""
    return bracket(lambda: ball(number).log(), places)
