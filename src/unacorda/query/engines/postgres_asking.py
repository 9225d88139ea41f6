"""One question in PostgreSQL: one transaction that reads one state of the tables, and writes none.

What a question names is told again, as a WITH, in every statement that needs it: nothing is kept on
the server, also no temporary table, so that a standby can answer, and a user who may only read.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from unacorda.postgres import READING, beginning, pinned
from unacorda.query.engines.dialects.postgres import quoted, translate
from unacorda.query.engines.dialects.statements import Table
from unacorda.query.engines.postgres_sources import PARTS, OpenedTable, opened
from unacorda.query.engines.reading import guarded
from unacorda.query.engines.timeouts import interrupted_after

__all__ = ["Asking", "Connect", "connected", "reading"]

T = TypeVar("T")

Connect = Callable[[], Any]
"""Makes a connection of psycopg that commits by itself, in which nothing has been asked."""

_MODE = "ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE"
_ATTEMPTS = 5


@contextlib.contextmanager
def connected(connect: Connect) -> Iterator[Any]:
    """A connection that is closed at the end."""
    with contextlib.closing(connect()) as connection:
        yield connection


def reading(connection: Any) -> Callable[[str, Sequence[object]], list[tuple[Any, ...]]]:
    """Begin to read one state of the tables; gives what asks for it."""
    cursor = _cursor(connection)
    cursor.execute(beginning(_MODE, pinned(connection.info.server_version, *READING)))

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
    """The relations of one question. tables: those of the session, which are checked again.

    timeout: after how many seconds a call is interrupted.
    """

    def __init__(
        self, connect: Connect, tables: Sequence[OpenedTable], *, timeout: float | None = None
    ) -> None:
        self._timeout = timeout
        self._stack = contextlib.ExitStack()
        self._tables = {one.table.view: one.table for one in tables}
        self._named: list[str] = []
        self._values: list[object] = []
        self._partitioned = [one for one in tables if one.kind == "p"]
        done = False
        try:
            for _ in range(_ATTEMPTS):
                self._connection = connection = self._stack.enter_context(connected(connect))
                self._ask = reading(connection)
                self._cursor = _cursor(connection)
                self._lock(tables)
                if self._check(tables):
                    break
                self._stack.pop_all().close()
            else:
                raise LookupError("a table that is rewritten all the time")
            done = True
        finally:
            if not done:
                self._stack.close()

    def _lock(self, tables: Sequence[OpenedTable]) -> None:
        """Keep others from putting another relation in the place of a table, until the end.

        LOCK takes no snapshot, so that rows are seen as they stand once all is locked; reading a
        materialised view, which cannot be locked, takes one.
        """
        for views in (False, True):
            names = [one.named.sql for one in tables if (one.kind == "m") is views]
            if names and not views:
                self._cursor.execute(f"LOCK TABLE {', '.join(names)} IN ACCESS SHARE MODE")
            elif names:
                self._cursor.execute("; ".join(f"SELECT FROM {name} LIMIT 0" for name in names))

    def _check(self, tables: Sequence[OpenedTable]) -> bool:
        """Whether rows can be read; LookupError where a table is no longer what was opened."""
        found = opened([one.named for one in tables], self._ask)
        for now, before in zip(found, tables, strict=True):
            if now.found != before.found:
                raise LookupError(before.named.name)
        self._parts = [one.parts for one in found if one.kind == "p"]
        return not any(one.rewritten for one in found)

    def _check_parts(self) -> None:
        """LookupError where a partition was attached after the tables were checked.

        Planning sees it at once, whatever the snapshot; taken away it cannot be before the end.
        """
        if self._partitioned:
            numbers = [one.number for one in self._partitioned]
            now = [tuple(parts) for _, parts in self._ask(PARTS, [numbers])]
            if now != self._parts:
                raise LookupError("a partition that was attached meanwhile")

    def limited(self, work: Callable[[], T]) -> T:
        """What the work gives, unless it takes too long."""
        with interrupted_after(self._timeout, self._connection.cancel_safe):
            return work()

    def guarded(self, work: Callable[[], T]) -> T:
        """What the work gives; EngineFailed where it raises, or takes too long."""
        return guarded(lambda: self.limited(work))

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
        self._check_parts()
        return found
