"""The values of a stream on the public grid: each the integer floor(value / 2^grid_log2)."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.elements import Exact
from unacorda.errors import InvalidParameter
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
    """The values of a stream, exactly, in one dimension; see `elements.numbers`.

    Raises InvalidParameter for another shape or dtype.
    """
    array = elements.numbers("values", values, dimensions=1)
    if array.ndim != 1:
        raise InvalidParameter("values", array.shape, expected="one dimension")
    return array


def question(value: object) -> Exact:
    """One value, exactly, as the element that it is; InvalidParameter for several."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return elements.number(value)
    if elements.is_bare(value):
        return elements.number(value)
    # A value is data and stays out of the message.
    raise InvalidParameter("value", type(value).__name__, expected=_EXPECTED + ", one at a time")


def steps_of(part: NDArray[Any], *, grid_log2: int) -> Integers:
    """floor(value / grid) for a part of `questions`; NaN counts as 0, values end at 2^60."""
    return elements.by_kind(
        part,
        floats=lambda some: _steps_of_floats(some, grid_log2),
        integers=lambda some: _steps_of_integers(some, grid_log2),
        exact=lambda value: step_of(value, grid_log2=grid_log2),
    )


def _steps_of_floats(part: NDArray[np.float64], grid_log2: int) -> Integers:
    with np.errstate(over="ignore", under="ignore"):
        scaled: NDArray[np.float64] = np.ldexp(part, -grid_log2)
    np.floor(scaled, out=scaled)
    if grid_log2 > 0:
        scaled[(scaled == 0) & (part < 0)] = -1.0  # it had vanished before the floor
    np.copyto(scaled, 0.0, where=np.isnan(scaled))
    np.maximum(scaled, -float(_END), out=scaled)
    np.minimum(scaled, float(_END), out=scaled)
    return scaled.astype(np.int64)


def _steps_of_integers(part: NDArray[Any], grid_log2: int) -> Integers:
    if part.dtype.kind == "u":
        part = np.minimum(part, np.uint64((1 << 63) - 1)).astype(np.int64)
    if grid_log2 >= 0:
        shifted = np.right_shift(part, min(grid_log2, 63))
        clipped: Integers = np.clip(shifted, -_END, _END)
        return clipped
    shift = -grid_log2
    bound = _END >> shift
    inside = np.left_shift(np.clip(part, -bound, bound), min(shift, 60))
    ended: Integers = np.where(part > bound, _END, np.where(part < -bound, -_END, inside))
    return ended


def step_of(value: Exact, *, grid_log2: int) -> int:
    """The same for one `question`."""
    if isinstance(value, Fraction):
        exact = math.floor(value / Fraction(2) ** grid_log2)
    elif isinstance(value, int):
        exact = value >> grid_log2 if grid_log2 >= 0 else value << -grid_log2
    elif abs(value) < math.ldexp(1.0, 60 + grid_log2):
        scaled = math.ldexp(value, -grid_log2)
        exact = -1 if scaled == 0 and value < 0 else math.floor(scaled)
    else:  # beyond the end, or NaN, of which no comparison holds
        exact = _END if value > 0 else -_END if value < 0 else 0
    return max(-_END, min(exact, _END))
