"""Operations that give truth: comparisons, logic and tests of text, in three-valued logic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

from unacorda.query.expressions.ranges import EVERYTHING
from unacorda.query.expressions.tree import Node, Operation
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import Value, as_kind, common_kind, numeric, of_kind, settled

__all__ = ["PREDICATES"]


def _truth(sql: str, node: Node, *, nullable: bool = True) -> Value:
    return Value(sql=sql, kind=Kind.BOOLEAN, range=EVERYTHING, node=node, nullable=nullable)


def _comparable(operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """Operands of one kind, without NaN. Bare NULLs alone are compared as truth values."""
    kind = common_kind(operands) or Kind.BOOLEAN
    return tuple(settled(as_kind(operand, kind)) for operand in operands)


def _compare(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = _comparable(operands)
    return _truth(f"({a.sql} {node.name} {b.sql})", node, nullable=a.nullable or b.nullable)


def _distinct(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = _comparable(operands)
    return _truth(f"({a.sql} {node.name} {b.sql})", node, nullable=False)


def _between(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, low, high = _comparable(operands)
    return _truth(f"({a.sql} BETWEEN {low.sql} AND {high.sql})", node)


def _in(node: Operation, operands: tuple[Value, ...]) -> Value:
    first, *choices = _comparable(operands)
    return _truth(f"({first.sql} IN ({', '.join(choice.sql for choice in choices)}))", node)


def _is_null(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = settled(operands[0])
    return _truth(f"({operand.sql} IS NULL)", node, nullable=False)


def _logic(node: Operation, operands: tuple[Value, ...]) -> Value:
    values = [of_kind(operand, Kind.BOOLEAN) for operand in operands]
    sql = f"({f' {node.name} '.join(value.sql for value in values)})"
    return _truth(sql, node, nullable=any(value.nullable for value in values))


def _not(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = of_kind(operands[0], Kind.BOOLEAN)
    return _truth(f"(NOT {operand.sql})", node, nullable=operand.nullable)


def _like(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand, pattern = (of_kind(value, Kind.TEXT) for value in operands)
    return _truth(f"({operand.sql} {node.name} {pattern.sql})", node, nullable=operand.nullable)


def _text_test(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = (of_kind(value, Kind.TEXT) for value in operands)
    sql = f"{node.name.lower()}({a.sql}, {b.sql})"
    return _truth(sql, node, nullable=a.nullable or b.nullable)


def _finite(node: Operation, operands: tuple[Value, ...]) -> Value:
    """ISFINITE and ISINF, of numbers, dates and instants."""
    operand = operands[0]
    if operand.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _truth(f"{node.name.lower()}({operand.sql})", node, nullable=operand.nullable)
    number = settled(numeric(operand))
    return _truth(f"{node.name.lower()}({number.sql})", node, nullable=number.nullable)


PREDICATES: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _compare),
    "IS DISTINCT FROM": _distinct,
    "IS NOT DISTINCT FROM": _distinct,
    "BETWEEN": _between,
    "IN": _in,
    "IS NULL": _is_null,
    "AND": _logic,
    "OR": _logic,
    "NOT": _not,
    "LIKE": _like,
    "ILIKE": _like,
    "STARTS_WITH": _text_test,
    "ENDS_WITH": _text_test,
    "CONTAINS": _text_test,
    "ISFINITE": _finite,
    "ISINF": _finite,
}
