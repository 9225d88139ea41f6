"""Conversions from one kind to another, none of which raises: what does not convert is NULL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from unacorda.query.expressions import ranges
from unacorda.query.expressions.ranges import EMPTY, EVERYTHING, Range
from unacorda.query.expressions.tree import Node, Operation
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import (
    KindMismatch,
    Value,
    bound,
    described,
    number,
    settled,
)

__all__ = ["CONVERSIONS"]

_INTEGER_RANGES = {
    "TINYINT": Range(-(2.0**7), 2.0**7 - 1),
    "SMALLINT": Range(-(2.0**15), 2.0**15 - 1),
    "INTEGER": Range(-(2.0**31), 2.0**31 - 1),
    "BIGINT": Range(-(2.0**63), 2.0**63),
}


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


def _text(sql: str, node: Node, *, nullable: bool) -> Value:
    return Value(sql=sql, kind=Kind.TEXT, range=EVERYTHING, node=node, nullable=nullable)


def _to_text(node: Operation, operand: Value) -> Value:
    if operand.kind is not None and operand.kind.numeric:
        operand = settled(operand)
        if operand.kind == Kind.INTEGER:
            # 5 rather than 5.0; NULL from 2^63 on.
            sql = f"CAST(TRY_CAST({operand.sql} AS BIGINT) AS VARCHAR)"
        else:
            sql = bound(f"({operand.sql} + 0e0)", _digits)  # never '-0.0'
        return _text(sql, node, nullable=True)
    return _text(f"CAST({operand.sql} AS VARCHAR)", node, nullable=operand.nullable)


def _digits(sql: str) -> str:
    """The text of a number that is not NaN, which reads as the same number again.

    DuckDB 2.0 writes three powers of two wrongly (2^81, 2^91 and 2^807, the last with a letter).
    """
    text = f"CAST({sql} AS VARCHAR)"
    same = f"TRY_CAST({text} AS DOUBLE) = {sql}"
    return f"(CASE WHEN {same} THEN {text} ELSE printf('%.17g', {sql}) END)"


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


CONVERSIONS: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {"TRY_CAST": _cast}
