"""epsilon and delta of very many sampled Gaussian steps: large losses on a grid over a small bulk.

Where a unit is hardly ever in a sample, its many tiny losses add up to almost nothing, and yet one
rare loss reaches a tiny delta. No tilt serves both; here contours tell the profile of the many, and
any number of large losses is added to it one by one, each in proportion to its probability.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from tacet import checks
from tacet.accounting.contour.factor import Factor
from tacet.accounting.contour.jump_sum import rough_epsilon, rough_log_delta
from tacet.accounting.contour.parts import parts_of
from tacet.accounting.jumps.bulk import Bulk, bulk_of
from tacet.accounting.jumps.compound import Compound, compound, log_more
from tacet.accounting.jumps.laws import jumps_above, jumps_below
from tacet.accounting.pld.capped_adding import delta_of_added, epsilon_of_added
from tacet.accounting.pld.capped_jumps import rare_place
from tacet.accounting.pld.capped_masses import Grid, tail_at
from tacet.accounting.pld.sampled_cells import Mark, SampledGaussian
from tacet.accounting.profiles.boxes import Array
from tacet.checks import Number
from tacet.errors import InvalidParameter, UnsupportedEvent
from tacet.privacy.estimates import Interval
from tacet.privacy.events import Event, Gaussian, PoissonSampled
from tacet.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from tacet.privacy.rounding import float_above, float_below

__all__ = ["delta_interval", "epsilon_interval"]

_U = 2.0**-53
_FEWEST = 10**6  # steps: a few of them left out matter little then
_LEAST_DELTA = Fraction(1, 10**300)
_LEAST_RATE, _LEAST_MEAN, _MOST_MEAN = Fraction(1, 10**12), Fraction(1, 10**6), 100
_SHARES = (0.3, 1.0, 0.1)  # of the bulk's deviation: about where losses begin to be jumps
_WIDTH = 0.25
_OFTEN = 1e-2  # jumps in the mean
_BEYOND = 9.0  # deviations beyond epsilon: larger losses need no grid
_UNMARKED, _MORE = 28.0, -22.0
_UNTILTED = Grid(step=1.0, tilt=0.0, remove=True, most=1)
_FEW, _MANY, _FINE = 2048, 16384, 0.03  # nodes, and the tilt of delta times a step of theirs
_BELOW = 20  # nodes below the mark
_ENOUGH, _ENOUGH_OF_DELTA, _PASSES = 1e-6, 3e-5, 5
_OF_DELTA = 3  # passes
_PROMISING = 1e-2
_FIRST, _SETTLED = 0.25, 0.001  # of epsilon: how far beyond it may turn out to lie
_STEPS = 12


@dataclass(frozen=True, slots=True)
class _Steps:
    """So many Poisson-sampled Gaussian steps, by their exact rate and inverse noise multiplier."""

    rate: Fraction
    mean: Fraction
    count: int

    def rounded(self, side: int) -> SampledGaussian:
        """With floats on the side: more of either is more of a loss."""
        near = float_above if side > 0 else float_below
        return SampledGaussian(near(self.rate), near(self.mean))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """delta from one side: the jumps' masses on a grid over the profile of the bulk.

    shift: what losses lie lower by than told; far: mass and loss of what lies beyond the grid,
    from below; rest: what infinite losses, or numbers of jumps that are left out, may add.
    """

    side: int
    bulk: Bulk
    jumps: Compound
    h: float
    shift: float
    far: tuple[float, float]
    rest: float

    def at(self, epsilon: float) -> float:
        """A bound of delta at an epsilon.

        Source      docs/proofs/jumps.md, Theorem 1.
        """
        nodes: Array = self.h * np.arange(len(self.jumps.masses), dtype=np.float64)
        wrong = 4 * _U * (epsilon + float(nodes[-1]) + self.shift)
        low, high = self.bulk.sides(
            epsilon + self.shift - nodes - self.side * wrong, self.jumps.masses
        )
        bulk = high if self.side > 0 else low
        loose = self.jumps.error + 2 * len(nodes) * _U
        found = float(self.jumps.masses @ bulk) * (1 + self.side * loose)
        mass, loss = self.far
        if self.side > 0:
            found += self.jumps.beyond
        elif mass:  # with any other jumps, which only add to it
            beyond = np.array([epsilon + self.shift - loss + wrong + 4 * _U * loss])
            mass *= float(self.jumps.masses.sum()) * (1 - loose)
            found += mass * float(self.bulk.sides(beyond, np.ones(1))[0][0]) * (1 - 8 * _U)
        factor = math.exp(self.bulk.log_mass + self.side * self.bulk.mass_error)
        found *= factor * (1 + self.side * 8 * _U)
        return max(found + self.side * (self.rest + 1e-312), 0.0)


def epsilon_interval(
    composition: Sequence[tuple[Event, int]],
    *,
    delta: Number,
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least epsilon at which the composition is (epsilon, delta)-DP.

    composition: a million or more copies of Gaussian noise on a Poisson sample, as `flatten` gives
    them. Raises UnsupportedEvent for others, InvalidParameter for a delta outside (0, 1).

    Bound       both sides, rounded outward.
    Source      docs/proofs/jumps.md, Theorem 1.

    >>> from tacet.privacy.events import Gaussian
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
    Source      docs/proofs/jumps.md, Theorem 1.
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


def _steps_of(composition: Sequence[tuple[Event, int]], neighbors: Neighbors) -> _Steps:
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
        return _Steps(rate, mean, count)
    raise _unsupported(())


def _unsupported(event: Event | tuple[Event, ...]) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="jumps over a bulk",
        try_instead="A million and more equal Poisson-sampled Gaussian steps are priced so.",
    )


def _most(steps: _Steps) -> float:
    """A bound of the losses of an added unit: -ln(1 - q) of each step."""
    return steps.count * -steps.rounded(1).base * (1 + 16 * _U)


def _factors(composition: Sequence[tuple[Event, int]], log_delta: float) -> Sequence[Factor] | None:
    parts = parts_of(composition, direction="remove", log_delta=log_delta)
    return None if parts is None else parts.factors


def _epsilon(steps: _Steps, delta: Fraction, composition: Sequence[tuple[Event, int]]) -> Interval:
    """Of a removed unit."""
    ends = float_below(delta), float_above(delta)
    goal = math.log(ends[0])
    factors = _factors(composition, goal)
    level = rough_log_delta(factors, log_delta=goal) if factors else None
    if factors is None or level is None:
        return Interval(0.0, math.inf)
    low, high = 0.0, math.inf
    near = rough_epsilon(factors, log_delta=goal)
    settled, best, share, fine = False, math.inf, _SHARES[0], _FINE
    for attempt in range(_PASSES):
        if not 0 < near < math.inf:
            break
        room = _SETTLED if settled else _FIRST
        tilt = _tilt(steps, level, near)
        scope = _Scope(near=near, goal=goal, tilt=tilt, share=share, room=room, fine=fine)
        both = _sides(steps, scope)
        above = _meeting(both[1], ends[0], near) if both[1] is not None else math.inf
        start = above if above < math.inf else near
        below = _meeting(both[-1], ends[1], start) if both[-1] is not None else 0.0
        low, high = max(low, below), min(high, above)
        if high - low <= _ENOUGH * high:
            break
        width = (above - below) / above if above < math.inf else math.inf
        before, near = near, above if above < math.inf else max(below, near)
        if settled:
            share, fine = _next(attempt, share, fine, width, best)
            best = min(best, width)
        settled = settled or (above < math.inf and abs(near - before) <= 0.5 * _FIRST * near)
    return Interval(min(low, high), high)


def _delta(steps: _Steps, epsilon: Fraction, composition: Sequence[tuple[Event, int]]) -> Interval:
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
    tilt, best, share, fine = _tilt(steps, level, ends[0]), math.inf, _SHARES[0], _FINE
    for attempt in range(_OF_DELTA):
        scope = _Scope(near=ends[0], goal=goal, tilt=tilt, share=share, room=0.0, fine=fine)
        both = _sides(steps, scope)
        above = both[1].at(ends[0]) if both[1] is not None else 1.0
        below = both[-1].at(ends[1]) if both[-1] is not None else 0.0
        low, high = max(low, below), min(high, above)
        if high - low <= _ENOUGH_OF_DELTA * high:
            break
        share, fine = _next(attempt, share, fine, (above - below) / above, best)
        best = min(best, (above - below) / above)
    return Interval(min(low, high), high)


def _next(
    attempt: int, share: float, fine: float, width: float, best: float
) -> tuple[float, float]:
    """Where losses begin to be jumps next, and how fine the next grid is."""
    if width < _PROMISING and width < best:
        return share, fine / 3
    return _SHARES[(attempt + 1) % len(_SHARES)], fine


def _tilt(steps: _Steps, level: Callable[[float], float], near: float) -> float:
    """About how fast ln delta falls with epsilon, or one loss's probability to be larger."""
    step = steps.rounded(1)
    places = step.places(np.array([near, 1.02 * near]) - step.base)
    ends = [tail_at(step, float(place), _UNTILTED)[0] for place in places]
    falls = (level(near) - level(1.02 * near), ends[0] - ends[1])
    return max(*falls, 2e-8) / (0.02 * near)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """About which epsilon and ln delta bounds are made, and how.

    tilt: how fast ln delta falls; share: of the bulk's deviation, where losses begin to be jumps;
    room: the share of epsilon by which those that are asked may exceed it; fine: of the grid.
    """

    near: float
    goal: float
    tilt: float
    share: float
    room: float
    fine: float


def _sides(steps: _Steps, scope: _Scope) -> dict[int, _Side | None]:
    return {side: _side(steps, side, scope) for side in (1, -1)}


def _side(steps: _Steps, side: int, scope: _Scope) -> _Side | None:
    near, goal, tilt = scope.near, scope.goal, scope.tilt
    step, count = steps.rounded(side), steps.count
    place, deviation = _start(step, count, scope.share, near)
    mark = Mark(place, min(max(_WIDTH / step.mean, 0.1), 0.3))
    low = place - mark.width * math.sqrt(2 * (_UNMARKED + math.log(count)))
    cap = (1 + scope.room) * near + _BEYOND * deviation
    top = cap + max(0.3 * near, 25 / tilt)
    finest = min(scope.fine / tilt, (step.base + step.offset_at(place)) / _BELOW)
    nodes = min(max(math.ceil(top / finest), _FEW), _MANY)
    h = top / nodes
    last = math.ceil(cap / h)
    times = math.log(count)

    def bulk(fewer: int) -> Bulk | None:
        return bulk_of(step, count, fewer=fewer, mark=mark, log_delta=goal, top=cap, tilt=tilt)

    if side > 0:
        below = bulk(0)
        if below is None:
            return None
        one = below.log_mass / count - below.mass_error
        jumps = jumps_above(
            step, mark, h=h, nodes=nodes, low=low, last=last, lift=below.lift, log_times=times
        )
        if jumps is None:
            return None
        # each over the probability that a step does not jump
        several = compound(jumps.masses * (math.exp(-one) * (1 + 8 * _U)))
        if several is None:
            return None
        rest, far = jumps.far[0], (0.0, math.inf)
        return _Side(side=1, bulk=below, jumps=several, h=h, shift=0.0, far=far, rest=rest)
    jumps = jumps_below(step, mark, h=h, nodes=nodes, low=low, last=last, log_times=times)
    if jumps is None:
        return None
    mean = (float(jumps.masses.sum()) + jumps.far[0]) * (1 + 1e-9)
    most, log_rest = log_more(mean, goal + _MORE)
    below = bulk(most)
    fewer = (count - most) / count * (1 - 8 * _U)
    several = compound(jumps.masses * fewer)
    if below is None or several is None or most >= count:
        return None
    return _Side(
        side=-1,
        bulk=below,
        jumps=several,
        h=h,
        shift=most * (jumps.drift + below.lift) * (1 + 8 * _U),
        far=(jumps.far[0] * fewer * (1 - 4 * _U), jumps.far[1]),
        rest=math.exp(log_rest),
    )


def _start(step: SampledGaussian, count: int, share: float, near: float) -> tuple[float, float]:
    """The place of the mark, and about the deviation of the sum of the losses below it."""
    mu = step.mean

    def deviation(place: float) -> float:
        raised = math.exp(min(mu * mu, 600.0)) * float(ndtr(place - 2 * mu))
        least = float(ndtr(place)) - 2 * float(ndtr(place - mu))
        return step.rate * math.sqrt(count * max(raised + least, 1e-300))

    place = rare_place(step, count, math.log(_OFTEN))
    for _ in range(100):
        if step.base + step.offset_at(place) >= min(share * deviation(place), 0.3 * near):
            break
        place += 0.2
    return place, deviation(place)


def _meeting(side: _Side, goal: float, near: float) -> float:
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
