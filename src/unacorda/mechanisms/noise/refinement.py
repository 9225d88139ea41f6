"""Exact decisions about the few draws that float64 leaves open, and coins.

A uniform number is an infinite string of bits of which a prefix has been read. Each function here
brackets the value that follows from the prefix between two integers in fixed point, and reads 64
more bits as long as the two ends round differently. What it returns is therefore the exact
floor, with probability one after finitely many bits. The bounds are derived in
docs/proofs/noise.md, section 3.

A coin has any real number as its probability, exactly, and is tossed many times at once: 64 bits of
a uniform number are compared with the first 64 of the probability; where they are equal, one time
in 2^64, more bits of both decide.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.balls import Ball, ball, bracket, ldexp
from unacorda.bits import RandomBits

_SPARE = 64  # fixed-point digits kept beyond the bits read, so that the unread bits dominate

Bounds: TypeAlias = Callable[[int], tuple[int, int]]
"""For a number of places integers with low <= probability 2^places <= high."""


class LazyUniform:
    """A uniform number in (0, 1), known to lie in [value, value + 1] / 2^length."""

    __slots__ = ("_bits", "length", "value")

    def __init__(self, value: int, *, length: int, bits: RandomBits) -> None:
        self.value, self.length, self._bits = value, length, bits

    def extend(self) -> None:
        """Read 64 more bits."""
        self.value = self.value << 64 | int(self._bits.words(1)[0])
        self.length += 64

    @property
    def places(self) -> int:
        """Binary places with which to compute: well beyond the bits that were read."""
        return self.length + _SPARE


def signed_uniform(word: int, bits: RandomBits) -> tuple[int, LazyUniform]:
    """A fair sign and the 63-bit prefix of a uniform number, from one signed 64-bit word."""
    if word >= 0:
        return 1, LazyUniform(word, length=63, bits=bits)
    return -1, LazyUniform(~word, length=63, bits=bits)


def minus_log_bounds(uniform: LazyUniform, places: int) -> tuple[int, int | None]:
    """Integers with low <= -ln(U) 2^places <= high; high is None where U may be 0.

    The logarithm is taken of U / 8: near 1 Arb takes another way, in another time.
    """

    def minus_log(end: int) -> tuple[int, int]:
        eighth = ldexp(end, -uniform.length - 3)
        return bracket(lambda: -eighth.log() - 3 * ball(2).log(), places)

    low, high = minus_log(uniform.value + 1)
    if uniform.value >> 32:  # ln(1 + 1/m) is all but 1/m, and below it
        return max(low, 0), high - (-1 << places) // uniform.value
    return max(low, 0), minus_log(uniform.value)[1] if uniform.value else None


def log_ratio_bounds(scale: Fraction, places: int) -> tuple[int, int]:
    """Integers with low <= ln(2 / (1 + e^(-1/scale))) 2^places <= high."""
    return bracket(lambda: ball(2).log() - ball(-1 / scale).exp().log1p(), places)


def exp_bounds(exponent: Fraction, places: int) -> tuple[int, int]:
    """Integers with low <= e^exponent 2^places <= high, for an exponent of 0 or below."""
    low, high = bracket(lambda: ball(exponent).exp(), places)
    return max(low, 0), high


def laplace_floor_exact(word: int, *, ratio: Fraction, offset: Fraction, bits: RandomBits) -> int:
    """floor(offset + ratio Z) for the standard Laplace Z whose first 64 bits are ``word``."""
    sign, uniform = signed_uniform(word, bits)
    while True:
        places = uniform.places
        low, high = minus_log_bounds(uniform, places)
        if high is not None:
            first, second = (low, high) if sign > 0 else (-high, -low)
            one = _floor_affine(first, places, ratio=ratio, offset=offset)
            if one == _floor_affine(second, places, ratio=ratio, offset=offset):
                return one
        uniform.extend()


def magnitude_exact(uniform: LazyUniform, *, scale: Fraction, two_sided: bool) -> int:
    """floor(scale (c - ln U)), c = ln(2/(1 + e^(-1/scale))) if ``two_sided``, else 0."""
    while True:
        places = uniform.places
        low, high = minus_log_bounds(uniform, places)
        if high is not None:
            shift = log_ratio_bounds(scale, places) if two_sided else (0, 0)
            zero = Fraction(0)
            one = _floor_affine(low + shift[0], places, ratio=scale, offset=zero)
            if one == _floor_affine(high + shift[1], places, ratio=scale, offset=zero):
                return max(one, 0)
        uniform.extend()


def gaussian_floors_exact(
    radius_word: int,
    angle_word: int,
    *,
    ratio: Fraction,
    offsets: tuple[Fraction, Fraction | None],
    bits: RandomBits,
) -> tuple[int, int]:
    """floor(offset + ratio Z) for both standard normals that Box and Muller make of two words.

    The second offset is None where the second normal is not used; its floor is then 0.
    """
    _, radius = signed_uniform(radius_word, bits)
    angle = LazyUniform(angle_word, length=64, bits=bits)
    while True:
        places = radius.places
        pair = normal_bounds(radius, angle, places)
        if pair is not None:
            floors = []
            for (low, high), offset in zip(pair, offsets, strict=True):
                if offset is None:
                    floors.append(0)
                    continue
                one = _floor_affine(low, 2 * places, ratio=ratio, offset=offset)
                if one != _floor_affine(high, 2 * places, ratio=ratio, offset=offset):
                    break
                floors.append(one)
            else:
                return floors[0], floors[1]
        radius.extend()
        angle.extend()


def normal_bounds(
    radius: LazyUniform, angle: LazyUniform, places: int
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Integers that bracket both normals of Box and Muller times 2^(2 places); None at U = 0."""
    low, high = minus_log_bounds(radius, places)
    if high is None:
        return None
    shortest = math.isqrt(2 * low << places)
    longest = math.isqrt(2 * high << places) + 1
    length = shortest, longest
    return (
        turned_bounds(length, angle, places),
        turned_bounds(length, angle, places, wave=Ball.sin_pi),
    )


def turned_bounds(
    length: tuple[int, int],
    angle: LazyUniform,
    places: int,
    *,
    wave: Callable[[Ball], Ball] = Ball.cos_pi,
) -> tuple[int, int]:
    """Integers around a coordinate, times 2^(2 places), of a vector at a uniform angle.

    length: integers around the vector's length times 2^places.
    """
    turn = ldexp(angle.value, 1 - angle.length)
    low, high = bracket(lambda: wave(turn), places)
    slack = 7 << (places - angle.length)  # the unread bits move it by less than 2 pi 2^-length
    corners = [r * end for r in length for end in (low - slack, high + slack)]
    return min(corners), max(corners)


def _floor_affine(value: int, places: int, *, ratio: Fraction, offset: Fraction) -> int:
    """floor(offset + ratio value / 2^places), in integers."""
    numerator = (offset.numerator * ratio.denominator << places) + (
        ratio.numerator * value * offset.denominator
    )
    return numerator // (offset.denominator * ratio.denominator << places)


def cut_laplace_floor_exact(
    word: int, *, ratio: Fraction, offset: Fraction, reach: Fraction, bits: RandomBits
) -> int:
    """floor(offset +- ratio (L mod reach)) for the L = -ln U and the sign of ``word``."""
    sign, uniform = signed_uniform(word, bits)
    while True:
        places = uniform.places
        low, high = minus_log_bounds(uniform, places)
        if high is not None:
            turns = _floor_affine(low, places, ratio=1 / reach, offset=Fraction(0))
            if turns == _floor_affine(high, places, ratio=1 / reach, offset=Fraction(0)):
                moved = offset - sign * turns * ratio * reach
                first, second = (low, high) if sign > 0 else (-high, -low)
                one = _floor_affine(first, places, ratio=ratio, offset=moved)
                if one == _floor_affine(second, places, ratio=ratio, offset=moved):
                    return one
        uniform.extend()


def linear_floor_exact(word: int, *, slope: Fraction, offset: Fraction, bits: RandomBits) -> int:
    """floor(offset + slope U) for the uniform number whose first 64 bits are ``word``."""
    uniform = LazyUniform(word, length=64, bits=bits)
    while True:
        ends = [
            math.floor(offset + slope * Fraction(end, 1 << uniform.length))
            for end in (uniform.value, uniform.value + 1)
        ]
        if ends[0] == ends[1]:
            return ends[0]
        uniform.extend()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coin:
    """A coin that shows heads with one probability, which `coin` makes from brackets of it.

    first: the first 64 bits of the probability, 2^64 where it is 1.
    """

    first: int
    bounds: Bounds

    def toss(self, count: int, bits: RandomBits) -> NDArray[np.bool_]:
        """``count`` independent tosses, True for heads; each takes one word."""
        words = bits.words(count)
        if self.first >> 64:
            return np.ones(count, dtype=np.bool_)
        heads: NDArray[np.bool_] = words < np.uint64(self.first)
        for place in np.flatnonzero(words == np.uint64(self.first)).tolist():
            heads[place] = self._decide(LazyUniform(self.first, length=64, bits=bits))
        return heads

    def _decide(self, uniform: LazyUniform) -> bool:
        while True:
            low, high = self.bounds(uniform.length)
            if uniform.value + 1 <= low:
                return True
            if uniform.value >= high:
                return False
            uniform.extend()


def coin(bounds: Bounds) -> Coin:
    """The coin of a probability in [0, 1] that can be bracketed as closely as is asked."""
    places = 128
    while True:
        low, high = (end >> places - 64 for end in bounds(places))
        if low == high:
            return Coin(first=low, bounds=bounds)
        places *= 2
