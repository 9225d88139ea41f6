"""Values that engines write alike: columns, truth, choices, aggregates and windows."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from unacorda.query.engines.dialects.typed import (
    Refused,
    Span,
    Typed,
    Untranslatable,
    Writer,
    Writing,
    given,
    hull,
    united,
)

__all__ = [
    "PLAIN",
    "TYPES",
    "Sources",
    "Values",
    "Words",
    "window",
]

TYPES = {
    "DOUBLE": "DOUBLE",
    "FLOAT": "DOUBLE",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "UTINYINT": "BIGINT",
    "UINT": "BIGINT",
    "UBIGINT": "UBIGINT",
    "INT128": "HUGEINT",
    "TEXT": "TEXT",
    "VARCHAR": "TEXT",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP",
}
"""From sqlglot's names of DuckDB's types."""

_PARTS = {
    *("this", "expression", "expressions", "table", "is_string", "to", "ifs", "default"),
    *("low", "high", "decimals", "substr", "start", "length", "delimiter", "part_index"),
    *("replacement", "fill_pattern", "is_left", "position", "unit", "alias", "over", "order"),
    *("partition_by", "big_int", "value_constructor", "ignore_nulls", "safe", "coalesce", "typed"),
    *("date_part_boundary", "scale"),
}
"""What may be said in a node: what is written again, or follows from DuckDB's dialect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How an engine writes values.

    quoted: a name. writers: by the node of the tree; anonymous: by the name of a function that the
    parser does not know. qualified: whether columns are named with their relation, always.
    """

    quoted: Callable[[str], str]
    writers: Mapping[type[object], Writing]
    anonymous: Mapping[str, Writing]
    qualified: bool


@dataclass(frozen=True, slots=True)
class Sources:
    """The relations that a SELECT reads, in order: each with its name and its columns' types."""

    relations: tuple[tuple[str | None, Mapping[str, Typed]], ...]
    words: Words

    def column(self, name: str, relation: str | None) -> Typed:
        """A column by name."""
        quoted = self.words.quoted
        for known, columns in self.relations:
            if name in columns and relation in (None, known):
                said = known if self.words.qualified else relation
                prefix = "" if said is None else f"{quoted(said)}."
                return replace(columns[name], sql=prefix + quoted(name))
        raise Untranslatable(f"the column {name}")


@dataclass(frozen=True, slots=True)
class Values:
    """Translates the parts of a SELECT over its sources. names: of lambdas, with their values."""

    sources: Sources
    words: Words
    names: Mapping[str, Typed] = field(default_factory=dict)

    def value(self, node: object) -> Typed:
        """A part with its type; Untranslatable, naming what has no equal."""
        write = self.words.writers.get(type(node))
        if isinstance(write, Refused):
            raise Untranslatable(write.name)
        if write is None or not isinstance(node, exp.Expression) or not given(node) <= _PARTS:
            raise Untranslatable(type(node).__name__.upper())
        return write(self, node)

    def naming(self, name: str, value: Typed) -> Values:
        """The same with one name more."""
        return replace(self, names={**self.names, name: value})


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
    return value if value.sql.startswith("(") else replace(value, sql=f"({value.sql})")


def _compared(sign: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        a, b = writer.value(node.this), writer.value(node.args["expression"])
        return Typed(f"({a.sql} {sign} {b.sql})", "BOOLEAN")

    return write


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
    cut = _cut(node)
    if cut is not None:
        return writer.value(cut)
    subject = node.args.get("this")
    head = "" if subject is None else f" {writer.value(subject).sql}"
    arms = [(writer.value(arm.this), writer.value(arm.args["true"])) for arm in node.args["ifs"]]
    default = node.args.get("default")
    last = None if default is None else writer.value(default)
    whens = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in arms)
    results = [then for _, then in arms] + ([] if last is None else [last])
    tail = "" if last is None else f" ELSE {last.sql}"
    return Typed(f"(CASE{head} {whens}{tail} END)", united(*results), span=hull(*results))


def _cut(node: exp.Expression) -> exp.Expression | None:
    """GREATEST(LEAST(x, high), low), where it is written as a CASE: see `expressions.choices`."""
    ifs, high = node.args["ifs"], node.args.get("default")
    if (
        node.args.get("this") is not None
        or len(ifs) != 2
        or not isinstance(ifs[0].this, exp.Between)
    ):
        return None
    inside = ifs[0].this
    x, low = inside.this, inside.args["low"]
    least, most = _literal(low), _literal(inside.args["high"])
    if least is None or most is None or least > most:
        return None
    same = (inside.args["high"], ifs[0].args["true"], ifs[1].this, ifs[1].args["true"])
    if same != (high, x, exp.LT(this=x.copy(), expression=low.copy()), low):
        return None
    smaller = exp.Least(this=x.copy(), expressions=[inside.args["high"].copy()])
    return exp.Greatest(this=smaller, expressions=[low.copy()])


def _literal(node: exp.Expression) -> float | None:
    """A number that is written out."""
    match node:
        case exp.Paren():
            return _literal(node.this)
        case exp.Neg():
            found = _literal(node.this)
            return None if found is None else -found
        case exp.Literal(is_string=False):
            return float(node.name)
        case _:
            return None


def _coalesce(writer: Writer, node: exp.Expression) -> Typed:
    values = [writer.value(part) for part in (node.this, *node.expressions)]
    listed = ", ".join(value.sql for value in values)
    return Typed(f"coalesce({listed})", united(*values), span=hull(*values))


# ---- aggregates and windows --------------------------------------------------------------------


def _end(name: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        return replace(value, sql=f"{name}({value.sql})")

    return write


def _filtered(writer: Writer, node: exp.Expression) -> Typed:
    value, condition = writer.value(node.this), writer.value(node.args["expression"].this)
    return replace(value, sql=f"{value.sql} FILTER (WHERE {condition.sql})")


def _window(writer: Writer, node: exp.Expression) -> Typed:
    value, alias = writer.value(node.this), node.args.get("alias")
    assert isinstance(writer, Values)
    over = f"({window(writer, node)})" if alias is None else writer.words.quoted(alias.name)
    return replace(value, sql=f"{value.sql} OVER {over}")


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


_SHARE = Span(low=-64, least=0.0, most=1.0)
"""Of a quotient of two whole numbers below 2^64."""


def _place(name: str, span: Span | None = None) -> Writing:
    kind = "BIGINT" if span is None else "DOUBLE"
    return lambda _, __: Typed(f"{name}()", kind, span=span)


def _anonymous(writer: Writer, node: exp.Expression) -> Typed:
    assert isinstance(writer, Values)
    name = node.name.lower()
    if name not in writer.words.anonymous:
        raise Untranslatable(name.upper())
    return writer.words.anonymous[name](writer, node)


PLAIN: dict[type[object], Writing] = {
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
    exp.RowNumber: _place("row_number"),
    exp.Rank: _place("rank"),
    exp.DenseRank: _place("dense_rank"),
    exp.CumeDist: _place("cume_dist", _SHARE),
    exp.PercentRank: _place("percent_rank", _SHARE),
    exp.Anonymous: _anonymous,
}
"""By the node of the tree."""
