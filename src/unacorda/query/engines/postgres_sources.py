"""Tables of a PostgreSQL server by name: what they are is read in the catalogue, and no row is.

A view, a foreign table, or a table whose policies choose rows can give other rows each time it is
read: only rows that are stored, and all of them, are taken. Types are known by their numbers, and
values of types that users make are read by PostgreSQL's own functions, never by a cast.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.engines.dialects.postgres import quoted, text
from unacorda.query.engines.dialects.statements import NamedTable

__all__ = ["PARTS", "Named", "PostgresTable", "named", "opened"]

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
PARTS = """
SELECT a.place, array_agg(p.relid::oid::bigint ORDER BY p.relid::oid)
FROM unnest($1::bigint[]) WITH ORDINALITY AS a(oid, place), pg_partition_tree(a.oid::oid) AS p
GROUP BY a.place ORDER BY a.place
"""
"""The numbers of all parts that partitioned tables have now, whatever was at the snapshot."""

Catalogue = Callable[[str, Sequence[object]], Sequence[tuple[Any, ...]]]
"""Asks the server's catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A table by its names. title: what the session calls it."""

    title: str
    schema: str
    name: str

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTable:
    """A table of the server. found: what its catalogue says; schema: DuckDB's types.

    number: the server's own of it, which no other one has. kind: as the catalogue has it. parts:
    the numbers of the table and of all its partitions. rewritten: after the snapshot, of which its
    rows may be none.
    """

    named: Named
    found: tuple[object, ...]
    table: NamedTable
    schema: dict[str, str]
    number: int
    kind: str
    parts: tuple[int, ...] = field(compare=False)
    rewritten: bool = field(compare=False)


def named(title: str, source: object) -> Named:
    """The schema and the name that a text says, as PostgreSQL reads them; else InvalidParameter.

    >>> named("t", 'clinic."Visits"').sql
    '"clinic"."Visits"'
    """
    found = _NAME.fullmatch(source) if isinstance(source, str) else None
    if found is None:
        raise InvalidParameter(
            f"tables[{title!r}]",
            source if isinstance(source, str) else type(source),
            expected="'schema.table' of the server, such as 'public.visits'; other tables: "
            "engine='duckdb'",
        )
    parts = [
        whole.replace('""', '"') if whole else plain.lower()
        for whole, plain in (found.group(1, 2), found.group(3, 4))
    ]
    return Named(title=title, schema=parts[0], name=parts[1])


def opened(names: Sequence[Named], catalogue: Catalogue) -> list[PostgresTable]:
    """What the catalogue says of tables; InvalidParameter where one is none that can be read."""
    asked = [one.schema for one in names], [one.name for one in names]
    lines = {line[0]: line[1:] for line in catalogue(_RELATIONS, asked)}
    for place, name in enumerate(names, start=1):
        problem = _problem(lines.get(place))
        if problem is not None:
            raise InvalidParameter(
                f"tables[{name.title!r}]",
                f"{name.schema}.{name.name}",
                expected=f"a stored table of the server. This is {problem}",
            )
    columns: dict[int, list[tuple[Any, ...]]] = {place: [] for place in lines}
    for place, *column in catalogue(_COLUMNS, [[lines[at][0] for at in sorted(lines)]]):
        columns[place].append(tuple(column))
    return [
        _table(name, lines[place], columns[place], view=f"source{place - 1}")
        for place, name in enumerate(names, start=1)
    ]


def _table(
    named: Named, line: tuple[Any, ...], columns: Sequence[tuple[Any, ...]], *, view: str
) -> PostgresTable:
    number, kind, *_, parts, _, _, rewritten = line
    folded = [name.casefold() for name, *_ in columns]
    if len(set(folded)) < len(folded):
        raise InvalidParameter(
            f"tables[{named.title!r}]",
            f"{named.schema}.{named.name}",
            expected="columns whose names differ in more than capitals",
        )
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
    return PostgresTable(
        named=named,
        found=(number, kind, tuple(columns)),
        table=NamedTable(view=view, columns=types, body=body),
        schema=schema,
        number=number,
        kind=kind,
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
