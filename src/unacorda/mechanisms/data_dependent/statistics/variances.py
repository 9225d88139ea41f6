r"""The variance of values between bounds.

**Sensitivities.** Local and down sensitivities are exact. For the smooth one, values are seen as
numbers from 0 to 1. A pair of neighbors is a set y of m records and y with one more, v: the
variance rises by (m/(m + 1) (v - mean)^2 - f(y)) / (m + 1). docs/proofs/adaptive_sensitivities.md,
section 5, shows which pairs are enough: of each size those nearest to one bound with v far off, or
those farthest apart with v in the middle (Theorem 9).

**Losses.** With r records removed and a added (r = a = k where records are replaced, r + a <= k
otherwise) the variance is

- least where those that are left are neighbors in order and those added lie at their mean;
- most where those removed are neighbors in order and those added lie at the two bounds. How much
  of them at which one may be any real number: a little more than records can do, so that these
  losses may be a little below the passing losses. They move by at most 1 all the same.

Where the block of removed records lies is found by bisection: shifting it by one pays as long as
the mean of all others lies above the middle of the two records exchanged, which ends once and for
all.

Values are rounded to a 2^20-th of their range, so that sums fit in int64. Exact throughout.
Proofs: docs/proofs/adaptive_inverse.md, section 5.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.mechanisms.data_dependent.statistics import base
from unacorda.mechanisms.data_dependent.statistics.sums import (
    SortedValues,
    from_both_bounds,
    rows_of,
    running_sums,
)
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Steps: TypeAlias = NDArray[np.int64]
Exact: TypeAlias = NDArray[Any]
Flags: TypeAlias = NDArray[np.bool_]

_SEARCHED: Final = 16  # with more changes, a record that goes does less than what is elsewhere
_LARGEST_WITH_OTHERS: Final = 4  # larger sets do not gain by records that are no part of the data
_VARIANCES_LOG2: Final = 20  # the default grid of variances divides their interval so many times
_BITS: Final = 20
_NARROW: Final = 1 << 21  # records of which sums of squares fit in int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(base.BetweenBounds):
    """The mean squared distance from the mean (divided by n), exactly; 0 for empty data.

    Parameters
    ----------
    lower, upper
        Public, lower < upper.

    Examples
    --------
    >>> Variance(lower=0, upper=10).value([1, 2, 6])
    Fraction(14, 3)
    """

    most: ClassVar[int] = 256
    """Losses end here at the latest: all pairs of removals and additions are looked at."""

    @property
    def answers(self) -> tuple[Fraction, Fraction]:
        """From 0 to the square of half the distance of the bounds."""
        return Fraction(0), (Fraction(self.upper) - Fraction(self.lower)) ** 2 / 4

    def answer_grid(
        self, log2: int | None, *, answers: tuple[Fraction, Fraction]
    ) -> base.AnswerGrid:
        """A grid of about 2^20 answers by default."""
        coarse = floor_log2(answers[1]) - _VARIANCES_LOG2
        finest = base.AnswerGrid.within(*answers, None).log2
        return base.AnswerGrid.within(*answers, max(coarse, finest) if log2 is None else log2)

    def value(self, values: ArrayLike) -> Fraction:
        """The answer itself. NOT private: never release it."""
        numbers = base.clamped_values(self, values)
        if not numbers.size:
            return Fraction(0)
        mean = base.exact_sum(numbers) / numbers.size
        return base.exact_sum_of_squares(numbers) / numbers.size - mean * mean

    def local(self, values: ArrayLike, *, distance: int, neighbors: Neighbors) -> Fraction:
        """The local sensitivity at this distance, exactly."""
        rows = rows_of(self, values)
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

    def down(self, values: ArrayLike, *, distance: int) -> Fraction:
        """The down sensitivity at this distance, exactly."""
        rows = rows_of(self, values)
        return _farther_variance(rows, {(gone, 0) for gone in range(min(distance, rows.count) + 1)})

    def smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        """The smooth sensitivity, nearly."""
        width = self.width
        numbers = np.sort(base.clamped_values(self, values))
        found = _smooth_replaced if neighbors is ReplaceOne else _smooth_added_or_removed
        return width * width * found(*from_both_bounds(self, numbers), smoothness)

    def losses(
        self, values: ArrayLike, *, neighbors: Neighbors, grid: base.AnswerGrid, most: int
    ) -> base.Runs:
        """The loss of every step of the grid."""
        low, high = Fraction(self.lower), Fraction(self.upper)
        finest = base.AnswerGrid.within(low, high, None).log2
        inner = base.AnswerGrid.within(low, high, max(floor_log2(high - low) - _BITS, finest))
        steps = np.sort(inner.steps(base.clamped(values, lower=float(low), upper=float(high))))
        replace = neighbors is ReplaceOne
        return _losses(steps, values=inner, grid=grid, most=most, replace=replace)


# ---- local and down sensitivities


def _farther_variance(rows: SortedValues, ways: set[tuple[int, int]]) -> Fraction:
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
    rows: SortedValues, both: tuple[Fraction, Fraction], removed: int, added: int
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
    rows: SortedValues, both: tuple[Fraction, Fraction], removed: int, added: int
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


# ---- smooth sensitivities


def _smooth_replaced(low: Floats, high: Floats, smoothness: float) -> float:
    """Where a record is replaced, by the squared range, from the values seen from both bounds."""
    count = low.size
    if count < 2:
        return 0.0
    # The local sensitivity is at least 1/8 of the global one.
    moves = np.arange(min(count, math.ceil(3 / smoothness)) + 1)
    reached = np.zeros(moves.size)
    others = count - 1.0
    for side in (low, high):
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


def _smooth_added_or_removed(low: Floats, high: Floats, smoothness: float) -> float:
    """Where records come or go, by the squared range, from the values seen from both bounds."""
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


# ---- losses


@dataclass(frozen=True, slots=True, eq=False)
class _Sorted:
    """Values from 0 to width in order, and the sums of the first 0, 1, ... of them."""

    x: Exact
    width: int
    sums: Exact
    squares: Exact

    @staticmethod
    def of(x: Exact, width: int) -> _Sorted:
        sums = np.concatenate([x[:0], [0], np.cumsum(x)]).astype(x.dtype)
        squares = np.concatenate([x[:0], [0], np.cumsum(x * x)]).astype(x.dtype)
        return _Sorted(x, width, sums, squares)

    def mirror(self) -> _Sorted:
        return _Sorted.of(self.width - self.x[::-1], self.width)

    def without(self, start: Steps, gone: Steps) -> tuple[Exact, Exact]:
        """Sum and sum of squares of all but so many from each start on."""
        total, squared = self.sums[-1], self.squares[-1]
        end = start + gone
        return (
            total - self.sums[end] + self.sums[start],
            squared - self.squares[end] + self.squares[start],
        )


def _losses(
    steps: Steps, *, values: base.AnswerGrid, grid: base.AnswerGrid, most: int, replace: bool
) -> base.Runs:
    """The variance, rounded to the grid; steps: sorted, of the grid `values`."""
    n = steps.size
    x = (steps - values.first).astype(np.int64 if n < _NARROW else object)
    data = _Sorted.of(x, values.last - values.first)
    if replace:
        gone = added = np.arange(min(most, n) + 1)
    else:
        changes = [(r, k - r) for k in range(most + 1) for r in range(min(k, n) + 1)]
        gone, added = np.array(changes).T
    left = n - gone + added
    some = left > 0
    gone, added, left = gone[some], added[some], left[some]
    order = added if replace else gone + added
    shift = 2 * values.log2 - grid.log2  # from the unit of values, squared, to that of answers
    least = _least(data, int(gone.max(initial=0)))
    lows = _steps(least[0][gone], least[1][gone] * left.astype(object), shift)
    highs = _steps(_largest(data, gone, added), 4 * left.astype(object) ** 2, shift)
    reach = int(order.max(initial=0)) + 1
    down, up = [0] * reach, [0] * reach
    start = 0 if some.all() else -1  # an emptied table has variance 0
    for k in range(reach):
        here = np.flatnonzero(order == k)
        down[k] = min([lows[i] for i in here] + ([down[k - 1]] if k else []), default=0)
        up[k] = max([highs[i] for i in here] + ([up[k - 1]] if k else []), default=0)
        if start < 0 and k >= n:
            down[k] = 0
    return base.from_reach(down, up, grid=grid, most=most)


def _least(data: _Sorted, most: int) -> tuple[Exact, Exact]:
    """The least squared distance of the m = n - r that are left, times m, and m, for all r."""
    n = data.x.size
    found = np.zeros(most + 1, dtype=object)
    counts = np.maximum(n - np.arange(most + 1), 1).astype(object)
    for r in range(min(most, n) + 1):
        first = np.arange(r + 1)
        kept = n - r
        sums = (data.sums[first + kept] - data.sums[first]).astype(object)
        squares = (data.squares[first + kept] - data.squares[first]).astype(object)
        found[r] = min(kept * squares - sums * sums)
    return found, counts


def _largest(data: _Sorted, gone: Steps, added: Steps) -> Exact:
    """The largest squared distance of m = n - gone + added records from their mean, times 4 m."""
    found = np.maximum(_at_the_top(data, gone, added), _at_the_top(data.mirror(), gone, added))
    return np.asarray(np.maximum(4 * found, _at_both_ends(data, gone, added)))


def _at_the_top(data: _Sorted, gone: Steps, added: Steps) -> Exact:
    """The largest squared distance with all that is added at the upper bound, times m."""
    n, x, width = data.x.size, data.x, data.width
    left = n - gone + added

    def pays(start: Steps, rows: Steps) -> Flags:
        low, high = x[start], x[start + gone[rows]]
        others = data.without(start, gone[rows])[0] - high + added[rows] * width
        return _flags(2 * others > (left[rows] - 1) * (low + high))

    sums, squares = (part.astype(object) for part in data.without(_first(pays, n - gone), gone))
    many = added.astype(object)
    sums, squares = sums + many * width, squares + many * width**2
    return np.asarray(left.astype(object) * squares - sums * sums)


def _at_both_ends(data: _Sorted, gone: Steps, added: Steps) -> Exact:
    """The same with any share of them at each bound, times 4 m; -1 where one bound is better."""
    n, x, width = data.x.size, data.x, data.width
    left = n - gone + added

    def spare(start: Steps, rows: Steps) -> Exact:
        """Twice what has to be at the upper bound, for a mean in the middle."""
        return np.asarray(left[rows] * width - 2 * data.without(start, gone[rows])[0])

    def below_the_middle(start: Steps, rows: Steps) -> Flags:
        return _flags(x[start] + x[start + gone[rows]] < width)

    def too_little(start: Steps, rows: Steps) -> Flags:
        return _flags(spare(start, rows) < 0)

    def at_hand(start: Steps, rows: Steps) -> Flags:
        return _flags(spare(start, rows) <= 2 * added[rows] * width)

    last, every = n - gone, np.arange(gone.size)
    middle = _first(below_the_middle, last)
    lowest = _first(too_little, last)
    beyond = _first(at_hand, last)
    # `beyond` is the first that is too large, or the last start of all.
    highest = np.where(at_hand(beyond, every), beyond, beyond - 1)
    fits = ~too_little(lowest, every) & (highest >= lowest)
    start = np.where(fits, np.clip(middle, lowest, np.maximum(highest, lowest)), 0)
    sums, squares = (part.astype(object) for part in data.without(start, gone))
    many = left.astype(object)
    found = many * (many * width**2 - 4 * (width * sums - squares))
    return np.where(fits, found, -1)


def _first(moves: Callable[[Steps, Steps], Flags], last: Steps) -> Steps:
    """The first start from 0 to `last` that does not move on; where one does not, none above do."""
    low, high = np.zeros_like(last), last.copy()
    while (open_ := np.flatnonzero(low < high)).size:
        middle = (low[open_] + high[open_]) // 2
        going = moves(middle, open_)
        low[open_[going]] = middle[going] + 1
        high[open_[~going]] = middle[~going]
    return low


def _flags(condition: Exact) -> Flags:
    return np.asarray(condition, dtype=np.bool_)


def _steps(top: Exact, bottom: Exact, shift: int) -> list[int]:
    """Quotients times 2^shift, each rounded to the nearest whole number, the upper of two."""
    if shift >= 0:
        top = top * (1 << shift)
    else:
        bottom = bottom * (1 << -shift)
    return [int(t) for t in (2 * top + bottom) // (2 * bottom)]
