"""Arguments of local mechanisms: values of devices, and reports at the server.

Errors on a device depend only on shape and dtype, never on a value. Reports are public, so errors
at the server may depend on values.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import fields

Shape: TypeAlias = tuple[int, ...] | None
"""The shape of an array, or None for a bare number."""


def keep_epsilon(mechanism: Any) -> Fraction:
    """Check the epsilon of a mechanism that is being made; its value, exactly."""
    fields.keep(mechanism, epsilon=fields.positive("epsilon", mechanism.epsilon))
    return checks.exact("epsilon", mechanism.epsilon)


def checked_indices(values: ArrayLike, *, categories: int) -> tuple[NDArray[np.int64], Shape]:
    """Category indices, flat, and the shape; indices beyond 0 .. k - 1 count as the nearest.

    In a list, missing values count as 0. Raises InvalidParameter for a dtype that is not integer.
    """
    expected = "integers of at most 64 bits: indices of categories"
    array = elements.integers("values", values, dimensions=1, expected=expected)
    shape = None if elements.is_bare(values) else array.shape
    return np.clip(array.reshape(-1), 0, categories - 1), shape


def checked_reports(
    reports: ArrayLike, *, limit: int, width: int | None = None
) -> NDArray[np.int64]:
    """Reports of integers 0 .. limit - 1, flat, or in rows of `width` numbers each.

    Raises InvalidParameter for no reports, another dtype, another width or another number.
    """
    expected = "integers as `encode` returns them"
    array = elements.numbers("reports", reports, kinds="iu", expected=expected)
    if array.dtype.kind not in "iu":  # reports are public, so the elements of a list may refuse
        raise InvalidParameter("reports", array.dtype, expected=expected)
    if width is not None and (array.ndim == 0 or array.shape[-1] != width):
        raise InvalidParameter("reports", array.shape, expected=f"rows of {width} integers")
    checks.demand(array.size != 0, "reports", array.shape, expected="at least one report")
    if array.min() < 0 or array.max() >= limit:
        raise InvalidParameter(
            "reports", None, expected=f"integers from 0 to {limit - 1}, made by an equal mechanism"
        )
    return array.astype(np.int64).reshape(-1 if width is None else (-1, width))


def packed_reports(reports: ArrayLike, *, categories: int) -> NDArray[np.uint8]:
    """Reports of one bit a category, packed by eight, one row each.

    Raises InvalidParameter for no reports, another dtype or another width.
    """
    array = elements.numbers("reports", reports)
    width = -(-categories // 8)
    if array.dtype != np.uint8 or array.ndim == 0 or array.shape[-1] != width:
        raise InvalidParameter(
            "reports",
            (array.dtype, array.shape),
            expected=f"uint8 rows of {width} packed bytes, as `encode` returns them",
        )
    checks.demand(array.size != 0, "reports", array.shape, expected="at least one report")
    return array.reshape(-1, width)


def checked_tally(tally: ArrayLike, *, count: int, size: int) -> NDArray[np.int64]:
    """Check that a tally can be one of `count` reports; return it as int64.

    Raises InvalidParameter unless the tally has that size and counts from 0 to count.
    """
    array = elements.numbers("tally", tally)
    count = checks.positive_integer(count=count)
    if array.dtype.kind not in "iu" or array.shape != (size,):
        raise InvalidParameter(
            "tally", (array.dtype, array.shape), expected=f"{size} integers, as `tally` returns"
        )
    if array.min() < 0 or array.max() > count:
        raise InvalidParameter("tally", None, expected=f"integers from 0 to {count}, the reports")
    return array.astype(np.int64)


def checked_frequency(frequency: checks.Number) -> Fraction:
    """The share of people who hold a category, checked."""
    exact = checks.exact("frequency", frequency)
    checks.demand(0 <= exact <= 1, "frequency", frequency, expected="a number from 0 to 1")
    return exact


class ValueBounds(NamedTuple):
    """The ends of a public interval, exactly."""

    lower: Fraction
    upper: Fraction

    @property
    def width(self) -> Fraction:
        """Upper minus lower."""
        return self.upper - self.lower

    @property
    def half(self) -> Fraction:
        """From the center to either end."""
        return self.width / 2

    @property
    def center(self) -> Fraction:
        """The middle of the interval."""
        return (self.lower + self.upper) / 2


def value_bounds(lower: checks.Number, upper: checks.Number) -> ValueBounds:
    """The interval from lower to upper.

    Raises InvalidParameter unless lower < upper, both within +-2^400 and not too near.
    """
    ends = ValueBounds(checks.exact("lower", lower), checks.exact("upper", upper))
    checks.demand(ends.lower < ends.upper, "lower", lower, expected="below the upper bound")
    largest = max(abs(ends.lower), abs(ends.upper))
    for name, value in (("lower", lower), ("upper", upper)):
        checks.demand(largest <= 1 << 400, name, value, expected="at most 2^400 in size")
        if ends.width < max(largest / (1 << 20), Fraction(1, 1 << 400)):
            raise InvalidParameter(name, value, expected="bounds farther apart, or shifted values")
    return ends


def grid_places(x: ArrayLike, *, ends: ValueBounds, last: int) -> tuple[NDArray[np.int64], Shape]:
    """The nearest of `last` + 1 equidistant places from lower to upper, flat, and the shape.

    NaN counts as 0, and values beyond a bound are clamped. Raises InvalidParameter for a dtype that
    is neither integer nor a float of at most 64 bits.
    """
    array = elements.floats("x", x, dimensions=1)
    shape = None if elements.is_bare(x) else array.shape
    lower, upper = float(ends.lower), float(ends.upper)
    scaled = np.nan_to_num(array.reshape(-1), nan=0.0, posinf=upper, neginf=lower)
    np.clip(scaled, lower, upper, out=scaled)
    scaled -= lower
    scaled *= float(last / ends.width)
    return np.clip(np.rint(scaled), 0, last).astype(np.int64), shape
