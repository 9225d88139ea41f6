"""Events as JSON text and back: floats as numbers, Fractions as text, exact both ways."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Event


def to_json(event: Event) -> str:
    """The event as JSON text, the same as ``event.to_json()``."""
    return json.dumps(_encode(event))


def from_json(text: str) -> Event:
    """Reads the event that `to_json` wrote.

    Parameters
    ----------
    text
        The JSON text of an event.

    Returns
    -------
    Event
        Equal to the event that was written.

    Raises
    ------
    InvalidParameter
        For any other text.

    >>> from unacorda.privacy.events import Gaussian
    >>> from_json(Gaussian(noise_multiplier=Fraction(1, 3)).to_json())
    Gaussian(noise_multiplier=Fraction(1, 3))
    """
    try:
        return _decode(json.loads(text))
    except InvalidParameter:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        expected = "the JSON text of an event, as to_json() writes it"
        raise InvalidParameter("text", text, expected=expected) from None


_KINDS: dict[str, Callable[..., Event]] = {kind.__name__: kind for kind in get_args(Event)}


def _encode(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {"event": type(event).__name__}
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        match value:
            case tuple() if name == "parts":
                fields[name] = [_encode(part) for part in value]
            case tuple():
                fields[name] = _list(value)
            case _ if type(value).__name__ in _KINDS:
                fields["of"] = _encode(value)
            case Fraction():
                fields[name] = str(value)
            case _:
                fields[name] = value
    return fields


def _list(numbers: tuple[Any, ...]) -> list[Any]:
    """Numbers and rows of numbers, Fractions as text."""
    return [
        _list(one) if isinstance(one, tuple) else str(one) if isinstance(one, Fraction) else one
        for one in numbers
    ]


def _number(value: Any) -> Any:
    """What `_list` wrote, and single numbers; all else as it is."""
    if isinstance(value, list):
        return tuple(_number(one) for one in value)
    return exact("text", value) if isinstance(value, str) else value


def _decode(fields: dict[str, Any]) -> Event:
    values = dict(fields)
    kind = _KINDS[values.pop("event")]
    if "of" in values:
        values["event"] = _decode(values.pop("of"))
    if "parts" in values:
        values["parts"] = tuple(_decode(part) for part in values["parts"])
    return kind(**{name: _number(value) for name, value in values.items()})
