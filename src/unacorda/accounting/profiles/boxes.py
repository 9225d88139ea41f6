"""Boxes: arrays of intervals of real numbers, rounded outward at every step.

A box holds two float arrays, lower <= upper, and stands for any numbers between them. Sums,
products and quotients of floats are correctly rounded, so one step to the next float outward
encloses them. For the elementary functions of NumPy an error of at most 4 units in the last place
is assumed (the tests compare them with 60-digit values) and 8 are charged.
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

from unacorda.privacy.rounding import float_above, float_below

Array: TypeAlias = NDArray[np.float64]

_ULPS = 8
_TINY = 1e-322  # covers the absolute error of a function whose value is subnormal


@dataclass(frozen=True, slots=True)
class Box:
    """Numbers known to lie between two float arrays of one shape, ends included."""

    lower: Array
    upper: Array

    def __neg__(self) -> Box:
        return Box(-self.upper, -self.lower)

    def __add__(self, other: Box | float) -> Box:
        right = _as_box(other)
        low, high = self.lower + right.lower, self.upper + right.upper
        # a sum of floats that comes out as 0 is 0
        return Box(
            np.where(low == 0, low, np.nextafter(low, -math.inf)),
            np.where(high == 0, high, np.nextafter(high, math.inf)),
        )

    __radd__ = __add__

    def __sub__(self, other: Box | float) -> Box:
        return self + (-_as_box(other))

    def __rsub__(self, other: float) -> Box:
        return -self + other

    def __mul__(self, other: Box | float) -> Box:
        right = _as_box(other)
        if np.all(right.lower >= 0):
            return _scaled(self, right)
        if np.all(self.lower >= 0):
            return _scaled(right, self)
        corners = [(a, b) for a in (self.lower, self.upper) for b in (right.lower, right.upper)]
        low = np.minimum.reduce([_times(a, b, toward=-math.inf) for a, b in corners])
        return Box(low, np.maximum.reduce([_times(a, b, toward=math.inf) for a, b in corners]))

    __rmul__ = __mul__

    def __truediv__(self, other: Box | float) -> Box:
        """The quotient by a box of positive numbers."""
        right = _as_box(other)
        with np.errstate(over="ignore", under="ignore"):
            low = self.lower / np.where(self.lower >= 0, right.upper, right.lower)
            high = self.upper / np.where(self.upper >= 0, right.lower, right.upper)
        return Box(np.nextafter(low, -math.inf), np.nextafter(high, math.inf))

    def exp(self) -> Box:
        """The exponential of these numbers."""
        return self._rising(np.exp, least=0.0)

    def expm1(self) -> Box:
        """The exponential of these numbers, minus one: accurate near 0."""
        return self._rising(np.expm1, least=-1.0)

    def log(self) -> Box:
        """The natural logarithm; -inf at and below 0."""
        clipped = Box(np.maximum(self.lower, 0.0), np.maximum(self.upper, 0.0))
        return clipped._rising(np.log, least=-math.inf)

    def log1p(self) -> Box:
        """ln(1 + x): accurate near 0; -inf at and below -1."""
        clipped = Box(np.maximum(self.lower, -1.0), np.maximum(self.upper, -1.0))
        return clipped._rising(np.log1p, least=-math.inf)

    def at_least(self, other: Box | float) -> Box:
        """The larger of both numbers."""
        right = _as_box(other)
        return Box(np.maximum(self.lower, right.lower), np.maximum(self.upper, right.upper))

    def at_most(self, other: Box | float) -> Box:
        """The smaller of both numbers."""
        right = _as_box(other)
        return Box(np.minimum(self.lower, right.lower), np.minimum(self.upper, right.upper))

    def _rising(self, function: Callable[[Array], Array], *, least: float) -> Box:
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            low, high = function(self.lower), function(self.upper)
        lower, upper = np.maximum(down(low), least), np.maximum(up(high), least)
        if function is not np.exp:  # the others give 0 where it is the value; exp underflows
            lower, upper = np.where(low == 0, 0.0, lower), np.where(high == 0, 0.0, upper)
        return Box(lower, upper)


def box(value: float | Fraction | Array) -> Box:
    """The box of an array of floats, or of one exact number, which need not be a float.

    >>> tenth = box(Fraction(1, 10))
    >>> Fraction(float(tenth.lower)) < Fraction(1, 10) < Fraction(float(tenth.upper))
    True
    """
    if not isinstance(value, Fraction):
        array = np.asarray(value, dtype=np.float64)
        return Box(array, array)
    try:
        lower, upper = float_below(value), float_above(value)
    except OverflowError:
        largest = np.asarray(np.finfo(np.float64).max)
        infinite = np.asarray(math.inf)
        return Box(largest, infinite) if value > 0 else Box(-infinite, -largest)
    return Box(np.asarray(lower), np.asarray(upper))


def choose(where: NDArray[np.bool_], first: Box, second: Box) -> Box:
    """`first` where the condition holds, `second` elsewhere."""
    return Box(
        np.where(where, first.lower, second.lower), np.where(where, first.upper, second.upper)
    )


def hull(first: Box, second: Box) -> Box:
    """The least box that holds both."""
    return Box(np.minimum(first.lower, second.lower), np.maximum(first.upper, second.upper))


def up(value: Array, *, ulps: float = _ULPS) -> Array:
    """Above every number within this many units in the last place."""
    with np.errstate(invalid="ignore", over="ignore"):
        raised = value + (np.abs(value) * (ulps * 2.0**-52) + _TINY)
    return np.where(np.isinf(value), value, raised)


def down(value: Array, *, ulps: float = _ULPS) -> Array:
    """Below every number within this many units in the last place; infinity may be overflow."""
    with np.errstate(invalid="ignore", over="ignore"):
        lowered = value - (np.abs(value) * (ulps * 2.0**-52) + _TINY)
    return np.where(value == math.inf, np.finfo(np.float64).max, lowered)


def running_sum(terms: Array) -> tuple[Array, float]:
    """Sums of the first 1, 2, ... of some non-negative terms, and their relative error.

    Blocks of about sqrt(n) terms are summed alone, then the sums of blocks: no sum passes through
    more than 2 sqrt(n) + 2 additions, each with a relative error of at most 2^-53.
    """
    count = len(terms)
    width = max(1, math.isqrt(count))
    rows = -(-count // width)
    padded = np.zeros(rows * width)
    padded[:count] = terms
    blocks = np.cumsum(padded.reshape(rows, width), axis=1)
    before = np.concatenate(([0.0], np.cumsum(blocks[:-1, -1])))
    sums = (blocks + before[:, None]).reshape(-1)[:count]
    return sums, (rows + width + 2) * 2.0**-52


def _as_box(value: Box | float) -> Box:
    return value if isinstance(value, Box) else box(value)


def _times(left: Array, right: Array, *, toward: float) -> Array:
    """The product, rounded to one side; a factor 0 makes it 0, exactly, also of infinity."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        product = np.nextafter(left * right, toward)
    return np.where((left == 0) | (right == 0), 0.0, product)


def _scaled(left: Box, right: Box) -> Box:
    """The product by a box of numbers that are 0 or above."""
    smaller = np.where(left.lower >= 0, right.lower, right.upper)
    larger = np.where(left.upper >= 0, right.upper, right.lower)
    low, high = (
        _times(left.lower, smaller, toward=-math.inf),
        _times(left.upper, larger, toward=math.inf),
    )
    return Box(low, high)
