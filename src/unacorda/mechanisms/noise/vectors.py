"""The hot paths of noise on whole vectors: within a cube, on a sphere, and correlated.

float64 decides every number that stays clear of the integers by its error bound. Those of a vector
that do not are decided together in exact arithmetic, from the same bits and more
(docs/proofs/noise.md, section 11). Within a chunk a column is one vector, so that sums over
vectors of few numbers are fast.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.noise import refinement
from unacorda.mechanisms.noise.continuous import cosine_and_sine

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
Ends: TypeAlias = tuple[Fraction, Fraction]
Bounds: TypeAlias = list[tuple[int, int]]
Exact: TypeAlias = Callable[[int], Fraction]

_TAIL = -13.0
_HEAD = -(2.0**-20)
_LOGARITHM = 2.0**-41  # bound on the error of one -ln U, of 2^-41.9
_NORMAL = 2.0**-41.5  # bound on the error of one normal, of 2^-42
_ROUNDING = 2.0**-53
_ABSOLUTE = 2.0**-48


@np.errstate(divide="ignore", invalid="ignore")  # ln 0 is refined
def cube_chunk(
    offsets: Floats, exact: Exact, *, ratio: Fraction, bits: RandomBits, dimension: int
) -> Floats:
    """floor(offset + ratio Z), the density of each vector Z proportional to exp(-max |Z_i|).

    Z is uniform in the cube of half side R, and R a sum of dimension + 1 exponential numbers.
    """
    count, terms = offsets.size // dimension, dimension + 1
    radii = bits.words(count * terms).view(np.int64).reshape(terms, count)
    sides = bits.words(offsets.size).view(np.int64).reshape(dimension, count)
    radius, far = _sums_of_exponentials(radii)
    stretch = radius * float(ratio)
    value = np.multiply(sides, 2.0**-63)
    value *= stretch
    value += offsets.reshape(count, dimension).T
    slack = terms * _LOGARITHM * float(ratio) + stretch * ((terms + 16) * _ROUNDING) + _ABSOLUTE

    def refine(vector: int, wanted: list[int]) -> list[int]:
        length = _uniforms(radii[:, vector], bits)
        coordinates = [
            refinement.LazyUniform(word, length=63, bits=bits)
            for word in sides[wanted, vector].tolist()
        ]

        def ends() -> list[Ends] | None:
            whole = _sum_bounds(length)
            if whole is None:
                return None
            unit = 1 << coordinates[0].length
            return [
                _product(whole, (Fraction(side.value, unit), Fraction(side.value + 1, unit)))
                for side in coordinates
            ]

        shifts = [exact(vector * dimension + place) for place in wanted]
        return _floors(ends, [*length, *coordinates], ratio=ratio, offsets=shifts)

    return _settled(value, slack=slack, doubtful=far, refine=refine)


@np.errstate(divide="ignore", invalid="ignore")  # ln 0 is refined
def sphere_chunk(
    offsets: Floats, exact: Exact, *, ratio: Fraction, bits: RandomBits, dimension: int
) -> Floats:
    """floor(offset + ratio Z), the density of each vector Z proportional to exp(-|Z|), |Z| in l2.

    The direction is that of a vector N of normals; the length is a sum of as many exponential
    numbers as there are dimensions.
    """
    count = offsets.size // dimension
    radii = bits.words(offsets.size).view(np.int64).reshape(dimension, count)
    pairs = _normal_words(count, dimension, bits)
    radius, far = _sums_of_exponentials(radii)
    value, extreme = _normals(pairs, dimension)
    slack = np.abs(value)
    norm = np.sqrt(np.square(value).sum(axis=0))
    stretch = np.divide(radius, norm) * float(ratio)
    value *= stretch
    value += offsets.reshape(count, dimension).T
    # Relative errors of the radius and of the norm move each number by its share of them.
    relative = dimension * _LOGARITHM / radius + math.sqrt(dimension) * _NORMAL / norm
    relative += (2 * dimension + 32) * _ROUNDING
    slack *= stretch * relative
    slack += stretch * (2 * _NORMAL) + _ABSOLUTE
    doubtful = far | extreme | (norm < 2.0**-8)

    def refine(vector: int, wanted: list[int]) -> list[int]:
        length, directions = _uniforms(radii[:, vector], bits), _pair_uniforms(pairs, vector, bits)

        def ends() -> list[Ends] | None:
            whole, found = _sum_bounds(length), _normal_bounds(directions, dimension)
            if whole is None or found is None:
                return None
            parts, _ = found
            shortest, longest = _length_bounds(parts)
            if shortest == 0:
                return None
            scaled = (whole[0] / longest, whole[1] / shortest)  # the unit cancels
            return [
                _product(scaled, (Fraction(a), Fraction(b)))
                for a, b in map(parts.__getitem__, wanted)
            ]

        shifts = [exact(vector * dimension + place) for place in wanted]
        uniforms = [*length, *chain.from_iterable(directions)]
        return _floors(ends, uniforms, ratio=ratio, offsets=shifts)

    return _settled(value, slack=slack, doubtful=doubtful, refine=refine)


@np.errstate(divide="ignore", invalid="ignore")  # ln 0 is refined
def linear_chunk(
    offsets: Floats, exact: Exact, *, ratio: Fraction, bits: RandomBits, factor: Floats
) -> Floats:
    """floor(offset + ratio factor N), N a vector of standard normals for each vector.

    factor: a square matrix of float64, meant exactly; ratio: a power of two.
    """
    dimension = factor.shape[0]
    count = offsets.size // dimension
    pairs = _normal_words(count, dimension, bits)
    normals, extreme = _normals(pairs, dimension)
    scaled = factor * float(ratio)
    value = scaled @ normals
    value += offsets.reshape(count, dimension).T
    magnitudes = np.abs(scaled, out=scaled)
    slack = magnitudes @ np.abs(normals, out=normals)
    slack *= (dimension + 8) * _ROUNDING
    slack += (magnitudes.sum(axis=1) * (2 * _NORMAL) + _ABSOLUTE)[:, None]

    def refine(vector: int, wanted: list[int]) -> list[int]:
        directions = _pair_uniforms(pairs, vector, bits)
        lines = [_integers(factor[place].tolist()) for place in wanted]

        def ends() -> list[Ends] | None:
            found = _normal_bounds(directions, dimension)
            if found is None:
                return None
            parts, unit = found
            sums = []
            for entries, scale in lines:
                low = sum(e * (a if e > 0 else b) for e, (a, b) in zip(entries, parts, strict=True))
                high = sum(
                    e * (b if e > 0 else a) for e, (a, b) in zip(entries, parts, strict=True)
                )
                sums.append((low * scale / unit, high * scale / unit))
            return sums

        shifts = [exact(vector * dimension + place) for place in wanted]
        return _floors(ends, list(chain.from_iterable(directions)), ratio=ratio, offsets=shifts)

    return _settled(value, slack=slack, doubtful=extreme, refine=refine)


# ---- floats


def _sums_of_exponentials(words: Integers) -> tuple[Floats, NDArray[np.bool_]]:
    """The sum of -ln U of each column, and which columns have a draw in the far tail."""
    logarithm = np.multiply(words, 2.0**-63)
    np.abs(logarithm, out=logarithm)
    np.log(logarithm, out=logarithm)
    return -logarithm.sum(axis=0), logarithm.min(axis=0) < _TAIL


def _normal_words(count: int, dimension: int, bits: RandomBits) -> tuple[Integers, Words]:
    half = (dimension + 1) // 2
    radius = bits.words(half * count).view(np.int64).reshape(half, count)
    return radius, bits.words(half * count).reshape(half, count)


def _normals(pairs: tuple[Integers, Words], dimension: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Standard normals, a column for each vector, and which have a draw near an end."""
    radius_words, angle_words = pairs
    logarithm = np.multiply(radius_words, 2.0**-63)
    np.abs(logarithm, out=logarithm)
    np.log(logarithm, out=logarithm)
    extreme = (logarithm.min(axis=0) < _TAIL) | (logarithm.max(axis=0) > _HEAD)
    logarithm *= -2.0
    np.sqrt(logarithm, out=logarithm)
    cosine, sine = cosine_and_sine(angle_words)
    half, count = logarithm.shape
    normals = np.empty((dimension, count))
    np.multiply(logarithm, cosine, out=normals[:half])
    second = dimension - half
    np.multiply(logarithm[:second], sine[:second], out=normals[half:])
    return normals, extreme


def _settled(
    value: Floats,
    *,
    slack: Floats,
    doubtful: NDArray[np.bool_],
    refine: Callable[[int, list[int]], list[int]],
) -> Floats:
    """The floors of all values, vector by vector: by floats where these are sure, else refined.

    A doubtful vector is refined whole, of the others the numbers near an integer.
    """
    floors = np.floor(value)
    value -= floors
    value -= 0.5
    np.abs(value, out=value)
    value += slack
    clear = value <= 0.5
    for vector in np.flatnonzero(doubtful | ~clear.all(axis=0)).tolist():
        column = np.ones(len(value), dtype=np.bool_) if doubtful[vector] else ~clear[:, vector]
        wanted = np.flatnonzero(column).tolist()
        floors[wanted, vector] = refine(vector, wanted)
    return np.ascontiguousarray(floors.T).reshape(-1)


# ---- exact arithmetic


def _uniforms(words: Integers, bits: RandomBits) -> list[refinement.LazyUniform]:
    return [refinement.signed_uniform(word, bits)[1] for word in words.tolist()]


def _pair_uniforms(
    pairs: tuple[Integers, Words], vector: int, bits: RandomBits
) -> list[tuple[refinement.LazyUniform, refinement.LazyUniform]]:
    radius, angle = pairs[0][:, vector].tolist(), pairs[1][:, vector].tolist()
    return [
        (refinement.signed_uniform(r, bits)[1], refinement.LazyUniform(a, length=64, bits=bits))
        for r, a in zip(radius, angle, strict=True)
    ]


def _sum_bounds(uniforms: Sequence[refinement.LazyUniform]) -> Ends | None:
    """The ends of the sum of -ln U; None where some U may be 0."""
    places, low, high = uniforms[0].places, 0, 0
    for uniform in uniforms:
        first, second = refinement.minus_log_bounds(uniform, places)
        if second is None:
            return None
        low, high = low + first, high + second
    return Fraction(low, 1 << places), Fraction(high, 1 << places)


def _normal_bounds(
    pairs: Sequence[tuple[refinement.LazyUniform, refinement.LazyUniform]], dimension: int
) -> tuple[Bounds, int] | None:
    """Whole numbers around each normal times the unit, and the unit; all cosines come first."""
    places, cosines, sines = pairs[0][0].places, [], []
    for radius, angle in pairs:
        both = refinement.normal_bounds(radius, angle, places)
        if both is None:
            return None
        cosines.append(both[0])
        sines.append(both[1])
    return (cosines + sines)[:dimension], 1 << 2 * places


def _length_bounds(parts: Bounds) -> tuple[int, int]:
    """Whole numbers around the l2 length of a vector that is known between bounds."""
    least = sum(min(a * a, b * b) for a, b in parts if a > 0 or b < 0)
    most = sum(max(a * a, b * b) for a, b in parts)
    return math.isqrt(least), math.isqrt(most) + 1


def _integers(line: Sequence[float]) -> tuple[list[int], Fraction]:
    """Whole numbers and a scale whose products are the floats, exactly."""
    ratios = [entry.as_integer_ratio() for entry in line]
    common = max(denominator for _, denominator in ratios)  # all are powers of two
    return [numerator * (common // denominator) for numerator, denominator in ratios], Fraction(
        1, common
    )


def _product(one: Ends, two: Ends) -> Ends:
    corners = [a * b for a in one for b in two]
    return min(corners), max(corners)


def _floors(
    ends: Callable[[], list[Ends] | None],
    uniforms: Sequence[refinement.LazyUniform],
    *,
    ratio: Fraction,
    offsets: list[Fraction],
) -> list[int]:
    """floor(offset + ratio Z_i) of the wanted numbers, with as many bits as that takes."""
    while True:
        found = ends()
        if found is not None:
            pairs = [
                (math.floor(offset + ratio * low), math.floor(offset + ratio * high))
                for offset, (low, high) in zip(offsets, found, strict=True)
            ]
            if all(low == high for low, high in pairs):
                return [low for low, _ in pairs]
        for uniform in uniforms:
            uniform.extend()
