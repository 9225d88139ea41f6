"""Operations on dates and instants.

DuckDB raises where a result leaves the days that a timestamp can hold, and in a few functions near
the first and the last day of a date. Such functions see only the years 1 to 9999: an earlier, later
or infinite date is NULL to them. The guard stands on the operand, never about the call.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from unacorda.query.expressions.ranges import EVERYTHING, Range
from unacorda.query.expressions.tree import Literal, Operation
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import (
    KindMismatch,
    Value,
    as_kind,
    bound,
    common_kind,
    described,
    number,
    numeric,
    of_kind,
    settled,
)

__all__ = ["DATES"]

_PART_RANGES = {
    "CENTURY": Range(-6e4, 6e4),  # DuckDB's dates end at the year 5,881,580
    "DECADE": Range(-6e5, 6e5),
    "YEAR": Range(-6e6, 6e6),
    "QUARTER": Range(1.0, 4.0),
    "MONTH": Range(1.0, 12.0),
    "WEEK": Range(1.0, 53.0),
    "DAY": Range(1.0, 31.0),
    "DOY": Range(1.0, 366.0),
    "DOW": Range(0.0, 6.0),
    "ISODOW": Range(1.0, 7.0),
    "ISOYEAR": Range(0.0, 10_000.0),
    "HOUR": Range(0.0, 23.0),
    "MINUTE": Range(0.0, 59.0),
    "SECOND": Range(0.0, 59.0),
    "EPOCH": Range(-2e14, 2e14),
}
_GUARDED_PARTS = ("WEEK", "ISOYEAR")
_OF_INSTANTS = ("HOUR", "MINUTE", "SECOND")

_DAYS = 4_294_967_296.0  # more than any two dates are apart
_GUARDED_DAYS = 3_652_059.0  # more than two days of the years 1 to 9999 are apart


def _steps(unit: str, days: float) -> float:
    """How many steps of a unit, at least, lie between dates so many days apart at most."""
    match unit:
        case "YEAR":
            return days / 365
        case "QUARTER":
            return days / 90
        case "MONTH":
            return days / 28
        case "WEEK":
            return days / 7 + 1
        case "DAY":
            return days
        case "HOUR":
            return days * 24
        case "MINUTE":
            return days * 24 * 60
        case _:
            return days * 24 * 60 * 60


def _moment(value: Value, *, instant: bool = False) -> Value:
    if instant and value.kind == Kind.DATE:
        raise KindMismatch(
            f"a timestamp where {described(value)} stands; a date has no time of day"
        )
    return of_kind(value, Kind.TIMESTAMP) if instant else of_kind(value, Kind.DATE, Kind.TIMESTAMP)


def _guarded(value: Value) -> Value:
    """The date or instant where its year is one of 1 to 9999, else NULL."""
    kind = "DATE" if value.kind == Kind.DATE else "TIMESTAMP"
    ends = f"{kind} '0001-01-01' AND {{0}} < {kind} '10000-01-01'"
    sql = bound(value.sql, lambda x: f"(CASE WHEN {x} >= {ends.format(x)} THEN {x} END)")
    return replace(value, sql=sql, nullable=True)


def _extract(node: Operation, operands: tuple[Value, ...]) -> Value:
    part = str(node.option)
    operand = _moment(operands[0], instant=part in _OF_INSTANTS)
    if part in _GUARDED_PARTS:
        operand = _guarded(operand)
    return number(
        f"CAST(extract({part} FROM {operand.sql}) AS DOUBLE)",
        node=node,
        range=_PART_RANGES[part],
        integer=part != "EPOCH",  # NULL for an infinite date
    )


def _date_diff(node: Operation, operands: tuple[Value, ...]) -> Value:
    """How many ends of a unit lie between two dates."""
    unit = str(node.option)
    start, end = _pair(operands, unit)
    size = _steps(unit, _DAYS)
    return number(
        f"CAST(date_diff('{unit.lower()}', {start.sql}, {end.sql}) AS DOUBLE)",
        node=node,
        range=Range(-size, size),
        integer=True,
    )


def _date_sub(node: Operation, operands: tuple[Value, ...]) -> Value:
    """How many whole units lie between two dates."""
    unit = str(node.option)
    start, end = (_guarded(operand) for operand in _pair(operands, unit))
    size = _steps(unit, _GUARDED_DAYS)
    return number(
        f"CAST(date_sub('{unit.lower()}', {start.sql}, {end.sql}) AS DOUBLE)",
        node=node,
        range=Range(-size, size),
        integer=True,
    )


def _age(node: Operation, operands: tuple[Value, ...]) -> Value:
    """Whole years from the second date to the first."""
    later, earlier = (_guarded(operand) for operand in _pair(operands, "YEAR"))
    return number(
        f"CAST(date_part('year', age({later.sql}, {earlier.sql})) AS DOUBLE)",
        node=node,
        range=Range(-9999.0, 9999.0),
        integer=True,
    )


def _pair(operands: tuple[Value, ...], unit: str) -> tuple[Value, Value]:
    first, second = (_moment(operand, instant=unit in _OF_INSTANTS) for operand in operands)
    kind = common_kind((first, second)) or Kind.DATE
    return as_kind(first, kind), as_kind(second, kind)


def _date_trunc(node: Operation, operands: tuple[Value, ...]) -> Value:
    """The beginning of the unit; of a date it is a date."""
    unit = str(node.option)
    operand = _guarded(_moment(operands[0], instant=unit in _OF_INSTANTS))
    return _of_date(node, operand, f"date_trunc('{unit.lower()}', {operand.sql})")


def _date_add(node: Operation, operands: tuple[Value, ...]) -> Value:
    """A date moved by at most 100,000 units, which every timestamp of these years can be."""
    unit = str(node.option)
    operand = _guarded(_moment(operands[0], instant=unit in _OF_INSTANTS))
    steps = operands[1].node.value if isinstance(operands[1].node, Literal) else 0
    return _of_date(node, operand, f"({operand.sql} + INTERVAL ({steps}) {unit})")


def _last_day(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = _guarded(_moment(operands[0]))
    sql = f"last_day({operand.sql})"
    return Value(sql=sql, kind=Kind.DATE, range=EVERYTHING, node=node)


def _of_date(node: Operation, operand: Value, sql: str) -> Value:
    """A timestamp that DuckDB makes of the operand, in the operand's own kind."""
    kind = operand.kind
    if kind == Kind.DATE:
        sql = f"CAST({sql} AS DATE)"
    return Value(sql=sql, kind=kind, range=EVERYTHING, node=node)


def _format(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = _guarded(_moment(operands[0]))
    sql = f"strftime({operand.sql}, {operands[1].sql})"
    return Value(sql=sql, kind=Kind.TEXT, range=EVERYTHING, node=node)


def _name(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = _guarded(_moment(operands[0]))
    sql = f"{node.name.lower()}({operand.sql})"
    return Value(sql=sql, kind=Kind.TEXT, range=EVERYTHING, node=node)


def _parsed(node: Operation, operands: tuple[Value, ...]) -> Value:
    """The instant that a text says in a format.

    DuckDB reads the words infinity and epoch as 1900 in any format; they are NULL here.
    """
    operand, layout = (of_kind(operand, Kind.TEXT) for operand in operands)
    words = "contains(lower({0}), 'infinity') OR contains(lower({0}), 'epoch')"
    sql = bound(operand.sql, lambda x: f"(CASE WHEN {words.format(x)} THEN NULL ELSE {x} END)")
    sql = f"try_strptime({sql}, {layout.sql})"
    return Value(sql=sql, kind=Kind.TIMESTAMP, range=EVERYTHING, node=node)


def _of_seconds(node: Operation, operands: tuple[Value, ...]) -> Value:
    """The instant so many seconds after the beginning of 1970, in the years 1 to 9999."""
    operand = settled(numeric(operands[0]))
    sql = bound(
        operand.sql,
        lambda x: f"(CASE WHEN {x} >= -62135596800e0 AND {x} < 253402300800e0 THEN {x} END)",
    )
    sql = f"make_timestamp(CAST(round({sql} * 1e6) AS BIGINT))"
    return Value(sql=sql, kind=Kind.TIMESTAMP, range=EVERYTHING, node=node)


def _made(node: Operation, operands: tuple[Value, ...]) -> Value:
    """The date of a year from 1 to 9999, a month and a day; NULL where there is none."""
    parts = [
        _digits(settled(numeric(operand)).sql, most)
        for operand, most in zip(operands, (9999, 12, 31), strict=True)
    ]
    joined = " || '-' || ".join(parts)
    sql = f"TRY_CAST(({joined}) AS DATE)"
    return Value(sql=sql, kind=Kind.DATE, range=EVERYTHING, node=node)


def _digits(sql: str, most: int) -> str:
    """A whole number from 1 to a number of at most four digits, as text with leading zeros."""
    whole = bound(
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
    "STRFTIME": _format,
    "DAYNAME": _name,
    "MONTHNAME": _name,
    "TRY_STRPTIME": _parsed,
    "TO_TIMESTAMP": _of_seconds,
    "MAKE_DATE": _made,
}
