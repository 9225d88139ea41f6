r"""Sensitivities of means, variances and sums of values between bounds.

A record may be any number from the lower to the upper bound. Local and down sensitivities are
computed in exact fractions; smooth ones in floats whose relative error is below 2^-40
(docs/proofs/adaptive_sensitivities.md derives what is maximised here).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.mechanisms.adaptive.records import exact_sum, exact_sum_of_squares
from unacorda.mechanisms.adaptive.statistics import Bounded, Mean, Sum, Variance, clamped_values
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = [
    "from_both_bounds",
    "mean_down",
    "mean_local",
    "mean_smooth",
    "running_sums",
    "sum_down",
    "sum_local",
    "sum_smooth",
    "variance_down",
    "variance_local",
    "variance_smooth",
]

Floats: TypeAlias = NDArray[np.float64]

_BLOCK: Final = 64


# ---- means


def mean_local(
    statistic: Mean, values: ArrayLike, *, distance: int, neighbors: Neighbors
) -> Fraction:
    """The k-local sensitivity, exactly."""
    rows = _rows(statistic, values)
    width, count = rows.width, rows.count
    if neighbors is ReplaceOne:
        moved = min(distance, count)
        most = max(moved * width - rows.sum(0, moved), rows.sum(count - moved, count))
        return most / max(count, 1)
    means = [width / 2] if distance >= count else []
    # Remove the least (or the most) and add the upper (or the lower) bound, as often as is allowed.
    short, long = count * width - rows.total, rows.total
    for removed in range(min(distance, count) + 1):
        size = count + distance - 2 * removed
        if size:
            means += [width - short / size, long / size]
        if removed < count:
            short -= width - rows.at(removed)
            long -= rows.at(count - 1 - removed)
    here = rows.mean
    return max(abs(mean - here) for mean in means)


def mean_down(statistic: Mean, values: ArrayLike, *, distance: int) -> Fraction:
    """The down sensitivity, exactly."""
    rows = _rows(statistic, values)
    count = rows.count
    means = [rows.width / 2] if distance >= count else []
    kept = max(count - distance, min(count, 1))
    if kept:
        means += [rows.sum(0, kept) / kept, rows.sum(count - kept, count) / kept]
    here = rows.mean
    return max(abs(mean - here) for mean in means)


def mean_smooth(
    statistic: Mean, values: ArrayLike, *, smoothness: float, neighbors: Neighbors
) -> float:
    """The smooth sensitivity by the range of the bounds, nearly."""
    numbers = np.sort(clamped_values(statistic, values))
    count = numbers.size
    sides = from_both_bounds(statistic, numbers)
    if neighbors is ReplaceOne:
        if not count:
            return 0.0
        return max(float(max(side[-1] for side in sides)), math.exp(-smoothness)) / count
    # At 0 it is at least 1/(2 (n + 1)), and never above 1/2.
    last = min(count, math.ceil(math.log(count + 1) / smoothness) + 1)
    moves = np.arange(last + 1)
    reached = np.where(moves >= count, 0.5, 0.0)
    for side in sides:
        kept = count - moves
        shares = running_sums(1.0 - side)[np.maximum(kept, 0)]
        # The farthest records go; then comes a record from the other bound ...
        reached = np.maximum(reached, shares / np.maximum(kept * (kept + 1.0), 1.0))
        if count:
            # ... or the farthest record of all is the last to go.
            left = np.maximum(kept - 1, 0)
            spans = running_sums(side[-1] - side)[left]
            reached = np.maximum(reached, spans / np.maximum(left * (left + 1.0), 1.0))
            if last >= count - 1:
                reached[count - 1] = max(reached[count - 1], abs(float(side[-1]) - 0.5))
    return float((np.exp(-smoothness * moves) * reached).max())


# ---- variances


def variance_local(
    statistic: Variance, values: ArrayLike, *, distance: int, neighbors: Neighbors
) -> Fraction:
    """The k-local sensitivity, exactly."""
    rows = _rows(statistic, values)
    count = rows.count
    if neighbors is ReplaceOne:
        moved = min(distance, count)
        ways = {(moved, moved)} if count else set()
    else:
        # With two more than there are, every variance that there is can be reached.
        distance = min(distance, count + 2)
        ways = {
            (removed, moved - removed)
            for moved in range(distance + 1)
            for removed in range(min(moved, count) + 1)
        }
    return _farther_variance(rows, ways)


def variance_down(statistic: Variance, values: ArrayLike, *, distance: int) -> Fraction:
    """The down sensitivity, exactly."""
    rows = _rows(statistic, values)
    return _farther_variance(rows, {(gone, 0) for gone in range(min(distance, rows.count) + 1)})


def variance_smooth(statistic: Variance, values: ArrayLike, *, smoothness: float) -> float:
    """The smooth sensitivity where a record is replaced, by the squared range, nearly."""
    numbers = np.sort(clamped_values(statistic, values))
    count = numbers.size
    if count < 2:
        return 0.0
    # The local sensitivity is at least 1/8 of the global one.
    moves = np.arange(min(count, math.ceil(3 / smoothness)) + 1)
    reached = np.zeros(moves.size)
    others = count - 1.0
    for side in from_both_bounds(statistic, numbers):
        sums = running_sums(side)
        # The record that is replaced first stands at the mean of the others, then at the bound.
        free = others * (1.0 - sums[count - moves] / others) ** 2
        reached = np.maximum(reached, np.where(moves >= 1, free, 0.0))
        some = moves[moves < count]
        # It is the farthest record, then at the mean of the others.
        centre = sums[count - 1 - some] / others
        drawn = others * (side[-1] - centre) ** 2
        # It is the record nearest to where it does most, then at the bound.
        total = sums[count - some]
        place = np.searchsorted(side, (1.0 + total) / (count + 1.0))
        for near in (place - 1, place):
            record = side[np.clip(near, 0, count - some - 1)]
            pushed = (1.0 - record) * (others + (count + 1.0) * record - 2.0 * total)
            drawn = np.maximum(drawn, pushed)
        reached[: some.size] = np.maximum(reached[: some.size], drawn)
    return float((np.exp(-smoothness * moves) * reached).max()) / float(count) ** 2


# ---- sums


def sum_local(
    statistic: Sum, values: ArrayLike, *, distance: int, neighbors: Neighbors
) -> Fraction | None:
    """The k-local sensitivity, exactly; None where it is infinite."""
    rows = _rows(statistic, values)
    count = rows.count
    if neighbors is ReplaceOne:
        moved = min(distance, count)
        if statistic.upper is None and moved:
            return None
        return max(moved * rows.width - rows.sum(0, moved), rows.sum(count - moved, count))
    if statistic.upper is None:
        return None
    most = Fraction(0)
    # A record that is gone adds what it was, with the other sign; the rest of the moves add one.
    for gains, bound in (
        (-rows.numbers[:distance], rows.lower + rows.width),
        (rows.numbers[-distance:], -rows.lower),
    ):
        least = max(bound, Fraction(0))
        better = gains[gains > float(least)]
        most = max(most, exact_sum(better) + (distance - better.size) * least)
    return most


def sum_down(statistic: Sum, values: ArrayLike, *, distance: int) -> Fraction:
    """The down sensitivity, exactly."""
    numbers = _rows(statistic, values).numbers
    rises = exact_sum(np.minimum(numbers[:distance], 0))
    return max(exact_sum(np.maximum(numbers[-distance:], 0)), -rises)


def sum_smooth(
    statistic: Sum, values: ArrayLike, *, smoothness: float, neighbors: Neighbors
) -> float:
    """The smooth sensitivity, nearly; infinite where nothing bounds a total."""
    numbers = clamped_values(statistic, values)
    if neighbors is ReplaceOne and not numbers.size:
        return 0.0
    if statistic.upper is None:
        return math.inf
    low, high = float(statistic.lower), float(statistic.upper)
    if neighbors is ReplaceOne:
        farther = max(high - float(numbers.min()), float(numbers.max()) - low)
        return max(farther, math.exp(-smoothness) * (high - low))
    return max(abs(low), abs(high))


# ---- what they share


@dataclass(frozen=True, slots=True)
class _Rows:
    """The sorted values, and what is exact: the bounds, and sums of how far values are above."""

    numbers: Floats
    lower: Fraction
    width: Fraction

    @property
    def count(self) -> int:
        return self.numbers.size

    def at(self, place: int) -> Fraction:
        return Fraction(float(self.numbers[place])) - self.lower

    def sum(self, start: int, stop: int) -> Fraction:
        part = self.numbers[start:stop]
        return exact_sum(part) - part.size * self.lower

    def squares(self, start: int, stop: int) -> Fraction:
        part = self.numbers[start:stop]
        twice = 2 * exact_sum(part) - part.size * self.lower
        return exact_sum_of_squares(part) - self.lower * twice

    @property
    def total(self) -> Fraction:
        return self.sum(0, self.count)

    @property
    def mean(self) -> Fraction:
        return self.total / self.count if self.count else self.width / 2


def _rows(statistic: Bounded, values: ArrayLike) -> _Rows:
    lower = Fraction(float(statistic.lower))
    upper = lower if statistic.upper is None else Fraction(float(statistic.upper))
    return _Rows(np.sort(clamped_values(statistic, values)), lower, upper - lower)


def from_both_bounds(statistic: Mean | Variance, numbers: Floats) -> tuple[Floats, Floats]:
    """The sorted values from 0 to 1, as seen from the lower and from the upper bound."""
    low, high = float(statistic.lower), float(statistic.upper)
    return (numbers - low) / (high - low), ((high - numbers) / (high - low))[::-1]


def running_sums(numbers: Floats) -> Floats:
    """Sums of the first 0, 1, ... of non-negative numbers, by blocks, so that errors stay small.

    Each is within a relative 65 * 2^-53 for every power of 64 that their number reaches.
    """
    if numbers.size <= _BLOCK:
        return np.concatenate([[0.0], np.cumsum(numbers)])
    padded = np.zeros(-(-numbers.size // _BLOCK) * _BLOCK)
    padded[: numbers.size] = numbers
    inner = np.cumsum(padded.reshape(-1, _BLOCK), axis=1)
    inner += running_sums(inner[:, -1])[:-1, None]
    return np.concatenate([[0.0], inner.reshape(-1)[: numbers.size]])


def _farther_variance(rows: _Rows, ways: set[tuple[int, int]]) -> Fraction:
    """How far the variance moves where so many records are removed, and so many added."""
    count, both = rows.count, (rows.total, rows.squares(0, rows.count))
    spread = (count * both[1] - both[0] ** 2) / max(count, 1) ** 2
    most = Fraction(0)
    for removed, added in ways:
        if count - removed + added == 0:
            most = max(most, spread)
            continue
        least = _least_variance(rows, both, removed, added)
        widest = _most_variance(rows, both, removed, added)
        most = max(most, spread - least, widest - spread)
    return most


def _least_variance(
    rows: _Rows, both: tuple[Fraction, Fraction], removed: int, added: int
) -> Fraction:
    """A stretch of the sorted records stays, and what is added stands at its mean."""
    kept = rows.count - removed
    if not kept:
        return Fraction(0)
    total, square = both
    for place in range(kept, rows.count):
        total, square = total - rows.at(place), square - rows.at(place) ** 2
    least = kept * square - total * total
    for start in range(removed):
        first, last = rows.at(start), rows.at(start + kept)
        total, square = total - first + last, square - first**2 + last**2
        least = min(least, kept * square - total * total)
    return least / (kept * (kept + added))


def _most_variance(
    rows: _Rows, both: tuple[Fraction, Fraction], removed: int, added: int
) -> Fraction:
    """A stretch of the sorted records goes, and what is added stands at the bounds."""
    kept = rows.count - removed
    size, most = kept + added, Fraction(0)
    for high in range(added + 1):
        total, square = both[0] + high * rows.width, both[1] + high * rows.width**2
        # How many stay below the stretch: moving on by one improves, until it does not.
        below, stop = 0, kept if removed else 0
        while below < stop:
            middle = (below + stop) // 2
            others = total - rows.sum(middle, middle + removed + 1)
            if (size - 1) * (rows.at(middle) + rows.at(middle + removed)) <= 2 * others:
                below = middle + 1
            else:
                stop = middle
        total -= rows.sum(below, below + removed)
        square -= rows.squares(below, below + removed)
        most = max(most, size * square - total * total)
    return most / size**2
