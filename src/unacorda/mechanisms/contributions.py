"""Bounded contributions: exact sums of clamped values, and vectors clipped to a norm.

A float sum depends on the order of its terms, so removing a row can change it by more than the
row's bound (Casacuberta, Shoemate, Vadhan, Wagaman 2022, arXiv:2207.10635). Here the bounds are
first rounded to a public grid. Every value is rounded to the grid and then clamped in integers, and
the integers are added exactly.

A vector that is clipped in floats can exceed its bound by rounding, and a sum of such vectors is
then more sensitive than declared. So a person's rows are added exactly, too, and vectors that are
too long are scaled by integer division toward zero. The norm of the integers never exceeds the
bound, and one person's vector depends only on their rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, check_neighbors

__all__ = [
    "clip_rows",
    "clip_users",
    "clipping_sensitivity",
    "fixed_point_sensitivity",
    "fixed_point_sum",
]

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
    flat = elements.numbers("values", values, dimensions=1).reshape(-1)
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


Integers = NDArray[np.int64]
Norm = Literal["l1", "l2"]

_MOST_STEPS: Final = (1 << 31) - 1  # of a bound, so that two factors of that size fit in int64
_MOST_COLUMNS: Final = 1 << 30
_END: Final = 1 << 62  # where values end, in steps
_ENTRIES: Final = 50_000  # entries at a time; no power of two, whose strides fall on one another
_HALF: Final = 32
_LOW: Final = (1 << _HALF) - 1


def clip_rows(
    values: ArrayLike,
    *,
    l1: Number | None = None,
    l2: Number | None = None,
    unit_log2: int,
    columns: int | None = None,
) -> Integers:
    """Clip each row to a norm bound, in whole steps of 2^unit_log2.

    A row within the bound stays as it is. A longer one is scaled to it; each entry is then within a
    step and 2^-28 sqrt(columns) of the bound of the true one. The norm of every row, in exact
    integers, is at most the bound. So the sum of the rows, ``.sum(axis=0)``, changes by at most
    `clipping_sensitivity` if one row is added, removed or changed. It is exact up to 2^32 rows.

    Parameters
    ----------
    values
        Shape (rows, columns), or (rows,) if each row is one number: integers or floats of at most
        64 bits. NaN counts as 0. Infinities and values beyond 2^62 steps count as 2^62 steps.
    l1, l2
        One of them: the bound, from one step to below 2^31 steps.
    unit_log2
        The binary logarithm of a step.
    columns
        For a list of rows, the number of entries of each. Without it the elements of a list are
        numbers. An array has its own.

    Returns
    -------
    array
        The rows in steps, as int64.

    Raises
    ------
    InvalidParameter
        For another shape, dtype or bound.

    Examples
    --------
    >>> rows = [[3, 4], [30, -40], [float("inf"), 7]]
    >>> clip_rows(rows, l2=5, unit_log2=0, columns=2).tolist()
    [[3, 4], [3, -4], [5, 0]]
    """
    norm, bound = _bound(l1, l2, unit_log2)
    array, rows = _rows(values, columns)
    clipped = np.empty(rows.shape, dtype=np.int64)
    for start, stop in _parts(*rows.shape):
        steps = np.empty((rows.shape[1], stop - start), dtype=np.int64)
        for column, part in enumerate(steps):
            part[:] = steps_of(rows[start:stop, column], -_END, _END, unit_log2=unit_log2)
        _clip(steps, norm, bound)
        for column, part in enumerate(steps):
            clipped[start:stop, column] = part
    return clipped.reshape(array.shape)


def clip_users(
    values: ArrayLike,
    users: ArrayLike,
    *,
    l1: Number | None = None,
    l2: Number | None = None,
    unit_log2: int,
    columns: int | None = None,
) -> Integers:
    """Sum the rows of each user, and clip each sum to a norm bound.

    A user's steps are added exactly, in any order, and then clipped together. So the norm of the
    contribution is at most the bound, however many rows there are. The rows of the result, sorted
    by user, and their number are private. Add them up.

    Parameters
    ----------
    values, l1, l2, unit_log2, columns
        As for `clip_rows`.
    users
        The user of each row: one dimension, integers or text. In a list, the rows without a user
        count as those of one user.

    Returns
    -------
    array
        One row for each user in steps, as int64.

    Raises
    ------
    InvalidParameter
        For another shape, dtype or bound.

    Examples
    --------
    >>> clip_users([1.0, 2.0, 9.0, 0.5], ["a", "b", "b", "a"], l1=2, unit_log2=-2).tolist()
    [6, 8]
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms import Laplace
    >>> ages = clip_users([31, 31, 44, 90], [1, 1, 2, 3], l1=50, unit_log2=0)
    >>> noise = Laplace(scale=50, l1_sensitivity=50, grid_log2=0)
    >>> noise.release_exact([int(ages.sum())], unit_log2=0, bits=SeededBits(1))
    [Fraction(166, 1)]
    """
    norm, bound = _bound(l1, l2, unit_log2)
    array, rows = _rows(values, columns)
    order, starts = _grouped(users, len(rows))
    totals = np.empty((rows.shape[1], starts.size), dtype=np.int64)
    if starts.size:
        for column in range(rows.shape[1]):
            steps = steps_of(rows[:, column][order], -_END, _END, unit_log2=unit_log2)
            totals[column] = _added(steps, starts)
    for start, stop in _parts(starts.size, len(totals)):
        _clip(totals[:, start:stop], norm, bound)
    return totals.reshape(-1) if array.ndim == 1 else np.ascontiguousarray(totals.T)


def clipping_sensitivity(
    *,
    l1: Number | None = None,
    l2: Number | None = None,
    unit_log2: int,
    neighbors: Neighbors = AddRemove,
) -> int:
    """Compute the sensitivity of a sum of clipped rows, in steps and in the same norm.

    With B the bound in steps, rounded down, it is B if a row (for `clip_users`: all rows of a user)
    is added or removed, and 2 B if one is replaced.

    Parameters
    ----------
    l1, l2, unit_log2
        As for `clip_rows`.
    neighbors
        The neighboring relation.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    InvalidParameter
        For another bound or relation.

    Examples
    --------
    >>> clipping_sensitivity(l2=0.3, unit_log2=-4, neighbors=ReplaceOne)
    8
    """
    _, bound = _bound(l1, l2, unit_log2)
    check_neighbors(neighbors)
    return 2 * bound if neighbors is ReplaceOne else bound


def _bound(l1: Number | None, l2: Number | None, unit_log2: int) -> tuple[Norm, int]:
    """Which norm, and the bound in steps, rounded down."""
    if (l1 is None) == (l2 is None):
        raise InvalidParameter("l1, l2", (l1, l2), expected="one of the two, not both")
    norm: Norm = "l2" if l1 is None else "l1"
    given = l2 if l1 is None else l1
    assert given is not None
    steps = math.floor(checks.exact(norm, given) / grid_unit(unit_log2))
    if not 1 <= steps <= _MOST_STEPS:
        raise InvalidParameter(
            norm, given, expected="from 1 to 2^31 - 1 steps of 2^unit_log2; take another unit"
        )
    return norm, steps


def _rows(values: ArrayLike, columns: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The values as they came, and in two dimensions."""
    if columns is None:
        array = elements.numbers("values", values, dimensions=1)
    else:
        width = checks.positive_integer(columns=columns)
        array = elements.numbers("values", values, dimensions=2, width=width)
        if array.ndim != 2 or array.shape[1] != width:
            expected = f"the shape (rows, {width}), as columns says"
            raise InvalidParameter("values", array.shape, expected=expected)
    if array.ndim == 1:
        return array, array.reshape(-1, 1)
    if array.ndim != 2 or not 1 <= array.shape[1] <= _MOST_COLUMNS:
        raise InvalidParameter(
            "values", array.shape, expected="the shape (rows,) or (rows, columns)"
        )
    return array, array


def _grouped(users: ArrayLike, rows: int) -> tuple[Integers, Integers]:
    """An order that puts each user's rows side by side, and where each user begins in it."""
    codes, _ = elements.codes("users", users)
    if codes.shape != (rows,):
        raise InvalidParameter("users", codes.shape, expected=f"one user per row, shape ({rows},)")
    order = np.argsort(codes)
    ranked = codes[order]
    new = np.ones(rows, dtype=np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    return order, np.flatnonzero(new)


def _added(steps: Integers, starts: Integers) -> Integers:
    """The sums of the stretches that begin at the starts; beyond +-2^62 these ends."""
    high = np.add.reduceat(np.right_shift(steps, _HALF), starts)
    low = np.add.reduceat(np.bitwise_and(steps, _LOW), starts)
    high += np.right_shift(low, _HALF)
    low &= _LOW
    end = _END >> _HALF
    total: Integers = np.left_shift(np.clip(high, -end - 1, end), _HALF) + low
    return np.clip(total, -_END, _END, out=total)


def _parts(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Stretches of rows that fit in the cache, or are long enough to be worth a call a column."""
    each = max(1, _ENTRIES // columns, min(1000, 100 * _ENTRIES // columns))
    for start in range(0, rows, each):
        yield start, min(start + each, rows)


def _clip(steps: Integers, norm: Norm, bound: int) -> None:
    """Scale the vectors beyond the bound toward zero until they are not, in place.

    steps: (columns, vectors), so that what is added up lies side by side.
    """
    near = np.minimum(np.abs(steps), bound + 1)  # beyond the bound is beyond it
    columns = len(steps)
    if norm == "l1":
        far = near.sum(axis=0) > bound
    elif columns * (bound + 1) ** 2 < 1 << 63:
        near *= near
        far = near.sum(axis=0) > bound * bound
    else:
        near *= near
        low = np.bitwise_and(near, _LOW).sum(axis=0)
        high = np.right_shift(near, _HALF).sum(axis=0) + np.right_shift(low, _HALF)
        low &= _LOW
        top, rest = bound * bound >> _HALF, bound * bound & _LOW
        far = (high > top) | ((high == top) & (low > rest))
    places = np.flatnonzero(far)
    if not places.size:
        return
    long = steps.take(places, axis=1)
    # For magnitudes a, floor(a bound / length) is a vector within the bound where the whole
    # number `length` is not below their norm. The squares of a and of it stay below 2^62.
    spare = -(-(columns - 1).bit_length() // 2) if norm == "l2" else 0
    scaled = _of_size(np.abs(long), 31 - spare)
    length = scaled.sum(axis=0) if norm == "l1" else _root_up((scaled * scaled).sum(axis=0))
    shares = _shares(scaled, bound, length)
    signs = np.right_shift(long, 63)  # -1 or 0: what they turn, they negate
    shares ^= signs
    shares -= signs
    for row, share in zip(steps, shares, strict=True):
        row[places] = share


def _of_size(magnitudes: Integers, size: int) -> Integers:
    """Vectors times a power of two, cut to integers, so that the largest entry has `size` bits."""
    _, length = np.frexp(magnitudes.max(axis=0).astype(np.float64))
    right = np.maximum(length - size, 0).astype(np.int64)
    left = np.maximum(size - length, 0).astype(np.int64)
    sized: Integers = np.left_shift(np.right_shift(magnitudes, right), left)
    return sized


def _shares(parts: Integers, bound: int, whole: Integers) -> Integers:
    """floor(part bound / whole) for parts below 2^31, each at most its whole."""
    # The float quotient is below 2^31 and off by less than 2^-20, so its floor by at most 1.
    found = (parts * (bound / whole)).astype(np.int64)
    rest = parts * bound - found * whole
    found += rest >= whole
    found -= rest < 0
    return found


def _root_up(squares: Integers) -> Integers:
    """The least integers whose squares are not below the given ones, which are below 2^62."""
    root = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    for _ in range(2):  # the float is off by less than 2^-20
        root += root * root < squares
    return root
