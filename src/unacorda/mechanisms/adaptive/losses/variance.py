r"""Losses of the variance: how far k changes can take it.

With r records removed and a added (r = a = k where records are replaced, r + a <= k otherwise) the
variance is

- least where those that are left are neighbours in order and those added lie at their mean;
- most where those removed are neighbours in order and those added lie at the two bounds. How much
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

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.mechanisms.adaptive.losses.grid import Grid
from unacorda.mechanisms.adaptive.losses.runs import Runs, Steps, from_reach
from unacorda.mechanisms.noise.rounding import floor_log2

__all__ = ["MOST", "values_of", "variance"]

MOST: Final = 256
"""Losses end here at the latest: all pairs of removals and additions below are looked at."""

_BITS: Final = 20
_NARROW: Final = 1 << 21  # records of which sums of squares fit in int64

Exact: TypeAlias = NDArray[Any]
Flags: TypeAlias = NDArray[np.bool_]


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


def values_of(low: Fraction, high: Fraction) -> Grid:
    """The grid of the values."""
    return Grid.within(low, high, max(floor_log2(high - low) - _BITS, _finest(low, high)))


def variance(steps: Steps, *, values: Grid, grid: Grid, most: int, replace: bool) -> Runs:
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
    return from_reach(down, up, grid=grid, most=most)


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


def _finest(low: Fraction, high: Fraction) -> int:
    return Grid.within(low, high, None).log2
