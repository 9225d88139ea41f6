"""PostgreSQL: the same questions over tables of a server, which are only read.

One question is one transaction that reads one state of the tables, and writes none.

What a question names is written again, as a WITH, in every statement that needs it: nothing is kept
on the server, also no temporary table, so that a standby can answer, and a user who may only read.

The statements are those that DuckDB runs, translated construct by construct; what has no equal in
PostgreSQL is refused before anything is spent. Counts and sums leave as integers; rows never do.
Everything the server raises while it answers leaves as one `EngineFailed` of constant text.

Tables of a PostgreSQL server by name: what they are is read in the catalogue, and no row is.

A view, a foreign table, or a table whose policies choose rows can give other rows each time it is
read: only rows that are stored, and all of them, are taken. Types are known by their numbers, and
values of types that users make are read by PostgreSQL's own functions, never by a cast.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sqlalchemy

from unacorda.addresses import ESCAPED, Server, shown
from unacorda.checks import demand
from unacorda.errors import InvalidParameter, SourceChanged, SourceUnreadable
from unacorda.extras import require
from unacorda.postgres import READING, beginning, pinned
from unacorda.query.engines.dialects.postgres import quoted, text, translate
from unacorda.query.engines.dialects.statements import NamedTable, Translated, TranslatedEngine
from unacorda.query.engines.engine import EngineQuery

_PART = r'"((?:[^"]|"")+)"|([^\W\d][\w$]*)'
_NAME = re.compile(rf"(?:{_PART})\.(?:{_PART})")
_KINDS = {
    "v": "a view, which can hide random() or another table: materialise it first "
    "(CREATE MATERIALIZED VIEW, or CREATE TABLE ... AS SELECT * FROM the_view)",
    "f": "a foreign table, which another server may answer in another way each time: copy it first",
}
_STORED = ("r", "p", "m")

_RELATIONS = """
WITH RECURSIVE found AS (
  SELECT a.place, c.* FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS a(schema, name, place)
  JOIN pg_namespace n ON n.nspname = a.schema
  JOIN (SELECT oid, * FROM pg_class) AS c(number) ON c.relnamespace = n.oid AND c.relname = a.name
), part(place, oid) AS (
  SELECT place, number FROM found
  UNION SELECT part.place, i.inhrelid FROM pg_inherits i JOIN part ON i.inhparent = part.oid
)
SELECT f.place, f.number::bigint, f.relkind::text, row_security_active(f.number),
  has_table_privilege(f.number, 'SELECT'),
  ARRAY(SELECT p.oid::bigint FROM part p WHERE p.place = f.place ORDER BY p.oid),
  EXISTS (
    SELECT FROM part p JOIN pg_class c ON c.oid = p.oid WHERE p.place = f.place AND c.relkind = 'f'
  ),
  EXISTS (
    SELECT FROM part p CROSS JOIN LATERAL (
      SELECT 'pg_class'::regclass::oid AS class, p.oid
      UNION ALL SELECT 'pg_class'::regclass, indexrelid FROM pg_index WHERE indrelid = p.oid
      UNION ALL SELECT 'pg_constraint'::regclass, oid FROM pg_constraint WHERE conrelid = p.oid
      UNION ALL SELECT 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext
        WHERE stxrelid = p.oid
    ) AS made
    JOIN pg_depend d ON d.classid = made.class AND d.objid = made.oid
      AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
    LEFT JOIN pg_proc g ON d.refclassid = 'pg_proc'::regclass AND g.oid = d.refobjid
    LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
    WHERE p.place = f.place AND NOT EXISTS (
      SELECT FROM pg_depend e JOIN pg_roles r ON r.oid IN (g.proowner, o.oprowner) AND r.rolsuper
      WHERE e.classid = d.refclassid AND e.objid = d.refobjid AND e.deptype = 'e'
    )
  ),
  EXISTS (
    SELECT FROM part p JOIN pg_class c ON c.oid = p.oid WHERE p.place = f.place
      AND pg_relation_filenode(c.oid) IS DISTINCT FROM NULLIF(c.relfilenode, 0)
  )
FROM found f
"""
"""Of tables: number, kind, whether policies choose rows, the right to read them, the numbers of all
parts, whether one of them is foreign, whether functions of users are in what planning reads of them
(those of an extension are not, where a superuser owns them), and whether one was rewritten after
the snapshot: functions of the catalogue see the newest state, and its tables the snapshot's."""
_COLUMNS = """
WITH RECURSIVE kind(place, number, name, oid, mod, made) AS (
  SELECT a.place, attnum, attname, atttypid, atttypmod, attgenerated = 'v'
  FROM unnest($1::bigint[]) WITH ORDINALITY AS a(oid, place)
  JOIN pg_attribute ON attrelid = a.oid::oid AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT k.place, k.number, k.name, t.typbasetype, t.typtypmod, k.made
  FROM kind k JOIN pg_type t ON t.oid = k.oid WHERE t.typtype = 'd'
)
SELECT k.place, k.name::text, k.oid::bigint, format_type(k.oid, k.mod), t.typtype::text, k.made
FROM kind k JOIN pg_type t ON t.oid = k.oid WHERE t.typtype <> 'd' ORDER BY k.place, k.number
"""
"""Of each column its type, or what a domain is made of; and whether reading computes it."""
_PARTS = """
SELECT a.place, array_agg(p.relid::oid::bigint ORDER BY p.relid::oid)
FROM unnest($1::bigint[]) WITH ORDINALITY AS a(oid, place), pg_partition_tree(a.oid::oid) AS p
GROUP BY a.place ORDER BY a.place
"""
"""The numbers of all parts that partitioned tables have now, whatever was at the snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableName:
    """A table by its names. title: what the session calls it."""

    title: str
    schema: str
    name: str

    @classmethod
    def of(cls, title: str, source: object) -> _TableName:
        """The schema and the name that a text says, as PostgreSQL reads them."""
        found = _NAME.fullmatch(source) if isinstance(source, str) else None
        if found is None:
            raise InvalidParameter(
                f"tables[{title!r}]",
                source if isinstance(source, str) else type(source),
                expected="'schema.table' of the server, such as 'public.visits'; other tables: "
                "engine='duckdb'",
            )
        schema, name = (
            whole.replace('""', '"') if whole else plain.lower()
            for whole, plain in (found.group(1, 2), found.group(3, 4))
        )
        return cls(title=title, schema=schema, name=name)

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def refused(self, expected: str) -> InvalidParameter:
        """Why it cannot be a table of a session."""
        value = f"{self.schema}.{self.name}"
        return InvalidParameter(f"tables[{self.title!r}]", value, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerTable:
    """A table of the server; two are equal where they are the same one, and have the same columns.

    number: the server's own of it, which no other one has. kind, columns: as the catalogue has
    them. schema: DuckDB's types. parts: the numbers of the table and of all its partitions.
    rewritten: after the snapshot, of which its rows may be none.
    """

    number: int
    kind: str
    columns: tuple[tuple[Any, ...], ...]
    named: _TableName = field(compare=False)
    table: NamedTable = field(compare=False)
    schema: dict[str, str] = field(compare=False)
    parts: tuple[int, ...] = field(compare=False)
    rewritten: bool = field(compare=False)


def _opened(names: Sequence[_TableName], cursor: Any) -> list[_ServerTable]:
    """What the catalogue says of tables; InvalidParameter where one is none that can be read."""
    asked = [one.schema for one in names], [one.name for one in names]
    lines = {line[0]: line[1:] for line in cursor.execute(_RELATIONS, asked).fetchall()}
    for place, name in enumerate(names, start=1):
        problem = _problem(lines.get(place))
        if problem is not None:
            raise name.refused(f"a stored table of the server. This is {problem}")
    columns: dict[int, list[tuple[Any, ...]]] = {place: [] for place in lines}
    numbers = [lines[place][0] for place in sorted(lines)]
    for place, *column in cursor.execute(_COLUMNS, [numbers]).fetchall():
        columns[place].append(tuple(column))
    return [
        _table(name, lines[place], columns[place], view=f"source{place - 1}")
        for place, name in enumerate(names, start=1)
    ]


def _table(
    named: _TableName, line: tuple[Any, ...], columns: Sequence[tuple[Any, ...]], *, view: str
) -> _ServerTable:
    number, kind, *_, parts, _, _, rewritten = line
    if len({name.casefold() for name, *_ in columns}) < len(columns):
        raise named.refused("columns whose names differ in more than capitals")
    schema, types, read = {}, {}, []
    for name, of, said, sort, made in columns:
        held: str | None
        if made:  # when it is read, by an expression that may fail
            schema[name], held, sql = f"{said.upper()} GENERATED", None, ""
        else:
            schema[name], held, sql = _read(of, said, quoted(name), is_enum=sort == "e")
        if held is not None:
            types[name] = held
            read.append(f"{sql} AS {quoted(name)}")
    # Rows of tables that inherit are not this one's; those of a partitioned one are its parts'.
    only = "" if kind == "p" else "ONLY "
    body = f"SELECT {', '.join(read) or '1 AS nothing'} FROM {only}{named.sql}"
    return _ServerTable(
        named=named,
        table=NamedTable(view=view, columns=types, body=body),
        schema=schema,
        number=number,
        kind=kind,
        columns=tuple(columns),
        parts=tuple(parts),
        rewritten=rewritten,
    )


def _problem(line: tuple[Any, ...] | None) -> str | None:
    """Why a relation cannot be a table of a session."""
    match line:
        case None:
            return "no table that this user can see"
        case (_, kind, *_) if kind not in _STORED:
            return _KINDS.get(kind, "no table")
        case (_, _, True, *_):
            return (
                "a table whose row security shows this user some rows only, by policies that can "
                "call any function: give the engine a user who sees all rows"
            )
        case (_, _, _, False, *_):
            return "one that this user may not read (GRANT SELECT ON ... TO ...)"
        case (_, _, _, _, _, True, *_):
            return f"one with a part that is {_KINDS['f']}"
        case (_, kind, _, _, parts, *_) if kind != "p" and len(parts) > 1:
            return (
                "one that other tables inherit from, whose rows could be anyone's at any time: "
                "make it a partitioned table, or copy its rows into one table"
            )
        case (_, _, _, _, _, _, True, _):
            return (
                "one with an index, a condition, a statistic or a partition by a function of a "
                "user, which planning a question may call: drop that, or copy the table"
            )
        case _:
            return None


_PLAIN = {
    21: ("SMALLINT", "BIGINT", "CAST({0} AS bigint)"),
    23: ("INTEGER", "BIGINT", "CAST({0} AS bigint)"),
    20: ("BIGINT", "BIGINT", "CAST({0} AS bigint)"),
    700: ("FLOAT", "DOUBLE", "CAST({0} AS float8)"),
    701: ("DOUBLE", "DOUBLE", "CAST({0} AS float8)"),
    16: ("BOOLEAN", "BOOLEAN", "CAST({0} AS boolean)"),
    1082: ("DATE", "DATE", "CAST({0} AS date)"),
    2950: ("VARCHAR", "TEXT", text("textin(uuid_out(CAST({0} AS uuid)))")),
    25: ("VARCHAR", "TEXT", text("CAST({0} AS text)")),
    1042: ("VARCHAR", "TEXT", text("CAST({0} AS text)")),
    1043: ("VARCHAR", "TEXT", text("CAST({0} AS text)")),
}
"""By the number of a type, which is the same in all of PostgreSQL: DuckDB's name, what is computed
with, and SQL that makes it. A column of a domain is cast to what that is made of: else a NULL that
stands beside it would have to satisfy the domain."""
_ENUM = ("VARCHAR", "TEXT", text("(CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END)"))
"""Its owner may make casts to text, which CAST calls; this calls what writes the type out."""
_INSTANTS = {1114: "timestamp", 1184: "timestamptz"}
_NUMERIC = 1700
_MOST_DIGITS = 18


def _read(of: int, said: str, column: str, *, is_enum: bool) -> tuple[str, str | None, str]:
    """DuckDB's name of a column's type, the type that is computed with, and SQL that makes it."""
    if is_enum or of in _PLAIN:
        name, held, sql = _ENUM if is_enum else _PLAIN[of]
        return name, held, sql.format(column)
    if of in _INSTANTS:
        return "TIMESTAMP", "TIMESTAMP", _instant(column, _INSTANTS[of])
    if of == _NUMERIC:
        return _number(said, column)
    return said.upper() + "[]", None, column


def _instant(column: str, kind: str) -> str:
    """An instant in UTC before the year 10000, the last that there are.

    The comparison comes first: rounded to few digits, a value may lie beyond PostgreSQL's own end,
    and then converting it fails.
    """
    zoned, mark = (f"{column} AT TIME ZONE 'UTC'", "+00") if kind == "timestamptz" else (column, "")
    within = f"{column} < '10000-01-01 00:00:00{mark}'::{kind}"
    return f"(CASE WHEN {within} THEN CAST({zoned} AS timestamp) END)"


def _number(kind: str, column: str) -> tuple[str, str, str]:
    """Decimals as DuckDB has them, where it has them alike; else the next double."""
    found = re.fullmatch(r"numeric[(]([0-9]+),([0-9]+)[)]", kind)
    digits, scale = (0, 0) if found is None else (int(found[1]), int(found[2]))
    known = f"NULLIF(CAST({column} AS numeric), 'NaN'::numeric)"
    if 0 < digits <= _MOST_DIGITS and scale <= digits:
        return f"DECIMAL({digits},{scale})", "DECIMAL", known
    if _MOST_DIGITS < digits <= 38 and scale == 0:
        return f"DECIMAL({digits},0)", "WIDE", known
    made = (
        f"(CASE WHEN {known} > 1e100 THEN '1e100'::float8 WHEN {known} < -1e100 "
        f"THEN '-1e100'::float8 WHEN abs({known}) < 1e-100 THEN '0'::float8 "
        f"ELSE CAST({known} AS float8) END)"
    )
    return "DOUBLE", "DOUBLE", made


Connect = Callable[[], Any]
"""Makes a connection of psycopg that commits by itself, in which nothing has been asked."""

_MODE = "ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE"
_ATTEMPTS = 5


def _reading(connection: Any) -> Any:
    """A cursor that reads one state of the tables.

    Its lines are tuples, whatever the caller's own connections give.
    """
    from psycopg import RawCursor
    from psycopg.rows import tuple_row

    cursor = RawCursor(connection, row_factory=tuple_row)
    return cursor.execute(beginning(_MODE, pinned(connection.info.server_version, *READING)))


class _PostgresQuery(EngineQuery):
    """The relations of one question. tables: those of the session, which are checked again."""

    def __init__(
        self, connect: Connect, tables: Sequence[_ServerTable], *, timeout: float | None = None
    ) -> None:
        super().__init__(timeout=timeout, interrupt=self._cancel)
        self._stack = contextlib.ExitStack()
        self._tables = {one.table.view: one.table for one in tables}
        self._named: dict[str, str] = {}
        self._values: list[object] = []
        try:
            self._begin(connect, tables)
        except BaseException:
            self._stack.close()
            raise

    def _begin(self, connect: Connect, tables: Sequence[_ServerTable]) -> None:
        """Connect, and begin to read one state of the tables."""
        for _ in range(_ATTEMPTS):
            self._connection = self._stack.enter_context(contextlib.closing(connect()))
            self._cursor = _reading(self._connection)
            self._lock(tables)
            if self._check(tables):
                return
            self._stack.pop_all().close()
        raise LookupError("a table that is rewritten all the time")

    def _cancel(self) -> None:
        self._connection.cancel_safe()

    def _lock(self, tables: Sequence[_ServerTable]) -> None:
        """Keep others from putting another relation in the place of a table, until the end.

        LOCK takes no snapshot, so that rows are seen as they stand once all is locked; reading a
        materialised view, which cannot be locked, takes one.
        """
        lockable = [one.named.sql for one in tables if one.kind != "m"]
        if lockable:
            self._cursor.execute(f"LOCK TABLE {', '.join(lockable)} IN ACCESS SHARE MODE")
        views = [f"SELECT FROM {one.named.sql} LIMIT 0" for one in tables if one.kind == "m"]
        if views:
            self._cursor.execute("; ".join(views))

    def _check(self, tables: Sequence[_ServerTable]) -> bool:
        """Whether rows can be read; LookupError where a table is no longer what was opened."""
        found = _opened([one.named for one in tables], self._cursor)
        if found != list(tables):
            raise LookupError("a table that is another one, or has other columns")
        self._parts = {one.number: list(one.parts) for one in found if one.kind == "p"}
        return not any(one.rewritten for one in found)

    def _check_parts(self) -> None:
        """LookupError where a partition was attached after the tables were checked.

        Planning sees it at once, whatever the snapshot; taken away it cannot be before the end.
        """
        if self._parts:
            now = self._cursor.execute(_PARTS, [list(self._parts)]).fetchall()
            if [parts for _, parts in now] != list(self._parts.values()):
                raise LookupError("a partition that was attached meanwhile")

    def name(
        self, name: str, sql: str, *, lists: Sequence[Sequence[object]] = (), keep: bool = False
    ) -> None:
        del keep
        translated = self._translated(sql)
        view = f"{name} {len(self._named)}"
        self._named[view] = f"{quoted(view)} AS MATERIALIZED ({translated.sql})"
        self._values += [list(values) for values in lists]
        self._tables[name] = NamedTable(view=view, columns=translated.columns)

    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> dict[str, list[Any]]:
        translated = self._translated(sql)
        rows = self._fetched(translated.sql, lists)
        columns = zip(*rows, strict=True) if rows else ((),) * len(translated.columns)
        return dict(zip(translated.columns, map(list, columns), strict=True))

    def rows(
        self, sql: str, lists: Sequence[Sequence[object]] = (), *, public: bool = False
    ) -> list[tuple[Any, ...]]:
        return self._fetched(self._translated(sql, public=public).sql, lists)

    def forget(self, name: str) -> None:
        del self._named[self._tables.pop(name).view]

    def close(self) -> None:
        self._stack.close()

    def _translated(self, sql: str, *, public: bool = False) -> Translated:
        number = str(len(self._values))
        return translate(sql, tables=self._tables, parameters=number, public=public)

    def _fetched(self, sql: str, lists: Sequence[Sequence[object]]) -> list[tuple[Any, ...]]:
        named = ", ".join(self._named.values())
        asked = f"WITH {named} SELECT * FROM ({sql}) AS asked" if named else sql
        values = [*self._values, *(list(values) for values in lists)]
        found: list[tuple[Any, ...]] = self._cursor.execute(asked, values).fetchall()
        self._check_parts()
        return found


_LEAST_VERSION = 160000
_ADDRESS = "an address such as 'postgresql://user@host/database'"


class Postgres(TranslatedEngine):
    """Tables of a PostgreSQL server.

    server: its address, a URL as libpq reads it, which may hold a password; or a SQLAlchemy Engine,
    of which the way to connect is taken, and none of its connections. tables: names to
    'schema.table'. Every question has a connection and a transaction of its own, which sees one
    state of all tables and can write nothing. timeout: seconds of one call.

    Raises InvalidParameter, SourceUnreadable, MissingExtra; reads the catalogue only.
    """

    called = "PostgreSQL"
    translate = staticmethod(translate)

    def __init__(
        self, tables: Mapping[str, Any], *, server: object, timeout: float | None = None
    ) -> None:
        require("psycopg", extra="postgres")
        super().__init__(timeout=timeout)
        self._connect, self._place = _door(server)
        named = [_TableName.of(title, source) for title, source in tables.items()]
        self._opened = self._read(named)
        numbers = [f"{one.named.sql} {one.number}" for one in self._opened]
        self.identity = self._server, *numbers
        for one in self._opened:
            self.schema[one.named.title] = one.schema
            self._scans[one.named.title] = one.table.view

    def check_sources(self) -> None:
        """Raise SourceChanged if a table is another one, or its columns are. Reads no data."""
        names, why = [one.named for one in self._opened], "it was replaced, or its columns were"
        which = ""
        try:
            now = zip(names, self._read(names), self._opened, strict=True)
            which = next((name.sql for name, one, before in now if one != before), "")
        except InvalidParameter as error:
            which, why = ", ".join(name.sql for name in names), str(error)
        if which:
            raise SourceChanged(
                f"The table {which} of the server is no longer what the session opened: {why}. "
                "Open a new session."
            )

    @property
    def _tables(self) -> dict[str, NamedTable]:
        return {one.table.view: one.table for one in self._opened}

    def _begin(self) -> _PostgresQuery:
        return _PostgresQuery(self._connect, self._opened, timeout=self._timeout)

    def _read(self, names: Sequence[_TableName]) -> list[_ServerTable]:
        """What the catalogue says of tables."""
        from psycopg import Error

        try:
            with contextlib.closing(self._connect()) as connection:
                self._server = _server(connection)
                return _opened(names, _reading(connection))
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
        return _address(server)
    if not isinstance(server, sqlalchemy.Engine):
        expected = f"{_ADDRESS}, or a SQLAlchemy Engine"
        raise InvalidParameter("engine", shown(server), expected=expected)
    kind = f"{server.dialect.name}+{server.dialect.driver}"
    expected = "one made with sqlalchemy.create_engine('postgresql+psycopg://...')"
    demand(kind == "postgresql+psycopg", "engine", f"an Engine of {kind}", expected=expected)
    url = server.url
    found = Server.of("", {"host": url.host, "password": url.password, **url.query})
    if found is None:
        raise InvalidParameter("engine", "an Engine", expected=f"one of an address {ESCAPED}")
    return partial(_from_engine, server), found


def _from_engine(engine: sqlalchemy.Engine) -> Any:
    """A new connection: one from its pool could have another role, or be another process's too."""
    taken = engine.pool.recreate().connect()
    connection: Any = taken.driver_connection
    taken.detach()
    connection.rollback()  # what a listener began
    connection.autocommit = True
    return connection


def _address(address: str) -> tuple[Connect, Server]:
    """The same of an address, as libpq reads it."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    scheme, _, rest = address.partition("://")
    plain = f"{scheme.removesuffix('+psycopg')}://{rest}"
    place = None
    with contextlib.suppress(psycopg.ProgrammingError, UnicodeError):
        place = Server.of(plain, conninfo_to_dict(plain))
    if place is None:
        raise InvalidParameter("engine", shown(address), expected=f"{_ADDRESS}, {ESCAPED}")
    return partial(psycopg.connect, plain, autocommit=True), place
