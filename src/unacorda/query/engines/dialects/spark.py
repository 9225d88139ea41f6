"""Questions in Spark SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.moments import NAMED
from unacorda.query.engines.dialects.statements import COMMON, NamedTable, Translated
from unacorda.query.engines.dialects.typed import (
    Dialect,
    Typed,
    Untranslatable,
    Values,
    Writing,
    distinct_parts,
    lambda_parts,
    parts_of_text,
)

__all__ = [
    "quoted",
    "translate",
]

_SALT_PARTS = 2
_SHORT = 120
_PARTS = {"ISODOW": "DOW_ISO", "ISOYEAR": "YEAROFWEEK"}


def translate(
    sql: str, *, tables: Mapping[str, NamedTable], parameters: str = "", public: bool = False
) -> Translated:
    """A statement in Spark SQL; parameters: the view with its lists, p1, p2, ..., and `row`."""
    return statements.translate(sql, _Spark(), tables=tables, parameters=parameters, public=public)


def quoted(name: str) -> str:
    """A name as a Spark identifier.

    >>> quoted("a`b c")
    '`a``b c`'
    """
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    r"""Text as a Spark literal.

    >>> print(_literal("it's"), _literal("a\\b"))
    'it\'s' 'a\\b'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _same(writer: Values, node: exp.Expression) -> Typed:
    a, b = writer.value(node.this), writer.value(node.args["expression"])
    return Typed(f"({a.sql} <=> {b.sql})", "BOOLEAN")


def _distinct(writer: Values, node: exp.Expression) -> Typed:
    return Typed(f"(NOT {_same(writer, node).sql})", "BOOLEAN")


def _bound(writer: Values, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]."""
    operand, name, inner = lambda_parts(node)
    value = writer.value(operand)
    own = Typed(f"t{len(writer.names)}", value.type, value.fields)
    body = writer.naming(name, own).value(inner)
    return Typed(f"transform(array({value.sql}), {own.sql} -> {body.sql})[0]", body.type)


def _struct(writer: Values, node: exp.Expression) -> Typed:
    fields = {part.this.name: writer.value(part.args["expression"]) for part in node.expressions}
    listed = ", ".join(f"'{name}', {value.sql}" for name, value in fields.items())
    return Typed(f"named_struct({listed})", "STRUCT", fields)


def _field(writer: Values, node: exp.Expression) -> Typed:
    value, name = writer.value(node.this), node.args["expression"].name
    if name not in value.fields:
        raise Untranslatable("a struct")
    return Typed(f"{value.sql}.{quoted(name)}", value.fields[name].type)


def _exploded(writer: Values, node: exp.Expression) -> Typed:
    """A row for each part of a text."""
    text, separator, most = parts_of_text(node)
    # Spark's separator is a regular expression: here one that stands for itself.
    itself = _literal("\\Q" + separator.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    parts = f"slice(split({writer.value(text).sql}, {itself}, -1), 1, {most})"
    return Typed(f"explode({parts})", "TEXT")


def _count(writer: Values, node: exp.Expression) -> Typed:
    counted = node.this
    if isinstance(counted, exp.Star):
        return Typed("count(*)", "BIGINT")
    if isinstance(counted, exp.Distinct):
        listed = ", ".join(writer.value(part).sql for part in distinct_parts(counted))
        return Typed(f"count(DISTINCT {listed})", "BIGINT")
    return Typed(f"count({writer.value(counted).sql})", "BIGINT")


def _sum(writer: Values, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    if value.type not in ("BIGINT", "HUGEINT"):
        raise Untranslatable("SUM of what is not whole")
    return Typed(f"sum(CAST({value.sql} AS DECIMAL(38,0)))", "HUGEINT")


def _remainder(writer: Values, node: exp.Expression) -> Typed:
    a, b = writer.double(node.this), writer.double(node.args["expression"])
    return Typed(f"try_mod({a}, {b})", "DOUBLE")


def _shifted(writer: Values, node: exp.Expression) -> Typed:
    value, by = writer.value(node.this), writer.value(node.args["expression"])
    name = "shiftrightunsigned" if value.type == "HASH" else "shiftright"
    return Typed(f"{name}({value.sql}, CAST({by.sql} AS INT))", "BIGINT")


def _hash(writer: Values, node: exp.Expression) -> Typed:
    parts = [writer.value(part).sql for part in node.expressions]
    salted = parts[-_SALT_PARTS:] + parts[:-_SALT_PARTS]  # the salt seeds all that follows
    return Typed(f"xxhash64({', '.join(salted)})", "HASH")


def _function(name: str, part: str, type: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        value, other = writer.value(node.this), writer.value(node.args[part])
        return Typed(f"{name}({value.sql}, {other.sql})", type)

    return write


_TYPES: Mapping[str, str] = {
    "DOUBLE": "DOUBLE",
    "BIGINT": "BIGINT",
    "HUGEINT": "DECIMAL(38,0)",
    "TEXT": "STRING",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
}
_WRITERS: Mapping[type[object], Writing] = {
    **COMMON,
    exp.NullSafeEQ: _same,
    exp.NullSafeNEQ: _distinct,
    exp.Bracket: _bound,
    exp.Explode: _exploded,
    exp.Struct: _struct,
    exp.StructExtract: _field,
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Mod: _remainder,
    exp.BitwiseRightShift: _shifted,
    exp.StrPosition: _function("instr", "substr", "BIGINT"),
    exp.StartsWith: _function("startswith", "expression", "BOOLEAN"),
    exp.EndsWith: _function("endswith", "expression", "BOOLEAN"),
    exp.Contains: _function("contains", "expression", "BOOLEAN"),
}
_NAMED: Mapping[str, Writing] = {"hash": _hash, **NAMED}


@final
class _Spark(Dialect):
    types = _TYPES
    near = "rint"
    writers = _WRITERS
    named = _NAMED
    qualified = False
    semi_joins = True
    nameless = True
    by_place = False

    def quoted(self, name: str) -> str:
        return quoted(name)

    def literal(self, text: str) -> str:
        return _literal(text)

    def number(self, value: float) -> str:
        return f"({value!r}D)" if value < 0 else f"{value!r}D"

    def moment(self, iso: str, kind: str) -> str:
        sign = "+" if len(iso.partition("-")[0]) > len("9999") else ""
        return f"{self.types[kind]}'{sign}{iso}'"

    def whole(self, value: int) -> str:
        size = abs(value + (value < 0))
        mark = "" if size < 1 << 31 else "L" if size < 1 << 63 else "BD"
        return f"({value}{mark})" if value < 0 else f"{value}{mark}"

    def lists(self, parameters: str, types: tuple[str, ...]) -> str:
        del types
        return quoted(parameters)

    def bound(self, value: str, body: Callable[[str], str], *, name: str = "x") -> str:
        if len(value) <= _SHORT:
            return body(value)
        return f"transform(array({value}), {name} -> {body(name)})[0]"

    def read(self, text: str, kind: str) -> str:
        return f"TRY_CAST({text} AS {self.types[kind]})"

    def matched(self, text: str, pattern: str, group: int) -> str:
        return f"regexp_extract({text}, {_literal(pattern)}, {group})"

    def trimmed(self, text: str, signs: str, side: str) -> str:
        return f"trim({side} {signs} FROM {text})"

    def divided(self, a: str, b: str) -> str:
        return f"({a} DIV {b})"

    def part(self, name: str, moment: str) -> str:
        match name:
            case "SECOND":
                return f"CAST(floor(extract(SECOND FROM {moment})) AS BIGINT)"
            case "DOW":
                return f"(CAST(extract(DOW FROM {moment}) AS BIGINT) - 1)"
            case _:
                return f"CAST(extract({_PARTS.get(name, name)} FROM {moment}) AS BIGINT)"

    def days(self, moment: str) -> str:
        return f"CAST(unix_date(CAST({moment} AS DATE)) AS BIGINT)"

    def micros(self, instant: str) -> str:
        return f"unix_micros(CAST({instant} AS TIMESTAMP))"

    def instant(self, micros: str) -> str:
        return f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)"

    def truncated(self, instant: str, unit: str) -> str:
        return f"CAST(date_trunc('{unit}', CAST({instant} AS TIMESTAMP)) AS TIMESTAMP_NTZ)"

    def moved(self, instant: str, amount: int, unit: str) -> str:
        return f"timestampadd({unit}, {amount}, {instant})"

    def last_day(self, moment: str) -> str:
        return f"last_day(CAST({moment} AS DATE))"
