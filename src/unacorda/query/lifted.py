"""A question as it would be asked of public tables, and what is left of it without its limits.

The limits are those on a person's rows, in all and on either side of a join, the parts of a text
that are taken, the parts of the people that one may be in, and the bounds of numbers.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.aggregates.pairs import OfTwo
from unacorda.query.aggregates.tops import Top
from unacorda.query.engines.compile import compile_query
from unacorda.query.engines.public import PublicTables
from unacorda.query.plan.codec import decode
from unacorda.query.plan.partition import people_of
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import (
    MOST_PARTS,
    Explode,
    Matched,
    Part,
    Rows,
    Step,
    Table,
    United,
)
from unacorda.query.replay import question_of
from unacorda.query.schema.facts import Bounds, Fact
from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.table import plain_type
from unacorda.query.schema.units import Person, Unit

__all__ = ["Held", "asked_of", "lifted", "unclamped"]

_ALL_ROWS = 1_000_000  # of a person: no limit may be more


class Held:
    """The rows of a question on public tables. unit: by default one that bounds nobody."""

    def __init__(self, query: Query, tables: PublicTables, *, unit: Unit | None = None) -> None:
        self.query, self.tables = query, tables
        own = query.unit
        self.ids = len(own.id) if isinstance(own, Person) else 0
        if unit is None and isinstance(own, Person):
            own = _unbound_person(own, _ALL_ROWS)
        self.statement = compile_query(query, unit=unit or own, scan=tables.scan, salt=0)

    def read(self, select: str) -> list[tuple[Any, ...]]:
        """A SELECT over `held`."""
        return self.tables.rows(select, keys=self.statement.keys, held=self.statement.bounded)

    def count(self) -> int:
        """How many rows there are."""
        ((found,),) = self.read("SELECT count(*) FROM held")
        return int(found)

    def per_person(self) -> list[int]:
        """How many rows each person has."""
        names = ", ".join(f"u{place}" for place in range(self.ids))
        return [n for (n,) in self.read(f"SELECT count(*) FROM held GROUP BY {names}")]

    def ends(self, sql: str) -> tuple[float, float] | None:
        """The least and the greatest finite value of an aggregated expression."""
        value = f"v{self.query.inputs.index(sql)}::DOUBLE"
        ((low, high),) = self.read(f"SELECT min(x), max(x) FROM {_finite(value)}")
        return None if low is None else (low, high)


def asked_of(query: Query, tables: PublicTables) -> Query:
    """The same question about tables with the same columns, whatever types they have.

    Raises InvalidParameter where a table lacks a column, or it is of a type that does not fit.
    """
    stated = query.to_dict()
    for table, columns in _columns_of(stated):
        types = tables.types(table)
        lacking = [name for name in columns if name not in types]
        if lacking:
            raise InvalidParameter(
                "assuming",
                f"a table {table!r} with the columns {', '.join(types)}",
                expected=f"one with the columns of the question; it lacks {', '.join(lacking)}",
            )
        for name, column in columns.items():
            column["type"] = plain_type(types[name])
    return _made(stated)


def lifted(query: Query, tables: PublicTables) -> tuple[Query, Unit]:
    """The question with limits and bounds that cut nothing, and the unit with such limits."""
    wide = _made(_undeclared(query, tables), unbound=True)
    held = Held(wide, tables)
    unit: Unit = query.unit
    if isinstance(unit, Person):
        most = max(held.per_person(), default=1)
        unit = _unbound_person(unit, min(most, _ALL_ROWS))
    aggregates = {name: _widened(wide, name, held) for name in query.asked}
    free = dataclasses.replace(wide, unit=unit, aggregates={}, asked={})
    return free.agg(**aggregates), unit


def unclamped(query: Query, tables: PublicTables) -> Query:
    """The question with its limits, whose expressions see values before declared bounds cut them.

    The bounds of its aggregates stay.
    """
    return _made(_undeclared(query, tables))


def _undeclared(query: Query, tables: PublicTables) -> dict[str, Any]:
    """The question in plain values, with declared bounds so wide that they cut nothing."""
    stated = query.to_dict()
    declared: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for table, columns in _columns_of(stated):
        for name, column in columns.items():
            fact = column.get("fact")
            if isinstance(decode(fact, Fact | None, at="fact"), Bounds):
                declared.setdefault(name, []).append((column["fact"], tables.scan(table)))
    for name, found in declared.items():
        # Tables that are put together have one range: so are the bounds declared.
        value = f"TRY_CAST({identifier(name)} AS DOUBLE)"
        every = " UNION ALL ".join(f"SELECT x FROM {_finite(value, scan)}" for _, scan in found)
        ((low, high),) = tables.rows(f"SELECT min(x), max(x) FROM ({every})")
        for fact, _ in found if low is not None else ():
            fact |= {"lower": min(low, fact["lower"]), "upper": max(high, fact["upper"])}
    return stated


def _columns_of(stated: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each table of a question in plain values, with its columns."""
    if "table" in stated:
        yield stated["table"], stated["columns"]
    for side in stated.get("of", ()):
        yield from _columns_of(side)
    for step in stated["steps"]:
        if "lookup" in step:
            yield step["lookup"], step["columns"]


def _made(stated: Mapping[str, Any], *, unbound: bool = False) -> Query:
    """The question that is stated; parts hold the people of all its tables.

    unbound: without limits before those of the unit.
    """
    query = question_of(stated)
    rows = _unbound(query.rows) if unbound else query.rows
    bases: dict[str, Rows] = {}
    for base in rows.bases:
        assert isinstance(base.source, Table)
        bases.setdefault(base.source.name, _begun(base))
    return dataclasses.replace(query, rows=_peopled(rows, list(bases.values())))


def _peopled(rows: Rows, bases: list[Rows]) -> Rows:
    """The same rows, of which every part knows the people of these tables."""
    if isinstance(rows.source, Matched | United):
        left, right = (_peopled(side, bases) for side in rows.sides)
        return dataclasses.replace(rows, source=_over(rows.source, left, right))
    if not any(isinstance(step, Part) for step in rows.steps):
        return rows
    steps: list[Step] = []
    for place, step in enumerate(rows.steps):
        if isinstance(step, Part):
            members = []
            for base in bases:
                if len(base.steps) > place and isinstance(same := base.steps[place], Part):
                    before = dataclasses.replace(base, steps=base.steps[:place])
                    members.append((_peopled(before, bases), same.column))
            types = people_of([member for member, _ in members])
            steps.append(dataclasses.replace(step, members=tuple(members), types=types))
        else:
            steps.append(step)
    return dataclasses.replace(rows, steps=tuple(steps))


def _begun(base: Rows) -> Rows:
    """The rows of a table with the parts that they begin with."""
    assert isinstance(base.source, Table)
    parts = tuple(itertools.takewhile(lambda step: isinstance(step, Part), base.steps))
    return Rows(source=base.source, scope=base.source.scope, steps=parts)


def _unbound(rows: Rows) -> Rows:
    """The same rows, none of which is left out or cut."""
    source = rows.source
    if isinstance(source, Matched | United):
        source = _over(source, *(_unbound(side) for side in rows.sides))
    if isinstance(source, Matched):
        source = dataclasses.replace(source, max_rows=(_ALL_ROWS, _ALL_ROWS))
    steps: list[Step] = []
    for step in rows.steps:
        match step:
            case Explode():
                steps.append(dataclasses.replace(step, most=MOST_PARTS))
            case Part(keys=keys):
                steps.append(dataclasses.replace(step, max_parts=len(keys)))
            case _:
                steps.append(step)
    return dataclasses.replace(rows, source=source, steps=tuple(steps))


def _over(source: Matched | United, left: Rows, right: Rows) -> Matched | United:
    return dataclasses.replace(source, left=left, right=right)


def _widened(query: Query, name: str, held: Held) -> Aggregate:
    """An aggregate as it was asked, with bounds that cut nothing, of all values there are."""
    asked, bound = query.asked[name], query.aggregates[name]
    if isinstance(asked, Top) and isinstance(bound, Top):
        return dataclasses.replace(asked, size=bound.integers)
    ends = [held.ends(x.sql) if x.kind.numeric else None for x in bound.expressions]
    if isinstance(asked, OfTwo):
        sides = zip(asked.sides, bound.sides if isinstance(bound, OfTwo) else (), ends, strict=True)
        return dataclasses.replace(
            asked, sides=tuple(_wider(side, known, end) for side, known, end in sides)
        )
    if ends and hasattr(asked, "lower") and hasattr(asked, "upper"):
        asked = _wider(asked, bound, ends[0])
    return asked


def _wider(asked: Any, bound: Any, ends: tuple[float, float] | None) -> Any:
    """The same with a range that holds its own and these ends."""
    if ends is None:
        return asked
    low, high = map(Fraction, ends)
    lower, upper = getattr(bound, "lower", None), getattr(bound, "upper", None)
    if lower is not None and upper is not None:
        low, high = min(low, lower), max(high, upper)
    return dataclasses.replace(asked, lower=low, upper=high if low < high else low + 1)


def _unbound_person(unit: Person, rows: int) -> Person:
    """The same people, with so many rows and no other limit; parts are drawn as they were."""
    return Person(unit.id, max_rows=rows, neighbors=unit.neighbors, hash=unit.hash)


def _finite(value: str, scan: str = "held") -> str:
    return f"(SELECT {value} AS x FROM {scan} WHERE isfinite({value}))"
