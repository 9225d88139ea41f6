"""Certified arithmetic below the conversions: many digits inside, floats rounded outward."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath

from unacorda import numerics

BITS = 256
"""Working precision of conversions. Each keeps its own error below 2^-120, relative."""

_SLACK = 100
"""Results are widened by 2^-100, relative, before they are rounded to a float."""

numerics.lengthen_constants()
_local = threading.local()


def context() -> Any:
    """The thread's own mpmath context: mpmath's global one is shared, its precision too."""
    if not hasattr(_local, "context"):
        _local.context = mpmath.MPContext()
        _local.context.prec = BITS
    return _local.context


def mpf(value: float | Fraction) -> Any:
    """The number in the working precision; a float is the number it holds."""
    mp = context()
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(value) if isinstance(value, int) else mp.mpf(float(value))


def float_up(value: Any) -> float:
    """A float that is not below the non-negative number `value` stands for."""
    mp = context()
    if value == 0:
        return 0.0
    raised = value * (1 + mp.ldexp(1, -_SLACK))
    nearest = float(raised)
    return nearest if mp.mpf(nearest) >= raised else math.nextafter(nearest, math.inf)


def float_down(value: Any) -> float:
    """A float, 0 or above, that is not above the number `value` stands for."""
    mp = context()
    lowered = value * (1 - mp.ldexp(1, -_SLACK))
    if lowered <= 0:
        return 0.0
    nearest = float(lowered)
    return nearest if mp.mpf(nearest) <= lowered else math.nextafter(nearest, 0.0)


def sum_up(terms: Sequence[Any]) -> float:
    """A float that is not below the sum, nor below 0, whatever cancels: errors are added."""
    mp = context()
    total = mp.fsum(terms) + mp.ldexp(mp.fsum(terms, absolute=True), 24 - BITS)
    return float_up(total) if total > 0 else 0.0


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
