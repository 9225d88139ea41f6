"""Numbers: arithmetic, rounding, roots and curves.

Each is written in DuckDB, made total, and bounded. Probed on DuckDB 2.0 over NULL, infinities,
signed zeros, subnormals and the largest doubles: + - * / % on doubles never raise (overflow gives
an infinity, 0/0 NaN); SQRT below 0 and logarithms at or below 0 raise, so their argument itself is
guarded, never the call.

Sines of infinities, and arcs of sines beyond 1, are NULL: the operand is guarded.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable

from unacorda.query.expressions import ranges
from unacorda.query.expressions.ranges import Range
from unacorda.query.expressions.tree import Operation
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import Value, bound, bound_pair, number, numeric, settled

__all__ = [
    "ARITHMETIC",
    "CURVES",
]

_Rule = Callable[[Operation, tuple[Value, ...]], Value]


def _infinite(value: Value, sign: int) -> bool:
    end = value.range.upper if sign > 0 else value.range.lower
    return not value.range.empty and end == sign * math.inf


def _may_hold_zero(value: Value) -> bool:
    return value.range.contains(0.0)


def _integers(*values: Value) -> bool:
    return all(value.kind == Kind.INTEGER for value in values)


def _add(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = (numeric(operand) for operand in operands)
    minus = node.name == "-"
    other = -1 if minus else 1
    clash = any(_infinite(a, sign) and _infinite(b, -sign * other) for sign in (1, -1))
    return number(
        f"({a.sql} {node.name} {b.sql})",
        node=node,
        range=ranges.add(a.range, ranges.negate(b.range) if minus else b.range),
        integer=_integers(a, b),
        nullable=a.nullable or b.nullable,
        nan=a.nan or b.nan or clash,
    )


def _multiply(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = (numeric(operand) for operand in operands)
    clash = any(x.range.may_be_infinite and _may_hold_zero(y) for x, y in ((a, b), (b, a)))
    return number(
        f"({a.sql} * {b.sql})",
        node=node,
        range=ranges.multiply(a.range, b.range),
        integer=_integers(a, b),
        nullable=a.nullable or b.nullable,
        nan=a.nan or b.nan or clash,
    )


def _divide(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = (numeric(operand) for operand in operands)
    return number(
        f"({a.sql} / {_nonzero(b)})",
        node=node,
        range=ranges.divide(a.range, b.range),
        nan=a.nan or b.nan or (a.range.may_be_infinite and b.range.may_be_infinite),
    )


def _remainder(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = (numeric(operand) for operand in operands)
    return number(
        f"({a.sql} % {_nonzero(b)})",
        node=node,
        range=ranges.remainder(a.range, b.range),
        integer=_integers(a, b),
        nan=a.nan or b.nan or a.range.may_be_infinite,
    )


def _nonzero(value: Value) -> str:
    if not _may_hold_zero(value):
        return value.sql
    return bound(value.sql, lambda x: f"(CASE WHEN {x} <> 0e0 THEN {x} END)")


def _negative(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (numeric(operand) for operand in operands)
    return number(
        f"(- {a.sql})",
        node=node,
        range=ranges.negate(a.range),
        integer=_integers(a),
        nullable=a.nullable,
        nan=a.nan,
    )


def _absolute(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (numeric(operand) for operand in operands)
    return number(
        f"abs({a.sql})",
        node=node,
        range=ranges.absolute(a.range),
        integer=_integers(a),
        nullable=a.nullable,
        nan=a.nan,
    )


def _whole(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (numeric(operand) for operand in operands)
    return number(
        f"{node.name.lower()}({a.sql})",
        node=node,
        range=ranges.whole(a.range),
        integer=True,
        nullable=a.nullable,
        nan=a.nan,
    )


def _round(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (numeric(operand) for operand in operands)
    assert isinstance(node.option, int)
    digits = node.option
    return number(
        f"round({a.sql}, {digits})" if digits else f"round({a.sql})",
        node=node,
        range=ranges.round_to(a.range, digits),
        integer=digits <= 0 or _integers(a),
        nullable=a.nullable,
        nan=a.nan,
    )


def _sign(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (settled(numeric(operand)) for operand in operands)
    return number(
        f"CAST(sign({a.sql}) AS DOUBLE)",
        node=node,
        range=Range(-1.0, 1.0),
        integer=True,
        nullable=a.nullable,
    )


def _root(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (numeric(operand) for operand in operands)
    guarded = bound(a.sql, lambda x: f"(CASE WHEN {x} >= 0e0 THEN {x} END)")
    return number(f"sqrt({guarded})", node=node, range=ranges.root(a.range), nan=a.nan)


def _logarithm(function: Callable[[float], float]) -> _Rule:
    def rule(node: Operation, operands: tuple[Value, ...]) -> Value:
        (a,) = (numeric(operand) for operand in operands)
        guarded = bound(a.sql, lambda x: f"(CASE WHEN {x} > 0e0 THEN {x} END)")
        return number(
            f"{node.name.lower()}({guarded})",
            node=node,
            range=ranges.logarithm(a.range, function),
            nan=a.nan,
        )

    return rule


def _exponential(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (numeric(operand) for operand in operands)
    return number(
        f"exp({a.sql})",
        node=node,
        range=ranges.exponential(a.range),
        nullable=a.nullable,
        nan=a.nan,
    )


def _power(node: Operation, operands: tuple[Value, ...]) -> Value:
    # NaN^0 and 1^NaN are 1 in IEEE 754, so NaN must be NULL before. Adding 0 turns -0 into 0.
    base, exponent = (settled(numeric(operand)) for operand in operands)
    if exponent.range.lower >= 0:
        sql = f"pow({base.sql} + 0e0, {exponent.sql})"
    else:
        sql = bound_pair(
            base.sql,
            exponent.sql,
            lambda x, y: f"pow((CASE WHEN {x} <> 0e0 OR {y} >= 0e0 THEN {x} END) + 0e0, {y})",
        )
    return number(
        sql,
        node=node,
        range=ranges.power(base.range, exponent.range),
        nan=base.range.lower < 0 and not _whole_constant(exponent),
    )


def _whole_constant(value: Value) -> bool:
    end = value.range.lower
    return end == value.range.upper and math.isfinite(end) and end == math.floor(end)


ARITHMETIC: dict[str, _Rule] = {
    "+": _add,
    "-": _add,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "NEGATIVE": _negative,
    "ABS": _absolute,
    "FLOOR": _whole,
    "CEIL": _whole,
    "TRUNC": _whole,
    "ROUND": _round,
    "SIGN": _sign,
    "SQRT": _root,
    "LN": _logarithm(math.log),
    "LOG2": _logarithm(math.log2),
    "LOG10": _logarithm(math.log10),
    "EXP": _exponential,
    "POWER": _power,
}


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
