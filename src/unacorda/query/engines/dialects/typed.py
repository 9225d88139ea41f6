"""Typed values of another engine's SQL, and what differs between engines.

The language of expressions computes nothing that an engine could not: its numbers are doubles that
neither overflow nor are NaN, its dates are of the years 1 to 9999, and a text is matched with a
pattern before it is read (`expressions.conversions`). So a translation is by construct.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

__all__ = [
    "TYPES",
    "Dialect",
    "Typed",
    "Untranslatable",
    "Values",
    "Writing",
    "chain",
    "form",
    "form_of_doubles",
    "form_of_same_type",
    "given",
    "united",
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
    *("date_part_boundary", "scale", "group", "null_if_pos_overflow"),
}
"""What may be said in a node: what is written again, or follows from DuckDB's dialect."""


class Untranslatable(Exception):
    """A construct that the other engine does not have; name: as it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class Typed:
    """SQL of the other engine that binds as tightly as an atom, and what it holds.

    type: DOUBLE, BIGINT, HUGEINT, DECIMAL, WIDE (a decimal of more than 18 digits, all of them
    whole), TEXT, BOOLEAN, DATE, TIMESTAMP, HASH (64 bits without a sign), NULL, or STRUCT with its
    fields.
    """

    sql: str
    type: str
    fields: Mapping[str, Typed] = field(default_factory=dict)


def given(node: exp.Expression) -> set[str]:
    """The parts of a node that say something."""
    return {name for name, part in node.args.items() if part not in (None, False, [])}


def united(*values: Typed) -> str:
    """The type that holds all of these."""
    types = [value.type for value in values if value.type != "NULL"]
    for wide in ("DOUBLE", "HUGEINT"):
        if wide in types and set(types) <= {"DOUBLE", "HUGEINT", "BIGINT", "DECIMAL"}:
            return wide
    return types[0] if types else "NULL"


Writing = Callable[["Values", exp.Expression], Typed]
"""How one kind of node is translated."""
_LONG = 120
"""Characters beyond which a value is written once, under a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    r"""How an engine writes values and statements, where it differs from others.

    types: its names of types. writers: how it translates nodes of the tree; named: functions by a
    name that the parser does not know. qualified: whether columns are named with their relation,
    always. semi_joins: whether SEMI and ANTI are joins; else they are conditions. nameless: whether
    a SELECT in FROM needs no name. by_place: whether what is selected is grouped by its place.
    layer: what ends a SELECT in FROM that is named `layer`, so that its values are computed once,
    and not written out wherever they are used.

    All others write SQL:

    - quoted, literal, number, whole: a name, a text, a double, a whole number. moment: a date or an
      instant, of its text and its type.
    - parameter_table: the relation whose columns p1, p2, ... are lists of these types, with `row`
      from 0 on.
    - bound: what uses a value under a name, of the value, the name and the use. bound_value: how
      the value stands there, and bound_name: how it is called. bound_fields: a value of several,
      by name.
    - exploded: a row for each part of a text, of its separator and the most parts.
    - converted: a number, date or instant out of a text of digits; NULL where it says none.
    - pattern_group: a group of a pattern between \A and \z in a text. trimmed: a text without
      these signs at BOTH of its ends, the LEADING or the TRAILING one. text: a text that nothing
      has given a collation to, by code point.
    - near: the whole double next to a double, of two the even one. divided: the quotient of two
      whole numbers, rounded towards 0.
    - part: a part of a date or instant, as DuckDB names and counts them, as a whole number. days,
      micros: since the beginning of 1970; instant: the one so many microseconds after it.
      truncated: the beginning of a unit. moved: an instant so many units later. last_day: that of a
      month.
    - same: whether two values are the same, NULL and NULL too. count_distinct: how many different
      values there are, or combinations of them, without any NULL. total: the sum of whole numbers,
      in 128 bits.
    """

    types: Mapping[str, str]
    writers: Mapping[type[object], Writing]
    named: Mapping[str, Writing]
    qualified: bool
    semi_joins: bool
    nameless: bool
    by_place: bool
    layer: str = ""
    quoted: Callable[[str], str]
    literal: Callable[[str], str]
    number: Callable[[float], str]
    whole: Callable[[int], str]
    moment: Callable[[str, str], str]
    parameter_table: Callable[[str, tuple[str, ...]], str]
    bound: Callable[[str, str, str], str]
    bound_value: Callable[[str], str]
    bound_name: Callable[[str], str]
    bound_fields: Callable[[Mapping[str, str]], str]
    exploded: Callable[[str, str, int], str]
    converted: Callable[[str, str], str]
    pattern_group: Callable[[str, str, int], str]
    trimmed: Callable[[str, str, str], str]
    near: Callable[[str], str]
    divided: Callable[[str, str], str]
    part: Callable[[str, str], str]
    days: Callable[[str], str]
    micros: Callable[[str], str]
    instant: Callable[[str], str]
    truncated: Callable[[str, str], str]
    moved: Callable[[str, int, str], str]
    last_day: Callable[[str], str]
    same: Callable[[Typed, Typed], str]
    count_distinct: Callable[[Sequence[str]], str]
    total: Callable[[str], str]
    text: Callable[[str], str]

    def cast(self, sql: str, kind: str) -> str:
        """A value as one of the types."""
        return f"CAST({sql} AS {self.types[kind]})"

    def let(self, value: str, body: Callable[[str], str], *, name: str = "x") -> str:
        """SQL that uses a value several times, under a name where it is long."""
        if len(value) <= _LONG:
            return body(value)
        return self.bound(self.bound_value(value), f"b{name}", body(self.bound_name(f"b{name}")))


@dataclass(frozen=True, slots=True)
class Values:
    """Translates the parts of a SELECT.

    relations: those that it reads, in order, each with its name and its columns' types. names: of
    lambdas, with their values.
    """

    relations: Sequence[tuple[str | None, Mapping[str, Typed]]]
    dialect: Dialect
    names: Mapping[str, Typed] = field(default_factory=dict)

    def column(self, name: str, relation: str | None) -> Typed:
        """A column by name."""
        quoted = self.dialect.quoted
        for known, columns in self.relations:
            if name in columns and relation in (None, known):
                said = known if self.dialect.qualified else relation
                prefix = "" if said is None else f"{quoted(said)}."
                return replace(columns[name], sql=prefix + quoted(name))
        raise Untranslatable(f"the column {name}")

    def value(self, node: object) -> Typed:
        """A part with its type; Untranslatable, naming what has no equal."""
        write = self.dialect.writers.get(type(node))
        if write is None or not isinstance(node, exp.Expression) or not given(node) <= _PARTS:
            raise Untranslatable(type(node).__name__.upper())
        return write(self, node)

    def double(self, node: object) -> str:
        """A part that is a number, as a double."""
        return self.as_double(self.value(node))

    def as_double(self, value: Typed) -> str:
        """A number as a double."""
        if value.type not in ("DOUBLE", "BIGINT", "HASH", "NULL"):
            raise Untranslatable(f"arithmetic of {value.type} and a number")
        return value.sql if value.type == "DOUBLE" else self.dialect.cast(value.sql, "DOUBLE")


def form(sql: str, kind: str, *parts: str) -> Writing:
    """A form that parts of a node are put into."""
    return lambda writer, node: Typed(
        sql.format(*(writer.value(node.args[part]).sql for part in parts)), kind
    )


def form_of_doubles(sql: str, *parts: str) -> Writing:
    """The same of numbers, all of them as doubles, which gives a double."""
    return lambda writer, node: Typed(
        sql.format(*(writer.double(node.args[part]) for part in parts)), "DOUBLE"
    )


def form_of_same_type(sql: str) -> Writing:
    """A form that a node's operand is put into, whose type it has."""

    def write(writer: Values, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        return replace(value, sql=sql.format(value.sql))

    return write


def chain(sign: str, kind: str) -> Writing:
    """All operands of an operator in one pair of brackets, however many there are."""

    def write(writer: Values, node: exp.Expression) -> Typed:
        waiting: list[object] = [node]
        found = []
        while waiting:
            part = waiting.pop()
            if type(part) is type(node) and isinstance(part, exp.Expression):
                waiting += [part.args["expression"], part.this]
            else:
                found.append(writer.value(part).sql)
        return Typed(f"({f' {sign} '.join(found)})", kind)

    return write
