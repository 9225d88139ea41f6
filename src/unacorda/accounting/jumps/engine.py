"""epsilon and delta of many sampled Gaussian steps: large losses on a grid over a small bulk.

Where a unit is hardly ever in a sample, its many tiny losses add up to almost nothing, and yet one
rare loss reaches a tiny delta. No tilt serves both; here contours tell the profile of the many, and
any number of large losses is added to it one by one, each in proportion to its probability.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from unacorda import checks
from unacorda.accounting.contour.factor import Factor
from unacorda.accounting.contour.jump_sum import rough_epsilon, rough_log_delta
from unacorda.accounting.contour.parts import parts_of
from unacorda.accounting.jumps.sides import MANY, Scope, Side, Steps, sides_of
from unacorda.accounting.pld.capped_adding import delta_of_added, epsilon_of_added
from unacorda.accounting.pld.capped_masses import Grid, tail_at
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Gaussian, PoissonSampled
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, float_below

__all__ = ["delta_interval", "epsilon_interval"]

_U = 2.0**-53
_FEWEST = 100  # steps
_LEAST_DELTA = Fraction(1, 10**300)
_LEAST_RATE, _LEAST_MEAN, _MOST_MEAN = Fraction(1, 10**12), Fraction(1, 10**6), 100
_SHARES = (0.3, 1.0, 0.1)  # of the bulk's deviation: about where losses begin to be jumps
_OF_FEW = 1.0
_UNTILTED = Grid(step=1.0, tilt=0.0, remove=True, most=1)
_FINE, _FINE_OF_FEW, _COARSEST = 0.03, 0.025, 0.1  # the tilt of delta times a step of the grid
_ENOUGH, _ENOUGH_OF_DELTA, _PASSES = 1e-6, 3e-5, 5
_ENOUGH_OF_FEW = 1e-5
_OF_DELTA = 3  # passes
_PROMISING = 1e-2
_FIRST, _SETTLED = 0.25, 0.001  # of epsilon: how far beyond it may turn out to lie
_STEPS = 12


def epsilon_interval(
    composition: Sequence[tuple[Event, int]],
    *,
    delta: Number,
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least epsilon at which the composition is (epsilon, delta)-DP.

    composition: a hundred or more copies of Gaussian noise on a Poisson sample, as `flatten` gives
    them. Raises UnsupportedEvent for others, InvalidParameter for a delta outside (0, 1).

    Bound       both sides, rounded outward.
    Source      docs/proofs/jumps.md, Theorems 1 and 2.

    >>> from unacorda.privacy.events import Gaussian
    >>> event = Gaussian(noise_multiplier=1.65).poisson_sampled(rate=2.2e-9)
    >>> found = epsilon_interval([(event, 19 * 10**10)], delta=1.5e-173)
    >>> 0 < found.upper - found.lower < 1e-5 * found.upper
    True
    """
    goal = checks.exact("delta", delta)
    if not _LEAST_DELTA <= goal < 1:
        raise InvalidParameter("delta", delta, expected="a number strictly between 0 and 1")
    steps = _steps_of(composition, neighbors)
    with np.errstate(all="ignore"):  # numbers beyond the floats end in bounds that say nothing
        found = _epsilon(steps, goal, composition)
        most = _most(steps)  # no loss of an added unit is larger
        if most > found.lower:
            most = min(most, epsilon_of_added(composition, goal))
    return Interval(found.lower, max(found.upper, most) if most > found.lower else found.upper)


def delta_interval(
    composition: Sequence[tuple[Event, int]],
    *,
    epsilon: Number,
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least delta at which the composition is (epsilon, delta)-DP.

    epsilon: 0 or above; otherwise as `epsilon_interval`.

    Bound       both sides, rounded outward.
    Source      docs/proofs/jumps.md, Theorems 1 and 2.
    """
    number = checks.exact("epsilon", epsilon)
    if number < 0:
        raise InvalidParameter("epsilon", epsilon, expected="0 or a positive number")
    steps = _steps_of(composition, neighbors)
    with np.errstate(all="ignore"):
        found = _delta(steps, number, composition)
        high = 0.0 if _most(steps) <= float_below(number) else 1.0
        if high > found.lower:
            high = min(high, delta_of_added(composition, number))
    return Interval(found.lower, max(found.upper, high))


def _steps_of(composition: Sequence[tuple[Event, int]], neighbors: Neighbors) -> Steps:
    for event, count in composition:
        known = isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian)
        if not known or neighbors is ReplaceOne or len(composition) > 1 or count < _FEWEST:
            raise _unsupported(event)
        assert isinstance(event, PoissonSampled)
        assert isinstance(event.event, Gaussian)
        rate = checks.exact("rate", event.rate)
        mean = 1 / checks.exact("noise_multiplier", event.event.noise_multiplier)
        if not (_LEAST_RATE < rate < 1 - _LEAST_RATE and _LEAST_MEAN < mean < _MOST_MEAN):
            raise _unsupported(event)
        return Steps(rate, mean, count)
    raise _unsupported(())


def _unsupported(event: Event | tuple[Event, ...]) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="jumps over a bulk",
        try_instead="A hundred and more equal Poisson-sampled Gaussian steps are priced so.",
    )


def _most(steps: Steps) -> float:
    """A bound of the losses of an added unit: -ln(1 - q) of each step."""
    return steps.count * -steps.rounded(1).base * (1 + 16 * _U)


def _factors(composition: Sequence[tuple[Event, int]], log_delta: float) -> Sequence[Factor] | None:
    parts = parts_of(composition, direction="remove", log_delta=log_delta)
    return None if parts is None else parts.factors


def _epsilon(steps: Steps, delta: Fraction, composition: Sequence[tuple[Event, int]]) -> Interval:
    """Of a removed unit."""
    ends = float_below(delta), float_above(delta)
    goal = math.log(ends[0])
    factors = _factors(composition, goal)
    level = rough_log_delta(factors, log_delta=goal) if factors else None
    if factors is None or level is None:
        return Interval(0.0, math.inf)
    low, high = 0.0, math.inf
    near = rough_epsilon(factors, log_delta=goal)
    few = steps.count < MANY
    share, fine = (_OF_FEW, _FINE_OF_FEW) if few else (_SHARES[0], _FINE)
    settled, best = False, math.inf
    for attempt in range(_PASSES):
        if not 0 < near < math.inf:
            break
        room = _SETTLED if settled else _FIRST
        tilt = _tilt(steps, level, near)
        if few:  # what a grid costs in delta is far less of epsilon
            fine = min(max(math.sqrt(4 * _ENOUGH_OF_FEW * tilt * near), _FINE_OF_FEW), _COARSEST)
        scope = Scope(near=near, goal=goal, tilt=tilt, share=share, room=room, fine=fine)
        both = sides_of(steps, scope)
        above = _meeting(both[1], ends[0], near) if both[1] is not None else math.inf
        start = above if above < math.inf else near
        below = _meeting(both[-1], ends[1], start) if both[-1] is not None else 0.0
        low, high = max(low, below), min(high, above)
        if high - low <= (_ENOUGH_OF_FEW if few else _ENOUGH) * high:
            break
        width = (above - below) / above if above < math.inf else math.inf
        if few and attempt and width > _PROMISING:  # sums below caps serve then
            break
        before, near = near, above if above < math.inf else max(below, near)
        if settled:
            share, fine = _next(attempt, share, fine, width, best)
            best = min(best, width)
        settled = settled or (above < math.inf and abs(near - before) <= 0.5 * _FIRST * near)
    return Interval(min(low, high), high)


def _delta(steps: Steps, epsilon: Fraction, composition: Sequence[tuple[Event, int]]) -> Interval:
    """Of a removed unit."""
    ends = float_below(epsilon), float_above(epsilon)
    low, high = 0.0, 1.0
    goal, level = -46.0, None
    least = math.log(_LEAST_DELTA)
    for _ in range(3):  # the parts keep what matters at a delta
        factors = _factors(composition, goal)
        level = rough_log_delta(factors, log_delta=goal) if factors else None
        if level is None:
            return Interval(low, high)
        goal = min(max(level(ends[0]), least), 0.0)
    assert level is not None
    few = steps.count < MANY  # where this does not serve, sums below caps may
    share, fine = (_OF_FEW, _FINE_OF_FEW) if few else (_SHARES[0], _FINE)
    tilt, best = _tilt(steps, level, ends[0]), math.inf
    for attempt in range(_OF_DELTA):
        scope = Scope(near=ends[0], goal=goal, tilt=tilt, share=share, room=0.0, fine=fine)
        both = sides_of(steps, scope)
        above = both[1].at(ends[0]) if both[1] is not None else 1.0
        below = both[-1].at(ends[1]) if both[-1] is not None else 0.0
        low, high = max(low, below), min(high, above)
        width = (above - below) / above
        if high - low <= _ENOUGH_OF_DELTA * high or few:
            break
        share, fine = _next(attempt, share, fine, width, best)
        best = min(best, width)
    return Interval(min(low, high), high)


def _next(
    attempt: int, share: float, fine: float, width: float, best: float
) -> tuple[float, float]:
    """Where losses begin to be jumps next, and how fine the next grid is."""
    if width < _PROMISING and width < best:
        return share, fine / 3
    return _SHARES[(attempt + 1) % len(_SHARES)], fine


def _tilt(steps: Steps, level: Callable[[float], float], near: float) -> float:
    """About how fast ln delta falls with epsilon, or one loss's probability to be larger."""
    step = steps.rounded(1)
    places = step.places(np.array([near, 1.02 * near]) - step.base)
    ends = [tail_at(step, float(place), _UNTILTED)[0] for place in places]
    falls = (level(near) - level(1.02 * near), ends[0] - ends[1])
    return max(*falls, 2e-8) / (0.02 * near)


def _meeting(side: Side, goal: float, near: float) -> float:
    """An epsilon at which the upper side is at most the goal, or the lower one at least."""
    target = math.log(goal)
    good = math.inf if side.side > 0 else 0.0
    place, rate = near, 0.0
    before: tuple[float, float] | None = None
    for _ in range(_STEPS):
        value = side.at(place)
        holds = value <= goal if side.side > 0 else value >= goal
        if holds:
            good = min(good, place) if side.side > 0 else max(good, place)
        height = (math.log(value) if value > 0 else -800.0) - target
        if holds and abs(height) < 1e-7 * max(1.0, rate * place):
            break
        if before is not None and before[0] != place:
            slope = -(height - before[1]) / (place - before[0])
            rate = slope if slope > 0 else rate
        before = (place, height)
        step = height / rate if rate > 0 else math.copysign(1e-3 * place, height)
        # a little beyond, to where it holds
        step += side.side * 2e-8 * place
        place = min(max(place + step, 0.5 * place), 2 * place)
    return good
