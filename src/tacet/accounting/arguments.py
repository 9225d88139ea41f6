"""Arguments that the accountant's functions share: events, one or several, and where they ask."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TypeAlias, get_args

from tacet.checks import Number, exact
from tacet.errors import InvalidParameter
from tacet.privacy.events import Event, compose

__all__ = ["Events", "delta_argument", "epsilon_argument", "joined"]

Events: TypeAlias = Event | Iterable[Event]
"""One event, or several that are composed; none of them cost nothing."""


def joined(events: Events) -> Event | None:
    """The composition of all events, None for none; InvalidParameter for what is no event.

    Bound       none: it only composes.
    Source      the event.
    """
    if isinstance(events, get_args(Event)):
        event: Event = events
        return event
    expected = "an event, such as Gaussian(...), or several"
    if isinstance(events, str | bytes):
        raise InvalidParameter("events", events, expected=expected)
    try:
        several = list(events)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter("events", events, expected=expected) from None
    return compose(several) if several else None


def delta_argument(value: Number) -> Fraction:
    """A delta that is asked at, from 0, below 1.

    Bound       none: it only checks.
    Source      the argument.
    """
    number = exact("delta", value)
    if not 0 <= number < 1:
        raise InvalidParameter("delta", value, expected="a number from 0, below 1")
    return number


def epsilon_argument(value: Number) -> Fraction:
    """An epsilon that is asked at, 0 or above.

    Bound       none: it only checks.
    Source      the argument.
    """
    number = exact("epsilon", value)
    if number < 0:
        raise InvalidParameter("epsilon", value, expected="a finite number, 0 or above")
    return number
