"""Exact sums of bounded values, with exact sensitivities.

A float sum depends on the order of its terms, so removing a row can change it by more than the
row's bound (Casacuberta, Shoemate, Vadhan, Wagaman 2022, arXiv:2207.10635). Here the bounds are
first rounded to a public grid. Every value is rounded to the grid and then clamped in integers, and
the integers are added exactly.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, check_neighbors

_LARGEST: Final = 1 << 62  # of a bound in grid steps
_CHUNK: Final = 1 << 16
_LOW_BITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRequest:
    """A noisy sum over all rows: of value * vector, or squared of value * vector vector^T.

    vector, value: expressions over the columns of a table; bound: the most that the l2 norm of a
    row's part may be, to which it is cut; budget: what may be spent on it. Of a square matrix the
    upper triangle is answered, off the diagonal times sqrt 2, so that the l2 norm of the numbers is
    its Frobenius norm. signed: of squared ones whether values may be negative; else negative ones
    count as 0. total: of one number, that it counts as 0 where it is negative. edges: counts
    instead of sums, one histogram a number of the vector, of the bins between rising edges and
    beyond them; value is then what a row counts, within [0, 1].
    """

    vector: Sequence[str]
    value: str
    bound: Fraction
    budget: GDP
    squared: bool = False
    signed: bool = False
    total: bool = False
    edges: Sequence[float] = ()


def fixed_point_bounds(*, lower: Number, upper: Number, unit_log2: int) -> tuple[int, int]:
    """The bounds on the grid of multiples of 2^unit_log2, rounded to the nearest step.

    Raises InvalidParameter unless lower <= upper and both are within 2^62 steps.

    >>> fixed_point_bounds(lower=0, upper=0.3, unit_log2=-4)
    (0, 5)
    """
    exact = checks.exact("lower", lower), checks.exact("upper", upper)
    checks.demand(exact[0] <= exact[1], "lower", lower, expected="at most the upper bound")
    low, high = (round(bound / grid_unit(unit_log2)) for bound in exact)
    for name, bound, given in (("lower", low, lower), ("upper", high, upper)):
        if abs(bound) > _LARGEST:
            raise InvalidParameter(
                name, given, expected="at most 2^62 grid steps; take a coarser grid"
            )
    return low, high


def fixed_point_sum(values: ArrayLike, *, lower: Number, upper: Number, unit_log2: int) -> int:
    """Sum values that are rounded to the grid and clamped to the bounds, in steps of 2^unit_log2.

    The result is exact for any number of rows, and does not depend on their order.

    Parameters
    ----------
    values
        Integers or floats of at most 64 bits, of any shape. NaN adds 0. Infinities count as the
        bounds.
    lower, upper
        The clamping bounds.
    unit_log2
        The binary logarithm of a step.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    InvalidParameter
        For another dtype, and for bounds that `fixed_point_bounds` refuses.

    Examples
    --------
    >>> fixed_point_sum([0.1, 0.2, 7.0], lower=0, upper=1, unit_log2=-10)
    1331
    """
    low, high = fixed_point_bounds(lower=lower, upper=upper, unit_log2=unit_log2)
    flat = numeric(values, dimensions=1).reshape(-1)
    total = 0
    for start in range(0, flat.size, _CHUNK):
        steps = steps_of(flat[start : start + _CHUNK], low, high, unit_log2=unit_log2)
        # Two halves of 32 bits, each summed without overflow in a chunk of 2^16.
        upper_half = int(np.right_shift(steps, _LOW_BITS).sum())
        lower_half = int(np.bitwise_and(steps, (1 << _LOW_BITS) - 1).sum())
        total += (upper_half << _LOW_BITS) + lower_half
    return total


def fixed_point_sensitivity(
    *,
    lower: Number,
    upper: Number,
    unit_log2: int,
    rows: int = 1,
    neighbors: Neighbors = AddRemove,
) -> int:
    """Compute the sensitivity of `fixed_point_sum` to a person of at most ``rows`` rows, in steps.

    With bounds lo and hi on the grid, it is rows max(|lo|, |hi|) if a person is added, removed or
    gives nothing. It is rows (max(hi, 0) - min(lo, 0)) if one is replaced, since a person may have
    fewer rows, or rows of NaN, which add 0.

    Parameters
    ----------
    lower, upper, unit_log2
        As for `fixed_point_sum`.
    rows
        The most rows of a person.
    neighbors
        The neighboring relation.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    InvalidParameter
        For bounds that `fixed_point_bounds` refuses, and for another relation.

    Examples
    --------
    >>> fixed_point_sensitivity(lower=-1, upper=3, unit_log2=0, rows=2)
    6
    """
    low, high = fixed_point_bounds(lower=lower, upper=upper, unit_log2=unit_log2)
    count = checks.positive_integer(rows=rows)
    check_neighbors(neighbors)
    if neighbors is ReplaceOne:
        return count * (max(high, 0) - min(low, 0))
    return count * max(abs(low), abs(high))


def grid_unit(unit_log2: int) -> Fraction:
    """2^unit_log2, for a whole number from -1000 to 1000; else InvalidParameter."""
    if isinstance(unit_log2, bool) or abs(unit_log2) > 1000:
        raise InvalidParameter("unit_log2", unit_log2, expected="a whole number, -1000 to 1000")
    return Fraction(2) ** operator.index(unit_log2)


def numeric(values: ArrayLike, *, dimensions: int | None = None) -> NDArray[Any]:
    """The values as `elements.numbers`: integers, floats, or exact objects where a list has both.

    dimensions: of a list. Raises InvalidParameter for another dtype.
    """
    return elements.numbers("values", values, dimensions=dimensions)


def steps_of(values: NDArray[Any], low: int, high: int, *, unit_log2: int) -> NDArray[np.int64]:
    """Each value in steps of 2^unit_log2, clamped to low and high; |low|, |high| at most 2^62.

    Halves go to the even step, whatever type the value has; NaN is 0 steps.
    """
    step = grid_unit(unit_log2)
    return elements.by_kind(
        values,
        floats=lambda part: _steps_of_floats(part, low, high, unit_log2),
        integers=lambda part: _steps_of_integers(part, low, high, unit_log2),
        exact=lambda value: min(max(round(Fraction(value) / step), low), high),
    )


@np.errstate(over="ignore", under="ignore")  # both ends are clipped next
def _steps_of_floats(
    values: NDArray[np.float64], low: int, high: int, unit_log2: int
) -> NDArray[np.int64]:
    scaled = values * 2.0**-unit_log2  # exact, or below a half, or beyond every bound
    np.rint(scaled, out=scaled)
    # In float64 first, to a range that a cast survives; then exactly, in integers.
    np.clip(scaled, -float(_LARGEST), float(_LARGEST), out=scaled)
    missing = np.isnan(scaled)
    if missing.any():
        scaled[missing] = 0.0
    steps = scaled.astype(np.int64)
    if low > -_LARGEST or high < _LARGEST:
        np.clip(steps, low, high, out=steps)
    if missing.any():
        steps[missing] = 0
    return steps


def _steps_of_integers(
    values: NDArray[Any], low: int, high: int, unit_log2: int
) -> NDArray[np.int64]:
    wide = values
    if unit_log2 > 0:
        wide = _halved(wide, unit_log2)
    if wide.dtype == np.uint64:
        wide = np.minimum(wide, np.uint64(_LARGEST))
    whole = wide.astype(np.int64)
    if unit_log2 >= 0:
        return np.clip(whole, low, high)
    # What passes 2^62 after the shift passes the bounds too, so it is set to them before it.
    finer = min(-unit_log2, 63)
    edge = _LARGEST >> finer
    shifted = np.left_shift(np.clip(whole, -edge, edge), min(finer, 62))
    steps = np.where(whole > edge, high, np.where(whole < -edge, low, shifted))
    return np.clip(steps, low, high).astype(np.int64, copy=False)


def _halved(values: NDArray[Any], shift: int) -> NDArray[Any]:
    """The integers over 2^shift, to the nearest, halves to the even one."""
    if shift > 64:  # not even half a step
        return np.zeros(values.shape, np.int64)
    kind = values.dtype.type
    half = kind(shift - 1)
    # All that lies below the place of the half, as one bit.
    rest = np.bitwise_and(values, kind((1 << (shift - 1)) - 1)) != 0
    above = np.right_shift(values, half)
    odd, below = np.right_shift(above, kind(1)), np.bitwise_and(above, kind(1))
    up = below.astype(np.bool_) & (rest | np.bitwise_and(odd, kind(1)).astype(np.bool_))
    near: NDArray[Any] = odd + up.astype(kind)
    return near
