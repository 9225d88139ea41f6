"""The rows of a question put together again from plain values, without data: see `stated_rows`."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.codec import decode
from unacorda.query.groups import public_column
from unacorda.query.joins import looked_up, matched, united
from unacorda.query.public import ranged
from unacorda.query.rows import MOST_COPIES, How, Part, Rows, Table
from unacorda.query.schema.facts import Fact, Key, check_keys
from unacorda.query.schema.table import Leaf, Scope, scope_of
from unacorda.query.schema.units import Person, Row, Unit

__all__ = ["rows_of"]

_MOST_STEPS = 1_000
_SALT = re.compile("[0-9a-f]{32}")
_DEEPEST = 20
_SOURCES: tuple[set[str], ...] = ({"table", "columns"}, {"join", "of"}, {"union", "of"})


def rows_of(stated: Mapping[str, Any], unit: Unit, *, at: str = "query", depth: int = 0) -> Rows:
    """The rows that `stated_rows` wrote; unit: as their table names it.

    Raises InvalidParameter and UnsafeExpression for what no session would take.
    """
    if depth > _DEEPEST or not any(names <= set(stated) for names in _SOURCES):
        raise InvalidParameter(at, sorted(stated), expected="rows of a table, a join or a union")
    if "table" in stated:
        table = decode(stated["table"], str, at=f"{at}.table")
        types, facts, _ = _columns(stated["columns"], f"{at}.columns")
        scope = scope_of(table, types, unit, facts)
        rows = Rows(source=Table(name=table, scope=scope), scope=scope)
    else:
        left, right = _sides(stated["of"], unit, at=f"{at}.of", depth=depth)
        rows = (
            united(left, right) if "union" in stated else _matched(stated["join"], left, right, at)
        )
    steps = stated.get("steps")
    if not isinstance(steps, list) or len(steps) > _MOST_STEPS:
        raise InvalidParameter(f"{at}.steps", "[...]", expected=f"a list of up to {_MOST_STEPS:,}")
    for place, step in enumerate(steps):
        here = f"{at}.steps[{place}]"
        if not isinstance(step, dict):
            raise InvalidParameter(here, "...", expected="an object")
        rows = _stepped(rows, step, at=here)
    return rows


def _sides(stated: Any, unit: Unit, *, at: str, depth: int) -> tuple[Rows, Rows]:
    if not isinstance(stated, list) or len(stated) != 2:
        raise InvalidParameter(at, "...", expected="a list of two")
    found = []
    for place, side in enumerate(stated):
        here = f"{at}[{place}]"
        if not isinstance(side, dict) or "id" not in side:
            raise InvalidParameter(here, "...", expected="an object of rows with their id")
        names = decode(side["id"], tuple[str, ...], at=f"{here}.id")
        named: Unit = Row() if isinstance(unit, Row) else Person(names, max_rows=1)
        if len(names) != len(unit.id if isinstance(unit, Person) else ()):
            raise InvalidParameter(f"{here}.id", list(names), expected="as many as the unit's")
        rest = {name: part for name, part in side.items() if name != "id"}
        found.append(rows_of(rest, named, at=here, depth=depth + 1))
    return found[0], found[1]


def _matched(stated: Any, left: Rows, right: Rows, at: str) -> Rows:
    at = f"{at}.join"
    _fields(stated, {"how", "max_rows", "on", "names"}, at)
    one, two = decode(stated["max_rows"], tuple[int, int], at=f"{at}.max_rows")
    people = dict(zip(left.scope.ids, right.scope.ids, strict=True))
    on = dict(decode(stated["on"], tuple[tuple[str, str], ...], at=f"{at}.on"))
    return matched(
        left,
        right,
        on=people | on,
        how=decode(stated["how"], How, at=f"{at}.how"),
        columns=decode(stated["names"], Mapping[str, str], at=f"{at}.names"),
        max_rows=(one, two),
    )


def _stepped(rows: Rows, step: Mapping[str, Any], *, at: str) -> Rows:
    match dict(step):
        case {"where": str(text), **rest} if not rest:
            return rows.where(text)
        case {"derive": str(label), "as": str(text), **rest} if not rest:
            return rows.derive(label, text)
        case {"explode": str(text), **rest}:
            _fields(rest, {"into", "separator", "most"}, at)
            into = decode(rest["into"], str, at=f"{at}.into")
            same = text == _quoted(into)
            return rows.explode(
                into if same else text,
                separator=decode(rest["separator"], str, at=f"{at}.separator"),
                most=decode(rest["most"], int, at=f"{at}.most"),
                into=None if same and into in rows.scope else into,
            )
        case {"part": str(label), **rest}:
            return _part(rows, label, rest, at)
        case {"lookup": str(table), **rest}:
            return _looked_up(rows, table, rest, at)
        case _:
            pass
    raise InvalidParameter(at, sorted(step), expected="where, derive, explode or lookup")


def _part(rows: Rows, label: str, stated: Mapping[str, Any], at: str) -> Rows:
    _fields(stated, {"key", "keys", "max_parts", "salt"}, at)
    salt = decode(stated["salt"], str, at=f"{at}.salt")
    if not _SALT.fullmatch(salt):
        raise InvalidParameter(f"{at}.salt", salt, expected="32 hex digits")
    key = decode(stated["key"], Key, at=f"{at}.key")
    keys = check_keys(f"{at}.keys", decode(stated["keys"], tuple[Key, ...], at=f"{at}.keys"))
    if not isinstance(rows.source, Table) or key not in keys:
        raise InvalidParameter(at, "...", expected="one of its keys, of the rows of a table")
    step = Part(
        label=label,
        column=public_column(rows.scope, label, keys),
        key=key,
        keys=keys,
        max_parts=int(checks.positive_integer(max_parts=stated["max_parts"])),
        salt=int(salt, 16),
    )
    return dataclasses.replace(rows, steps=(*rows.steps, step))


def _looked_up(rows: Rows, table: str, stated: Mapping[str, Any], at: str) -> Rows:
    _fields(stated, {"columns", "how", "on", "most", "names"}, at)
    types, facts, ranges = _columns(stated["columns"], f"{at}.columns")
    most = decode(stated["most"], int, at=f"{at}.most")
    if not 0 <= most <= MOST_COPIES:
        raise InvalidParameter(f"{at}.most", most, expected=f"a number from 0 to {MOST_COPIES:,}")
    public = _Stated(scope=scope_of(table, types, Row(), facts), ranges=ranges, count=most)
    known = dataclasses.replace(rows, public={table: public})
    return looked_up(
        known,
        table,
        on=dict(decode(stated["on"], tuple[tuple[str, str], ...], at=f"{at}.on")),
        how=decode(stated["how"], How, at=f"{at}.how"),
        columns=decode(stated["names"], Mapping[str, str], at=f"{at}.names"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """A public table of which only so much is known as a file states."""

    scope: Scope
    ranges: Mapping[str, tuple[float, float]]
    count: int

    def leaves(self, label: str) -> tuple[Leaf, ...]:
        """The readings of a column, numbers with the range that is stated."""
        leaves = self.scope.leaves[label]
        if label not in self.ranges:
            return leaves
        low, high = self.ranges[label]
        return tuple(
            ranged(leaf, low, high) if leaf.column.kind.numeric else leaf for leaf in leaves
        )

    def fact(self, label: str) -> Fact | None:
        """What is stated of a column."""
        return self.scope.facts.get(label)

    def most(self, keys: Sequence[str]) -> int:
        """The number that is stated."""
        del keys
        return self.count


def _columns(
    stated: Any, at: str
) -> tuple[dict[str, str], dict[str, Fact], dict[str, tuple[float, float]]]:
    """By name the types of columns, and what is said of some."""
    types: dict[str, str] = {}
    facts: dict[str, Fact] = {}
    ranges: dict[str, tuple[float, float]] = {}
    if not isinstance(stated, dict):
        raise InvalidParameter(at, "...", expected="an object of columns")
    for name, column in stated.items():
        here = f"{at}[{name!r}]"
        if not isinstance(column, dict) or set(column) - {"fact", "range"} != {"type"}:
            raise InvalidParameter(here, "...", expected="type, and fact where there is one")
        types[name] = decode(column["type"], str, at=f"{here}.type")
        if "fact" in column:
            facts[name] = decode(column["fact"], Fact, at=f"{here}.fact")
        if "range" in column:
            low, high = decode(column["range"], tuple[float, float], at=f"{here}.range")
            if not low < high:
                raise InvalidParameter(f"{here}.range", [low, high], expected="two rising numbers")
            ranges[name] = low, high
    return types, facts, ranges


def _fields(stated: Any, names: set[str], at: str) -> None:
    if not isinstance(stated, dict) or set(stated) != names:
        raise InvalidParameter(at, "...", expected=f"an object of {', '.join(sorted(names))}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
