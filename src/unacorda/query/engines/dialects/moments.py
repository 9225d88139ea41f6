"""Functions of dates and instants of the years 1 to 9999, as all engines write them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from sqlglot import exp

from unacorda.query.engines.dialects.typed import (
    Dialect,
    Typed,
    Untranslatable,
    Values,
    Writing,
)

__all__ = ["DATES", "NAMED", "moved"]

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_IN_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MICROS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_DAY = 86_400_000_000
_BEFORE_1970 = 62_135_596_800_000_000  # microseconds from the beginning of the year 1


def _extract(writer: Values, node: exp.Expression) -> Typed:
    name, value, dialect = (
        node.this.name.upper(),
        writer.value(node.args["expression"]),
        writer.dialect,
    )
    x = value.sql
    match name:
        case "EPOCH" if value.type == "DATE":
            days = dialect.cast(dialect.days(x), "DOUBLE")
            return Typed(f"({days} * {dialect.number(86_400.0)})", "DOUBLE")
        case "EPOCH":
            micros = dialect.cast(dialect.micros(x), "DOUBLE")
            return Typed(f"({micros} / {dialect.number(1e6)})", "DOUBLE")
        case "DECADE":
            return Typed(dialect.divided(dialect.part("YEAR", x), "10"), "BIGINT")
        case "CENTURY":
            return Typed(dialect.divided(f"({dialect.part('YEAR', x)} + 99)", "100"), "BIGINT")
        case _:
            return Typed(dialect.part(name, x), "BIGINT")


def _months(dialect: Dialect, x: str) -> str:
    return f"({dialect.part('YEAR', x)} * 12 + {dialect.part('MONTH', x)})"


def _index(dialect: Dialect, x: str, unit: str) -> str:
    """How many ends of a unit lie before a moment, from one that is the same for all."""
    match unit:
        case "YEAR":
            return dialect.part("YEAR", x)
        case "QUARTER":
            return f"({dialect.part('YEAR', x)} * 4 + {dialect.part('QUARTER', x)})"
        case "MONTH":
            return _months(dialect, x)
        case "DAY":
            return dialect.days(x)
        case _:
            since = f"({dialect.micros(x)} + {dialect.whole(_BEFORE_1970)})"
            return dialect.divided(since, dialect.whole(_MICROS[unit]))


def _date_diff(writer: Values, node: exp.Expression) -> Typed:
    end, start = writer.value(node.this).sql, writer.value(node.args["expression"]).sql
    unit, dialect = node.args["unit"].name.upper(), writer.dialect
    if unit == "WEEK":  # of seven days since the start
        days = f"({_index(dialect, end, 'DAY')} - {_index(dialect, start, 'DAY')})"
        return Typed(dialect.divided(days, "7"), "BIGINT")
    found = f"({_index(dialect, end, unit)} - {_index(dialect, start, unit)})"
    return Typed(found, "BIGINT")


def _whole_units(
    writer: Values, start: object, end: object, unit: str, *, last_days: bool
) -> Typed:
    """How many whole units lie between two moments; negative backwards.

    last_days: a month is whole on its last day, however late in the month it was begun.
    """
    dialect = writer.dialect
    a, b = (dialect.cast(writer.value(one).sql, "TIMESTAMP") for one in (start, end))
    if unit not in _IN_MONTHS:
        size = {"WEEK": 7 * _DAY, "DAY": _DAY, **_MICROS}[unit]
        apart = f"({dialect.micros(b)} - {dialect.micros(a)})"
        return Typed(dialect.divided(apart, dialect.whole(size)), "BIGINT")

    def signed(p: str, q: str) -> str:
        whole = dialect.let(
            f"least({p}, {q})",
            lambda x: dialect.let(
                f"greatest({p}, {q})",
                lambda y: _months_between(dialect, x, y, last_days=last_days),
                name="y",
            ),
        )
        return f"((CASE WHEN {p} > {q} THEN -1 WHEN {p} <= {q} THEN 1 END) * {whole})"

    months = dialect.let(a, lambda p: dialect.let(b, lambda q: signed(p, q), name="q"), name="p")
    return Typed(dialect.divided(months, str(_IN_MONTHS[unit])), "BIGINT")


def _months_between(dialect: Dialect, x: str, y: str, *, last_days: bool) -> str:
    """Whole months from an instant to a later one."""
    begun, here = dialect.part("DAY", x), dialect.part("DAY", y)
    if last_days:
        last = f"{dialect.days(dialect.last_day(y))} = {dialect.days(y)}"
        begun = f"(CASE WHEN {last} THEN least({begun}, {here}) ELSE {begun} END)"
    clocks = [f"({dialect.micros(v)} - {dialect.days(v)} * {dialect.whole(_DAY)})" for v in (x, y)]
    early = f"{here} < {begun} OR ({here} = {begun} AND {clocks[1]} < {clocks[0]})"
    months = f"{_months(dialect, y)} - {_months(dialect, x)}"
    return f"({months} - (CASE WHEN {early} THEN 1 ELSE 0 END))"


def _date_sub(writer: Values, node: exp.Expression) -> Typed:
    unit, start, end = node.expressions
    return _whole_units(writer, start, end, unit.name.upper(), last_days=True)


def _date_part(writer: Values, node: exp.Expression) -> Typed:
    """Only whole years of an age are asked for."""
    part, age = node.expressions
    if part.name != "year" or not isinstance(age, exp.Anonymous) or age.name.lower() != "age":
        raise Untranslatable("DATE_PART")
    later, earlier = age.expressions
    return _whole_units(writer, earlier, later, "YEAR", last_days=False)


def _date_trunc(writer: Values, node: exp.Expression) -> Typed:
    value = writer.dialect.cast(writer.value(node.this).sql, "TIMESTAMP")
    return Typed(writer.dialect.truncated(value, node.args["unit"].name), "TIMESTAMP")


def moved(writer: Values, moment: object, step: exp.Interval) -> Typed:
    """A date or an instant and an interval: DuckDB gives an instant."""
    value = writer.dialect.cast(writer.value(moment).sql, "TIMESTAMP")
    amount, unit = int(step.this.unnest().sql()), step.args["unit"].name.upper()
    return Typed(writer.dialect.moved(value, amount, unit), "TIMESTAMP")


def _last_day(writer: Values, node: exp.Expression) -> Typed:
    return Typed(writer.dialect.last_day(writer.value(node.this).sql), "DATE")


def _named(part: str, names: tuple[str, ...], first: int) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        dialect = writer.dialect
        number = dialect.part(part, writer.value(node.this).sql)
        arms = " ".join(
            f"WHEN {place} THEN {dialect.literal(name)}"
            for place, name in enumerate(names, start=first)
        )
        return Typed(f"(CASE {number} {arms} END)", "TEXT")

    return write


def _of_micros(writer: Values, node: exp.Expression) -> Typed:
    return Typed(writer.dialect.instant(writer.value(node.this).sql), "TIMESTAMP")


DATES: dict[type[object], Writing] = {
    exp.Extract: _extract,
    exp.DateDiff: _date_diff,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.LastDay: _last_day,
    exp.Dayname: _named("DOW", _DAYS, 0),
    exp.Monthname: _named("MONTH", _MONTHS, 1),
    exp.UnixToTime: _of_micros,
}
NAMED: dict[str, Writing] = {"date_sub": _date_sub, "date_part": _date_part}
"""By the name of a function that the parser does not know."""
