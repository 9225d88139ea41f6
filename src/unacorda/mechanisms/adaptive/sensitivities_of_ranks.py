r"""Sensitivities of order statistics and quantiles, from the sorted values.

With the values sorted, z_i the i-th, z_{-1} the lower bound and z_n the upper, and j > i, a rank
statistic stands at z_i or below iff B <= 0, else at z_j or above, where B = c + a u - b s, s the
number of records up to z_i and u of those from z_j on: for a fixed rank r, c = r + 1, a = 0,
b = 1; for the k-th largest, c = 1 - k, a = 1, b = 0; for the quantile q = a/(a + b), c = 0. One
record that comes or goes moves B by at most max(a, b). All follows from that
(docs/proofs/adaptive_sensitivities.md).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.mechanisms.adaptive.statistics import (
    KthLargest,
    OrderStatistic,
    Quantile,
    RankStatistic,
    clamped_values,
)
from unacorda.mechanisms.adaptive.widest_gaps import Rectangles, staircase, widest
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = ["rank_distance", "rank_down", "rank_local", "rank_smooth"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_FIRST_REACH: Final = 256
_LAST_LOG: Final = 900 * math.log(2)  # what is discounted more is below the least answer


@dataclass(frozen=True, slots=True)
class _Balance:
    """B = offset + above u - below s; the statistic stands left of a cut iff B <= 0."""

    offset: int
    above: int
    below: int

    def mirrored(self) -> _Balance:
        """That of the negated statistic of the negated values."""
        return _Balance(1 - self.offset, self.below, self.above)

    def lowest(self, count: int, moves: int) -> int:
        """The least i >= -1 with B <= moves max(above, below) where s = i + 1, s + u = count."""
        excess = self.offset + self.above * count - moves * max(self.above, self.below)
        return max(-1, -(-excess // (self.above + self.below)) - 1)

    def highest(self, count: int, moves: int) -> int:
        """The largest j <= count with B > -moves max(above, below) where s = j, s + u = count."""
        excess = self.offset + self.above * count + moves * max(self.above, self.below)
        return min(count, -(-excess // (self.above + self.below)) - 1)


def rank_local(
    statistic: RankStatistic, values: ArrayLike, *, distance: int, neighbors: Neighbors
) -> Fraction:
    """The k-local sensitivity, exactly."""
    numbers = clamped_values(statistic, values)
    count, balance = numbers.size, _balance(statistic)
    if neighbors is ReplaceOne:
        place = statistic.place(count)
        if not 0 <= place < count:
            return Fraction(0)
        return _farther(statistic, numbers, place - distance, place + distance)
    low, high = balance.lowest(count, distance), balance.highest(count, distance)
    return _farther(statistic, numbers, low, high)


def rank_down(statistic: RankStatistic, values: ArrayLike, *, distance: int) -> Fraction:
    """The down sensitivity, exactly."""
    numbers = clamped_values(statistic, values)
    count, balance = numbers.size, _balance(statistic)
    both, most = balance.above + balance.below, min(distance, count)
    low = -(-(balance.offset + balance.above * (count - most)) // both) - 1
    high = -(-(balance.offset + balance.above * count + balance.below * distance) // both) - 1
    if balance.above:
        # Once all below a value are gone, those from it on must still hold the statistic up.
        last = -(-(balance.offset + balance.above * count) // balance.above) - 1
        high = min(high, last)
    return _farther(statistic, numbers, max(low, -1), min(high, count))


def rank_smooth(
    statistic: RankStatistic, values: ArrayLike, *, smoothness: float, neighbors: Neighbors
) -> float:
    """The smooth sensitivity by the range of the bounds, of at most 1, nearly.

    Exact to a relative error of 2^-40 + 2^-45 / smoothness, or 2^-900 where it is below that.
    """
    numbers = clamped_values(statistic, values)
    count = numbers.size
    low, high = float(statistic.lower), float(statistic.upper)
    place, balance = statistic.place(count), _balance(statistic)
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


def rank_distance(
    statistic: RankStatistic, values: ArrayLike, *, bound: float, neighbors: Neighbors
) -> int | None:
    """How many records away a data set is whose local sensitivity is above the bound, exactly.

    0 for one that is so itself; None where there is none.
    """
    numbers = clamped_values(statistic, values)
    count, place, balance = numbers.size, statistic.place(numbers.size), _balance(statistic)
    low, high = float(statistic.lower), float(statistic.upper)
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


def _turns(balance: _Balance, count: int, right: Integers) -> Integers:
    """G(j) = ceil((offset + above (n - j)) / below) of the right ends j."""
    turn = -(-(balance.offset + _times(balance.above, count - right)) // balance.below)
    return np.asarray(turn, dtype=np.int64)


def _balance(statistic: RankStatistic) -> _Balance:
    match statistic:
        case OrderStatistic(rank=rank):
            return _Balance(rank + 1, 0, 1)
        case KthLargest(k=k):
            return _Balance(1 - k, 1, 0)
        case Quantile(q=q):
            share = Fraction(q)
            return _Balance(0, share.numerator, share.denominator - share.numerator)
        case _:
            raise AssertionError(statistic)


def _farther(statistic: RankStatistic, numbers: Floats, low: int, high: int) -> Fraction:
    """How far the statistic is from the farther of two of the sorted values."""
    place, count = statistic.place(numbers.size), numbers.size
    places = [one for one in (low, place, high) if 0 <= one < count]
    ranked = np.partition(numbers, places) if places else numbers

    def at(one: int) -> Fraction:
        if one < 0:
            return Fraction(float(statistic.lower))
        return Fraction(float(statistic.upper if one >= count else ranked[one]))

    return max(at(place) - at(low), at(high) - at(place))


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
    window: Floats, start: int, count: int, balance: _Balance, smoothness: float
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
