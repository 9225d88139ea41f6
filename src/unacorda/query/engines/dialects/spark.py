"""Questions in Spark SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import final

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.moments import NAMED
from unacorda.query.engines.dialects.statements import COMMON, NamedTable, Translated
from unacorda.query.engines.dialects.typed import (
    Dialect,
    Typed,
    Values,
    Writing,
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


def _let(writer: Values, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]."""
    operand, name, inner = lambda_parts(node)
    alias = f"t{len(writer.names)}"
    if isinstance(operand, exp.Struct):
        parts = {p.this.name: writer.value(p.args["expression"]) for p in operand.expressions}
        listed = ", ".join(f"'{part}', {value.sql}" for part, value in parts.items())
        fields = {
            part: Typed(f"{alias}.{quoted(part)}", value.type) for part, value in parts.items()
        }
        value, own = Typed(f"named_struct({listed})", "STRUCT"), Typed(alias, "STRUCT", fields)
    else:
        value = writer.value(operand)
        own = Typed(alias, value.type)
    body = writer.naming(name, own).value(inner)
    return Typed(f"transform(array({value.sql}), {own.sql} -> {body.sql})[0]", body.type)


def _exploded(writer: Values, node: exp.Expression) -> Typed:
    """A row for each part of a text."""
    text, separator, most = parts_of_text(node)
    # Spark's separator is a regular expression: here one that stands for itself.
    itself = _literal("\\Q" + separator.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    parts = f"slice(split({writer.value(text).sql}, {itself}, -1), 1, {most})"
    return Typed(f"explode({parts})", "TEXT")


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
    exp.Bracket: _let,
    exp.Explode: _exploded,
    exp.Mod: _remainder,
    exp.BitwiseRightShift: _shifted,
}
_NAMED: Mapping[str, Writing] = {"hash": _hash, **NAMED}


@final
class _Spark(Dialect):
    types = _TYPES
    texts = MappingProxyType(
        {
            exp.StrPosition: "instr({}, {})",
            exp.StartsWith: "startswith({}, {})",
            exp.EndsWith: "endswith({}, {})",
            exp.Contains: "contains({}, {})",
        }
    )
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

    def parameter_table(self, parameters: str, types: tuple[str, ...]) -> str:
        del types
        return quoted(parameters)

    def let(self, value: str, body: Callable[[str], str], *, name: str = "x") -> str:
        if len(value) <= _SHORT:
            return body(value)
        return f"transform(array({value}), {name} -> {body(name)})[0]"

    def converted(self, text: str, kind: str) -> str:
        return f"TRY_CAST({text} AS {self.types[kind]})"

    def pattern_group(self, text: str, pattern: str, group: int) -> str:
        return f"regexp_extract({text}, {_literal(pattern)}, {group})"

    def trimmed(self, text: str, signs: str, side: str) -> str:
        return f"trim({side} {signs} FROM {text})"

    def near(self, value: str) -> str:
        return f"rint({value})"

    def level(self, a: Typed, b: Typed) -> str:
        return f"({a.sql} <=> {b.sql})"

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
