"""Questions as JSON that people and programs write, and back: built by the public methods alone.

::

    {
        "table": "visits",
        "steps": [{"where": "age >= 18"}, {"derive": {"stay": "left_on - came_on"}}],
        "group_by": ["county"],
        "keys": {"county": ["A", "B"]},
        "aggregates": {
            "n": {"count": {}},
            "m": {"mean": {"column": "age", "lower": 0, "upper": 120}},
        },
    }

A step is an object with one of `where`, `derive`, `explode`, `join`, `union` and `per_person`, and
the other arguments of that method; an aggregate is the name of its function with the
arguments. Names come from closed lists, and nothing is looked up by a text. Numbers are decimals or
texts such as "1/3": no float becomes a bound or a weight. The schema is the session's.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NoReturn

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.noise.selection import private_keys
from unacorda.query.plan import person_values
from unacorda.query.plan.codec import EVERY, decode
from unacorda.query.plan.query import Query
from unacorda.query.schema.keys import Key

Start = Callable[[str], Query]
"""A question about one table of a session, by its name."""

_MOST_TEXT: Final = 1 << 16
_DEEPEST: Final = 32
_MOST_STEPS: Final = 256

_AGGREGATES: Final[Mapping[str, Callable[..., Any]]] = {
    name: getattr(sys.modules[kind.__module__], name) for kind in EVERY for name in kind.functions
}
"""The functions that make aggregates, by the names that a question may use."""

_PERSON_VALUES: Final = {
    name: getattr(person_values, f"{name}_")
    for name in ("min", "max", "sum", "mean", "count", "any", "all", "first", "last")
}


def read_question(given: object, start: Start, *, most_keys: int | None = None) -> Query:
    """The question that JSON asks; nothing is read and nothing is spent.

    given: JSON text, or the object that it holds. most_keys: how many combinations of listed keys
    are made, where larger questions are refused anyway.

    Raises InvalidParameter and UnsafeExpression, whose `pointer` says where in the object (RFC
    6901).
    """
    stated = parse_json(given) if isinstance(given, str) else given
    names = ("table", "steps", "group_by", "keys", "margins", "level_weights", "aggregates")
    fields = _fields(stated, names, least=("table", "aggregates"))
    query = _rows(fields, start)
    if "group_by" in fields:
        with _at("group_by"):
            columns = decode(fields["group_by"], tuple[str, ...], at="group_by")
        with _at("keys"):
            keys = _keys(fields.get("keys"), columns)
            if most_keys is not None and isinstance(keys, dict):
                cells = math.prod(len(one) for one in keys.values() if isinstance(one, list))
                expected = f"at most {most_keys:,} combinations"
                checks.demand(cells <= most_keys, "keys", f"{cells:,} keys", expected=expected)
        query = query.group_by(
            *columns,
            keys=keys,
            margins=fields.get("margins"),
            level_weights=fields.get("level_weights"),
        )
    else:
        for name in ("keys", "margins", "level_weights"):
            checks.demand(name not in fields, name, "...", expected="group_by with it")
    with _at("aggregates"):
        return query.agg(**_called_by_name(fields["aggregates"], _AGGREGATES))


def parse_json(text: str) -> Any:
    """What JSON text holds, its numbers as decimals; InvalidParameter for what is none.

    Refused are NaN and infinities, a name twice in one object, more than 65,536 characters, and
    what is nested deeper than 32.
    """
    expected = "JSON text of at most 65,536 characters: finite numbers, each name once"
    checks.demand(len(text) <= _MOST_TEXT, "question", "...", expected=expected)
    found: Any = None
    with contextlib.suppress(ValueError, RecursionError, ArithmeticError):
        found = json.loads(
            text, object_pairs_hook=checks.once, parse_float=Decimal, parse_constant=_refused
        )
    checks.demand(found is not None, "question", text[:80], expected=expected)
    expected = f"JSON that is nested at most {_DEEPEST} deep"
    checks.demand(_depth(found) <= _DEEPEST, "question", "...", expected=expected)
    return found


def _refused(name: str) -> NoReturn:
    raise ValueError(name)


def _depth(value: Any) -> int:
    """How deep it is nested, as far as is allowed and one more."""
    depth, inside = 0, [value]
    while inside and depth <= _DEEPEST:
        depth += 1
        parts = [one.values() if isinstance(one, dict) else one for one in inside]
        inside = [part for some in parts if isinstance(some, Iterable) for part in some]
        inside = [part for part in inside if isinstance(part, dict | list)]
    return depth


@contextlib.contextmanager
def _at(*names: object) -> Iterator[None]:
    """Say of what is refused within where it stands."""
    try:
        yield
    except InvalidParameter as refused:
        raise refused.within(*names) from None


def _fields(
    stated: Any, names: tuple[str, ...], *, least: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """An object of some of these names, and all of `least`."""
    whole = isinstance(stated, Mapping) and set(least) <= set(stated) <= set(names)
    given = sorted(map(str, stated)) if isinstance(stated, Mapping) else "..."
    needed = f", {' and '.join(least)} among them" if least else ""
    checks.demand(whole, "question", given, expected=f"an object of {', '.join(names)}{needed}")
    found: Mapping[str, Any] = stated
    return found


def _rows(fields: Mapping[str, Any], start: Start, *, depth: int = 0) -> Query:
    """Rows of a table after their steps."""
    checks.demand(depth <= _DEEPEST, "question", "...", expected="less nesting of tables")
    with _at("table"):
        query = start(fields["table"])
    steps = fields.get("steps", [])
    with _at("steps"):
        checks.demand(isinstance(steps, list), "steps", "...", expected="a list of steps")
        made = sum(map(_size_of, steps))
        expected = f"at most {_MOST_STEPS} steps, each column of derive and per_person counted"
        checks.demand(made <= _MOST_STEPS, "steps", made, expected=expected)
    for place, step in enumerate(steps):
        with _at("steps", place):
            query = _stepped(query, step, start, depth)
    return query


def _size_of(step: Any) -> int:
    """How many steps it is, each column that it makes counted."""
    parts = step.values() if isinstance(step, Mapping) else ()
    return max((len(one) for one in parts if isinstance(one, Mapping)), default=1)


def _beside(given: Any, start: Start, depth: int) -> Query:
    return _rows(_fields(given, ("table", "steps"), least=("table",)), start, depth=depth + 1)


def _stepped(query: Query, step: Any, start: Start, depth: int) -> Query:
    kinds = ("where", "derive", "explode", "join", "union", "per_person")
    named = [kind for kind in kinds if isinstance(step, Mapping) and kind in step]
    expected = f"an object with one of {', '.join(kinds)}"
    checks.demand(len(named) == 1, "step", "...", expected=expected)
    (kind,) = named
    first, rest = step[kind], {name: part for name, part in step.items() if name != kind}
    with _at(kind):
        match kind:
            case "join":
                first = first if isinstance(first, str) else _beside(first, start, depth)
                if isinstance(rest.get("max_rows"), list):
                    rest["max_rows"] = tuple(rest["max_rows"])
            case "union":
                first = _beside(first, start, depth)
            case "per_person":
                first = _called_by_name(first, _PERSON_VALUES)
            case "derive":
                whole = isinstance(first, Mapping) and all(map(checks.is_text, first))
                checks.demand(whole, kind, "...", expected="an object of expressions by name")
            case _:  # the method reads it
                pass
    method: Callable[..., Query] = getattr(query, kind)
    if kind in ("derive", "per_person"):
        checks.demand(not rest, "step", sorted(rest), expected=f"{kind} alone")
        with _at(kind):
            return method(**first)
    _check_arguments(method, (first,), rest)
    return method(first, **rest)


def _keys(given: Any, columns: tuple[str, ...]) -> Any:
    """Keys as `group_by` takes them: listed, by column, found, or those declared."""
    if isinstance(given, Mapping):
        if set(given) == {"private_keys"} and "private_keys" not in columns:
            return _called(given, {"private_keys": private_keys})
        return {name: _listed(part, name) for name, part in given.items()}
    return None if given is None else _listed(given)


def _listed(given: Any, *names: str) -> Any:
    if isinstance(given, Mapping):
        with _at(*names):
            return _called(given, {"private_keys": private_keys})
    with _at(*names):
        checks.demand(isinstance(given, list), "keys", "...", expected="a list of keys")
        found = []
        for place, one in enumerate(given):
            with _at(place):
                hint = tuple[Key, ...] if isinstance(one, list) else Key
                found.append(decode(one, hint, at="keys"))
        return found


def _called_by_name(given: Any, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """By name what the function makes that stands beside it."""
    whole = isinstance(given, Mapping) and given and all(map(checks.is_text, given))
    expected = "an object of answers by name, such as {'n': {'count': {}}}"
    checks.demand(whole, "aggregates", "...", expected=expected)
    found = {}
    for name, one in given.items():
        with _at(name):
            found[name] = _called(one, functions)
    return found


def _called(given: Any, functions: Mapping[str, Callable[..., Any]]) -> Any:
    """What a function makes: {"mean": {"column": "age", "lower": 0, "upper": 120}}."""
    one = isinstance(given, Mapping) and len(given) == 1 and set(given) <= set(functions)
    named = sorted(map(str, given)) if isinstance(given, Mapping) else "..."
    checks.demand(one, "function", named, expected=f"an object with one of {', '.join(functions)}")
    ((name, arguments),) = given.items()
    function = functions[name]
    with _at(name):
        checks.demand(isinstance(arguments, Mapping), name, "...", expected="its arguments by name")
        _check_arguments(function, (), arguments)
        return function(**{name: _argument(name, one) for name, one in arguments.items()})


def _argument(name: str, given: Any) -> Any:
    """An argument; the values of `top` are keys."""
    if name == "values" and isinstance(given, list):
        return _listed(given, name)
    with _at(name):
        plain = [given] if not isinstance(given, list) else given
        flat = [part for one in plain for part in (one if isinstance(one, list) else [one])]
        alone = all(isinstance(one, str | int | float | Decimal | None) for one in flat)
        checks.demand(alone, name, "...", expected="text, a number, a list of such, or null")
    return given


def _check_arguments(
    function: Callable[..., Any], first: tuple[Any, ...], arguments: Mapping[str, Any]
) -> None:
    known = _signature(function)
    try:
        known.bind(*first, **arguments)
    except TypeError:
        names = ", ".join(list(known.parameters)[len(first) :])
        given = sorted(map(str, arguments))
        raise InvalidParameter("arguments", given, expected=f"of {names}") from None


@functools.lru_cache(maxsize=64)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)
