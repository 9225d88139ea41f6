"""One draw of standard noise, known as closely as is asked, and its sum rounded to a public grid.

A draw is a function of lazy uniform numbers, of each of which 127 bits are read at first. `ends`
brackets it, `extend` reads 64 more bits of all of them. So a sum with an exact number, of any
exact scale, can be rounded exactly, and what is read does not depend on the value or the scale
except with a probability near 2^-120 times the scale in grid steps.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Final, TypeAlias

from mpmath.libmp import from_man_exp, ln2_fixed, mpf_exp, mpf_log, to_fixed

from unacorda import elements
from unacorda.bits import RandomBits
from unacorda.mechanisms.noise import refinement

_LARGEST: Final = Fraction(2) ** 1100  # what infinities count as

Ends: TypeAlias = tuple[int, int, int]
"""Whole numbers low, high, places: the draw lies between low and high, both over 2^places."""

_GUARD = 64
_TURNS = 512


def rounded_sum(value: Fraction, noise: StandardNoise, *, scale: Fraction, grid_log2: int) -> int:
    """floor((value + scale Z) / 2^grid_log2 + 1/2), exactly.

    >>> from unacorda.bits import SeededBits
    >>> noise = StandardLaplace(bits=SeededBits(1))
    >>> rounded_sum(Fraction(7), noise, scale=Fraction(1, 1000), grid_log2=0)
    7
    """
    step = Fraction(1 << grid_log2) if grid_log2 >= 0 else Fraction(1, 1 << -grid_log2)
    offset, ratio = value / step + Fraction(1, 2), scale / step
    # Integers alone from here on: fractions are reduced, in a time that depends on the draw.
    unit = offset.denominator * ratio.denominator
    start, slope = offset.numerator * ratio.denominator, ratio.numerator * offset.denominator
    while True:
        found = noise.ends()
        if found is not None:
            low, high, places = found
            shift, whole = start << places, unit << places
            least = (shift + slope * low) // whole
            if least == (shift + slope * high) // whole:
                return least
        noise.extend()


class StandardLaplace:
    """Density exp(-|z|) / 2."""

    __slots__ = ("_sign", "_uniform")

    def __init__(self, *, bits: RandomBits) -> None:
        self._sign, self._uniform = _signed(bits)

    def ends(self) -> Ends | None:
        """Numbers between which the draw lies."""
        found = _minus_log(self._uniform)
        return None if found is None else _mirrored((*found, self._uniform.places), sign=self._sign)

    def extend(self) -> None:
        """Read 64 more bits."""
        self._uniform.extend()


class _Turned(ABC):
    """A coordinate of a vector at a uniform angle, whose length is a function of -ln U."""

    __slots__ = ("_angle", "_radius")

    def __init__(self, *, bits: RandomBits) -> None:
        _, self._radius = _signed(bits)
        self._angle = _uniform(bits)

    def ends(self) -> Ends | None:
        """Numbers between which the draw lies."""
        places, found = self._radius.places, _minus_log(self._radius)
        if found is None:
            return None
        pair = refinement.turned_bounds(self._lengths(*found, places), self._angle, places)
        return (*pair[0], 2 * places)

    def extend(self) -> None:
        """Read 64 more bits of the radius and of the angle."""
        self._radius.extend()
        self._angle.extend()

    @abstractmethod
    def _lengths(self, low: int, high: int, places: int) -> tuple[int, int]:
        """Whole numbers around the length, for an -ln U between two; all over 2^places."""


class StandardNormal(_Turned):
    """Density exp(-z^2 / 2) / sqrt(2 pi); the first normal of Box and Muller (1958)."""

    __slots__ = ()

    def _lengths(self, low: int, high: int, places: int) -> tuple[int, int]:
        return math.isqrt(2 * low << places), math.isqrt(2 * high << places) + 1


class StandardStudent(_Turned):
    r"""Student's t with any number nu >= 1 of degrees of freedom.

    Density proportional to (1 + z^2 / nu)^(-(nu + 1) / 2). In the plane the law with density
    proportional to (1 + |v|^2 / nu)^(-nu / 2 - 1) has this marginal, and P(|v| > r) =
    (1 + r^2 / nu)^(-nu / 2), so that sqrt(nu (U^(-2 / nu) - 1)) cos(2 pi V) has it too.
    Source: Bailey 1994.
    """

    __slots__ = ("_degrees",)

    def __init__(self, *, degrees: Fraction, bits: RandomBits) -> None:
        self._degrees = degrees
        super().__init__(bits=bits)

    def _lengths(self, low: int, high: int, places: int) -> tuple[int, int]:
        growth = 2 * self._degrees.denominator, self._degrees.numerator
        first, last = (
            _exp(end, places, growth, most=self._radius.length, goal=places) - (1 << places)
            for end in (low, high)
        )
        shortest = math.isqrt(max(math.floor(self._degrees * (first - 2)), 0) << places)
        return shortest, math.isqrt(math.ceil(self._degrees * (last + 2)) << places) + 1


StandardNoise: TypeAlias = StandardLaplace | StandardNormal | StandardStudent
"""A draw Z of a law that is symmetric about 0."""


def _signed(bits: RandomBits) -> tuple[int, refinement.LazyUniform]:
    """A fair sign and 127 bits of a uniform number."""
    sign, uniform = refinement.signed_uniform(int(bits.words(1).view("int64")[0]), bits)
    uniform.extend()
    return sign, uniform


def _uniform(bits: RandomBits) -> refinement.LazyUniform:
    uniform = refinement.LazyUniform(int(bits.words(1)[0]), length=64, bits=bits)
    uniform.extend()
    return uniform


def _minus_log(uniform: refinement.LazyUniform) -> tuple[int, int] | None:
    """Integers around -ln(U) 2^places; None where U may be 0.

    It is taken of U / 8, since mpmath takes another way for numbers near 1, in another time.
    """
    if uniform.value == 0:
        return None
    places, eighth = uniform.places, -uniform.length - 3
    low, high = (
        -int(to_fixed(mpf_log(from_man_exp(end, eighth), places + _GUARD), places))
        for end in (uniform.value + 1, uniform.value)
    )
    three = 3 * int(ln2_fixed(places))  # too small by less than 3
    return max(low - three - 6, 0), high - three + 6


def _exp(value: int, places: int, factor: tuple[int, int], *, most: int, goal: int) -> int:
    """A whole number less than 2 away from e^(factor value / 2^places) 2^goal.

    factor: numerator and denominator; most: above value / 2^places. The exponent is moved by many
    ln 2, since mpmath's time depends on its size.
    """
    top, bottom = factor
    precision = goal + max(-(-2 * top * most // bottom), 0) + _GUARD
    exponent = (top * value << precision) // (bottom << places)
    turns = _TURNS if top > 0 else -_TURNS
    moved = from_man_exp(exponent + turns * int(ln2_fixed(precision)), -precision)
    return int(to_fixed(mpf_exp(moved, precision), goal - turns))


def _mirrored(found: Ends, *, sign: int) -> Ends:
    low, high, places = found
    return found if sign > 0 else (-high, -low, places)


def exact_number(value: object, *, nan: Fraction) -> Fraction:
    """The number that an element is, see `elements.number`; an infinity is +-2^1100.

    nan: in place of what is no number.

    >>> exact_number(0.5, nan=Fraction(0)), exact_number("7", nan=Fraction(0))
    (Fraction(1, 2), Fraction(0, 1))
    """
    held = elements.number(value)
    if not isinstance(held, float) or math.isfinite(held):
        return Fraction(held)
    return nan if math.isnan(held) else _LARGEST * (1 if held > 0 else -1)
