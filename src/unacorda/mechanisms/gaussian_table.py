"""The discrete Gaussian of small sigma from an integer table of its distribution function.

P(X = k) is proportional to exp(-k^2 / (2 sigma^2)) over the integers. Threshold k of the table is
floor(2^63 P(|X| <= k)), so |X| is the number of thresholds at or below a 63-bit uniform number,
unless that number equals one: then `magnitude_from_prefix` decides with more bits. The table is
certified: every weight is bracketed between two integers and both must give one threshold.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.refine import LazyUniform, exp_bounds

__all__ = ["LARGEST_SIGMA", "Table", "cumulative_bounds", "table"]

LARGEST_SIGMA: Final = 200
"""Above this sigma rejection is as fast and needs no table."""

_UNIFORM_BITS = 63
_GUIDE_BITS = 14
_FEW = 64  # below this many draws each is compared with all thresholds, in constant time


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
class Table:
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
def table(variance: Fraction) -> Table:
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
    return Table(variance=variance, thresholds=thresholds, guide=guide)


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
