"""Circular functions, the cube root and pi: written in DuckDB, made total, and bounded.

Sines of infinities, and arcs of sines beyond 1, are NULL: the operand is guarded.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable

from unacorda.query.expressions import ranges
from unacorda.query.expressions.ranges import Range
from unacorda.query.expressions.tree import Operation
from unacorda.query.expressions.values import Value, bound, number, numeric, settled

__all__ = ["CURVES"]

_PI = Range(math.nextafter(math.pi, 0.0), math.nextafter(math.pi, 4.0))
_HALF = math.nextafter(math.pi / 2, 2.0)
_WHOLE = math.nextafter(math.pi, 4.0)
_LARGEST_TANGENT = 1e18  # no double lies nearer than 6e-17 to an odd multiple of pi / 2


def _wave(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = settled(numeric(operands[0]))
    sql = bound(operand.sql, lambda x: f"(CASE WHEN isfinite({x}) THEN {x} END)")
    most = _LARGEST_TANGENT if node.name == "TAN" else 1.0
    return number(f"{node.name.lower()}({sql})", node=node, range=Range(-most, most))


def _arc(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = settled(numeric(operands[0]))
    sql = bound(operand.sql, lambda x: f"(CASE WHEN abs({x}) <= 1e0 THEN {x} END)")
    found = Range(0.0, _WHOLE) if node.name == "ACOS" else Range(-_HALF, _HALF)
    return number(f"{node.name.lower()}({sql})", node=node, range=found)


def _arc_tangent(node: Operation, operands: tuple[Value, ...]) -> Value:
    values = [settled(numeric(operand)) for operand in operands]
    most = _HALF if node.name == "ATAN" else _WHOLE
    return number(
        f"{node.name.lower()}({', '.join(value.sql for value in values)})",
        node=node,
        range=Range(-most, most),
        nullable=any(value.nullable for value in values),
    )


def _angle(factor: Range) -> Callable[[Operation, tuple[Value, ...]], Value]:
    def rule(node: Operation, operands: tuple[Value, ...]) -> Value:
        operand = numeric(operands[0])
        return number(
            f"{node.name.lower()}({operand.sql})",
            node=node,
            range=ranges.multiply(operand.range, factor),
            nullable=operand.nullable,
            nan=operand.nan,
        )

    return rule


def _cube_root(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = settled(numeric(operands[0]))
    return number(
        f"cbrt({operand.sql})",
        node=node,
        range=ranges.cube_root(operand.range),
        nullable=operand.nullable,
    )


def _pi(node: Operation, operands: tuple[Value, ...]) -> Value:
    assert not operands
    return number("pi()", node=node, range=_PI, nullable=False)


def _near(value: float) -> Range:
    """A range about a factor that no way of multiplying by it in doubles leaves."""
    return Range(value * (1 - 2.0**-40), value * (1 + 2.0**-40))


CURVES: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    **dict.fromkeys(("SIN", "COS", "TAN"), _wave),
    **dict.fromkeys(("ASIN", "ACOS"), _arc),
    **dict.fromkeys(("ATAN", "ATAN2"), _arc_tangent),
    "RADIANS": _angle(_near(math.pi / 180)),
    "DEGREES": _angle(_near(180 / math.pi)),
    "CBRT": _cube_root,
    "PI": _pi,
}
