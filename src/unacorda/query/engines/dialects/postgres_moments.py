"""Dates and instants in PostgreSQL, in UTC: years before Christ are counted as astronomers do.

PostgreSQL has no year 0: its -44 is DuckDB's -43. Where a step could leave the days that
PostgreSQL's instants can hold (4713 BC to 294276), it is refused.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from sqlglot import exp

from unacorda.query.engines.dialects.postgres_arithmetic import bound
from unacorda.query.engines.dialects.postgres_numbers import finite
from unacorda.query.engines.dialects.postgres_texts import literal, text
from unacorda.query.engines.dialects.typed import Refused, Typed, Untranslatable, Writer, Writing

__all__ = [
    "ANONYMOUS",
    "INTERVALS",
    "MOMENTS",
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
