"""Operations on dates and instants, which lie in the years 1 to 9999, as do their results.

An operand that an operation would take out of these years is NULL to it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

from unacorda.query.expressions.conversions import extracted, in_years, let
from unacorda.query.expressions.ranges import EVERYTHING, Range
from unacorda.query.expressions.tree import Literal, Operation
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import (
    KindMismatch,
    Value,
    as_kind,
    common_kind,
    described,
    number,
    numeric,
    of_kind,
)

__all__ = ["DATES"]

_SECONDS = -62_135_596_800, 253_402_300_800
"""The beginnings of the years 1 and 10000, since that of 1970."""
_PART_RANGES = {
    "CENTURY": Range(1.0, 100.0),
    "DECADE": Range(0.0, 999.0),
    "YEAR": Range(1.0, 9999.0),
    "QUARTER": Range(1.0, 4.0),
    "MONTH": Range(1.0, 12.0),
    "WEEK": Range(1.0, 53.0),
    "DAY": Range(1.0, 31.0),
    "DOY": Range(1.0, 366.0),
    "DOW": Range(0.0, 6.0),
    "ISODOW": Range(1.0, 7.0),
    "ISOYEAR": Range(1.0, 9999.0),
    "HOUR": Range(0.0, 23.0),
    "MINUTE": Range(0.0, 59.0),
    "SECOND": Range(0.0, 59.0),
    "EPOCH": Range(*map(float, _SECONDS)),
}
_FIRST, _LAST = (end.replace(tzinfo=dt.UTC) for end in (dt.datetime.min, dt.datetime.max))  # noqa: DTZ901
_OF_INSTANTS = ("HOUR", "MINUTE", "SECOND")
_DAYS = 3_652_059.0  # more than two days are apart
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}


def _steps(unit: str) -> float:
    """How many steps of a unit, at least, lie between two dates at most."""
    match unit:
        case "YEAR":
            return _DAYS / 365
        case "QUARTER":
            return _DAYS / 90
        case "MONTH":
            return _DAYS / 28
        case "WEEK":
            return _DAYS / 7 + 1
        case "DAY":
            return _DAYS
        case "HOUR":
            return _DAYS * 24
        case "MINUTE":
            return _DAYS * 24 * 60
        case _:
            return _DAYS * 24 * 60 * 60


def _moment(value: Value, *, instant: bool = False) -> Value:
    if instant and value.kind == Kind.DATE:
        raise KindMismatch(
            f"a timestamp where {described(value)} stands; a date has no time of day"
        )
    return of_kind(value, Kind.TIMESTAMP) if instant else of_kind(value, Kind.DATE, Kind.TIMESTAMP)


def _extract(node: Operation, operands: tuple[Value, ...]) -> Value:
    part = str(node.option)
    operand = _moment(operands[0], instant=part in _OF_INSTANTS)
    return number(
        f"CAST(extract({part} FROM {operand.sql}) AS DOUBLE)",
        node=node,
        range=_PART_RANGES[part],
        integer=part != "EPOCH",
        nullable=operand.nullable,
    )


def _between(node: Operation, first: Value, second: Value, sql: str) -> Value:
    size = _steps(str(node.option))
    return number(
        f"CAST({sql} AS DOUBLE)",
        node=node,
        range=Range(-size, size),
        integer=True,
        nullable=first.nullable or second.nullable,
    )


def _date_diff(node: Operation, operands: tuple[Value, ...]) -> Value:
    """How many ends of a unit lie between two dates."""
    unit = str(node.option)
    start, end = _pair(operands, unit)
    return _between(node, start, end, f"date_diff('{unit.lower()}', {start.sql}, {end.sql})")


def _date_sub(node: Operation, operands: tuple[Value, ...]) -> Value:
    """How many whole units lie between two dates."""
    unit = str(node.option)
    start, end = _pair(operands, unit)
    return _between(node, start, end, f"date_sub('{unit.lower()}', {start.sql}, {end.sql})")


def _age(node: Operation, operands: tuple[Value, ...]) -> Value:
    """Whole years from the second date to the first."""
    later, earlier = _pair(operands, "YEAR")
    return number(
        f"CAST(date_part('year', age({later.sql}, {earlier.sql})) AS DOUBLE)",
        node=node,
        range=Range(-9999.0, 9999.0),
        integer=True,
        nullable=later.nullable or earlier.nullable,
    )


def _pair(operands: tuple[Value, ...], unit: str) -> tuple[Value, Value]:
    first, second = (_moment(operand, instant=unit in _OF_INSTANTS) for operand in operands)
    kind = common_kind((first, second)) or Kind.DATE
    return as_kind(first, kind), as_kind(second, kind)


def _date_trunc(node: Operation, operands: tuple[Value, ...]) -> Value:
    """The beginning of the unit; of a date it is a date."""
    unit = str(node.option)
    operand = _moment(operands[0], instant=unit in _OF_INSTANTS)
    return _of_date(node, operand, f"date_trunc('{unit.lower()}', {operand.sql})")


def _date_add(node: Operation, operands: tuple[Value, ...]) -> Value:
    """A date moved by a number of units; NULL where that is in no year."""
    unit = str(node.option)
    operand = _moment(operands[0], instant=unit in _OF_INSTANTS)
    steps = operands[1].node.value if isinstance(operands[1].node, Literal) else None
    assert isinstance(steps, int)
    assert operand.kind is not None
    if steps == 0:
        return _of_date(node, operand, f"CAST({operand.sql} AS TIMESTAMP)")
    end = _end(steps, unit)
    if end is None:
        return _of_date(node, operand, "CAST(NULL AS TIMESTAMP)")
    kind, sign = operand.kind.name, ">=" if steps < 0 else "<"
    exact = end.replace(tzinfo=None).isoformat(sep=" ")
    said = exact if operand.kind == Kind.TIMESTAMP else end.date().isoformat()
    inside = let(operand.sql, lambda x: f"(CASE WHEN {x} {sign} {kind} '{said}' THEN {x} END)")
    return _of_date(node, operand, f"({inside} + INTERVAL ({steps}) {unit})")


def _end(steps: int, unit: str) -> dt.datetime | None:
    """The first instant that steps forward take beyond the years, or that steps back do not.

    None where no instant stays within them. Months are counted from the year 0 on: a step leads
    into a month, of which it may take an earlier day.
    """
    if unit in _MONTHS:
        month = (12 if steps < 0 else 120_000) - steps * _MONTHS[unit]
        return (
            dt.datetime(month // 12, month % 12 + 1, 1, tzinfo=dt.UTC)
            if 12 <= month < 120_000
            else None
        )
    moved = dt.timedelta(**{f"{unit.lower()}s": abs(steps)})
    try:
        if steps < 0:
            return _FIRST + moved
        return _LAST - moved + dt.timedelta(microseconds=1)
    except OverflowError:
        return None


def _last_day(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = _moment(operands[0])
    sql = f"last_day({operand.sql})"
    return Value(sql=sql, kind=Kind.DATE, range=EVERYTHING, node=node)


def _of_date(node: Operation, operand: Value, sql: str) -> Value:
    """A timestamp that DuckDB makes of the operand, in the operand's own kind."""
    kind = operand.kind
    if kind == Kind.DATE:
        sql = f"CAST({sql} AS DATE)"
    return Value(sql=sql, kind=kind, range=EVERYTHING, node=node)


def _name(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = _moment(operands[0])
    sql = f"{node.name.lower()}({operand.sql})"
    return Value(sql=sql, kind=Kind.TEXT, range=EVERYTHING, node=node)


_CODE = re.compile("%(.)", re.DOTALL)
_SAID = {
    "Y": "[0-9]{4}",
    **dict.fromkeys("ymd", "[0-9]{1,2}"),
    "H": "(?:[01]?[0-9]|2[0-3])",
    **dict.fromkeys("MS", "[0-5]?[0-9]"),
    "%": "%",
}
"""How a text says the parts of an instant, by the letters of a format."""


def _parsed(node: Operation, operands: tuple[Value, ...]) -> Value:
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
            places.setdefault(part, len(places) + 2)
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

    sql = in_years(let(operand.sql, instant), "TIMESTAMP")
    return Value(sql=sql, kind=Kind.TIMESTAMP, range=EVERYTHING, node=node)


def _of_seconds(node: Operation, operands: tuple[Value, ...]) -> Value:
    """The instant so many seconds after the beginning of 1970."""
    (operand,) = map(numeric, operands)
    least, most = _SECONDS
    sql = let(
        operand.sql, lambda x: f"(CASE WHEN {x} >= {least}e0 AND {x} < {most}e0 THEN {x} END)"
    )
    sql = in_years(f"make_timestamp(CAST(round({sql} * 1e6) AS BIGINT))", "TIMESTAMP")
    return Value(sql=sql, kind=Kind.TIMESTAMP, range=EVERYTHING, node=node)


def _made(node: Operation, operands: tuple[Value, ...]) -> Value:
    """The date of a year from 1 to 9999, a month and a day; NULL where there is none."""
    parts = [
        _digits(numeric(operand).sql, most)
        for operand, most in zip(operands, (9999, 12, 31), strict=True)
    ]
    joined = " || '-' || ".join(parts)
    sql = f"TRY_CAST(({joined}) AS DATE)"
    return Value(sql=sql, kind=Kind.DATE, range=EVERYTHING, node=node)


def _digits(sql: str, most: int) -> str:
    """A whole number from 1 to a number of at most four digits, as text with leading zeros."""
    whole = let(
        sql,
        lambda x: f"(CASE WHEN {x} >= 1e0 AND {x} <= {most}e0 AND {x} = floor({x}) THEN {x} END)",
    )
    return f"lpad(CAST(CAST({whole} AS INTEGER) AS VARCHAR), {len(str(most))}, '0')"


DATES: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    "EXTRACT": _extract,
    "DATE_DIFF": _date_diff,
    "DATE_SUB": _date_sub,
    "AGE": _age,
    "DATE_TRUNC": _date_trunc,
    "DATE_ADD": _date_add,
    "LAST_DAY": _last_day,
    "DAYNAME": _name,
    "MONTHNAME": _name,
    "TRY_STRPTIME": _parsed,
    "TO_TIMESTAMP": _of_seconds,
    "MAKE_DATE": _made,
}
