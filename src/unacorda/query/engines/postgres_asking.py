"""One question in PostgreSQL: one transaction that reads one state of the tables, and writes none.

What a question names is told again, as a WITH, in every statement that needs it: nothing is kept on
the server, also no temporary table, so that a standby can answer, and a user who may only read.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from unacorda.query.dialects.postgres import quoted, translate
from unacorda.query.dialects.statements import Table
from unacorda.query.engines.postgres_sources import OpenedTable, opened
from unacorda.query.engines.reading import guarded

__all__ = ["Asking", "Connect", "connected", "reading"]

T = TypeVar("T")

Connect = Callable[[], Any]
"""Makes a connection of psycopg that commits by itself, in which nothing has been asked."""

_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",  # no function of a user is taken for one of PostgreSQL
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "row_security": "off",  # an error, rather than some of the rows
    "client_min_messages": "error",
}


@contextlib.contextmanager
def connected(connect: Connect) -> Iterator[Any]:
    """A connection that is closed at the end."""
    with contextlib.closing(connect()) as connection:
        yield connection


def reading(connection: Any) -> Callable[[str, Sequence[object]], list[tuple[Any, ...]]]:
    """Begin to read one state of the tables; gives what asks for it."""
    cursor = _cursor(connection)
    cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    for name, value in _SETTINGS.items():
        cursor.execute(f"SET LOCAL {name} = '{value}'" if name != "search_path"
                       else f"SET LOCAL search_path = {value}")  # fmt: skip

    def ask(sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = cursor.execute(sql, parameters).fetchall()
        return found

    return ask


def _cursor(connection: Any) -> Any:
    """Its lines are tuples, whatever the caller's own connections give."""
    from psycopg import RawCursor
    from psycopg.rows import tuple_row

    return RawCursor(connection, row_factory=tuple_row)


class Asking:
    """The relations of one question. tables: those of the session, which are checked again."""

    def __init__(self, connect: Connect, tables: Sequence[OpenedTable]) -> None:
        self._stack = contextlib.ExitStack()
        self._tables = {one.table.view: one.table for one in tables}
        self._named: list[str] = []
        self._values: list[object] = []
        done = False
        try:
            connection = self._stack.enter_context(connected(connect))
            ask = reading(connection)
            self._cursor = _cursor(connection)
            # Nobody can put another relation in their place, from here on.
            for one in tables:
                self._cursor.execute(
                    f"SELECT 1 FROM {one.named.sql} LIMIT 0"
                    if one.materialised
                    else f"LOCK TABLE {one.named.sql} IN ACCESS SHARE MODE"
                )
            for one in tables:
                if opened(one.named, ask, view=one.table.view) != one:
                    raise LookupError(one.named.name)
            done = True
        finally:
            if not done:
                self._stack.close()

    def guarded(self, work: Callable[[], T]) -> T:
        """What the work gives; whatever it raises leaves as EngineFailed."""
        return guarded(work)

    def name(
        self, name: str, sql: str, *, lists: Sequence[Sequence[object]] = (), keep: bool = False
    ) -> None:
        """Give what a statement selects a name for others; keep: it is read several times."""
        del keep
        translated = translate(sql, tables=self._tables, before=len(self._values))
        view = f"{name} {len(self._named)}"
        self._named.append(f"{quoted(view)} AS MATERIALIZED ({translated.sql})")
        self._values += [list(values) for values in lists]
        self._tables[name] = Table(view=view, columns=translated.columns)

    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> dict[str, list[Any]]:
        """What a statement selects, as lists by column."""
        translated = translate(sql, tables=self._tables, before=len(self._values))
        rows = self._fetched(translated.sql, lists)
        columns = zip(*rows, strict=True) if rows else ((),) * len(translated.columns)
        return dict(zip(translated.columns, map(list, columns), strict=True))

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        """The lines of a SELECT that reads public tables alone."""
        return self._fetched(translate(sql, tables=self._tables, public=True).sql, ())

    def columns(self, name: str) -> Mapping[str, str]:
        """The columns of a named relation, with their types."""
        return self._tables[name].columns

    def forget(self, name: str) -> None:
        """Name a relation no longer."""
        view = self._tables.pop(name).view
        self._named = [one for one in self._named if not one.startswith(f"{quoted(view)} AS ")]

    def close(self) -> None:
        """End the transaction; a second call does nothing."""
        self._stack.close()

    def _fetched(self, sql: str, lists: Sequence[Sequence[object]]) -> list[tuple[Any, ...]]:
        with_ = f"WITH {', '.join(self._named)} " if self._named else ""
        inner = f"SELECT * FROM ({sql}) AS asked" if with_ else sql
        values = [*self._values, *(list(values) for values in lists)]
        found: list[tuple[Any, ...]] = self._cursor.execute(with_ + inner, values).fetchall()
        return found
