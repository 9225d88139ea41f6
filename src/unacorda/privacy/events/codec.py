"""Events as JSON text and back: floats as numbers, Fractions as text, exact both ways."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from fractions import Fraction
from typing import Any

from unacorda.checks import exact
from unacorda.errors import InvalidParameter


def write(event: Any) -> str:
    """Write an event, and those that it holds, as JSON text."""
    return json.dumps(_encode(event))


def read(text: str, kinds: Iterable[type]) -> Any:
    """Read what `write` wrote of events of these kinds; InvalidParameter for any other text."""
    try:
        return _decode(json.loads(text), {kind.__name__: kind for kind in kinds})
    except InvalidParameter:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        expected = "the JSON text of an event, as to_json() writes it"
        raise InvalidParameter("text", text, expected=expected) from None


def _encode(event: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"event": type(event).__name__}
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        match value:
            case tuple() if name == "parts":
                fields[name] = [_encode(part) for part in value]
            case tuple():
                fields[name] = _list(value)
            case _ if is_dataclass(value):
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


def _decode(fields: dict[str, Any], kinds: Mapping[str, Callable[..., Any]]) -> Any:
    values = dict(fields)
    kind = kinds[values.pop("event")]
    if "of" in values:
        values["event"] = _decode(values.pop("of"), kinds)
    if "parts" in values:
        values["parts"] = tuple(_decode(part, kinds) for part in values["parts"])
    return kind(**{name: _number(value) for name, value in values.items()})
