r"""Removal losses: the least number of people to remove so that a function is at most y.

Let f be monotone: adding a person never lowers it. Then, for every y that is at least f of nobody,

    loss(x, y) = least number of people of x to remove so that f of the rest is at most y

falls in y and, whatever f is, is the same or one more where a person is added: her removal first
leaves what was there before, and whoever removes people from the larger data removes no more of
them from the smaller. Every loss here is this number, exactly, in integers:

- maximum: the people above y; k-th largest: all but k - 1 of those above y;
- a sum of non-negative totals: the largest first, until the rest adds up to y or less;
- distinct items, one a person: the holders of the rarest items first.

Losses are data: they are never released.
Source: Fang, Dong, Yi 2022 (shifted inverse sensitivity); docs/proofs/adaptive_shifted_inverse.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, TypeAlias, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.grids import Grid
from unacorda.mechanisms.data_dependent.statistics.base import clamped_values
from unacorda.mechanisms.data_dependent.statistics.counts import DistinctCount
from unacorda.mechanisms.data_dependent.statistics.ranks import KthLargest
from unacorda.mechanisms.data_dependent.statistics.records import multiplicities
from unacorda.mechanisms.data_dependent.statistics.sums import Sum
from unacorda.mechanisms.sums import steps_of

__all__ = ["Monotone", "least_value", "people_above", "removal_losses"]

Monotone: TypeAlias = KthLargest | Sum | DistinctCount
"""The statistics that a person can only raise."""

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_END: Final = 1 << 62  # where totals and their sums end, in steps
_HALF: Final = 31


def removal_losses(statistic: Monotone, values: ArrayLike, *, grid: Grid) -> Integers:
    """The loss at every point of a rising grid whose first point `least_value` allows.

    values: one dimension, one entry a person: her value, her total or her item, as the statistic
    reads it; totals are rounded to 2^grid.unit_log2. NOT private: never release it.
    Raises InvalidParameter for another shape or dtype.

    >>> from unacorda.mechanisms.data_dependent import Maximum
    >>> from unacorda.mechanisms.data_dependent.grids import rising
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
    """The statistic of nobody, which no removal goes below; refuses what a person can lower."""
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


def people_above(values: Floats, grid: Grid) -> Integers:
    """How many values are above each point of a rising grid. NOT private."""
    up_to = np.searchsorted(np.sort(values), grid.floats, side="right")
    return (values.size - up_to).astype(np.int64)


def _total(values: Floats, grid: Grid) -> Integers:
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


def _distinct(holders: Integers, grid: Grid) -> Integers:
    rarest_first = np.concatenate([[0], np.cumsum(np.sort(holders))]).astype(np.int64)
    surplus = [max(holders.size - math.floor(point), 0) for point in grid]
    losses: Integers = rarest_first[surplus]
    return losses
