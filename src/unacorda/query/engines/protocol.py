"""What an engine runs, which questions are let in, and what leaves it.

An engine runs `Admitted` alone, which `Admission.admit` alone makes. What is charged for a question
is right for the tables, the unit, the neighboring relation and the part of the people that it was
begun with, and for no others: where any of them is another session's, it is refused, before
anything is reserved. So is a question one side of which comes from elsewhere.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, Final, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.grid_counts import Lines
from unacorda.query.engines.compile import (
    KeyCountSql,
    Statement,
    compile_chosen,
    compile_found,
    compile_query,
)
from unacorda.query.plan.public_tables import Public, PublicSelect
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import Lookup, PeoplePart, Relation, SourceTable
from unacorda.query.schema.facts import Key
from unacorda.query.schema.units import Unit

__all__ = [
    "Admission",
    "Admitted",
    "Climbed",
    "Engine",
    "Held",
    "Keyed",
    "Tallies",
    "sql_of",
]

Climbed = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[int]]
"""Of one ladder: cells, rungs passed, people, and the sums of their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tallies:
    """The exact answer of the engine. Private: nothing prints it.

    cells: the numbers of the cells that have rows. sums: for each measure its integers, as the
    engine wrote them, aligned with `cells`. ladders: for each ladder the arrays (cell, bin,
    people) and the sums. rankings: for each ranking the arrays (cell, place, rows).
    """

    cells: NDArray[np.int64]
    sums: tuple[list[int], ...]
    ladders: tuple[Climbed, ...] = ()
    rankings: tuple[Lines, ...] = ()

    def __repr__(self) -> str:
        return "Tallies(...)"


class Keyed(Protocol):
    """The bounded rows of a question with private keys, which are not chosen yet. Private."""

    @property
    def people(self) -> NDArray[np.int64]:
        """How many people have each key that anyone has, by place."""
        ...

    def keys(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        """The keys at rising places: what has been chosen, and nothing else, is read."""
        ...

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of the question for its chosen keys, from the same rows."""
        ...

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        ...


class Held(Protocol):
    """The bounded rows of a fit, `bounded`, which scan after scan reads. Private.

    Whatever fails leaves as EngineFailed, of constant text.
    """

    def keep(self, name: str, sql: str) -> None:
        """Compute what is selected of rows that are there, and hold it under a name."""
        ...

    def forget(self, name: str) -> None:
        """Hold these rows no longer."""
        ...

    def run(self, counts: str, *, measures: int) -> Tallies:
        """The exact integers of one scan."""
        ...

    def close(self) -> None:
        """Forget all rows; a second call does nothing."""
        ...


class Engine(Protocol):
    """Tables behind SQL. Safe to use from several threads."""

    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        """For each table, the engine's type of each column: public."""
        ...

    @property
    def narrow(self) -> bool:
        """Whether wide rows are ordered sooner by few columns, and joined: see `bounding`."""
        ...

    @property
    def identity(self) -> Sequence[str]:
        """The software, and what tells its files from others without reading them: public.

        Of a frame, or a table of a catalogue, there is nothing to tell.
        """
        ...

    @property
    def once(self) -> bool:
        """Whether what WITH names as MATERIALIZED is computed a single time."""
        ...

    def scan(self, table: str) -> str:
        """SQL of the relation that holds a table."""
        ...

    def look(self, asked: PublicSelect) -> Sequence[tuple[Any, ...]]:
        """The lines of a SELECT over a public table; EngineFailed, and TypeError, as `run`."""
        ...

    def check_open(self) -> None:
        """Raise EngineFailed, of a question that was not asked, if it is closed. Reads no data."""
        ...

    def check_sources(self) -> None:
        """Raise SourceChanged if a file is not the one that was opened. Reads no data."""
        ...

    def check(self, query: Query, first: Statement | KeyCountSql) -> None:
        """Raise UnsupportedConstruct for a question that this engine cannot answer alike."""
        ...

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of a question; EngineFailed, of constant text, if anything fails.

        Raises TypeError for what no session of this engine admitted, as `find` and `hold` do.
        """
        ...

    def find(self, asked: Admitted) -> Keyed:
        """Bounded rows and the people behind each private key; EngineFailed, as `run`.

        The caller closes it.
        """
        ...

    @property
    def room(self) -> float:
        """How many numbers of rows it may hold between scans, beside as many; 0 where none."""
        ...

    def hold(self, asked: Admitted, *, keep: bool) -> Held:
        """The bounded rows of a question for several scans; EngineFailed, as `run`.

        The caller closes them. keep: whether they are computed once, where the engine can, or
        else in every scan.
        """
        ...

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        ...


Source = Any
"""What may stand for a table in a session: see `unacorda.query.schema.sources`."""


_SQL = TypeVar("_SQL", Statement, KeyCountSql)
_KEY: Final = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admitted:
    """A question of a session, and its SQL for the session's engine. Only `admit` makes one."""

    query: Query
    engine: Engine
    sql: Statement | KeyCountSql
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _KEY:
            raise TypeError("what an engine runs is made by Admission.admit alone")

    def chosen(self, *, places: Sequence[int], parts: Sequence[int]) -> Admitted:
        """The same question, whose private keys have been found; as `compile_chosen`."""
        query = self.query
        sql = compile_chosen(query, unit=query.limited, places=places, parts=parts)
        return Admitted(query=query, engine=self.engine, sql=sql, key=_KEY)


def sql_of(asked: object, engine: object, kind: type[_SQL]) -> _SQL:
    """The SQL that an engine may run.

    Raises TypeError for all that was not admitted to a session of this engine.
    """
    if isinstance(asked, Admitted) and asked.engine is engine and isinstance(asked.sql, kind):
        return asked.sql
    raise TypeError("an engine runs the questions that a session of its own admits, alone")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admission:
    """What a session lets in: questions about its tables, for its unit, on its engine.

    starts: by table the rows that questions begin with, those of its part where it is one.
    """

    engine: Engine
    starts: Mapping[str, Relation]
    unit: Unit

    def begin(self, name: str) -> Query:
        """A question about one table; InvalidParameter where there is none of that name."""
        if not checks.is_text(name) or name not in self.starts:
            known = ", ".join(self.starts)
            raise InvalidParameter("table", name, expected=f"one of the session's tables: {known}")
        return Query(rows=self.starts[name], unit=self.unit.in_table(name))

    def begun(self, table: object) -> Query:
        """A question about a table of this name, or one that was begun here already."""
        if not isinstance(table, Query):
            return self.begin(table)  # type: ignore[arg-type]  # which it refuses
        return self.check(table, argument="table")

    def check(self, query: Query, *, argument: str = "query") -> Query:
        """The question, if it was begun here, all sides of it; InvalidParameter otherwise."""
        first = query.rows.tables[0].name
        if not self._owns(query.rows) or query.unit != self.unit.in_table(first):
            raise InvalidParameter(
                argument, query.table, expected="a question begun with this session's table(...)"
            )
        return query

    def asked(self, query: object) -> Query:
        """A question that was begun here, and ended with `agg`; InvalidParameter otherwise."""
        if not isinstance(query, Query) or not query.aggregates:
            raise InvalidParameter(
                "query", query, expected="session.table(...)....agg(n=unacorda.count(), ...)"
            )
        return self.check(query)

    def admit(self, query: Query, *, salt: int) -> Admitted:
        """What the engine may run for a question that was asked here; raises as `asked`.

        salt: of 128 bits, drawn for this question.
        """
        query = self.asked(query)
        compiled = compile_query if query.private is None else compile_found
        sql = compiled(
            query,
            unit=query.limited,
            scan=self.engine.scan,
            salt=salt,
            narrow=self.engine.narrow,
            once=self.engine.once,
        )
        return Admitted(query=query, engine=self.engine, sql=sql, key=_KEY)

    def _owns(self, rows: Relation) -> bool:
        """Whether all tables are these, each after the steps that it begins with, and no part."""
        steps = rows.steps
        if isinstance(rows.source, SourceTable):
            start = self.starts.get(rows.source.name)
            # A scope is made once, when a session is opened: no other session has the same.
            if start is None or rows.source.scope is not start.scope:
                return False
            if steps[: len(start.steps)] != start.steps:
                return False
            steps = steps[len(start.steps) :]
        return all(map(self._owns, rows.sides)) and not any(
            isinstance(step, PeoplePart)
            or (isinstance(step, Lookup) and step.public is not self._public.get(step.table))
            for step in steps
        )

    @property
    def _public(self) -> Mapping[str, Public]:
        return next(iter(self.starts.values())).public
