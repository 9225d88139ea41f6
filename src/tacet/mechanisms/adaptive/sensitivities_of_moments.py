r"""Sensitivities of means, variances and sums of values between bounds.

A record may be any number from the lower to the upper bound. Local and down sensitivities are
computed in exact integers; smooth ones in floats whose relative error is below 2^-40
(docs/proofs/adaptive_sensitivities.md derives what is maximised here).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacet.mechanisms.adaptive.records import exact_integers
from tacet.mechanisms.adaptive.statistics import Bounded, Mean, Sum, Variance, clamped_values
from tacet.privacy.neighbors import Neighbors, ReplaceOne

__all__ = [
    "mean_down",
    "mean_local",
    "mean_smooth",
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
    x, width, count = rows.x, rows.width, len(rows.x)
    if neighbors is ReplaceOne:
        moved = min(distance, count)
        most = max(moved * width - sum(x[:moved]), sum(x[count - moved :]))
        return most * rows.unit / max(count, 1)
    means = [Fraction(width, 2)] if distance >= count else []
    # Remove the least (or the most) and add the upper (or the lower) bound, as often as is allowed.
    short, long = count * width - sum(x), sum(x)
    for removed in range(min(distance, count) + 1):
        size = count + distance - 2 * removed
        if size:
            means += [width - Fraction(short, size), Fraction(long, size)]
        if removed < count:
            short -= width - x[removed]
            long -= x[count - 1 - removed]
    return max(abs(mean - rows.mean) for mean in means) * rows.unit


def mean_down(statistic: Mean, values: ArrayLike, *, distance: int) -> Fraction:
    """The down sensitivity, exactly."""
    rows = _rows(statistic, values)
    x, count = rows.x, len(rows.x)
    means = [Fraction(rows.width, 2)] if distance >= count else []
    kept = max(count - distance, min(count, 1))
    if kept:
        means += [Fraction(sum(x[:kept]), kept), Fraction(sum(x[count - kept :]), kept)]
    return max(abs(mean - rows.mean) for mean in means) * rows.unit


def mean_smooth(
    statistic: Mean, values: ArrayLike, *, smoothness: float, neighbors: Neighbors
) -> float:
    """The smooth sensitivity by the range of the bounds, nearly."""
    numbers = np.sort(clamped_values(statistic, values))
    count = numbers.size
    sides = _sides(statistic, numbers)
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
        shares = _running_sums(1.0 - side)[np.maximum(kept, 0)]
        # The farthest records go; then comes a record from the other bound ...
        reached = np.maximum(reached, shares / np.maximum(kept * (kept + 1.0), 1.0))
        if count:
            # ... or the farthest record of all is the last to go.
            left = np.maximum(kept - 1, 0)
            spans = _running_sums(side[-1] - side)[left]
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
    count = len(rows.x)
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
    return _farther_variance(rows, {(gone, 0) for gone in range(min(distance, len(rows.x)) + 1)})


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
    for side in _sides(statistic, numbers):
        sums = _running_sums(side)
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
    x, count = rows.x, len(rows.x)
    if neighbors is ReplaceOne:
        moved = min(distance, count)
        if statistic.upper is None and moved:
            return None
        most = max(moved * rows.width - sum(x[:moved]), sum(x[count - moved :]))
        return most * rows.unit
    if statistic.upper is None:
        return None
    lower, upper = rows.lower, rows.lower + rows.width
    # A record that is gone adds what it was, with the other sign; the rest of the moves add one.
    rises = [-(lower + one) for one in x[:distance]]
    falls = [lower + one for one in x[-distance:]]
    most = 0
    for gains, bound in ((rises, max(upper, 0)), (falls, max(-lower, 0))):
        better = [gain for gain in gains if gain > bound]
        most = max(most, sum(better) + (distance - len(better)) * bound)
    return most * rows.unit


def sum_down(statistic: Sum, values: ArrayLike, *, distance: int) -> Fraction:
    """The down sensitivity, exactly."""
    rows = _rows(statistic, values)
    signed = [rows.lower + one for one in rows.x]
    falls = sum(max(one, 0) for one in signed[max(len(signed) - distance, 0) :])
    rises = sum(max(-one, 0) for one in signed[:distance])
    return max(falls, rises) * rows.unit


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
    """The values, sorted, above the lower bound, and the bounds, in whole multiples of a unit."""

    x: list[int]
    lower: int
    width: int
    unit: Fraction

    @property
    def mean(self) -> Fraction:
        return Fraction(sum(self.x), len(self.x)) if self.x else Fraction(self.width, 2)


def _rows(statistic: Bounded, values: ArrayLike) -> _Rows:
    numbers = np.sort(clamped_values(statistic, values))
    upper = statistic.lower if statistic.upper is None else statistic.upper
    ends = [float(statistic.lower), float(upper)]
    whole, unit = exact_integers(np.concatenate([numbers, ends]))
    upper_end, lower = whole.pop(), whole.pop(-1)
    return _Rows([one - lower for one in whole], lower, upper_end - lower, unit)


def _sides(statistic: Mean | Variance, numbers: Floats) -> tuple[Floats, Floats]:
    """The sorted values from 0 to 1, as seen from the lower and from the upper bound."""
    low, high = float(statistic.lower), float(statistic.upper)
    return (numbers - low) / (high - low), ((high - numbers) / (high - low))[::-1]


def _running_sums(numbers: Floats) -> Floats:
    """Sums of the first 0, 1, ... of non-negative numbers, by blocks, so that errors stay small.

    Each is within a relative 65 * 2^-53 for every power of 64 that their number reaches.
    """
    if numbers.size <= _BLOCK:
        return np.concatenate([[0.0], np.cumsum(numbers)])
    padded = np.zeros(-(-numbers.size // _BLOCK) * _BLOCK)
    padded[: numbers.size] = numbers
    inner = np.cumsum(padded.reshape(-1, _BLOCK), axis=1)
    inner += _running_sums(inner[:, -1])[:-1, None]
    return np.concatenate([[0.0], inner.reshape(-1)[: numbers.size]])


def _farther_variance(rows: _Rows, ways: set[tuple[int, int]]) -> Fraction:
    """How far the variance moves where so many records are removed, and so many added."""
    sums = list(accumulate(rows.x, initial=0))
    squares = list(accumulate((one * one for one in rows.x), initial=0))
    count = len(rows.x)
    spread = Fraction(count * squares[-1] - sums[-1] ** 2, max(count, 1) ** 2)
    most = Fraction(0)
    for removed, added in ways:
        if count - removed + added == 0:
            most = max(most, spread)
            continue
        least = _least_variance(sums, squares, removed, added)
        widest = _most_variance(rows, sums, squares, removed, added)
        most = max(most, spread - least, widest - spread)
    return most * rows.unit**2


def _least_variance(sums: list[int], squares: list[int], removed: int, added: int) -> Fraction:
    """A stretch of the sorted records stays, and what is added stands at its mean."""
    kept = len(sums) - 1 - removed
    if not kept:
        return Fraction(0)
    least = min(
        kept * (squares[start + kept] - squares[start]) - (sums[start + kept] - sums[start]) ** 2
        for start in range(removed + 1)
    )
    return Fraction(least, kept * (kept + added))


def _most_variance(
    rows: _Rows, sums: list[int], squares: list[int], removed: int, added: int
) -> Fraction:
    """A stretch of the sorted records goes, and what is added stands at the bounds."""
    kept = len(rows.x) - removed
    size, most = kept + added, 0
    for high in range(added + 1):
        # How many stay below the stretch: moving on by one improves, until it does not.
        below, stop = 0, kept if removed else 0
        while below < stop:
            middle = (below + stop) // 2
            others = sums[middle] + sums[-1] - sums[middle + removed + 1] + high * rows.width
            if (size - 1) * (rows.x[middle] + rows.x[middle + removed]) <= 2 * others:
                below = middle + 1
            else:
                stop = middle
        total = sums[-1] - sums[below + removed] + sums[below] + high * rows.width
        square = squares[-1] - squares[below + removed] + squares[below] + high * rows.width**2
        most = max(most, size * square - total * total)
    return Fraction(most, size * size)
