"""Casts, dates and instants as PostgreSQL writes them.

Dates and instants in PostgreSQL, in UTC: years before Christ are counted as astronomers do.

PostgreSQL has no year 0: its -44 is DuckDB's -43. Where a step could leave the days that
PostgreSQL's instants can hold (4713 BC to 294276), it is refused.

Conversions in PostgreSQL: what DuckDB reads out of a text or rounds to a whole number, exactly.

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

from unacorda.query.engines.dialects.postgres_functions import (
    bound,
    double,
    finite,
    literal,
    span_of,
    text,
)
from unacorda.query.engines.dialects.typed import (
    Refused,
    Span,
    Typed,
    Untranslatable,
    Writer,
    Writing,
    is_made_date,
    text_to_boolean,
)
from unacorda.query.engines.dialects.values import TYPES

__all__ = [
    "ANONYMOUS",
    "CASTS",
    "INTERVALS",
    "MOMENTS",
    "STORED",
]

_PARTS = ("QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "DOW", "ISODOW", "ISOYEAR")
_MICROS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_DAY = 86_400_000_000
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_STEPS = {  # PostgreSQL's unit, how many of it, and how many units are 400 years at least
    "YEAR": ("months", 12, 400),
    "QUARTER": ("months", 3, 1_600),
    "MONTH": ("months", 1, 4_800),
    "WEEK": ("days", 7, 20_871),
    "DAY": ("days", 1, 146_097),
    "HOUR": ("hours", 1, 3_506_328),
    "MINUTE": ("mins", 1, 210_379_680),
    "SECOND": ("secs", 1, 12_622_780_800),
}
_FEWEST, _MOST = -10, 700  # times 400 years that PostgreSQL's instants surely allow


def _year(x: str) -> str:
    found = f"CAST(extract(YEAR FROM {x}) AS bigint)"
    return f"({found} + CASE WHEN {found} < 0 THEN 1 ELSE 0 END)"


def _part(name: str, x: str) -> str:
    return f"CAST(extract({name} FROM {x}) AS bigint)"


def _micros(x: str) -> str:
    """Microseconds since the beginning of 1970: exact, as PostgreSQL extracts decimals.

    No instant is later than 64 bits count: a table's are read so, and those made are of the years
    1 to 9999, and steps from there.
    """
    return f"CAST(extract(EPOCH FROM {x}) * 1000000 AS bigint)"


def _seconds(x: str, each: int) -> str:
    """Seconds since the beginning of 1970 in whole units; a quotient would be rounded."""
    early = f"CASE WHEN {x} < '1970-01-01' THEN {each - 1} ELSE 0 END"
    return f"CAST(div(floor(extract(EPOCH FROM {x})) - {early}, {each}) AS bigint)"


def _days(x: str) -> str:
    return f"CAST(CAST({x} AS date) - '1970-01-01'::date AS bigint)"


def _extract(writer: Writer, node: exp.Expression) -> Typed:
    part, value = node.this.name.upper(), writer.value(node.args["expression"])

    def found(v: str) -> str:
        return f"(CASE WHEN {finite(Typed(v, value.type))} THEN {_extracted(part, v, value)} END)"

    kind = "DOUBLE" if part == "EPOCH" else "BIGINT"
    return Typed(bound(value.sql, found), kind)


def _extracted(part: str, v: str, value: Typed) -> str:
    match part:
        case "EPOCH" if value.type == "DATE":
            return f"CAST({_days(v)} AS float8) * '86400'::float8"
        case "EPOCH":
            return f"CAST({_micros(v)} AS float8) / '1000000'::float8"
        case "SECOND":
            return f"CAST(floor(extract(SECOND FROM {v})) AS bigint)"
        case "YEAR":
            return _year(v)
        case "DECADE":
            return f"{_year(v)} / 10"
        case "CENTURY":
            year = _year(v)
            return f"CASE WHEN {year} > 0 THEN ({year} - 1) / 100 + 1 ELSE {year} / 100 - 1 END"
        case _ if part in _PARTS:
            return _part(part, v)
        case _:
            raise Untranslatable(f"EXTRACT({part})")


def _index(x: str, unit: str) -> str:
    """How many ends of a unit lie before a moment, from one that is the same for all."""
    match unit:
        case "YEAR":
            return _year(x)
        case "QUARTER":  # towards 0, as DuckDB counts before Christ
            return f"(({_year(x)} * 12 + {_part('MONTH', x)} - 1) / 3)"
        case "MONTH":
            return f"({_year(x)} * 12 + {_part('MONTH', x)})"
        case "DAY":
            return _days(x)
        case _ if unit in _MICROS:
            return _seconds(x, _MICROS[unit] // 1_000_000)
        case _:
            raise Untranslatable(f"DATE_DIFF({unit})")


def _date_diff(writer: Writer, node: exp.Expression) -> Typed:
    end, start = writer.value(node.this), writer.value(node.args["expression"])
    unit = node.args["unit"].name.upper()
    held = " AND ".join(f"isfinite({v})" for v in ("m.a", "m.b"))
    if unit == "WEEK":  # of seven days since the start
        counted = f"(({_index('m.b', 'DAY')} - {_index('m.a', 'DAY')}) / 7)"
    else:
        counted = f"({_index('m.b', unit)} - {_index('m.a', unit)})"
    return Typed(
        f"(SELECT CASE WHEN {held} THEN {counted} END FROM "
        f"(SELECT {start.sql} AS a, {end.sql} AS b OFFSET 0) AS m)",
        "BIGINT",
    )


def _whole_units(start: Typed, end: Typed, unit: str, *, last_days: bool) -> Typed:
    """How many whole units lie between two moments; negative backwards.

    last_days: a month is whole on its last day, however late in the month it was begun.
    """
    known = "isfinite(m.a) AND isfinite(m.b)"
    if unit in ("YEAR", "QUARTER", "MONTH"):
        size = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}[unit]
        counted = f"({_months(last_days=last_days)} / {size})"
    elif unit in ("WEEK", "DAY", *_MICROS):
        micros = {"WEEK": 7 * _DAY, "DAY": _DAY, **_MICROS}[unit]
        counted = f"(({_micros('m.b')} - {_micros('m.a')}) / {micros})"
    else:
        raise Untranslatable(f"DATE_SUB({unit})")
    moments = (
        f"SELECT CAST({start.sql} AS timestamp) AS a, CAST({end.sql} AS timestamp) AS b OFFSET 0"
    )
    return Typed(f"(SELECT CASE WHEN {known} THEN {counted} END FROM ({moments}) AS m)", "BIGINT")


def _months(*, last_days: bool) -> str:
    month = f"{_year('o.{0}')} * 12 + {_part('MONTH', 'o.{0}')}"
    day, clock = _part("DAY", "o.{0}"), "CAST(o.{0} AS time)"
    begun = day.format("a")
    if last_days:
        next_day = "CAST(o.b AS date) + 1"
        last = f"extract(DAY FROM {next_day}) = 1"
        begun = f"CASE WHEN {last} THEN LEAST({begun}, {day.format('b')}) ELSE {begun} END"
    here = day.format("b")
    early = f"{here} < {begun} OR ({here} = {begun} AND {clock.format('b')} < {clock.format('a')})"
    counted = (
        f"(({month.format('b')}) - ({month.format('a')}) - CASE WHEN {early} THEN 1 ELSE 0 END)"
    )
    ordered = "SELECT LEAST(m.a, m.b) AS a, GREATEST(m.a, m.b) AS b OFFSET 0"
    sign = "CASE WHEN m.a > m.b THEN -1 ELSE 1 END"
    return f"((SELECT {counted} FROM ({ordered}) AS o) * {sign})"


def _date_sub(writer: Writer, node: exp.Expression) -> Typed:
    unit, start, end = node.expressions
    return _whole_units(writer.value(start), writer.value(end), unit.name.upper(), last_days=True)


def _date_part(writer: Writer, node: exp.Expression) -> Typed:
    """Only whole years of an age are asked for."""
    part, age = node.expressions
    if part.name != "year" or not isinstance(age, exp.Anonymous) or age.name.lower() != "age":
        raise Untranslatable("DATE_PART")
    later, earlier = (writer.value(operand) for operand in age.expressions)
    return _whole_units(earlier, later, "YEAR", last_days=False)


def _date_trunc(writer: Writer, node: exp.Expression) -> Typed:
    value, unit = writer.value(node.this), node.args["unit"].name.lower()
    if unit.upper() not in _STEPS:
        raise Untranslatable(f"DATE_TRUNC({unit.upper()})")
    return Typed(f"date_trunc('{unit}', CAST({value.sql} AS timestamp))", "TIMESTAMP")


def _moved(writer: Writer, node: exp.Expression) -> Typed:
    """A date or an instant of the years 1 to 9999, and an interval: DuckDB gives an instant."""
    value, step = writer.value(node.this), node.args["expression"]
    amount, unit = int(step.this.unnest().sql()), step.args["unit"].name.upper()
    if unit not in _STEPS:
        raise Untranslatable(f"INTERVAL of {unit}")
    said, size, least = _STEPS[unit]
    if not _FEWEST * least <= amount <= _MOST * least:
        raise Untranslatable(f"INTERVAL {amount} {unit} beyond the years that it has")
    moved = f"(CAST({value.sql} AS timestamp) + interval '{amount * size} {said}')"
    return Typed(moved, "TIMESTAMP")


def _last_day(writer: Writer, node: exp.Expression) -> Typed:
    month = f"date_trunc('month', CAST({writer.value(node.this).sql} AS timestamp))"
    return Typed(f"CAST({month} + interval '1 month' - interval '1 day' AS date)", "DATE")


def _named(part: str, names: tuple[str, ...], first: int) -> Writing:
    listed = ", ".join(map(literal, names))

    def write(writer: Writer, node: exp.Expression) -> Typed:
        number = f"CAST(extract({part} FROM {writer.value(node.this).sql}) AS int) + {1 - first}"
        return Typed(text(f"(ARRAY[{listed}])[{number}]"), "TEXT")

    return write


def _of_micros(writer: Writer, node: exp.Expression) -> Typed:
    """Microseconds since the beginning of 1970, of the years 1 to 9999, as an instant."""
    micros = writer.value(node.this).sql

    def made(v: str) -> str:
        parts = (
            f"CAST({v} / {_DAY} AS int) * interval '1 day' "
            f"+ ({v} % {_DAY}) * interval '1 microsecond'"
        )
        return f"('1970-01-01'::timestamp + {parts})"

    return Typed(bound(micros, made), "TIMESTAMP")


def _finite(writer: Writer, node: exp.Expression) -> Typed:
    (operand,) = node.expressions
    return Typed(finite(writer.value(operand)), "BOOLEAN")


ANONYMOUS: dict[str, Writing] = {
    "isfinite": _finite,
    "date_sub": _date_sub,
    "date_part": _date_part,
    "try_strptime": Refused("TRY_STRPTIME"),
}
"""By the name of a function that the parser does not know."""

MOMENTS: dict[type[object], Writing] = {
    exp.Extract: _extract,
    exp.DateDiff: _date_diff,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.LastDay: _last_day,
    exp.Dayname: _named("DOW", _DAYS, 0),
    exp.Monthname: _named("MONTH", _MONTHS, 1),
    exp.UnixToTime: _of_micros,
    exp.TimeToStr: Refused("STRFTIME"),
    exp.StrToTime: Refused("TRY_STRPTIME"),
}
"""By the node of the tree."""

INTERVALS: Writing = _moved
"""A sum with an interval."""


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
