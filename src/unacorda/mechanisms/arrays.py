"""What goes into an additive mechanism and what comes out: shapes, dtypes, ends of the range.

Refusals depend on shape and dtype alone, never on a value, so a release cannot fail because of
the data.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda import elements
from unacorda.elements import Exact

__all__ = [
    "add_integers",
    "exact_steps",
    "float_multiples",
    "fraction_multiples",
    "shaped",
    "summands",
]

Shape: TypeAlias = tuple[int, ...] | None
"""The shape of an array, or None for a bare number."""

_END = 1 << 62  # where int64 values end, which leaves room for the noise
_INTEGERS_END = 1 << 53  # float64 holds every integer up to here
_READABLE = "integers or floats of at most 64 bits; for integers beyond int64 use release_exact"


def summands(x: object) -> tuple[list[Exact], NDArray[np.float64] | None, Shape]:
    """Either exact numbers or float64 values, flat, and the shape.

    Integers that float64 holds exactly become float64, which makes the same noise, only faster;
    larger ones stay what they are, since their conversion would move neighboring values apart.
    Raises InvalidParameter for dtypes other than integers and floats of at most 64 bits.
    """
    array = elements.numbers("x", x, expected=_READABLE)
    shape = None if elements.is_bare(x) else array.shape
    flat = array.reshape(-1)
    exact = flat.dtype.kind == "O" or (
        flat.dtype.kind in "iu"
        and flat.dtype.itemsize == 8
        and (flat.min(initial=0) < -_INTEGERS_END or flat.max(initial=0) > _INTEGERS_END)
    )
    return (flat.tolist(), None, shape) if exact else ([], flat.astype(np.float64), shape)


def exact_steps(value: Exact, step: Fraction, *, end: int) -> Fraction:
    """The value in such steps, exactly; 0 for NaN, and at most `end` of them."""
    if isinstance(value, float) and not math.isfinite(value):
        return Fraction(0 if math.isnan(value) else end if value > 0 else -end)
    return max(Fraction(-end), min(Fraction(value) / step, Fraction(end)))


def add_integers(x: object, draw: Callable[[int], NDArray[np.int64]]) -> Any:
    """X plus as many integer draws, of the shape of x; array values end at +-2^62.

    Raises InvalidParameter for a dtype that is not integer.
    """
    if elements.is_bare(x):
        return elements.whole(elements.number(x)) + int(draw(1)[0])
    array = elements.integers(
        "x", x, expected="integers of at most 64 bits; for larger ones use release_exact"
    )
    values = array.reshape(-1).copy()
    noise = draw(values.size)
    for part, end in ((values, _END), (noise, _END - 1)):
        np.maximum(part, -_END, out=part)
        np.minimum(part, end, out=part)
    noise += values
    return shaped(noise, array.shape)


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
