r"""The smooth sensitivity of a variance where records come or go.

Values are between bounds, seen as numbers from 0 to 1. A pair of neighbours is a set y of m
records and y with one more, v: the variance rises by (m/(m + 1) (v - mean)^2 - f(y)) / (m + 1).
docs/proofs/adaptive_sensitivities.md, section 5, shows which pairs are enough: of each size those
nearest to one bound with v far off, or those farthest apart with v in the middle (Theorem 9).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.mechanisms.adaptive.sensitivities_of_moments import from_both_bounds, running_sums
from unacorda.mechanisms.adaptive.statistics import Variance, clamped_values

__all__ = ["variance_smooth_come_or_go"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_SEARCHED: Final = 16  # with more changes, a record that goes does less than what is elsewhere
_LARGEST_WITH_OTHERS: Final = 4  # larger sets do not gain by records that are no part of the data


def variance_smooth_come_or_go(
    statistic: Variance, values: ArrayLike, *, smoothness: float
) -> float:
    """The smooth sensitivity by the squared range, nearly."""
    low, high = from_both_bounds(statistic, np.sort(clamped_values(statistic, values)))
    moves = _moves_that_matter(low.size, smoothness)
    discounts = np.exp(-smoothness * moves)
    most = 0.0
    for side in (low, high):
        most = max(most, _most_with_others(side, smoothness))
        if moves.size:
            most = max(most, float((discounts * _rises(side, moves)).max()))
    if low.size < 2:
        return most
    ends = _Ends.of(low)
    # The record that comes stands at the mean.
    most = max(most, float((discounts * ends.widest(moves)).max()))
    # A record goes: never more than what comes at the mean does to those that are left.
    for gone in range(min(_SEARCHED, low.size - 2)):
        discount = math.exp(-smoothness * gone)
        widest = float(ends.widest(np.array([gone + 1]))[0])
        if discount * widest > most:
            most = max(most, discount * ends.steepest_fall(gone))
    return most


def _moves_that_matter(count: int, smoothness: float) -> Ints:
    """How many records may go, but for numbers whose discount makes them too small."""
    moves = np.arange(count)
    # At 0 it is at least n / (8 (n + 1)^2), and never above 1 / (n - k).
    shares = (count - moves) * (count / (9.0 * (count + 1.0) ** 2))
    matter: Ints = moves[(np.exp(-smoothness * moves) >= shares) | (moves == 0)]
    return matter


def _rise(total: Floats, square: Floats, size: Floats) -> Floats:
    """How far one record more lifts the variance, by the sums of how far it is from the others."""
    far = total / size
    return (far * far * ((2.0 * size + 1.0) / (size + 1.0)) - square / size) / (size + 1.0)


def _rises(side: Floats, moves: Ints) -> Floats:
    """The largest rises where so many may go: the least records stay, one far above them comes."""
    count = side.size
    kept = (count - moves).astype(np.float64)
    far = 1.0 - side
    free = _rise(running_sums(far)[count - moves], running_sums(far * far)[count - moves], kept)
    # Or it was there: the largest record of all.
    left = np.maximum(count - moves - 1, 0)
    far = side[-1] - side
    own = _rise(running_sums(far)[left], running_sums(far * far)[left], np.maximum(left, 1.0))
    return np.maximum(free, np.where(left >= 1, own, 0.0))


def _most_with_others(side: Floats, smoothness: float) -> float:
    """Sets of a few of the least records and of some more at the bound, and one far above them."""
    most = 0.0
    for kept in range(min(side.size, _LARGEST_WITH_OTHERS - 1) + 1):
        for added in range(1, _LARGEST_WITH_OTHERS - kept + 1):
            size = np.array(float(kept + added))
            ends = [(1.0, side.size - kept + added)]
            if kept < side.size:
                ends.append((float(side[-1]), side.size - kept - 1 + added))
            for end, distance in ends:
                far = end - np.concatenate([side[:kept], np.zeros(added)])
                rise = float(_rise(far.sum(), (far * far).sum(), size))
                most = max(most, math.exp(-smoothness * distance) * rise)
    return most


@dataclass(frozen=True, slots=True)
class _Ends:
    """Sums of the least and of the largest records: those that stay where variances are large."""

    side: Floats
    least: Floats
    largest: Floats
    least_squares: Floats
    largest_squares: Floats

    @classmethod
    def of(cls, side: Floats) -> _Ends:
        squares = side * side
        return cls(
            side,
            running_sums(side),
            running_sums(side[::-1]),
            running_sums(squares),
            running_sums(squares[::-1]),
        )

    def variance(self, below: Ints, above: Ints) -> tuple[Floats, Floats]:
        """The mean and the variance of so many of the least and of the largest records."""
        size = np.maximum(below + above, 1.0)
        mean = (self.least[below] + self.largest[above]) / size
        square = (self.least_squares[below] + self.largest_squares[above]) / size
        return mean, square - mean * mean

    def widest(self, moves: Ints) -> Floats:
        """The largest variance where so many went, by its number of records and one."""
        count = self.side.size
        kept = np.maximum(count - moves, 0)
        # How many stay below those that went: one more is better, until it is not.
        below, stop = np.zeros_like(kept), np.where(moves >= 1, kept, 0)
        while (below < stop).any():
            middle = (below + stop) // 2
            open_ = below < stop
            first = np.where(open_, middle, 0)
            above = np.where(open_, kept - first - 1, 0)
            others = self.least[first] + self.largest[above]
            # The record that would come in, and the one that would go for it.
            both = self.side[first] + self.side[np.minimum(first + moves, count - 1)]
            better = open_ & ((kept - 1) * both <= 2.0 * others)
            below = np.where(better, middle + 1, below)
            stop = np.where(open_ & ~better, middle, stop)
        _, variance = self.variance(below, kept - below)
        return np.where(kept >= 2, variance, 0.0) / (kept + 1.0)

    def steepest_fall(self, gone: int) -> float:
        """How far the variance falls as one record comes back, of `gone` + 1 next to each other."""
        count = self.side.size
        size = count - gone - 1
        below = np.arange(size + 1)
        mean, variance = self.variance(below, size - below)
        place = np.searchsorted(self.side, mean)
        away = np.full(mean.size, math.inf)
        for near in (place - 1, place):
            record = self.side[np.clip(near, below, below + gone)]
            away = np.minimum(away, np.abs(record - mean))
        falls = variance - away * away * (size / (size + 1.0))
        return float(falls.max()) / (size + 1.0)
