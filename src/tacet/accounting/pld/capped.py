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

from tacet import checks
from tacet.accounting.pld.capped_laws import CappedLaw, Grid, law_above, law_below
from tacet.accounting.pld.capped_plans import Plan, Planner
from tacet.accounting.pld.convolution import Side, Sum, Window, total
from tacet.accounting.pld.sampled_cells import SampledGaussian
from tacet.accounting.pld.search import largest_near, least_near
from tacet.checks import Number
from tacet.errors import InvalidParameter, UnsupportedEvent
from tacet.privacy.estimates import Interval
from tacet.privacy.events import Event, Gaussian, PoissonSampled
from tacet.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["delta_interval", "epsilon_interval"]

_U = 2.0**-53
_MARGIN = 64
_ROUGH, _GRIDS = 1 << 13, (1 << 16, 1 << 18, 1 << 20)
_ENOUGH, _NEEDED = 2e-5, 6e-5
_PASSES, _NEAR = 3, 0.02
_LEFT_OUT = 25.0
_MOST_EPSILON = 2**20
_MOST_PARTS, _MOST_COPIES = 3, 10**7
_LEAST_RATE, _LEAST_MEAN, _MOST_MEAN = Fraction(1, 10**12), Fraction(1, 10**6), 100
_LEAST_DELTA = Fraction(1, 10**250)


@dataclass(frozen=True, slots=True)
class Sampled:
    """So many Poisson-sampled Gaussian steps: exact rate and mean, the inverse noise multiplier."""

    rate: Fraction
    mean: Fraction
    count: int

    def rounded(self, side: int) -> tuple[SampledGaussian, int]:
        """With floats on the side: more of either is more of a loss."""
        return SampledGaussian(_float(self.rate, side), _float(self.mean, side)), self.count


@dataclass(frozen=True, slots=True)
class _Case:
    """delta from one side: the sum below the caps, and the case that some loss is above its cap.

    offset: what the nodes of the sum lack of the losses; apart: the probability of the case, and
    ln of that under the other law; blur: (a, b), where e^(a + b epsilon) is added for it above.
    """

    found: Sum
    offset: Fraction
    slack: float
    apart: tuple[float, float]
    blur: tuple[float, float]
    side: int

    def at(self, epsilon: float) -> float:
        """A bound of delta at epsilon."""
        moved = Fraction(epsilon) - self.offset - self.side * Fraction(self.slack)
        near = float(moved)
        inside = Fraction(near) <= moved if self.side > 0 else Fraction(near) >= moved
        if not inside:
            near = math.nextafter(near, -self.side * math.inf)
        mass, log = self.apart
        turn = 16 * _U * (epsilon + 1 + abs(log)) if log > -math.inf else 0.0
        case = max(mass - _exp(epsilon + log - self.side * turn), 0.0)
        if self.side < 0:
            return max(0.0, (self.found.delta_below(near) + case) * (1 - 1e-14))
        height, slope = self.blur
        turn = 16 * _U * (abs(height) + slope * epsilon) if height > -math.inf else 0.0
        case = min(case + _exp(height + slope * epsilon + turn), mass)
        return min(1.0, (self.found.delta_above(near) + case) * (1 + 1e-14))


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

    >>> from tacet.privacy.events import Gaussian
    >>> event = Gaussian(noise_multiplier=0.05).poisson_sampled(rate=0.001)
    >>> found = epsilon_interval([(event, 1000)], delta=1e-5)
    >>> round(found.lower, 1), round(found.upper, 1)
    (1469.6, 1469.6)
    """
    goal = checks.exact("delta", delta)
    if not _LEAST_DELTA < goal < 1:
        raise InvalidParameter("delta", delta, expected="a number strictly between 0 and 1")
    steps = _steps(composition, neighbors)
    with np.errstate(all="ignore"):  # numbers beyond the floats end in bounds that say nothing
        found = _epsilon(steps, goal, remove=True)
        most = _most(steps)  # no loss of an added unit is larger
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
        return Interval(0.0, delta_interval(composition, epsilon=_MOST_EPSILON).upper)
    with np.errstate(all="ignore"):
        found = _delta(steps, number, remove=True)
        high = 0.0 if _most(steps) <= _float(number, -1) else 1.0
        other = _delta(steps, number, remove=False, high=high, idle=found.lower)
    return _worse(found, other)


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
        if not known or neighbors is ReplaceOne or count > _MOST_COPIES:
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
    planner = Planner(sides[1], remove=remove, far=_far(parts, -40.0))
    goal = planner.likely_log_delta(ends[0])
    for grid in _grids(parts):
        if high <= idle:
            break
        planner = Planner(sides[1], remove=remove, far=_far(parts, goal))
        plan = planner.best(goal, near=ends[0])
        above = _case(sides[1], plan, remove=remove, nodes=grid, side=1)
        if above is not None:
            high = min(high, above.at(ends[0]))
        goal = max(math.log(max(high, float(_LEAST_DELTA))), -600.0)
        if grid == _ROUGH:
            continue
        if above is None:
            break
        below = _case(sides[-1], plan, remove=remove, nodes=grid, side=-1)
        if below is not None:
            low = max(low, below.at(ends[1]))
        if high - low <= (_ENOUGH if grid <= _GRIDS[0] else _NEEDED) * high:
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
) -> _Case | None:
    """One side, on a grid of so many nodes; None where there is no plan or no law for it."""
    if plan is None:
        return None
    h = plan.width / (nodes - 2 * _MARGIN)
    grid = Grid(step=h, tilt=plan.tilt, remove=remove, most=nodes)
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
    first = math.floor((plan.low - float(offset)) / h) - _MARGIN
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
    return _Case(found, offset, slack, _apart(laws, side), _blur(laws, plan.slope, side), side)


def _apart(laws: Sequence[tuple[CappedLaw, int]], side: int) -> tuple[float, float]:
    """The probability that some loss is above its cap, to the side.

    And ln of that under the other law, away from it.
    """
    within = other = 0.0
    for law, count in laws:
        if law.tail is not None:
            mass, null, error = law.tail
            within += count * math.log1p(-min(_exp(mass + side * error), 1.0 - 2 * _U))
            other += count * math.log1p(-min(_exp(null - side * error), 1.0 - 2 * _U))
    if all(law.tail is None for law, _ in laws):
        return 0.0, -math.inf
    mass = -math.expm1(within) * (1 + side * 1e-13) + max(side, 0) * 1e-300
    if -other > 1e-250:
        return mass, math.log(-math.expm1(other) * (1 - side * 1e-13))
    return mass, -math.inf if side > 0 else _likely(laws)


def _blur(laws: Sequence[tuple[CappedLaw, int]], slope: float, side: int) -> tuple[float, float]:
    """See docs/proofs/capped.md, Lemma 1."""
    present = [(law, count) for law, count in laws if law.tail is not None]
    if side < 0 or not present:
        return -math.inf, 0.0
    if slope == 0.0 or min(law.cap for law, _ in present) <= 0:
        return _likely(laws), 1.0
    height = size = 0.0
    order = 1 + slope
    for law, count in laws:
        error = 8 * _U * (np.abs(law.log_masses) + order * law.offsets + 1)
        logs = law.log_masses - order * law.offsets + np.where(np.isfinite(error), error, 0.0)
        peak = float(logs.max())
        own = peak + math.log(float(np.exp(logs - peak).sum())) - order * law.base
        own += order * law.base_error + 8 * _U * (abs(peak) + order * abs(law.base) + len(logs))
        null = law.tail[1] + law.tail[2] if law.tail else -math.inf
        own = max(float(np.logaddexp(own, null)), 0.0)
        height += count * own
        size += count * (own + 1)
    return _likely(laws, slope) + height + 64 * _U * size, order


def _likely(laws: Sequence[tuple[CappedLaw, int]], slope: float = 0.0) -> float:
    """A bound of ln of the number of losses above caps, in the mean, under the other law.

    Each times e^(-slope cap).
    """
    logs = []
    for law, count in laws:
        if law.tail is not None:
            away = slope * law.cap if slope else 0.0
            log = math.log(count) + law.tail[1] + law.tail[2] - away
            logs.append(log + 16 * _U * (abs(away) + abs(law.tail[1]) + math.log(count)))
    peak = max(logs)
    total = peak + math.log(math.fsum(math.exp(log - peak) for log in logs))
    return total + 16 * _U * (abs(peak) + 4)


def _float(value: Fraction, side: int) -> float:
    """The nearest float on the side."""
    near = float(value)
    inside = Fraction(near) >= value if side > 0 else Fraction(near) <= value
    return near if inside else math.nextafter(near, side * math.inf)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf
