"""Tables of a PostgreSQL server by name: what they are is read in the catalogue, and no row is.

A view, a foreign table, or a table whose policies choose rows can give other rows each time it is
read: only rows that are stored, and all of them, are taken.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.dialects.postgres import quoted
from unacorda.query.dialects.postgres_texts import text
from unacorda.query.dialects.statements import Table

__all__ = ["Named", "OpenedTable", "named", "opened"]

_PART = r'"((?:[^"]|"")+)"|([^\W\d][\w$]*)'
_NAME = re.compile(rf"(?:{_PART})\.(?:{_PART})")
_KINDS = {
    "v": "a view, which can hide random() or another table: materialise it first "
    "(CREATE MATERIALIZED VIEW, or CREATE TABLE ... AS SELECT * FROM the_view)",
    "f": "a foreign table, which another server may answer in another way each time: copy it first",
}
_STORED = ("r", "p", "m")

_RELATION = """
SELECT c.oid, c.relkind::text, row_security_active(c.oid), has_table_privilege(c.oid, 'SELECT'),
  EXISTS (
    WITH RECURSIVE part(oid) AS (
      SELECT c.oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN part ON i.inhparent = part.oid
    )
    SELECT 1 FROM part JOIN pg_class p ON p.oid = part.oid WHERE p.relkind = 'f'
  )
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_COLUMNS = """
WITH RECURSIVE kind(number, name, oid, mod) AS (
  SELECT attnum, attname, atttypid, atttypmod FROM pg_attribute
  WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT k.number, k.name, t.typbasetype, t.typtypmod
  FROM kind k JOIN pg_type t ON t.oid = k.oid WHERE t.typtype = 'd'
)
SELECT k.name::text, format_type(k.oid, k.mod), t.typtype::text
FROM kind k JOIN pg_type t ON t.oid = k.oid WHERE t.typtype <> 'd' ORDER BY k.number
"""

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
class OpenedTable:
    """A table of the server. found: what its catalogue says; schema: DuckDB's types.

    number: the server's own of it, which no other one has. materialised: of a view.
    """

    named: Named
    found: tuple[object, ...]
    table: Table
    schema: dict[str, str]
    number: int
    materialised: bool


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


def opened(named: Named, catalogue: Catalogue, *, view: str) -> OpenedTable:
    """What the catalogue says of a table; InvalidParameter where it is none that can be read."""
    lines = catalogue(_RELATION, (named.schema, named.name))
    problem = _problem(lines[0] if lines else None)
    if problem is not None:
        raise InvalidParameter(
            f"tables[{named.title!r}]",
            f"{named.schema}.{named.name}",
            expected=f"a stored table of the server. This is {problem}",
        )
    columns = catalogue(_COLUMNS, (lines[0][0],))
    folded = [name.casefold() for name, _, _ in columns]
    if len(set(folded)) < len(folded):
        raise InvalidParameter(
            f"tables[{named.title!r}]",
            f"{named.schema}.{named.name}",
            expected="columns whose names differ in more than capitals",
        )
    schema, types, parts = {}, {}, []
    for name, kind, of in columns:
        schema[name], held, sql = _read("enum" if of == "e" else kind, quoted(name))
        if held is not None:
            types[name] = held
            parts.append(f"{sql} AS {quoted(name)}")
    body = f"SELECT {', '.join(parts) or '1 AS nothing'} FROM {named.sql}"
    return OpenedTable(
        named=named,
        found=(lines[0], tuple(columns)),
        table=Table(view=view, columns=types, body=body),
        schema=schema,
        number=lines[0][0],
        materialised=lines[0][1] == "m",
    )


def _problem(line: tuple[Any, ...] | None) -> str | None:
    """Why a relation cannot be a table of a session."""
    match line:
        case None:
            return "no table that this user can see"
        case (_, kind, _, _, _) if kind not in _STORED:
            return _KINDS.get(kind, "no table")
        case (_, _, True, _, _):
            return (
                "a table whose row security shows this user some rows only, by policies that can "
                "call any function: give the engine a user who sees all rows"
            )
        case (_, _, _, False, _):
            return "one that this user may not read (GRANT SELECT ON ... TO ...)"
        case (_, _, _, _, True):
            return f"one with a part that is {_KINDS['f']}"
        case _:
            return None


_PLAIN = {
    "smallint": ("SMALLINT", "BIGINT", "CAST({0} AS bigint)"),
    "integer": ("INTEGER", "BIGINT", "CAST({0} AS bigint)"),
    "bigint": ("BIGINT", "BIGINT", "{0}"),
    "real": ("FLOAT", "DOUBLE", "CAST({0} AS float8)"),
    "double precision": ("DOUBLE", "DOUBLE", "{0}"),
    "boolean": ("BOOLEAN", "BOOLEAN", "{0}"),
    "date": ("DATE", "DATE", "{0}"),
    "uuid": ("VARCHAR", "TEXT", text("CAST({0} AS text)")),
    "enum": ("VARCHAR", "TEXT", text("CAST({0} AS text)")),
    "text": ("VARCHAR", "TEXT", text("{0}")),
}
_MOST_DIGITS = 18
_LAST_INSTANT = "294247-01-10 04:00:54.775806"
"""The last one of DuckDB, whose next number is infinity; PostgreSQL has another 29 years."""


def _read(kind: str, column: str) -> tuple[str, str | None, str]:
    """DuckDB's name of a column's type, the type that is computed with, and SQL that makes it."""
    bare = re.sub(r"[(].*?[)]", "", kind)
    if bare in ("character varying", "character"):
        return "VARCHAR", "TEXT", text(f"CAST({column} AS text)")
    if bare in _PLAIN:
        name, held, sql = _PLAIN[bare]
        return name, held, sql.format(column)
    if bare == "timestamp without time zone":
        return "TIMESTAMP", "TIMESTAMP", _instant(column, "timestamp")
    if bare == "timestamp with time zone":
        return "TIMESTAMP", "TIMESTAMP", _instant(column, "timestamptz")
    if bare == "numeric":
        return _number(kind, column)
    return kind.upper() + "[]", None, column


def _instant(column: str, kind: str) -> str:
    """An instant that 64 bits count in microseconds since 1970; a later one is the end of time.

    The comparison comes first: rounded to few digits, a value may lie beyond PostgreSQL's own end,
    and then converting it fails.
    """
    zoned, mark = (f"{column} AT TIME ZONE 'UTC'", "+00") if kind == "timestamptz" else (column, "")
    return (
        f"(CASE WHEN {column} > '{_LAST_INSTANT}{mark}'::{kind} THEN 'infinity'::timestamp "
        f"ELSE CAST({zoned} AS timestamp) END)"
    )


def _number(kind: str, column: str) -> tuple[str, str, str]:
    """Decimals as DuckDB has them, where it has them alike; else the next double."""
    found = re.fullmatch(r"numeric[(]([0-9]+),([0-9]+)[)]", kind)
    digits, scale = (0, 0) if found is None else (int(found[1]), int(found[2]))
    known = f"NULLIF({column}, 'NaN'::numeric)"
    if 0 < digits <= _MOST_DIGITS and scale <= digits:
        return f"DECIMAL({digits},{scale})", "DECIMAL", known
    if _MOST_DIGITS < digits <= 38 and scale == 0:
        return f"DECIMAL({digits},0)", "WIDE", known
    large, small = _written(2**1024 - Fraction(2) ** 970), _written(Fraction(1, 2**1075))
    made = (
        f"(CASE WHEN {known} >= {large} THEN 'Infinity'::float8 WHEN {known} <= -{large} "
        f"THEN '-Infinity'::float8 WHEN abs({known}) <= {small} THEN '0'::float8 "
        f"ELSE CAST({known} AS float8) END)"
    )
    return "DOUBLE", "DOUBLE", made


def _written(value: Fraction) -> str:
    """A fraction whose denominator is a power of 2, with all its digits."""
    exact = Context(prec=2_000)
    quotient = exact.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{quotient:f}::numeric" if value < 1 else f"{value.numerator}::numeric"
