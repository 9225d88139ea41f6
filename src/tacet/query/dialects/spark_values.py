"""Values in Spark: columns, truth, choices, aggregates and windows; the tables hold the rest."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tacet.query.dialects.spark_casts import CASTS
from tacet.query.dialects.spark_moments import ANONYMOUS, INTERVALS, MOMENTS
from tacet.query.dialects.spark_numbers import NUMBERS
from tacet.query.dialects.spark_texts import TEXTS, literal
from tacet.query.dialects.typed import Typed, Untranslatable, Writer, Writing, given, united

__all__ = ["Sources", "Values", "quoted"]

_SALT_PARTS = 2
_PARTS = {
    *("this", "expression", "expressions", "table", "is_string", "to", "ifs", "default"),
    *("low", "high", "decimals", "substr", "start", "length", "delimiter", "part_index"),
    *("replacement", "fill_pattern", "is_left", "position", "unit", "alias", "over", "order"),
    *("partition_by", "big_int", "value_constructor", "ignore_nulls", "safe", "coalesce", "typed"),
    *("date_part_boundary", "scale"),
}
"""What may be said in a node: what is written again, or follows from DuckDB's dialect."""


def quoted(name: str) -> str:
    """A name as a Spark identifier.

    >>> quoted("a`b c")
    '`a``b c`'
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Sources:
    """The relations that a SELECT reads, in order: each with its name and its columns' types."""

    relations: tuple[tuple[str | None, Mapping[str, Typed]], ...] = ()

    def column(self, name: str, relation: str | None) -> Typed:
        """A column by name."""
        for known, columns in self.relations:
            if name in columns and relation in (None, known):
                found = columns[name]
                prefix = "" if relation is None else f"{quoted(relation)}."
                return Typed(prefix + quoted(name), found.type)
        raise Untranslatable(f"the column {name}")


@dataclass(frozen=True, slots=True)
class Values:
    """Translates the parts of a SELECT over its sources. names: of lambdas, with their values."""

    sources: Sources
    names: Mapping[str, Typed] = field(default_factory=dict)

    def value(self, node: object) -> Typed:
        """A part with its type; Untranslatable, naming what has no equal."""
        write = _WRITERS.get(type(node))
        if write is None or not isinstance(node, exp.Expression) or not given(node) <= _PARTS:
            raise Untranslatable(type(node).__name__.upper())
        return write(self, node)


def _column(writer: Writer, node: exp.Expression) -> Typed:
    assert isinstance(writer, Values)
    relation = node.args.get("table")
    name = node.name
    if relation is None and name in writer.names:
        return writer.names[name]
    return writer.sources.column(name, None if relation is None else relation.name)


def _identifier(writer: Writer, node: exp.Expression) -> Typed:
    assert isinstance(writer, Values)
    if node.name in writer.names:
        return writer.names[node.name]
    raise Untranslatable(f"the name {node.name}")


def _paren(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    return value if value.sql.startswith("(") else Typed(f"({value.sql})", value.type, value.fields)


def _compared(sign: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        a, b = writer.value(node.this), writer.value(node.args["expression"])
        return Typed(f"({a.sql} {sign} {b.sql})", "BOOLEAN")

    return write


def _distinct(writer: Writer, node: exp.Expression) -> Typed:
    a, b = writer.value(node.this), writer.value(node.args["expression"])
    return Typed(f"(NOT ({a.sql} <=> {b.sql}))", "BOOLEAN")


def _chain(sign: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
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


def _not(writer: Writer, node: exp.Expression) -> Typed:
    return Typed(f"(NOT {writer.value(node.this).sql})", "BOOLEAN")


def _is(writer: Writer, node: exp.Expression) -> Typed:
    if not isinstance(node.args["expression"], exp.Null):
        raise Untranslatable("IS")
    return Typed(f"({writer.value(node.this).sql} IS NULL)", "BOOLEAN")


def _between(writer: Writer, node: exp.Expression) -> Typed:
    value, low, high = (writer.value(node.args[part]).sql for part in ("this", "low", "high"))
    return Typed(f"({value} BETWEEN {low} AND {high})", "BOOLEAN")


def _in(writer: Writer, node: exp.Expression) -> Typed:
    choices = ", ".join(writer.value(choice).sql for choice in node.expressions)
    return Typed(f"({writer.value(node.this).sql} IN ({choices}))", "BOOLEAN")


def _case(writer: Writer, node: exp.Expression) -> Typed:
    subject = node.args.get("this")
    head = "" if subject is None else f" {writer.value(subject).sql}"
    arms = [(writer.value(arm.this), writer.value(arm.args["true"])) for arm in node.args["ifs"]]
    default = node.args.get("default")
    last = None if default is None else writer.value(default)
    whens = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in arms)
    results = [then for _, then in arms] + ([] if last is None else [last])
    tail = "" if last is None else f" ELSE {last.sql}"
    return Typed(f"(CASE{head} {whens}{tail} END)", united(*results))


def _coalesce(writer: Writer, node: exp.Expression) -> Typed:
    values = [writer.value(part) for part in (node.this, *node.expressions)]
    return Typed(f"coalesce({', '.join(value.sql for value in values)})", united(*values))


def _collated(writer: Writer, node: exp.Expression) -> Typed:
    """By code point: what every text is to Spark where nothing else is said, as here."""
    if node.args["expression"].name != "C":
        raise Untranslatable("COLLATE")
    return writer.value(node.this)


def _sum_or_moved(writer: Writer, node: exp.Expression) -> Typed:
    write = INTERVALS if isinstance(node.args["expression"], exp.Interval) else NUMBERS[type(node)]
    return write(writer, node)


# ---- operands that are used twice --------------------------------------------------------------


def _bound(writer: Writer, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]."""
    assert isinstance(writer, Values)
    inner = node.this
    if not isinstance(inner, exp.Transform):
        raise Untranslatable("a list")
    (operand,), function = inner.this.expressions, inner.args["expression"]
    value, (name,) = writer.value(operand), function.expressions
    own = Typed(f"t{len(writer.names)}", value.type, value.fields)
    inside = Values(writer.sources, {**writer.names, name.name: own})
    body = inside.value(function.this)
    return Typed(f"transform(array({value.sql}), {own.sql} -> {body.sql})[0]", body.type)


def _struct(writer: Writer, node: exp.Expression) -> Typed:
    parts = [(part.this.name, writer.value(part.args["expression"])) for part in node.expressions]
    listed = ", ".join(f"'{name}', {value.sql}" for name, value in parts)
    fields = {name: value.type for name, value in parts}
    return Typed(f"named_struct({listed})", "STRUCT", fields)


def _field(writer: Writer, node: exp.Expression) -> Typed:
    value, name = writer.value(node.this), node.args["expression"].name
    return Typed(f"{value.sql}.{quoted(name)}", value.fields[name])


def _exploded(writer: Writer, node: exp.Expression) -> Typed:
    """unnest(list_slice(string_split(text, separator), 1, most)): a row for each part."""
    match node.this:
        case exp.Anonymous(
            expressions=[exp.Split() as split, exp.Literal(), exp.Literal() as most]
        ):
            text, separator = writer.value(split.this), split.args["expression"]
        case _:
            raise Untranslatable("UNNEST")
    # Spark's separator is a regular expression: here one that stands for itself.
    itself = literal("\\Q" + separator.name.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    parts = f"slice(split({text.sql}, {itself}, -1), 1, {int(most.name)})"
    return Typed(f"explode({parts})", "TEXT")


# ---- aggregates and windows --------------------------------------------------------------------


def _count(writer: Writer, node: exp.Expression) -> Typed:
    counted = node.this
    if isinstance(counted, exp.Star):
        return Typed("count(*)", "BIGINT")
    if isinstance(counted, exp.Distinct):
        parts = counted.expressions
        if len(parts) == 1 and isinstance(parts[0], exp.Tuple):
            parts = parts[0].expressions
        listed = ", ".join(writer.value(part).sql for part in parts)
        return Typed(f"count(DISTINCT {listed})", "BIGINT")
    return Typed(f"count({writer.value(counted).sql})", "BIGINT")


def _sum(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    if value.type not in ("BIGINT", "HUGEINT"):
        raise Untranslatable("SUM of what is not whole")
    return Typed(f"sum(CAST({value.sql} AS DECIMAL(38,0)))", "HUGEINT")


def _end(name: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        return Typed(f"{name}({value.sql})", value.type)

    return write


def _filtered(writer: Writer, node: exp.Expression) -> Typed:
    value, condition = writer.value(node.this), writer.value(node.args["expression"].this)
    return Typed(f"{value.sql} FILTER (WHERE {condition.sql})", value.type)


def _window(writer: Writer, node: exp.Expression) -> Typed:
    value, alias = writer.value(node.this), node.args.get("alias")
    over = f"({window(writer, node)})" if alias is None else quoted(alias.name)
    return Typed(f"{value.sql} OVER {over}", value.type)


def window(writer: Writer, node: exp.Expression) -> str:
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


def _place(name: str, type: str) -> Writing:
    return lambda _, __: Typed(f"{name}()", type)


def _anonymous(writer: Writer, node: exp.Expression) -> Typed:
    name = node.name.lower()
    if name == "hash":
        parts = [writer.value(part).sql for part in node.expressions]
        salted = parts[-_SALT_PARTS:] + parts[:-_SALT_PARTS]  # the salt seeds all that follows
        return Typed(f"xxhash64({', '.join(salted)})", "HASH")
    if name not in ANONYMOUS:
        raise Untranslatable(name.upper())
    return ANONYMOUS[name](writer, node)


_WRITERS: dict[type[object], Writing] = {
    **TEXTS,
    **MOMENTS,
    **CASTS,
    **NUMBERS,
    exp.Add: _sum_or_moved,
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
    exp.NullSafeEQ: _compared("<=>"),
    exp.NullSafeNEQ: _distinct,
    exp.And: _chain("AND"),
    exp.Or: _chain("OR"),
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Collate: _collated,
    exp.Bracket: _bound,
    exp.Explode: _exploded,
    exp.Struct: _struct,
    exp.StructExtract: _field,
    exp.Count: _count,
    exp.Sum: _sum,
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
}
