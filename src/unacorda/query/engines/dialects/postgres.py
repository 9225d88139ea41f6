"""Questions in PostgreSQL's SQL: texts under the collation "C", from their first mention on."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.values import (
    COMMON,
    Typed,
    Untranslatable,
    Values,
    Writing,
    forms,
    rounded,
)

_LONGEST_NAME = 63
"""In bytes."""
_DAY = 86_400_000_000
_STEPS = {"QUARTER": ("months", 3), "MINUTE": ("mins", 1), "SECOND": ("secs", 1)}
_HASHED = ("BIGINT", "TEXT", "DATE", "BOOLEAN", "DECIMAL", "WIDE", "HUGEINT")


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


def _end(name: str, of_truth: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        return Typed(f"{of_truth if value.type == 'BOOLEAN' else name}({value.sql})", value.type)

    return write


def _remainder(writer: Values, node: exp.Expression) -> str:
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
    return f"(SELECT {found} FROM ({operands}) AS p)"


def _shifted(writer: Values, node: exp.Expression) -> str:
    value, by = writer.value(node.this), writer.sql(node.args["expression"])
    shifted = f"({value.sql} >> CAST({by} AS int))"
    if value.type != "HASH":
        return shifted
    mask = (1 << (64 - int(node.args["expression"].name))) - 1  # its first bit is no sign
    return f"({shifted} & '{mask}'::bigint)"


def _matched(writer: Values, node: exp.Expression) -> str:
    r"""A group of a pattern between \A and \z in a text."""
    pattern, group = node.args["expression"], writer.constant(node.args.get("group"))
    if not isinstance(pattern, exp.Literal):
        raise Untranslatable("REGEXP_EXTRACT")
    own = "^" + pattern.name.removeprefix(r"\A").removesuffix(r"\z") + "$"
    return f"(regexp_match({writer.sql(node.this)}, {writer.literal(own)}))[{group}]"


def _same(writer: Values, node: exp.Expression) -> str:
    """By texts that no value has, so that tables are joined by hashes."""
    a, b = writer.value(node.this), writer.value(node.args["expression"])
    if a.type == b.type == "TEXT":
        some, none = writer.literal("."), writer.literal("")
        return f"(coalesce({some} || {a.sql}, {none}) = coalesce({some} || {b.sql}, {none}))"
    if a.type == b.type and a.type in ("BIGINT", "BOOLEAN", "DATE"):
        return f"(coalesce(CAST({a.sql} AS text), '') = coalesce(CAST({b.sql} AS text), ''))"
    return f"({a.sql} IS NOT DISTINCT FROM {b.sql})"


class _Postgres(Values):
    writers: ClassVar = {
        **COMMON,
        exp.Min: _end("min", "bool_and"),
        exp.Max: _end("max", "bool_or"),
        exp.Floor: rounded("floor({v})"),
        exp.Ceil: rounded("ceil({v})"),
        exp.Trunc: rounded("trunc({v})"),
        **forms(
            {
                "DOUBLE": {exp.Mod: _remainder},
                "HUGEINT": {exp.IntDiv: "div({this}, {expression})"},
                "BIGINT": {
                    exp.BitwiseRightShift: _shifted,
                    exp.StrPosition: "CAST(strpos({this}, {substr}) AS bigint)",
                },
                "TEXT": {
                    exp.RegexpExtract: _matched,
                    exp.Dayname: """(to_char({this}::timestamp, 'FMDay') COLLATE "C")""",
                    exp.Monthname: """(to_char({this}::timestamp, 'FMMonth') COLLATE "C")""",
                },
                "BOOLEAN": {
                    exp.NullSafeEQ: _same,
                    exp.IsNan: "({this:double} = 'NaN'::float8)",
                    exp.StartsWith: "starts_with({this}, {expression})",
                    # A text of no length ends every text; right(x, 0) is one.
                    exp.EndsWith: "(right({this}, length({expression})) = {expression})",
                    exp.Contains: "(strpos({this}, {expression}) > 0)",
                },
            }
        ),
    }
    types: ClassVar = {
        "DOUBLE": "float8",
        "BIGINT": "bigint",
        "HUGEINT": "numeric",
        "TEXT": "text",
        "BOOLEAN": "boolean",
        "DATE": "date",
        "TIMESTAMP": "timestamp",
    }
    layer = " OFFSET 0"
    quoted = staticmethod(quoted)
    text = staticmethod(text)
    number = "'{!r}'::float8".format
    near = "round({})".format
    divided = "({} / {})".format
    count_distinct = "count(DISTINCT ({}))".format
    total = "sum({})".format  # in 128 bits, as a number without an end
    days = "CAST(CAST({} AS date) - '1970-01-01'::date AS bigint)".format
    # Exact, as PostgreSQL extracts decimals.
    micros = "CAST(extract(EPOCH FROM {}) * 1000000 AS bigint)".format

    def literal(self, value: str) -> str:
        r"""Text as a literal, whatever standard_conforming_strings says.

        >>> print(_Postgres().literal("it's"), _Postgres().literal("a\\b"))
        (E'it''s' COLLATE "C") (E'a\\b' COLLATE "C")
        """
        if "\x00" in value:
            raise Untranslatable("a text with U+0000, which PostgreSQL does not have,")
        escaped = value.replace("\\", "\\\\").replace("'", "''")
        return text(f"E'{escaped}'")

    def whole(self, value: int) -> str:
        return f"'{value}'::{'bigint' if -(1 << 63) <= value < 1 << 63 else 'numeric'}"

    def moment(self, iso: str, kind: str) -> str:
        return f"'{iso}'::{self.types[kind]}"

    def parameter_table(self, parameters: str, types: Sequence[str]) -> str:
        first, names = int(parameters or 0) + 1, [f"p{n}" for n, _ in enumerate(types, start=1)]
        given = ", ".join(f"${n}::{self.types[kind]}[]" for n, kind in enumerate(types, first))
        listed = [
            f"{text(name)} AS {name}" if kind == "TEXT" else name
            for name, kind in zip(names, types, strict=True)
        ]
        return (
            f'(SELECT {", ".join(listed)}, number - 1 AS "row" FROM unnest({given}) '
            f"WITH ORDINALITY AS listed({', '.join(names)}, number)) AS lists"
        )

    def bound(self, name: str, fields: Mapping[str, str], body: str) -> str:
        # OFFSET 0 keeps the planner from putting a value back into its places.
        listed = ", ".join(f"{value} AS {quoted(field)}" for field, value in fields.items())
        return f"(SELECT {body} FROM (SELECT {listed} OFFSET 0) AS {name})"

    def exploded(self, value: str, separator: str, most: int) -> str:
        # A text of no length is one part to DuckDB, and none to PostgreSQL.
        nothing, parted = self.literal(""), f"string_to_array({value}, {self.literal(separator)})"
        parts = f"CASE WHEN {value} = {nothing} THEN ARRAY[{nothing}] ELSE ({parted})[1:{most}] END"
        return text(f"unnest({parts})")

    def converted(self, value: str, kind: str) -> str:
        # A number that matched its pattern is one; of days there may be none.
        if kind == "DOUBLE":
            return self.cast(value, kind)
        valid = f"pg_input_is_valid({{0}}, '{self.types[kind]}')".format
        return self.let(value, lambda v: f"(CASE WHEN {valid(v)} THEN {self.cast(v, kind)} END)")

    def part(self, name: str, moment: str) -> str:
        found = f"extract({name} FROM {moment})"
        return f"CAST({f'floor({found})' if name == 'SECOND' else found} AS bigint)"

    def instant(self, micros: str) -> str:
        return self.let(
            micros,
            lambda v: (
                f"('1970-01-01'::timestamp + CAST({v} / {_DAY} AS int) * interval '1 day' "
                f"+ ({v} % {_DAY}) * interval '1 microsecond')"
            ),
        )

    def truncated(self, instant: str, unit: str) -> str:
        return f"date_trunc('{unit.lower()}', {instant})"

    def moved(self, instant: str, amount: int, unit: str) -> str:
        name, size = _STEPS.get(unit, (f"{unit.lower()}s", 1))
        return f"({instant} + interval '{amount * size} {name}')"

    def last_day(self, moment: str) -> str:
        month = f"date_trunc('month', CAST({moment} AS timestamp))"
        return f"CAST({month} + interval '1 month' - interval '1 day' AS date)"

    def hashed(self, values: Sequence[Typed], seed: int, salt: int) -> str:
        # Of one text that no other values are written as.
        parts = [f"'{salt % (1 << 64):016x}'"]
        for value in values:
            if value.type not in _HASHED:
                raise Untranslatable(f"HASH of {value.type}")
            said = value.sql if value.type == "TEXT" else f"CAST({value.sql} AS text)"
            parts.append(f"coalesce(CAST(length({said}) AS text) || ':' || {said}, '-')")
        joined = text(f"({' || '.join(parts)})")
        return f"hashtextextended({joined}, '{seed}'::bigint)"


translate = functools.partial(statements.translate, dialect=_Postgres())
"""A statement in PostgreSQL's SQL; parameters: how many there are before its lists."""
