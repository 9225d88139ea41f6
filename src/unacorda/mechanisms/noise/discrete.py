"""Integer laws: discrete Laplace, geometric and discrete Gaussian.

Each returns ``size`` independent draws of exactly the named law: float64 does the work under a
proved error bound, and the few draws it cannot decide are refined in exact arithmetic (see
`continuous` and docs/proofs/noise.md). A float scale means its exact binary value; a Fraction is
taken as it stands.

The discrete Gaussian of small sigma is read from an integer table of its distribution function.
P(X = k) is proportional to exp(-k^2 / (2 sigma^2)) over the integers. Threshold k of the table is
floor(2^63 P(|X| <= k)), so |X| is the number of thresholds at or below a 63-bit uniform number,
unless that number equals one: then `magnitude_from_prefix` decides with more bits. The table is
certified: every weight is bracketed between two integers and both must give one threshold.

The discrete Gaussian of large sigma is a rounded normal, kept with a probability near one. Let g(k)
be the probability that a normal of standard deviation sigma rounds to k. The ratio of the discrete
Gaussian to g is greatest at k = 0, so k is kept with probability a(k) = e^(-k^2 / (2 sigma^2)) g(0)
/ g(k), and what is kept has exactly the discrete law. Since 1 - a(k) <= k^2 / (16 sigma^4) for |k|
<= 12 sigma and sigma >= 200, one comparison accepts all but a few draws in a million; for these
a(k) is bracketed until the uniform number is outside the bracket. Proofs in docs/proofs/noise.md,
section 5.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.balls import Ball, ball, bracket, ldexp
from unacorda.bits import RandomBits
from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise import continuous
from unacorda.mechanisms.noise.refinement import LazyUniform, exp_bounds

LARGEST_SIGMA: Final = 200
"""Above this sigma rejection is as fast and needs no table."""

_UNIFORM_BITS = 63
_GUIDE_BITS = 14
_FEW = 64  # below this many draws each is compared with all thresholds, in constant time

Integers = NDArray[np.int64]

_USUAL_REACH = Fraction(6)  # draws beyond it, two in 10^9, are looked at one by one
_SQUEEZE_REACH = 12  # the quick acceptance is proved for |k| <= 12 sigma


def cumulative_bounds(variance: Fraction, places: int) -> list[tuple[int, int]]:
    """Integers with low_k <= P(|X| <= k) 2^places <= high_k, for k = 0, 1, ... .

    The list ends with the first k whose upper end is 2^places, the certain event.
    """
    work = places + 64
    low_weights, high_weights = _weight_bounds(variance, work)
    # What is left out is at most twice the last weight: from there on each is below half the
    # one before, see docs/proofs/noise.md, section 4.
    low_total = 2 * sum(low_weights) - low_weights[0]
    high_total = 2 * sum(high_weights) - high_weights[0] + 4 * high_weights[-1] + 2
    bounds: list[tuple[int, int]] = []
    low_sum, high_sum = -low_weights[0], -high_weights[0]  # zero has no mirror image
    for low_weight, high_weight in zip(low_weights, high_weights, strict=True):
        low_sum, high_sum = low_sum + 2 * low_weight, high_sum + 2 * high_weight
        low = (low_sum << places) // high_total
        high = min(-((-high_sum << places) // low_total), 1 << places)
        bounds.append((low, high))
        if high == 1 << places:
            break
    return bounds


def _weight_bounds(variance: Fraction, places: int) -> tuple[list[int], list[int]]:
    """Brackets of exp(-k^2 / (2 variance)) 2^places, until the weight is at most one unit."""
    low_square, high_square = exp_bounds(-1 / variance, places)  # the ratio of two ratios
    low_ratio, high_ratio = exp_bounds(-1 / (2 * variance), places)
    low, high = [1 << places], [1 << places]
    while high[-1] > 1 or high_ratio << 1 > 1 << places:
        low.append(low[-1] * low_ratio >> places)
        high.append(-(-high[-1] * high_ratio >> places))
        low_ratio = low_ratio * low_square >> places
        high_ratio = -(-high_ratio * high_square >> places)
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CumulativeTable:
    """The thresholds of one discrete Gaussian, and a guide to them.

    thresholds: floor(2^63 P(|X| <= k)), the last one 2^63 - 1; guide: |X| for each value of the
    first 14 bits of the uniform number, or -1 where these do not decide it.
    """

    variance: Fraction
    thresholds: NDArray[np.int64]
    guide: NDArray[np.int64]

    def magnitudes(self, words: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        """|X| from each signed word, whose sign is not looked at."""
        # Of w and -1 - w either is the prefix: both are 63 fair bits once the sign is known.
        prefixes = np.bitwise_xor(words, np.right_shift(words, 63))
        magnitudes: NDArray[np.int64]
        if prefixes.size < _FEW:
            magnitudes = np.less_equal(self.thresholds, prefixes[:, None]).sum(axis=1)
            open_ones = np.arange(prefixes.size)
        else:
            index = np.right_shift(prefixes, _UNIFORM_BITS - _GUIDE_BITS)
            magnitudes = np.take(self.guide, index, mode="wrap")
            open_ones = np.flatnonzero(magnitudes < 0)
            magnitudes[open_ones] = np.searchsorted(
                self.thresholds, prefixes[open_ones], side="right"
            )
        below = self.thresholds[np.maximum(magnitudes[open_ones] - 1, 0)]
        for position in np.flatnonzero(below == prefixes[open_ones]).tolist():
            index_ = int(open_ones[position])
            uniform = LazyUniform(int(prefixes[index_]), length=_UNIFORM_BITS, bits=bits)
            magnitudes[index_] = magnitude_from_prefix(uniform, variance=self.variance)
        return magnitudes


@lru_cache(maxsize=64)
def table(variance: Fraction) -> CumulativeTable:
    """The table for a variance, that is sigma squared; kept for the next call."""
    places, last = 192, (1 << _UNIFORM_BITS) - 1
    while True:
        down = places - _UNIFORM_BITS
        pairs = [
            (low >> down, min(high >> down, last))  # P(|X| <= k) < 1, whatever the bracket says
            for low, high in cumulative_bounds(variance, places)
        ]
        ends = next((k for k, (low, _) in enumerate(pairs) if low == last), None)
        if ends is not None and all(low == high for low, high in pairs[: ends + 1]):
            thresholds = np.array([low for low, _ in pairs[: ends + 1]], dtype=np.int64)
            break
        places *= 2
    edges = np.arange((1 << _GUIDE_BITS) + 1, dtype=np.uint64) << np.uint64(
        _UNIFORM_BITS - _GUIDE_BITS
    )
    unsigned = thresholds.view(np.uint64)
    at_start = np.searchsorted(unsigned, edges[:-1], side="left")
    at_end = np.searchsorted(unsigned, edges[1:], side="left")
    guide = np.where(at_start == at_end, at_start, -1).astype(np.int64)
    thresholds.flags.writeable = guide.flags.writeable = False
    return CumulativeTable(variance=variance, thresholds=thresholds, guide=guide)


def magnitude_from_prefix(uniform: LazyUniform, *, variance: Fraction) -> int:
    """The least k with U < P(|X| <= k), with as many bits of U as that takes."""
    while True:
        places = uniform.places
        up = places - uniform.length
        start, end = uniform.value << up, (uniform.value + 1) << up
        for k, (low, high) in enumerate(cumulative_bounds(variance, places)):
            if end <= low:
                return k
            if start < high:
                break
        uniform.extend()


def fill_by_rejection(draws: Integers, *, sigma: Fraction, bits: RandomBits) -> None:
    """Fill with rounded normals that were kept; the places of the others are drawn anew."""
    # One bound for all draws up to 6 sigma: a function of sigma alone, as its time is.
    reach = math.floor(_USUAL_REACH * sigma)
    sure = np.uint64(math.floor((1 << 64) * (1 - _USUAL_REACH**2 / (16 * sigma * sigma))) - 1)
    waiting = np.arange(draws.size)
    while waiting.size:
        offsets = np.full(waiting.size, 0.5)
        floors = continuous.gaussian_chunk(
            offsets, lambda _: Fraction(1, 2), ratio=sigma, bits=bits
        )
        draws[waiting] = floors.astype(np.int64)
        words = bits.words(waiting.size)
        suspects = np.flatnonzero((words >= sure) | (np.abs(floors) > reach))
        rejected = [
            i
            for i in suspects.tolist()
            if not _keeps(int(floors[i]), int(words[i]), sigma=sigma, bits=bits)
        ]
        waiting = waiting[rejected]


def _keeps(k: int, word: int, *, sigma: Fraction, bits: RandomBits) -> bool:
    """Whether a uniform number that begins with ``word`` lies below a(k)."""
    if k == 0:
        return True
    if abs(k) <= _SQUEEZE_REACH * sigma:
        sure = 1 - Fraction(k * k) / (16 * sigma**4)
        if word + 1 <= sure * (1 << 64):
            return True
    uniform = LazyUniform(word, length=64, bits=bits)
    while True:
        low, high = acceptance_bounds(abs(k), sigma=sigma, places=uniform.places)
        up = uniform.places - uniform.length
        if (uniform.value + 1) << up <= low:
            return True
        if uniform.value << up >= high:
            return False
        uniform.extend()


def acceptance_bounds(k: int, *, sigma: Fraction, places: int) -> tuple[int, int]:
    """Integers with low <= a(k) 2^places <= high, for k >= 1.

    a(k) = e^(-k^2 / (2 sigma^2)) P(rounded normal = 0) / P(rounded normal = k).
    """

    def chance() -> Ball:
        unit = ball(sigma) * ball(2).sqrt()
        lower, upper = (ldexp(2 * k + d, -1) / unit for d in (-1, 1))
        at_zero, at_k = 2 * (ldexp(1, -1) / unit).erf(), lower.erfc() - upper.erfc()
        return (-((k / unit) ** 2)).exp() * at_zero / at_k

    low, high = bracket(chance, places)
    return max(low, 0), high


def exact_scale(argument: str, value: float | Fraction) -> Fraction:
    """A noise scale as the exact number it is: 0.1 is the float64 nearest to 1/10.

    Raises InvalidParameter unless it is finite and above 0.
    """
    expected = "a finite number above 0, as int, float or Fraction"
    if isinstance(value, bool | str):
        raise InvalidParameter(argument, value, expected=expected)
    try:
        scale = Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(argument, value, expected=expected) from None
    demand(scale > 0, argument, value, expected=expected)
    return scale


def discrete_laplace(*, scale: float | Fraction, size: int, bits: RandomBits) -> Integers:
    r"""Draws of the discrete Laplace law, P(X = k) proportional to exp(-|k| / scale).

    scale: above 0, at most 2^40; size: how many. Source: the magnitude is
    floor(scale (c - ln U)) with c = ln(2 / (1 + e^(-1/scale))), since
    P(|X| >= k) = 2 q^k / (1 + q) for k >= 1 and q = e^(-1/scale); the sign is fair.

    >>> from unacorda.bits import SeededBits
    >>> discrete_laplace(scale=2, size=5, bits=SeededBits(1)).dtype
    dtype('int64')
    """
    ratio, count = within_range("scale", scale), _counted(size)
    shift = continuous.laplace_shift(ratio)
    draws = np.empty(count, dtype=np.int64)
    for start in range(0, count, continuous.CHUNK):
        part = draws[start : start + continuous.CHUNK]
        floors, signed = continuous.magnitude_chunk(part.size, scale=ratio, shift=shift, bits=bits)
        np.copysign(floors, signed, out=floors)
        np.copyto(part, floors, casting="unsafe")
    return draws


def geometric(*, scale: float | Fraction, size: int, bits: RandomBits) -> Integers:
    r"""Draws of the geometric law, P(G = k) proportional to exp(-k / scale) for k >= 0.

    scale: above 0, at most 2^40; size: how many. It is floor(-scale ln U).

    >>> from unacorda.bits import SeededBits
    >>> bool((geometric(scale=2, size=100, bits=SeededBits(1)) >= 0).all())
    True
    """
    ratio, count = within_range("scale", scale), _counted(size)
    draws = np.empty(count, dtype=np.int64)
    for start in range(0, count, continuous.CHUNK):
        part = draws[start : start + continuous.CHUNK]
        floors, _ = continuous.magnitude_chunk(part.size, scale=ratio, shift=None, bits=bits)
        np.copyto(part, floors, casting="unsafe")
    return draws


def discrete_gaussian(*, sigma: float | Fraction, size: int, bits: RandomBits) -> Integers:
    r"""Draws of the discrete Gaussian law, P(X = k) proportional to exp(-k^2 / (2 sigma^2)).

    sigma: above 0, at most 2^40 (its square is the variance only in the limit); size: how many.
    Up to sigma = 200 by an integer table of the distribution function. Above, a continuous
    normal is rounded to the nearest integer k and kept with probability a(k), the ratio of the
    two laws at k over their ratio at 0, where they differ most (docs/proofs/noise.md,
    section 5): all but about 1 in 24 sigma^2 are kept.

    >>> from unacorda.bits import SeededBits
    >>> discrete_gaussian(sigma=2, size=5, bits=SeededBits(1)).shape
    (5,)
    """
    ratio, count = within_range("sigma", sigma), _counted(size)
    draws = np.empty(count, dtype=np.int64)
    for start in range(0, count, continuous.CHUNK):
        part = draws[start : start + continuous.CHUNK]
        if ratio <= LARGEST_SIGMA:
            words = bits.words(part.size).view(np.int64)
            magnitudes = table(ratio * ratio).magnitudes(words, bits)
            signs = np.right_shift(words, 63)
            np.bitwise_xor(magnitudes, signs, out=part)
            part -= signs
        else:
            fill_by_rejection(part, sigma=ratio, bits=bits)
    return draws


def within_range(argument: str, value: float | Fraction) -> Fraction:
    """A noise scale that the samplers accept, exactly: above 0, at most 2^40."""
    scale = exact_scale(argument, value)
    if scale > continuous.LARGEST_RATIO:
        raise InvalidParameter(
            argument,
            value,
            expected="at most 2^40; for more noise round to a coarser grid, say multiples of "
            "2^20, and divide the scale by as much",
        )
    return scale


def _counted(size: int) -> int:
    try:
        count = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        count = -1
    demand(count >= 0, "size", size, expected="a whole number, 0 or above")
    return count
