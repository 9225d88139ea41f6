"""Dates and instants in Spark: days of the Gregorian calendar, and instants in UTC without a zone.

What DuckDB counts by ends of units, Spark is told to count from the beginnings of units.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from sqlglot import exp

from unacorda.query.engines.dialects.spark_numbers import bound, finite
from unacorda.query.engines.dialects.typed import Refused, Typed, Untranslatable, Writer, Writing

__all__ = [
    "ANONYMOUS",
    "MOMENTS",
]

_PLAIN_PARTS = {
    **{part: part for part in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY")},
    **{part: part for part in ("HOUR", "MINUTE")},
    "ISODOW": "DOW_ISO",
    "ISOYEAR": "YEAROFWEEK",
}
_MICROS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)


def _micros(value: Typed) -> str:
    """Microseconds since the beginning of 1970, in UTC."""
    return f"unix_micros(CAST({value.sql} AS TIMESTAMP))"


def _extract(writer: Writer, node: exp.Expression) -> Typed:
    part, value = node.this.name.upper(), writer.value(node.args["expression"])
    x = f"(CASE WHEN {finite(value)} THEN {value.sql} END)"
    match part:
        case "EPOCH":
            if value.type == "DATE":
                return Typed(f"(CAST(unix_date({x}) AS DOUBLE) * 86400D)", "DOUBLE")
            return Typed(f"(CAST({_micros(Typed(x, value.type))} AS DOUBLE) / 1000000D)", "DOUBLE")
        case "SECOND":
            return Typed(f"CAST(floor(extract(SECOND FROM {x})) AS BIGINT)", "BIGINT")
        case "DOW":
            return Typed(f"(CAST(extract(DOW FROM {x}) AS BIGINT) - 1)", "BIGINT")
        case "DECADE":
            return Typed(f"CAST(extract(YEAR FROM {x}) AS BIGINT) DIV 10", "BIGINT")
        case "CENTURY":
            found = bound(
                f"CAST(extract(YEAR FROM {x}) AS BIGINT)",
                lambda y: (
                    f"(CASE WHEN {y} > 0 THEN ({y} - 1) DIV 100 + 1 ELSE {y} DIV 100 - 1 END)"
                ),
            )
            return Typed(found, "BIGINT")
        case _ if part in _PLAIN_PARTS:
            return Typed(f"CAST(extract({_PLAIN_PARTS[part]} FROM {x}) AS BIGINT)", "BIGINT")
        case _:
            raise Untranslatable(f"EXTRACT({part})")


def _index(value: Typed, unit: str) -> str:
    """How many ends of a unit lie before a moment, from one that is the same for all."""
    days = f"unix_date(CAST({value.sql} AS DATE))"
    year, month = (
        f"CAST(extract({part} FROM {value.sql}) AS BIGINT)" for part in ("YEAR", "MONTH")
    )
    match unit:
        case "YEAR":
            return year
        case "QUARTER":  # towards 0, as DuckDB counts before Christ
            return f"(({year} * 12 + {month} - 1) DIV 3)"
        case "MONTH":
            return f"({year} * 12 + {month})"
        case "DAY":
            return f"CAST({days} AS BIGINT)"
        case _:
            micros, size = _micros(value), f"{_MICROS[unit]}L"
            return f"(({micros} - pmod({micros}, {size})) DIV {size})"


def _date_diff(writer: Writer, node: exp.Expression) -> Typed:
    end, start = writer.value(node.this), writer.value(node.args["expression"])
    unit = node.args["unit"].name.upper()
    held = " AND ".join(finite(value) for value in (start, end))
    if unit == "WEEK":  # of seven days since the start
        counted = f"(({_index(end, 'DAY')} - {_index(start, 'DAY')}) DIV 7)"
    else:
        counted = f"({_index(end, unit)} - {_index(start, unit)})"
    return Typed(f"(CASE WHEN {held} THEN {counted} END)", "BIGINT")


def _whole_units(start: Typed, end: Typed, unit: str, *, last_days: bool) -> str:
    """How many whole units lie between two moments; negative backwards.

    last_days: a month is whole on its last day, however late in the month it was begun.
    """
    if unit in ("YEAR", "QUARTER", "MONTH"):
        months = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}[unit]
        return f"({_months(start, end, last_days=last_days)} DIV {months})"
    apart = " - ".join(
        _micros(Typed(f"CAST({value.sql} AS TIMESTAMP_NTZ)", "TIMESTAMP")) for value in (end, start)
    )
    size = {"WEEK": 604_800_000_000, "DAY": 86_400_000_000, **_MICROS}[unit]
    return f"(({apart}) DIV {size}L)"


def _months(start: Typed, end: Typed, *, last_days: bool) -> str:
    a, b = (f"CAST({value.sql} AS TIMESTAMP_NTZ)" for value in (start, end))
    month = "CAST(year({0}) AS BIGINT) * 12 + month({0})"
    clock = "pmod(unix_micros(CAST({0} AS TIMESTAMP)), 86400000000L)"
    begun = "day(p.a)"
    if last_days:
        last = "last_day(CAST(p.b AS DATE)) = CAST(p.b AS DATE)"
        begun = f"CASE WHEN {last} THEN least({begun}, day(p.b)) ELSE {begun} END"
    earlier = f"{clock.format('p.b')} < {clock.format('p.a')}"
    early = f"day(p.b) < {begun} OR (day(p.b) = {begun} AND {earlier})"
    counted = (
        f"(({month.format('p.b')}) - ({month.format('p.a')}) - CASE WHEN {early} THEN 1 ELSE 0 END)"
    )
    pair = "named_struct('a', least(q.a, q.b), 'b', greatest(q.a, q.b))"
    known = "q.a IS NOT NULL AND q.b IS NOT NULL"
    signed = f"CASE WHEN q.a > q.b THEN -1 ELSE 1 END * transform(array({pair}), p -> {counted})[0]"
    return (
        f"transform(array(named_struct('a', {a}, 'b', {b})), "
        f"q -> CASE WHEN {known} THEN {signed} END)[0]"
    )


def _date_sub(writer: Writer, node: exp.Expression) -> Typed:
    unit, start, end = node.expressions
    found = _whole_units(writer.value(start), writer.value(end), unit.name.upper(), last_days=True)
    return Typed(found, "BIGINT")


def _date_part(writer: Writer, node: exp.Expression) -> Typed:
    """Only whole years of an age are asked for."""
    part, age = node.expressions
    if part.name != "year" or not isinstance(age, exp.Anonymous) or age.name.lower() != "age":
        raise Untranslatable("DATE_PART")
    later, earlier = (writer.value(operand) for operand in age.expressions)
    return Typed(_whole_units(earlier, later, "YEAR", last_days=False), "BIGINT")


def _date_trunc(writer: Writer, node: exp.Expression) -> Typed:
    value, unit = writer.value(node.this), node.args["unit"].name.upper()
    cut = f"CAST(date_trunc('{unit}', CAST({value.sql} AS TIMESTAMP)) AS TIMESTAMP_NTZ)"
    return Typed(cut, "TIMESTAMP")


def _moved(writer: Writer, node: exp.Expression) -> Typed:
    """A date or an instant and an interval: DuckDB gives an instant."""
    value, step = writer.value(node.this), node.args["expression"]
    amount, unit = step.this.unnest().sql(), step.args["unit"].name.upper()
    moved = f"timestampadd({unit}, {amount}, CAST({value.sql} AS TIMESTAMP_NTZ))"
    return Typed(moved, "TIMESTAMP")


def _last_day(writer: Writer, node: exp.Expression) -> Typed:
    return Typed(f"last_day(CAST({writer.value(node.this).sql} AS DATE))", "DATE")


def _named(part: str, names: tuple[str, ...]) -> Writing:
    listed = ", ".join(f"'{name}'" for name in names)

    def write(writer: Writer, node: exp.Expression) -> Typed:
        number = f"extract({part} FROM {writer.value(node.this).sql})"
        return Typed(f"elt({number}, {listed})", "TEXT")

    return write


def _of_micros(writer: Writer, node: exp.Expression) -> Typed:
    """Microseconds since the beginning of 1970, as an instant."""
    micros = writer.value(node.this).sql
    return Typed(f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)", "TIMESTAMP")


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
    exp.Dayname: _named("DOW", _DAYS),
    exp.Monthname: _named("MONTH", _MONTHS),
    exp.UnixToTime: _of_micros,
    exp.TimeToStr: Refused("STRFTIME"),
    exp.StrToTime: Refused("TRY_STRPTIME"),
}
"""By the node of the tree."""

INTERVALS: Writing = _moved
"""A sum with an interval."""
