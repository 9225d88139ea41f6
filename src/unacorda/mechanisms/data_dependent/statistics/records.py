"""How records count: as floats within public bounds, as exact sums, as values that repeat.

What raises is a shape or a dtype, never a value. Nothing here is private.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.errors import InvalidParameter

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_PIECE: Final = 18
_CHUNK: Final = 1 << 14
_FLOATS_END: Final = float(np.finfo(np.float64).max)


def clamped(values: ArrayLike, *, lower: float, upper: float | None) -> Floats:
    """Each value as float64, NaN as 0, within the bounds, in a new array.

    upper: None for the largest float64. Raises InvalidParameter for another dtype than integers
    and floats of at most 64 bits, and for more dimensions than one.
    """
    array = elements.floats("values", values, dimensions=1)
    if array.ndim != 1:
        raise InvalidParameter("values", array.shape, expected="one dimension, a record each")
    numbers = np.array(array)
    numbers[np.isnan(numbers)] = 0.0
    np.clip(numbers, lower, _FLOATS_END if upper is None else upper, out=numbers)
    numbers += 0.0  # turns -0.0 into 0.0
    return numbers


def exact_sum(numbers: Floats) -> Fraction:
    """The sum of the floats, without any rounding.

    >>> exact_sum(np.array([0.5, 2.0**60, -(2.0**60)]))
    Fraction(1, 2)
    """
    if not numbers.size:
        return Fraction(0)
    (low, middle, high), powers, unit = _pieces(numbers)
    return _gathered([low, middle, high], powers, 1) * unit


def exact_sum_of_squares(numbers: Floats) -> Fraction:
    """The sum of the squares of the floats, without any rounding.

    >>> exact_sum_of_squares(np.array([0.5, -3.0]))
    Fraction(37, 4)
    """
    if not numbers.size:
        return Fraction(0)
    (low, middle, high), powers, unit = _pieces(numbers)
    cross = 2 * low * high + middle * middle
    parts = [low * low, 2 * low * middle, cross, 2 * middle * high, high * high]
    return _gathered(parts, powers, 2) * unit * unit


def multiplicities(values: ArrayLike) -> tuple[list[Any], Integers]:
    """The different values, sorted, and how often each occurs; all that is missing is one value.

    Raises InvalidParameter unless they are integers or text in one dimension, or a list.

    >>> found, repeats = multiplicities(["b", 1, None, "b", True])
    >>> found, repeats.tolist()
    ([1, 'b', None], [2, 2, 1])
    """
    codes, found = elements.codes("values", values, kinds="iubU")
    return found, np.bincount(codes, minlength=len(found)).astype(np.int64)


def _pieces(numbers: Floats) -> tuple[list[Integers], Integers, Fraction]:
    """Whole numbers of 18 bits: added at their places, times 2^powers and a unit, the floats."""
    mantissas, exponents = np.frexp(numbers)
    least = int(exponents.min())
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    mask = (1 << _PIECE) - 1
    pieces = [whole & mask, (whole >> _PIECE) & mask, whole >> 2 * _PIECE]  # the last one is signed
    return pieces, exponents.astype(np.int64) - least, Fraction(2) ** (least - 53)


def _gathered(parts: list[Integers], powers: Integers, factor: int) -> int:
    """The sum of all parts, each at its place of 18 bits, times 2^(factor powers)."""
    total = 0
    for start in range(0, powers.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        for place, part in enumerate(parts):
            # Below 2^38 each, so that a chunk's sums are whole numbers that float64 holds.
            sums = np.bincount(powers[chunk], weights=part[chunk])
            for power in np.flatnonzero(sums).tolist():
                total += int(sums[power]) << (factor * power + _PIECE * place)
    return total
