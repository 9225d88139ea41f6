r"""Losses of the slope through the origin.

The slope is at least b where the sum of psi = x (y - b x) is 0 or above, and at most b where it is
0 or below. So the least number of changes that bring the slope to b or beyond takes the largest
gains: G - psi of a replaced record, -psi of a removed one, G of an added one, G the largest psi
within the bounds of x and y. G is rounded up to whole steps, which widens the bounds a little, the
same for all data: losses may be a little below the passing losses, and move by at most 1 all the
same.
Tables in which all x are 0 have any slope.

All sums are exact. Each step of the grid that is looked at takes one pass over the data; the steps
where the loss changes are found by halving.
Proofs: docs/proofs/adaptive_inverse.md, section 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate, chain, repeat
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.adaptive.losses.grid import Grid
from unacorda.mechanisms.adaptive.losses.runs import Runs, Steps, from_reach
from unacorda.mechanisms.adaptive.losses.sums import total_of
from unacorda.mechanisms.adaptive.slope import Slope, pairs_of
from unacorda.mechanisms.noise.rounding import floor_log2

__all__ = ["grid_of_slopes", "slope"]

_SLOPES_LOG2: Final = 16  # the default grid divides the interval of slopes so many times
_VALUES_LOG2: Final = 16  # and x is rounded to such a part of its largest magnitude
_REACH: Final = 1 << 61


@dataclass(frozen=True, slots=True)
class _Table:
    """x and y in whole steps, and the bounds of both."""

    x: Steps
    y: Steps
    box: tuple[int, int, int, int]

    def mirror(self) -> _Table:
        left, right, low, high = self.box
        return _Table(self.x, -self.y, (left, right, -high, -low))


def grid_of_slopes(statistic: Slope, log2: int | None) -> Grid:
    """The grid of the answers; refused where exact sums would pass 64 bits."""
    low, high = Fraction(statistic.lower), Fraction(statistic.upper)
    if log2 is None:
        finest = Grid.within(low, high, None).log2
        log2 = max(floor_log2(high - low) - _SLOPES_LOG2, finest)
    grid = Grid.within(low, high, log2)
    x, y = _grids(statistic, grid)
    widest = max(abs(x.first), abs(x.last))
    steepest = 2 * max(abs(grid.first), abs(grid.last)) + 1
    if widest * (max(abs(y.first), abs(y.last)) + steepest * widest) >= _REACH:
        raise InvalidParameter(
            "grid_log2",
            grid.log2,
            expected="a coarser one, or narrower bounds of y and of the slope",
        )
    return grid


def slope(statistic: Slope, values: ArrayLike, *, grid: Grid, most: int, replace: bool) -> Runs:
    """The slope, rounded to the grid."""
    x, y = pairs_of(values)
    first, second = _grids(statistic, grid)
    box = (first.first, first.last, second.first, second.last)
    table = _Table(first.steps(x), second.steps(y), box)
    mirrored = table.mirror()

    @cache
    def raised(step: int) -> int:
        """Changes that bring the slope to half a step below this one, or beyond."""
        return 0 if step == grid.first else _changes(table, 2 * step - 1, most, replace=replace)

    @cache
    def lowered(step: int) -> int:
        """The same for minus the slope, of minus the step."""
        if -step == grid.last:
            return 0
        return _changes(mirrored, 2 * step - 1, most, replace=replace)

    highs = _farthest(raised, grid.first, grid.last)
    lows = [-step for step in _farthest(lowered, -grid.last, -grid.first)]
    return from_reach(lows[: most + 1], highs[: most + 1], grid=grid, most=most)


def _grids(statistic: Slope, grid: Grid) -> tuple[Grid, Grid]:
    """Grids of x and y such that y - b x is whole for every half step b."""
    low, high = Fraction(statistic.x_lower), Fraction(statistic.x_upper)
    log2 = floor_log2(max(abs(low), abs(high))) - _VALUES_LOG2
    bottom, top = Fraction(statistic.y_lower), Fraction(statistic.y_upper)
    return Grid.around(low, high, log2), Grid.around(bottom, top, log2 + grid.log2 - 1)


def _changes(table: _Table, slope_: int, most: int, *, replace: bool) -> int:
    """The least number of changes after which the sum of psi is 0 or above; at most `most`."""
    psi: Steps = table.x * (table.y - slope_ * table.x)
    short = -total_of(psi)
    if short <= 0:
        return 0
    best = _largest(table.box, slope_)
    few = min(most, psi.size)
    least = np.sort(np.partition(psi, few - 1)[:few] if few else psi[:0]).tolist()
    if replace:
        gains = iter([best - one for one in least])
    else:
        added = max(best, 0)
        gains = chain((-one for one in least if -one > added), repeat(added, most if added else 0))
    sums = accumulate(gains)
    return next((k for k, sum_ in zip(range(1, most), sums, strict=False) if sum_ >= short), most)


def _largest(box: tuple[int, int, int, int], slope_: int) -> int:
    """The largest x (y - slope x) in the box, rounded up."""
    left, right, low, high = box
    found = [x * (y - slope_ * x) for x in (left, right) for y in (low, high)]
    if slope_ > 0:
        # The parabola has its top at y / (2 slope).
        twice = 2 * slope_
        found += [-(-y * y // (2 * twice)) for y in (low, high) if left * twice < y < right * twice]
    return max(found)


def _farthest(changes: Callable[[int], int], first: int, last: int) -> list[int]:
    """For k = 0, 1, ... the last step that k changes lead to; `changes` never falls."""
    found: list[int] = []
    open_ = [(first, last)]
    while open_:
        start, end = open_.pop()
        if changes(start) == changes(end):
            continue
        if end == start + 1:
            found += [start] * (changes(end) - len(found))
        else:
            middle = (start + end) // 2
            open_ += [(middle, end), (start, middle)]
    return [*found, last]
