"""PostgreSQL: the same questions over tables of a server, which are only read.

One question is one transaction that reads one state of the tables, and writes none.

What a question names is written again, as a WITH, in every statement that needs it: nothing is kept
on the server, also no temporary table, so that a standby can answer, and a user who may only read.

The statements are those that DuckDB runs, translated construct by construct; what has no equal in
PostgreSQL is refused before anything is spent. Counts and sums leave as integers; rows never do.
Everything the server raises while it answers leaves as one `EngineFailed` of constant text.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy

from unacorda.addresses import ESCAPED, Server, shown
from unacorda.errors import EngineFailed, InvalidParameter, SourceChanged, SourceUnreadable
from unacorda.extras import require
from unacorda.postgres import READING, beginning, pinned
from unacorda.query.engines.asking import HeldRows, KeyedRows, check_question, tallied
from unacorda.query.engines.compile import KeyCountSql, Statement
from unacorda.query.engines.dialects.postgres import quoted, translate
from unacorda.query.engines.dialects.statements import NamedTable
from unacorda.query.engines.postgres_sources import PARTS, PostgresTable, named, opened
from unacorda.query.engines.protocol import Admitted, Held, Keyed, Tallies, sql_of
from unacorda.query.engines.reading import guarded, interrupted_after
from unacorda.query.plan.public_tables import PublicSelect, public_sql
from unacorda.query.plan.query import Query

__all__ = [
    "Connect",
    "Postgres",
    "PostgresQuery",
    "connected",
    "reading",
]

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


class PostgresQuery:
    """The relations of one question. tables: those of the session, which are checked again.

    timeout: after how many seconds a call is interrupted.
    """

    def __init__(
        self, connect: Connect, tables: Sequence[PostgresTable], *, timeout: float | None = None
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

    def _lock(self, tables: Sequence[PostgresTable]) -> None:
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

    def _check(self, tables: Sequence[PostgresTable]) -> bool:
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
        self._tables[name] = NamedTable(view=view, columns=translated.columns)

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


_LEAST_VERSION = 160000
_ADDRESS = "an address such as 'postgresql://user@host/database'"


class Postgres:
    """Tables of a PostgreSQL server.

    server: its address, a URL as libpq reads it, which may hold a password; or a SQLAlchemy Engine,
    of which the way to connect is taken, and none of its connections. tables: names to
    'schema.table'. Every question has a connection and a transaction of its own, which sees one
    state of all tables and can write nothing. timeout: seconds of one call.

    Raises InvalidParameter, SourceUnreadable, MissingExtra; reads the catalogue only.
    """

    def __init__(
        self, tables: Mapping[str, Any], *, server: object, timeout: float | None = None
    ) -> None:
        require("psycopg", extra="postgres")
        self._timeout = timeout
        self._connect, self._place = _door(server)
        self._closed = False
        names = [named(title, source) for title, source in tables.items()]
        self._opened = {one.named.title: one for one in self._read(names)}

    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        """For each table the type of each column, by DuckDB's names: public."""
        return {title: one.schema for title, one in self._opened.items()}

    @property
    def narrow(self) -> bool:
        """Whether wide rows are ordered sooner by few columns, and joined: see `bounding`."""
        return False

    @property
    def once(self) -> bool:
        """Whether what WITH names as MATERIALIZED is computed a single time."""
        return True  # as all that is named and read more than once

    @property
    def identity(self) -> Sequence[str]:
        """The server's version, and what tells its tables from others without reading them."""
        return self._server, *(f"{one.named.sql} {one.number}" for one in self._opened.values())

    def scan(self, table: str) -> str:
        """SQL of the relation that holds a table."""
        return self._opened[table].table.view

    def look(self, asked: PublicSelect) -> list[tuple[Any, ...]]:
        """The lines of a SELECT over a public table; EngineFailed, as `run`."""
        sql = public_sql(asked)
        return self._guarded(lambda asking: self._looked(asking, sql))

    def check_open(self) -> None:
        """Raise EngineFailed, of a question that was not asked, if it is closed. Reads no data."""
        if self._closed:
            raise EngineFailed(asked=False)

    def check_sources(self) -> None:
        """Raise SourceChanged if a table is another one, or its columns are. Reads no data."""
        why = "it was replaced, or its columns were"
        now: list[PostgresTable] = []
        try:
            now = self._read([one.named for one in self._opened.values()])
        except InvalidParameter as error:
            why = str(error)
        same = [a.found == b.found for a, b in zip(now, self._opened.values(), strict=False)]
        if not now or not all(same):
            names = [one.named.sql for one in self._opened.values()]
            which = names[same.index(False)] if now else ", ".join(names)
            raise SourceChanged(
                f"The table {which} of the server is no longer what the session opened: {why}. "
                "Open a new session."
            )

    def check(self, query: Query, first: Statement | KeyCountSql) -> None:
        """Raise UnsupportedConstruct for a question that PostgreSQL would answer otherwise."""
        check_question(query, first, self._tables, translate, engine="PostgreSQL")

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of a question; EngineFailed, of constant text, if anything fails."""
        statement = sql_of(asked, self, Statement)
        return self._guarded(lambda asking: tallied(asking, statement))

    def find(self, asked: Admitted) -> Keyed:
        """Bounded rows and the people behind each private key; EngineFailed, as `run`."""
        found = sql_of(asked, self, KeyCountSql)
        return self._guarded(lambda asking: KeyedRows.of(asking, found, engine=self))

    @property
    def room(self) -> float:
        """0: nothing is kept on the server between scans."""
        return 0.0

    def hold(self, asked: Admitted, *, keep: bool) -> Held:
        """Bounded rows for several scans of one state of the tables; EngineFailed, as `run`."""
        bounded = sql_of(asked, self, Statement).bounded
        return self._guarded(lambda asking: HeldRows.of(asking, bounded, keep=keep))

    def close(self) -> None:
        """Nothing stays open between questions; a second call does nothing."""
        self._closed = True

    @property
    def _tables(self) -> dict[str, NamedTable]:
        return {one.table.view: one.table for one in self._opened.values()}

    def _guarded(self, work: Callable[[PostgresQuery], T]) -> T:
        """What the work gives in a transaction of its own; EngineFailed, of constant text."""
        return guarded(lambda: self._limited(work))

    def _limited(self, work: Callable[[PostgresQuery], T]) -> T:
        asking, done = self._asking(), False
        try:
            found = asking.limited(lambda: work(asking))
            done = True
            return found
        finally:
            if not done:
                asking.close()

    def _asking(self) -> PostgresQuery:
        return PostgresQuery(self._connect, list(self._opened.values()), timeout=self._timeout)

    def _looked(self, asking: PostgresQuery, sql: str) -> list[tuple[Any, ...]]:
        try:
            return asking.look(sql)
        finally:
            asking.close()

    def _read(self, names: list[Any]) -> list[PostgresTable]:
        """What the catalogue says of tables."""
        from psycopg import Error

        reason = None
        try:
            with connected(self._connect) as connection:
                self._server = _server(connection)
                ask = reading(connection)
                return opened(names, ask)
        except (Error, sqlalchemy.exc.SQLAlchemyError) as error:
            reason = self._place.reason(error)  # of a catalogue, not of a table
        raise SourceUnreadable(f"The PostgreSQL server cannot be asked: {reason}")


def _server(connection: Any) -> str:
    """The version and the database; InvalidParameter for a server whose words are others."""
    version = connection.info.server_version
    encoding = connection.info.parameter_status("server_encoding")
    if version < _LEAST_VERSION:
        found, expected = f"PostgreSQL {version // 10000}", "PostgreSQL 16 or later"
    elif encoding != "UTF8":
        found, expected = f"a database in {encoding}", "a database in UTF8"
    else:
        return f"postgresql {version // 10000} {connection.info.dbname}"
    raise InvalidParameter("engine", found, expected=expected)


def _door(server: object) -> tuple[Connect, Server]:
    """What connects to a server, and what may be shown of it; InvalidParameter for none."""
    if isinstance(server, str):
        address, place = _plain(server)
        return lambda: _from_address(address), place
    if not isinstance(server, sqlalchemy.Engine):
        expected = f"{_ADDRESS}, or a SQLAlchemy Engine"
        raise InvalidParameter("engine", shown(server), expected=expected)
    known: sqlalchemy.Engine = server
    if (known.dialect.name, known.dialect.driver) != ("postgresql", "psycopg"):
        raise InvalidParameter(
            "engine",
            f"an Engine of {known.dialect.name}+{known.dialect.driver}",
            expected="one made with sqlalchemy.create_engine('postgresql+psycopg://...')",
        )
    parts = {"host": known.url.host, "password": known.url.password, **known.url.query}
    found = Server.of("", parts)
    if found is None:
        raise InvalidParameter("engine", "an Engine", expected=f"one of an address {ESCAPED}")
    return lambda: _from_engine(known), found


def _from_address(address: str) -> Any:
    import psycopg

    return psycopg.connect(address, autocommit=True)


def _from_engine(engine: sqlalchemy.Engine) -> Any:
    """A new connection: one from its pool could have another role, or be another process's too."""
    taken = engine.pool.recreate().connect()
    connection: Any = taken.driver_connection
    taken.detach()
    connection.rollback()  # what a listener began
    connection.autocommit = True
    return connection


def _plain(address: str) -> tuple[str, Server]:
    """The address as libpq reads it, and its server; InvalidParameter for another text."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    scheme, _, rest = address.partition("://")
    plain = f"{scheme.removesuffix('+psycopg')}://{rest}"
    place = None
    with contextlib.suppress(ProgrammingError, UnicodeError):
        place = Server.of(plain, conninfo_to_dict(plain))
    if place is None:
        raise InvalidParameter("engine", shown(address), expected=f"{_ADDRESS}, {ESCAPED}")
    return plain, place
