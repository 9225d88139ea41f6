"""Events rewritten for engines that do not know them: shuffled parts, private selection."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from unacorda.accounting.amplification.shuffling import (
    delta_of_shuffled_reports,
    delta_of_shuffled_response,
    lower_delta_of_shuffled_response,
)
from unacorda.accounting.prices import pure_epsilon
from unacorda.accounting.rules.base import with_parts
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.numerics import narrow_bracket
from unacorda.privacy import events
from unacorda.privacy.estimates import Interval
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

_FEW, _MANY = 200, (6, 12, 25, 50, 100, 200, 400)
"""Where so few reports hide each other, answers with more categories may show more."""
_FAINT = 1e-16
"""A smaller delta of binary answers is known better as one of pure reports."""


def shuffled_parts(event: events.Event) -> int:
    """How many shuffled releases are composed in the event, not looking inside samples."""
    match event:
        case events.Repeated(event=one, count=count):
            return shuffled_parts(one) * count
        case events.Composed(parts=parts):
            return sum(shuffled_parts(part) for part in parts)
        case events.Shuffled():
            return 1
        case _:
            return 0


def delta_of_shuffled_event(event: events.Shuffled, *, epsilon: float) -> Interval:
    """Delta of one shuffled release, under replacement; the lower end is 0 where none is known.

    Raises UnsupportedEvent where the local report is not pure.

    Bound       both.
    Source      delta_of_shuffled_reports, delta_of_shuffled_response and its lower companion.
    """
    local = pure_epsilon(event.event, neighbors=ReplaceOne)
    if local is None:
        raise UnsupportedEvent(
            event, kind="shuffling", try_instead="Local reports need a pure epsilon each."
        )
    upper = _upper_delta(event, local, epsilon)
    lower = _lower_delta(event, epsilon)
    return Interval(min(lower, upper), upper)


def epsilon_of_shuffled_event(event: events.Shuffled, *, delta: Fraction) -> Interval:
    """Epsilon, at `delta`, of one shuffled release, under replacement.

    Bound       both.
    Source      delta_of_shuffled_event, inverted.
    """
    local = pure_epsilon(event.event, neighbors=ReplaceOne)
    if local is None or local == 0:
        delta_of_shuffled_event(event, epsilon=0.0)  # refuses what is not pure
        return Interval(0.0, 0.0)
    upper = _crossing(lambda epsilon: _upper_delta(event, local, epsilon), delta, largest=local)[1]
    lower = _crossing(lambda epsilon: _lower_delta(event, epsilon), delta, largest=local)[0]
    return Interval(min(lower, upper), upper)


def _upper_delta(event: events.Shuffled, local: float, epsilon: float) -> float:
    report, count = event.event, event.count
    if isinstance(report, events.RandomizedResponse):
        own = exact("epsilon", report.epsilon)
        found = delta_of_shuffled_response(
            own, categories=report.categories, count=count, epsilon=epsilon
        )
        if report.categories > 2 or found > _FAINT:
            return found
    farthest = min(1.0, math.tanh(local / 2) * (1 + 1e-15))
    return delta_of_shuffled_reports(local, distance=farthest, count=count, epsilon=epsilon)


def _lower_delta(event: events.Shuffled, epsilon: float) -> float:
    """Of a pure report the largest one of randomized response, by numbers of categories."""
    report = event.event
    match report:
        case events.RandomizedResponse():
            categories = [report.categories]
        case events.Pure():
            few = event.count < _FEW * math.exp(min(float(report.epsilon), 700.0))
            categories = [2, 3, *(_MANY if few else ())]
        case _:
            return 0.0
    own = exact("epsilon", report.epsilon)
    return max(
        lower_delta_of_shuffled_response(own, categories=k, count=event.count, epsilon=epsilon)
        for k in categories
    )


def without_shuffling(event: events.Event, *, delta: Fraction) -> events.Event:
    """The event with each shuffled release as Approximate at `delta`, or as its plain reports.

    Bound       upper: what satisfies the argument satisfies the result.
    Source      epsilon_of_shuffled_event; post-processing where delta is 0 or reports not pure.
    """
    match event:
        case events.Repeated() | events.Composed():
            return with_parts(event, lambda part: without_shuffling(part, delta=delta))
        case events.Shuffled(event=one):
            if not delta or pure_epsilon(one, neighbors=ReplaceOne) is None:
                return one
            epsilon = epsilon_of_shuffled_event(event, delta=delta).upper
            return events.Approximate(epsilon=epsilon, delta=delta)
        case _:
            return event


def pure_selections(event: events.Event, neighbors: Neighbors) -> events.Event:
    """The best of many runs, where these are pure, as Pure events.

    Bound       upper.
    Source      pure_epsilon.
    """
    match event:
        case events.Repeated() | events.Composed():
            return with_parts(event, lambda part: pure_selections(part, neighbors))
        case events.NegativeBinomialTries() | events.PoissonTries():
            epsilon = pure_epsilon(event, neighbors=neighbors)
            return event if epsilon is None else events.Pure(epsilon=Fraction(epsilon))
        case _:
            return event


def _crossing(
    value: Callable[[float], float], goal: Fraction, *, largest: float
) -> tuple[float, float]:
    """Where a falling delta passes the goal: an epsilon that exceeds it (or 0), one that does not.

    `largest` is known to be enough; both are nearer than a relative 10^-7.
    """
    start = value(0.0)
    if start <= goal:
        return 0.0, 0.0
    about = float(goal) / math.e  # how far below the goal the last value lies matters little
    return narrow_bracket(value, float(goal), (0.0, start), (largest, about), near=1e-7)
