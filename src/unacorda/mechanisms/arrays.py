"""What goes into an additive mechanism and what comes out: shapes, dtypes, ends of the range.

Refusals depend on shape and dtype alone, never on a value, so a release cannot fail because of
the data.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.errors import InvalidParameter

__all__ = ["add_integers", "array_of", "float_multiples", "fraction_multiples", "numbers", "shaped"]

Shape: TypeAlias = tuple[int, ...] | None
"""The shape of an array, or None for a bare number."""

_END = 1 << 62  # where int64 values end, which leaves room for the noise
_INTEGERS_END = 1 << 53  # float64 holds every integer up to here
_EXACT_IN_FLOAT = ("i1", "i2", "i4", "u1", "u2", "u4", "b1", "f2", "f4", "f8")


def array_of(argument: str, value: object) -> NDArray[Any]:
    """The value as an array; InvalidParameter, which does not show it, where it can be none."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        kind = type(value).__name__
    # Out here, so that the error of numpy, which may show data, does not hang on this one.
    raise InvalidParameter(argument, kind, expected="an array, all rows of one length")


def numbers(x: ArrayLike) -> tuple[Sequence[int], NDArray[np.float64] | None, Shape]:
    """Either exact integers or float64 values, flat, and the shape.

    Whatever float64 holds exactly becomes float64; larger integers stay integers, since their
    conversion would move neighbouring values apart.
    Raises InvalidParameter for any other dtype.
    """
    if isinstance(x, int):
        return [int(x)], None, None
    array = array_of("x", x)
    shape = None if isinstance(x, float | np.generic) else array.shape
    if array.dtype.str[1:] in _EXACT_IN_FLOAT:
        return [], array.astype(np.float64).reshape(-1), shape
    if array.dtype.kind in "iu":
        if array.min(initial=0) >= -_INTEGERS_END and array.max(initial=0) <= _INTEGERS_END:
            return [], array.astype(np.float64).reshape(-1), shape  # the same noise, only faster
        return array.reshape(-1).tolist(), None, shape
    raise InvalidParameter(
        "x",
        array.dtype,
        expected="integers or floats of at most 64 bits; for integers beyond int64 use "
        "release_exact",
    )


def add_integers(x: ArrayLike, draw: Callable[[int], NDArray[np.int64]]) -> Any:
    """X plus as many integer draws, of the shape of x; array values end at +-2^62.

    Raises InvalidParameter for a dtype that is not integer.
    """
    if isinstance(x, int):
        return int(x) + int(draw(1)[0])
    array = array_of("x", x)
    if array.dtype.kind not in "iub":
        raise InvalidParameter(
            "x",
            array.dtype,
            expected="integers of at most 64 bits; for larger ones use release_exact",
        )
    if array.dtype.kind == "u":
        array = np.minimum(array, np.uint64(_END)).astype(np.int64)
    values = array.astype(np.int64).reshape(-1)
    noise = draw(values.size)
    for part, end in ((values, _END), (noise, _END - 1)):
        np.maximum(part, -_END, out=part)
        np.minimum(part, end, out=part)
    noise += values
    return shaped(noise, None if isinstance(x, np.generic) else array.shape)


def shaped(flat: NDArray[Any], shape: Shape) -> Any:
    """The flat array in its shape, or the bare Python number."""
    return flat[0].item() if shape is None else flat.reshape(shape)


_WHOLE = 1 << 53  # all whole numbers up to it are float64


def float_multiples(steps: Sequence[int], exponent: int) -> NDArray[np.float64]:
    """Each step 2^exponent as float64, rounded once; beyond the range its end."""
    if -1000 <= exponent <= 500 and all(-_WHOLE < step < _WHOLE for step in steps):
        return np.ldexp(np.array(steps, dtype=np.float64), exponent)  # exact
    return np.array([_float(step, exponent) for step in steps], dtype=np.float64)


def fraction_multiples(steps: Sequence[int], exponent: int) -> list[Fraction]:
    """Each step 2^exponent exactly."""
    if exponent >= 0:
        return [Fraction(step << exponent) for step in steps]
    denominator = 1 << -exponent
    return [Fraction(step, denominator) for step in steps]


def _float(step: int, exponent: int) -> float:
    try:
        if exponent >= 0:
            return float(step << exponent)
        return step / (1 << -exponent)  # correctly rounded, subnormals too
    except OverflowError:
        largest = float(np.finfo(np.float64).max)
        return largest if step > 0 else -largest
