r"""The slope of a line through the origin, by least squares.

**Losses.** The slope is at least b where the sum of psi = x (y - b x) is 0 or above, and at most b
where it is 0 or below. So the least number of changes that bring the slope to b or beyond takes the
largest gains: G - psi of a replaced record, -psi of a removed one, G of an added one, G the largest
psi within the bounds of x and y. G is rounded up to whole steps, which widens the bounds a little,
the same for all data: losses may be a little below the passing losses, and move by at most 1 all
the same. Tables in which all x are 0 have any slope.

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
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.statistics.base import (
    AnswerGrid,
    Invertible,
    Runs,
    from_reach,
)
from unacorda.mechanisms.data_dependent.statistics.sums import total_of
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

Steps: TypeAlias = NDArray[np.int64]

_BOUNDS = ("x_lower", "x_upper", "y_lower", "y_upper", "lower", "upper")
_SLOPES_LOG2: Final = 16  # the default grid divides the interval of slopes so many times
_VALUES_LOG2: Final = 16  # and x is rounded to such a part of its largest magnitude
_REACH: Final = 1 << 61


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope(Invertible):
    """The slope b of the line y = b x with the least squares: sum of x y over sum of x^2.

    A record is a pair (x, y). The slope ends at lower and upper; where all x are 0, so for empty
    data, it is the number between them that is nearest to 0. For a line through another public
    point (a, c) take x - a and y - c.

    Parameters
    ----------
    x_lower, x_upper
        Public bounds of x, x_lower < x_upper.
    y_lower, y_upper
        Public bounds of y, y_lower < y_upper.
    lower, upper
        Public bounds of the slope, in units of y over those of x, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers that are no range.

    Examples
    --------
    >>> Slope(x_lower=0, x_upper=9, y_lower=0, y_upper=99, lower=0, upper=50).value(
    ...     [(1, 2), (2, 7)]
    ... )
    Fraction(16, 5)
    """

    x_lower: Number
    x_upper: Number
    y_lower: Number
    y_upper: Number
    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        for name in _BOUNDS:
            object.__setattr__(self, name, checks.exact(name, getattr(self, name)))
        for low, high in zip(_BOUNDS[::2], _BOUNDS[1::2], strict=True):
            if getattr(self, low) >= getattr(self, high):
                raise InvalidParameter(high, getattr(self, high), expected=f"a number above {low}")

    def value(self, values: ArrayLike) -> Fraction:
        """Return the answer itself. NOT private: never release it.

        Parameters
        ----------
        values
            Pairs of x and y, a row each.

        Returns
        -------
        Fraction
            The slope.
        """
        x, y = _pairs_of(values)
        known = [
            (Fraction(a), Fraction(b))
            for a, b in zip(
                np.clip(x, float(self.x_lower), float(self.x_upper)).tolist(),
                np.clip(y, float(self.y_lower), float(self.y_upper)).tolist(),
                strict=True,
            )
        ]
        squares = sum((a * a for a, _ in known), Fraction(0))
        slope = sum((a * b for a, b in known), Fraction(0)) / squares if squares else Fraction(0)
        return min(max(slope, Fraction(self.lower)), Fraction(self.upper))

    @property
    def answers(self) -> tuple[Fraction, Fraction]:
        """Its bounds."""
        return Fraction(self.lower), Fraction(self.upper)

    def answer_grid(self, log2: int | None, *, answers: tuple[Fraction, Fraction]) -> AnswerGrid:  # noqa: ARG002
        """The grid of the answers; refused where exact sums would pass 64 bits."""
        low, high = self.answers
        if log2 is None:
            finest = AnswerGrid.within(low, high, None).log2
            log2 = max(floor_log2(high - low) - _SLOPES_LOG2, finest)
        grid = AnswerGrid.within(low, high, log2)
        x, y = _grids(self, grid)
        widest = max(abs(x.first), abs(x.last))
        steepest = 2 * max(abs(grid.first), abs(grid.last)) + 1
        if widest * (max(abs(y.first), abs(y.last)) + steepest * widest) >= _REACH:
            raise InvalidParameter(
                "grid_log2",
                grid.log2,
                expected="a coarser one, or narrower bounds of y and of the slope",
            )
        return grid

    def losses(
        self, values: ArrayLike, *, neighbors: Neighbors, grid: AnswerGrid, most: int
    ) -> Runs:
        """The loss of every step of the grid."""
        x, y = _pairs_of(values)
        first, second = _grids(self, grid)
        box = (first.first, first.last, second.first, second.last)
        replace = neighbors is ReplaceOne
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


def _pairs_of(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First and second numbers of the records, NaN as 0.

    Raises InvalidParameter unless there are two columns of integers or floats.
    """
    array = elements.floats("values", values, dimensions=2, width=2)
    if array.size == 0 and array.ndim == 1:
        array = array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidParameter("values", array.shape, expected="two columns, one record per row")
    numbers = np.array(array)
    numbers[np.isnan(numbers)] = 0.0
    return numbers[:, 0], numbers[:, 1]


@dataclass(frozen=True, slots=True)
class _Table:
    """x and y in whole steps, and the bounds of both."""

    x: Steps
    y: Steps
    box: tuple[int, int, int, int]

    def mirror(self) -> _Table:
        left, right, low, high = self.box
        return _Table(self.x, -self.y, (left, right, -high, -low))


def _grids(statistic: Slope, grid: AnswerGrid) -> tuple[AnswerGrid, AnswerGrid]:
    """Grids of x and y such that y - b x is whole for every half step b."""
    low, high = Fraction(statistic.x_lower), Fraction(statistic.x_upper)
    log2 = floor_log2(max(abs(low), abs(high))) - _VALUES_LOG2
    bottom, top = Fraction(statistic.y_lower), Fraction(statistic.y_upper)
    return AnswerGrid.around(low, high, log2), AnswerGrid.around(bottom, top, log2 + grid.log2 - 1)


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
