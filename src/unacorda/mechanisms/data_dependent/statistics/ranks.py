r"""Order statistics, k-th largest values, quantiles, and the interquartile range.

**Sensitivities.** With the values sorted, z_i the i-th, z_{-1} the lower bound and z_n the upper,
and j > i, a rank statistic stands at z_i or below iff B <= 0, else at z_j or above, where B = c + a
u - b s, s the number of records up to z_i and u of those from z_j on: for a fixed rank r, c = r +
1, a = 0, b = 1; for the k-th largest, c = 1 - k, a = 1, b = 0; for the quantile q = a/(a + b), c =
0. One record that comes or goes moves B by at most max(a, b). All follows from that
(docs/proofs/adaptive_sensitivities.md).

**Losses.** With A records below y, C at most y and D above it, B = n - A, and r the 0-based rank
that is asked:

- replace one (n is public): max(0, A - r, r + 1 - C);
- add or remove, rank r fixed: max(0, A - r + [y is not there], r + 1 - C); at the upper end, which
  stands beyond the last record, A - r alone. The k-th largest is its mirror image;
- add or remove, the least value with q n records at or below it, q = u / w: an answer below y is
  raised by records added above (each worth u) or removed from below (each worth w - u), until
  (w - u) A < u B; one above y is lowered until (w - u) C >= u D. Whatever is worth more is done. If
  that is a removal and no record is at y, one must be added there.

Proofs: docs/proofs/adaptive_inverse.md, section 2. Only records within `most` ranks of the answer
matter: beyond them every loss is `most`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.checks import Number
from unacorda.mechanisms.data_dependent.statistics.base import (
    AnswerGrid,
    BetweenBounds,
    Runs,
    at_one_step,
    clamped_values,
    keep_bounds,
    steps_of_values,
)
from unacorda.privacy.events import fields
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Steps: TypeAlias = NDArray[np.int64]

_FIRST_REACH: Final = 256
_LAST_LOG: Final = 900 * math.log(2)  # what is discounted more is below the least answer


@dataclass(frozen=True, slots=True)
class Balance:
    """B = offset + above u - below s; the statistic stands left of a cut iff B <= 0."""

    offset: int
    above: int
    below: int

    def mirrored(self) -> Balance:
        """That of the negated statistic of the negated values."""
        return Balance(1 - self.offset, self.below, self.above)

    def lowest(self, count: int, moves: int) -> int:
        """The least i >= -1 with B <= moves max(above, below) where s = i + 1, s + u = count."""
        excess = self.offset + self.above * count - moves * max(self.above, self.below)
        return max(-1, -(-excess // (self.above + self.below)) - 1)

    def highest(self, count: int, moves: int) -> int:
        """The largest j <= count with B > -moves max(above, below) where s = j, s + u = count."""
        excess = self.offset + self.above * count + moves * max(self.above, self.below)
        return min(count, -(-excess // (self.above + self.below)) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatistic(BetweenBounds):
    """The value at one place among the sorted values."""

    @property
    @abstractmethod
    def balance(self) -> Balance:
        """What decides on which side of a cut it stands."""

    @abstractmethod
    def added_or_removed(self, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
        """Return the losses where records come or go.

        Parameters
        ----------
        steps
            The data as steps of the grid, sorted.
        grid
            Of the answers.
        most
            No loss is larger.

        Returns
        -------
        Runs
            Losses of the steps of the grid.
        """

    @abstractmethod
    def place(self, count: int) -> int:
        """Say which of so many sorted values it is, 0 the smallest.

        Parameters
        ----------
        count
            How many there are.

        Returns
        -------
        int
            Below 0 it is the lower bound, from `count` on the upper one.
        """

    def value(self, values: ArrayLike) -> float:
        """The answer itself. NOT private: never release it."""
        numbers = clamped_values(self, values)
        place = self.place(numbers.size)
        if place < 0:
            return float(self.lower)
        if place >= numbers.size:
            return float(self.upper)
        return float(np.partition(numbers, place)[place])

    def local(self, values: ArrayLike, *, distance: int, neighbors: Neighbors) -> Fraction:
        """The local sensitivity at this distance, exactly."""
        numbers = clamped_values(self, values)
        count, balance = numbers.size, self.balance
        if neighbors is ReplaceOne:
            place = self.place(count)
            if not 0 <= place < count:
                return Fraction(0)
            return self._farther(numbers, place - distance, place + distance)
        low, high = balance.lowest(count, distance), balance.highest(count, distance)
        return self._farther(numbers, low, high)

    def down(self, values: ArrayLike, *, distance: int) -> Fraction:
        """The down sensitivity at this distance, exactly."""
        numbers = clamped_values(self, values)
        count, balance = numbers.size, self.balance
        both, most = balance.above + balance.below, min(distance, count)
        low = -(-(balance.offset + balance.above * (count - most)) // both) - 1
        high = -(-(balance.offset + balance.above * count + balance.below * distance) // both) - 1
        if balance.above:
            # Once all below a value are gone, those from it on must still hold the self up.
            last = -(-(balance.offset + balance.above * count) // balance.above) - 1
            high = min(high, last)
        return self._farther(numbers, max(low, -1), min(high, count))

    def smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        """The smooth sensitivity, nearly.

        By the range of the bounds, exact to a relative error of 2^-40 + 2^-45 / smoothness, or
        2^-900 where it is below that.
        """
        width = self.width
        return width * self._smooth(values, smoothness=smoothness, neighbors=neighbors)

    def distance(self, values: ArrayLike, *, bound: float, neighbors: Neighbors) -> int | None:
        """How many records away data are whose local sensitivity is above the bound, exactly.

        0 for data that are so themselves; None where there are none.
        """
        numbers = clamped_values(self, values)
        count, place, balance = numbers.size, self.place(numbers.size), self.balance
        low, high = float(self.lower), float(self.upper)
        if neighbors is ReplaceOne:
            if not 0 <= place < count:
                return None
        elif balance.above > balance.below:
            numbers, low, high = -numbers, -high, -low
            balance = balance.mirrored()
        reach = _FIRST_REACH
        while True:
            if neighbors is ReplaceOne:
                start, stop = max(-1, place - reach), min(count, place + reach)
            else:
                start, stop = balance.lowest(count, reach), balance.highest(count, reach)
            window, left = _window(numbers, start, stop, low, high), np.arange(start, stop)
            right = start + _first_farther(window, bound)
            held = right <= stop
            left, right = left[held], right[held]
            if neighbors is ReplaceOne:
                nearer = left <= place
                costs = np.maximum(right, place)[nearer] - left[nearer] - 1
            else:
                turn = _turns(balance, count, right)
                costs = np.where(left >= turn - 1, right - turn, right + turn - 2 * left - 3)
            best = int(costs.min()) if costs.size else None
            # A pair that is not in the window costs at least `reach`.
            if (best is not None and best <= reach) or (start == -1 and stop == count):
                return best
            reach *= 4

    def losses(
        self, values: ArrayLike, *, neighbors: Neighbors, grid: AnswerGrid, most: int
    ) -> Runs:
        """The loss of every step of the grid."""
        steps, _ = steps_of_values(self, values, grid.log2)
        if neighbors is ReplaceOne:
            return _rank_among(self.place(steps.size), steps, grid=grid, most=most)
        return self.added_or_removed(steps, grid=grid, most=most)

    def _smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        numbers = clamped_values(self, values)
        count = numbers.size
        low, high = float(self.lower), float(self.upper)
        place, balance = self.place(count), self.balance
        if neighbors is ReplaceOne:
            if not 0 <= place < count:
                return 0.0
        elif balance.above > balance.below:
            # The mirror image, so that it is the records below that move the balance more.
            numbers, low, high = -numbers, -high, -low
            balance = balance.mirrored()
        power = -math.frexp(high - low)[1]
        scale = math.ldexp(high - low, power)
        reach = max(1, min(_FIRST_REACH, math.ceil(_LAST_LOG / smoothness)))
        while True:
            if neighbors is ReplaceOne:
                start, stop = max(-1, place - reach), min(count, place + reach)
            else:
                start, stop = balance.lowest(count, reach), balance.highest(count, reach)
            window = np.ldexp(_window(numbers, start, stop, low, high), power)
            if neighbors is ReplaceOne:
                best = _replaced(window, place - start, smoothness)
            else:
                best = _added_or_removed(window, start, count, balance, smoothness)
            if start == -1 and stop == count:
                break
            # A pair that is not in the window costs at least `reach`.
            log_best = math.log(best / scale) if best > 0 else -math.inf
            needed = min(-log_best, _LAST_LOG) / smoothness
            if reach > needed:
                break
            reach = min(4 * reach, math.floor(needed) + 1)
        return max(best / scale, 2.0**-900)

    def _farther(self, numbers: Floats, low: int, high: int) -> Fraction:
        """How far the statistic is from the farther of two of the sorted values."""
        place, count = self.place(numbers.size), numbers.size
        places = [one for one in (low, place, high) if 0 <= one < count]
        ranked = np.partition(numbers, places) if places else numbers

        def at(one: int) -> Fraction:
            if one < 0:
                return Fraction(float(self.lower))
            return Fraction(float(self.upper if one >= count else ranked[one]))

        return max(at(place) - at(low), at(high) - at(place))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatistic(RankStatistic):
    """The value of a fixed rank, from below, the smallest being 0.

    Where there are no more than `rank` values it is `upper`.

    Parameters
    ----------
    rank
        0 or above.
    lower, upper
        Public bounds, in the unit of the values, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> OrderStatistic(rank=1, lower=0, upper=10).value([7, 3, 99])
    7.0
    """

    rank: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", fields.whole("rank", self.rank, least=0))
        keep_bounds(self)

    def place(self, count: int) -> int:  # noqa: ARG002 - the same whatever their number
        """The rank."""
        return self.rank

    @property
    def balance(self) -> Balance:
        """What decides on which side of a cut it stands."""
        return Balance(self.rank + 1, 0, 1)

    def added_or_removed(self, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
        """The losses where records come or go."""
        return _fixed_rank(self.rank, steps, grid=grid, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum(OrderStatistic):
    """The smallest value; for empty data it is `upper`.

    Parameters
    ----------
    lower, upper
        Public bounds, in the unit of the values, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers that are no range.

    Examples
    --------
    >>> Minimum(lower=0, upper=10).value([4, 3, -5])
    0.0
    """

    rank: int = field(default=0, init=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KthLargest(RankStatistic):
    """The k-th largest value; the first is the maximum.

    Where there are fewer than k values, so for empty data, it is `lower`.

    Parameters
    ----------
    k
        1 or above.
    lower, upper
        Public bounds, in the unit of the values, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> KthLargest(k=2, lower=0, upper=10).value([7, 3, 99])
    7.0
    """

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", fields.whole("k", self.k, least=1))
        keep_bounds(self)

    def place(self, count: int) -> int:
        """The k-th from the end."""
        return count - self.k

    @property
    def balance(self) -> Balance:
        """What decides on which side of a cut it stands."""
        return Balance(1 - self.k, 1, 0)

    def added_or_removed(self, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
        """The losses where records come or go."""
        return _from_the_top(self.k, steps, grid=grid, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum(KthLargest):
    """The largest value; for empty data it is `lower`.

    Parameters
    ----------
    lower, upper
        Public bounds, in the unit of the values, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers that are no range.

    Examples
    --------
    >>> Maximum(lower=0, upper=10).value([4, 3, -5])
    4.0
    """

    k: int = field(default=1, init=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(RankStatistic):
    """The least value that at least the share q of the values do not exceed.

    That is the value of rank ceil(q n) - 1 of n, never one between two values; for empty data it
    is `lower`.

    Parameters
    ----------
    q
        Strictly between 0 and 1; for the ends take Minimum or Maximum.
    lower, upper
        Public bounds, in the unit of the values, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> Quantile(q=0.9, lower=0, upper=10).value(range(10))
    8.0
    """

    q: Number

    def __post_init__(self) -> None:
        share = checks.exact("q", self.q)
        checks.demand(
            0 < share < 1, "q", self.q, expected="above 0 and below 1; else take Minimum or Maximum"
        )
        object.__setattr__(self, "q", share)
        keep_bounds(self)

    def place(self, count: int) -> int:
        """The rank ceil(q count) - 1."""
        return math.ceil(Fraction(self.q) * count) - 1

    @property
    def balance(self) -> Balance:
        """What decides on which side of a cut it stands."""
        share = Fraction(self.q)
        return Balance(0, share.numerator, share.denominator - share.numerator)

    def added_or_removed(self, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
        """The losses where records come or go."""
        return _quantile(Fraction(self.q), steps, grid=grid, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Median(Quantile):
    """The lower median, of rank (n - 1) // 2 of n; `Quantile` with q = 1/2.

    It is `lower` for empty data.

    Parameters
    ----------
    lower, upper
        Public bounds, in the unit of the values, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers that are no range.

    Examples
    --------
    >>> Median(lower=0, upper=10).value([1, 2, 8, 9])
    2.0
    """

    q: Number = field(default=Fraction(1, 2), init=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterquartileRange:
    """The quantile 3/4 less the quantile 1/4, as `Quantile` has them; 0 for empty data.

    Parameters
    ----------
    lower, upper
        Public, lower < upper; values beyond them count as these.

    Examples
    --------
    >>> InterquartileRange(lower=0, upper=10).value([1, 2, 3, 4, 5, 6, 7, 8])
    Fraction(4, 1)
    """

    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        first, _ = self.quartiles
        object.__setattr__(self, "lower", first.lower)
        object.__setattr__(self, "upper", first.upper)

    @property
    def quartiles(self) -> tuple[Quantile, Quantile]:
        """The two quantiles it is the difference of."""
        first, last = (
            Quantile(q=Fraction(part, 4), lower=self.lower, upper=self.upper) for part in (1, 3)
        )
        return first, last

    def value(self, values: ArrayLike) -> Fraction:
        """Return the answer itself. NOT private: never release it.

        Parameters
        ----------
        values
            The data.

        Returns
        -------
        Fraction
            The third quartile less the first.
        """
        first, last = (Fraction(quartile.value(values)) for quartile in self.quartiles)
        return last - first


# ---- sensitivities


def _first_farther(ranked: Floats, bound: float) -> Integers:
    """The first place whose value is more than the bound above that of each place but the last."""
    start = ranked[:-1]
    reach = start + bound
    # Two sums that show what rounding took away (Knuth 1969).
    added = reach - start
    lost = (start - (reach - added)) + (bound - added)
    places = np.searchsorted(ranked, reach, side="right")
    # Where the true sum is a little less, values equal to the float are farther too.
    less = np.flatnonzero(lost < 0)
    equal = less[ranked[places[less] - 1] == reach[less]]
    places[equal] = np.searchsorted(ranked, reach[equal], side="left")
    return places


def _turns(balance: Balance, count: int, right: Integers) -> Integers:
    """G(j) = ceil((offset + above (n - j)) / below) of the right ends j."""
    turn = -(-(balance.offset + _times(balance.above, count - right)) // balance.below)
    return np.asarray(turn, dtype=np.int64)


def _window(numbers: Floats, start: int, stop: int, low: float, high: float) -> Floats:
    """The sorted values from start to stop, both included, the bounds at the places -1 and n."""
    count = numbers.size
    first, last = max(start, 0), min(stop, count - 1)
    if first > last:
        ranked = numbers[:0]
    elif 4 * (last - first + 1) > count:
        ranked = np.sort(numbers)[first : last + 1]
    else:
        ranked = np.sort(np.partition(numbers, [first, last])[first : last + 1])
    ends = [[low]] if start < 0 else [], [[high]] if stop >= count else []
    return np.concatenate([*ends[0], ranked, *ends[1]])


def _replaced(window: Floats, place: int, smoothness: float) -> float:
    """Pairs i <= r <= j, at the cost of j - i - 1 records replaced."""
    indices = np.arange(window.size)
    every = _rectangle(0, place + 1, place, window.size)
    return widest(window, indices, indices + 1, every, smoothness=smoothness)


@np.errstate(under="ignore")
def _added_or_removed(
    window: Floats, start: int, count: int, balance: Balance, smoothness: float
) -> float:
    """All pairs, for a balance that the records below move most.

    With G(j) = ceil((offset + above (n - j)) / below): from i = G(j) - 1 on a pair costs
    j - G(j), and left of that j + G(j) - 2 i - 3.
    """
    size = window.size
    right = np.arange(start, start + size)
    turn = _turns(balance, count, right)
    nearest = np.clip(np.maximum(turn - 1, -1) - start, 0, None)
    on = np.flatnonzero(nearest < np.arange(size))
    gaps = window[on] - window[nearest[on]]
    best = float((np.exp(-smoothness * (right - turn)[on]) * gaps).max(initial=0.0))
    # Left of the turn: the right ends j with i <= G(j) - 2 are those before some stop.
    stops = np.searchsorted(-turn, -(right + 2), side="right")
    lefts, rights = 2 * right + 3, right + turn
    if balance.above == balance.below:  # the cost does not depend on the right end
        last = np.maximum(stops - 1, 0)
        costs, gaps = rights[last] - lefts, window[last] - window
        held = np.flatnonzero(last > np.arange(size))
        return max(best, float((np.exp(-smoothness * costs[held]) * gaps[held]).max(initial=0.0)))
    if balance.above == 0:
        rows = int((stops == size).sum())
        levels = [_rectangle(0, rows, 1, size)]
    else:
        levels = staircase(stops)
    for level in levels:
        best = max(best, widest(window, rights, lefts, level, smoothness=smoothness))
    return best


def _rectangle(top: int, bottom: int, first: int, stop: int) -> Rectangles:
    return Rectangles(np.array([top]), np.array([bottom]), np.array([first]), np.array([stop]))


def _times(factor: int, numbers: Integers) -> Any:
    """The products, in Python's integers where int64 may not hold them."""
    if factor * (int(np.abs(numbers).max(initial=0)) + 1) < 1 << 61:
        return factor * numbers
    return factor * numbers.astype(object)


# ---- losses


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """The steps of a grid between and at the records near a rank; A and C count records."""

    starts: Steps
    counts: Steps
    A: Steps
    C: Steps
    known: NDArray[np.bool_]  # False where there are records between: the loss is `most`

    def runs(self, losses: NDArray[Any], most: int) -> Runs:
        capped = np.where(self.known, np.clip(losses, 0, most), most).astype(np.int64)
        kept = self.counts > 0
        starts, counts, capped = self.starts[kept], self.counts[kept], capped[kept]
        # Neighboring runs of one loss are one run.
        heads = np.flatnonzero(np.diff(capped, prepend=-1))
        return Runs(starts[heads], np.add.reduceat(counts, heads), capped[heads])


def _rank_among(rank: int, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
    """Replace one, the record of this rank; lower below the first one, upper beyond the last."""
    if rank < 0 or rank >= steps.size:
        return at_one_step(grid.first if rank < 0 else grid.last, grid=grid, most=most)
    near = _pieces(steps, rank, grid=grid, most=most)
    return near.runs(np.maximum(near.A - rank, rank + 1 - near.C), most)


def _fixed_rank(rank: int, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
    """Add or remove, the record of this rank, upper where there are too few."""
    if rank < 0:
        return at_one_step(grid.first, grid=grid, most=most)
    near = _pieces(steps, rank, grid=grid, most=most)
    last = near.starts == grid.last
    absent = near.A == near.C
    raised = near.A - rank + (absent & ~last)
    return near.runs(np.where(last, raised, np.maximum(raised, rank + 1 - near.C)), most)


def _from_the_top(place: int, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
    """Add or remove, the record of this place from above, lower where there are too few."""
    near = _pieces(steps, steps.size - place, grid=grid, most=most)
    first = near.starts == grid.first
    absent = near.A == near.C
    above, from_here = steps.size - near.C, steps.size - near.A
    lowered = above - (place - 1) + (absent & ~first)
    return near.runs(np.where(first, lowered, np.maximum(lowered, place - from_here)), most)


def _quantile(q: Fraction, steps: Steps, *, grid: AnswerGrid, most: int) -> Runs:
    """Add or remove, the least value with q n records at or below it; lower where there is none."""
    n, u, w = steps.size, q.numerator, q.denominator
    near = _pieces(steps, -(-u * n // w) - 1, grid=grid, most=most)
    wide = w * (n + 1) >= 1 << 62  # beyond int64
    A, C = (part.astype(object) if wide else part for part in (near.A, near.C))
    first = near.starts == grid.first
    absent = near.A == near.C
    short = (w - u) * A - u * (n - A)  # f >= y where it is below 0
    beyond = u * (n - C) - (w - u) * C  # f <= y where it is at most 0
    if 2 * u >= w:
        raised = short // u + 1
    else:
        there = short // (w - u) + 1
        raised = np.where(absent, 1 + np.maximum((short - u) // (w - u) + 1, 0), there)
    raised = np.where((short >= 0) & ~first, raised, 0)
    if 2 * u <= w:
        lowered = -(-beyond // (w - u))
    else:
        there = -(-beyond // u)
        added = 1 + np.maximum(-(-(beyond - (w - u)) // u), 0)
        lowered = np.where(absent & ~first, added, there)
    lowered = np.where(beyond > 0, lowered, 0)
    return near.runs(np.maximum(raised, lowered), most)


def _pieces(steps: Steps, rank: int, *, grid: AnswerGrid, most: int) -> _Pieces:
    """steps: sorted. Records farther than `most` ranks are not looked at."""
    low = min(max(rank - most, 0), steps.size)
    high = max(min(rank + most + 1, steps.size), low)
    ends = np.array([grid.first, grid.last], dtype=np.int64)
    points = np.unique(np.concatenate([ends, steps[low:high]]))
    A = np.searchsorted(steps, points, side="left").astype(np.int64)
    C = np.searchsorted(steps, points, side="right").astype(np.int64)
    gaps = np.diff(points) - 1
    # A gap with records that were not looked at lies beyond them all.
    known = np.ones(2 * points.size - 1, dtype=np.bool_)
    known[1::2] = C[:-1] == A[1:]
    return _Pieces(
        starts=_alternate(points, points[:-1] + 1),
        counts=_alternate(np.ones_like(points), gaps),
        A=_alternate(A, C[:-1]),
        C=_alternate(C, C[:-1]),
        known=known,
    )


def _alternate(at: Steps, between: Steps) -> Steps:
    mixed = np.empty(at.size + between.size, dtype=np.int64)
    mixed[::2], mixed[1::2] = at, between
    return mixed


# The costs here are k(i, j) = of_right(j) - of_left(i), `of_right` not falling. For j < j' the
# difference of their discounted gaps, as a function of the left value alone, is linear and does not
# fall. So the best right end does not move left where the left end moves right, and all rows of a
# rectangle are solved by halving, a level at a time, in O((rows + columns) log rows).
#
# Source: Nissim, Raskhodnikova, Smith 2007, section 3.1 (the recursion for the median).


@dataclass(frozen=True, slots=True)
class Rectangles:
    """Left ends from `top` to before `bottom`, right ends from `first` to before `stop`."""

    top: Integers
    bottom: Integers
    first: Integers
    stop: Integers

    def some(self) -> Rectangles:
        """Those that hold a pair."""
        kept = (self.top < self.bottom) & (self.first < self.stop)
        return Rectangles(self.top[kept], self.bottom[kept], self.first[kept], self.stop[kept])


def staircase(stops: Integers) -> list[Rectangles]:
    """Rectangles that make up the pairs i < j < stops[i], for stops that do not rise with i.

    A list of as many levels as halving takes; those of one level share no row. They may hold
    pairs with j <= i too, whose gaps are not positive.
    """
    levels, rows = [], stops.size
    top, bottom = np.array([0]), np.array([rows])
    first = np.array([1])
    while top.size:
        middle = (top + bottom) // 2
        reach = stops[middle]
        levels.append(Rectangles(top, middle + 1, first, reach).some())
        top, bottom, first = (
            np.concatenate(parts)
            for parts in (
                (top, middle + 1),
                (middle, bottom),
                (np.maximum(first, reach), np.maximum(first, middle + 2)),
            )
        )
        kept = top < bottom
        top, bottom, first = top[kept], bottom[kept], first[kept]
    return levels


@np.errstate(over="ignore", under="ignore")  # what underflows is below every answer of use
def widest(
    values: Floats, of_right: Integers, of_left: Integers, parts: Rectangles, *, smoothness: float
) -> float:
    """The widest discounted gap of the rectangles, or 0.

    values: in rising order, their differences at most 1. What is below 2^-960 may be lost; for the
    rest the relative error is 2^-50 / smoothness for every level of the halving.
    """
    # The discounts as mantissa and exponent, as they may span more than floats do.
    logarithm = (of_right - of_right[0]) * (-smoothness / np.log(2.0))
    exponent = np.floor(logarithm)
    mantissa = np.exp2(logarithm - exponent)
    whole = exponent.astype(np.int64)
    best, parts = 0.0, parts.some()
    while parts.top.size:
        middle = (parts.top + parts.bottom) // 2
        lengths = parts.stop - parts.first
        begins = np.cumsum(lengths) - lengths
        columns = np.arange(lengths.sum()) + np.repeat(parts.first - begins, lengths)
        base = whole[np.clip(middle + 1, parts.first, parts.stop - 1)]
        gaps = mantissa[columns] * (values[columns] - np.repeat(values[middle], lengths))
        powers = np.clip(whole[columns] - np.repeat(base, lengths), -2100, 2100)
        gaps = np.ldexp(gaps, powers.astype(np.int32))
        highest = np.maximum.reduceat(gaps, begins)
        hits = np.flatnonzero(gaps == np.repeat(highest, lengths))
        column = columns[hits[np.searchsorted(hits, begins)]]
        cost = of_right[column] - of_left[middle]
        found = np.exp(-smoothness * cost) * (values[column] - values[middle])
        best = max(best, float(found.max()))
        parts = Rectangles(
            np.concatenate([parts.top, middle + 1]),
            np.concatenate([middle, parts.bottom]),
            np.concatenate([parts.first, column]),
            np.concatenate([column + 1, parts.stop]),
        ).some()
    return best
