"""One draw of standard noise, known as closely as is asked, and its sum rounded to a public grid.

A draw is a function of lazy uniform numbers, of each of which 127 bits are read at first. `ends`
brackets it, `extend` reads 64 more bits of all of them. So a sum with an exact number, of any
exact scale, can be rounded exactly, and what is read does not depend on the value or the scale
except with a probability near 2^-120 times the scale in grid steps.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol, TypeAlias

from mpmath.libmp import from_rational, mpf_exp, to_fixed

from tacet.bits import RandomBits
from tacet.mechanisms.refine import (
    LazyUniform,
    exp_bounds,
    minus_log_bounds,
    normal_bounds,
    signed_uniform,
    turned_bounds,
)

__all__ = [
    "StandardCauchy",
    "StandardLaplace",
    "StandardNoise",
    "StandardNormal",
    "StandardStudent",
    "rounded_sum",
]

Ends: TypeAlias = tuple[Fraction, Fraction]

_GUARD = 64


class StandardNoise(Protocol):
    """A draw Z of a law that is symmetric about 0."""

    def ends(self) -> Ends | None:
        """Numbers between which Z lies; None as long as there is no finite bound."""

    def extend(self) -> None:
        """Read 64 more bits of each uniform number."""


def rounded_sum(value: Fraction, noise: StandardNoise, *, scale: Fraction, grid_log2: int) -> int:
    """floor((value + scale Z) / 2^grid_log2 + 1/2), exactly.

    >>> from tacet.bits import SeededBits
    >>> noise = StandardLaplace(bits=SeededBits(1))
    >>> rounded_sum(Fraction(7), noise, scale=Fraction(1, 1000), grid_log2=0)
    7
    """
    step = Fraction(1 << grid_log2) if grid_log2 >= 0 else Fraction(1, 1 << -grid_log2)
    offset, ratio = value / step + Fraction(1, 2), scale / step
    while True:
        found = noise.ends()
        if found is not None:
            low, high = (math.floor(offset + ratio * end) for end in found)
            if low == high:
                return low
        noise.extend()


class StandardLaplace:
    """Density exp(-|z|) / 2."""

    __slots__ = ("_sign", "_uniform")

    def __init__(self, *, bits: RandomBits) -> None:
        self._sign, self._uniform = _signed(bits)

    def ends(self) -> Ends | None:
        """Numbers between which the draw lies."""
        places = self._uniform.places
        low, high = minus_log_bounds(self._uniform, places)
        return None if high is None else _fractions(low, high, places, sign=self._sign)

    def extend(self) -> None:
        """Read 64 more bits."""
        self._uniform.extend()


class StandardNormal:
    """Density exp(-z^2 / 2) / sqrt(2 pi); the first normal of Box and Muller (1958)."""

    __slots__ = ("_angle", "_radius")

    def __init__(self, *, bits: RandomBits) -> None:
        _, self._radius = _signed(bits)
        self._angle = _uniform(bits)

    def ends(self) -> Ends | None:
        """Numbers between which the draw lies."""
        places = self._radius.places
        pair = normal_bounds(self._radius, self._angle, places)
        return None if pair is None else _fractions(*pair[0], 2 * places, sign=1)

    def extend(self) -> None:
        """Read 64 more bits of the radius and of the angle."""
        self._radius.extend()
        self._angle.extend()


class StandardStudent:
    r"""Student's t with any number nu >= 1 of degrees of freedom.

    Density proportional to (1 + z^2 / nu)^(-(nu + 1) / 2). In the plane the law with density
    proportional to (1 + |v|^2 / nu)^(-nu / 2 - 1) has this marginal, and P(|v| > r) =
    (1 + r^2 / nu)^(-nu / 2), so that sqrt(nu (U^(-2 / nu) - 1)) cos(2 pi V) has it too.
    Source: Bailey 1994.
    """

    __slots__ = ("_angle", "_degrees", "_radius")

    def __init__(self, *, degrees: Fraction, bits: RandomBits) -> None:
        self._degrees = degrees
        _, self._radius = _signed(bits)
        self._angle = _uniform(bits)

    def ends(self) -> Ends | None:
        """Numbers between which the draw lies."""
        places = self._radius.places
        low, high = minus_log_bounds(self._radius, places)
        if high is None:
            return None
        growth = 2 / self._degrees
        least = _growth_bounds(low, places, growth)[0]
        most = _growth_bounds(high, places, growth)[1]
        shortest = math.isqrt(math.floor(self._degrees * least) << places)
        longest = math.isqrt(math.ceil(self._degrees * most) << places) + 1
        pair = turned_bounds((shortest, longest), self._angle, places)
        return _fractions(*pair[0], 2 * places, sign=1)

    def extend(self) -> None:
        """Read 64 more bits of the radius and of the angle."""
        self._radius.extend()
        self._angle.extend()


class StandardCauchy:
    r"""Density proportional to 1 / (1 + |z|^g), for any g > 1.

    By rejection from the density min(1, |z|^-g) (g - 1) / (2 g): |z| is W inside 1, with
    probability (g - 1) / g and W uniform, else 1 / W with W = U^(1 / (g - 1)). Either is kept with
    probability 1 / (1 + W^g), at least one half, which is the ratio of the two densities.
    """

    __slots__ = ("_inside", "_magnitude", "_power", "_sign")

    def __init__(self, *, power: Fraction, bits: RandomBits) -> None:
        self._power = power
        while True:
            self._inside = bits.below(power.numerator) >= power.denominator
            self._sign, self._magnitude = _signed(bits)
            if self._kept(_uniform(bits)):
                return

    def ends(self) -> Ends | None:
        """Numbers between which the draw lies."""
        found = self._powers(Fraction(1))
        if found is None:
            return None
        low, high = found
        first, second = (low, high) if self._inside else (1 / high, 1 / low)
        return (first, second) if self._sign > 0 else (-second, -first)

    def extend(self) -> None:
        """Read 64 more bits."""
        self._magnitude.extend()

    def _kept(self, coin: LazyUniform) -> bool:
        """Whether a uniform number is below 1 / (1 + W^g)."""
        while True:
            found = self._powers(self._power)
            if found is not None:
                unit = 1 << coin.length
                if (coin.value + 1) * (1 + found[1]) < unit:
                    return True
                if coin.value * (1 + found[0]) > unit:
                    return False
            self._magnitude.extend()
            coin.extend()

    def _powers(self, exponent: Fraction) -> Ends | None:
        """Numbers, above 0, between which W^exponent lies."""
        places = self._magnitude.places
        low, high = minus_log_bounds(self._magnitude, places)
        if high is None:
            return None
        share = exponent if self._inside else exponent / (self._power - 1)
        places = 2 * places  # so that the lower bound is above 0, and close in relative terms
        least = exp_bounds(-share * Fraction(high, 1 << self._magnitude.places), places)[0]
        most = exp_bounds(-share * Fraction(low, 1 << self._magnitude.places), places)[1]
        if least == 0:
            return None
        return Fraction(least, 1 << places), Fraction(most, 1 << places)


def _signed(bits: RandomBits) -> tuple[int, LazyUniform]:
    """A fair sign and 127 bits of a uniform number."""
    sign, uniform = signed_uniform(int(bits.words(1).view("int64")[0]), bits)
    uniform.extend()
    return sign, uniform


def _uniform(bits: RandomBits) -> LazyUniform:
    uniform = LazyUniform(int(bits.words(1)[0]), length=64, bits=bits)
    uniform.extend()
    return uniform


def _growth_bounds(value: int, places: int, factor: Fraction) -> tuple[int, int]:
    """Integers around (e^(factor value / 2^places) - 1) 2^places, the lower one 0 or above."""
    exponent = factor * Fraction(value, 1 << places)
    whole = 2 * math.ceil(exponent) + 2  # more binary digits than the power has before its point
    precision = places + whole + _GUARD
    argument = from_rational(exponent.numerator, exponent.denominator, precision)
    grown = int(to_fixed(mpf_exp(argument, precision), places)) - (1 << places)
    return max(grown - 2, 0), grown + 2


def _fractions(low: int, high: int, places: int, *, sign: int) -> Ends:
    first, second = (low, high) if sign > 0 else (-high, -low)
    return Fraction(first, 1 << places), Fraction(second, 1 << places)
