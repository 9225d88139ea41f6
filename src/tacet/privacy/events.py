"""Events: what a mechanism did, as frozen values; accountants price them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, cast

from tacet import checks
from tacet.errors import InvalidParameter

__all__ = [
    "Approximate",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Exponential",
    "FixedSizeSampled",
    "Gaussian",
    "Laplace",
    "PoissonSampled",
    "Pure",
    "RandomizedResponse",
    "Repeated",
    "Shuffled",
    "ZeroConcentrated",
    "compose",
]

Real: TypeAlias = int | float | Fraction
"""Kept as given; accountants read a float as it prints. Round noise up, or give a Fraction."""


class _Operators:
    """Composition, sampling and the codec: what holds for every event."""

    __slots__ = ()

    def __add__(self, other: Event) -> Event:
        """Both events, on the same data, the later perhaps chosen after seeing the earlier."""
        return compose([cast("Event", self), other])

    def __radd__(self, other: object) -> Event:
        """The event itself after the 0 that sum() starts from."""
        return cast("Event", self) if other == 0 else NotImplemented

    def __mul__(self, count: int) -> Event:
        """The event, `count` times."""
        return compose([cast("Event", self)], count=count)

    __rmul__ = __mul__

    def poisson_sampled(self, *, rate: Real) -> PoissonSampled:
        """The event on a sample that holds each unit independently with probability `rate`."""
        return PoissonSampled(event=cast("Event", self), rate=rate)

    def fixed_size_sampled(self, *, size: int, population: int) -> FixedSizeSampled:
        """The event on `size` of `population` units, drawn without replacement."""
        return FixedSizeSampled(event=cast("Event", self), size=size, population=population)

    def shuffled(self, *, count: int) -> Shuffled:
        """The event as each of `count` people's local report, released in random order."""
        return Shuffled(event=cast("Event", self), count=count)

    def to_json(self) -> str:
        """The event as JSON text: floats as numbers, Fractions as text, exact both ways."""
        from tacet.privacy import event_codec

        return event_codec.to_json(cast("Event", self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(_Operators):
    r"""Release f(x) + N(0, sigma^2 I), where f moves by at most Delta_2 in the l2 norm.

    noise_multiplier: sigma / Delta_2, no unit, above 0.

    >>> Gaussian(noise_multiplier=2.0) * 3
    Repeated(event=Gaussian(noise_multiplier=2.0), count=3)
    """

    noise_multiplier: Real

    def __post_init__(self) -> None:
        _keep(self, noise_multiplier=_positive("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(_Operators):
    r"""Release f(x) + independent Laplace noise of scale b, where f moves by Delta_1 in l1.

    noise_multiplier: b / Delta_1, no unit, above 0.
    """

    noise_multiplier: Real

    def __post_init__(self) -> None:
        _keep(self, noise_multiplier=_positive("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(_Operators):
    r"""Release integers f(x) + X, P(X = k) proportional to exp(-k^2 / (2 sigma^2)).

    sigma: parameter of the noise, above 0, not its standard deviation; sensitivity: the l2
    sensitivity of the integer f, above 0.
    """

    sigma: Real
    sensitivity: Real

    def __post_init__(self) -> None:
        _keep(
            self,
            sigma=_positive("sigma", self.sigma),
            sensitivity=_positive("sensitivity", self.sensitivity),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(_Operators):
    r"""Release integers f(x) + X, P(X = k) proportional to exp(-|k| / scale).

    scale: above 0; sensitivity: the l1 sensitivity of the integer f, above 0.
    """

    scale: Real
    sensitivity: Real

    def __post_init__(self) -> None:
        _keep(
            self,
            scale=_positive("scale", self.scale),
            sensitivity=_positive("sensitivity", self.sensitivity),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(_Operators):
    r"""Release one of k categories: the true one with odds e^epsilon against each other one.

    epsilon: 0 or above; categories: k, 2 or more.
    """

    epsilon: Real
    categories: int

    def __post_init__(self) -> None:
        _keep(
            self,
            epsilon=_non_negative("epsilon", self.epsilon),
            categories=_whole("categories", self.categories, least=2),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(_Operators):
    r"""The exponential mechanism: log-likelihood ratios lie in one interval of length epsilon.

    epsilon: the range (hence also a pure epsilon), 0 or above.
    Source: Durfee and Rogers 2019, Definition 3.1 (bounded range).
    """

    epsilon: Real

    def __post_init__(self) -> None:
        _keep(self, epsilon=_non_negative("epsilon", self.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pure(_Operators):
    """Any mechanism of which only epsilon-DP is known; epsilon is 0 or above."""

    epsilon: Real

    def __post_init__(self) -> None:
        _keep(self, epsilon=_non_negative("epsilon", self.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class Approximate(_Operators):
    """Any mechanism of which only (epsilon, delta)-DP is known; delta lies in [0, 1]."""

    epsilon: Real
    delta: Real

    def __post_init__(self) -> None:
        _keep(
            self,
            epsilon=_non_negative("epsilon", self.epsilon),
            delta=_share("delta", self.delta),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroConcentrated(_Operators):
    """Any mechanism of which only (delta-approximate) rho-zCDP is known."""

    rho: Real
    delta: Real = 0

    def __post_init__(self) -> None:
        _keep(self, rho=_non_negative("rho", self.rho), delta=_share("delta", self.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(_Operators):
    """One event, `count` times (2 or more); written ``event * count``."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        _event("event", self.event)
        if isinstance(self.event, Repeated | Composed):
            raise InvalidParameter(
                "event", self.event, expected="one event; write event * count for a composition"
            )
        _keep(self, count=_whole("count", self.count, least=2))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Composed(_Operators):
    """Several different events, or Repeated ones, on the same data; written ``first + second``.

    Neither the grouping nor the order matters to equality, and equal events are counted:

    >>> a, b = Laplace(noise_multiplier=1.0), Pure(epsilon=0.5)
    >>> (a + b) + a == b + a * 2
    True
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        alone = {_identity(part.event if isinstance(part, Repeated) else part) for part in parts}
        if (
            len(parts) < 2
            or len(alone) < len(parts)
            or any(isinstance(part, Composed) for part in parts)
        ):
            raise InvalidParameter(
                "parts", self.parts, expected="two or more different events; use compose(events)"
            )
        _keep(self, parts=parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composed) and _identity(self) == _identity(other)

    def __hash__(self) -> int:
        return hash(_identity(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampled(_Operators):
    """The event on a sample that holds each unit independently with probability `rate`.

    rate: above 0, at most 1. Noise multipliers inside refer to adding or removing one unit.
    """

    event: Event
    rate: Real

    def __post_init__(self) -> None:
        _event("event", self.event)
        rate = _share("rate", self.rate)
        if rate == 0:
            raise InvalidParameter("rate", self.rate, expected="a number above 0, at most 1")
        _keep(self, rate=rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSizeSampled(_Operators):
    """The event on `size` of `population` units, drawn uniformly without replacement."""

    event: Event
    size: int
    population: int

    def __post_init__(self) -> None:
        _event("event", self.event)
        population = _whole("population", self.population, least=1)
        size = _whole("size", self.size, least=1)
        if size > population:
            raise InvalidParameter("size", self.size, expected=f"at most {population}")
        _keep(self, size=size, population=population)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled(_Operators):
    """The event as each of `count` people's local report, released in random order."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        _event("event", self.event)
        _keep(self, count=_whole("count", self.count, least=1))


Event: TypeAlias = (
    Gaussian
    | Laplace
    | DiscreteGaussian
    | DiscreteLaplace
    | RandomizedResponse
    | Exponential
    | Pure
    | Approximate
    | ZeroConcentrated
    | Repeated
    | Composed
    | PoissonSampled
    | FixedSizeSampled
    | Shuffled
)
"""The closed union: an accountant that forgets one does not type-check."""


def compose(events: Iterable[Event], *, count: int = 1) -> Event:
    """All events together, the whole `count` times: one event, Repeated or Composed.

    Raises InvalidParameter for no events and for what is no event.

    >>> a = Pure(epsilon=1)
    >>> compose([a, a]) == a * 2
    True
    """
    times = _whole("count", count, least=1)
    counts: dict[Hashable, int] = {}
    first: dict[Hashable, Event] = {}
    for event in events:
        _event("events", event)
        for part in event.parts if isinstance(event, Composed) else (event,):
            alone, many = (part.event, part.count) if isinstance(part, Repeated) else (part, 1)
            identity = _identity(alone)
            first.setdefault(identity, alone)
            counts[identity] = counts.get(identity, 0) + many * times
    if not counts:
        raise InvalidParameter("events", (), expected="at least one event")
    parts = tuple(
        Repeated(event=first[identity], count=many) if many > 1 else first[identity]
        for identity, many in counts.items()
    )
    return parts[0] if len(parts) == 1 else Composed(parts=parts)


def _identity(event: Event) -> Hashable:
    """What accountants read of an event: they take a float for the decimal it prints as.

    Python finds the float 0.1 and Fraction(0.1) equal, but they are read as two numbers, and
    events of them are two events.
    """
    fields: list[Hashable] = [type(event).__name__]
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        if isinstance(value, tuple):
            fields.append(frozenset(map(_identity, value)))
        elif isinstance(value, _Operators):
            fields.append(_identity(cast("Event", value)))
        else:
            fields.append(checks.exact(name, value))
    return tuple(fields)


def _keep(event: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(event, name, value)


def _event(name: str, value: object) -> None:
    if not isinstance(value, _Operators):
        raise InvalidParameter(name, value, expected="an event, such as Gaussian(...)")


def _real(name: str, value: Real, *, expected: str) -> Real:
    """The number without a NumPy type, if it is finite."""
    if not isinstance(value, bool):
        if isinstance(value, Fraction):
            return value
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
    raise InvalidParameter(name, value, expected=expected)


def _positive(name: str, value: Real) -> Real:
    expected = "a finite number above 0 (int, float or Fraction)"
    number = _real(name, value, expected=expected)
    if number <= 0:
        raise InvalidParameter(name, value, expected=expected)
    return number


def _non_negative(name: str, value: Real) -> Real:
    expected = "a finite number, 0 or above (int, float or Fraction)"
    number = _real(name, value, expected=expected)
    if number < 0:
        raise InvalidParameter(name, value, expected=expected)
    return number


def _share(name: str, value: Real) -> Real:
    expected = "a number from 0 to 1 (int, float or Fraction)"
    number = _real(name, value, expected=expected)
    if not 0 <= number <= 1:
        raise InvalidParameter(name, value, expected=expected)
    return number


def _whole(name: str, value: int, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InvalidParameter(name, value, expected=f"a whole number, {least} or above")
    return int(value)
