"""Numbers that are data: read exactly, and never refused for what they are."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from unacorda import elements

__all__ = ["exact_number"]

_LARGEST: Final = Fraction(2) ** 1100


def exact_number(value: object, *, nan: Fraction) -> Fraction:
    """The number that an element is, see `elements.number`; an infinity is +-2^1100.

    nan: in place of what is no number.

    >>> exact_number(0.5, nan=Fraction(0)), exact_number("7", nan=Fraction(0))
    (Fraction(1, 2), Fraction(0, 1))
    """
    held = elements.number(value)
    if not isinstance(held, float) or math.isfinite(held):
        return Fraction(held)
    return nan if math.isnan(held) else _LARGEST * (1 if held > 0 else -1)
