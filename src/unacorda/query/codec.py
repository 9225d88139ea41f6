"""Values of a question as plain JSON values and back: field by field, of a closed list of classes.

Nothing is looked up by a name that stands in the text: the type that a place asks for says which
classes may stand there, and `kind`, the `tag` of a class, only chooses among these. Fields that are
made from the rest when a question is put together (parsed expressions) are left out.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import functools
import inspect
import json
import math
import numbers
import types
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json
from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.aggregates.every import EVERY
from unacorda.query.expressions.types import Expression, encodable

__all__ = ["decode", "encode"]

_LONGEST = 100_000  # signs of one text
_LONGEST_NUMBER = 5_000
_LARGEST = 2**63
_AS_THEY_ARE = frozenset({types.NoneType, bool, int, str})
_PLAIN = _AS_THEY_ARE | {float, Fraction, dt.date}
_NO = object()  # this type is not what stands there


def encode(value: object) -> Any:
    """The value in what JSON knows; exact numbers are text, dates are told apart from text.

    >>> encode((Fraction(1, 3), dt.date(2024, 1, 31), None))
    ['1/3', {'date': '2024-01-31'}, None]
    """
    if type(value) in _AS_THEY_ARE:  # most of them: keys
        return value
    match value:
        case tuple() | list():
            return [one if type(one) in _AS_THEY_ARE else encode(one) for one in value]
        case str() | Fraction():
            return str(value)
        case dt.date():
            return {"date": value.isoformat()}
        case enum.Enum():
            return value.value
        case numbers.Integral():
            return int(value)
        case numbers.Real() if math.isfinite(value):
            return float(value)
        case Mapping():
            return {name: encode(one) for name, one in value.items()}
        case _ if isinstance(value, Guarantee):
            return json.loads(value.to_json())
        case _:
            kind: Any = type(value)
            if dataclasses.is_dataclass(value) and _kind(kind):
                fields = {name: encode(getattr(value, name)) for name in _fields(kind)}
                return {"kind": _kind(kind), **fields}
    raise TypeError(f"{kind.__name__} has no form in JSON.")


def decode(plain: object, hint: Any, *, at: str) -> Any:
    """The value of this type that `encode` wrote; at: where it stands, for messages.

    Raises InvalidParameter for whatever `encode` would not have written of a value of the type.

    >>> decode(["1/3", "2"], tuple[Fraction, ...], at="edges")
    (Fraction(1, 3), Fraction(2, 1))
    """
    for arm in _arms(hint):
        found = _read(plain, arm, at)
        if found is not _NO:
            return found
    expected = " or ".join(map(_named, _arms(hint)))
    raise InvalidParameter(at, _shown(plain), expected=expected)


@functools.cache
def _arms(hint: Any) -> tuple[Any, ...]:
    if hint is Aggregate:
        return EVERY
    if get_origin(hint) in {Union, types.UnionType}:
        return get_args(hint)
    return (hint,)


def _read(plain: object, hint: Any, at: str) -> Any:
    """The value if it is of this single type, else _NO."""
    if hint in _PLAIN:
        return _read_plain(plain, hint)
    origin = get_origin(hint)
    if origin is Literal:
        fits = any(type(plain) is type(one) and plain == one for one in get_args(hint))
        return plain if fits else _NO
    if origin is tuple:
        return _read_tuple(plain, get_args(hint), at)
    if origin in {collections.abc.Mapping, dict}:
        return _read_mapping(plain, get_args(hint)[1], at)
    if hint in _GUARANTEES:
        return _read_guarantee(plain, hint)
    if dataclasses.is_dataclass(hint):
        return _read_fields(plain, hint, at)
    return next((one for one in hint if type(plain) is str and one.value == plain), _NO)


def _read_plain(plain: object, hint: type) -> Any:
    match plain:
        case None:
            return None if hint is types.NoneType else _NO
        case bool():
            return plain if hint is bool else _NO
        case int() if hint is int and abs(plain) < _LARGEST:
            return plain
        case float() if hint is float and math.isfinite(plain):
            return plain
        case str() if hint is str and len(plain) <= _LONGEST and encodable(plain):
            return plain
        case str() if hint is Fraction:
            return _fraction(plain)
        case {"date": str(text), **rest} if hint is dt.date and not rest:
            return _date(text)
        case _:
            return _NO


def _read_tuple(plain: object, hints: tuple[Any, ...], at: str) -> Any:
    if not isinstance(plain, list):
        return _NO
    if len(hints) == 2 and hints[1] is Ellipsis:
        hints = (hints[0],) * len(plain)
    if len(plain) != len(hints):
        return _NO
    part = f"{at}[...]"
    return tuple(decode(one, hint, at=part) for one, hint in zip(plain, hints, strict=True))


def _read_mapping(plain: object, hint: Any, at: str) -> Any:
    if not isinstance(plain, dict) or not all(map(encodable, plain)):
        return _NO
    return {name: decode(one, hint, at=f"{at}[{name!r}]") for name, one in plain.items()}


def _read_guarantee(plain: object, hint: type) -> Any:
    if not isinstance(plain, dict) or plain.get("guarantee") != hint.__name__:
        return _NO
    if any(not isinstance(one, str) or len(one) > _LONGEST_NUMBER for one in plain.values()):
        return _NO
    try:
        found = guarantee_from_json(json.dumps(plain))
        return found if json.loads(found.to_json()) == plain else _NO
    except ValueError:  # InvalidParameter, or more digits than Python reads
        return _NO


def _read_fields(plain: object, hint: Any, at: str) -> Any:
    if not isinstance(plain, dict) or plain.get("kind") != _kind(hint):
        return _NO
    hints = _fields(hint)
    if set(plain) != {"kind", *hints}:
        listed = ", ".join(hints) or "nothing else"
        raise InvalidParameter(at, _shown(plain), expected=f"the fields kind, {listed}")
    fields = {name: decode(plain[name], hints[name], at=f"{at}.{name}") for name in hints}
    return hint(**fields)


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    """The fields by which a value is made, with their types; those of expressions are not."""
    hints = get_type_hints(kind)
    made = inspect.signature(kind).parameters
    return {name: hints[name] for name in made if not _mentions(hints[name], Expression)}


def _mentions(hint: Any, kind: type) -> bool:
    return hint is kind or any(_mentions(arm, kind) for arm in get_args(hint))


def _kind(kind: type) -> str | None:
    """The tag of a class, which digests and stored releases hold in place of its name."""
    tag: str | None = getattr(kind, "tag", None)
    return tag


def _fraction(text: str) -> Any:
    if len(text) > _LONGEST_NUMBER:
        return _NO
    try:
        found = checks.exact("number", text)
        return found if str(found) == text else _NO
    except ValueError:  # as above
        return _NO


def _date(text: str) -> Any:
    try:
        found = dt.date.fromisoformat(text)
    except ValueError:
        return _NO
    return found if found.isoformat() == text else _NO


def _named(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return "a list"
    if get_origin(hint) is not None:
        return "an object"
    words = {
        types.NoneType: "null",
        bool: "true or false",
        int: "a whole number",
        float: "a finite number",
        str: "text",
        Fraction: "a fraction as text, such as '1/3', in lowest terms",
        dt.date: '{"date": "YYYY-MM-DD"}',
    }
    if hint in words:
        return words[hint]
    return f"a {hint.__name__}"


def _shown(plain: object) -> object:
    """What stands there, as far as a message can hold it."""
    if isinstance(plain, dict):
        return {name: plain[name] for name in ("kind", "guarantee") if name in plain} or "{...}"
    return "[...]" if isinstance(plain, list) else plain


_GUARANTEES = frozenset(get_args(Guarantee))
