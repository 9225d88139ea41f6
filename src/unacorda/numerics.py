"""Searches of a line."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

__all__ = [
    "bisect",
    "boundary",
    "golden_section",
    "least_whole",
    "narrow_bracket",
    "near",
]

_GOLDEN = (math.sqrt(5) - 1) / 2
_TRIALS = 80
_Number = TypeVar("_Number", float, Fraction)


def bisect(
    holds: Callable[[_Number], bool], low: _Number, high: _Number, *, rounds: int
) -> tuple[_Number, _Number]:
    """Halve the interval in which a condition turns from False to True, so many times.

    The condition is not asked there: it is taken to be False at `low` and True at `high`.

    >>> bisect(lambda x: x * x >= 2, 0.0, 2.0, rounds=10)
    (1.4140625, 1.416015625)
    """
    for _ in range(rounds):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def least_whole(holds: Callable[[int], bool], *, start: int = 0) -> int:
    """The least whole number from ``start`` on for which a rising condition holds.

    >>> least_whole(lambda n: n * n >= 200)
    15
    """
    step = 1
    while not holds(start + step):
        step *= 2
    low, high = start - 1, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def narrow_bracket(
    value: Callable[[float], float],
    goal: float,
    low: tuple[float, float],
    high: tuple[float, float],
    *,
    near: float = 1e-12,
) -> tuple[float, float]:
    """Places nearer than `near`, relatively, where a falling function passes a goal.

    low, high: places with the values there, the first above the goal, the second not; so are the
    places returned. False position on the logarithm, after Dowell and Jarratt 1971, then halving.

    >>> low, high = narrow_bracket(lambda x: 2.0**-x, 0.25, (0.0, 1.0), (10.0, 2.0**-10))
    >>> low < 2 <= high < 2 + 1e-11
    True
    """

    def level(found: float) -> float:
        return math.log(found) if found > 0 else -math.inf

    target = level(goal)
    weights = [level(low[1]) - target, level(high[1]) - target]
    last = 0
    for trial in range(_TRIALS):
        width = high[0] - low[0]
        if width <= near * high[0]:
            break
        middle = low[0] + width / 2
        known = math.isfinite(weights[0]) and math.isfinite(weights[1])
        if trial % 4 != 3 and known and weights[0] > weights[1]:
            share = weights[0] / (weights[0] - weights[1])
            # a little beyond the meeting place on either side closes the bracket
            share += 0.1 * near if trial % 2 else -0.1 * near
            middle = low[0] + width * min(max(share, 1e-4), 1 - 1e-4)
            if trial % 4 == 2:  # both neighbors of the place where the line meets the goal
                reach = max(near * high[0] / 4, width * 1e-6)
                middle += reach if last < 0 else -reach
        middle = min(max(middle, math.nextafter(low[0], high[0])), high[0])
        if middle in (low[0], high[0]):
            break
        found = value(middle)
        excess = level(found) - target
        if found > goal:
            low = (middle, found)
            weights = [excess, weights[1] / 2 if last < 0 else weights[1]]
            last = -1
        else:
            high = (middle, found)
            weights = [weights[0] / 2 if last > 0 else weights[0], excess]
            last = 1
    return low[0], high[0]


def golden_section(
    value: Callable[[float], float], low: float, high: float, *, rounds: int
) -> float:
    """About where a function that falls and then rises is least.

    It is evaluated at two places, and at one more in each round.

    >>> round(golden_section(lambda x: (x - 1) ** 2, 0.0, 3.0, rounds=30), 5)
    1.0
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(rounds):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
    return (low + high) / 2


def near(value: Callable[[float], float], *, target: float, guess: float) -> float:
    """A positive float x near which value(x) is the target: a start for `boundary`, not proved.

    value: positive and monotone; the secant method runs on logarithms of both axes.
    """
    goal = math.log(target)
    places = [math.log(guess), math.log(guess) + 0.01]
    heights: list[float] = []
    for _ in range(40):
        reached = value(math.exp(places[len(heights)]))
        heights.append(math.log(reached) - goal if reached > 0 else -1e4)
        if len(heights) < 2:
            continue
        rise, run = heights[-1] - heights[-2], places[-1] - places[-2]
        step = max(-2.0, min(2.0, -heights[-1] * run / rise)) if rise else 0.0
        if abs(step) < 1e-15 or abs(places[-1] + step) > 700:
            break
        places.append(places[-1] + step)
    return math.exp(places[-1])


def boundary(holds: Callable[[float], bool], *, guess: float) -> tuple[float, float]:
    """The neighboring floats where a monotone predicate turns from False to True.

    holds: False for small positive floats, True for large ones; guess: a positive float, which
    sets the time taken and nothing else. Returns (greatest that fails, least that holds); the
    first is 0.0 where the least positive float holds, the second inf where no float does.
    """
    top = _ordinal(math.inf)
    start = min(max(_ordinal(guess), 1), top - 1)
    step = 1
    if holds(_float(start)):
        high, low = start, start - step
        while low > 0 and holds(_float(low)):
            step *= 8
            high, low = low, low - step
        low = max(low, 0)
    else:
        low, high = start, start + step
        while high < top and not holds(_float(high)):
            step *= 8
            low, high = high, high + step
        high = min(high, top)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(_float(middle)) else (middle, high)
    return _float(low), _float(high)


def _ordinal(value: float) -> int:
    """The place of a non-negative float among all of them: neighbors differ by one."""
    place: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return place


def _float(place: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", place))[0]
    return value
