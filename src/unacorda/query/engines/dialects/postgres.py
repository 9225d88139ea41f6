"""Questions in PostgreSQL's SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.postgres_casts import (
    ANONYMOUS,
    CASTS,
    INTERVALS,
    MOMENTS,
    STORED,
)
from unacorda.query.engines.dialects.postgres_functions import NUMBERS, TEXTS, literal, text
from unacorda.query.engines.dialects.statements import Dialect, NamedTable, Translated
from unacorda.query.engines.dialects.typed import (
    Typed,
    Untranslatable,
    Writer,
    Writing,
    distinct_parts,
    lambda_parts,
    parts_of_text,
)
from unacorda.query.engines.dialects.values import PLAIN, Values, Words

__all__ = [
    "POSTGRES",
    "quoted",
    "translate",
]

_LONGEST_NAME = 63
"""In bytes."""


def translate(
    sql: str, *, tables: Mapping[str, NamedTable], before: int = 0, public: bool = False
) -> Translated:
    """A statement in PostgreSQL's SQL; before: how many parameters there are before its lists."""
    return statements.translate(sql, POSTGRES, tables=tables, parameters=str(before), public=public)


def quoted(name: str) -> str:
    """A name as an identifier; PostgreSQL would cut a longer one, and two could become one.

    >>> print(quoted('a"b c'))
    "a""b c"
    """
    if len(name.encode()) > _LONGEST_NAME:  # none of a table, and so one of this package's own
        name = hashlib.sha256(name.encode()).hexdigest()[:_LONGEST_NAME]
    return '"' + name.replace('"', '""') + '"'


def _lists(before: str, types: tuple[str, ...]) -> str:
    first = int(before) + 1
    parameters = ", ".join(
        f"${number}::{STORED[kind]}[]" for number, kind in enumerate(types, start=first)
    )
    names = [f"p{number}" for number, _ in enumerate(types, start=1)]
    listed = [
        f"{text(name)} AS {name}" if kind == "TEXT" else name
        for name, kind in zip(names, types, strict=True)
    ]
    return (
        f'(SELECT {", ".join(listed)}, number - 1 AS "row" FROM unnest({parameters}) '
        f"WITH ORDINALITY AS listed({', '.join(names)}, number)) AS lists"
    )


def _same(writer: Writer, node: exp.Expression) -> Typed:
    """NULL is level with NULL: by texts that no value has, so that tables are joined by hashes."""
    a, b = writer.value(node.this), writer.value(node.args["expression"])
    match {a.type, b.type}:
        case kinds if kinds == {"TEXT"}:
            marked = [f"coalesce({literal('.')} || {v.sql}, {literal('')})" for v in (a, b)]
        case kinds if len(kinds) == 1 and kinds <= {"BIGINT", "BOOLEAN", "DATE"}:
            marked = [f"coalesce(CAST({v.sql} AS text), '')" for v in (a, b)]
        case _:
            return Typed(f"({a.sql} IS NOT DISTINCT FROM {b.sql})", "BOOLEAN")
    return Typed(f"({marked[0]} = {marked[1]})", "BOOLEAN")


def _distinct(writer: Writer, node: exp.Expression) -> Typed:
    a, b = writer.value(node.this), writer.value(node.args["expression"])
    return Typed(f"({a.sql} IS DISTINCT FROM {b.sql})", "BOOLEAN")


def _sum_or_moved(writer: Writer, node: exp.Expression) -> Typed:
    write = INTERVALS if isinstance(node.args["expression"], exp.Interval) else NUMBERS[type(node)]
    return write(writer, node)


def _bound(writer: Writer, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]: a column, or two, of a row of its own."""
    assert isinstance(writer, Values)
    operand, name, inner = lambda_parts(node)
    alias = f"bound{len(writer.names)}"
    if isinstance(operand, exp.Struct):
        parts = {p.this.name: writer.value(p.args["expression"]) for p in operand.expressions}
        listed = ", ".join(f"{value.sql} AS {quoted(part)}" for part, value in parts.items())
        fields = {
            part: Typed(f"{alias}.{quoted(part)}", value.type, span=value.span)
            for part, value in parts.items()
        }
        own = Typed(alias, "STRUCT", fields)
    else:
        value = writer.value(operand)
        listed = f"{value.sql} AS v"
        own = Typed(f"{alias}.v", value.type, span=value.span)
    body = writer.naming(name, own).value(inner)
    sql = f"(SELECT {body.sql} FROM (SELECT {listed} OFFSET 0) AS {alias})"
    return Typed(sql, body.type, span=body.span)


def _field(writer: Writer, node: exp.Expression) -> Typed:
    value, name = writer.value(node.this), node.args["expression"].name
    if name not in value.fields:
        raise Untranslatable("a struct")
    return value.fields[name]


def _exploded(writer: Writer, node: exp.Expression) -> Typed:
    """A row for each part of a text."""
    whole, separator, most = parts_of_text(node)
    value = writer.value(whole).sql
    # A text of no length is one part to DuckDB, and none to PostgreSQL.
    parts = (
        f"CASE WHEN {value} = {literal('')} THEN ARRAY[{literal('')}] "
        f"ELSE (string_to_array({value}, {literal(separator)}))[1:{most}] END"
    )
    return Typed(text(f"unnest({parts})"), "TEXT")


def _count(writer: Writer, node: exp.Expression) -> Typed:
    counted = node.this
    if isinstance(counted, exp.Star):
        return Typed("count(*)", "BIGINT")
    if isinstance(counted, exp.Distinct):
        listed = [writer.value(part).sql for part in distinct_parts(counted)]
        row = listed[0] if len(listed) == 1 else f"({', '.join(listed)})"
        return Typed(f"count(DISTINCT {row})", "BIGINT")
    return Typed(f"count({writer.value(counted).sql})", "BIGINT")


def _sum(writer: Writer, node: exp.Expression) -> Typed:
    """PostgreSQL adds in 128 bits, and gives a number without an end."""
    value = writer.value(node.this)
    if value.type not in ("BIGINT", "HUGEINT"):
        raise Untranslatable("SUM of what is not whole")
    return Typed(f"sum({value.sql})", "HUGEINT")


def _end(name: str, of_truth: str) -> Writing:
    plain = PLAIN[exp.Min if name == "min" else exp.Max]

    def write(writer: Writer, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        if value.type == "BOOLEAN":
            return Typed(f"{of_truth}({value.sql})", "BOOLEAN")
        return plain(writer, node)

    return write


def _hash(writer: Writer, node: exp.Expression) -> Typed:
    """hash(value, ..., salt, salt), of 64 bits: of one text that no other values are written as."""
    *values, high, low = node.expressions
    parts = []
    for part in values:
        value = writer.value(part)
        if value.type not in ("BIGINT", "TEXT", "DATE", "BOOLEAN", "DECIMAL", "WIDE", "HUGEINT"):
            raise Untranslatable(f"HASH of {value.type}")
        said = value.sql if value.type == "TEXT" else f"CAST({value.sql} AS text)"
        parts.append(f"coalesce(CAST(length({said}) AS text) || ':' || {said}, '-')")
    seed, salt = (int(part.this.name) for part in (high, low))
    joined = " || ".join([f"'{salt:016x}'", *parts])
    signed = seed - (1 << 64) if seed >= 1 << 63 else seed
    return Typed(f"hashtextextended({text(f'({joined})')}, '{signed}'::bigint)", "HASH")


POSTGRES = Dialect(
    words=Words(
        quoted=quoted,
        writers={
            **PLAIN,
            **TEXTS,
            **MOMENTS,
            **CASTS,
            **NUMBERS,
            exp.Add: _sum_or_moved,
            exp.NullSafeEQ: _same,
            exp.NullSafeNEQ: _distinct,
            exp.Bracket: _bound,
            exp.Explode: _exploded,
            exp.StructExtract: _field,
            exp.Count: _count,
            exp.Sum: _sum,
            exp.Min: _end("min", "bool_and"),
            exp.Max: _end("max", "bool_or"),
        },
        anonymous={"hash": _hash, **ANONYMOUS},
        qualified=True,
    ),
    lists=_lists,
    semi_joins=False,
    nameless=False,
    layer=" OFFSET 0",
    by_place=True,
)
