"""Questions in Spark SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.spark_casts import ANONYMOUS, CASTS, INTERVALS, MOMENTS
from unacorda.query.engines.dialects.spark_functions import NUMBERS, TEXTS, literal
from unacorda.query.engines.dialects.statements import Dialect, NamedTable, Translated
from unacorda.query.engines.dialects.typed import (
    Typed,
    Untranslatable,
    Writer,
    distinct_parts,
    lambda_parts,
    parts_of_text,
)
from unacorda.query.engines.dialects.values import PLAIN, Values, Words

__all__ = [
    "SPARK",
    "quoted",
    "translate",
]

_SALT_PARTS = 2


def translate(
    sql: str, *, tables: Mapping[str, NamedTable], parameters: str = "", public: bool = False
) -> Translated:
    """A statement in Spark SQL; parameters: the view with its lists, p1, p2, ..., and `row`."""
    return statements.translate(sql, SPARK, tables=tables, parameters=parameters, public=public)


def quoted(name: str) -> str:
    """A name as a Spark identifier.

    >>> quoted("a`b c")
    '`a``b c`'
    """
    return "`" + name.replace("`", "``") + "`"


def _same(writer: Writer, node: exp.Expression) -> Typed:
    a, b = writer.value(node.this), writer.value(node.args["expression"])
    return Typed(f"({a.sql} <=> {b.sql})", "BOOLEAN")


def _distinct(writer: Writer, node: exp.Expression) -> Typed:
    return Typed(f"(NOT {_same(writer, node).sql})", "BOOLEAN")


def _collated(writer: Writer, node: exp.Expression) -> Typed:
    """By code point: what every text is to Spark where nothing else is said, as here."""
    if node.args["expression"].name != "C":
        raise Untranslatable("COLLATE")
    return writer.value(node.this)


def _sum_or_moved(writer: Writer, node: exp.Expression) -> Typed:
    write = INTERVALS if isinstance(node.args["expression"], exp.Interval) else NUMBERS[type(node)]
    return write(writer, node)


def _bound(writer: Writer, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]."""
    assert isinstance(writer, Values)
    operand, name, inner = lambda_parts(node)
    value = writer.value(operand)
    own = Typed(f"t{len(writer.names)}", value.type, value.fields)
    body = writer.naming(name, own).value(inner)
    return Typed(f"transform(array({value.sql}), {own.sql} -> {body.sql})[0]", body.type)


def _struct(writer: Writer, node: exp.Expression) -> Typed:
    fields = {part.this.name: writer.value(part.args["expression"]) for part in node.expressions}
    listed = ", ".join(f"'{name}', {value.sql}" for name, value in fields.items())
    return Typed(f"named_struct({listed})", "STRUCT", fields)


def _field(writer: Writer, node: exp.Expression) -> Typed:
    value, name = writer.value(node.this), node.args["expression"].name
    return Typed(f"{value.sql}.{quoted(name)}", value.fields[name].type)


def _exploded(writer: Writer, node: exp.Expression) -> Typed:
    """A row for each part of a text."""
    text, separator, most = parts_of_text(node)
    # Spark's separator is a regular expression: here one that stands for itself.
    itself = literal("\\Q" + separator.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    parts = f"slice(split({writer.value(text).sql}, {itself}, -1), 1, {most})"
    return Typed(f"explode({parts})", "TEXT")


def _count(writer: Writer, node: exp.Expression) -> Typed:
    counted = node.this
    if isinstance(counted, exp.Star):
        return Typed("count(*)", "BIGINT")
    if isinstance(counted, exp.Distinct):
        listed = ", ".join(writer.value(part).sql for part in distinct_parts(counted))
        return Typed(f"count(DISTINCT {listed})", "BIGINT")
    return Typed(f"count({writer.value(counted).sql})", "BIGINT")


def _sum(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    if value.type not in ("BIGINT", "HUGEINT"):
        raise Untranslatable("SUM of what is not whole")
    return Typed(f"sum(CAST({value.sql} AS DECIMAL(38,0)))", "HUGEINT")


def _hash(writer: Writer, node: exp.Expression) -> Typed:
    parts = [writer.value(part).sql for part in node.expressions]
    salted = parts[-_SALT_PARTS:] + parts[:-_SALT_PARTS]  # the salt seeds all that follows
    return Typed(f"xxhash64({', '.join(salted)})", "HASH")


SPARK = Dialect(
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
            exp.Collate: _collated,
            exp.Bracket: _bound,
            exp.Explode: _exploded,
            exp.Struct: _struct,
            exp.StructExtract: _field,
            exp.Count: _count,
            exp.Sum: _sum,
        },
        anonymous={"hash": _hash, **ANONYMOUS},
        qualified=False,
    ),
    lists=lambda name, _: quoted(name),
    semi_joins=True,
    nameless=True,
    by_place=False,
)
