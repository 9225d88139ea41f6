"""Parts of a SELECT that all engines write alike: columns, truth, choices, aggregates, windows."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from unacorda.query.engines.dialects.functions import CASTS, NUMBERS, TEXTS
from unacorda.query.engines.dialects.moments import DATES
from unacorda.query.engines.dialects.typed import (
    Typed,
    Untranslatable,
    Values,
    Writing,
    united,
)

__all__ = ["COMMON", "window"]


def _column(writer: Values, node: exp.Expression) -> Typed:
    relation = node.args.get("table")
    name = node.name
    if relation is None and name in writer.names:
        return writer.names[name]
    return writer.sources.column(name, None if relation is None else relation.name)


def _identifier(writer: Values, node: exp.Expression) -> Typed:
    if node.name in writer.names:
        return writer.names[node.name]
    raise Untranslatable(f"the name {node.name}")


def _paren(writer: Values, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    return value if value.sql.startswith("(") else replace(value, sql=f"({value.sql})")


def _compared(sign: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        a, b = writer.value(node.this), writer.value(node.args["expression"])
        return Typed(f"({a.sql} {sign} {b.sql})", "BOOLEAN")

    return write


def _chain(sign: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        waiting: list[object] = [node]
        found = []
        while waiting:
            part = waiting.pop()
            if type(part) is type(node) and isinstance(part, exp.Expression):
                waiting += [part.args["expression"], part.this]
            else:
                found.append(writer.value(part).sql)
        return Typed(f"({f' {sign} '.join(found)})", "BOOLEAN")

    return write


def _not(writer: Values, node: exp.Expression) -> Typed:
    return Typed(f"(NOT {writer.value(node.this).sql})", "BOOLEAN")


def _is(writer: Values, node: exp.Expression) -> Typed:
    if not isinstance(node.args["expression"], exp.Null):
        raise Untranslatable("IS")
    return Typed(f"({writer.value(node.this).sql} IS NULL)", "BOOLEAN")


def _between(writer: Values, node: exp.Expression) -> Typed:
    value, low, high = (writer.value(node.args[part]).sql for part in ("this", "low", "high"))
    return Typed(f"({value} BETWEEN {low} AND {high})", "BOOLEAN")


def _in(writer: Values, node: exp.Expression) -> Typed:
    choices = ", ".join(writer.value(choice).sql for choice in node.expressions)
    return Typed(f"({writer.value(node.this).sql} IN ({choices}))", "BOOLEAN")


def _case(writer: Values, node: exp.Expression) -> Typed:
    subject = node.args.get("this")
    head = "" if subject is None else f" {writer.value(subject).sql}"
    arms = [(writer.value(arm.this), writer.value(arm.args["true"])) for arm in node.args["ifs"]]
    default = node.args.get("default")
    last = None if default is None else writer.value(default)
    whens = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in arms)
    results = [then for _, then in arms] + ([] if last is None else [last])
    tail = "" if last is None else f" ELSE {last.sql}"
    return Typed(f"(CASE{head} {whens}{tail} END)", united(*results))


def _coalesce(writer: Values, node: exp.Expression) -> Typed:
    values = [writer.value(part) for part in (node.this, *node.expressions)]
    listed = ", ".join(value.sql for value in values)
    return Typed(f"coalesce({listed})", united(*values))


# ---- aggregates and windows --------------------------------------------------------------------


def _end(name: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        return replace(value, sql=f"{name}({value.sql})")

    return write


def _filtered(writer: Values, node: exp.Expression) -> Typed:
    value, condition = writer.value(node.this), writer.value(node.args["expression"].this)
    return replace(value, sql=f"{value.sql} FILTER (WHERE {condition.sql})")


def _window(writer: Values, node: exp.Expression) -> Typed:
    value, alias = writer.value(node.this), node.args.get("alias")
    over = f"({window(writer, node)})" if alias is None else writer.dialect.quoted(alias.name)
    return replace(value, sql=f"{value.sql} OVER {over}")


def window(writer: Values, node: exp.Expression) -> str:
    """What stands in the brackets of a window. NULLs come last, as DuckDB sorts them."""
    parts = []
    if node.args.get("partition_by"):
        listed = ", ".join(writer.value(part).sql for part in node.args["partition_by"])
        parts.append(f"PARTITION BY {listed}")
    order = node.args.get("order")
    if order is not None:
        if any(part.args.get("desc") for part in order.expressions):
            raise Untranslatable("ORDER BY DESC")
        listed = ", ".join(
            f"{writer.value(part.this).sql} NULLS LAST" for part in order.expressions
        )
        parts.append(f"ORDER BY {listed}")
    return " ".join(parts)


def _place(name: str, kind: str) -> Writing:
    return lambda _, __: Typed(f"{name}()", kind)


def _anonymous(writer: Values, node: exp.Expression) -> Typed:
    name = node.name.lower()
    write = writer.dialect.named.get(name)
    if write is None:
        raise Untranslatable(name.upper())
    return write(writer, node)


COMMON: dict[type[object], Writing] = {
    exp.Column: _column,
    exp.Identifier: _identifier,
    exp.Paren: _paren,
    exp.Null: lambda _, __: Typed("NULL", "NULL"),
    exp.Boolean: lambda _, node: Typed("TRUE" if node.this else "FALSE", "BOOLEAN"),
    exp.EQ: _compared("="),
    exp.NEQ: _compared("<>"),
    exp.LT: _compared("<"),
    exp.LTE: _compared("<="),
    exp.GT: _compared(">"),
    exp.GTE: _compared(">="),
    exp.And: _chain("AND"),
    exp.Or: _chain("OR"),
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Min: _end("min"),
    exp.Max: _end("max"),
    exp.Filter: _filtered,
    exp.Window: _window,
    exp.RowNumber: _place("row_number", "BIGINT"),
    exp.Rank: _place("rank", "BIGINT"),
    exp.DenseRank: _place("dense_rank", "BIGINT"),
    exp.CumeDist: _place("cume_dist", "DOUBLE"),
    exp.PercentRank: _place("percent_rank", "DOUBLE"),
    exp.Anonymous: _anonymous,
    **NUMBERS,
    **TEXTS,
    **DATES,
    **CASTS,
}
"""By the node of the tree."""
