r"""Sums and means of values between bounds.

**Sensitivities.** A record may be any number from the lower to the upper bound. Local and down
sensitivities are computed in exact fractions; smooth ones in floats whose relative error is below
2^-40 (docs/proofs/adaptive_sensitivities.md derives what is maximised here).

**Losses.** The largest sum after k changes adds the k largest gains: of a replaced record upper -
x, of a removed one -x, of an added one upper. Largest mean under replacement: the same sum over n.
Under addition and removal, with k changes of which r remove the least records and k - r add upper:

    mean_k(r) = (S - P_r + (k - r) upper) / (n + k - 2 r),

which is largest where one removal more no longer pays; that r does not fall as k grows. The least
ones are mirror images. Exact arithmetic throughout.

Passing losses (`runs`); exact under replacement, where the sum of k changed records takes every
value between the ends, and for a sum wherever the last change may be an addition.

Proofs: docs/proofs/adaptive_inverse.md, section 3.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain, repeat
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.checks import Number
from unacorda.mechanisms.data_dependent.statistics import base
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

Floats: TypeAlias = NDArray[np.float64]
Steps: TypeAlias = NDArray[np.int64]

_BLOCK: Final = 64
_LIMB: Final = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(base.BetweenBounds):
    """The mean, exactly; for empty data the middle of the bounds.

    Parameters
    ----------
    lower, upper
        Public, lower < upper.

    Examples
    --------
    >>> Mean(lower=0, upper=10).value([1, 2, 99])
    Fraction(13, 3)
    """

    def value(self, values: ArrayLike) -> Fraction:
        """The answer itself. NOT private: never release it."""
        numbers = base.clamped_values(self, values)
        if not numbers.size:
            return sum(base.ends_of(self), Fraction(0)) / 2
        return base.exact_sum(numbers) / numbers.size

    def local(self, values: ArrayLike, *, distance: int, neighbors: Neighbors) -> Fraction:
        """The local sensitivity at this distance, exactly."""
        rows = rows_of(self, values)
        width, count = rows.width, rows.count
        if neighbors is ReplaceOne:
            moved = min(distance, count)
            most = max(moved * width - rows.sum(0, moved), rows.sum(count - moved, count))
            return most / max(count, 1)
        means = [width / 2] if distance >= count else []
        # Remove the least (or the most) and add the upper (or the lower) bound, as often as may be.
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

    def down(self, values: ArrayLike, *, distance: int) -> Fraction:
        """The down sensitivity at this distance, exactly."""
        rows = rows_of(self, values)
        count = rows.count
        means = [rows.width / 2] if distance >= count else []
        kept = max(count - distance, min(count, 1))
        if kept:
            means += [rows.sum(0, kept) / kept, rows.sum(count - kept, count) / kept]
        here = rows.mean
        return max(abs(mean - here) for mean in means)

    def smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        """The smooth sensitivity, nearly."""
        width = self.width
        return width * self._smooth(values, smoothness=smoothness, neighbors=neighbors)

    def losses(
        self, values: ArrayLike, *, neighbors: Neighbors, grid: base.AnswerGrid, most: int
    ) -> base.Runs:
        """The loss of every step of the grid."""
        steps, _ = base.steps_of_values(self, values, grid.log2)
        low, high = self.answers
        return _mean_losses(
            steps, grid=grid, most=most, replace=neighbors is ReplaceOne, empty=(low + high) / 2
        )

    def _smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        """By the range of the bounds."""
        numbers = np.sort(base.clamped_values(self, values))
        count = numbers.size
        sides = from_both_bounds(self, numbers)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(base.Statistic, base.Invertible):
    """The sum of one total a person, exactly; 0 for empty data.

    Parameters
    ----------
    lower, upper
        Public, lower < upper; upper may be None where lower is 0: totals that are non-negative
        and of any size (an infinite one counts as the largest float64), for mechanisms that
        only ever remove people.

    Examples
    --------
    >>> Sum(lower=0, upper=None).value([1, -2, 99])
    Fraction(100, 1)
    """

    lower: Number
    upper: Number | None

    def __post_init__(self) -> None:
        if self.upper is not None:
            base.keep_bounds(self)
            return
        object.__setattr__(self, "lower", checks.exact("lower", self.lower))
        checks.demand(self.lower == 0, "lower", self.lower, expected="0 where upper is None")

    def value(self, values: ArrayLike) -> Fraction:
        """The answer itself. NOT private: never release it."""
        return base.exact_sum(base.clamped_values(self, values))

    @property
    def answers(self) -> tuple[Fraction, Fraction]:
        """The bounds of a total, of no use: of a sum the caller says where answers lie."""
        return Fraction(self.lower), Fraction(self.upper or 0)

    def answer_grid(
        self, log2: int | None, *, answers: tuple[Fraction, Fraction]
    ) -> base.AnswerGrid:
        """The grid of the totals, within the answers."""
        return base.grid_of_answers(self, log2, answers=answers)

    def local(self, values: ArrayLike, *, distance: int, neighbors: Neighbors) -> Fraction | None:
        """The local sensitivity at this distance, exactly; None where it is infinite."""
        rows = rows_of(self, values)
        count = rows.count
        if neighbors is ReplaceOne:
            moved = min(distance, count)
            if self.upper is None and moved:
                return None
            return max(moved * rows.width - rows.sum(0, moved), rows.sum(count - moved, count))
        if self.upper is None:
            return None
        most = Fraction(0)
        # A record that is gone adds what it was, with the other sign; the other moves add one.
        for gains, bound in (
            (-rows.numbers[:distance], rows.lower + rows.width),
            (rows.numbers[-distance:], -rows.lower),
        ):
            least = max(bound, Fraction(0))
            better = gains[gains > float(least)]
            most = max(most, base.exact_sum(better) + (distance - better.size) * least)
        return most

    def down(self, values: ArrayLike, *, distance: int) -> Fraction:
        """The down sensitivity at this distance, exactly."""
        numbers = rows_of(self, values).numbers
        rises = base.exact_sum(np.minimum(numbers[:distance], 0))
        return max(base.exact_sum(np.maximum(numbers[-distance:], 0)), -rises)

    def smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        """The smooth sensitivity, nearly; infinite where nothing bounds a total."""
        if self.upper is not None:
            base.width_of(self)  # refuses bounds that are too near
        numbers = base.clamped_values(self, values)
        if neighbors is ReplaceOne and not numbers.size:
            return 0.0
        if self.upper is None:
            return math.inf
        low, high = float(self.lower), float(self.upper)
        if neighbors is ReplaceOne:
            farther = max(high - float(numbers.min()), float(numbers.max()) - low)
            return max(farther, math.exp(-smoothness) * (high - low))
        return max(abs(low), abs(high))

    def losses(
        self, values: ArrayLike, *, neighbors: Neighbors, grid: base.AnswerGrid, most: int
    ) -> base.Runs:
        """The loss of every step of the grid."""
        steps, inner = base.steps_of_values(self, values, grid.log2)
        replace = neighbors is ReplaceOne
        return _total_losses(steps, values=inner, grid=grid, most=most, replace=replace)


# ---- exact sums, of variances too


@dataclass(frozen=True, slots=True)
class SortedValues:
    """The sorted values, and what is exact: the bounds, and sums of how far values are above."""

    numbers: Floats
    lower: Fraction
    width: Fraction

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.numbers.size

    def at(self, place: int) -> Fraction:
        """How far the value at a place is above the lower bound."""
        return Fraction(float(self.numbers[place])) - self.lower

    def sum(self, start: int, stop: int) -> Fraction:
        """The sum of a stretch of them."""
        part = self.numbers[start:stop]
        return base.exact_sum(part) - part.size * self.lower

    def squares(self, start: int, stop: int) -> Fraction:
        """The sum of the squares of a stretch of them."""
        part = self.numbers[start:stop]
        twice = 2 * base.exact_sum(part) - part.size * self.lower
        return base.exact_sum_of_squares(part) - self.lower * twice

    @property
    def total(self) -> Fraction:
        """The sum of all."""
        return self.sum(0, self.count)

    @property
    def mean(self) -> Fraction:
        """The mean, of no records the middle of the bounds."""
        return self.total / self.count if self.count else self.width / 2


def rows_of(statistic: base.Between, values: ArrayLike) -> SortedValues:
    """The sorted values and what is exact about them."""
    lower = Fraction(float(statistic.lower))
    upper = lower if statistic.upper is None else Fraction(float(statistic.upper))
    return SortedValues(np.sort(base.clamped_values(statistic, values)), lower, upper - lower)


def from_both_bounds(statistic: base.BetweenBounds, numbers: Floats) -> tuple[Floats, Floats]:
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


def total_of(steps: Steps) -> int:
    """The exact sum of steps, each of at most 2^53 in magnitude."""
    low = steps & ((1 << _LIMB) - 1)
    return (int((steps >> _LIMB).sum()) << _LIMB) + int(low.sum())


# ---- losses


def _total_losses(
    steps: Steps, *, values: base.AnswerGrid, grid: base.AnswerGrid, most: int, replace: bool
) -> base.Runs:
    """The sum; steps: sorted, of the grid `values`; grid: of the answers, with the same step."""
    sum_ = total_of(steps)
    highs = _partial(sum_, _gains(steps, values, most=most, replace=replace), most)
    mirrored = _gains(*_mirror(steps, values), most=most, replace=replace)
    lows = [-low for low in _partial(-sum_, mirrored, most)]
    return base.from_reach(
        [_inside(low, grid) for low in lows],
        [_inside(high, grid) for high in highs],
        grid=grid,
        most=most,
    )


def _mean_losses(
    steps: Steps, *, grid: base.AnswerGrid, most: int, replace: bool, empty: Fraction
) -> base.Runs:
    """The mean, rounded to the grid of the values; steps: sorted; empty: that of no records."""
    none = empty / Fraction(2) ** grid.log2
    top, bottom = none.numerator, none.denominator
    mirrored, turned = _mirror(steps, grid)
    largest = _replaced_means if replace else _largest_means
    highs = largest(steps, grid, (top, bottom), most)
    lows = largest(mirrored, turned, (-top, bottom), most)
    return base.from_reach(
        [_nearest(-sum_, count) for sum_, count in lows],
        [_nearest(sum_, count) for sum_, count in highs],
        grid=grid,
        most=most,
    )


def _gains(steps: Steps, values: base.AnswerGrid, *, most: int, replace: bool) -> Iterator[int]:
    """By how much each change raises the sum, the most first."""
    least = (int(step) for step in steps[:most])
    if replace:
        return (values.last - step for step in least)
    added = max(values.last, 0)
    removed = (-step for step in least if -step > added)
    return chain(removed, repeat(added) if added else ())


def _partial(start: int, gains: Iterator[int], most: int) -> list[int]:
    limited = (gain for gain, _ in zip(gains, range(most), strict=False))
    return list(accumulate(limited, initial=start))


def _replaced_means(
    steps: Steps, grid: base.AnswerGrid, empty: tuple[int, int], most: int
) -> Iterator[tuple[int, int]]:
    """The largest mean, as sum and count, for k = 0, 1, ... records replaced."""
    if not steps.size:
        return iter([empty])
    gains = _gains(steps, grid, most=most, replace=True)
    return ((sum_, steps.size) for sum_ in _partial(total_of(steps), gains, most))


def _largest_means(
    steps: Steps, grid: base.AnswerGrid, empty: tuple[int, int], most: int
) -> Iterator[tuple[int, int]]:
    """The largest mean, as sum and count, within k additions and removals, k = 0, 1, ..., most."""
    upper, n, rest, removed = grid.last, steps.size, total_of(steps), 0
    least = steps[:most].tolist()
    yield (rest, n) if n else empty
    for k in range(1, most + 1):
        top, count = rest + (k - removed) * upper, n + k - 2 * removed
        while removed < min(k, n):
            more, left = top - least[removed] - upper, count - 2
            # The last record may go only where another one has been added.
            if left < 1 or more * count <= top * left:
                break
            rest -= least[removed]
            removed += 1
            top, count = more, left
        if k >= n and empty[0] * count > top * empty[1]:
            top, count = empty
        yield top, count


def _nearest(sum_: int, count: int) -> int:
    """The whole number nearest to the quotient, the upper of two."""
    return (2 * sum_ + count) // (2 * count)


def _inside(step: int, grid: base.AnswerGrid) -> int:
    return min(max(step, grid.first), grid.last)


def _mirror(steps: Steps, grid: base.AnswerGrid) -> tuple[Steps, base.AnswerGrid]:
    return -steps[::-1], base.AnswerGrid(-grid.last, -grid.first, grid.log2)
