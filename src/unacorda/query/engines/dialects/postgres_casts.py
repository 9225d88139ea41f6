"""Conversions in PostgreSQL: what DuckDB reads out of a text or rounds to a whole number, exactly.

PostgreSQL raises where a value has no place in a type: a CASE asks first. A text is compared with
what DuckDB reads, by regular expressions without nested repetition, and then with what PostgreSQL
reads (`pg_input_is_valid`, of PostgreSQL 16), before it is converted.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import re
from datetime import datetime

from sqlglot import exp

from unacorda.query.engines.dialects.postgres_arithmetic import bound, double, span_of
from unacorda.query.engines.dialects.postgres_texts import literal, text
from unacorda.query.engines.dialects.shapes import is_hexadecimal, is_made_date, text_to_boolean
from unacorda.query.engines.dialects.typed import Span, Typed, Untranslatable, Writer, Writing
from unacorda.query.engines.dialects.values import TYPES

__all__ = [
    "CASTS",
    "STORED",
]

STORED = {
    "DOUBLE": "float8",
    "BIGINT": "bigint",
    "HUGEINT": "numeric",
    "TEXT": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}
"""PostgreSQL's types of parts."""

_ENDS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
_WORDS = {"TEXT": "text", "DOUBLE": "a number", "DATE": "a date", "TIMESTAMP": "an instant"}

_SPACE = r"[ \t\n\v\f\r]*"
_NUMBER = rf"^{_SPACE}\+?-?([0-9_]+[.]?[0-9_]*|[.][0-9_]+)([eE][+-]?[0-9_]+)?{_SPACE}$"
_LOST_MARK = r"(^|[^0-9])_|_([^0-9]|$)"
_NO_NUMBER = rf"^{_SPACE}\+?-?([nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?){_SPACE}$"


def _cast(writer: Writer, node: exp.Expression) -> Typed:
    to = node.args["to"]
    target = TYPES.get(to.this.name)
    operand = node.this
    if target is None:
        raise Untranslatable(f"CAST to {to.sql()}")
    if isinstance(operand, exp.Literal) and operand.is_string and target in ("DATE", "TIMESTAMP"):
        return Typed(f"'{_moment(operand.name, target)}'::{STORED[target]}", target)
    if target == "BIGINT" and is_hexadecimal(operand):
        digits = writer.value(operand.args["expression"])
        bits = int(operand.args["expression"].args["expression"].name) * 4
        return Typed(f"CAST(CAST('x' || {digits.sql} AS bit({bits})) AS bigint)", "BIGINT")
    value = writer.value(operand)
    if target == "DATE" and is_made_date(operand):
        return Typed(bound(value.sql, _made_date), "DATE")
    stored = "BIGINT" if target in _ENDS else target
    if value.type == "NULL" and stored in STORED:
        return Typed(f"CAST(NULL AS {STORED[stored]})", stored)
    if value.type == target:
        return value
    write = _FROM.get((value.type, target)) or _FROM.get((value.type, stored))
    if write is None:
        words = "VARCHAR" if target == "TEXT" else target
        raise Untranslatable(f"CAST of {_WORDS.get(value.type, value.type)} AS {words}")
    return Typed(write(value.sql, target), stored, span=_span(value, stored))


def _span(value: Typed, stored: str) -> Span | None:
    return span_of(value) if value.type in ("BIGINT", "BOOLEAN") and stored == "DOUBLE" else None


def _made_date(v: str) -> str:
    """A text YYYY-MM-DD of the years 1 to 9999, where there is such a day."""
    return f"(CASE WHEN pg_input_is_valid({v}, 'date') THEN CAST({v} AS date) END)"


def _moment(said: str, target: str) -> str:
    """A date or an instant of a question in ISO 8601, which both engines read alike.

    The year 10000 ends the years that have functions; what else a caller writes may be read
    otherwise, or fail.
    """
    form = _DATE if target == "DATE" else _INSTANT
    try:
        if form.fullmatch(said):
            datetime.fromisoformat(said.replace("10000-01-01", "0001-01-01"))
            return said
    except ValueError:
        pass
    raise Untranslatable(f"CAST of text AS {target}")


_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}|10000-01-01)", re.ASCII)
_INSTANT = re.compile(_DATE.pattern + r"( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?", re.ASCII)


def _plain(x: str, target: str) -> str:
    return f"CAST({x} AS {STORED[target]})"


def _near(x: str, target: str) -> str:
    """A double as the next whole number, ties to even; NULL beyond the type's ends."""
    end = double(2.0 ** _ENDS[target])
    return bound(
        f"round({x})",
        lambda v: f"(CASE WHEN {v} >= - {end} AND {v} < {end} THEN CAST({v} AS bigint) END)",
    )


def _within(x: str, target: str) -> str:
    end = 2 ** _ENDS[target]
    ends = f"'-{end}'::bigint AND '{end - 1}'::bigint"
    return bound(x, lambda v: f"(CASE WHEN {v} BETWEEN {ends} THEN {v} END)")


def _huge(x: str, target: str) -> str:
    """A whole double below 2^100 as a number without an end, by its upper and lower part.

    PostgreSQL's own conversion keeps 15 digits.
    """
    del target
    unit = double(2.0**40)

    def joined(v: str) -> str:
        high = f"floor({v} / {unit})"
        low = f"({v} - {high} * {unit})"
        whole = f"CAST({high} AS bigint)::numeric * {2**40} + CAST({low} AS bigint)::numeric"
        # A number below 1 would be lost in the quotient, and there is none but 0.
        return (
            f"(CASE WHEN abs({v}) >= {double(1.0)} AND abs({v}) < {double(2.0**100)} THEN {whole} "
            f"WHEN {v} = {double(0.0)} THEN '0'::numeric END)"
        )

    return bound(x, joined)


def _wide_to_double(x: str, target: str) -> str:
    """A whole number of 128 bits as DuckDB makes it a double: of two halves of 64 bits.

    The halves of numbers below 0 are rounded by themselves, so that it is not the next double.
    """
    del target
    unit = f"'{2**64}'::numeric"

    def joined(v: str) -> str:
        high = f"floor({v} / {unit})"
        halves = (
            f"CAST({high} AS float8) * {double(2.0**64)} + CAST({v} - {high} * {unit} AS float8)"
        )
        near = f"{v} < 0 AND {v} >= - {unit}"
        below = f"- CAST(- {v} - 1 AS float8) - {double(1.0)}"
        return f"(CASE WHEN {near} THEN {below} ELSE {halves} END)"

    return bound(x, joined)


def _decimal_to_double(x: str, target: str) -> str:
    """A decimal of at most 18 digits as DuckDB makes it: at once, or in two parts."""
    del target

    def made(v: str) -> str:
        unit = f"CAST('1e' || scale({v}) AS numeric)"
        digits = f"({v} * {unit})"
        rest = f"({v} - trunc({v}))"
        parts = (
            f"CAST(trunc({v}) AS float8) + CAST({rest} * {unit} AS float8) / CAST({unit} AS float8)"
        )
        return (
            f"(CASE WHEN abs({digits}) <= {2**53} "
            f"THEN CAST({digits} AS float8) / CAST({unit} AS float8) ELSE {parts} END)"
        )

    return bound(x, made)


def _text_to_double(x: str, target: str) -> str:
    """What is beyond the doubles is an infinity, or 0: by the place of its first digit."""
    del target
    number, lost, other = (literal(p) for p in (_NUMBER, _LOST_MARK, _NO_NUMBER))
    clean = (
        f"translate(bt.v, {literal('_+ ' + chr(9) + chr(10) + chr(11) + chr(12) + chr(13))}, '')"
    )

    def read(v: str) -> str:
        return (
            f"(CASE WHEN {v} ~ {number} AND NOT {v} ~ {lost} THEN {_beyond(clean)} "
            f"WHEN {v} ~ {other} THEN CASE WHEN {v} ~ '[nN][aA]' THEN 'NaN'::float8 "
            f"WHEN strpos({v}, '-') > 0 THEN '-Infinity'::float8 ELSE 'Infinity'::float8 END END)"
        )

    return f"(SELECT {read('bt.v')} FROM (SELECT {x} AS v OFFSET 0) AS bt)"


def _beyond(clean: str) -> str:
    """A number without marks; the place of its first digit tells what is too large or too small."""
    whole = "length(ltrim(split_part(translate(n.digits, '-', ''), '.', 1), '0'))"
    after = "split_part(n.digits, '.', 2)"
    ahead = f"length({after}) - length(ltrim({after}, '0'))"
    place = f"(CASE WHEN {whole} > 0 THEN {whole} ELSE - ({ahead}) END)"
    power = "ltrim(n.power, '-0')"
    size = f"(CASE WHEN length({power}) > 12 THEN {10**12} ELSE CAST('0' || {power} AS bigint) END)"
    exponent = f"(CASE WHEN starts_with(n.power, '-') THEN - {size} ELSE {size} END)"
    sign = "CASE WHEN starts_with(n.v, '-') THEN -1 ELSE 1 END"
    parts = "split_part(c.v, 'e', 1) AS digits, split_part(c.v, 'e', 2) AS power"
    cleaned = f"SELECT c.v AS v, {parts} FROM (SELECT lower({clean}) AS v OFFSET 0) AS c OFFSET 0"
    return (
        "(SELECT CASE WHEN pg_input_is_valid(n.v, 'float8') THEN CAST(n.v AS float8) "
        f"WHEN {place} + {exponent} > 0 THEN {sign} * {double(math.inf)} ELSE {double(0.0)} END "
        f"FROM ({cleaned}) AS n)"
    )


def _text_to_boolean(x: str, target: str) -> str:
    del target
    return text_to_boolean(x, bound)


def _date_to_timestamp(x: str, target: str) -> str:
    """The beginning of a day that an instant of DuckDB can hold, else NULL; an end stays one."""
    del target
    held = f"NOT isfinite({{0}}) OR {{0}} <= '{_LAST_DAY}'::date"
    return bound(x, lambda v: f"(CASE WHEN {held.format(v)} THEN CAST({v} AS timestamp) END)")


_LAST_DAY = "294247-01-10"


def _date_to_text(x: str, target: str) -> str:
    del target
    return text(f"replace(CAST({x} AS text), ' BC', ' (BC)')")


def _timestamp_to_text(x: str, target: str) -> str:
    """PostgreSQL writes BC at the end, DuckDB after the day."""
    del target

    def written(v: str) -> str:
        plain = f"CAST({v} AS text)"
        early = f"replace(replace({plain}, ' BC', ''), ' ', ' (BC) ')"
        return f"(CASE WHEN right({plain}, 3) = ' BC' THEN {early} ELSE {plain} END)"

    return text(bound(x, written))


def _to_text(x: str, target: str) -> str:
    del target
    return text(f"CAST({x} AS text)")


def _boolean_to_number(x: str, target: str) -> str:
    return f"CAST(CAST({x} AS int) AS {STORED['DOUBLE' if target == 'DOUBLE' else 'BIGINT']})"


_FROM = {
    ("BIGINT", "DOUBLE"): _plain,
    ("HUGEINT", "DOUBLE"): _wide_to_double,
    ("DECIMAL", "DOUBLE"): _decimal_to_double,
    ("WIDE", "DOUBLE"): _wide_to_double,
    ("BOOLEAN", "DOUBLE"): _boolean_to_number,
    ("TEXT", "DOUBLE"): _text_to_double,
    **{("DOUBLE", name): _near for name in _ENDS},
    **{("BIGINT", name): _within for name in _ENDS},
    ("BOOLEAN", "BIGINT"): _boolean_to_number,
    ("DOUBLE", "HUGEINT"): _huge,
    ("BIGINT", "HUGEINT"): _plain,
    ("BIGINT", "TEXT"): _to_text,
    ("HUGEINT", "TEXT"): _to_text,
    ("DECIMAL", "TEXT"): _to_text,
    ("WIDE", "TEXT"): _to_text,
    ("BOOLEAN", "TEXT"): _to_text,
    ("DATE", "TEXT"): _date_to_text,
    ("TIMESTAMP", "TEXT"): _timestamp_to_text,
    ("TEXT", "BOOLEAN"): _text_to_boolean,
    ("DATE", "TIMESTAMP"): _date_to_timestamp,
    ("TIMESTAMP", "DATE"): _plain,
}

CASTS: dict[type[object], Writing] = {exp.Cast: _cast, exp.TryCast: _cast}
"""By the node of the tree."""
