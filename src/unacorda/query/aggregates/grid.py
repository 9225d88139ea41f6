"""The public grid of quantiles and extremes: at most 2^20 points, in the order of floats.

A point is m units of at most b + 1 binary digits: near zero every multiple of the unit is a point,
and from 2^(b + 1) units on the distance of two points is at most 2^-b of them. So a median of 405
and one of 405,000,000 are released equally well, whatever the bounds. Negative points mirror the
positive ones. A number counts as the nearest point; the ends of the grid are the bounds.

The points are numbered in their order. The number of x units, x >= 0, is

    j 2^b + round(x / 2^j),    j = max(0, floor(log2 x) - b),

which is the order of the bits of a float with a b-bit fraction: SQL evaluates it by cases of j with
one product of a double and a constant each, so that every engine finds the same point.

**Short numbers weigh more.** Data that are written with few digits repeat. Among points that are
all alike, a whole number that many rows have would be one in thousands of points that are about as
good. So a point whose last t binary digits are 0 has 2^floor(t / 2) slots, at most 64, and what is
drawn is a slot. This is public. There are 1.5 times as many slots as points. Where a resolution was
given, which says what values there are, each point has one slot.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.query.expressions.quoting import double

__all__ = ["LEAST_RESOLUTION_LOG2", "SLOTS_LOG2", "PublicGrid", "bisection"]

LEAST_RESOLUTION_LOG2 = -60
"""The logarithm of the least unit, as a share of the larger bound."""
SLOTS_LOG2 = 6
"""The logarithm of the most slots that a point has."""

_MOST_STEPS = 2**20
_FLOOR_LOG2 = -40  # below so much of the larger bound the distance of points stays the same
_FINEST = 46  # binary digits of a fraction: all numbers of points are doubles
_LEAST_LOG2 = -1000  # of a unit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def bisection(
    first: int, last: int, *, before: Callable[[int], str], leaf: Callable[[int], str]
) -> str:
    """SQL that picks one of the leaves `first` to `last`; before: that it is this or an earlier."""
    if first == last:
        return leaf(first)
    middle = (first + last) // 2
    earlier = bisection(first, middle, before=before, leaf=leaf)
    later = bisection(middle + 1, last, before=before, leaf=leaf)
    return f"CASE WHEN {before(middle)} THEN {earlier} ELSE {later} END"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicGrid:
    """The points from a lower bound to an upper one.

    unit: the distance of points near zero, inverted if `per_unit`: points are then multiples of
    1 / unit. fraction: b, the binary digits of a point after its first. first: the number of the
    lower bound in the order of all points; steps: how many points follow it. alike: whether each
    has one slot.
    """

    lower: float
    upper: float
    unit: float
    per_unit: bool
    fraction: int
    first: int
    steps: int
    alike: bool

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(lower: Fraction, upper: Fraction, resolution: Fraction | None = None) -> PublicGrid:
        """The finest grid of at most 2^20 steps.

        resolution: the unit; left out, points are a constant distance apart only below 2^-40 of the
        power of two that is the larger bound or the next above it.

        >>> PublicGrid.of(Fraction(0), Fraction(120), Fraction(1)).steps
        120
        >>> grid = PublicGrid.of(Fraction(0), Fraction(10**9))
        >>> grid.steps < 2**20, grid.fraction
        (True, 14)
        """
        grid = functools.partial(_grid, float(lower), float(upper), resolution)
        digits = range(1, _FINEST + 1)
        return grid(bisect.bisect_right(digits, _MOST_STEPS, key=lambda b: grid(b).steps))

    def places(self, values: ArrayLike) -> Integers:
        """The numbers of the points next to some values, 0 to `steps`; as `sql` counts them."""
        clipped = np.clip(np.asarray(values, dtype=np.float64), self.lower, self.upper)
        places = np.clip(self.numbers(clipped) - self.first, 0, self.steps)
        places = np.where(clipped <= self.lower, 0, places)
        return np.where(clipped >= self.upper, self.steps, places)

    def values(self, places: ArrayLike) -> Floats:
        """The points with some numbers."""
        places = np.asarray(places)
        points = np.clip(self.points(places + self.first), self.lower, self.upper)
        points = np.where(places <= 0, self.lower, points)
        return np.where(places >= self.steps, self.upper, points)

    def ends(self, places: ArrayLike) -> tuple[Floats, Floats]:
        """Numbers that all values which count as some points lie between."""
        numbers = np.asarray(places) + self.first
        own = self.points(numbers)
        low, high = ((own + self.points(numbers + side)) / 2 for side in (-1, 1))
        # What is halfway is rounded, and so were products before: by less than 2^-50 of it.
        low, high = low - np.abs(low) * 2.0**-50, high + np.abs(high) * 2.0**-50
        low = np.where(np.asarray(places) <= 0, self.lower, low)
        high = np.where(np.asarray(places) >= self.steps, self.upper, high)
        return np.clip(low, self.lower, self.upper), np.clip(high, self.lower, self.upper)

    def sql(self, value: str) -> str:
        """SQL for the number of the point next to a nullable double; total, NULL for NULL."""
        inner = self._sides(value)
        if self.first:
            inner = f"{inner} - {double(self.first)}"
        return (
            f"CAST(CASE WHEN {value} <= {double(self.lower)} THEN 0e0 "
            f"WHEN {value} >= {double(self.upper)} THEN {double(self.steps)} "
            f"ELSE {inner} END AS INTEGER)"
        )

    @property
    def slots(self) -> Integers:
        """The first slot of each point, and how many there are in all."""
        return _slots(self)

    @property
    def words(self) -> str:
        """What answers there are."""
        least = 1 / self.unit if self.per_unit else self.unit
        if len(self._starts) == 1:  # all points are a unit apart
            return (
                f"answers are the bounds and multiples of {least:g}; a value counts as the nearest"
            )
        return (
            f"answers have {self.fraction + 1} binary digits: a value counts as the nearest one, "
            f"within {2.0 ** -(self.fraction + 1):.1g} of itself, or as the nearest multiple of "
            f"{least:.3g} where that is coarser"
        )

    @property
    def _starts(self) -> list[float]:
        """Where points begin to be 2, 4, 8, ... units apart, as far as a bound reaches."""
        largest = max(abs(self.lower), abs(self.upper))
        starts = [self._scaled(2.0 ** (self.fraction + 1))]
        while starts[-1] < largest:
            starts.append(self._scaled(2.0 ** (self.fraction + 1 + len(starts))))
        return starts

    def _scaled(self, units: Any) -> Any:
        """Units as numbers."""
        return units / self.unit if self.per_unit else units * self.unit

    def _rate(self, j: int) -> float:
        """By what a value is multiplied to be counted in steps of 2^j units."""
        return (self.unit if self.per_unit else 1 / self.unit) * 2.0**-j

    def numbers(self, values: Floats) -> Integers:
        """The numbers of the points next to some values in the order of all, 0 that of 0."""
        size = np.abs(values)
        j = np.searchsorted(self._starts, size, side="right")
        rates = np.array([self._rate(k) for k in range(len(self._starts) + 1)])
        found = np.floor(size * rates[j] + 0.5) + j * 2.0**self.fraction
        numbers: Integers = np.where(values < 0, -found, found).astype(np.int64)
        return numbers

    def points(self, numbers: Integers) -> Floats:
        """The points with some numbers in the order of all, also those beyond the bounds."""
        size = np.abs(numbers)
        j = np.maximum((size >> self.fraction) - 1, 0)
        units = np.ldexp((size - (j << self.fraction)).astype(np.float64), j.astype(np.int64))
        points: Floats = self._scaled(units)
        return np.where(numbers < 0, -points, points)

    def _sides(self, value: str) -> str:
        """SQL for `numbers`, of a value between the bounds."""
        largest = max(abs(self.lower), abs(self.upper))
        last = sum(start < largest for start in self._starts)
        nearest = min(abs(self.lower), abs(self.upper))
        first = sum(start <= nearest for start in self._starts)
        if self.lower >= 0:
            return self._cases(value, first, last)
        if self.upper <= 0:
            return f"-{self._cases(f'(-{value})', first, last)}"
        below, above = self._cases(f"(-{value})", 0, last), self._cases(value, 0, last)
        return f"CASE WHEN {value} < 0e0 THEN -{below} ELSE {above} END"

    def _cases(self, value: str, first: int, last: int) -> str:
        """SQL for the number of a value of at least 0, of which j is between these."""
        starts = self._starts

        def number(j: int) -> str:
            steps = f"floor({value} * {double(self._rate(j))} + 0.5e0)"
            return f"({steps} + {double(j * 2.0**self.fraction)})" if j else steps

        return bisection(
            first, last, before=lambda j: f"{value} < {double(starts[j])}", leaf=number
        )


def _grid(lower: float, upper: float, resolution: Fraction | None, fraction: int) -> PublicGrid:
    alike = resolution is not None
    if resolution is None:
        _, exponent = math.frexp(max(abs(lower), abs(upper)))
        resolution = Fraction(2) ** max(exponent + _FLOOR_LOG2 - fraction - 1, _LEAST_LOG2)
    per_unit = resolution < 1
    whole = PublicGrid(
        lower=lower,
        upper=upper,
        unit=float(1 / resolution if per_unit else resolution),
        per_unit=per_unit,
        fraction=fraction,
        first=0,
        steps=0,
        alike=alike,
    )
    first, last = whole.numbers(np.array([lower, upper])).tolist()
    # The bounds stand for the points next to them on the far side.
    first -= int(whole.points(np.array(first)) > lower)
    last += int(whole.points(np.array(last)) < upper)
    return dataclasses.replace(whole, first=first, steps=max(last - first, 1))


@functools.lru_cache(maxsize=16)
def _slots(grid: PublicGrid) -> Integers:
    found = np.arange(grid.steps + 2, dtype=np.int64)
    if not grid.alike:
        size = np.abs(found[:-1] + grid.first)
        digits = size - (np.maximum((size >> grid.fraction) - 1, 0) << grid.fraction)
        zeros = np.log2((digits & -digits).clip(1)).astype(np.int64)
        own = 1 << np.minimum(np.where(digits == 0, grid.fraction, zeros) // 2, SLOTS_LOG2)
        np.cumsum(own, out=found[1:])
        found[0] = 0
    found.setflags(write=False)
    return found
