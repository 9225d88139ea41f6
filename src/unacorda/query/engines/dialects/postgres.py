"""Questions in PostgreSQL's SQL: texts under the collation "C", from their first mention on."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
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
    Untranslatable,
    Values,
    Writing,
    lambda_parts,
    parts_of_text,
)

__all__ = [
    "quoted",
    "text",
    "translate",
]

_LONGEST_NAME = 63
"""In bytes."""
_SHORT = 120
_DAY = 86_400_000_000
_STEPS = {"QUARTER": ("months", 3), "MINUTE": ("mins", 1), "SECOND": ("secs", 1)}
_TRIMS = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def translate(
    sql: str, *, tables: Mapping[str, NamedTable], before: int = 0, public: bool = False
) -> Translated:
    """A statement in PostgreSQL's SQL; before: how many parameters there are before its lists."""
    return statements.translate(
        sql, _Postgres(), tables=tables, parameters=str(before), public=public
    )


def quoted(name: str) -> str:
    """A name as an identifier; PostgreSQL would cut a longer one, and two could become one.

    >>> print(quoted('a"b c'))
    "a""b c"
    """
    if len(name.encode()) > _LONGEST_NAME:  # none of a table, and so one of this package's own
        name = hashlib.sha256(name.encode()).hexdigest()[:_LONGEST_NAME]
    return '"' + name.replace('"', '""') + '"'


def text(sql: str) -> str:
    """A text that nothing has given a collation to, by code point."""
    return f'({sql} COLLATE "C")'


def _literal(value: str) -> str:
    r"""Text as a literal, whatever standard_conforming_strings says.

    >>> print(_literal("it's"), _literal("a\\b"))
    (E'it''s' COLLATE "C") (E'a\\b' COLLATE "C")
    """
    if "\x00" in value:
        raise Untranslatable("a text with U+0000, which PostgreSQL does not have,")
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return text(f"E'{escaped}'")


def _let(writer: Values, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]: a column, or two, of a row of its own."""
    operand, name, inner = lambda_parts(node)
    alias = f"bound{len(writer.names)}"
    if isinstance(operand, exp.Struct):
        parts = {p.this.name: writer.value(p.args["expression"]) for p in operand.expressions}
        listed = ", ".join(f"{value.sql} AS {quoted(part)}" for part, value in parts.items())
        fields = {
            part: Typed(f"{alias}.{quoted(part)}", value.type) for part, value in parts.items()
        }
        own = Typed(alias, "STRUCT", fields)
    else:
        value = writer.value(operand)
        listed = f"{value.sql} AS v"
        own = Typed(f"{alias}.v", value.type)
    body = writer.naming(name, own).value(inner)
    return Typed(f"(SELECT {body.sql} FROM (SELECT {listed} OFFSET 0) AS {alias})", body.type)


def _exploded(writer: Values, node: exp.Expression) -> Typed:
    """A row for each part of a text."""
    whole, separator, most = parts_of_text(node)
    value, nothing = writer.value(whole).sql, _literal("")
    # A text of no length is one part to DuckDB, and none to PostgreSQL.
    parts = (
        f"CASE WHEN {value} = {nothing} THEN ARRAY[{nothing}] "
        f"ELSE (string_to_array({value}, {_literal(separator)}))[1:{most}] END"
    )
    return Typed(text(f"unnest({parts})"), "TEXT")


def _end(name: str, of_truth: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        of = of_truth if value.type == "BOOLEAN" else name
        return Typed(f"{of}({value.sql})", value.type, value.fields)

    return write


def _remainder(writer: Values, node: exp.Expression) -> Typed:
    """The remainder of a / b with the sign of a, exactly, as no function of doubles gives it.

    With |a| >= |b| a is a whole multiple of the last place of b, and so is the rest: it is taken of
    whole numbers without an end, the mantissas, and put together again.
    """
    a, b = writer.double(node.this), writer.double(node.args["expression"])
    zero, large = "'0'::float8", "'4611686018427387904'::float8"
    whole = " AND ".join(f"abs(p.{v}) < {large} AND p.{v} = floor(p.{v})" for v in "xy")
    listed = []
    for number, v in enumerate("xy", start=1):
        bits = f"('x' || encode(float8send(p.{v}), 'hex'))::bit(64)::bigint"
        exponent = f"(({bits} >> 52) & 2047)::int"
        listed += [
            f"({2**52} + ({bits} & {2**52 - 1}))::numeric AS m{number}",
            f"{exponent} AS e{number}",
        ]
    mantissas = f"(SELECT {', '.join(listed)} OFFSET 0) AS parts"
    scaled = "mod(m1 * power(2::numeric, (e1 - e2)::numeric), m2)::float8"
    rest = f"(SELECT {scaled} * (abs(p.y) / m2::float8) FROM {mantissas})"
    found = (
        f"CASE WHEN abs(p.x) < abs(p.y) THEN p.x "
        f"WHEN {whole} THEN (p.x::bigint % p.y::bigint)::float8 "
        f"WHEN p.x IS NOT NULL AND p.y IS NOT NULL THEN sign(p.x) * {rest} END"
    )
    operands = f"SELECT {a} AS x, NULLIF({b}, {zero}) AS y OFFSET 0"
    return Typed(f"(SELECT {found} FROM ({operands}) AS p)", "DOUBLE")


def _shifted(writer: Values, node: exp.Expression) -> Typed:
    value, by = writer.value(node.this), writer.value(node.args["expression"])
    shifted = f"{value.sql} >> CAST({by.sql} AS int)"
    if value.type != "HASH":
        return Typed(f"({shifted})", "BIGINT")
    mask = (1 << (64 - int(node.args["expression"].name))) - 1  # its first bit is no sign
    return Typed(f"(({shifted}) & '{mask}'::bigint)", "BIGINT")


def _whole(name: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        return value if value.type != "DOUBLE" else Typed(f"{name}({value.sql})", "DOUBLE")

    return write


def _hash(writer: Values, node: exp.Expression) -> Typed:
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


_TYPES: Mapping[str, str] = {
    "DOUBLE": "float8",
    "BIGINT": "bigint",
    "HUGEINT": "numeric",
    "TEXT": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}
_WRITERS: Mapping[type[object], Writing] = {
    **COMMON,
    exp.Bracket: _let,
    exp.Explode: _exploded,
    exp.Min: _end("min", "bool_and"),
    exp.Max: _end("max", "bool_or"),
    exp.Floor: _whole("floor"),
    exp.Ceil: _whole("ceil"),
    exp.Trunc: _whole("trunc"),
    exp.Mod: _remainder,
    exp.BitwiseRightShift: _shifted,
}
_NAMED: Mapping[str, Writing] = {"hash": _hash, **NAMED}


@final
class _Postgres(Dialect):
    types = _TYPES
    texts = MappingProxyType(
        {
            exp.StrPosition: "CAST(strpos({}, {}) AS bigint)",
            exp.StartsWith: "starts_with({}, {})",
            # A text of no length ends every text; right(x, 0) is one.
            exp.EndsWith: "(right({0}, length({1})) = {1})",
            exp.Contains: "(strpos({}, {}) > 0)",
        }
    )
    writers = _WRITERS
    named = _NAMED
    qualified = True
    semi_joins = False
    nameless = False
    by_place = True
    layer = " OFFSET 0"

    def quoted(self, name: str) -> str:
        return quoted(name)

    def literal(self, text: str) -> str:
        return _literal(text)

    def number(self, value: float) -> str:
        return f"'{value!r}'::float8"

    def moment(self, iso: str, kind: str) -> str:
        return f"'{iso}'::{self.types[kind]}"

    def whole(self, value: int) -> str:
        return f"'{value}'::{'bigint' if -(1 << 63) <= value < 1 << 63 else 'numeric'}"

    def parameter_table(self, parameters: str, types: tuple[str, ...]) -> str:
        first = int(parameters) + 1
        given = ", ".join(
            f"${number}::{self.types[kind]}[]" for number, kind in enumerate(types, start=first)
        )
        names = [f"p{number}" for number, _ in enumerate(types, start=1)]
        listed = [
            f"{text(name)} AS {name}" if kind == "TEXT" else name
            for name, kind in zip(names, types, strict=True)
        ]
        return (
            f'(SELECT {", ".join(listed)}, number - 1 AS "row" FROM unnest({given}) '
            f"WITH ORDINALITY AS listed({', '.join(names)}, number)) AS lists"
        )

    def let(self, value: str, body: Callable[[str], str], *, name: str = "x") -> str:
        """OFFSET 0 keeps the planner from putting the value back into its places."""
        if len(value) <= _SHORT:
            return body(value)
        return f"(SELECT {body(f'b{name}.v')} FROM (SELECT {value} AS v OFFSET 0) AS b{name})"

    def converted(self, text: str, kind: str) -> str:
        """A number that matched its pattern is one; of days there may be none."""
        if kind == "DOUBLE":
            return self.cast(text, kind)
        valid = f"pg_input_is_valid({{0}}, '{self.types[kind]}')"
        return self.let(
            text, lambda v: f"(CASE WHEN {valid.format(v)} THEN {self.cast(v, kind)} END)", name="r"
        )

    def pattern_group(self, text: str, pattern: str, group: int) -> str:
        own = "^" + pattern.removeprefix(r"\A").removesuffix(r"\z") + "$"
        return f"(regexp_match({text}, {_literal(own)}))[{group}]"

    def trimmed(self, text: str, signs: str, side: str) -> str:
        return f"{_TRIMS[side]}({text}, {signs})"

    def near(self, value: str) -> str:
        return f"round({value})"

    def level(self, a: Typed, b: Typed) -> str:
        """By texts that no value has, so that tables are joined by hashes."""
        match {a.type, b.type}:
            case kinds if kinds == {"TEXT"}:
                marked = [f"coalesce({_literal('.')} || {v.sql}, {_literal('')})" for v in (a, b)]
            case kinds if len(kinds) == 1 and kinds <= {"BIGINT", "BOOLEAN", "DATE"}:
                marked = [f"coalesce(CAST({v.sql} AS text), '')" for v in (a, b)]
            case _:
                return super().level(a, b)
        return f"({marked[0]} = {marked[1]})"

    def counted(self, parts: list[str]) -> str:
        return super().counted(parts if len(parts) == 1 else [f"({', '.join(parts)})"])

    def summed(self, whole: str) -> str:
        """PostgreSQL adds in 128 bits, and gives a number without an end."""
        return f"sum({whole})"

    def divided(self, a: str, b: str) -> str:
        return f"({a} / {b})"

    def part(self, name: str, moment: str) -> str:
        found = f"extract({name} FROM {moment})"
        return f"CAST({f'floor({found})' if name == 'SECOND' else found} AS bigint)"

    def days(self, moment: str) -> str:
        return f"CAST(CAST({moment} AS date) - '1970-01-01'::date AS bigint)"

    def micros(self, instant: str) -> str:
        """Exact, as PostgreSQL extracts decimals."""
        return f"CAST(extract(EPOCH FROM {instant}) * 1000000 AS bigint)"

    def instant(self, micros: str) -> str:
        def made(v: str) -> str:
            return (
                f"('1970-01-01'::timestamp + CAST({v} / {_DAY} AS int) * interval '1 day' "
                f"+ ({v} % {_DAY}) * interval '1 microsecond')"
            )

        return self.let(micros, made)

    def truncated(self, instant: str, unit: str) -> str:
        return f"date_trunc('{unit.lower()}', {instant})"

    def moved(self, instant: str, amount: int, unit: str) -> str:
        name, size = _STEPS.get(unit, (f"{unit.lower()}s", 1))
        return f"({instant} + interval '{amount * size} {name}')"

    def last_day(self, moment: str) -> str:
        month = f"date_trunc('month', CAST({moment} AS timestamp))"
        return f"CAST({month} + interval '1 month' - interval '1 day' AS date)"

    def text(self, sql: str) -> str:
        return text(sql)
