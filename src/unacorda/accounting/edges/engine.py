"""epsilon and delta of equal steps whose losses lie between two edges with atoms at both.

Few of the steps, or steps of faint losses, add up to sums whose atoms no contour sees to the end.
On a grid that holds both edges the atoms are where they are, and only the losses between are
moved. Just below the largest loss a sum over few steps tells more than any grid.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from unacorda.accounting.contour.plan import log_kappa, saddle_for_delta
from unacorda.accounting.contour.quadrature import Sides
from unacorda.accounting.edges.binomial import delta_by_counting
from unacorda.accounting.edges.ladders import Ladder
from unacorda.accounting.edges.plans import Plan, Sketch
from unacorda.accounting.edges.steps import Way, steps_of
from unacorda.accounting.edges.topmost import delta_near_top, epsilon_near_top
from unacorda.accounting.inversion import crossing
from unacorda.accounting.pld.convolution import Sum, total
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.enclosure import context, float_down, float_up, mpf
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import AddRemove, Neighbors

__all__ = ["delta_near_largest", "delta_of", "epsilon_near_largest", "epsilon_of"]

_U = 2.0**-53
_SMALLEST = 1e-303
_COARSE = 1 << 10
_MOST_STEPS = 1_400
"""Of more steps delta is below the floats so near the largest loss, for that has at most half."""


def epsilon_near_largest(
    flat: Sequence[tuple[Event, int]], delta: Fraction, *, neighbors: Neighbors = AddRemove
) -> Interval:
    """The least epsilon where that is near the largest loss, or where no loss lies between.

    flat: events as `flatten` gives them. Raises UnsupportedEvent for others, and where it is not.

    Bound       both sides, rounded outward.
    Source      docs/proofs/edges.md, Theorems 1 and 3.
    """
    low = high = 0.0
    steps = steps_of(flat, neighbors)
    if not steps.inner:
        return epsilon_of(flat, delta, neighbors=neighbors)
    if steps.count > _MOST_STEPS:
        raise _far(flat)
    for way in steps.ways:
        if low > 0 and way.largest <= mpf(low):
            continue
        found = epsilon_near_top(way, delta)
        if found is None:
            raise _far(flat)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


def delta_near_largest(
    flat: Sequence[tuple[Event, int]], epsilon: Fraction, *, neighbors: Neighbors = AddRemove
) -> Interval:
    """The least delta; otherwise as epsilon_near_largest.

    Bound       both sides, rounded outward.
    Source      docs/proofs/edges.md, Theorems 1 and 3.
    """
    low = high = 0.0
    steps = steps_of(flat, neighbors)
    if not steps.inner:
        return delta_of(flat, epsilon, neighbors=neighbors)
    if steps.count > _MOST_STEPS:
        raise _far(flat)
    for way in steps.ways:
        found = delta_near_top(way, epsilon)
        if found is None:
            raise _far(flat)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


def epsilon_of(
    flat: Sequence[tuple[Event, int]], delta: Fraction, *, neighbors: Neighbors = AddRemove
) -> Interval:
    """The least epsilon, by sums on a grid, or of numbers where no loss lies between.

    flat: events as `flatten` gives them; delta: below 1. Raises UnsupportedEvent for others, and
    where the grid would be too long.

    Bound       both sides, rounded outward.
    Source      docs/proofs/edges.md, Theorems 2 and 3.
    """
    goal = float_down(mpf(delta))
    if not goal >= _SMALLEST:
        raise _far(flat)
    low = high = 0.0
    for way in steps_of(flat, neighbors).ways:
        found = Interval(0.0, _chernoff(way, log_delta=math.log(goal)))
        if found.upper > low:
            found = _epsilon(flat, way, goal, found)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


def delta_of(
    flat: Sequence[tuple[Event, int]], epsilon: Fraction, *, neighbors: Neighbors = AddRemove
) -> Interval:
    """The least delta; otherwise as epsilon_of.

    Bound       both sides, rounded outward.
    Source      docs/proofs/edges.md, Theorems 2 and 3.
    """
    low = high = 0.0
    for way in steps_of(flat, neighbors).ways:
        found = Interval(0.0, _chernoff(way, epsilon=epsilon))
        if found.upper > low:
            found = _delta(flat, way, epsilon, found)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """All steps of one direction, from above and from below.

    bottom, start: the loss from which the sums above, and those below, are told.
    """

    above: Sum
    below: Sum
    bottom: Any
    start: Any

    @classmethod
    def of(cls, way: Way, plan: Plan) -> _Sums:
        ladder, count, window = plan.ladder, way.steps.count, plan.window
        steps, tilt = (ladder.above.step, ladder.below.step), window.tilt
        start = count * ladder.below.start
        lowered = replace(window, first=math.floor((window.first * steps[0] - start) / steps[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            above = total([(ladder.law(tilt, 1), count)], step=steps[0], window=window, side=1)
            below = total([(ladder.law(tilt, -1), count)], step=steps[1], window=lowered, side=-1)
        bottom = count * way.bottom
        return cls(above=above, below=below, bottom=bottom, start=bottom + mpf(start))

    def at(self, epsilon: Any) -> tuple[float, float]:
        """Bounds of delta at an epsilon of the working precision."""
        near, far = float(epsilon - self.start), float(epsilon - self.bottom)
        lower = self.below.delta_below(near + 4 * _U * abs(near))
        upper = self.above.delta_above(far - 4 * _U * abs(far))
        return (0.0 if math.isnan(lower) else lower), (1.0 if math.isnan(upper) else upper)


def _epsilon(flat: Sequence[tuple[Event, int]], way: Way, goal: float, known: Interval) -> Interval:
    sketch = Sketch.of(way)
    if way.steps.inner:
        plan = sketch.plan(log_delta=math.log(goal))
        if plan is None:
            raise _far(flat)
        sums, slope, near = _Sums.of(way, plan).at, plan.window.tilt, plan.near
    else:
        sums = partial(delta_by_counting, way)
        slope, near = saddle_for_delta(sketch.curve, math.log(goal))

    def at(epsilon: float) -> Sides:
        lower, upper = sums(mpf(epsilon))
        return Sides(
            near=math.sqrt(lower / goal) * math.sqrt(upper / goal) if lower > 0 else upper / goal,
            lower=lower / goal * (1 - 1e-15),
            upper=upper / goal * (1 + 1e-15),
        )

    start = min(max(float(near + way.steps.count * way.bottom), 0.0), known.upper)
    low, high = crossing(at, start, slope=slope)
    high = min(high, known.upper)
    return Interval(min(low, high), high)


def _delta(
    flat: Sequence[tuple[Event, int]], way: Way, epsilon: Fraction, known: Interval
) -> Interval:
    if not way.steps.inner:
        lower, upper = delta_by_counting(way, mpf(epsilon))
        upper = min(upper, known.upper)
        return Interval(min(lower, upper), upper)
    sums_from = way.steps.count * way.bottom
    plan = Sketch.of(way).plan(epsilon=float(mpf(epsilon) - sums_from))
    if plan is None:
        raise _far(flat)
    lower, upper = _Sums.of(way, plan).at(mpf(epsilon))
    upper = min(upper, known.upper)
    return Interval(min(lower, upper), upper)


def _chernoff(way: Way, *, epsilon: Fraction | None = None, log_delta: float = 0.0) -> float:
    """Chernoff's bound of delta at an epsilon, or of epsilon at a delta, of a coarse law above."""
    mp, count = context(), way.steps.count
    sketch = Sketch.of(way)
    curve = sketch.curve
    heights = curve.k + log_kappa(curve.c)
    ladder = Ladder.of(way, _COARSE if way.steps.inner else 1)
    bottom, drift = count * way.bottom, count * ladder.drift
    if epsilon is None:
        tilt = float(curve.c[int(np.argmin((heights - log_delta) / curve.c))])
    else:
        far = float(mpf(epsilon) - bottom)
        tilt = float(curve.c[int(np.argmin(heights - curve.c * far))])
    value, error = ladder.law(tilt, 1).cumulant(tilt)
    height = count * (mp.mpf(value) + error) + float(log_kappa(np.array(tilt))) + 1e-12
    if epsilon is None:
        return float_up(max((height - log_delta) / tilt + bottom + drift + 1e-12 / tilt, 0))
    level = height - tilt * (mpf(epsilon) - bottom - drift)
    return float_up(mp.exp(level)) if level < 0 else 1.0


def _far(flat: Sequence[tuple[Event, int]]) -> UnsupportedEvent:
    return UnsupportedEvent(
        tuple(event for event, _ in flat),
        kind="sums between two edges",
        try_instead="Contours: many steps are their strength.",
    )
