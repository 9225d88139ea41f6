"""The accountant: certified costs of composed events, by the tightest engine for them.

Every engine gives an interval that holds the true number, so their intersection does too. Closed
forms come first, then the contour engine, then guarantees and Renyi divergences. An interval that
is narrow enough ends the search. The upper end is never below the truth; the lower end is proved,
or 0.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from fractions import Fraction

from unacorda.accounting.amplification.events import pure_selections
from unacorda.accounting.arguments import (
    Events,
    delta_argument,
    epsilon_argument,
    together,
    tolerance_argument,
)
from unacorda.accounting.findings import (
    TOLERANCE,
    CertifiedInterval,
    Measure,
    Meeting,
    PriceQuestion,
)
from unacorda.accounting.prices import gdp_price, pure_epsilon
from unacorda.accounting.rules.base import dominated, dominating, leaves, only_gaussian, rules_of
from unacorda.balls import ball, float_down, float_up
from unacorda.checks import Number, demand, exact
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.numerics import bisect, golden_section
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Shuffled
from unacorda.privacy.guarantees import PureDP
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.tradeoff import TradeoffCurve

_SEARCHED = 1e-8
"""The tolerance of prices that searches compare."""


def epsilon(
    events: Events,
    *,
    delta: Number,
    neighbors: Neighbors = AddRemove,
    tolerance: float = TOLERANCE,
) -> float:
    """Bounds the epsilon of (epsilon, delta)-DP of all events together.

    Bound: upper.

    Source: those of the engines; see `explain`.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    delta
        From 0, at most below 1; a float means the decimal it prints as.
    neighbors
        The neighboring relation of the guarantee, and of the sensitivities of unsampled events.
    tolerance
        Engines run from the quickest on until the answer is known to this width: relative to the
        answer, or absolute for an epsilon below 1. Grids of losses reach 1e-5 at best.

    Returns
    -------
    float
        The pure epsilon at delta = 0. It is inf if there is none, or if the events' own deltas are
        larger. For some events the tolerance is not reached: see `epsilon_interval`.

    Raises
    ------
    InvalidParameter
        For a value that is not an event, a number out of range, and a sampling scheme that does not
        fit the relation.
    UnsupportedEvent
        If no theorem here prices an event.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian
    >>> steps = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01) * 1000
    >>> round(epsilon(steps, delta=1e-5), 6)
    1.828237
    >>> epsilon([], delta=0)
    0.0
    """
    limit = delta_argument(delta)
    return _met("epsilon", events, limit, neighbors, tolerance=tolerance, only_upper=True).upper


def epsilon_interval(
    events: Events,
    *,
    delta: Number,
    neighbors: Neighbors = AddRemove,
    tolerance: float = TOLERANCE,
) -> Interval:
    """Encloses the least epsilon at which the events keep (epsilon, delta)-DP.

    Bound: both.

    Source: as epsilon.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    delta
        From 0, at most below 1; a float means the decimal it prints as.
    neighbors
        The neighboring relation of the guarantee, and of the sensitivities of unsampled events.
    tolerance
        Engines run from the quickest on until the answer is known to this width: relative to the
        answer, or absolute for an epsilon below 1. Grids of losses reach 1e-5 at best.

    Returns
    -------
    Interval
        For events that are known only by a guarantee, it is that of the worst mechanism with the
        guarantee.

    Raises
    ------
    InvalidParameter
        For a value that is not an event, a number out of range, and a sampling scheme that does not
        fit the relation.
    UnsupportedEvent
        If no theorem here prices an event.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian
    >>> found = epsilon_interval(Gaussian(noise_multiplier=4), delta=1e-6)
    >>> round(found.lower, 4), round(found.upper, 4)
    (1.0607, 1.0607)
    """
    return _met("epsilon", events, delta_argument(delta), neighbors, tolerance=tolerance)


def delta(
    events: Events,
    *,
    epsilon: Number,
    neighbors: Neighbors = AddRemove,
    tolerance: float = TOLERANCE,
) -> float:
    """Bounds the delta of (epsilon, delta)-DP of all events together.

    Bound: upper, at most 1.

    Source: as epsilon.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    epsilon
        0 or above; a float means the decimal it prints as.
    neighbors
        The neighboring relation of the guarantee, and of the sensitivities of unsampled events.
    tolerance
        Engines run from the quickest on until the answer is known to this width: relative to the
        answer, or absolute for an epsilon below 1. Grids of losses reach 1e-5 at best.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    InvalidParameter
        For a value that is not an event, a number out of range, and a sampling scheme that does not
        fit the relation.
    UnsupportedEvent
        If no theorem here prices an event.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian
    >>> round(delta(Gaussian(noise_multiplier=1.0), epsilon=1.0), 6)
    0.126937
    """
    return delta_interval(events, epsilon=epsilon, neighbors=neighbors, tolerance=tolerance).upper


def delta_interval(
    events: Events,
    *,
    epsilon: Number,
    neighbors: Neighbors = AddRemove,
    tolerance: float = TOLERANCE,
) -> Interval:
    """Encloses the least delta at which the events keep (epsilon, delta)-DP.

    Bound: both.

    Source: as epsilon.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    epsilon
        0 or above; a float means the decimal it prints as.
    neighbors
        The neighboring relation of the guarantee, and of the sensitivities of unsampled events.
    tolerance
        Engines run from the quickest on until the answer is known to this width: relative to the
        answer, or absolute for an epsilon below 1. Grids of losses reach 1e-5 at best.

    Returns
    -------
    Interval
        From 0 to 1.

    Raises
    ------
    InvalidParameter
        For a value that is not an event, a number out of range, and a sampling scheme that does not
        fit the relation.
    UnsupportedEvent
        If no theorem here prices an event.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian
    >>> found = delta_interval(Gaussian(noise_multiplier=4), epsilon=1)
    >>> f"{found.lower:.3g} {found.upper:.3g}"
    '2.92e-06 2.92e-06'
    """
    return _met("delta", events, epsilon_argument(epsilon), neighbors, tolerance=tolerance)


def priced(
    events: Events,
    *,
    delta: Number | None = None,
    epsilon: Number | None = None,
    neighbors: Neighbors = AddRemove,
    tolerance: float = TOLERANCE,
) -> tuple[Interval, tuple[CertifiedInterval, ...]]:
    """`epsilon_interval` at a delta or `delta_interval` at an epsilon, with the findings.

    Exactly one of delta and epsilon is given. The findings are those that were needed, in the order
    of the engines.

    Bound       both.
    Source      in each finding.

    >>> from unacorda.privacy.events import Gaussian
    >>> interval, found = priced(Gaussian(noise_multiplier=1.0), delta=1e-5)
    >>> [one.engine for one in found]
    ['closed form']
    """
    seen: list[CertifiedInterval] = []
    measure: Measure
    if epsilon is None and delta is not None:
        measure, at = "epsilon", delta_argument(delta)
    elif delta is None and epsilon is not None:
        measure, at = "delta", epsilon_argument(epsilon)
    else:
        raise InvalidParameter("delta", delta, expected="one of delta and epsilon, and not both")
    found = _met(measure, events, at, neighbors, tolerance=tolerance, seen=seen)
    return found, tuple(seen)


def quick_epsilon(events: Events, *, delta: Number, neighbors: Neighbors = AddRemove) -> float:
    """An epsilon equal to that of `epsilon` or a little above, in a fraction of the time.

    It is for searches that price hundreds of events: grids stay coarse, and slow engines are
    skipped if another one has found an answer. Arguments and errors are those of `epsilon`.

    Bound       upper.
    Source      as epsilon.

    >>> from unacorda.privacy.events import Exponential
    >>> several = Exponential(epsilon=0.1) * 10
    >>> 0.63 < quick_epsilon(several, delta=1e-6) < 0.64
    True
    """
    limit = delta_argument(delta)
    return _met("epsilon", events, limit, neighbors, tolerance=_SEARCHED, quick=True).upper


def tradeoff(
    events: Events, *, neighbors: Neighbors = AddRemove, points: int = 25
) -> TradeoffCurve:
    """Encloses the trade-off curve of the events: misses against false alarms.

    Bound: both.

    Source: Dong, Roth, Su 2022, Prop. 2.12; the engines' profile.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    neighbors
        The neighboring relation of the guarantee, and of the sensitivities of unsampled events.
    points
        The number of epsilons at which the profile is computed, 2 or more; Gaussian sums are exact.

    Returns
    -------
    TradeoffCurve
        The curve; its lower side is the safe one.

    Raises
    ------
    InvalidParameter
        For a value that is not an event, a number out of range, and a sampling scheme that does not
        fit the relation.
    UnsupportedEvent
        If no theorem here prices an event.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian
    >>> round(tradeoff(Gaussian(noise_multiplier=1.0)).advantage, 6)
    0.382925
    """
    whole = isinstance(points, numbers.Integral) and 2 <= points <= _MOST
    demand(whole, "points", points, expected=f"a whole number from 2 to {_MOST}")
    event = together(events, neighbors)
    if event is None:
        return TradeoffCurve.of_guarantee(PureDP(0))
    known = pure_selections(dominating(event, neighbors), neighbors)
    if only_gaussian(known):
        below = dominated(event, neighbors)
        return TradeoffCurve(
            mu_squared=gdp_price(known).mu_squared,
            mu_squared_attained=None if below == known else _mu_squared(below),
        )
    largest = epsilon_interval(event, delta=Fraction(1, 10**9), neighbors=neighbors).upper
    pure = pure_epsilon(event, neighbors=neighbors)
    largest = min(largest, 700.0, math.inf if pure is None else pure)
    return _sampled_curve(
        lambda at: delta_interval(event, epsilon=at, neighbors=neighbors),
        largest=largest,
        pure=pure,
        points=points,
    )


def findings(
    events: Events,
    *,
    delta: Number,
    neighbors: Neighbors = AddRemove,
) -> tuple[CertifiedInterval, ...]:
    """The interval of epsilon that each engine proved, in the order of the engines.

    Bound       both, each.
    Source      in each finding.
    """
    limit = delta_argument(delta)
    event = together(events, neighbors)
    if event is None:
        return ()
    question = PriceQuestion(
        measure="epsilon", at=limit, neighbors=neighbors, intervals=_interval, tolerance=TOLERANCE
    )
    return tuple(question.findings(event))


def _interval(event: Event, neighbors: Neighbors, measure: Measure, at: Fraction) -> Interval:
    """Of another event, for engines that price an event by way of it."""
    if measure == "delta":
        return delta_interval(event, epsilon=at, neighbors=neighbors)
    return epsilon_interval(event, delta=at, neighbors=neighbors)


def _met(
    measure: Measure,
    events: Events,
    at: Fraction,
    neighbors: Neighbors,
    *,
    tolerance: float,
    seen: list[CertifiedInterval] | None = None,
    quick: bool = False,
    only_upper: bool = False,
) -> Interval:
    """The intersection of what engines prove, up to where it is narrow.

    seen: where the findings are noted. quick, only_upper: as `PriceQuestion` takes them.
    Raises InternalError where two findings contradict each other: one of them is wrong, and it is
    not known which.
    """
    tolerance = tolerance_argument(tolerance)
    event = together(events, neighbors)
    if event is None:
        return Interval(0.0, 0.0)
    if measure == "epsilon" and not at and pure_epsilon(event, neighbors=neighbors) is None:
        return Interval(0.0, math.inf)
    question = PriceQuestion(
        measure=measure,
        at=at,
        neighbors=neighbors,
        intervals=_interval,
        tolerance=tolerance,
        quick=quick,
        only_upper=only_upper or quick,
    )
    meeting = Meeting(event, measure, high=question.ceiling)
    for finding in question.findings(event):
        if seen is not None:
            seen.append(finding)
        meeting.add(finding.engine, finding.interval)
        if meeting.within(tolerance):
            break
    if not meeting.added and not (measure == "delta" and isinstance(event, Shuffled)):
        raise UnsupportedEvent(
            event,
            kind="(epsilon, delta)",
            try_instead="Ask with another neighbors=, or price its parts as Approximate events.",
        )
    return Interval(meeting.low, meeting.high)


def _mu_squared(event: Event | None) -> Fraction:
    """Of Gaussians that cost no more than what is asked; 0 where none are known."""
    if event is None or not only_gaussian(event):
        return Fraction(0)
    return gdp_price(event).mu_squared


_MOST = 10_000
_FALLEN = 2e-9
"""A delta that falls by no more than this has stopped falling."""
_SMALL = 1e-6


def _sampled_curve(
    delta_interval: Callable[[Fraction], Interval],
    *,
    largest: float,
    points: int,
    pure: float | None = None,
) -> TradeoffCurve:
    """The curve between the bounds of a profile at `points` epsilons from 0 to `largest`.

    largest: finite; where delta has stopped falling long before, as it does beside a mass of which
    nothing is known, the epsilons end there. pure: an epsilon at which delta is 0, where there is
    one.

    Bound       both: the curve's lower side is the safe one.
    Source      Dong, Roth, Su 2022, Prop. 2.12.
    """
    flat, last = delta_interval(Fraction(largest)), largest
    if flat.upper > _FALLEN:
        level = flat.upper + _FALLEN
        last = _end_of_fall(lambda at: delta_interval(at).upper, largest, level)
    grid = [last * (place / (points - 1)) ** 1.5 for place in range(points)]
    found = [(at, delta_interval(Fraction(at))) for at in grid if at < largest]
    found.append((largest, flat))
    promised = [(at, interval.upper) for at, interval in found]
    if pure is not None:
        promised.append((pure, 0.0))
    return TradeoffCurve.of_profile(
        promised, attained=[(at, interval.lower) for at, interval in found]
    )


def _end_of_fall(delta: Callable[[Fraction], float], largest: float, level: float) -> float:
    """About the least epsilon, not above `largest`, where a falling delta is at most `level`."""
    low = largest
    while low > _SMALL and delta(Fraction(low)) <= level:
        low, largest = low / 2, low
    _, found = bisect(lambda at: delta(Fraction(at)) <= level, low, largest, rounds=7)
    return found


_STEEPEST = 700.0
"""e to this power is still a float."""


def true_positive_rate(
    events: Events, *, fpr: Number, neighbors: Neighbors = AddRemove
) -> Interval:
    r"""The share of members that the best test with this false-positive rate finds.

    fpr: from 0 to 1. The privacy profile is computed where it matters, at about 25 epsilons that
    close in on that of the least bound.

    Statement   at most inf over real epsilon of e^epsilon fpr + delta(epsilon), delta the larger
                one of both orders of the neighbors. Where both orders are alike it is that; on a
                sample they are not, no test may reach it, and the lower end is 0.
    Bound       both.
    Source      Dong, Roth, Su 2022, Prop. 2.12; the engines' profile.

    >>> from unacorda.privacy.events import Gaussian
    >>> found = true_positive_rate(Gaussian(noise_multiplier=1.0), fpr=0.01)
    >>> round(found.lower, 6), round(found.upper, 6)
    (0.092362, 0.092362)
    """
    rate = exact("fpr", fpr)
    demand(0 <= rate <= 1, "fpr", fpr, expected="a number from 0 to 1")
    event = together(events, neighbors)
    if event is None:
        return Interval(float_down(ball(rate)), float_up(ball(rate)))
    curve = tradeoff(event, neighbors=neighbors, points=2)
    if curve.mu_squared is None:
        curve = _curve_about(event, float(rate), neighbors)
    missed = curve.beta_interval(alpha=rate)
    # where exchanging the neighbors leaves the pair of laws as it is, but for names
    mirrored = all(rules_of(one).mirrored for one in leaves(event))
    lower = max(0.0, math.nextafter(1 - missed.upper, 0.0)) if mirrored else 0.0
    return Interval(lower, curve.true_positive_rate(fpr=rate))


def _curve_about(event: Event, rate: float, neighbors: Neighbors) -> TradeoffCurve:
    """The trade-off curve, near where a test has this false-positive rate.

    Every point of the privacy profile bounds the true-positive rate by a line. The bound is convex
    in the slope e^epsilon, negative epsilons standing for the other order of the neighbors, and
    slopes outside the range that is searched give more than epsilon 0 does.
    """
    found: dict[float, Interval] = {}

    def bound(log_slope: float) -> float:
        epsilon = abs(log_slope)
        found[epsilon] = delta_interval(event, epsilon=Fraction(epsilon), neighbors=neighbors)
        if log_slope >= 0:
            return math.exp(epsilon) * rate + found[epsilon].upper
        return 1 - math.exp(-epsilon) * (1 - found[epsilon].upper - rate)

    most = bound(0.0)
    low = math.log((1 - most) / (1 - rate)) if most < 1 else -_STEEPEST
    high = math.log(most / rate) if rate > 0 else _STEEPEST
    golden_section(bound, max(low, -_STEEPEST), min(high, _STEEPEST), rounds=24)
    promised = [(epsilon, interval.upper) for epsilon, interval in found.items()]
    pure = pure_epsilon(event, neighbors=neighbors)
    return TradeoffCurve.of_profile(
        promised if pure is None else [*promised, (pure, 0.0)],
        attained=[(epsilon, interval.lower) for epsilon, interval in found.items()],
    )
