"""Shared arguments of the accountant's functions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from unacorda.accounting.rules.base import rules_of
from unacorda.checks import Number, demand, exact
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import EVENT_KINDS, Event, Pure, compose
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_neighbors

_LEAST_DELTA = Fraction(1, 10**300)
_LARGEST = Fraction(10**300)
_LARGEST_REAL = Fraction(10**100)
_LARGEST_WHOLE = 10**18
_LEAST_FLOAT = Fraction("5e-324")
_DIVISORS = frozenset({"noise_multiplier", "rate", "scale", "sigma", "stop"})
"""Fields whose inverse is computed."""
_DEEPEST = 64
"""Within these, what engines compute with stays a float."""

Events: TypeAlias = Event | Iterable[Event]
"""One event, or several that are composed; none of them cost nothing."""


def joined(events: Events) -> Event | None:
    """The composition of all events, None for none; InvalidParameter for other values.

    Events whose numbers are too extreme for floats are refused too: numbers are at most 1e100,
    noise and rates at least 1e-100, whole numbers at most 10^18, and events are nested at most 64
    deep.

    Bound       none: it only composes.
    Source      the event.
    """
    if isinstance(events, EVENT_KINDS):
        event: Event = events
        _check_numbers([event])
        return event
    expected = "an event, such as Gaussian(...), or several"
    if isinstance(events, str | bytes):
        raise InvalidParameter("events", events, expected=expected)
    try:
        several = list(events)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter("events", events, expected=expected) from None
    _check_numbers(several)
    return compose(several) if several else None


def together(events: Events, neighbors: Neighbors) -> Event | None:
    """The composition of all events, None for none, for a relation that they fit.

    Raises InvalidParameter for a value that is not an event, and for a scheme that does not fit the
    relation.

    Bound       none: it only composes.
    Source      the event.
    """
    event = joined(events)
    check_relation(Pure(epsilon=0) if event is None else event, neighbors)
    return event


def priceable(events: Events) -> Event:
    """As `joined`, with an event that costs nothing for none.

    Bound       none: it only composes.
    Source      the event.
    """
    event = joined(events)
    return Pure(epsilon=0) if event is None else event


def _check_numbers(events: Sequence[object]) -> None:
    level = events
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for one in level:
            if not isinstance(one, EVENT_KINDS):
                raise InvalidParameter("events", one, expected="events, such as Gaussian(...)")
            for name, field in one.__dataclass_fields__.items():
                value = getattr(one, name)
                if type(value) is not float or not 1e-90 < value < 1e90:  # most of them are
                    inner += _checked(name, value, whole=field.type.startswith("int"))
        if not inner:
            return
        level = inner
    raise InvalidParameter(
        "events", type(level[0]).__name__, expected=f"events at most {_DEEPEST} deep in each other"
    )


def _checked(name: str, value: object, *, whole: bool) -> Iterable[object]:
    """The events that a field holds; InvalidParameter for a number that is too large or small."""
    if isinstance(value, tuple):
        return [inner for one in value for inner in _checked(name, one, whole=whole)]
    if value is None:
        return ()
    if isinstance(value, int | float | Fraction):
        size = abs(exact(name, value))
        if whole and size > _LARGEST_WHOLE:
            raise InvalidParameter(name, value, expected="a whole number of at most 10^18")
        least = 1 / _LARGEST_REAL if name in _DIVISORS else _LEAST_FLOAT
        if size and not least <= size <= _LARGEST_REAL:
            low = "1e-100" if name in _DIVISORS else "5e-324"
            raise InvalidParameter(name, value, expected=f"0, or a number from {low} to 1e100")
        return ()
    return [value]


def delta_argument(value: Number) -> Fraction:
    """Check the delta of a question: 0, or from 1e-300 to below 1.

    Bound       none: it only checks.
    Source      the argument.
    """
    number = exact("delta", value)
    if number and not _LEAST_DELTA <= number < 1:
        raise InvalidParameter("delta", value, expected="0, or a number from 1e-300 to below 1")
    return number


def spendable_delta(value: Number) -> Fraction:
    """Check a delta to spend: 0, or from 1e-300 to 1.

    Bound       none: it only checks.
    Source      the argument.
    """
    number = exact("delta", value)
    if number and not _LEAST_DELTA <= number <= 1:
        raise InvalidParameter("delta", value, expected="0, or a number from 1e-300 to 1")
    return number


def epsilon_argument(value: Number) -> Fraction:
    """Check the epsilon of a question, from 0 to 1e300.

    Bound       none: it only checks.
    Source      the argument.
    """
    number = exact("epsilon", value)
    demand(0 <= number <= _LARGEST, "epsilon", value, expected="a number from 0 to 1e300")
    return number


def alpha_argument(value: Number) -> Fraction:
    """Check the Renyi order of a question, above 1 and at most 1e100.

    Bound       none: it only checks.
    Source      the argument.
    """
    number = exact("alpha", value)
    demand(1 < number <= 10**100, "alpha", value, expected="a number above 1, at most 1e100")
    return number


def tolerance_argument(value: Number) -> float:
    """Check the target width of an answer, from 0 to 1.

    Bound       none: it only checks.
    Source      the argument.
    """
    number = exact("tolerance", value)
    demand(0 <= number <= 1, "tolerance", value, expected="a number from 0 to 1, such as 1e-4")
    return float(number)


def check_relation(event: Event, neighbors: Neighbors) -> None:
    """Refuse a scheme that does not fit this relation; InvalidParameter has the hint.

    Poisson samples are priced under every relation (replacement as removing and adding). A fixed
    size and shuffling need a fixed number of units: they fit ReplaceOne and ZeroOut only.

    Bound       none: it only refuses.
    Source      Balle, Barthe, Gaboardi 2018, Table 1.
    """
    check_neighbors(neighbors)
    rules = rules_of(event)
    if rules.keeps_size and neighbors is AddRemove:
        raise InvalidParameter(
            "neighbors",
            neighbors,
            expected="neighbors=unacorda.ReplaceOne",
            hint=f"{rules.keeps_size} keeps the number of units, so it says nothing about adding "
            "or removing one; or use poisson_sampled(rate=...)",
        )
    for part in rules.inside(event):
        check_relation(part, neighbors)
