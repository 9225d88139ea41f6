"""Where a falling curve, known from both sides, comes down to a level."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.contour.quadrature import Sides

__all__ = ["crossing", "falling_below"]

_Array: TypeAlias = NDArray[np.float64]
_LARGEST = 1e6
_START = np.concatenate(([0.0], np.geomspace(1e-7, _LARGEST, 27)))
_NEAR = 2.0 ** -np.array([5.0, 10.0, 16.0, 24.0, 34.0, 46.0])  # from a guess, in brackets


def crossing(at: Callable[[float], Sides], start: float, *, slope: float) -> tuple[float, float]:
    """An interval that holds the least x from 0 on at which a falling curve is at most 1.

    at: both sides of the curve and a value near it; start: where to begin; slope: about minus the
    derivative of its logarithm. The second end is inf where no x is found.

    Bound       both: below the first the curve is above 1; at the second it is not.
    Source      secant steps on the logarithm, kept in a bracket; then steps outward.
    """
    near, sides, slope = _root(at, start, slope)
    low, high = 0.0, math.inf
    least = 2.0**-52 * near + 1e-300
    width = max(1.1 * max(sides.upper - 1.0, 0.0) / slope, least)
    while width < 4.0 * (near + 1.0):
        if at(near + width).upper <= 1.0:
            high = near + width
            break
        width *= 1.7
    width = max(1.1 * max(1.0 - sides.lower, 0.0) / slope, least)
    while width < near:
        if at(near - width).lower > 1.0:
            low = near - width
            break
        width *= 1.7
    return (0.0, 0.0) if low == 0.0 and at(0.0).upper <= 1.0 else (low, high)


def _root(at: Callable[[float], Sides], start: float, slope: float) -> tuple[float, Sides, float]:
    """About where the curve is 1, its sides and minus the slope of its logarithm there."""
    low, high, place, rate = 0.0, math.inf, start, slope
    before = (math.nan, math.nan)
    for turn in range(120):
        sides = at(place)
        height = sides.near
        if height > 1 or math.isnan(height):
            low = max(low, place)
        else:
            high = min(high, place)
        level = math.log(height) if height > 0 else math.nan
        guess = -(level - before[1]) / (place - before[0]) if place != before[0] else math.nan
        rate = guess if guess > 0 else rate
        if abs(level) < max(1e-15, 0.05 * min(sides.upper - sides.lower, 0.1)):
            break
        before = (place, level)
        if abs(level) <= 4e-16 * place * rate or high - low <= 4e-16 * min(high, 1e300):
            break
        following = place + level / rate
        slow = turn % 4 == 3 and turn > 10
        if slow or not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2 * place + 1e-6
        place = following
    return place, sides, rate


def falling_below(
    bounds: Callable[[_Array], tuple[_Array, _Array]], level: tuple[float, float]
) -> tuple[float, float]:
    """An interval that holds the least x from 0 on at which a falling curve is at most a level.

    bounds: (lower, upper) of the curve at an array of x, asked from 0 to 10^6, beyond which the
    second end is inf; level: two floats, 0 or above, between which the level lies.

    Bound       both: at the first, if above 0, the curve is above the level; at the second not.
    Source      a bracket of each end, cut at many points at once, most near the secant's guess.

    >>> low, high = falling_below(lambda x: (np.exp(-x), np.exp(-x)), (0.5, 0.5))
    >>> low <= np.log(2) <= high < low * (1 + 1e-14)
    True
    """
    points = _START
    ends = [(0.0, math.inf), (0.0, math.inf)]  # (above the level, at most the level)
    heights = [(1.0, 0.0), (1.0, 0.0)]
    goals = (max(level), min(level))
    for _ in range(60):
        for side, values in enumerate(bounds(points)):
            ends[side], heights[side] = _bracket(
                points, values, goals[side], ends[side], heights[side]
            )
        least = 0.02 * (ends[1][1] - ends[0][0])
        wide = [side for side in (0, 1) if not _narrow(*ends[side], least)]
        if not wide:
            break
        widest = max(wide, key=lambda side: ends[side][1] - ends[side][0])
        points = _inside(ends[widest], heights[widest], goals[widest])
    return ends[0][0], ends[1][1]


def _narrow(low: float, high: float, least: float) -> bool:
    return high - low <= max(3e-15 * high, least) or high == math.inf or high <= 1e-300


def _bracket(
    points: _Array,
    values: _Array,
    level: float,
    ends: tuple[float, float],
    heights: tuple[float, float],
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The narrower bracket, and the curve at its ends."""
    (low, high), (top, bottom) = ends, heights
    under = np.flatnonzero((values <= level) & (points < high))
    if under.size:
        high, bottom = float(points[under[0]]), float(values[under[0]])
    over = np.flatnonzero((values > level) & (points > low) & (points < high))
    if over.size:
        low, top = float(points[over[-1]]), float(values[over[-1]])
    return (low, high), (top, bottom)


def _inside(ends: tuple[float, float], heights: tuple[float, float], level: float) -> _Array:
    """Points inside a bracket: a few all over it, and more near where a chord meets the level."""
    (low, high), (top, bottom) = ends, heights
    if low == 0.0:
        return np.geomspace(high * 1e-12, high, 16)[:-1]
    width = high - low
    spread = low + width * np.linspace(0.0, 1.0, 7)[1:-1]
    if bottom > 0 and level > 0 and math.isfinite(top):
        part = math.log(top / level) / math.log(top / bottom)
    else:
        part = (top - level) / max(top - bottom, 1e-300)
    guess = low + min(max(part, 0.0), 1.0) * width
    found: _Array = np.concatenate((spread, [guess], guess - width * _NEAR, guess + width * _NEAR))
    found.sort()
    return found[(found > low) & (found < high)]
