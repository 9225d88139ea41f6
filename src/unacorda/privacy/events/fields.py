"""The numbers of events: kept as given, and refused if they are invalid."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import TypeAlias

from unacorda.checks import demand
from unacorda.errors import InvalidParameter

__all__ = ["Real", "finite", "keep", "non_negative", "positive", "share", "whole"]

Real: TypeAlias = int | float | Fraction
"""Kept as given; accountants read a float as it prints. Round noise up, or give a Fraction."""


def keep(event: object, **values: object) -> None:
    """Set fields of a frozen event."""
    for name, value in values.items():
        object.__setattr__(event, name, value)


def finite(name: str, value: Real, *, expected: str) -> Real:
    """The number without a NumPy type, if it is finite."""
    if type(value) is float and math.isfinite(value):  # most of them, quickly
        return value
    if not isinstance(value, bool):
        if isinstance(value, Fraction):
            return value
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
    raise InvalidParameter(name, value, expected=expected)


def positive(name: str, value: Real) -> Real:
    """The number, if it is above 0."""
    expected = "a finite number above 0"
    number = finite(name, value, expected=expected)
    demand(number > 0, name, value, expected=expected)
    return number


def non_negative(name: str, value: Real) -> Real:
    """The number, if it is 0 or above."""
    expected = "a finite number, 0 or above"
    number = finite(name, value, expected=expected)
    demand(number >= 0, name, value, expected=expected)
    return number


def share(name: str, value: Real) -> Real:
    """The number, if it lies in [0, 1]."""
    expected = "a number from 0 to 1"
    number = finite(name, value, expected=expected)
    demand(0 <= number <= 1, name, value, expected=expected)
    return number


def whole(name: str, value: int, *, least: int) -> int:
    """The whole number, if it is at least `least`."""
    if type(value) is int and value >= least:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InvalidParameter(name, value, expected=f"a whole number, {least} or above")
    return int(value)
