"""The values of a stream on the public grid: each the integer floor(value / 2^grid_log2)."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.arrays import array_of
from unacorda.mechanisms.certified import LARGEST_RATIO
from unacorda.mechanisms.rounded import floor_log2

__all__ = [
    "Integers",
    "Question",
    "check_noise",
    "grid_for",
    "level_for",
    "question",
    "questions",
    "step_of",
    "steps_of",
]

Integers: TypeAlias = NDArray[np.int64]
Question: TypeAlias = float | np.integer[Any] | np.floating[Any] | np.bool_ | NDArray[Any]
"""One exact answer: a number, also as NumPy holds it."""

_FINEST = 20  # the default grid divides the sensitivity about a million times
_NOISE_BITS = 30  # unless the noise is then more than 2^30 steps, where sampling slows down
_GRID_REACH = 900  # as for rounded noise: beyond it steps pass the range of float64
_END: Final = 1 << 60  # where values end, in steps; noise of 2^40 steps never gets there
_THRESHOLD_END: Final = 1 << 59

_EXPECTED = "integers or floats of at most 64 bits"


def grid_for(*, sensitivity: Fraction, noise: Fraction, grid_log2: int | None) -> int:
    """The exponent of the grid: the one given, or one for noise so many times the sensitivity.

    Raises InvalidParameter for a grid beyond 2^-900 or 2^900.
    """
    if grid_log2 is None:
        spare = _NOISE_BITS - floor_log2(noise)
        grid = floor_log2(sensitivity) - max(0, min(_FINEST, spare))
    else:
        grid = grid_log2
    if abs(grid) > _GRID_REACH:
        name, value = ("sensitivity", sensitivity) if grid_log2 is None else ("grid_log2", grid)
        raise InvalidParameter(
            name, value, expected=f"a grid from 2^-{_GRID_REACH} to 2^{_GRID_REACH}"
        )
    return grid


def check_noise(scale: Fraction, *, epsilon: Fraction, grid_log2: int | None) -> None:
    """Raise InvalidParameter where noise of a scale in steps is more than the samplers offer."""
    if scale > LARGEST_RATIO:
        name, value = ("epsilon", epsilon) if grid_log2 is None else ("grid_log2", grid_log2)
        raise InvalidParameter(name, value, expected="noise of at most 2^40 grid steps")


def level_for(threshold: Fraction, *, step: Fraction) -> int:
    """The threshold in steps, rounded up; InvalidParameter beyond 2^59."""
    level = math.ceil(threshold / step)
    if abs(level) > _THRESHOLD_END:
        raise InvalidParameter("threshold", threshold, expected="at most 2^59 grid steps from 0")
    return level


def questions(values: ArrayLike) -> NDArray[Any]:
    """The values of a stream as float64 or int64, exactly, in one dimension.

    Unsigned integers beyond 2^63 - 1 end there. Raises InvalidParameter for another shape or
    dtype.
    """
    array = array_of("values", values)
    kind, width = array.dtype.kind, array.dtype.itemsize
    if array.ndim != 1:
        raise InvalidParameter("values", array.shape, expected="one dimension")
    if kind == "f" and width <= 8:
        return array.astype(np.float64, copy=False)
    if kind == "u":
        array = np.minimum(array, np.uint64((1 << 63) - 1))
    if kind in "biu":
        return array.astype(np.int64, copy=False)
    raise InvalidParameter("values", array.dtype, expected=_EXPECTED)


def question(value: object) -> float:
    """One value, exactly, as an int of any size or a float."""
    if isinstance(value, int | float | np.integer | np.bool_):
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, np.floating) and value.itemsize <= 8:
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return question(value[()])
    # A value is data and stays out of the message.
    raise InvalidParameter("value", type(value).__name__, expected=_EXPECTED + ", one at a time")


def steps_of(part: NDArray[Any], *, grid_log2: int) -> Integers:
    """floor(value / grid) for a part of `questions`; NaN counts as 0, values end at 2^60."""
    if part.dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            scaled: NDArray[np.float64] = np.ldexp(part, -grid_log2)
        np.floor(scaled, out=scaled)
        if grid_log2 > 0:
            scaled[(scaled == 0) & (part < 0)] = -1.0  # it had vanished before the floor
        np.copyto(scaled, 0.0, where=np.isnan(scaled))
        np.maximum(scaled, -float(_END), out=scaled)
        np.minimum(scaled, float(_END), out=scaled)
        return scaled.astype(np.int64)
    if grid_log2 >= 0:
        shifted = np.right_shift(part, min(grid_log2, 63))
        clipped: Integers = np.clip(shifted, -_END, _END)
        return clipped
    shift = -grid_log2
    bound = _END >> shift
    inside = np.left_shift(np.clip(part, -bound, bound), min(shift, 60))
    ended: Integers = np.where(part > bound, _END, np.where(part < -bound, -_END, inside))
    return ended


def step_of(value: float, *, grid_log2: int) -> int:
    """The same for one `question`."""
    if isinstance(value, int):
        exact = value >> grid_log2 if grid_log2 >= 0 else value << -grid_log2
    elif abs(value) < math.ldexp(1.0, 60 + grid_log2):
        scaled = math.ldexp(value, -grid_log2)
        exact = -1 if scaled == 0 and value < 0 else math.floor(scaled)
    else:  # beyond the end, or NaN, of which no comparison holds
        exact = _END if value > 0 else -_END if value < 0 else 0
    return max(-_END, min(exact, _END))
