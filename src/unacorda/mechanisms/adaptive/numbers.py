"""Numbers that are data: read exactly, and never refused for what they are."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Final

from unacorda.errors import InvalidParameter

__all__ = ["exact_number"]

_LARGEST: Final = Fraction(2) ** 1100


def exact_number(name: str, value: float | Fraction, *, nan: Fraction) -> Fraction:
    """The number that a float holds or an integer or Fraction is; an infinity is +-2^1100.

    Raises InvalidParameter for what is no number, and shows its type alone.

    >>> exact_number("value", 0.5, nan=Fraction(0)), exact_number("value", 7, nan=Fraction(0))
    (Fraction(1, 2), Fraction(7, 1))
    """
    if isinstance(value, numbers.Rational) and not isinstance(value, bool):
        return Fraction(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InvalidParameter(
            name, type(value).__name__, expected="a number: int, float or Fraction"
        )
    held = float(value)
    if math.isfinite(held):
        return Fraction(held)
    return nan if math.isnan(held) else _LARGEST * (1 if held > 0 else -1)
