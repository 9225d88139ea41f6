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

from unacorda import elements
from unacorda.balls import Ball, ball, bracket, ldexp
from unacorda.bits import RandomBits
from unacorda.mechanisms.noise import refinement

_LARGEST: Final = Fraction(2) ** 1100  # what infinities count as

Ends: TypeAlias = tuple[int, int, int]
"""Whole numbers low, high, places: the draw lies between low and high, both over 2^places."""

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
        places = self._uniform.places
        low, high = refinement.minus_log_bounds(self._uniform, places)
        if high is None:
            return None
        return (low, high, places) if self._sign > 0 else (-high, -low, places)

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
        places = self._radius.places
        low, high = refinement.minus_log_bounds(self._radius, places)
        if high is None:
            return None
        lengths = self._lengths(low, high, places)
        return (*refinement.turned_bounds(lengths, self._angle, places), 2 * places)

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
        growth = 2 / self._degrees

        def square(end: int) -> Ball:
            # The exponent is moved by many ln 2: the time that Arb takes depends on its size.
            moved = ldexp(end, -places) * ball(growth) + _TURNS * ball(2).log()
            return ball(self._degrees) * (moved.exp() * ldexp(1, -_TURNS) - 1)

        # Digits enough for the largest radius that the bits read so far allow.
        spare = 64 + math.ceil(growth * self._radius.length)
        shortest, _ = bracket(lambda: square(low), places, spare=spare)
        _, longest = bracket(lambda: square(high), places, spare=spare)
        return math.isqrt(max(shortest, 0) << places), math.isqrt(longest << places) + 1


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
