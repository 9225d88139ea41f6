"""Questions as plain JSON values and back: field by field, of a closed list of classes.

Nothing is looked up by a name that stands in the text: the type that a place asks for says which
classes may stand there, and `kind`, the `tag` of a class, only chooses among these. Fields that are
made from the rest when a question is put together (parsed expressions) are left out.

The parts of a question are also written as people and programs write them, which `questions` reads.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import functools
import importlib
import inspect
import json
import math
import numbers
import pkgutil
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json
from unacorda.query import aggregates
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.expressions.language import Expression, encodable, identifier
from unacorda.query.noise.selection import PrivateKeys
from unacorda.query.plan.joins import looked_up, matched, united
from unacorda.query.plan.person_values import AnyPersonValue, PersonValue
from unacorda.query.plan.relation import (
    MOST_COPIES,
    Derive,
    Explode,
    Group,
    How,
    Lookup,
    Matched,
    PeoplePart,
    PersonRows,
    Relation,
    RowFilter,
    SourceTable,
    Step,
)
from unacorda.query.schema.keys import Key, check_keys
from unacorda.query.schema.sources import Public
from unacorda.query.schema.table import Fact, TableSchema, scope_of
from unacorda.query.schema.units import Person, Row, Unit

_LONGEST = 100_000  # signs of one text
_LONGEST_NUMBER = 5_000
_LARGEST = 2**63
_AS_THEY_ARE = frozenset({types.NoneType, bool, int, str})
_NO = object()  # this type is not what stands there


def encode(value: object) -> Any:
    """The value in what JSON knows; exact numbers are text, dates are distinguished from text.

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
    raise InvalidParameter(at, _shown(plain), expected=" or ".join(map(_named, _arms(hint))))


def _every() -> tuple[type[Aggregate], ...]:
    """All aggregates: those of the modules of their package that have a tag of their own."""
    found = pkgutil.iter_modules(aggregates.__path__, f"{aggregates.__name__}.")
    kinds = {
        kind.tag: kind
        for module in found
        for kind in vars(importlib.import_module(module.name)).values()
        if isinstance(kind, type) and issubclass(kind, Aggregate) and "tag" in vars(kind)
    }
    return tuple(kinds[tag] for tag in sorted(kinds))


EVERY = _every()
"""The classes of what `agg` takes."""


@functools.cache
def _arms(hint: Any) -> tuple[Any, ...]:
    if hint is Aggregate:
        return EVERY
    if get_origin(hint) in {Union, types.UnionType}:
        return get_args(hint)
    return (hint,)


def _read(plain: object, hint: Any, at: str) -> Any:
    """The value if it is of this single type, else _NO."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:  # as it stands
        return plain
    if hint in _WORDS:
        return _read_plain(plain, hint)
    if hint in _GUARANTEES:
        return _read_guarantee(plain, hint)
    if dataclasses.is_dataclass(hint):
        return _read_fields(plain, hint, at)
    if origin is Literal:
        return plain if any(type(plain) is type(one) and plain == one for one in parts) else _NO
    if origin is tuple and isinstance(plain, list):
        hints = (parts[0],) * len(plain) if parts[1:] == (Ellipsis,) else parts
        if len(hints) == len(plain):
            pairs = zip(plain, hints, strict=True)
            return tuple(decode(one, part, at=f"{at}[...]") for one, part in pairs)
    mapped = origin in {collections.abc.Mapping, dict}
    if mapped and isinstance(plain, dict) and all(map(encodable, plain)):
        return {n: decode(one, parts[1], at=f"{at}[{n!r}]") for n, one in plain.items()}
    if origin is not None:
        return _NO
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
        case str() if hint is Fraction and len(plain) <= _LONGEST_NUMBER:
            return _same(plain, lambda: checks.exact("number", plain))
        case {"date": str(text)} if hint is dt.date:
            return _same(plain, lambda: dt.date.fromisoformat(text))
        case _:
            return _NO


def _same(plain: object, read: Callable[[], object]) -> Any:
    """What is read, if it is written just so."""
    with suppress(ValueError):  # InvalidParameter, or more digits than Python reads
        found = read()
        return found if encode(found) == plain else _NO
    return _NO


def _read_guarantee(plain: object, hint: type) -> Any:
    if not isinstance(plain, dict) or plain.get("guarantee") != hint.__name__:
        return _NO
    if any(not isinstance(one, str) or len(one) > _LONGEST_NUMBER for one in plain.values()):
        return _NO
    return _same(plain, lambda: guarantee_from_json(json.dumps(plain)))


def _read_fields(plain: object, hint: Any, at: str) -> Any:
    if not isinstance(plain, dict) or plain.get("kind") != _kind(hint):
        return _NO
    hints = _fields(hint)
    expected = f"the fields kind, {', '.join(hints) or 'nothing else'}"
    checks.demand(set(plain) == {"kind", *hints}, at, _shown(plain), expected=expected)
    return hint(**{name: decode(plain[name], hints[name], at=f"{at}.{name}") for name in hints})


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


def _named(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return "a list"
    if get_origin(hint) is not None:
        return "an object"
    return _WORDS.get(hint) or f"a {hint.__name__}"


_WORDS: Mapping[Any, str] = {
    types.NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "text",
    Fraction: "a fraction as text, such as '1/3', in lowest terms",
    dt.date: '{"date": "YYYY-MM-DD"}',
}


def _shown(plain: object) -> object:
    """What stands there, as far as a message can hold it."""
    if isinstance(plain, dict):
        return {name: plain[name] for name in ("kind", "guarantee") if name in plain} or "{...}"
    return "[...]" if isinstance(plain, list) else plain


_GUARANTEES = frozenset(get_args(Guarantee))


def stated_rows(rows: Relation, names: Iterable[str]) -> dict[str, Any]:
    """Rows in plain values: of each table the columns that these identifiers need."""
    names = frozenset(names)
    wanted = rows.wanted(names)
    return {**_source(rows, names), "steps": [_step(step, wanted) for step in rows.steps]}


def _source(rows: Relation, names: frozenset[str]) -> dict[str, Any]:
    used, source = {leaf.label for leaf in rows.leaves(names)}, rows.source
    if isinstance(source, SourceTable):
        columns = {n: _column(source.scope, n) for n in source.scope.types if n in used}
        return {"table": source.name, "columns": columns}
    found: dict[str, Any] = {"union": sorted(used & set(rows.scope.leaves))}
    if isinstance(source, PersonRows):
        values = {label: encode(one) for label, one in source.asked.items() if label in used}
        found = {"per_person": values}
    elif isinstance(source, Matched):
        joined = {
            "how": source.how,
            "max_rows": list(source.max_rows),
            "on": _compared(source),
            "names": {new: old for new, old in source.names.items() if new in used},
        }
        found = {"join": joined}
    sides = rows.of_sides(names)
    of = [{"id": list(side.scope.ids), **stated_rows(side, needed)} for side, needed in sides]
    return {**found, "of": of}


def _compared(join: Matched | Lookup) -> list[list[str]]:
    return [[pair.left_label, pair.right_label] for pair in join.pairs]


def _step(step: Step, wanted: frozenset[str]) -> dict[str, Any]:
    match step:
        case RowFilter(expression=expression):
            return {"where": expression.text}
        case Derive(label=label, expression=expression):
            return {"derive": label, "as": expression.text}
        case Explode(label=label, expression=expression):
            found = {"explode": expression.text, "into": label}
            return {**found, "separator": step.separator, "most": step.most}
        case PeoplePart(label=label, max_parts=most):
            found = {"part": label, "key": encode(step.key), "keys": encode(step.keys)}
            return {**found, "max_parts": most, "salt": f"{step.salt:032x}"}
        case Lookup():
            used = {leaf.label for leaf in step.readings if leaf.column.name in wanted}
            names = {new: old for new, old in step.names.items() if new in used}
            labels = dict.fromkeys([*names.values(), *(pair.right_label for pair in step.pairs)])
            return {
                "lookup": step.table,
                "columns": {label: _public_column(step.public, label) for label in labels},
                "how": step.how,
                "on": _compared(step),
                "most": step.most,
                "names": names,
            }


def _column(scope: TableSchema, name: str) -> dict[str, Any]:
    fact = scope.facts.get(name)
    declared = {} if fact is None else {"fact": encode(fact)}
    return {"type": scope.types[name], **declared}


def _public_column(public: Public, label: str) -> dict[str, Any]:
    found = _column(public.scope, label)
    read = [leaf.column for leaf in public.leaves(label) if leaf.column.kind.numeric]
    ranges = [[one.lower, one.upper] for one in read if math.isfinite(one.lower)]
    return {**found, "range": ranges[0]} if ranges and "fact" not in found else found


_MOST_STEPS = 1_000
_PAIRS = tuple[tuple[str, str], ...]
_NAMES = Mapping[str, str]
_SALT = re.compile("[0-9a-f]{32}")
_DEEPEST = 20
_SOURCES: tuple[set[str], ...] = (
    {"table", "columns"},
    {"join", "of"},
    {"union", "of"},
    {"per_person", "of"},
)


def rows_of(
    stated: Mapping[str, Any], unit: Unit, *, at: str = "query", depth: int = 0
) -> Relation:
    """The rows that `stated_rows` wrote; unit: as their table names it.

    Raises InvalidParameter and UnsafeExpression for what no session would take.
    """
    one = len({"table", "join", "union", "per_person"} & set(stated)) == 1
    known = one and any(names <= set(stated) for names in _SOURCES)
    expected = "rows of a table, a join or a union, or values of people"
    checks.demand(known and depth <= _DEEPEST, at, sorted(stated), expected=expected)
    if "table" in stated:
        table = decode(stated["table"], str, at=f"{at}.table")
        types, facts, _ = _columns(stated["columns"], f"{at}.columns")
        scope = scope_of(table, types, unit, facts)
        rows = Relation(source=SourceTable(name=table, scope=scope), scope=scope)
    elif "per_person" in stated:
        (side,) = _decode_sides(stated["of"], unit, at=f"{at}.of", depth=depth, count=1)
        values = decode(stated["per_person"], Mapping[str, AnyPersonValue], at=f"{at}.per_person")
        rows = side.per_person(values)
    else:
        left, right = _decode_sides(stated["of"], unit, at=f"{at}.of", depth=depth)
        if "union" in stated:
            rows = united(left, right)
        else:
            how, most, on, names = decoded(
                stated["join"],
                f"{at}.join",
                how=How,
                max_rows=tuple[int, int],
                on=_PAIRS,
                names=_NAMES,
            )
            on = dict(zip(left.scope.ids, right.scope.ids, strict=True)) | dict(on)
            rows = matched(left, right, on=on, how=how, columns=names, max_rows=most)
    return with_steps(rows, stated.get("steps", ()), at=at)


def with_steps(rows: Relation, steps: Any, *, at: str) -> Relation:
    """The rows after further steps, as `stated_rows` wrote them; public tables that they know.

    Raises InvalidParameter and UnsafeExpression for what no session would take.
    """
    listed = isinstance(steps, list | tuple) and len(steps) <= _MOST_STEPS
    checks.demand(listed, f"{at}.steps", "[...]", expected=f"a list of up to {_MOST_STEPS:,}")
    for place, step in enumerate(steps):
        here = f"{at}.steps[{place}]"
        checks.demand(isinstance(step, dict), here, "...", expected="an object")
        rows = _stepped(rows, step, at=here)
    return rows


def _decode_sides(
    stated: Any, unit: Unit, *, at: str, depth: int, count: int = 2
) -> list[Relation]:
    fits = isinstance(stated, list) and len(stated) == count
    checks.demand(fits, at, "...", expected=f"a list of {count}")
    found = []
    for place, side in enumerate(stated):
        here = f"{at}[{place}]"
        whole = isinstance(side, dict) and "id" in side
        checks.demand(whole, here, "...", expected="an object of rows with their id")
        names = decode(side["id"], tuple[str, ...], at=f"{here}.id")
        named: Unit = Row() if isinstance(unit, Row) else Person(names, max_rows=1)
        fits = len(names) == len(unit.id)
        checks.demand(
            fits, f"{here}.id", list(names), expected="the same number as the unit has columns"
        )
        rest = {name: part for name, part in side.items() if name != "id"}
        found.append(rows_of(rest, named, at=here, depth=depth + 1))
    return found


def _stepped(rows: Relation, step: Mapping[str, Any], *, at: str) -> Relation:
    match dict(step):
        case {"where": str(text), **rest} if not rest:
            return rows.where(text)
        case {"derive": str(label), "as": str(text), **rest} if not rest:
            return rows.derive(label, text)
        case {"explode": str(text), **rest}:
            into, separator, most = decoded(rest, at, into=str, separator=str, most=int)
            same = text == identifier(into)
            column, into = into if same else text, None if same and into in rows.scope else into
            return rows.explode(column, separator=separator, most=most, into=into)
        case {"part": str(label), **rest}:
            return _part(rows, label, rest, at)
        case {"lookup": str(table), **rest}:
            return _looked_up(rows, table, rest, at)
        case _:
            raise InvalidParameter(at, sorted(step), expected="where, derive, explode or lookup")


def _part(rows: Relation, label: str, stated: Mapping[str, Any], at: str) -> Relation:
    key, keys, most, salt = decoded(
        stated, at, key=Key, keys=tuple[Key, ...], max_parts=int, salt=str
    )
    checks.demand(_SALT.fullmatch(salt), f"{at}.salt", salt, expected="32 hex digits")
    keys = check_keys(f"{at}.keys", keys)
    fits = isinstance(rows.source, SourceTable) and key in keys
    checks.demand(fits, at, "...", expected="one of its keys, of the rows of a table")
    step = PeoplePart(
        label=label,
        column=rows.scope.column_of_keys(label, keys),
        key=key,
        keys=keys,
        max_parts=checks.positive_integer(max_parts=most),
        salt=int(salt, 16),
    )
    return rows.after(step)


def _looked_up(rows: Relation, table: str, stated: Mapping[str, Any], at: str) -> Relation:
    columns, how, on, most, names = decoded(
        stated, at, columns=Any, how=How, on=_PAIRS, most=int, names=_NAMES
    )
    types, facts, ranges = _columns(columns, f"{at}.columns")
    expected = f"a number from 0 to {MOST_COPIES:,}"
    checks.demand(0 <= most <= MOST_COPIES, f"{at}.most", most, expected=expected)
    if table not in rows.public:  # a record knows none
        public = Public(scope=scope_of(table, types, Row(), facts), ranges=ranges, count=most)
        rows = dataclasses.replace(rows, public={table: public})
    return looked_up(rows, table, on=dict(on), how=how, columns=names)


def _columns(
    stated: Any, at: str
) -> tuple[dict[str, str], dict[str, Fact], dict[str, tuple[float, float]]]:
    """By name the types of columns, and what is said of some."""
    types: dict[str, str] = {}
    facts: dict[str, Fact] = {}
    ranges: dict[str, tuple[float, float]] = {}
    checks.demand(isinstance(stated, dict), at, "...", expected="an object of columns")
    for name, column in stated.items():
        here = f"{at}[{name!r}]"
        fits = isinstance(column, dict) and set(column) - {"fact", "range"} == {"type"}
        checks.demand(fits, here, "...", expected="type, and fact where there is one")
        types[name] = decode(column["type"], str, at=f"{here}.type")
        if "fact" in column:
            facts[name] = decode(column["fact"], Fact, at=f"{here}.fact")
        if "range" in column:
            low, high = decode(column["range"], tuple[float, float], at=f"{here}.range")
            rising = low < high
            checks.demand(rising, f"{here}.range", [low, high], expected="two increasing numbers")
            ranges[name] = low, high
    return types, facts, ranges


def decoded(stated: Any, at: str, **hints: Any) -> list[Any]:
    """The fields of an object that has these and no others, in this order; Any: as they stand."""
    whole = isinstance(stated, dict) and set(stated) == set(hints)
    checks.demand(whole, at, "...", expected=f"an object of {', '.join(sorted(hints))}")
    return [decode(stated[name], hint, at=f"{at}.{name}") for name, hint in hints.items()]


# ---- questions as people and programs write them -------------------------------------------------


def keys_as_json(
    groups: Sequence[Group], keys: Sequence[tuple[Key, ...]], private: PrivateKeys | None
) -> Any:
    """Keys as `group_by` of a question in JSON has them."""
    if private is None:
        return encode([key for (key,) in keys] if len(groups) == 1 else tuple(keys))
    found = {"private_keys": private_as_json(private)}
    public = [group.label for group in groups if not group.private]
    columns = zip(*keys, strict=True) if public else ()
    listed = {
        name: encode(tuple(dict.fromkeys(column)))
        for name, column in zip(public, columns, strict=True)
    }
    if not listed:
        return found
    return {**listed, **{group.label: found for group in groups if group.private}}


def private_as_json(how: PrivateKeys) -> dict[str, Any]:
    """The arguments of `private_keys`."""
    fields = {"weight": how.weight, "delta": how.delta, "max_groups": how.max_groups}
    return {name: encode(one) for name, one in fields.items() if one is not None}


def rows_as_json(rows: Relation) -> dict[str, Any]:
    """Rows as a question in JSON begins: a table, and the steps from there."""
    source = rows.source
    if isinstance(source, SourceTable):
        found: dict[str, Any] = {"table": source.name, "steps": []}
    else:
        found = rows_as_json(rows.sides[0])
        found["steps"].append(_stated_source(rows))
    for step in rows.steps:
        match step:
            case RowFilter():
                found["steps"].append({"where": step.expression.text})
            case Derive():
                found["steps"].append({"derive": {step.label: step.expression.text}})
            case Explode():
                text, into = step.expression.text, step.label
                split = {"explode": into} if text == identifier(into) else {"explode": text}
                into_new = {} if text == identifier(into) else {"into": into}
                found["steps"].append(
                    {**split, "separator": step.separator, "most": step.most, **into_new}
                )
            case Lookup():
                on = {pair.left_label: pair.right_label for pair in step.pairs}
                columns = dict(step.names)
                found["steps"].append(
                    {"join": step.table, "on": on, "how": step.how, "columns": columns}
                )
            case _:  # the part of the people that a session is about: it begins with that
                continue
    return found


def _stated_source(rows: Relation) -> dict[str, Any]:
    source = rows.source
    if isinstance(source, PersonRows):
        return {
            "per_person": {label: function_as_json(value) for label, value in source.asked.items()}
        }
    beside = rows_as_json(rows.sides[1])
    if not isinstance(source, Matched):
        return {"union": beside}
    ids = zip(source.left.scope.ids, source.right.scope.ids, strict=True)
    return {
        "join": beside,
        "on": dict(ids) | {pair.left_label: pair.right_label for pair in source.pairs},
        "how": source.how,
        "columns": dict(source.names),
        "max_rows": list(source.max_rows),
    }


def function_as_json(value: Any) -> dict[str, Any]:
    """The function that makes an aggregate, or a value of a person, with its arguments."""
    expected = "a question of the public functions, which JSON has names for"
    if isinstance(value, Aggregate):
        checks.demand(bool(value.functions), "query", type(value).tag, expected=expected)
        name, arguments = value.function, value.arguments()
        if value.weight != 1:
            arguments["weight"] = value.weight
    else:
        public = isinstance(value, PersonValue)
        checks.demand(public, "query", type(value).__name__, expected=expected)
        name, arguments = value.called, value.arguments()
    return {name: {key: encode(one) for key, one in arguments.items() if one is not None}}
