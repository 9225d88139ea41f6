"""Questions in PostgreSQL's SQL: texts under the collation "C", from their first mention on."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.moments import NAMED
from unacorda.query.engines.dialects.statements import COMMON
from unacorda.query.engines.dialects.typed import (
    Dialect,
    Typed,
    Untranslatable,
    Values,
    Writing,
    form,
)

__all__ = [
    "quoted",
    "text",
    "translate",
]

_LONGEST_NAME = 63
"""In bytes."""
_DAY = 86_400_000_000
_STEPS = {"QUARTER": ("months", 3), "MINUTE": ("mins", 1), "SECOND": ("secs", 1)}
_TRIMS = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}


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


def _bound_fields(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {quoted(name)}" for name, value in fields.items())


def _exploded(value: str, separator: str, most: int) -> str:
    # A text of no length is one part to DuckDB, and none to PostgreSQL.
    nothing = _literal("")
    parts = (
        f"CASE WHEN {value} = {nothing} THEN ARRAY[{nothing}] "
        f"ELSE (string_to_array({value}, {_literal(separator)}))[1:{most}] END"
    )
    return text(f"unnest({parts})")


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


def _rounded(name: str) -> Writing:
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


def _moment(iso: str, kind: str) -> str:
    return f"'{iso}'::{_TYPES[kind]}"


def _whole(value: int) -> str:
    return f"'{value}'::{'bigint' if -(1 << 63) <= value < 1 << 63 else 'numeric'}"


def _parameter_table(parameters: str, types: tuple[str, ...]) -> str:
    first = int(parameters or 0) + 1
    given = ", ".join(f"${n}::{_TYPES[kind]}[]" for n, kind in enumerate(types, start=first))
    names = [f"p{number}" for number, _ in enumerate(types, start=1)]
    listed = [
        f"{text(name)} AS {name}" if kind == "TEXT" else name
        for name, kind in zip(names, types, strict=True)
    ]
    return (
        f'(SELECT {", ".join(listed)}, number - 1 AS "row" FROM unnest({given}) '
        f"WITH ORDINALITY AS listed({', '.join(names)}, number)) AS lists"
    )


def _converted(text: str, kind: str) -> str:
    """A number that matched its pattern is one; of days there may be none."""
    if kind == "DOUBLE":
        return _POSTGRES.cast(text, kind)
    valid = f"pg_input_is_valid({{0}}, '{_TYPES[kind]}')"
    return _POSTGRES.let(
        text,
        lambda v: f"(CASE WHEN {valid.format(v)} THEN {_POSTGRES.cast(v, kind)} END)",
        name="r",
    )


def _pattern_group(text: str, pattern: str, group: int) -> str:
    own = "^" + pattern.removeprefix(r"\A").removesuffix(r"\z") + "$"
    return f"(regexp_match({text}, {_literal(own)}))[{group}]"


def _trimmed(text: str, signs: str, side: str) -> str:
    return f"{_TRIMS[side]}({text}, {signs})"


def _same(a: Typed, b: Typed) -> str:
    """By texts that no value has, so that tables are joined by hashes."""
    match {a.type, b.type}:
        case kinds if kinds == {"TEXT"}:
            marked = [f"coalesce({_literal('.')} || {v.sql}, {_literal('')})" for v in (a, b)]
        case kinds if len(kinds) == 1 and kinds <= {"BIGINT", "BOOLEAN", "DATE"}:
            marked = [f"coalesce(CAST({v.sql} AS text), '')" for v in (a, b)]
        case _:
            return f"({a.sql} IS NOT DISTINCT FROM {b.sql})"
    return f"({marked[0]} = {marked[1]})"


def _count_distinct(parts: Sequence[str]) -> str:
    listed = ", ".join(parts)
    return f"count(DISTINCT {listed})" if len(parts) == 1 else f"count(DISTINCT ({listed}))"


def _part(name: str, moment: str) -> str:
    found = f"extract({name} FROM {moment})"
    return f"CAST({f'floor({found})' if name == 'SECOND' else found} AS bigint)"


def _instant(micros: str) -> str:
    return _POSTGRES.let(
        micros,
        lambda v: (
            f"('1970-01-01'::timestamp + CAST({v} / {_DAY} AS int) * interval '1 day' "
            f"+ ({v} % {_DAY}) * interval '1 microsecond')"
        ),
    )


def _moved(instant: str, amount: int, unit: str) -> str:
    name, size = _STEPS.get(unit, (f"{unit.lower()}s", 1))
    return f"({instant} + interval '{amount * size} {name}')"


def _last_day(moment: str) -> str:
    month = f"date_trunc('month', CAST({moment} AS timestamp))"
    return f"CAST({month} + interval '1 month' - interval '1 day' AS date)"


_TYPES = {
    "DOUBLE": "float8",
    "BIGINT": "bigint",
    "HUGEINT": "numeric",
    "TEXT": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}
_POSTGRES = Dialect(
    types=_TYPES,
    writers={
        **COMMON,
        exp.Min: _end("min", "bool_and"),
        exp.Max: _end("max", "bool_or"),
        exp.Floor: _rounded("floor"),
        exp.Ceil: _rounded("ceil"),
        exp.Trunc: _rounded("trunc"),
        exp.Mod: _remainder,
        exp.BitwiseRightShift: _shifted,
        exp.StrPosition: form("CAST(strpos({}, {}) AS bigint)", "BIGINT", "this", "substr"),
        exp.StartsWith: form("starts_with({}, {})", "BOOLEAN", "this", "expression"),
        # A text of no length ends every text; right(x, 0) is one.
        exp.EndsWith: form("(right({0}, length({1})) = {1})", "BOOLEAN", "this", "expression"),
        exp.Contains: form("(strpos({}, {}) > 0)", "BOOLEAN", "this", "expression"),
    },
    named={"hash": _hash, **NAMED},
    qualified=True,
    semi_joins=False,
    nameless=False,
    by_place=True,
    layer=" OFFSET 0",
    quoted=quoted,
    literal=_literal,
    number="'{!r}'::float8".format,
    whole=_whole,
    moment=_moment,
    parameter_table=_parameter_table,
    # OFFSET 0 keeps the planner from putting the value back into its places.
    bound="(SELECT {2} FROM (SELECT {0} OFFSET 0) AS {1})".format,
    bound_value="{} AS v".format,
    bound_name="{}.v".format,
    bound_fields=_bound_fields,
    exploded=_exploded,
    converted=_converted,
    pattern_group=_pattern_group,
    trimmed=_trimmed,
    near="round({})".format,
    divided="({} / {})".format,
    part=_part,
    days="CAST(CAST({} AS date) - '1970-01-01'::date AS bigint)".format,
    # Exact, as PostgreSQL extracts decimals.
    micros="CAST(extract(EPOCH FROM {}) * 1000000 AS bigint)".format,
    instant=_instant,
    truncated=lambda instant, unit: f"date_trunc('{unit.lower()}', {instant})",
    moved=_moved,
    last_day=_last_day,
    same=_same,
    count_distinct=_count_distinct,
    total="sum({})".format,  # in 128 bits, as a number without an end
    text=text,
)

translate = functools.partial(statements.translate, dialect=_POSTGRES)
"""A statement in PostgreSQL's SQL; parameters: how many there are before its lists."""
