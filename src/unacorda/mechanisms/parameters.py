"""The numbers of additive mechanisms: read exactly, checked, and kept in readable form."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import operator
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import SupportsIndex, TypeAlias, TypeVar

import numpy as np

from unacorda import checks
from unacorda.balls import Ball, fraction_up
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.rounding import GRID_REACH, floor_log2
from unacorda.privacy.guarantees import Additive
from unacorda.privacy.rounding import exact_root, root_down

Real: TypeAlias = float | Fraction
Kind = TypeVar("Kind", bound=Additive)

_DIGITS = Context(prec=15, rounding=ROUND_CEILING)
_TINY = 1e-300


def positive(name: str, value: checks.Number) -> Real:
    """Read a number above 0 as the decimal that it prints as; else InvalidParameter."""
    number = checks.exact(name, value)
    checks.demand(number > 0, name, value, expected="a number above 0")
    return readable(number)


def whole(name: str, value: object, *, least: int, most: int) -> int:
    """The whole number, if it lies in [least, most]; else InvalidParameter."""
    expected = f"a whole number from {least} to {most}"
    if not isinstance(value, SupportsIndex) or isinstance(value, bool | np.ndarray):
        raise InvalidParameter(name, value, expected=expected)
    number = operator.index(value)
    checks.demand(least <= number <= most, name, value, expected=expected)
    return number


def exponent(grid_log2: object) -> int | None:
    """The exponent of a grid that was asked for, checked; None asks for the default."""
    if grid_log2 is None:
        return None
    return whole("grid_log2", grid_log2, least=-GRID_REACH, most=GRID_REACH)


def some_of(guarantee: object, kind: type[Kind]) -> Kind:
    """Check that a guarantee is of the kind and allows some loss; else InvalidParameter."""
    if isinstance(guarantee, kind) and guarantee.additive[0] > 0:
        return guarantee
    raise InvalidParameter(
        "guarantee", guarantee, expected=f"{kind.__name__} that allows some privacy loss"
    )


def quotient(first: Real, second: Real) -> Real:
    """The exact quotient, so that an event states exactly what was done."""
    return readable(checks.exact("first", first) / checks.exact("second", second))


def readable(value: Fraction) -> Real:
    """The number as an int, or as a float that prints as exactly it, or else as the Fraction."""
    if value.denominator == 1:
        return value.numerator
    try:
        nearest = float(value)
    except OverflowError:
        return value
    return nearest if Fraction(repr(nearest)) == value else value


def decimal_up(value: Ball) -> Real:
    """A short decimal that is not below a number that is 0 or above; at least 10^-300 if not 0."""
    if 0 < value.upper() < _TINY:
        return _TINY
    return readable(_digits_up(fraction_up(value)))


def inverse_root_up(square: Fraction) -> Fraction:
    """1 / sqrt(square), rounded up at the 15th significant decimal digit."""
    # A first bound to 2^-64 relative, then the decimals, each upwards.
    inverse = 1 / square
    shift = 130 + inverse.denominator.bit_length() - inverse.numerator.bit_length()
    shift += shift % 2
    whole = math.ceil(inverse * Fraction(2) ** shift)
    root = math.isqrt(whole - 1) + 1
    bound = Fraction(root) / Fraction(2) ** (shift // 2)
    return _digits_up(bound)


def exact_root_down(square: Fraction) -> Real:
    """The square root: exactly where it is rational, else the next float below, as a Fraction.

    As a float it would count as the decimal that it prints as, which may be above the root.
    """
    root = exact_root(square)
    return Fraction(root_down(square)) if root is None else readable(root)


def root_digits_down(square: Fraction) -> Real:
    """The square root, rounded down at the 15th significant decimal digit."""
    places = 15 - math.floor(floor_log2(square) * math.log10(2) / 2)
    scale = Fraction(10) ** places
    return readable(math.isqrt(math.floor(square * scale * scale)) / scale)


def _digits_up(value: Fraction) -> Fraction:
    """The number, rounded up at the 15th significant decimal digit."""
    return Fraction(_DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator)))
