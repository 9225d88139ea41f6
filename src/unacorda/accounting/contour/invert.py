"""From delta at every epsilon to epsilon at one delta: a root, and steps outward until certain."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unacorda.accounting.contour.jump_sum import JumpSum
from unacorda.accounting.contour.quadrature import Sum
from unacorda.privacy.enclosure import context, float_down, float_up, mpf
from unacorda.privacy.estimates import Interval

# The delta of all losses from that of the finite ones, and back.

_HIDDEN = 2.0**-130
"""The relative error of p is below 2^-190."""


def without_infinite(infinite: Any, target: Fraction) -> Any:
    """The delta that the finite losses may have: (target - p) / (1 - p), p = P(infinite loss).

    Bound       within 2^-60 of itself; 0 where p is 1, or rounding hides which of both is more.
    Source      docs/proofs/contour.md, section 1.
    """
    left = mpf(target) - infinite
    if infinite >= 1 or abs(left) <= _HIDDEN * infinite:
        return context().mpf(0)
    return left / (1 - infinite)


def with_infinite(infinite: Any, found: Interval) -> Interval:
    """With infinite losses: p + (1 - p) * (delta of the finite losses), rounded outward.

    Bound       both.
    Source      docs/proofs/contour.md, section 1.
    """
    if infinite == 0:
        return found
    low, high = (infinite + (1 - infinite) * mpf(end) for end in found)
    return Interval(float_down(low), min(1.0, float_up(high)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The end of one pass: the bounds it proved, and where it believes epsilon to be.

    tailed: the tail makes most of the width, so that the same abscissa can do no better.
    """

    lower: float
    upper: float
    near: float
    tailed: bool = False


def invert(made: Sum | JumpSum, start: float, *, slope: float) -> Search:
    """Newton on ln delta from `start`, then steps outward until both sides are certain."""
    zero = made.at(0.0)
    if zero.upper <= 1.0:
        return Search(lower=0.0, upper=0.0, near=0.0)
    near = _root(lambda e: made.at(e).near, start, slope=slope)
    sides = made.at(near)
    if not math.isfinite(sides.near):
        return Search(lower=0.0, upper=math.inf, near=math.nan)
    rate = max(slope, 1e-9)
    least = 4e-16 * max(near, 1e-300) + 1e-300
    upper = math.inf
    width = max(1.1 * max(sides.upper - 1.0, 0.0) / rate, least)
    while width < 4.0 * (near + 1.0):
        if made.at(near + width).upper <= 1.0:
            upper = near + width
            break
        width *= 1.7
    lower = 0.0
    width = max(1.1 * max(1.0 - sides.lower, 0.0) / rate, least)
    while width < near:
        if made.at(near - width).lower >= 1.0 + 1e-15:
            lower = near - width
            break
        width *= 1.7
    tailed = sides.tail > 0.7 * (sides.upper - sides.lower)
    return Search(lower=lower, upper=upper, near=near, tailed=tailed)


def _root(value: Callable[[float], float], start: float, *, slope: float) -> float:
    """About where value(epsilon) = 1: secant steps on its logarithm, kept in a bracket."""
    low, high = 0.0, math.inf
    place, rate = start, slope
    before: tuple[float, float] | None = None
    for _ in range(60):
        height = value(place)
        if math.isnan(height):
            low = max(low, place)
            place = place * 1.5 + 1e-3 if high == math.inf else 0.5 * (low + high)
            continue
        if height > 1:
            low = place
        else:
            high = place
        if height <= 0:
            place, before = 0.5 * (low + high), None
            continue
        level = math.log(height)
        if abs(level) < 1e-15 or (high < math.inf and high - low <= 4e-16 * high):
            break
        if before is not None and before[0] != place:
            guess = -(level - before[1]) / (place - before[0])
            rate = guess if guess > 0.05 * slope else rate
        before = (place, level)
        step = level / rate
        following = place + step
        if not low <= following <= high:
            following = 0.5 * (low + high) if high < math.inf else 2 * place + 1e-6
        if abs(following - place) <= 2e-16 * place:
            break
        place = following
    return place
