"""The one way to an engine: questions that were begun in a session, and no others.

An engine runs `Admitted` alone, which `Admission.admit` alone makes. What is charged for a question
is right for the tables, the unit, the neighboring relation and the part of the people that it was
begun with, and for no others: where any of them is another session's, it is refused, before
anything is reserved. So is a question one side of which comes from elsewhere.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Final, TypeVar, final

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.compile import Found, Statement, compile_chosen, compile_found, compile_query
from unacorda.query.plan.public_tables import Public
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import Lookup, Part, Rows, Table
from unacorda.query.schema.units import Unit

if TYPE_CHECKING:
    from unacorda.query.engines.protocol import Engine

__all__ = ["Admission", "Admitted", "sql_of"]

_SQL = TypeVar("_SQL", Statement, Found)
_KEY: Final = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admitted:
    """A question of a session, and its SQL for the session's engine. Only `admit` makes one."""

    query: Query
    engine: Engine
    sql: Statement | Found
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
    starts: Mapping[str, Rows]
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

    def _owns(self, rows: Rows) -> bool:
        """Whether all tables are these, each after the steps that it begins with, and no part."""
        steps = rows.steps
        if isinstance(rows.source, Table):
            start = self.starts.get(rows.source.name)
            # A scope is made once, when a session is opened: no other session has the same.
            if start is None or rows.source.scope is not start.scope:
                return False
            if steps[: len(start.steps)] != start.steps:
                return False
            steps = steps[len(start.steps) :]
        return all(map(self._owns, rows.sides)) and not any(
            isinstance(step, Part)
            or (isinstance(step, Lookup) and step.public is not self._public.get(step.table))
            for step in steps
        )

    @property
    def _public(self) -> Mapping[str, Public]:
        return next(iter(self.starts.values())).public
