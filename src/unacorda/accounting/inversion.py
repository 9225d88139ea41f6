"""Where a falling curve, known from both sides, comes down to a level."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Array: TypeAlias = NDArray[np.float64]
_LARGEST = 1e6
_START = np.concatenate(([0.0], np.geomspace(1e-7, _LARGEST, 27)))
_NEAR = 2.0 ** -np.array([5.0, 10.0, 16.0, 24.0, 34.0, 46.0])  # from a guess, in brackets


def falling_below(
    bounds: Callable[[_Array], tuple[_Array, _Array]],
    level: tuple[float, float],
    *,
    start: _Array = _START,
) -> tuple[float, float]:
    """An interval that holds the least x from 0 on at which a falling curve is at most a level.

    bounds: (lower, upper) of the curve at an array of x, asked from 0 to 10^6, beyond which the
    second end is inf; level: two floats, 0 or above, between which the level lies; start: ascending
    from 0, where to look first.

    Bound       both: at the first, if above 0, the curve is above the level; at the second not.
    Source      a bracket of each end, cut at many points at once, most near the secant's guess.

    >>> low, high = falling_below(lambda x: (np.exp(-x), np.exp(-x)), (0.5, 0.5))
    >>> low <= np.log(2) <= high < low * (1 + 1e-14)
    True
    """
    points = start
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
