"""How events are spelled: the names and methods of the grammar, and events written in it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from fractions import Fraction
from typing import Any, get_args

from unacorda.privacy.events import Composed, Event, Repeated

__all__ = ["CLASSES", "KINDS", "METHODS", "Method", "Place", "depth", "places", "snake", "written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One argument: its name, what it holds, and whether it may be left out."""

    name: str
    whole: bool
    optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method that makes an event of an event: its name, its receiver and its result."""

    name: str
    receiver: type
    result: str
    places: tuple[Place, ...]


def snake(name: str) -> str:
    """A class's name in lower case, its words divided by underscores.

    >>> snake("DiscreteGaussian")
    'discrete_gaussian'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


CLASSES: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
"""The events of the closed union, by their own names."""

KINDS: dict[str, type] = {snake(name): kind for name, kind in CLASSES.items()}
"""The events of the closed union, as the grammar names them first."""


def places(kind: type) -> tuple[Place, ...]:
    """The arguments of an event."""
    fields: Any = kind.__dict__["__dataclass_fields__"]
    return tuple(
        Place(name=name, whole=field.type.startswith("int"), optional=field.default is not MISSING)
        for name, field in fields.items()
    )


def _methods(kind: type) -> Iterator[Method]:
    """The public methods of an event that give an event of the union."""
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        signature = inspect.signature(function)
        if name.startswith("_") or signature.return_annotation not in CLASSES:
            continue
        yield Method(
            name=name,
            receiver=kind,
            result=signature.return_annotation,
            places=tuple(
                Place(
                    name=argument.name,
                    whole=argument.annotation == "int",
                    optional=argument.default is not argument.empty,
                )
                for argument in signature.parameters.values()
                if argument.name != "self"
            ),
        )


METHODS: dict[str, dict[str, Method]] = {
    name: {method.name: method for method in _methods(kind)} for name, kind in CLASSES.items()
}
"""By the name of an event, its methods that give events."""


def depth(event: Event) -> int:
    """How deep events stand in events: 1 for one that holds none; counts no further than 1000.

    >>> from unacorda.privacy.events import Pure
    >>> depth(Pure(epsilon=1)), depth(Pure(epsilon=1).shuffled(count=9) * 2)
    (1, 3)
    """
    level: list[Any] = [event]
    found = 0
    while level and found < 1000:
        found += 1
        level = [inner for one in level for inner in _inner(one)]
    return found


def written(event: Event) -> str:
    """The event in the grammar; what reads it gives the event back.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> steps = Gaussian(noise_multiplier=Fraction(1, 3)).poisson_sampled(rate=0.1) * 9
    >>> written(steps + Pure(epsilon=1))
    'gaussian(noise_multiplier=1/3).poisson_sampled(rate=0.1) * 9 + pure(epsilon=1)'
    """
    match event:
        case Composed(parts=parts):
            return " + ".join(map(written, parts))
        case Repeated(event=one, count=count):
            return f"{written(one)} * {count}"
        case _:
            return _alone(event)


def _alone(event: Any) -> str:
    kind = type(event)
    inner: Any = getattr(event, "event", None)
    for method in METHODS.get(type(inner).__name__, {}).values():
        if method.result == kind.__name__:
            receiver = written(inner)
            if isinstance(inner, Composed | Repeated):
                receiver = f"({receiver})"
            return f"{receiver}.{method.name}({_arguments(event, method.places)})"
    return f"{snake(kind.__name__)}({_arguments(event, places(kind))})"


def _arguments(event: Any, expected: tuple[Place, ...]) -> str:
    fields = event.__dataclass_fields__
    return ", ".join(
        f"{place.name}={_value(getattr(event, place.name))}"
        for place in expected
        if not (place.optional and getattr(event, place.name) == fields[place.name].default)
    )


def _value(value: Any) -> str:
    match value:
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Fraction() | int():
            return str(value)
        case float():
            return repr(value)
        case _:
            return written(value)


def _inner(event: Any) -> Iterator[Any]:
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        if type(value).__name__ in CLASSES:
            yield value
        elif name == "parts":
            yield from value
