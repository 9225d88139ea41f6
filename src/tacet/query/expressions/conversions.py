"""Operations on text, dates and instants, and from one kind to another."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tacet.query.expressions import ranges
from tacet.query.expressions.ranges import EMPTY, EVERYTHING, Range
from tacet.query.expressions.tree import Literal, Node, Operation
from tacet.query.expressions.types import Kind
from tacet.query.expressions.values import (
    KindMismatch,
    Value,
    as_kind,
    common_kind,
    described,
    number,
    of_kind,
    settled,
)

__all__ = ["CONVERSIONS", "LONGEST_JOINED"]

LONGEST_JOINED = 10_000
"""How many characters of a concatenation are kept: nested ones would otherwise exhaust memory."""

_INTEGER_RANGES = {
    "TINYINT": Range(-(2.0**7), 2.0**7 - 1),
    "SMALLINT": Range(-(2.0**15), 2.0**15 - 1),
    "INTEGER": Range(-(2.0**31), 2.0**31 - 1),
    "BIGINT": Range(-(2.0**63), 2.0**63),
}
_PART_RANGES = {
    "YEAR": Range(-6e6, 6e6),  # DuckDB's dates end at the year 5,881,580
    "QUARTER": Range(1.0, 4.0),
    "MONTH": Range(1.0, 12.0),
    "DAY": Range(1.0, 31.0),
    "DOW": Range(0.0, 6.0),
    "HOUR": Range(0.0, 23.0),
    "MINUTE": Range(0.0, 59.0),
    "SECOND": Range(0.0, 59.0),
}
_DAYS = 4_294_967_296.0  # more than any two dates are apart
_UNIT_SIZES = {
    "YEAR": _DAYS / 365,
    "QUARTER": _DAYS / 90,
    "MONTH": _DAYS / 28,
    "WEEK": _DAYS / 7 + 1,
    "DAY": _DAYS,
    "HOUR": _DAYS * 24,
    "MINUTE": _DAYS * 24 * 60,
    "SECOND": _DAYS * 24 * 60 * 60,
}
_OF_INSTANTS = ("HOUR", "MINUTE", "SECOND")
_LONGEST_TEXT = 2.0**32


def _text(sql: str, node: Node, *, nullable: bool) -> Value:
    return Value(sql=sql, kind=Kind.TEXT, range=EVERYTHING, node=node, nullable=nullable)


def _simple_text(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = of_kind(operands[0], Kind.TEXT)
    return _text(f"{node.name.lower()}({operand.sql})", node, nullable=operand.nullable)


def _length(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = of_kind(operands[0], Kind.TEXT)
    return number(
        f"CAST(length({operand.sql}) AS DOUBLE)",
        node=node,
        range=Range(0.0, _LONGEST_TEXT),
        integer=True,
        nullable=operand.nullable,
    )


def _substring(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = of_kind(operands[0], Kind.TEXT)
    start, length = (
        str(part.node.value) if isinstance(part.node, Literal) else "0" for part in operands[1:]
    )
    return _text(f"substring({operand.sql}, {start}, {length})", node, nullable=operand.nullable)


def _join(node: Operation, operands: tuple[Value, ...]) -> Value:
    """|| gives NULL where an operand is NULL, CONCAT passes NULLs over, as in DuckDB."""
    values = [of_kind(operand, Kind.TEXT) for operand in operands]
    parts = [
        value.sql if isinstance(value.node, Literal) else f"left({value.sql}, {LONGEST_JOINED})"
        for value in values
    ]
    joined = " || ".join(parts) if node.name == "||" else f"concat({', '.join(parts)})"
    nullable = node.name == "||" and any(value.nullable for value in values)
    return _text(f"left({joined}, {LONGEST_JOINED})", node, nullable=nullable)


def _moment(value: Value, *, instant: bool) -> Value:
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
        integer=True,  # NULL for an infinite date
    )


def _date_diff(node: Operation, operands: tuple[Value, ...]) -> Value:
    unit = str(node.option)
    start, end = (_moment(operand, instant=unit in _OF_INSTANTS) for operand in operands)
    kind = common_kind((start, end)) or Kind.DATE
    start, end = as_kind(start, kind), as_kind(end, kind)
    size = _UNIT_SIZES[unit]
    return number(
        f"CAST(date_diff('{unit.lower()}', {start.sql}, {end.sql}) AS DOUBLE)",
        node=node,
        range=Range(-size, size),
        integer=True,
    )


def _cast(node: Operation, operands: tuple[Value, ...]) -> Value:
    (operand,) = operands
    target = str(node.option)
    match target:
        case "VARCHAR":
            return _to_text(node, operand)
        case "BOOLEAN":
            return _to_boolean(node, operand)
        case "DATE" | "TIMESTAMP":
            return _to_moment(node, operand, Kind[target])
        case _:
            return _to_number(node, operand, target)


def _to_number(node: Operation, operand: Value, target: str) -> Value:
    if operand.kind in (Kind.DATE, Kind.TIMESTAMP):
        raise KindMismatch(
            f"a number, text or boolean where {described(operand)} stands; "
            "use EXTRACT or DATE_DIFF to get a number"
        )
    if operand.kind is not None and operand.kind.numeric:
        found = operand.range
    elif operand.kind == Kind.BOOLEAN:
        found = Range(0.0, 1.0)
    else:
        found = EVERYTHING if operand.kind else EMPTY
    if target == "DOUBLE":
        if operand.kind is not None and operand.kind.numeric:
            return replace(operand, kind=Kind.NUMBER, node=node)
        return number(
            f"TRY_CAST({operand.sql} AS DOUBLE)",
            node=node,
            range=found,
            nan=operand.kind == Kind.TEXT,  # 'nan' converts
        )
    # NaN, infinities and what the type can not hold become NULL; a tie goes to the even number.
    limit, near = _INTEGER_RANGES[target], ranges.whole(found)
    return number(
        f"CAST(TRY_CAST({operand.sql} AS {target}) AS DOUBLE)",
        node=node,
        range=Range(max(limit.lower, near.lower), min(limit.upper, near.upper)),
        integer=True,
    )


def _to_text(node: Operation, operand: Value) -> Value:
    if operand.kind is not None and operand.kind.numeric:
        operand = settled(operand)
        if operand.kind == Kind.INTEGER:
            # 5 rather than 5.0; NULL from 2^63 on.
            sql = f"CAST(TRY_CAST({operand.sql} AS BIGINT) AS VARCHAR)"
        else:
            sql = f"CAST({operand.sql} + 0e0 AS VARCHAR)"  # never '-0.0'
        return _text(sql, node, nullable=True)
    return _text(f"CAST({operand.sql} AS VARCHAR)", node, nullable=operand.nullable)


def _to_boolean(node: Operation, operand: Value) -> Value:
    sql = f"TRY_CAST({operand.sql} AS BOOLEAN)"
    match operand.kind:
        case Kind.DATE | Kind.TIMESTAMP:
            raise KindMismatch(
                f"a number, text or boolean where {described(operand)} stands; compare it instead"
            )
        case Kind.NUMBER | Kind.INTEGER:
            sql = f"({settled(operand).sql} <> 0e0)"
        case _:
            pass
    return Value(sql=sql, kind=Kind.BOOLEAN, range=EVERYTHING, node=node)


def _to_moment(node: Operation, operand: Value, kind: Kind) -> Value:
    if operand.kind not in (Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, None):
        raise KindMismatch(f"a text or date where {described(operand)} stands")
    sql = f"TRY_CAST({operand.sql} AS {kind.name})"
    return Value(sql=sql, kind=kind, range=EVERYTHING, node=node)


CONVERSIONS: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    **dict.fromkeys(("LOWER", "UPPER", "TRIM"), _simple_text),
    "LENGTH": _length,
    "SUBSTRING": _substring,
    "||": _join,
    "CONCAT": _join,
    "EXTRACT": _extract,
    "DATE_DIFF": _date_diff,
    "TRY_CAST": _cast,
}
