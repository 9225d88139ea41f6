"""Noise on arrays of numbers: the exact value plus ideal noise, rounded to a public grid.

The output is 2^k floor((x + Z) / 2^k + 1/2) for the ideal continuous Laplace or normal Z, exactly
in law. Rounding is post-processing of the ideal mechanism, so its privacy is that of the ideal
one, in any dimension, with no correction, and the set of possible outputs is the same for all
data. The grid is public: it follows from the noise scale alone or is given by the caller.

Values come either as Python integers of any size in units of 2^unit_log2, or as float64 arrays;
both mean the exact number. Refusals depend on shape and dtype alone, never on a value, so a release
cannot fail because of the data.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.bits import RandomBits
from unacorda.elements import Exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.continuous import CHUNK, LARGEST_RATIO
from unacorda.mechanisms.noise.discrete import exact_scale

Shape: TypeAlias = tuple[int, ...] | None
"""The shape of an array, or None for a bare number."""

_END = 1 << 62  # where int64 values end, which leaves room for the noise
_INTEGERS_END = 1 << 53  # float64 holds every integer up to here
_READABLE = "integers or floats of at most 64 bits; for integers beyond int64 use release_exact"

_WHOLE = 1 << 53  # all whole numbers up to it are float64

Floats = NDArray[np.float64]
Chunk = Callable[..., Floats]
"""draw(offsets, exact, ratio=, bits=): floor(offset + ratio Z) for each offset, Z standard."""

LARGEST_VALUE_LOG2: Final = 1000
"""Float values end at +-2^1000, or at +-2^1000 grid steps where the grid is finer than 1."""

_GRID_BITS = 20  # the default grid divides the noise scale about a million times
GRID_REACH = 900  # beyond it multiples of the grid pass the range of float64
_HALF = Fraction(1, 2)


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


def floor_steps(
    values: NDArray[Any], grid_log2: int, *, end: int, half: bool = False
) -> NDArray[np.int64]:
    """floor(value / 2^grid_log2), or floor of 1/2 more, exactly; NaN counts as 0.

    values: of a dtype that `elements.numbers` gives; they end at +-end, a power of two of at most
    2^60.
    """
    grid: dict[str, Any] = {"grid_log2": grid_log2, "end": end, "half": half}

    def exact(value: int | Fraction) -> int:
        near = math.floor(Fraction(value) / _power(grid_log2) + Fraction(half, 2))
        return max(-end, min(near, end))

    return elements.by_kind(
        values,
        floats=partial(_floors_of_floats, **grid),
        integers=partial(_floors_of_integers, **grid),
        exact=exact,
    )


@np.errstate(over="ignore", under="ignore")  # the ends are clipped; below a step it is 0
def _floors_of_floats(values: Floats, *, grid_log2: int, end: int, half: bool) -> NDArray[np.int64]:
    scaled = np.ldexp(values, -grid_log2)
    np.copyto(scaled, 0.0, where=np.isnan(scaled))
    np.clip(scaled, -float(end), float(end), out=scaled)
    floors = np.floor(scaled)
    if half:
        scaled -= floors  # whatever is rounded here does not cross the half
        floors += scaled >= 0.5
    elif grid_log2 > 0:
        floors[(scaled == 0) & (values < 0)] = -1.0  # it had vanished before the floor
    return floors.astype(np.int64)


def _floors_of_integers(
    values: NDArray[Any], *, grid_log2: int, end: int, half: bool
) -> NDArray[np.int64]:
    if values.dtype.kind == "u":
        values = np.minimum(values, np.uint64((1 << 63) - 1)).astype(np.int64)
    if grid_log2 <= 0:
        bound = end >> -grid_log2
        inside = np.left_shift(np.clip(values, -bound, bound), min(-grid_log2, 60))
        ended: NDArray[np.int64] = np.where(
            values > bound, end, np.where(values < -bound, -end, inside)
        )
        return ended
    floors = np.right_shift(values, min(grid_log2, 63 + half) - half)
    if half:
        floors = np.right_shift(floors + 1, 1)
    clipped: NDArray[np.int64] = np.clip(floors, -end, end)
    return clipped


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


def floor_log2(value: Fraction) -> int:
    """The largest integer k with 2^k <= value, for a value above 0.

    >>> floor_log2(Fraction(1, 3)), floor_log2(Fraction(8))
    (-2, 3)
    """
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if _power(guess) <= value else guess - 1


def default_grid_log2(scale: float | Fraction) -> int:
    """The exponent of the default grid, floor(log2 scale) - 20: a function of the scale alone.

    >>> default_grid_log2(1.0)
    -20
    """
    return floor_log2(exact_scale("scale", scale)) - _GRID_BITS


def grid_ratio(
    argument: str, scale: float | Fraction, grid_log2: int | None
) -> tuple[int, Fraction]:
    """The grid's exponent and the noise scale in grid steps, checked.

    argument: what the scale is called where it was written.
    """
    grid = None if grid_log2 is None else _whole("grid_log2", grid_log2)
    return _grid_ratio(argument, exact_scale(argument, scale), grid)


@lru_cache(maxsize=256)
def _grid_ratio(argument: str, exact: Fraction, grid_log2: int | None) -> tuple[int, Fraction]:
    default = floor_log2(exact) - _GRID_BITS
    grid = default if grid_log2 is None else grid_log2
    if abs(grid) > GRID_REACH:
        raise InvalidParameter(
            argument if grid_log2 is None else "grid_log2",
            exact if grid_log2 is None else grid_log2,
            expected=f"a grid from 2^-{GRID_REACH} to 2^{GRID_REACH}",
        )
    ratio = exact / _power(grid)
    if ratio > LARGEST_RATIO:
        raise InvalidParameter(
            "grid_log2",
            grid_log2,
            expected=f"a grid of at least 2^{floor_log2(exact) - 39}: this one divides the "
            "noise scale more than 2^40 times",
        )
    return grid, ratio


def released(
    x: ArrayLike, *, grid: int, ratio: Fraction, bits: RandomBits, draw: Chunk, together: int = 1
) -> Any:
    """The noisy number or float64 array, of the shape of x: the whole of a mechanism's release.

    together: how many neighboring numbers are given noise as one vector.
    """
    exact, floats, shape = summands(x)
    chunk = together * max(CHUNK // together, 64)
    if floats is not None:
        noisy = add_to_floats(floats, grid=grid, ratio=ratio, bits=bits, draw=draw, chunk=chunk)
        return shaped(noisy, shape)
    end, step = 1 << (LARGEST_VALUE_LOG2 - max(grid, 0)), _power(grid)
    scaled = [exact_steps(value, step, end=end) for value in exact]
    steps = add_to_steps(scaled, ratio=ratio, bits=bits, draw=draw, chunk=chunk)
    return shaped(float_multiples(steps, grid), shape)


def add_to_integers(
    values: Sequence[int],
    unit_log2: int,
    *,
    grid: int,
    ratio: Fraction,
    bits: RandomBits,
    draw: Chunk,
    chunk: int = CHUNK,
) -> list[int]:
    """Each value 2^unit_log2 plus noise, in steps of the grid; see `rounded_laplace`."""
    shift = grid - _whole("unit_log2", unit_log2)
    numbers = elements.wholes(values)
    if shift <= 0:
        wholes = [number << -shift for number in numbers]
        parts = [1] * len(numbers)
        size = 2
    else:
        half, size = 1 << (shift - 1), 1 << shift
        wholes = [(number + half) >> shift for number in numbers]
        parts = [(number + half) & (size - 1) for number in numbers]
    return _moved(
        wholes, parts, [size] * len(parts), ratio=ratio, bits=bits, draw=draw, chunk=chunk
    )


def add_to_steps(
    values: Sequence[Fraction],
    *,
    ratio: Fraction,
    bits: RandomBits,
    draw: Chunk,
    chunk: int = CHUNK,
) -> list[int]:
    """Each value, in steps of the grid, plus noise: floor(value + ratio Z + 1/2)."""
    halved = [value + _HALF for value in values]
    wholes = [value.numerator // value.denominator for value in halved]
    parts = [value.numerator % value.denominator for value in halved]
    sizes = [value.denominator for value in halved]
    return _moved(wholes, parts, sizes, ratio=ratio, bits=bits, draw=draw, chunk=chunk)


def _moved(
    wholes: list[int],
    parts: list[int],
    sizes: list[int],
    *,
    ratio: Fraction,
    bits: RandomBits,
    draw: Chunk,
    chunk: int,
) -> list[int]:
    """Each whole + floor(part / size + ratio Z), the part below its size."""
    released: list[int] = []
    for start in range(0, len(wholes), chunk):
        some, of = parts[start : start + chunk], sizes[start : start + chunk]
        offsets = np.array(list(map(operator.truediv, some, of)), dtype=np.float64)

        def exact(index: int, some: list[int] = some, of: list[int] = of) -> Fraction:
            return Fraction(some[index], of[index])

        floors = draw(offsets, exact, ratio=ratio, bits=bits).astype(np.int64).tolist()
        released += map(operator.add, wholes[start : start + chunk], floors)
    return released


@np.errstate(over="ignore", under="ignore")  # mended by the clip; below any slack
def add_to_floats(
    values: Floats,
    *,
    grid: int,
    ratio: Fraction,
    bits: RandomBits,
    draw: Chunk,
    chunk: int = CHUNK,
    out: Floats | None = None,
) -> Floats:
    """Each value plus noise, rounded to the grid; see `rounded_laplace_floats`.

    out: a flat array for the result, which may be that of the values.
    """
    flat = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
    released = np.empty_like(flat) if out is None else out
    end = 2.0 ** (LARGEST_VALUE_LOG2 - max(grid, 0))
    for start in range(0, flat.size, chunk):
        part = flat[start : start + chunk]
        scaled = np.ldexp(part, -grid)
        np.copyto(scaled, 0.0, where=np.isnan(scaled))
        np.maximum(scaled, -end, out=scaled)
        np.minimum(scaled, end, out=scaled)
        wholes = np.rint(scaled)
        offsets = np.subtract(scaled, wholes)
        offsets += 0.5

        def exact(index: int, part: Floats = part, wholes: Floats = wholes) -> Fraction:
            if abs(wholes[index]) == end or np.isnan(part[index]):
                return _HALF
            return Fraction(float(part[index])) / _power(grid) - int(wholes[index]) + _HALF

        wholes += draw(offsets, exact, ratio=ratio, bits=bits)
        np.ldexp(wholes, grid, out=released[start : start + chunk])
    return released.reshape(np.shape(values))


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _whole(argument: str, value: object) -> int:
    if type(value) is int:  # asking the protocol takes 50 times as long
        return value
    if isinstance(value, SupportsIndex) and not isinstance(value, bool | np.ndarray):
        return operator.index(value)
    raise InvalidParameter(argument, value, expected="whole numbers")
