"""Where a falling bound of delta meets a goal: few evaluations, each end one that was asked."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["largest_holding", "least_holding"]

_FAR = 1e6
_NEAR = 1e-12
_TRIALS = 80


def least_holding(delta_at: Callable[[float], float], goal: float) -> float:
    """An epsilon >= 0 with delta_at(epsilon) <= goal, just above one without; inf if none is found.

    Bound       upper: it is one that was asked.
    Source      false position on the logarithm, after Dowell and Jarratt 1971, then bisection.
    """
    first = delta_at(0.0)
    if first <= goal:
        return 0.0
    low, high = (0.0, first), (1e-3, delta_at(1e-3))
    while high[1] > goal:
        low, high = high, (high[0] * 4, delta_at(high[0] * 4))
        if high[0] > _FAR:
            return math.inf
    return _narrowed(delta_at, goal, low, high)[1]


def largest_holding(delta_at: Callable[[float], float], goal: float, *, below: float) -> float:
    """An epsilon in [0, below] with delta_at(epsilon) > goal, just below one without; 0 if none.

    Bound       lower: it is one that was asked.
    Source      as least_holding.
    """
    top = min(below, _FAR)
    high = (top, delta_at(top))
    if high[1] > goal:
        return top
    distance = 1e-13 * max(top, 1e-3)
    while distance < top:
        low = (top - distance, delta_at(top - distance))
        if low[1] > goal:
            return _narrowed(delta_at, goal, low, high)[0]
        high = low
        distance *= 4
    for _ in range(12):  # what is proved may be nothing again far below
        low = (high[0] / 2, delta_at(high[0] / 2))
        if low[1] > goal:
            return _narrowed(delta_at, goal, low, high)[0]
        high = low
    return 0.0


def _narrowed(
    delta_at: Callable[[float], float],
    goal: float,
    low: tuple[float, float],
    high: tuple[float, float],
) -> tuple[float, float]:
    """Brackets nearer than 1e-12, relatively: the first above the goal, the second not."""
    target = math.log(goal) if goal > 0 else -math.inf
    weights = [_log(low[1]) - target, _log(high[1]) - target]
    last = 0
    for trial in range(_TRIALS):
        width = high[0] - low[0]
        if width <= _NEAR * high[0]:
            break
        middle = low[0] + width / 2
        known = math.isfinite(weights[0]) and math.isfinite(weights[1])
        if trial % 4 != 3 and known and weights[0] > weights[1]:
            share = weights[0] / (weights[0] - weights[1])
            # a little beyond the meeting place on either side closes the bracket
            share += 0.1 * _NEAR if trial % 2 else -0.1 * _NEAR
            middle = low[0] + width * min(max(share, 1e-4), 1 - 1e-4)
            if trial % 4 == 2:  # both neighbours of the place where the line meets the goal
                reach = max(_NEAR * high[0] / 4, width * 1e-6)
                middle += reach if last < 0 else -reach
        middle = min(max(middle, math.nextafter(low[0], high[0])), high[0])
        if middle in (low[0], high[0]):
            break
        value = delta_at(middle)
        excess = _log(value) - target
        if value > goal:
            low = (middle, value)
            weights = [excess, weights[1] / 2 if last < 0 else weights[1]]
            last = -1
        else:
            high = (middle, value)
            weights = [weights[0] / 2 if last > 0 else weights[0], excess]
            last = 1
    return low[0], high[0]


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
