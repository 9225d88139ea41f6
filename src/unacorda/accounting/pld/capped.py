"""epsilon and delta of sampled Gaussian steps whose losses are mostly small, and rarely huge.

Outputs with a loss above a cap are a case of their own, which needs no sum. What is left is summed
on a grid that is fine for it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda import checks
from unacorda.accounting.pld.capped_adding import delta_of_added, epsilon_of_added
from unacorda.accounting.pld.capped_cases import Case, apart_of, blur_of
from unacorda.accounting.pld.capped_jumps import MOST_WORK, jump_cases, likely_by_one
from unacorda.accounting.pld.capped_laws import CappedLaw, law_above, law_below
from unacorda.accounting.pld.capped_masses import Grid
from unacorda.accounting.pld.capped_means import delta_below, epsilon_below
from unacorda.accounting.pld.capped_plans import Plan, Planner
from unacorda.accounting.pld.convolution import Side, Window, total
from unacorda.accounting.pld.sampled_cells import SampledGaussian
from unacorda.accounting.pld.search import largest_near, least_near
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Gaussian, PoissonSampled
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["delta_interval", "epsilon_interval"]

_U = 2.0**-53
_MARGIN = 64
_ROUGH, _GRIDS = 1 << 13, (1 << 16, 1 << 18, 1 << 20)
_ENOUGH, _NEEDED = 2e-5, 6e-5
_PASSES, _NEAR = 3, 0.02
_TRIALS, _COARSE, _FARTHER = 8, 0.1, 1.3
_WORTH = {_GRIDS[0]: 0.2, _GRIDS[1]: 2e-3, _GRIDS[2]: 0.0}
"""A finer grid is not tried where more than this share is open."""
_LEFT_OUT = 25.0
_MOST_EPSILON = 2**20
_FARTHEST, _LEAST_GOAL = 1e15, -690.0
_MOST_PARTS, _MOST_COPIES, _LIMIT, _MOST_HITS = 3, 10**12, 10**10, 10**6
_LEAST_RATE, _LEAST_MEAN, _MOST_MEAN = Fraction(1, 10**12), Fraction(1, 10**6), 100
_LEAST_DELTA = Fraction(1, 10**300)


@dataclass(frozen=True, slots=True)
class Sampled:
    """So many Poisson-sampled Gaussian steps: exact rate and mean, the inverse noise multiplier."""

    rate: Fraction
    mean: Fraction
    count: int

    def rounded(self, side: int) -> tuple[SampledGaussian, int]:
        """With floats on the side: more of either is more of a loss."""
        return SampledGaussian(_float(self.rate, side), _float(self.mean, side)), self.count


def epsilon_interval(
    composition: Sequence[tuple[Event, int]],
    *,
    delta: Number,
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least epsilon at which the composition is (epsilon, delta)-DP.

    composition: Gaussian noise on Poisson samples, with numbers of copies, as `flatten` gives them.
    Raises UnsupportedEvent for others, InvalidParameter for a delta outside (0, 1).

    Bound       both sides, rounded outward.
    Source      docs/proofs/capped.md, Theorem 1.

    >>> from unacorda.privacy.events import Gaussian
    >>> event = Gaussian(noise_multiplier=0.05).poisson_sampled(rate=0.001)
    >>> found = epsilon_interval([(event, 1000)], delta=1e-5)
    >>> round(found.lower, 1), round(found.upper, 1)
    (1469.6, 1469.6)
    """
    goal = checks.exact("delta", delta)
    if not _LEAST_DELTA <= goal < 1:
        raise InvalidParameter("delta", delta, expected="a number strictly between 0 and 1")
    steps = _steps(composition, neighbors)
    with np.errstate(all="ignore"):  # numbers beyond the floats end in bounds that say nothing
        if _many(steps):
            below = [part.rounded(-1) for part in steps]
            return Interval(epsilon_below(below, delta=_float(goal, 1)), math.inf)
        found = _epsilon(steps, goal, remove=True)
        if found.upper == math.inf or found.upper - found.lower > _NEEDED * found.upper:
            below = [part.rounded(-1) for part in steps]
            least = epsilon_below(below, delta=_float(goal, 1))
            found = Interval(min(max(found.lower, least), found.upper), found.upper)
        most = _most(steps)  # no loss of an added unit is larger
        if most > found.lower:
            most = min(most, epsilon_of_added(composition, goal))
        other = _epsilon(steps, goal, remove=False, high=most, idle=found.lower)
    return _worse(found, other)


def delta_interval(
    composition: Sequence[tuple[Event, int]],
    *,
    epsilon: Number,
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """An interval that holds the least delta at which the composition is (epsilon, delta)-DP.

    epsilon: 0 or above; otherwise as `epsilon_interval`.

    Bound       both sides, rounded outward.
    Source      docs/proofs/capped.md, Theorem 1.
    """
    number = checks.exact("epsilon", epsilon)
    if number < 0:
        raise InvalidParameter("epsilon", epsilon, expected="0 or a positive number")
    steps = _steps(composition, neighbors)
    if number > _MOST_EPSILON:  # delta falls: what holds there bounds it from above
        least = delta_below([part.rounded(-1) for part in steps], epsilon=_float(number, 1))
        return Interval(least, delta_interval(composition, epsilon=_MOST_EPSILON).upper)
    with np.errstate(all="ignore"):
        least = delta_below([part.rounded(-1) for part in steps], epsilon=_float(number, 1))
        if _many(steps) or least >= 1 - _ENOUGH:
            return Interval(least, 1.0)
        found = _delta(steps, number, remove=True)
        high = 0.0 if _most(steps) <= _float(number, -1) else 1.0
        if high > found.lower:
            high = min(high, delta_of_added(composition, number))
        other = _delta(steps, number, remove=False, high=high, idle=found.lower)
    return _worse(found, other)


def _many(steps: Sequence[Sampled]) -> bool:
    """Whether there are too many for a sum: only where it lies above is told then."""
    return any(
        step.count > _MOST_COPIES or (step.count > _LIMIT and step.count * step.rate > _MOST_HITS)
        for step in steps
    )


def _worse(found: Interval, other: Interval) -> Interval:
    low, high = max(found.lower, other.lower), max(found.upper, other.upper)
    return Interval(min(low, high), high)


def _most(steps: Sequence[Sampled]) -> float:
    """A bound of the losses of an added unit: -ln(1 - q) of each step."""
    bases = (step.count * -step.rounded(1)[0].base for step in steps)
    return math.fsum(bases) * (1 + 16 * _U)


def _steps(composition: Sequence[tuple[Event, int]], neighbors: Neighbors) -> list[Sampled]:
    steps: list[Sampled] = []
    for event, count in composition:
        known = isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian)
        if not known or neighbors is ReplaceOne:
            raise _unsupported(event)
        assert isinstance(event, PoissonSampled)
        assert isinstance(event.event, Gaussian)
        rate = checks.exact("rate", event.rate)
        mean = 1 / checks.exact("noise_multiplier", event.event.noise_multiplier)
        if not (_LEAST_RATE < rate < 1 - _LEAST_RATE and _LEAST_MEAN < mean < _MOST_MEAN):
            raise _unsupported(event)
        steps.append(Sampled(rate, mean, count))
    if not 0 < len(steps) <= _MOST_PARTS:
        raise _unsupported(tuple(event for event, _ in composition))
    return steps


def _unsupported(event: Event | tuple[Event, ...]) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="sums below caps",
        try_instead="A few kinds of Poisson-sampled Gaussian steps are summed so.",
    )


def _epsilon(
    parts: Sequence[Sampled],
    delta: Fraction,
    *,
    remove: bool,
    high: float = math.inf,
    idle: float = 0.0,
) -> Interval:
    """Of one direction, where it is at most `high`; what is not above `idle` is not looked at."""
    low = 0.0
    ends = _float(delta, -1), _float(delta, 1)
    goal = math.log(ends[0])
    sides = {side: [part.rounded(side) for part in parts] for side in (1, -1)}
    planner = Planner(sides[1], remove=remove, far=_far(parts, goal))
    plan = planner.best(goal)
    for grid in _grids(parts):
        if high <= idle:
            break
        for _ in range(_PASSES):
            above = _case(sides[1], plan, remove=remove, nodes=grid, side=1)
            if plan is None or above is None:
                break
            found = least_near(above.at, ends[0], plan.epsilon)
            before, high = plan.epsilon, min(high, found)
            if high == 0 or abs(found - before) <= _NEAR * before:
                break
            if found < math.inf:
                plan = planner.best(goal, near=found) or plan
            else:
                plan = planner.best(goal, capped=False)
        if grid == _ROUGH:
            continue
        if not 0 < high < math.inf:
            break
        below = _case(sides[-1], plan, remove=remove, nodes=grid, side=-1)
        if below is not None:
            low = max(low, largest_near(below.at, ends[1], high))
        if high - low <= (_ENOUGH if grid <= _GRIDS[0] else _NEEDED) * high:
            break
        if grid == _GRIDS[0] and remove and len(parts) == 1 and plan is not None:
            known = Interval(min(low, high), high)
            split_off = _epsilon_by_jumps(parts[0], sides, plan, known, goal=goal, ends=ends)
            low, high = max(low, split_off.lower), min(high, split_off.upper)
            if split_off.upper < math.inf:
                break
        if high - low <= _NEEDED * high or high - low > _WORTH[grid] * high:
            break
    return Interval(min(low, high), high)


def _epsilon_by_jumps(
    part: Sampled,
    sides: dict[int, list[tuple[SampledGaussian, int]]],
    plan: Plan,
    known: Interval,
    *,
    goal: float,
    ends: tuple[float, float],
) -> Interval:
    """Of one removed unit, by the number of jumps; [0, inf] where nothing can be split.

    known: where it lies.
    """
    low, high = 0.0, math.inf
    steps = {side: of_side[0][0] for side, of_side in sides.items()}
    near = min(likely_by_one(steps[1], part.count, goal), plan.epsilon)
    coarse, work = True, MOST_WORK
    for _ in range(_TRIALS):
        near = min(max(near, known.lower), known.upper)  # far off, bounds may be any
        if not 0 < near < _MOST_EPSILON:
            break
        cases = jump_cases(steps, part.count, plan, near=near, goal=goal)
        if cases is None:
            break
        cases.refine(_COARSE if coarse else _ENOUGH, times_tilt=True, most=work)
        work -= cases.work
        above = least_near(cases.above, ends[0], near)
        below = largest_near(cases.below, ends[1], min(above, float(_MOST_EPSILON)))
        low, high = max(low, below), min(high, above)
        if work <= 0:
            break
        if above == math.inf:
            near *= _FARTHER
            continue
        before, near = near, (below + above) / 2 if below > 0 else above
        settled = abs(near - before) <= _NEAR * before
        if high - low <= _ENOUGH * high or (settled and not coarse):
            break
        coarse = coarse and not settled
    return Interval(min(low, high), high)


def _delta(
    parts: Sequence[Sampled],
    epsilon: Fraction,
    *,
    remove: bool,
    high: float = 1.0,
    idle: float = 0.0,
) -> Interval:
    """As `_epsilon`."""
    low = 0.0
    ends = _float(epsilon, -1), _float(epsilon, 1)
    sides = {side: [part.rounded(side) for part in parts] for side in (1, -1)}
    planner = Planner(sides[1], remove=remove, far=_far(parts, _LEAST_GOAL))
    goal = likely = max(planner.likely_log_delta(ends[0]), _LEAST_GOAL)
    for grid in _grids(parts):
        if high <= idle:
            break
        planner = Planner(sides[1], remove=remove, far=_far(parts, goal))
        plan = planner.best(goal, near=ends[0])
        above = _case(sides[1], plan, remove=remove, nodes=grid, side=1)
        if above is not None:
            high = min(high, above.at(ends[0]))
        goal = max(math.log(max(high, float(_LEAST_DELTA))), _LEAST_GOAL)
        if grid == _ROUGH:
            continue
        if above is None:
            break
        below = _case(sides[-1], plan, remove=remove, nodes=grid, side=-1)
        if below is not None:
            low = max(low, below.at(ends[1]))
        if high - low <= (_ENOUGH if grid <= _GRIDS[0] else _NEEDED) * high:
            break
        if grid == _GRIDS[0] and remove and len(parts) == 1 and plan is not None:
            found = _delta_by_jumps(parts[0], sides, ends, goal=min(goal, likely))
            low, high = max(low, found.lower), min(high, found.upper)
            if found.upper < 1:
                break
        if high - low <= _NEEDED * high or high - low > _WORTH[grid] * high:
            break
    return Interval(min(low, high), high)


def _delta_by_jumps(
    part: Sampled,
    sides: dict[int, list[tuple[SampledGaussian, int]]],
    ends: tuple[float, float],
    *,
    goal: float,
) -> Interval:
    """As `_epsilon_by_jumps`; [0, 1] where nothing can be split."""
    low, high, work = 0.0, 1.0, MOST_WORK
    steps = {side: of_side[0][0] for side, of_side in sides.items()}
    for _ in range(_TRIALS):
        plan = Planner(sides[1], remove=True, far=_far([part], goal)).best(goal, near=ends[0])
        if plan is None:
            break
        cases = jump_cases(steps, part.count, plan, near=ends[0], goal=goal)
        if cases is None:
            break
        cases.refine(_ENOUGH, most=work)
        work -= cases.work
        low, high = max(low, cases.below(ends[1])), min(high, cases.above(ends[0]))
        before, goal = goal, max(math.log(max(high, float(_LEAST_DELTA))), _LEAST_GOAL)
        if high - low <= _NEEDED * high or abs(goal - before) < 1.0 or work <= 0:
            break
    return Interval(min(low, high), high)


def _grids(parts: Sequence[Sampled]) -> list[int]:
    """Numbers of nodes, the first for a plan; fewer for many kinds of steps."""
    return [_ROUGH, *(grid >> len(parts) // 3 for grid in _GRIDS)]


def _far(parts: Sequence[Sampled], goal: float) -> float:
    """Minus ln of the shares that a plan may leave out."""
    return _LEFT_OUT - goal + math.log(sum(part.count for part in parts))


def _case(
    steps: Sequence[tuple[SampledGaussian, int]],
    plan: Plan | None,
    *,
    remove: bool,
    nodes: int,
    side: Side,
) -> Case | None:
    """One side, on a grid of so many nodes; None where there is no plan or no law for it."""
    if plan is None:
        return None
    h = plan.width / (nodes - 2 * _MARGIN)
    grid = Grid(step=h, tilt=plan.tilt, remove=remove, most=4 * nodes)
    make = law_above if side > 0 else law_below
    laws: list[tuple[CappedLaw, int]] = []
    offset, slack = Fraction(0), 0.0
    for (step, count), top in zip(steps, plan.tops, strict=True):
        law = make(step, grid, top=top)
        if law is None:
            return None
        laws.append((law, count))
        offset += count * Fraction(law.base)
        slack += count * law.base_error * (1 + 4 * _U)
    start = (plan.low - float(offset)) / h
    if not abs(start) < _FARTHEST:
        return None
    first = math.floor(start) - _MARGIN
    steep = 128.0 / (_MARGIN * h)
    window = Window(
        first=first,
        size=nodes,
        tilt=plan.tilt,
        higher=min(plan.higher, plan.tilt + steep),
        lower=max(plan.lower, plan.tilt - steep),
    )
    found = total(
        [(law.law, count) for law, count in laws], step=Fraction(h), window=window, side=side
    )
    return Case(found, offset, slack, apart_of(laws, side), blur_of(laws, plan.slope, side), side)


def _float(value: Fraction, side: int) -> float:
    """The nearest float on the side."""
    near = float(value)
    inside = Fraction(near) >= value if side > 0 else Fraction(near) <= value
    return near if inside else math.nextafter(near, side * math.inf)
