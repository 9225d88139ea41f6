r"""Public grids, and removal losses: the people to remove so that a function is at most y.

A grid is fixed independently of the data, so its points reveal nothing. It should reach beyond
every possible answer: its last point also represents everything above it.

Let f be monotone: adding a person never lowers it. Then, for every y that is at least f of no data,

    loss(x, y) = least number of people of x to remove so that f of the rest is at most y

decreases in y. For every f it stays the same or grows by one if a person is added: removing that
person first gives the earlier data, and removals from the larger data remove no more people from
the smaller. Every loss here is this number, exactly, in integers:

- maximum: the people above y; k-th largest: all but k - 1 of those above y;
- a sum of non-negative totals: the largest first, until the rest adds up to y or less;
- distinct items, one a person: the holders of the rarest items first.

Losses are private and never released.

**Items.** The least number of people to remove until at most y items are left is NP-hard to find:
it is the densest-subgraph problem of hypergraphs turned over. A relaxation will do, as long as a
person moves it by 0 or 1. For a ratio r = a / b let

    F_r(x) = min over sets R of people of |items of the rest| + r |R|.

This is a minimum cut, b F_r the maximum flow from a source through people, a each, and items, b
each, to a sink. With whole r it is the most items that can be handed out with at most r a person
(Knop and Steinke 2023, the capped count). A person adds between 0 and r to it. For a public set of
ratios

    loss(x, y) = max over r of ceil((F_r(x) - y) / r), or 0 if that is more,

then moves by 0 or 1 where a person is added, falls in y, is 0 where there are at most y items, and
never exceeds the true removal loss: of R that leaves at most y items, F_r <= y + r |R|.
Proof: docs/proofs/adaptive_shifted_inverse.md, section 7.

Source: Fang, Dong, Yi 2022 (shifted inverse sensitivity); docs/proofs/adaptive_shifted_inverse.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from unacorda import checks, elements
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.contributions import steps_of
from unacorda.mechanisms.data_dependent.statistics.base import clamped_values, multiplicities
from unacorda.mechanisms.data_dependent.statistics.counts import DistinctCount
from unacorda.mechanisms.data_dependent.statistics.ranks import KthLargest
from unacorda.mechanisms.data_dependent.statistics.sums import Sum
from unacorda.mechanisms.noise.rounding import floor_log2

_MOST_POINTS: Final = 1 << 22
_LARGEST: Final = Fraction(2) ** 1000

Monotone: TypeAlias = KthLargest | Sum | DistinctCount
"""The statistics that a person can only raise."""

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_END: Final = 1 << 62  # where totals and their sums end, in steps
_HALF: Final = 31

RATIOS: Final = tuple(Fraction(2) ** k for k in range(-4, 11))
"""Items a person counts for: from 16 people an item to 1024 items a person."""

_LARGEST_TERM: Final = 1 << 12


class RisingGrid(tuple[Fraction, ...]):  # noqa: SLOT001 - cached properties need a dictionary
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
    """Make the grid 0, first, first * ratio, first * ratio^2, ... up to one point at last or above.

    Parameters
    ----------
    first
        Above 0.
    last
        At least first.
    ratio
        Above 1: the largest relative error from rounding an answer to the grid.
    whole
        Whole numbers only, each rounded up, for counts.

    Returns
    -------
    tuple of float
        Up to about 2^22 points; the cost of a search grows with the logarithm of their number.

    Raises
    ------
    InvalidParameter
        For other numbers.

    Examples
    --------
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
) -> RisingGrid:
    """The points of a grid, exactly: two or more, each above the one before it.

    least: what the first point must reach; argument: what a caller knows the grid by. Raises
    InvalidParameter for another grid.
    """
    if isinstance(grid, RisingGrid) and (least is None or grid[0] >= least):
        return grid
    if isinstance(grid, str) or not isinstance(grid, Iterable):
        raise InvalidParameter(argument, grid, expected="numbers in increasing order")
    points = RisingGrid(checks.exact(argument, point) for point in grid)
    if len(points) < 2 or len(points) > _MOST_POINTS + 2:
        raise InvalidParameter(argument, len(points), expected="from 2 points to 2^22 of them")
    if any(one >= two for one, two in itertools.pairwise(points)):
        raise InvalidParameter(argument, points[:3], expected="points in strictly increasing order")
    if max(-points[0], points[-1]) > _LARGEST:
        raise InvalidParameter(argument, points[-1], expected="points from -2^1000 to 2^1000")
    if least is not None and points[0] < least:
        raise InvalidParameter(
            argument,
            points[0],
            expected=f"a first point of {least} or more, what there is without data",
        )
    return points


def removal_losses(statistic: Monotone, values: ArrayLike, *, grid: RisingGrid) -> Integers:
    """The loss at every point of a rising grid whose first point `least_value` allows.

    values: one dimension, one entry a person: a value, a total or an item, as the statistic
    reads it; totals are rounded to 2^grid.unit_log2. NOT private: never release it.
    Raises InvalidParameter for another shape or dtype.

    >>> from unacorda.mechanisms.data_dependent import Maximum
    >>> from unacorda.mechanisms.data_dependent.removal import rising
    >>> biggest = Maximum(lower=0, upper=100)
    >>> removal_losses(biggest, [3, 8, 8, 40], grid=rising([0, 5, 8, 50])).tolist()
    [4, 3, 1, 0]
    >>> removal_losses(Sum(lower=0, upper=None), [3, 8, 8, 40], grid=rising([0, 20, 60])).tolist()
    [4, 1, 0]
    """
    match statistic:
        case KthLargest(k=k):
            return np.maximum(people_above(clamped_values(statistic, values), grid) - (k - 1), 0)
        case Sum():
            return _total(clamped_values(statistic, values), grid)
        case DistinctCount():
            return _distinct(multiplicities(values)[1], grid)
        case _:
            assert_never(statistic)


def least_value(statistic: object) -> Fraction:
    """The statistic of empty data, its lower bound; refuses statistics that a person can lower."""
    match statistic:
        case KthLargest(lower=lower):
            return Fraction(float(lower))  # as the statistic counts it
        case Sum(lower=lower) if lower == 0:
            return Fraction(0)
        case DistinctCount():
            return Fraction(0)
        case _:
            pass
    raise InvalidParameter(
        "statistic",
        statistic,
        expected="one that a person can only raise: Maximum, KthLargest, DistinctCount, "
        "Sum(lower=0), or None with release_losses",
    )


def people_above(values: Floats, grid: RisingGrid) -> Integers:
    """How many values are above each point of a rising grid. NOT private."""
    up_to = np.searchsorted(np.sort(values), grid.floats, side="right")
    return (values.size - up_to).astype(np.int64)


def _total(values: Floats, grid: RisingGrid) -> Integers:
    # A total above the last point has to go at every point, however far above it is.
    steps = steps_of(values, 0, int(grid.units[-1]) + 1, unit_log2=grid.unit_log2)
    steps.sort()
    kept = np.searchsorted(_prefix_sums(steps), grid.units, side="right")
    return (steps.size - kept).astype(np.int64)


def _prefix_sums(steps: Integers) -> Integers:
    """Sums of the first entries of [0, 2^62), each exact up to 2^62 and 2^62 beyond."""
    # Two halves of 31 bits, so that 2^31 entries add up without overflow.
    high = np.cumsum(np.right_shift(steps, _HALF))
    low = np.cumsum(np.bitwise_and(steps, (1 << _HALF) - 1))
    high += np.right_shift(low, _HALF)
    np.minimum(high, 1 << _HALF, out=high)
    np.bitwise_and(low, (1 << _HALF) - 1, out=low)
    sums: Integers = np.minimum(np.left_shift(high, _HALF) + low, _END)
    return sums


def _distinct(holders: Integers, grid: RisingGrid) -> Integers:
    rarest_first = np.concatenate([[0], np.cumsum(np.sort(holders))]).astype(np.int64)
    surplus = [max(holders.size - math.floor(point), 0) for point in grid]
    losses: Integers = rarest_first[surplus]
    return losses


def item_set_losses(
    people: ArrayLike,
    items: ArrayLike,
    *,
    grid: Sequence[Number],
    ratios: Sequence[Number] = RATIOS,
) -> Integers:
    """Compute losses of the number of distinct items for `release_losses`. NOT private.

    They are for `ShiftedInverse.release_losses`.

    If an answer y has a loss of at most t, then for each ratio r some people can be removed so that
    the number of remaining items, plus r for each removed person, is at most y + r t. Like any
    answer it is at most the number of items, rounded up to the grid.

    Source: Knop and Steinke 2023 (capped counts); docs/proofs/adaptive_shifted_inverse.md.

    Parameters
    ----------
    people, items
        Pairs of a person and an item, integers or text; pairs may repeat.
    grid
        As for the mechanism, from 0 or more.
    ratios
        Public numbers above 0, each a maximum flow to find.

    Returns
    -------
    array of int
        A loss for each point of the grid.

    Raises
    ------
    InvalidParameter
        For arrays that do not fit, and for numbers out of their range.

    Examples
    --------
    >>> held = {"people": [1, 1, 2, 2, 3], "items": ["a", "b", "b", "c", "d"]}
    >>> item_set_losses(**held, grid=[0, 1, 2, 3, 4]).tolist()
    [3, 2, 1, 1, 0]
    """
    points = rising(grid, least=Fraction(0))
    holders, goods = _column("people", people), _column("items", items)
    if holders.shape != goods.shape:
        raise InvalidParameter(
            "items", goods.shape, expected=f"one for each entry of people, {holders.shape}"
        )
    losses = np.zeros(len(points), dtype=np.int64)
    floors = [math.floor(point) for point in points]
    for ratio in map(_ratio, ratios):
        flow = _flow(holders, goods, ratio)
        a, b = ratio.numerator, ratio.denominator
        bounds = [-((b * floor - flow) // a) for floor in floors]
        np.maximum(losses, np.array([max(bound, 0) for bound in bounds]), out=losses)
    return losses


def _ratio(ratio: Number) -> Fraction:
    exact = checks.exact("ratios", ratio)
    if exact <= 0 or max(exact.numerator, exact.denominator) > _LARGEST_TERM:
        raise InvalidParameter(
            "ratios", ratio, expected="above 0, with terms of at most 4096 in lowest terms"
        )
    return exact


def _column(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Each value as the number of its kind: 0, 1, ..."""
    return elements.codes(name, values, kinds="iubU")[0]


def _flow(holders: NDArray[np.int64], goods: NDArray[np.int64], ratio: Fraction) -> int:
    """The maximum flow: what one person, a, and one item, b, let through; every pair a."""
    if holders.size == 0:
        return 0
    a, b = ratio.numerator, ratio.denominator
    people, kinds = int(holders.max()) + 1, int(goods.max()) + 1
    pairs = np.unique(holders * kinds + goods)
    source, sink = people + kinds, people + kinds + 1
    begin = np.concatenate([np.full(people, source), pairs // kinds, people + np.arange(kinds)])
    end = np.concatenate([np.arange(people), people + pairs % kinds, np.full(kinds, sink)])
    room = np.concatenate([np.full(people + pairs.size, a), np.full(kinds, b)])
    graph: Any = csr_array(
        (room.astype(np.int32), (begin.astype(np.int32), end.astype(np.int32))),
        shape=(sink + 1, sink + 1),
    )
    return int(maximum_flow(graph, source, sink).flow_value)
