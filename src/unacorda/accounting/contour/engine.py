"""delta and epsilon of a composition, certified from both sides by contour quadrature."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from unacorda.accounting.contour import jumps, quadrature
from unacorda.accounting.contour.parts import parts_of
from unacorda.accounting.contour.plan import (
    CumulantCurve,
    chernoff_abscissa,
    log_kappa,
    plan_at,
    saddle_for_delta,
    saddle_for_epsilon,
    whole_curve,
)
from unacorda.accounting.contour.tilts import Factor
from unacorda.accounting.rules.base import Direction, rules_of
from unacorda.balls import Ball, ball, float_down
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.rounding import float_above, float_below

Directions: TypeAlias = Literal["both"] | Direction
"""both: the worse of the two."""

_PASSES = 4
_ENOUGH = 1e-8  # jumps are not split off for less
_NEARLY = 1e-7
_SMALLEST = 1e-300
_NONE = -750.0  # ln of a delta that no float tells from 0
_SMALLER = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5)


def epsilon_of(
    events: Sequence[tuple[Event, int]],
    target: Fraction,
    *,
    directions: Directions = "both",
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least epsilon at which the composition is (epsilon, delta)-DP.

    events: with their numbers of copies, as `flatten` gives them; target: delta, strictly between
    0 and 1; directions: one, or the worse of both; neighbors: the relation. Where the certificate
    cannot be met the interval is wide, at worst [0, inf]; it is never wrong. Raises
    UnsupportedEvent for events whose loss has no law here.

    Bound       both sides, rounded outward.
    Source      docs/proofs/contour.md, Theorems 1 to 7 and 10.

    >>> from unacorda.privacy.events import Gaussian
    >>> steps = [(Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01), 1000)]
    >>> found = epsilon_of(steps, Fraction(1, 10**5))
    >>> round(found.lower, 7), round(found.upper, 7)
    (1.8282367, 1.8282367)
    """
    low, high = 0.0, 0.0
    for direction in _directions(directions, events, neighbors):
        found = _epsilon(events, target, direction=direction, known=low, neighbors=neighbors)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


def delta_of(
    events: Sequence[tuple[Event, int]],
    epsilon: Fraction,
    *,
    directions: Directions = "both",
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least delta at which the composition is (epsilon, delta)-DP.

    epsilon: from 0, below 2^1000; otherwise as `epsilon_of`.

    Bound       both sides, rounded outward; widths are relative to delta down to 1e-300.
    Source      docs/proofs/contour.md, Theorems 1 to 7 and 10.

    >>> from unacorda.privacy.events import Gaussian
    >>> found = delta_of([(Gaussian(noise_multiplier=1.0), 1)], Fraction(1))
    >>> round(found.lower, 10), round(found.upper, 10)
    (0.1269367375, 0.1269367375)
    """
    low, high = 0.0, 0.0
    for direction in _directions(directions, events, neighbors):
        found = _delta(events, epsilon, direction=direction, known=low, neighbors=neighbors)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


def _directions(
    directions: Directions, events: Sequence[tuple[Event, int]], neighbors: Neighbors
) -> tuple[Direction, ...]:
    """The directions in question; one where both have the same law of the loss."""
    if directions != "both":
        return (directions,)
    alike = all(rules_of(event).one_law(neighbors) for event, _ in events)
    return ("remove",) if alike else ("remove", "add")


def _epsilon(
    events: Sequence[tuple[Event, int]],
    target: Fraction,
    *,
    direction: Direction,
    known: float,
    neighbors: Neighbors,
) -> Interval:
    level = float(ball(target).log())
    parts = parts_of(events, direction=direction, log_delta=level, neighbors=neighbors)
    if parts is None:
        return Interval(0.0, math.inf)
    left = quadrature.without_infinite(parts.infinite, target)
    if left < 0:
        return Interval(math.inf, math.inf)
    if left <= 0:
        return Interval(0.0, math.inf)
    if not parts.factors:
        return Interval(0.0, 0.0)
    goal = float_down(left)
    if goal < 0.999 * _SMALLEST:  # a delta of 1e-300 is one still, rounded down
        return Interval(0.0, math.inf)
    log_delta = math.log(goal)
    factors = parts.factors
    whole = whole_curve(factors)
    low, high = 0.0, math.inf
    for share in _SMALLER:  # far out what is known of a law may not be certified
        other = share * chernoff_abscissa(whole, log_delta)
        high = quadrature.chernoff_upper(factors, other, log_delta=math.log(goal) - 1e-13)
        if high < math.inf:
            break
    if high <= known:
        return Interval(0.0, high)
    c, near = saddle_for_delta(whole, log_delta)
    refused = 0
    for attempt in range(_PASSES):
        near = max(near, 0.0)
        plan = plan_at(factors, whole, c=c, epsilon=near, log_delta=log_delta)
        made = None if plan is None else quadrature.within_cap(factors, plan, log_unit=log_delta)
        if made is None:
            refused += 1
            if refused == 2:
                break
            c *= 0.5
            continue
        found = quadrature.invert(made.at, near, slope=made.plan.c)
        before = high - low
        low, high = max(low, found.lower), min(high, found.upper)
        if jumps.is_narrow(low, high) or not math.isfinite(found.near):
            break
        if attempt == 0 and high - low > _NEARLY * high and jumps.leading(factors, log_delta):
            near = found.near
            break
        still = abs(found.near - near) <= (0.05 if found.tailed else 1e-3) * near
        if still or (found.upper < math.inf and high - low > 0.7 * before):
            break
        near = found.near
        c, _ = saddle_for_epsilon(whole, near)
    if high == math.inf or high - low > max(_ENOUGH * high, 1e-12):
        split_off = jumps.epsilon_by_jumps(factors, log_delta, known=Interval(low, high))
        low, high = max(low, split_off.lower), min(high, split_off.upper)
    return Interval(low, max(high, low))


def _delta(
    events: Sequence[tuple[Event, int]],
    exact: Fraction,
    *,
    direction: Direction,
    known: float,
    neighbors: Neighbors,
) -> Interval:
    """Of one direction; nothing better than `known` is looked for."""
    epsilon = float(exact)
    below, above = float_below(exact), float_above(exact)
    log_delta = math.log(known) if known > _SMALLEST else -46.0
    best = Interval(0.0, 1.0)
    infinite: Ball = ball(0)
    for attempt in range(_PASSES):
        parts = parts_of(events, direction=direction, log_delta=log_delta, neighbors=neighbors)
        if parts is None:
            break
        factors, infinite = parts.factors, parts.infinite
        if not factors:
            best = Interval(0.0, 0.0)
            break
        whole = whole_curve(factors)
        c, guess = saddle_for_epsilon(whole, epsilon)
        guess = min(max(guess, math.log(_SMALLEST)), 0.0)
        if attempt == 0 and guess < log_delta - 1.0:
            log_delta = guess
            continue
        log_delta = guess if attempt < 2 else log_delta
        levels = whole.k + log_kappa(whole.c) - whole.c * epsilon
        # no farther out than it takes to tell that delta is none
        other = float(whole.c[int(np.argmax(levels <= max(float(levels.min()), _NONE)))])
        least = 1.0
        for share in _SMALLER:
            least = min(least, quadrature.chernoff_delta(factors, share * other, epsilon=below))
            if least < 1.0 or guess > -1.0:
                break
        faint = quadrature.with_infinite(infinite, Interval(0.0, least))
        if faint.upper <= known:
            return faint
        found, near, tailed = _at_epsilon(factors, whole, c, (below, above), log_delta)
        high = min(best.upper, found.upper, least)
        best = Interval(max(best.lower, found.lower), high)
        if best.upper - best.lower <= jumps.NARROW * best.upper or not near > 0:
            break
        if tailed and abs(math.log(near) - log_delta) < 1.0:
            break
        log_delta = min(max(math.log(near), math.log(_SMALLEST)), 0.0)
    if parts is not None and parts.factors and best.upper - best.lower > jumps.NARROW * best.upper:
        found = _delta_by_jumps(
            events,
            (below, above),
            direction=direction,
            log_delta=log_delta,
            neighbors=neighbors,
        )
        best = Interval(max(best.lower, found.lower), min(best.upper, found.upper))
    return quadrature.with_infinite(infinite, best)


def _delta_by_jumps(
    events: Sequence[tuple[Event, int]],
    place: tuple[float, float],
    *,
    direction: Direction,
    log_delta: float,
    neighbors: Neighbors,
) -> Interval:
    """Bounds of delta of the finite losses by splitting off jumps; [0, 1] if nothing is split."""
    best, work = Interval(0.0, 1.0), jumps.MOST_WORK
    for places in (jumps.PLACES[0], *jumps.PLACES):
        parts = parts_of(events, direction=direction, log_delta=log_delta, neighbors=neighbors)
        if parts is None:
            break
        if best.upper == 1.0:  # nothing is known yet
            level = jumps.rough_log_delta(parts.factors, log_delta=log_delta)
            if level is None:
                break
            log_delta = min(max(level(place[0]), math.log(_SMALLEST)), 0.0)
            parts = parts_of(events, direction=direction, log_delta=log_delta, neighbors=neighbors)
            if parts is None:
                break
        aims = [part * min(log_delta, -3.0) for part in places]
        pieces = jumps.split(parts.factors, log_delta=log_delta, aims=aims)
        if pieces is None:  # more places make smaller pieces
            continue
        work = jumps.MOST_WORK if jumps.are_many(parts.factors) else work
        made, work = jumps.sum_of_terms(pieces, epsilon=place[0], log_unit=log_delta, work=work)
        sides = made.at(place[0])
        found = _told(sides, made.at(place[1]), log_delta)
        best = Interval(max(best.lower, found.lower), min(best.upper, found.upper))
        if best.upper - best.lower <= jumps.NARROW * best.upper or not sides.near > 0:
            break
        if work <= 0 and not jumps.are_many(parts.factors):
            break
        log_delta = min(max(log_delta + math.log(sides.near), math.log(_SMALLEST)), 0.0)
    return best


def _at_epsilon(
    factors: Sequence[Factor],
    whole: CumulantCurve,
    c: float,
    place: tuple[float, float],
    log_delta: float,
) -> tuple[Interval, float, bool]:
    """The bounds at an epsilon between two floats, the value believed near, and Search.tailed."""
    below, above = place
    plan = plan_at(factors, whole, c=c, epsilon=below, log_delta=log_delta)
    made = None if plan is None else quadrature.within_cap(factors, plan, log_unit=log_delta)
    if made is None:
        return Interval(0.0, 1.0), 0.0, False
    sides = made.at(below)
    tailed = sides.tail > 0.7 * (sides.upper - sides.lower)
    near = sides.near * math.exp(log_delta)
    other = sides if above == below else made.at(above)
    return _told(sides, other, log_delta), near if near > 0 else 0.0, tailed


def _told(below: quadrature.Sides, above: quadrature.Sides, log_delta: float) -> Interval:
    """Delta at an epsilon between two floats, from both sides there in the unit e^log_delta."""
    unit = math.exp(log_delta)
    pad = 1e-15 * (1 + abs(log_delta))
    upper = min(1.0, below.upper * unit * (1 + pad) + 5e-324)
    return Interval(min(max(0.0, above.lower * unit * (1 - pad)), upper), upper)
