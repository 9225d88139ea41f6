"""Outward rounding: irrational prices become multiples of 2^-80, on the side that is safe."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

GRID_BITS = 80
"""Irrational numbers in guarantees are whole multiples of 2^-GRID_BITS."""

_GRID = 1 << GRID_BITS


def grid_up(value: float | Fraction) -> Fraction:
    """The least multiple of 2^-80 that is not below `value`; a float is the number it holds.

    >>> grid_up(Fraction(1, 4))
    Fraction(1, 4)
    >>> grid_up(Fraction(1, 3)) > Fraction(1, 3)
    True
    """
    scaled = Fraction(value) * _GRID
    return Fraction(-((-scaled.numerator) // scaled.denominator), _GRID)


def grid_down(value: float | Fraction) -> Fraction:
    """The greatest multiple of 2^-80 that is not above `value`; a float is the number it holds.

    >>> grid_down(Fraction(1, 3)) < Fraction(1, 3)
    True
    """
    scaled = Fraction(value) * _GRID
    return Fraction(scaled.numerator // scaled.denominator, _GRID)


def grid_sum_up(values: Iterable[Fraction]) -> Fraction:
    """The sum of numbers, each raised to a multiple of 2^-80: long denominators never meet.

    >>> grid_sum_up([Fraction(1, 4), Fraction(1, 2)])
    Fraction(3, 4)
    """
    whole = sum(-((-value.numerator << GRID_BITS) // value.denominator) for value in values)
    return Fraction(whole, _GRID)


def float_above(value: Fraction) -> float:
    """The least float that is not below a number.

    >>> float_above(Fraction(1, 10)), float_above(Fraction(1, 3)) > Fraction(1, 3)
    (0.1, True)
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_below(value: Fraction) -> float:
    """The greatest float that is not above a number.

    >>> float_below(Fraction(1, 10)) < 0.1
    True
    """
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def root_up(square: Fraction) -> float:
    """The least float that is not below the square root of a non-negative number.

    >>> root_up(Fraction(4)), root_up(Fraction(2)) ** 2 > 2
    (2.0, True)
    """
    root = root_near(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while root > 0 and Fraction(math.nextafter(root, 0.0)) ** 2 >= square:
        root = math.nextafter(root, 0.0)
    return root


def root_down(square: Fraction) -> float:
    """The greatest float that is not above the square root of a non-negative number."""
    root = root_up(square)
    return root if Fraction(root) ** 2 == square else math.nextafter(root, 0.0)


def exact_root(square: Fraction) -> Fraction | None:
    """The square root of a non-negative number where it is rational, else None.

    >>> exact_root(Fraction(9, 4)), exact_root(Fraction(2))
    (Fraction(3, 2), None)
    """
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return root if root * root == square else None


def root_near(square: Fraction) -> float:
    """The square root to within one float, also where the square itself is no float.

    >>> root_near(Fraction(10) ** 400)
    1e+200
    """
    numerator, denominator = square.numerator, square.denominator
    shift = max(0, 70 - (numerator.bit_length() - denominator.bit_length()) // 2)
    return float(Fraction(math.isqrt((numerator << 2 * shift) // denominator), 1 << shift))
