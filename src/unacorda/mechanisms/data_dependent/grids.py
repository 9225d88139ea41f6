"""Public grids of numbers from which a data-dependent mechanism chooses its answer.

A grid is fixed before the data is looked at, so its points tell nothing. It should reach beyond
every value that could be asked for: its last point also stands for all that lies above it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.rounding import floor_log2

__all__ = ["Grid", "geometric_grid", "rising"]

_MOST_POINTS: Final = 1 << 22
_LARGEST: Final = Fraction(2) ** 1000


class Grid(tuple[Fraction, ...]):  # noqa: SLOT001 - cached properties need a dictionary
    """The points, exactly, and what searches need of them, computed once; made by `rising`."""

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """The largest floats that are at most the points: a float is above both or neither."""
        edges = [float(point) for point in self]
        down = [
            math.nextafter(edge, -math.inf) if Fraction(edge) > point else edge
            for edge, point in zip(edges, self, strict=True)
        ]
        return np.array(down)

    @cached_property
    def unit_log2(self) -> int:
        """The exponent of a unit in which the grid fits in 2^61.

        2^unit_log2 is 2^-60 of the last point or less; a last point of at most 2^60 leaves every
        whole number a multiple of it.
        """
        return floor_log2(self[-1]) - 60

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """The points in units, rounded down."""
        unit = Fraction(2) ** self.unit_log2
        return np.array([math.floor(point / unit) for point in self], dtype=np.int64)


def geometric_grid(
    first: Number, last: Number, *, ratio: Number = 1.02, whole: bool = False
) -> tuple[float, ...]:
    """0, and then first, first * ratio, first * ratio^2, ... up to one point at last or above.

    first: above 0; last: at least first; ratio: above 1, what a release may be off by where the
    true answer lies between two points; whole: whole numbers only, each rounded up, for counts.
    Up to about 2^22 points; each costs a search a little, as the logarithm of their number.
    Raises InvalidParameter for other numbers.

    >>> geometric_grid(1, 8, ratio=2)
    (0.0, 1.0, 2.0, 4.0, 8.0)
    >>> geometric_grid(1, 6, ratio=1.5, whole=True)
    (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
    """
    start, end, step = (
        checks.exact(name, given)
        for name, given in (("first", first), ("last", last), ("ratio", ratio))
    )
    if start < 1 / _LARGEST:
        raise InvalidParameter("first", first, expected="a number above 0, 2^-1000 or more")
    if not start <= end <= _LARGEST:
        raise InvalidParameter("last", last, expected=f"a number from {first} to 2^1000")
    factor = float(step)
    if not factor > 1 or math.log(end) - math.log(start) > _MOST_POINTS * math.log(factor):
        raise InvalidParameter(
            "ratio", ratio, expected=f"a number above 1 that gives at most {_MOST_POINTS} points"
        )
    points = [0.0]
    value, beyond = float(start), float(end)
    while True:
        point = float(math.ceil(value)) if whole else value
        if point > points[-1]:
            points.append(point)
        if value >= beyond:
            return tuple(points)
        value = min(value * factor, beyond)


def rising(
    grid: Iterable[Number], *, least: Fraction | None = None, argument: str = "grid"
) -> Grid:
    """The points of a grid, exactly: two or more, each above the one before it.

    least: what the first point must reach; argument: what a caller knows the grid by. Raises
    InvalidParameter for another grid.
    """
    if isinstance(grid, Grid) and (least is None or grid[0] >= least):
        return grid
    if isinstance(grid, str) or not isinstance(grid, Iterable):
        raise InvalidParameter(argument, grid, expected="numbers in rising order")
    points = Grid(checks.exact(argument, point) for point in grid)
    if len(points) < 2 or len(points) > _MOST_POINTS + 2:
        raise InvalidParameter(argument, len(points), expected="from 2 points to 2^22 of them")
    if any(one >= two for one, two in itertools.pairwise(points)):
        raise InvalidParameter(argument, points[:3], expected="points in strictly rising order")
    if max(-points[0], points[-1]) > _LARGEST:
        raise InvalidParameter(argument, points[-1], expected="points from -2^1000 to 2^1000")
    if least is not None and points[0] < least:
        raise InvalidParameter(
            argument,
            points[0],
            expected=f"a first point of {least} or more, what there is without data",
        )
    return points
