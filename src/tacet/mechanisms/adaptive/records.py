"""How records count: as floats within public bounds, as exact integers, as values that repeat.

What raises is a shape or a dtype, never a value. Nothing here is private.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacet.errors import InvalidParameter
from tacet.mechanisms.sums import numeric

__all__ = ["clamped", "exact_integers", "multiplicities"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_FLOATS_END: Final = float(np.finfo(np.float64).max)


def clamped(values: ArrayLike, *, lower: float, upper: float | None) -> Floats:
    """Each value as float64, NaN as 0, within the bounds, in a new array.

    upper: None for the largest float64. Raises InvalidParameter for another dtype than integers
    and floats of at most 64 bits, and for more dimensions than one.
    """
    array = numeric(values)
    if array.ndim != 1:
        raise InvalidParameter("values", array.shape, expected="one dimension, a record each")
    numbers = array.astype(np.float64)
    numbers[np.isnan(numbers)] = 0.0
    np.clip(numbers, lower, _FLOATS_END if upper is None else upper, out=numbers)
    numbers += 0.0  # turns -0.0 into 0.0
    return numbers


def exact_integers(numbers: Floats) -> tuple[list[int], Fraction]:
    """Whole numbers and a unit, a power of two, whose products are the given floats, exactly.

    >>> exact_integers(np.array([0.5, 3.0]))
    ([1, 6], Fraction(1, 2))
    """
    mantissas, exponents = np.frexp(numbers)
    odd = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.bitwise_and(odd, -odd)
    lowest[lowest == 0] = 1
    zeros = np.frexp(lowest.astype(np.float64))[1] - 1
    odd = np.right_shift(odd, zeros)
    powers = exponents + zeros - 53
    some = odd != 0
    least = int(powers[some].min()) if some.any() else 0
    shifts = np.where(some, powers - least, 0)
    unit = Fraction(2) ** least
    if not shifts.any():
        return odd.tolist(), unit
    return [one << by for one, by in zip(odd.tolist(), shifts.tolist(), strict=True)], unit


def multiplicities(values: ArrayLike) -> tuple[NDArray[Any], Integers]:
    """The different values, sorted, and how often each occurs.

    Raises InvalidParameter unless they are integers or text in one dimension.

    >>> [part.tolist() for part in multiplicities(["b", "a", "b"])]
    [['a', 'b'], [1, 2]]
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidParameter("values", array.shape, expected="one dimension, a record each")
    if array.size and array.dtype.kind == "O":
        if not all(isinstance(value, str) for value in array.tolist()):
            raise InvalidParameter("values", array.dtype, expected="integers, or text alone")
        array = array.astype(np.str_)
    if array.size and array.dtype.kind not in "iubU":
        raise InvalidParameter("values", array.dtype, expected="integers or text")
    found, repeats = np.unique(array, return_counts=True)
    return found, repeats.astype(np.int64)
