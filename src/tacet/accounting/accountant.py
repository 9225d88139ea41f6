"""The accountant: what events cost together, by the tightest engine that knows them, certified.

Every engine gives an interval that holds the true number, so their intersection does. Closed forms
come first, then the contour engine; guarantees and Renyi divergences close what is left open. An
answer that is narrow enough ends the search. The upper end is never below the truth; the lower
end is a proved one, or 0.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np

from tacet.accounting import matrices, prices
from tacet.accounting.amplification import events as rewritten
from tacet.accounting.amplification.relations import (
    check_relation,
    holds_sample,
    units_replaced,
)
from tacet.accounting.arguments import Events, delta_argument, epsilon_argument, joined
from tacet.accounting.derived import derived_bounds
from tacet.accounting.divergences import approximate as by_renyi
from tacet.accounting.divergences.events import pure_epsilon, renyi, rho
from tacet.accounting.engines import (
    Engine,
    Measure,
    by_loss_grids,
    engines_of,
    float_above,
    float_below,
    only_gaussian,
)
from tacet.checks import Number
from tacet.errors import InvalidParameter, UnsupportedEvent
from tacet.privacy import conversions
from tacet.privacy.estimates import Interval
from tacet.privacy.events import (
    Event,
    Pure,
    RandomAllocation,
    Shuffled,
)
from tacet.privacy.guarantees import PureDP
from tacet.privacy.neighbors import AddRemove, Neighbors
from tacet.privacy.tradeoff import TradeoffCurve

__all__ = [
    "Events",
    "Finding",
    "delta",
    "delta_interval",
    "epsilon",
    "epsilon_interval",
    "findings",
    "priced",
    "renyi",
    "rho",
    "together",
    "tradeoff",
]

_NARROW = 1e-8
"""An interval this narrow, relative to its upper end, is not looked at again."""
_CLOSE = 1e-3
"""Nor is one this narrow by the engines that lose more than that themselves."""


_NOTHING_PROVED = Interval(0.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one engine proved: its name, the interval, and the source of its theorem."""

    engine: str
    interval: Interval
    source: str


def epsilon(events: Events, *, delta: Number, neighbors: Neighbors = AddRemove) -> float:
    """The epsilon of (epsilon, delta)-DP of all events together.

    delta: from 0, at most below 1; a float means the decimal it prints as. At delta = 0 the answer
    is the pure epsilon, inf where there is none; it is inf too where the events spend more delta
    of their own. neighbors: the relation that the guarantee speaks of, and that the sensitivities
    of events outside samples speak of.
    Raises InvalidParameter for a sampling scheme that says nothing about the relation, and
    UnsupportedEvent where no theorem here prices an event.

    Bound       upper.
    Source      those of the engines; see `explain`.

    >>> from tacet.privacy.events import Gaussian
    >>> steps = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01) * 1000
    >>> round(epsilon(steps, delta=1e-5), 6)
    1.828237
    >>> epsilon([], delta=0)
    0.0
    """
    return epsilon_interval(events, delta=delta, neighbors=neighbors).upper


def epsilon_interval(
    events: Events, *, delta: Number, neighbors: Neighbors = AddRemove
) -> Interval:
    """An interval that holds the least epsilon at which the events keep (epsilon, delta)-DP.

    Of events of which only a guarantee is known, the worst mechanism that keeps it is meant.

    Bound       both.
    Source      as epsilon.
    """
    return _epsilon_interval(events, delta_argument(delta), neighbors, [])


def delta(events: Events, *, epsilon: Number, neighbors: Neighbors = AddRemove) -> float:
    """The delta of (epsilon, delta)-DP of all events together.

    epsilon: 0 or above. Errors as `epsilon`.

    Bound       upper, at most 1.
    Source      as epsilon.

    >>> from tacet.privacy.events import Gaussian
    >>> round(delta(Gaussian(noise_multiplier=1.0), epsilon=1.0), 6)
    0.126937
    """
    return delta_interval(events, epsilon=epsilon, neighbors=neighbors).upper


def delta_interval(
    events: Events, *, epsilon: Number, neighbors: Neighbors = AddRemove
) -> Interval:
    """An interval that holds the least delta at which the events keep (epsilon, delta)-DP.

    Bound       both.
    Source      as epsilon.
    """
    return _delta_interval(events, epsilon_argument(epsilon), neighbors, [])


def priced(
    events: Events,
    *,
    delta: Number | None = None,
    epsilon: Number | None = None,
    neighbors: Neighbors = AddRemove,
) -> tuple[Interval, tuple[Finding, ...]]:
    """`epsilon_interval` at a delta or `delta_interval` at an epsilon, and the findings it is from.

    Exactly one of delta and epsilon is given. The findings are those that were needed, in the
    order in which the engines were asked.

    Bound       both.
    Source      in each finding.

    >>> from tacet.privacy.events import Gaussian
    >>> interval, found = priced(Gaussian(noise_multiplier=1.0), delta=1e-5)
    >>> [one.engine for one in found]
    ['closed form']
    """
    seen: list[Finding] = []
    if epsilon is None and delta is not None:
        return _epsilon_interval(events, delta_argument(delta), neighbors, seen), tuple(seen)
    if delta is None and epsilon is not None:
        return _delta_interval(events, epsilon_argument(epsilon), neighbors, seen), tuple(seen)
    raise InvalidParameter("delta", delta, expected="one of delta and epsilon, and not both")


def tradeoff(
    events: Events, *, neighbors: Neighbors = AddRemove, points: int = 25
) -> TradeoffCurve:
    """The curve of false alarms against misses that the events allow, from both sides.

    points: at how many epsilons the profile is taken, 2 or more; Gaussian sums are exact.

    Bound       both: the curve's lower side is the safe one.
    Source      Dong, Roth, Su 2022, Prop. 2.12; the engines' profile.

    >>> from tacet.privacy.events import Gaussian
    >>> round(tradeoff(Gaussian(noise_multiplier=1.0)).advantage, 6)
    0.382925
    """
    if (
        isinstance(points, bool)
        or not isinstance(points, numbers.Integral)
        or not 2 <= points <= 10_000
    ):
        raise InvalidParameter("points", points, expected="a whole number from 2 to 10000")
    event = together(events, neighbors)
    if event is None:
        return TradeoffCurve.of_guarantee(PureDP(0))
    if only_gaussian(event):
        return TradeoffCurve.of_guarantee(prices.gdp_price(event))
    largest = epsilon_interval(event, delta=Fraction(1, 10**9), neighbors=neighbors).upper
    pure = pure_epsilon(event, neighbors=neighbors)
    largest = min(largest, 700.0, math.inf if pure is None else pure)
    grid = [largest * (place / (points - 1)) ** 1.5 for place in range(points)]
    found = [(at, delta_interval(event, epsilon=Fraction(at), neighbors=neighbors)) for at in grid]
    promised = [(at, interval.upper) for at, interval in found]
    if pure is not None:
        promised.append((pure, 0.0))
    return TradeoffCurve.of_profile(
        promised, attained=[(at, interval.lower) for at, interval in found]
    )


def findings(
    events: Events,
    *,
    delta: Number,
    neighbors: Neighbors = AddRemove,
) -> tuple[Finding, ...]:
    """What each engine that was asked proved of epsilon, in the order in which it was asked.

    Bound       both, each.
    Source      in each finding.
    """
    limit = delta_argument(delta)
    event = together(events, neighbors)
    if event is None:
        return ()
    return tuple(one for one in _epsilon_findings(event, limit, neighbors) if one is not None)


Findings: TypeAlias = Iterator[Finding | None]
"""In the order in which engines are asked; None before those that lose more than _CLOSE."""


def _epsilon_interval(
    events: Events, limit: Fraction, neighbors: Neighbors, seen: list[Finding]
) -> Interval:
    """The interval; what was found for it is put into `seen`."""
    event = together(events, neighbors)
    if event is None:
        return Interval(0.0, 0.0)
    if not limit and pure_epsilon(event, neighbors=neighbors) is None:
        return Interval(0.0, math.inf)
    found = _noted(_epsilon_findings(event, limit, neighbors), seen)
    return _met(found, event, worst=math.inf)


def _delta_interval(
    events: Events, at: Fraction, neighbors: Neighbors, seen: list[Finding]
) -> Interval:
    """As `_epsilon_interval`."""
    event = together(events, neighbors)
    if event is None:
        return Interval(0.0, 0.0)
    return _met(_noted(_delta_findings(event, at, neighbors), seen), event, worst=1.0)


def _noted(found: Findings, seen: list[Finding]) -> Findings:
    for finding in found:
        if finding is not None:
            seen.append(finding)
        yield finding


def _epsilon_findings(event: Event, limit: Fraction, neighbors: Neighbors) -> Findings:
    pure = pure_epsilon(event, neighbors=neighbors)
    if pure is not None:
        yield _finding("pure composition", Interval(0.0, pure), "Dwork et al. 2006")
    if not limit:
        return
    if isinstance(event, Shuffled):
        found = list(
            _asked(
                "clones",
                lambda: rewritten.epsilon_of_shuffled_event(event, delta=limit),
                "Feldman, McMillan, Talwar 2021",
            )
        )
        yield from found
        if found:
            return
    several = rewritten.shuffled_parts(event)
    plain = event
    if several:
        share = limit / (2 * several) if several > 1 or not isinstance(event, Shuffled) else 0
        plain = rewritten.without_shuffling(event, delta=Fraction(share))
    plain = rewritten.pure_selections(rewritten.replaced_samples(plain, neighbors), neighbors)
    exactly = plain is event or plain == event
    meet = _Meeting()
    engines = engines_of(plain, neighbors)
    yield from _numerical(engines, "epsilon", limit, exactly=exactly, meet=meet, enough=_NARROW)
    if meet.known and isinstance(plain, RandomAllocation):
        return  # its moments are slow to find, and no better than its profile
    for name, bound, source in derived_bounds(plain, neighbors, _intervals, delta=limit):
        yield from _asked(name, bound, source)
    yield None
    engines = iter([by_loss_grids(plain, neighbors)])
    yield from _numerical(engines, "epsilon", limit, exactly=exactly, meet=meet, enough=_CLOSE)
    if not holds_sample(plain):
        yield from _asked(
            "guarantees",
            lambda: Interval(0.0, float_above(prices.approx_dp_price(plain, delta=limit).epsilon)),
            "Gaussian DP, zCDP and sums: Dong, Roth, Su 2022; Canonne, Kamath, Steinke 2020",
        )
    yield from _asked(
        "Renyi divergences",
        lambda: Interval(0.0, by_renyi.epsilon_from_renyi(plain, delta=limit, neighbors=neighbors)),
        "Asoodeh et al. 2020, Theorem 3",
    )


def _delta_findings(event: Event, at: Fraction, neighbors: Neighbors) -> Findings:
    pure = pure_epsilon(event, neighbors=neighbors)
    if pure is not None:
        whole = conversions.approx_dp_delta_from_pure(pure, epsilon=at)
        yield _finding("pure composition", Interval(0.0, whole), "Kairouz, Oh, Viswanath 2015")
    low = float_below(at)
    if isinstance(event, Shuffled):
        found = list(
            _asked(
                "clones",
                lambda: rewritten.delta_of_shuffled_event(event, epsilon=low),
                "Feldman, McMillan, Talwar 2021",
            )
        )
        yield from found
        if found:
            return
    plain = rewritten.without_shuffling(event, delta=Fraction(0))
    plain = rewritten.pure_selections(rewritten.replaced_samples(plain, neighbors), neighbors)
    exactly = plain is event or plain == event
    meet = _Meeting()
    engines = engines_of(plain, neighbors)
    yield from _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=_NARROW)
    if meet.known and isinstance(plain, RandomAllocation):
        return  # its moments are slow to find, and no better than its profile
    for name, bound, source in derived_bounds(plain, neighbors, _intervals, epsilon=at):
        yield from _asked(name, bound, source)
    yield None
    engines = iter([by_loss_grids(plain, neighbors)])
    yield from _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=_CLOSE)
    yield from _asked(
        "Renyi divergences",
        lambda: Interval(0.0, by_renyi.delta_from_renyi(plain, epsilon=at, neighbors=neighbors)),
        "Asoodeh et al. 2020, Theorem 3",
    )


def _intervals(
    event: Event, neighbors: Neighbors, *, delta: Fraction | None, epsilon: Fraction | None
) -> Interval:
    """Of another event, for engines that price an event by way of it."""
    if epsilon is not None:
        return delta_interval(event, epsilon=epsilon, neighbors=neighbors)
    return epsilon_interval(event, delta=delta or Fraction(0), neighbors=neighbors)


@dataclass(slots=True)
class _Meeting:
    """Where the intervals of the numerical engines meet, about the event that they were asked."""

    low: float = 0.0
    high: float = math.inf
    known: bool = False

    def within(self, enough: float) -> bool:
        """Whether what is left open is this narrow, relative to its upper end."""
        return self.high < math.inf and self.high - self.low <= enough * self.high


def _numerical(
    engines: Iterator[tuple[str, Engine, str]],
    measure: Measure,
    at: Fraction,
    *,
    exactly: bool,
    meet: _Meeting,
    enough: float,
) -> Iterator[Finding]:
    """What the engines find, until they leave `enough` open or less.

    exactly: else the event they know stands for another from above, and lower ends say nothing.
    """
    for name, ask, source in engines:
        if meet.within(enough):
            return
        for finding in _asked(name, partial(ask, measure, at), source):
            own = finding.interval
            meet.low, meet.high = max(meet.low, own.lower), min(meet.high, own.upper)
            meet.known = True
            yield finding if exactly else _finding(name, Interval(0.0, own.upper), source)


def _asked(name: str, ask: Callable[[], Interval], source: str) -> Iterator[Finding]:
    """The finding, or none where the engine does not know the event or has no delta left.

    An engine whose floats overflow, or leave what a function is defined for, has proved nothing.
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            interval = ask()
    except UnsupportedEvent:
        return
    except InvalidParameter as refusal:
        if refusal.argument != "delta":
            raise
        return
    except (ArithmeticError, ValueError):
        interval = _NOTHING_PROVED
    yield _finding(name, interval, source)


def _finding(name: str, interval: Interval, source: str) -> Finding:
    return Finding(engine=name, interval=interval, source=source)


def _met(found: Findings, event: Event, *, worst: float) -> Interval:
    """The intersection, up to where it is narrow; the hull of what contradicts itself."""
    low, high, known, largest = 0.0, worst, False, 0.0
    for finding in found:
        if finding is not None:
            known = True
            interval = finding.interval
            low, high = max(low, interval.lower), min(high, interval.upper)
            largest = max(largest, min(interval.upper, worst))
        enough = _CLOSE if finding is None else _NARROW
        if high < math.inf and high - low <= enough * high:
            break
    if not known and worst == 1.0:
        known = isinstance(event, Shuffled)
    if not known:
        raise UnsupportedEvent(
            event,
            kind="(epsilon, delta)",
            try_instead="Ask with another neighbors=, or price its parts as Approximate events.",
        )
    return Interval(low, high) if low <= high else Interval(high, largest)


def together(events: Events, neighbors: Neighbors) -> Event | None:
    """One event that the engines read for all of them, None for none; it speaks of the relation.

    Raises InvalidParameter for what is no event, and for a scheme that says nothing about the
    relation.

    Bound       none: it only composes.
    Source      the event.
    """
    event = joined(events)
    check_relation(Pure(epsilon=0) if event is None else event, neighbors)
    return None if event is None else matrices.plain(units_replaced(event, neighbors))
