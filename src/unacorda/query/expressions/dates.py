"""Operations on dates and instants, which lie in the years 1 to 9999, as do their results.

An operand that an operation would take out of these years is NULL to it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import re

from unacorda.query.expressions.language import Kind, Literal, Operation, literal
from unacorda.query.expressions.ranges import Range
from unacorda.query.expressions.values import (
    KindMismatch,
    Rule,
    Value,
    described,
    each,
    extracted,
    form,
    guarded,
    in_years,
    let,
    number,
    numeric,
    of_kind,
    of_one_kind,
)

_SECONDS = -62_135_596_800, 253_402_300_800
"""The beginnings of the years 1 and 10000, since that of 1970."""
PARTS = {
    "CENTURY": Range(1.0, 100.0),
    "DECADE": Range(0.0, 999.0),
    "YEAR": Range(1.0, 9999.0),
    "QUARTER": Range(1.0, 4.0),
    "MONTH": Range(1.0, 12.0),
    "DAY": Range(1.0, 31.0),
    "WEEK": Range(1.0, 53.0),
    "DOW": Range(0.0, 6.0),
    "DOY": Range(1.0, 366.0),
    "ISODOW": Range(1.0, 7.0),
    "ISOYEAR": Range(1.0, 9999.0),
    "HOUR": Range(0.0, 23.0),
    "MINUTE": Range(0.0, 59.0),
    "SECOND": Range(0.0, 59.0),
    "EPOCH": Range(*map(float, _SECONDS)),
}
"""What EXTRACT takes out of a date or timestamp, and where that lies."""

_DAYS = 3_652_059.0  # more than two days are apart
UNITS = {
    "YEAR": _DAYS / 365,
    "QUARTER": _DAYS / 90,
    "MONTH": _DAYS / 28,
    "WEEK": _DAYS / 7 + 1,
    "DAY": _DAYS,
    "HOUR": _DAYS * 24,
    "MINUTE": _DAYS * 24 * 60,
    "SECOND": _DAYS * 24 * 60 * 60,
}
"""The steps in which dates are counted, cut and moved; more of each than lie between two dates."""
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_OF_INSTANTS = ("HOUR", "MINUTE", "SECOND")
_FIRST, _LAST = dt.datetime.min, dt.datetime.max  # noqa: DTZ901


def _moment(value: Value, unit: str) -> Value:
    """A date or an instant that has this part; raises KindMismatch for any other value."""
    if unit not in _OF_INSTANTS:
        return of_kind(value, Kind.DATE, Kind.TIMESTAMP)
    if value.kind == Kind.DATE:
        raise KindMismatch(
            f"a timestamp where {described(value)} stands; a date has no time of day"
        )
    return of_kind(value, Kind.TIMESTAMP)


def _extract(node: Operation, operand: Value) -> Value:
    part = str(node.option)
    moment = _moment(operand, part)
    return number(
        f"CAST(extract({part} FROM {moment.sql}) AS DOUBLE)",
        range=PARTS[part],
        integer=part != "EPOCH",
        nullable=moment.nullable,
    )


def _between(sql: str, most: float | None = None) -> Rule:
    """A number of units between two dates; sql: with {0} and {1} for them; most: if known."""

    def rule(node: Operation, *operands: Value) -> Value:
        unit = str(node.option or "YEAR")
        moments = tuple(_moment(operand, unit) for operand in operands)
        first, second = of_one_kind(moments, otherwise=Kind.DATE)
        size = most or UNITS[unit]
        return number(
            f"CAST({sql.format(first.sql, second.sql, unit=unit.lower())} AS DOUBLE)",
            range=Range(-size, size),
            integer=True,
            nullable=first.nullable or second.nullable,
        )

    return rule


def _date_trunc(node: Operation, operand: Value) -> Value:
    """The beginning of the unit; of a date it is a date."""
    unit = str(node.option)
    moment = _moment(operand, unit)
    return _of_date(moment, f"date_trunc('{unit.lower()}', {moment.sql})")


def _date_add(node: Operation, operand: Value, step: Value) -> Value:
    """A date moved by a number of units; NULL where that is in no year."""
    unit = str(node.option)
    moment, steps = _moment(operand, unit), step.node.value if isinstance(step.node, Literal) else 0
    assert isinstance(steps, int)
    if steps == 0:
        return _of_date(moment, f"CAST({moment.sql} AS TIMESTAMP)")
    end = _end(steps, unit)
    if end is None:
        return _of_date(moment, "CAST(NULL AS TIMESTAMP)")
    said = literal(end if moment.kind == Kind.TIMESTAMP else end.date())
    inside = guarded(moment.sql, f"{{0}} {'>=' if steps < 0 else '<'} {said}")
    return _of_date(moment, f"({inside} + INTERVAL ({steps}) {unit})")


def _end(steps: int, unit: str) -> dt.datetime | None:
    """The first instant that steps forward take beyond the years, or that steps back do not.

    None where no instant stays within them. Months are counted from the year 0 on: a step leads
    into a month, of which it may take an earlier day.
    """
    try:
        if unit in _MONTHS:
            month = (12 if steps < 0 else 120_000) - steps * _MONTHS[unit]
            return dt.datetime(month // 12, month % 12 + 1, 1)  # noqa: DTZ001
        moved = dt.timedelta(**{f"{unit.lower()}s": abs(steps)})
        return _FIRST + moved if steps < 0 else _LAST - moved + dt.timedelta(microseconds=1)
    except (OverflowError, ValueError):
        return None


def _of_date(moment: Value, sql: str) -> Value:
    """A timestamp that DuckDB makes of a date or an instant, in the kind of that."""
    sql = f"CAST({sql} AS DATE)" if moment.kind == Kind.DATE else sql
    return Value(sql=sql, kind=moment.kind)


def _called(gives: Kind) -> Rule:
    """A function of a date or an instant."""
    of = each(Kind.DATE, Kind.TIMESTAMP)
    return form("{function}({0})", of=of, gives=gives, nullable=True)


_CODE = re.compile("%(.)", re.DOTALL)
_SAID = {
    "Y": "[0-9]{4}",
    **dict.fromkeys("ymd", "[0-9]{1,2}"),
    "H": "(?:[01]?[0-9]|2[0-3])",
    **dict.fromkeys("MS", "[0-5]?[0-9]"),
}
"""How a text says the parts of an instant, by the letters of a format."""


def _parsed(_: Operation, *operands: Value) -> Value:
    """The instant that a text says in a format.

    What a format leaves out is 1900, January, the first day, midnight. Two digits from 69 on are a
    year of the twentieth century.
    """
    operand, layout = (of_kind(operand, Kind.TEXT) for operand in operands)
    assert isinstance(layout.node, Literal)
    pattern, places = "", dict[str, int]()
    for place, part in enumerate(_CODE.split(str(layout.node.value))):
        if place % 2 == 0 or part == "%":
            pattern += re.escape(part)
        else:
            places[part] = len(places) + 2
            pattern += f"({_SAID[part]})"

    def instant(x: str) -> str:
        def said(letter: str, default: str, width: int = 2) -> str:
            if letter not in places:
                return f"'{default}'"
            return f"lpad({extracted(x, pattern, places[letter])}, {width}, '0')"

        short = said("y", "00")
        century = f"(CASE WHEN {short} >= '69' THEN '19' ELSE '20' END)"
        year = f"{century} || {short}" if "y" in places else said("Y", "1900", 4)
        day = f"{year} || '-' || {said('m', '01')} || '-' || {said('d', '01')}"
        clock = " || ':' || ".join(said(letter, "00") for letter in "HMS")
        return f"TRY_CAST(({day} || ' ' || {clock}) AS TIMESTAMP)"

    return Value(sql=in_years(let(instant, operand.sql), "TIMESTAMP"), kind=Kind.TIMESTAMP)


def _of_seconds(_: Operation, operand: Value) -> Value:
    """The instant so many seconds after the beginning of 1970."""
    least, most = _SECONDS
    within = guarded(numeric(operand).sql, f"{{0}} >= {least}e0 AND {{0}} < {most}e0")
    sql = in_years(f"make_timestamp(CAST(round({within} * 1e6) AS BIGINT))", "TIMESTAMP")
    return Value(sql=sql, kind=Kind.TIMESTAMP)


def _made(_: Operation, *operands: Value) -> Value:
    """The date of a year from 1 to 9999, a month and a day; NULL where there is none."""
    digits = []
    for operand, most in zip(operands, (9999, 12, 31), strict=True):
        inside = f"{{0}} >= 1e0 AND {{0}} <= {most}e0 AND {{0}} = floor({{0}})"
        whole = f"CAST({guarded(numeric(operand).sql, inside)} AS INTEGER)"
        digits.append(f"lpad(CAST({whole} AS VARCHAR), {len(str(most))}, '0')")
    written = " || '-' || ".join(digits)
    return Value(sql=f"TRY_CAST(({written}) AS DATE)", kind=Kind.DATE)


DATES: dict[str, Rule] = {
    "EXTRACT": _extract,
    "DATE_DIFF": _between("date_diff('{unit}', {0}, {1})"),  # ends of units
    "DATE_SUB": _between("date_sub('{unit}', {0}, {1})"),  # whole units
    "AGE": _between("date_part('year', age({0}, {1}))", 9999.0),
    "DATE_TRUNC": _date_trunc,
    "DATE_ADD": _date_add,
    "LAST_DAY": _called(Kind.DATE),
    "DAYNAME": _called(Kind.TEXT),
    "MONTHNAME": _called(Kind.TEXT),
    "TRY_STRPTIME": _parsed,
    "TO_TIMESTAMP": _of_seconds,
    "MAKE_DATE": _made,
}
"""Operations on dates and instants, by name."""
