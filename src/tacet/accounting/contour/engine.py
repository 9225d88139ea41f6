"""delta and epsilon of a composition, certified from both sides by contour quadrature."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from tacet import checks
from tacet.accounting.contour.factor import Factor
from tacet.accounting.contour.parts import (
    SYMMETRIC,
    Direction,
    Parts,
    attained,
    flatten,
    parts_of,
)
from tacet.accounting.contour.plan import (
    Curve,
    Plan,
    abscissas,
    chernoff_epsilon,
    curve,
    log_kappa,
    plan_at,
    saddle_for_delta,
    saddle_for_epsilon,
)
from tacet.accounting.contour.quadrature import Sum, chernoff_delta, chernoff_upper, quadrature
from tacet.checks import Number
from tacet.errors import InvalidParameter
from tacet.privacy.enclosure import context, float_down, float_up, mpf
from tacet.privacy.estimates import Interval
from tacet.privacy.events import Event
from tacet.privacy.neighbors import AddRemove, Neighbors

__all__ = ["Directions", "delta_interval", "epsilon_interval"]

Directions: TypeAlias = Literal["both"] | Direction
"""both: the worse of the two."""

_PASSES = 4
_NARROW = 1e-9
_SMALLEST = 1e-300


def epsilon_interval(
    composition: Iterable[tuple[Event, int]],
    *,
    delta: Number,
    directions: Directions = "both",
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least epsilon at which the composition is (epsilon, delta)-DP.

    composition: events with their numbers of copies; delta: strictly between 0 and 1; directions:
    one, or the worse of both; neighbors: the relation. Where the certificate cannot be met the
    interval is wide, at worst [0, inf]; it is never wrong; where laws dominate that no pair of
    tables has, it starts at 0. Raises UnsupportedEvent for events
    whose loss has no dominating law here, InvalidParameter for a delta outside (0, 1).

    Bound       both sides, rounded outward.
    Source      docs/proofs/contour.md, Theorems 1 to 6.

    >>> from tacet.privacy.events import Gaussian
    >>> steps = [(Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01), 1000)]
    >>> found = epsilon_interval(steps, delta=1e-5)
    >>> round(found.lower, 7), round(found.upper, 7)
    (1.8282367, 1.8282367)
    """
    target = checks.exact("delta", delta)
    if not 0 < target < 1:
        raise InvalidParameter("delta", delta, expected="a number strictly between 0 and 1")
    events = flatten(composition)
    low, high = 0.0, 0.0
    for direction in _directions(directions, events):
        found = _epsilon(events, target, direction=direction, known=low, neighbors=neighbors)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low if attained(events) else 0.0, high)


def delta_interval(
    composition: Iterable[tuple[Event, int]],
    *,
    epsilon: Number,
    directions: Directions = "both",
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least delta at which the composition is (epsilon, delta)-DP.

    epsilon: 0 or above; otherwise as `epsilon_interval`.

    Bound       both sides, rounded outward; widths are relative to delta down to 1e-300.
    Source      docs/proofs/contour.md, Theorems 1 to 6.

    >>> from tacet.privacy.events import Gaussian
    >>> found = delta_interval([(Gaussian(noise_multiplier=1.0), 1)], epsilon=1.0)
    >>> round(found.lower, 10), round(found.upper, 10)
    (0.1269367375, 0.1269367375)
    """
    number = checks.exact("epsilon", epsilon)
    if not 0 <= number < 2**1000:
        raise InvalidParameter("epsilon", epsilon, expected="a number, 0 or above")
    events = flatten(composition)
    low, high = 0.0, 0.0
    for direction in _directions(directions, events):
        found = _delta(events, number, direction=direction, neighbors=neighbors)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low if attained(events) else 0.0, high)


def _directions(
    directions: Directions, events: Sequence[tuple[Event, int]]
) -> tuple[Direction, ...]:
    """The directions in question; one where both have the same law of the loss."""
    match directions:
        case "both":
            alike = all(isinstance(event, SYMMETRIC) for event, _ in events)
            return ("remove",) if alike else ("remove", "add")
        case "remove" | "add":
            return (directions,)
        case _:
            raise InvalidParameter("directions", directions, expected="both, remove or add")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The end of one pass: the bounds it proved, and where it believes epsilon to be.

    tailed: the tail makes most of the width, so that the same abscissa can do no better.
    """

    lower: float
    upper: float
    near: float
    tailed: bool = False


def _epsilon(
    events: Sequence[tuple[Event, int]],
    target: Fraction,
    *,
    direction: Direction,
    known: float,
    neighbors: Neighbors,
) -> Interval:
    parts = parts_of(events, direction=direction, log_delta=_log(target), neighbors=neighbors)
    if parts is None:
        return Interval(0.0, math.inf)
    left = _without_infinite(parts, target)
    if left <= 0:
        return Interval(0.0, math.inf)
    if not parts.factors:
        return Interval(0.0, 0.0)
    goal = float_down(left)
    if goal < _SMALLEST:
        return Interval(0.0, math.inf)
    log_delta = math.log(goal)
    factors = parts.factors
    whole = curve(factors, abscissas(factors))
    other, _ = chernoff_epsilon(whole, log_delta)
    low, high = 0.0, chernoff_upper(factors, other, log_delta=math.log(goal) - 1e-13)
    if high <= known:
        return Interval(0.0, high)
    c, near = saddle_for_delta(whole, log_delta)
    refused = 0
    for _ in range(_PASSES):
        near = max(near, 0.0)
        plan = plan_at(factors, whole, c=c, epsilon=near, log_delta=log_delta)
        made = None if plan is None else _within_cap(factors, plan, log_unit=log_delta)
        if made is None:
            refused += 1
            if refused == 2:
                break
            c *= 0.5
            continue
        found = _invert(made, near)
        before = high - low
        low, high = max(low, found.lower), min(high, found.upper)
        if high - low <= max(_NARROW * high, 1e-12) or not math.isfinite(found.near):
            break
        still = abs(found.near - near) <= (0.05 if found.tailed else 1e-3) * near
        if still or (found.upper < math.inf and high - low > 0.7 * before):
            break
        near = found.near
        c, _ = saddle_for_epsilon(whole, near)
    return Interval(low, max(high, low))


def _within_cap(factors: Sequence[Factor], plan: Plan, *, log_unit: float) -> Sum | None:
    """The quadrature, with fewer nodes (and a longer tail) where the plan's are too many."""
    for _ in range(3):
        made = quadrature(factors, plan, log_unit=log_unit)
        if made is not None or plan.nodes < 64:
            return made
        plan = replace(plan, nodes=plan.nodes // 3)
    return None


def _invert(made: Sum, start: float) -> _Search:
    """Newton on ln delta from `start`, then steps outward until both sides are certain."""
    zero = made.at(0.0)
    if zero.upper <= 1.0:
        return _Search(lower=0.0, upper=0.0, near=0.0)
    near = _root(lambda e: made.at(e).near, start, slope=made.plan.c)
    sides = made.at(near)
    if not math.isfinite(sides.near):
        return _Search(lower=0.0, upper=math.inf, near=math.nan)
    rate = max(made.plan.c, 1e-9)
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
    return _Search(lower=lower, upper=upper, near=near, tailed=tailed)


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


def _delta(
    events: Sequence[tuple[Event, int]],
    exact: Fraction,
    *,
    direction: Direction,
    neighbors: Neighbors,
) -> Interval:
    epsilon = float(exact)
    below, above = _around(exact)
    log_delta = -46.0
    best = Interval(0.0, 1.0)
    infinite: Any = context().mpf(0)
    for attempt in range(_PASSES):
        parts = parts_of(events, direction=direction, log_delta=log_delta, neighbors=neighbors)
        if parts is None:
            break
        factors, infinite = parts.factors, parts.infinite
        if not factors:
            best = Interval(0.0, 0.0)
            break
        whole = curve(factors, abscissas(factors))
        c, guess = saddle_for_epsilon(whole, epsilon)
        guess = min(max(guess, math.log(_SMALLEST)), 0.0)
        if attempt == 0 and guess < log_delta - 1.0:
            log_delta = guess
            continue
        log_delta = guess if attempt < 2 else log_delta
        other = float(whole.c[int(np.argmin(whole.k + log_kappa(whole.c) - whole.c * epsilon))])
        least = chernoff_delta(factors, other, epsilon=below)
        found, near, tailed = _at_epsilon(factors, whole, c, (below, above), log_delta)
        high = min(best.upper, found.upper, least)
        best = Interval(max(best.lower, found.lower), high)
        if best.upper - best.lower <= _NARROW * best.upper or not near > 0:
            break
        if tailed and abs(math.log(near) - log_delta) < 1.0:
            break
        log_delta = min(max(math.log(near), math.log(_SMALLEST)), 0.0)
    return _with_infinite(infinite, best)


def _at_epsilon(
    factors: Sequence[Factor],
    whole: Curve,
    c: float,
    place: tuple[float, float],
    log_delta: float,
) -> tuple[Interval, float, bool]:
    """The bounds at an epsilon between two floats, the value believed near, and _Search.tailed."""
    below, above = place
    plan = plan_at(factors, whole, c=c, epsilon=below, log_delta=log_delta)
    made = None if plan is None else _within_cap(factors, plan, log_unit=log_delta)
    if made is None:
        return Interval(0.0, 1.0), 0.0, False
    sides = made.at(below)
    least = sides.lower if above == below else made.at(above).lower
    unit = math.exp(log_delta)
    pad = 1e-15 * (1 + abs(log_delta))
    upper = min(1.0, sides.upper * unit * (1 + pad) + 5e-324)
    lower = min(max(0.0, least * unit * (1 - pad)), upper)
    tailed = sides.tail > 0.7 * (sides.upper - sides.lower)
    return Interval(lower, upper), sides.near * unit if sides.near > 0 else 0.0, tailed


def _around(value: Fraction) -> tuple[float, float]:
    """The nearest floats not above and not below a non-negative number."""
    near = float(value)
    below = near if Fraction(near) <= value else math.nextafter(near, -math.inf)
    above = near if Fraction(near) >= value else math.nextafter(near, math.inf)
    return below, above


def _log(value: Fraction) -> float:
    return float(context().log(mpf(value)))


def _without_infinite(parts: Parts, target: Fraction) -> Any:
    """The delta that the finite losses may have: (target - p) / (1 - p), p = P(infinite loss)."""
    if parts.infinite >= 1:
        return context().mpf(0)
    return (mpf(target) - parts.infinite) / (1 - parts.infinite)


def _with_infinite(infinite: Any, found: Interval) -> Interval:
    """With infinite losses: p + (1 - p) * (delta of the finite losses), rounded outward."""
    if infinite == 0:
        return found
    low, high = (infinite + (1 - infinite) * mpf(end) for end in found)
    return Interval(float_down(low), min(1.0, float_up(high)))
