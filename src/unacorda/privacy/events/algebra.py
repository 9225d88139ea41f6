"""Events, what every one can do, and their algebra: composition, sampling, shuffling."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.privacy.events.codec import write
from unacorda.privacy.events.fields import Real, keep, non_negative, positive, share, whole

__all__ = [
    "Composed",
    "Event",
    "FixedSizeSampled",
    "PoissonSampled",
    "RandomAllocation",
    "Repeated",
    "ReplacementSampled",
    "Shuffled",
    "compose",
]


class Event:
    """What a mechanism did; all kinds share equality, composition, sampling and JSON.

    Examples
    --------
    >>> from unacorda import events
    >>> month = events.Laplace(noise_multiplier=20) * 30 + events.Gaussian(noise_multiplier=5)
    >>> month.to_json() == events.from_json(month.to_json()).to_json()
    True
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        """Reads each field as `READERS` says for its name."""
        for name in self.__dataclass_fields__:
            if name in READERS:
                object.__setattr__(self, name, READERS[name](name, getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        """Whether accountants see the same numbers, with a float as the decimal that it prints as.

        So the float 0.5 is Fraction(1, 2), but 0.1 is not Fraction(0.1), its binary value, though
        Python finds these equal. The order of a composition does not matter.
        """
        if self is other:
            return True
        if not isinstance(other, Event) or type(self) is not type(other):
            return NotImplemented
        names = self.__dataclass_fields__
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        """Of the nearest floats, which equal numbers share."""
        names = self.__dataclass_fields__
        return hash((type(self), *[_hashed(getattr(self, name)) for name in names]))

    def __add__(self, other: Event) -> Event:
        """Both events on the same data, the second perhaps chosen adaptively."""
        return compose([self, other])

    def __radd__(self, other: object) -> Event:
        """The event itself after the 0 that sum() starts from."""
        return self if other == 0 else NotImplemented

    def __mul__(self, count: int) -> Event:
        """The event, `count` times."""
        times = whole("count", count, least=1)
        return self if times == 1 else compose([self], count=times)

    __rmul__ = __mul__

    def poisson_sampled(self, *, rate: Real) -> PoissonSampled:
        """Give the event on a sample that holds each unit independently with probability `rate`.

        Parameters
        ----------
        rate
            Above 0, at most 1.

        Raises
        ------
        InvalidParameter
            For a rate out of its range.
        """
        return PoissonSampled(event=self, rate=rate)

    def fixed_size_sampled(self, *, size: int, population: int) -> FixedSizeSampled:
        """Give the event on `size` of `population` units, drawn without replacement.

        Parameters
        ----------
        size
            Units in the sample, 1 or more.
        population
            Units in the table, no fewer.

        Raises
        ------
        InvalidParameter
            For numbers out of their range.
        """
        return FixedSizeSampled(event=self, size=size, population=population)

    def sampled_with_replacement(self, *, size: int, population: int) -> ReplacementSampled:
        """Give the event on `size` draws from `population` units, each draw of any unit.

        Parameters
        ----------
        size
            Draws, 1 or more.
        population
            Units in the table, 1 or more.

        Raises
        ------
        InvalidParameter
            For numbers out of their range.
        """
        return ReplacementSampled(event=self, size=size, population=population)

    def randomly_allocated(self, *, steps: int, uses: int = 1) -> RandomAllocation:
        """Give the event at each of `steps` steps, each unit in `uses` of them, drawn at random.

        Parameters
        ----------
        steps
            How many there are, 1 or more.
        uses
            The exact number of them in which a unit takes part, from 1 to `steps`.

        Raises
        ------
        InvalidParameter
            For numbers out of their range.
        """
        return RandomAllocation(event=self, steps=steps, uses=uses)

    def shuffled(self, *, count: int) -> Shuffled:
        """Give the event as the report of each of `count` people, released in random order.

        Parameters
        ----------
        count
            People, 1 or more, all with one randomizer.

        Raises
        ------
        InvalidParameter
            For a number out of its range.
        """
        return Shuffled(event=self, count=count)

    def to_json(self) -> str:
        """The event as JSON text: floats as numbers, Fractions as text, exact both ways."""
        return write(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeated(Event):
    """One event, several times; written ``event * count``.

    Parameters
    ----------
    event
        What is done.
    count
        2 or more.

    Examples
    --------
    >>> from unacorda import events
    >>> events.Pure(epsilon=0.5) * 2
    Repeated(event=Pure(epsilon=0.5), count=2)
    """

    event: Event
    count: int

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        if isinstance(self.event, Repeated | Composed):
            raise InvalidParameter(
                "event", self.event, expected="one event; write event * count for a composition"
            )
        whole("count", self.count, least=2)


class _Growing(Event):
    """What a composition knows of its parts, so that one more is added in no time."""

    __slots__ = ("_alone",)
    _alone: frozenset[Event]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Composed(_Growing):
    """Several different events, or Repeated ones, on the same data; written ``first + second``.

    Grouping and order do not matter for equality, and equal events are counted.

    Parameters
    ----------
    parts
        Two or more different events.

    Examples
    --------
    >>> from unacorda.privacy.events import Laplace, Pure
    >>> a, b = Laplace(noise_multiplier=1.0), Pure(epsilon=0.5)
    >>> (a + b) + a == b + a * 2
    True
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        for part in parts:
            check_event("parts", part)
        alone = frozenset(map(_once, parts))
        if (
            len(parts) < 2
            or len(alone) < len(parts)
            or any(isinstance(part, Composed) for part in parts)
        ):
            raise InvalidParameter(
                "parts", self.parts, expected="two or more different events; use compose(events)"
            )
        keep(self, parts=parts, _alone=alone)

    def __add__(self, other: Event) -> Event:
        """Both events; one that is not among the parts is the last of them."""
        known = getattr(self, "_alone", None)  # not in a copy that was pickled
        check_event("events", other)
        if known is None or isinstance(other, Composed) or _once(other) in known:
            return compose([self, other])
        found = object.__new__(Composed)
        keep(found, parts=(*self.parts, other), _alone=known | {_once(other)})
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoissonSampled(Event):
    """The event on a sample that holds each unit independently.

    Parameters
    ----------
    event
        Its noise multipliers refer to adding or removing one unit.
    rate
        The probability of a unit to be in the sample, above 0, at most 1.

    Examples
    --------
    >>> from unacorda import accounting, events
    >>> event = events.Laplace(noise_multiplier=1).poisson_sampled(rate=0.1)
    >>> round(accounting.epsilon(event, delta=0), 4)
    0.1586
    """

    event: Event
    rate: Real

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        expected = "a number above 0, at most 1"
        checks.demand(self.rate != 0, "rate", self.rate, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedSizeSampled(Event):
    """The event on some of all units, drawn uniformly without replacement.

    Parameters
    ----------
    event
        Its noise multipliers refer to adding or removing one unit.
    size
        Units in the sample, 1 or more.
    population
        Units in the table, no fewer.

    Examples
    --------
    >>> from unacorda import accounting, events
    >>> from unacorda.privacy.neighbors import ReplaceOne
    >>> event = events.Laplace(noise_multiplier=1).fixed_size_sampled(size=10, population=100)
    >>> round(accounting.epsilon(event, delta=0, neighbors=ReplaceOne), 3)
    0.494
    """

    event: Event
    size: int
    population: int

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        expected = f"at most {self.population}"
        checks.demand(self.size <= self.population, "size", self.size, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplacementSampled(Event):
    """The event on draws with replacement: a unit may be drawn several times.

    Parameters
    ----------
    event
        Its numbers refer to adding or removing one draw of one unit.
    size
        Draws, 1 or more.
    population
        Units in the table, 1 or more.

    Examples
    --------
    >>> from unacorda import events
    >>> event = events.Laplace(noise_multiplier=1)
    >>> ReplacementSampled(event=event, size=10, population=100)
    ReplacementSampled(event=Laplace(noise_multiplier=1), size=10, population=100)
    """

    event: Event
    size: int
    population: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomAllocation(Event):
    """The event at each of several steps, where each unit takes part in some of them.

    The steps of a unit are drawn uniformly and independently of those of others; balls and bins.

    Parameters
    ----------
    event
        Its numbers refer to adding or removing one unit at one step.
    steps
        How many there are, 1 or more.
    uses
        In how many of them a unit takes part, exactly.

    Examples
    --------
    >>> from unacorda import accounting, events
    >>> event = RandomAllocation(event=events.Gaussian(noise_multiplier=2), steps=10)
    >>> round(accounting.epsilon(event, delta=1e-6), 2)
    0.73
    """

    event: Event
    steps: int
    uses: int = 1

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        expected = f"at most {self.steps}, the steps"
        checks.demand(self.uses <= self.steps, "uses", self.uses, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffled(Event):
    """The event as the local report of each person, released in random order.

    All reports use one randomizer, which must not be chosen after seeing some of them.

    Parameters
    ----------
    event
        One report.
    count
        People, 1 or more.

    Examples
    --------
    >>> from unacorda import events
    >>> events.RandomizedResponse(epsilon=1, categories=4).shuffled(count=10_000)
    Shuffled(event=RandomizedResponse(epsilon=1, categories=4), count=10000)
    """

    event: Event
    count: int


def compose(events: Iterable[Event], *, count: int = 1) -> Event:
    """Composes events into one: Repeated, Composed or the event itself.

    Parameters
    ----------
    events
        One or more.
    count
        How often the whole is done, 1 or more.

    Returns
    -------
    Event
        Equal events are counted.

    Raises
    ------
    InvalidParameter
        For no events, and for a value that is not an event.

    Examples
    --------
    >>> from unacorda.privacy.events import Pure
    >>> a = Pure(epsilon=1)
    >>> compose([a, a]) == a * 2
    True
    """
    times = whole("count", count, least=1)
    counts: dict[Event, int] = {}
    for event in events:
        check_event("events", event)
        for part in event.parts if isinstance(event, Composed) else (event,):
            alone, many = _once(part), part.count if isinstance(part, Repeated) else 1
            counts[alone] = counts.get(alone, 0) + many * times
    checks.demand(counts, "events", (), expected="at least one event")
    parts = tuple(
        Repeated(event=alone, count=many) if many > 1 else alone for alone, many in counts.items()
    )
    return parts[0] if len(parts) == 1 else Composed(parts=parts)


def _once(event: Event) -> Event:
    """The event, of which there may be copies."""
    return event.event if isinstance(event, Repeated) else event


def _same(one: Any, two: Any) -> bool:
    """Whether a field of two events of one kind holds the same numbers or events."""
    if type(one) is type(two):
        if not isinstance(one, tuple):
            return bool(one == two)  # no two floats print as the same decimal
        if _of_events(one):
            return one == two or frozenset(one) == frozenset(two)
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, tuple | Event | None) or isinstance(two, tuple | Event | None):
        return False
    return checks.exact("number", one) == checks.exact("number", two)


def _hashed(value: Any) -> Hashable:
    if type(value) is float or isinstance(value, Event | None):
        return value
    if isinstance(value, tuple):
        return frozenset(value) if _of_events(value) else tuple(map(_hashed, value))
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _of_events(values: tuple[object, ...]) -> bool:
    return isinstance(values[0], Event) if values else False


def check_event(name: str, value: object) -> Event:
    """The value, if it is an event; else InvalidParameter."""
    if not isinstance(value, Event):
        raise InvalidParameter(name, value, expected="an event, such as Gaussian(...)")
    return value


def _count(name: str, value: Any) -> int:
    return whole(name, value, least=1)


READERS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("noise_multiplier", "scale", "sigma", "sensitivity", "bound"), positive),
    **dict.fromkeys(("epsilon", "rho"), non_negative),
    **dict.fromkeys(("delta", "rate", "split", "stop"), share),
    **dict.fromkeys(("count", "size", "population", "steps", "uses"), _count),
    **dict.fromkeys(("participations", "separation"), _count),
    "categories": lambda name, value: whole(name, value, least=2),
    "event": check_event,
    "mean": positive,
    "most": lambda name, value: None if value is None else whole(name, value, least=1),
}
"""How a field is checked and read, by its name, which has one meaning in all events."""
