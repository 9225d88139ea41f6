"""Typed values of another engine's SQL, and what differs between engines.

The language of expressions computes nothing that an engine could not: its numbers are doubles that
neither overflow nor are NaN, its dates are of the years 1 to 9999, and a text is matched with a
pattern before it is read (`expressions.conversions`). So a translation is by construct.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

__all__ = [
    "TYPES",
    "Dialect",
    "Sources",
    "Typed",
    "Untranslatable",
    "Values",
    "Writing",
    "distinct_parts",
    "given",
    "lambda_parts",
    "parts_of_text",
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


class Dialect(ABC):
    """How an engine writes values and statements, where it differs from others.

    types: its names of types. texts: where one text is in another, and whether it begins, ends with
    it or holds it, each as a form with both. writers: how it translates nodes of the tree; named:
    functions by a name that the parser does not know. qualified: whether columns are named with
    their relation, always. semi_joins: whether SEMI and ANTI are joins; else they are conditions.
    nameless: whether a SELECT in FROM needs no name. by_place: whether what is selected is grouped
    by its place. layer: what ends a SELECT in FROM that is named `layer`, so that its values are
    computed once, and not written out wherever they are used.
    """

    types: Mapping[str, str]
    texts: Mapping[type[object], str]
    writers: Mapping[type[object], Writing]
    named: Mapping[str, Writing]
    qualified: bool
    semi_joins: bool
    nameless: bool
    by_place: bool
    layer: str = ""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A name."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """A text."""

    @abstractmethod
    def number(self, value: float) -> str:
        """A double."""

    @abstractmethod
    def moment(self, iso: str, kind: str) -> str:
        """A date or an instant."""

    @abstractmethod
    def whole(self, value: int) -> str:
        """A whole number."""

    @abstractmethod
    def parameter_table(self, parameters: str, types: tuple[str, ...]) -> str:
        """The relation whose columns p1, p2, ... are lists of these types, with `row` from 0 on."""

    @abstractmethod
    def let(self, value: str, body: Callable[[str], str], *, name: str = "x") -> str:
        """SQL that uses a value several times, under a name where it is long."""

    @abstractmethod
    def converted(self, text: str, kind: str) -> str:
        """A number, date or instant out of a text of digits; NULL where it says none."""

    @abstractmethod
    def pattern_group(self, text: str, pattern: str, group: int) -> str:
        r"""A group of a pattern between \A and \z in a text."""

    @abstractmethod
    def trimmed(self, text: str, signs: str, side: str) -> str:
        """A text without these signs at BOTH of its ends, the LEADING or the TRAILING one."""

    @abstractmethod
    def near(self, value: str) -> str:
        """The whole double next to a double, of two the even one."""

    @abstractmethod
    def divided(self, a: str, b: str) -> str:
        """The quotient of two whole numbers, rounded towards 0."""

    @abstractmethod
    def part(self, name: str, moment: str) -> str:
        """A part of a date or instant, as DuckDB names and counts them, as a whole number."""

    @abstractmethod
    def days(self, moment: str) -> str:
        """Days since the beginning of 1970."""

    @abstractmethod
    def micros(self, instant: str) -> str:
        """Microseconds since the beginning of 1970."""

    @abstractmethod
    def instant(self, micros: str) -> str:
        """The instant so many microseconds after the beginning of 1970."""

    @abstractmethod
    def truncated(self, instant: str, unit: str) -> str:
        """The beginning of a unit."""

    @abstractmethod
    def moved(self, instant: str, amount: int, unit: str) -> str:
        """An instant so many units later."""

    @abstractmethod
    def last_day(self, moment: str) -> str:
        """The last day of its month."""

    def level(self, a: Typed, b: Typed) -> str:
        """Whether two values are the same, NULL and NULL too."""
        return f"({a.sql} IS NOT DISTINCT FROM {b.sql})"

    def counted(self, parts: list[str]) -> str:
        """How many different values there are, or combinations of them, without any NULL."""
        return f"count(DISTINCT {', '.join(parts)})"

    def summed(self, whole: str) -> str:
        """The sum of whole numbers, in 128 bits."""
        return f"sum({self.cast(whole, 'HUGEINT')})"

    def text(self, sql: str) -> str:
        """A text that nothing has given a collation to, by code point."""
        return sql

    def cast(self, sql: str, kind: str) -> str:
        """A value as one of the types."""
        return f"CAST({sql} AS {self.types[kind]})"


@dataclass(frozen=True, slots=True)
class Sources:
    """The relations that a SELECT reads, in order: each with its name and its columns' types."""

    relations: tuple[tuple[str | None, Mapping[str, Typed]], ...]
    dialect: Dialect

    def column(self, name: str, relation: str | None) -> Typed:
        """A column by name."""
        quoted = self.dialect.quoted
        for known, columns in self.relations:
            if name in columns and relation in (None, known):
                said = known if self.dialect.qualified else relation
                prefix = "" if said is None else f"{quoted(said)}."
                return replace(columns[name], sql=prefix + quoted(name))
        raise Untranslatable(f"the column {name}")


@dataclass(frozen=True, slots=True)
class Values:
    """Translates the parts of a SELECT over its sources. names: of lambdas, with their values."""

    sources: Sources
    dialect: Dialect
    names: Mapping[str, Typed] = field(default_factory=dict)

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

    def naming(self, name: str, value: Typed) -> Values:
        """The same with one name more."""
        return replace(self, names={**self.names, name: value})


def lambda_parts(node: exp.Expression) -> tuple[exp.Expression, str, exp.Expression]:
    """Of list_transform([value], lambda name: body)[1] the value, the name and the body."""
    inner = node.this
    if not isinstance(inner, exp.Transform):
        raise Untranslatable("a list")
    (operand,), function = inner.this.expressions, inner.args["expression"]
    (name,) = function.expressions
    return operand, name.name, function.this


def parts_of_text(node: exp.Expression) -> tuple[exp.Expression, str, int]:
    """Of unnest(list_slice(string_split(text, separator), 1, most)) the text, the other two."""
    match node.this:
        case exp.Anonymous(
            expressions=[exp.Split() as split, exp.Literal(), exp.Literal() as most]
        ):
            return split.this, split.args["expression"].name, int(most.name)
        case _:
            raise Untranslatable("UNNEST")


def distinct_parts(node: exp.Expression) -> list[exp.Expression]:
    """What count(DISTINCT ...) counts: columns, or those of one tuple."""
    parts: list[exp.Expression] = node.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Tuple):
        return list(parts[0].expressions)
    return parts
