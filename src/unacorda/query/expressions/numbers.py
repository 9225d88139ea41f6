"""Numbers: arithmetic, rounding, roots and curves.

Each is written in DuckDB, made total, and bounded. Operands are neither NaN nor infinite, and no
result is: an operation whose result could leave the doubles sees its operands held to the sizes
that numbers have (`values.kept`). What has no value there is NULL: quotients by 0, roots of
negative numbers, logarithms at or below 0; the operand is guarded, never the call.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable

from unacorda.query.expressions import ranges
from unacorda.query.expressions.conversions import held, let, let_pair
from unacorda.query.expressions.quoting import double
from unacorda.query.expressions.ranges import Range
from unacorda.query.expressions.tree import Operation
from unacorda.query.expressions.types import LARGEST, Kind
from unacorda.query.expressions.values import PLAIN, Size, Value, kept, number, numeric

__all__ = [
    "ARITHMETIC",
    "CURVES",
]

_Rule = Callable[[Operation, tuple[Value, ...]], Value]

_DOUBLES = Size(1e-300, 1e300)
"""Within the normal doubles, with room for what computing them errs."""
_NEARLY = 1 + 2.0**-40


def _fitting(
    operands: tuple[Value, ...], sized: Callable[[Size, Size], Size]
) -> tuple[Value, Value, Size]:
    """Two operands as numbers, and the size of the result, which is one of the doubles."""
    a, b = map(numeric, operands)
    size = sized(a.size, b.size)
    if not size.within(_DOUBLES):
        a, b = kept(a), kept(b)
        size = sized(a.size, b.size)
    return a, b, size


def _of_sum(a: Size, b: Size) -> Size:
    step = min(a.step, b.step)
    return Size(step, (a.most + b.most) * _NEARLY, step)


def _of_product(a: Size, b: Size) -> Size:
    return Size(a.least * b.least / _NEARLY, a.most * b.most * _NEARLY)


def _of_quotient(a: Size, b: Size) -> Size:
    return Size(a.least / max(b.most, b.least) / _NEARLY, a.most / b.least * _NEARLY)


def _of_remainder(a: Size, b: Size) -> Size:
    step = min(a.step, b.step)
    return Size(step, min(a.most, b.most), step)


def _may_hold_zero(value: Value) -> bool:
    return value.range.contains(0.0)


def _integers(*values: Value) -> bool:
    return all(value.kind == Kind.INTEGER for value in values)


def _add(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b, size = _fitting(operands, _of_sum)
    other = ranges.negate(b.range) if node.name == "-" else b.range
    return number(
        f"({a.sql} {node.name} {b.sql})",
        node=node,
        range=ranges.add(a.range, other),
        size=size,
        integer=_integers(a, b),
        nullable=a.nullable or b.nullable,
    )


def _multiply(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b, size = _fitting(operands, _of_product)
    return number(
        f"({a.sql} * {b.sql})",
        node=node,
        range=ranges.multiply(a.range, b.range),
        size=size,
        integer=_integers(a, b),
        nullable=a.nullable or b.nullable,
    )


def _divide(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b, size = _fitting(operands, _of_quotient)
    return number(
        f"({a.sql} / {_nonzero(b)})", node=node, range=ranges.divide(a.range, b.range), size=size
    )


def _remainder(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b, size = _fitting(operands, _of_remainder)
    return number(
        f"({a.sql} % {_nonzero(b)})",
        node=node,
        range=ranges.remainder(a.range, b.range),
        size=size,
        integer=_integers(a, b),
    )


def _nonzero(value: Value) -> str:
    if not _may_hold_zero(value):
        return value.sql
    return let(value.sql, lambda x: f"(CASE WHEN {x} <> 0e0 THEN {x} END)")


def _negative(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = map(numeric, operands)
    return number(
        f"(- {a.sql})",
        node=node,
        range=ranges.negate(a.range),
        size=a.size,
        integer=_integers(a),
        nullable=a.nullable,
    )


def _absolute(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = map(numeric, operands)
    return number(
        f"abs({a.sql})",
        node=node,
        range=ranges.absolute(a.range),
        size=a.size,
        integer=_integers(a),
        nullable=a.nullable,
    )


def _whole(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = map(numeric, operands)
    return number(
        f"{node.name.lower()}({a.sql})",
        node=node,
        range=ranges.whole(a.range),
        size=Size(1.0, a.size.most + 1, 1.0),
        integer=True,
        nullable=a.nullable,
    )


def _round(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = (kept(numeric(operand)) for operand in operands)
    assert isinstance(node.option, int)
    digits = node.option
    unit = f"1e{abs(digits)}"
    if digits > 0:
        sql = f"(round({a.sql} * {unit}) / {unit})"
    elif digits < 0:
        sql = f"(round({a.sql} / {unit}) * {unit})"
    else:
        sql = f"round({a.sql})"
    return number(
        sql,
        node=node,
        range=ranges.round_to(a.range, digits),
        size=Size(10.0**-digits / 2, a.size.most * _NEARLY + 10.0**-digits),
        integer=digits <= 0 or _integers(a),
        nullable=a.nullable,
    )


def _sign(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = map(numeric, operands)
    return number(
        f"CAST(sign({a.sql}) AS DOUBLE)",
        node=node,
        range=Range(-1.0, 1.0),
        integer=True,
        nullable=a.nullable,
    )


def _root(node: Operation, operands: tuple[Value, ...]) -> Value:
    (a,) = map(numeric, operands)
    guarded = let(a.sql, lambda x: f"(CASE WHEN {x} >= 0e0 THEN {x} END)")
    size = Size(math.sqrt(a.size.least) / 2, math.sqrt(a.size.most) * 2)
    return number(f"sqrt({guarded})", node=node, range=ranges.root(a.range), size=size)


_FARTHEST = 1_100.0
"""No logarithm of a double is larger; none but 0 is smaller than 2^-55, the distance from 1."""


def _logarithm(function: Callable[[float], float]) -> _Rule:
    def rule(node: Operation, operands: tuple[Value, ...]) -> Value:
        (a,) = map(numeric, operands)
        guarded = let(a.sql, lambda x: f"(CASE WHEN {x} > 0e0 THEN {x} END)")
        return number(
            f"{node.name.lower()}({guarded})",
            node=node,
            range=ranges.logarithm(a.range, function),
            size=Size(2.0**-55, _FARTHEST),
        )

    return rule


_MOST_EXPONENT = 230.0
"""The exponential of it is a number, and that of its negative."""


def _exponential(node: Operation, operands: tuple[Value, ...]) -> Value:
    """Of a number that is held to what has one."""
    (a,) = map(numeric, operands)
    sql, least, most = a.sql, a.range.lower, a.range.upper
    if a.size.most > _MOST_EXPONENT:
        sql = held(sql, least=a.size.least, most=_MOST_EXPONENT)
        least = min(max(least, -_MOST_EXPONENT), _MOST_EXPONENT)
        most = most if most == math.inf else max(min(most, _MOST_EXPONENT), -_MOST_EXPONENT)
    return number(
        f"exp({sql})",
        node=node,
        range=ranges.exponential(Range(least, most)),
        nullable=a.nullable,
    )


_MOST_CONSTANT = 1_000.0
"""Up to here a base between 1/2 and 2 gives a double."""


def _power(node: Operation, operands: tuple[Value, ...]) -> Value:
    """A base to an exponent; NULL for 0 to a negative one, and for what is not a real number.

    A base to a constant is held to what gives a double. Else the logarithm of the result is looked
    at: what would be larger than e^230 is 1e100, what is smaller than e^-230 0, and of negative
    bases both are NULL.
    """
    base, exponent = (kept(numeric(operand)) for operand in operands)
    y, size = exponent.range.lower, PLAIN
    if y != exponent.range.upper or abs(y) > _MOST_CONSTANT:
        sql = let_pair(base.sql, exponent.sql, _any_power)
        found = ranges.power(base.range, exponent.range)
        lower, upper = (
            end if math.isinf(end) else min(max(end, -LARGEST), LARGEST)
            for end in (found.lower, found.upper)
        )
        found = Range(0.0 if 0 < lower < PLAIN.least else lower, upper)
    elif y == 0:
        sql = let(base.sql, lambda x: f"(CASE WHEN {x} IS NOT NULL THEN 1e0 END)")
        found = Range(1.0, 1.0)
    else:
        power = min(1_000.0 / abs(y), 332.0)
        base = kept(base, Size(2.0 ** -math.floor(power), 2.0**power))
        real = ">= 0e0" if y != math.floor(y) else "IS NOT NULL"
        real = real if y > 0 else f"{real} AND {{0}} <> 0e0"
        within = let(base.sql, lambda v: f"(CASE WHEN {v} {real.format(v)} THEN {v} END)")
        sql, found = f"pow({within}, {exponent.sql})", ranges.power(base.range, exponent.range)
        ends = sorted(max(one, base.size.least) ** y for one in (base.size.least, base.size.most))
        size = Size(ends[0] / 2, ends[1] * 2)
    return number(sql, node=node, range=found, size=size)


def _any_power(x: str, y: str) -> str:
    far = f"{y} * ln(abs({x}))"
    most = double(_MOST_EXPONENT)
    whole = f"({x} > 0e0 OR {y} = floor({y}))"
    return (
        f"(CASE WHEN {x} = 0e0 THEN CASE WHEN {y} > 0e0 THEN 0e0 WHEN {y} = 0e0 THEN 1e0 END "
        f"WHEN {whole} AND abs({far}) <= {most} THEN pow({x}, {y}) "
        f"WHEN {x} > 0e0 THEN CASE WHEN {far} > 0e0 THEN {double(LARGEST)} "
        f"WHEN {far} < 0e0 THEN 0e0 END END)"
    )


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


_HALF = math.nextafter(math.pi / 2, 2.0)
_WHOLE = math.nextafter(math.pi, 4.0)
_LARGEST_TANGENT = 1e18  # no double lies nearer than 6e-17 to an odd multiple of pi / 2
_NEAREST = 1e-25  # nor nearer to a multiple of pi than this, but 0


def _curved(operand: Value) -> Size:
    return Size(min(operand.size.least / 2, _NEAREST), _LARGEST_TANGENT)


def _wave(node: Operation, operands: tuple[Value, ...]) -> Value:
    (operand,) = map(numeric, operands)
    most = _LARGEST_TANGENT if node.name == "TAN" else 1.0
    return number(
        f"{node.name.lower()}({operand.sql})",
        node=node,
        range=Range(-most, most),
        size=_curved(operand),
        nullable=operand.nullable,
    )


def _arc(node: Operation, operands: tuple[Value, ...]) -> Value:
    (operand,) = map(numeric, operands)
    sql = let(operand.sql, lambda x: f"(CASE WHEN abs({x}) <= 1e0 THEN {x} END)")
    found = Range(0.0, _WHOLE) if node.name == "ACOS" else Range(-_HALF, _HALF)
    return number(f"{node.name.lower()}({sql})", node=node, range=found, size=_curved(operand))


def _arc_tangent(node: Operation, operands: tuple[Value, ...]) -> Value:
    values = [kept(numeric(operand)) for operand in operands]
    most = _HALF if node.name == "ATAN" else _WHOLE
    least = _of_quotient(values[0].size, values[-1].size).least / 2 if len(values) > 1 else 0.0
    return number(
        f"{node.name.lower()}({', '.join(value.sql for value in values)})",
        node=node,
        range=Range(-most, most),
        size=Size(least, _WHOLE) if least else _curved(values[0]),
        nullable=any(value.nullable for value in values),
    )


def _angle(factor: float) -> _Rule:
    def rule(node: Operation, operands: tuple[Value, ...]) -> Value:
        a = kept(numeric(operands[0]))
        return number(
            f"({a.sql} * {double(factor)})",
            node=node,
            range=ranges.multiply(a.range, Range(factor, factor)),
            size=_of_product(a.size, Size(factor, factor)),
            nullable=a.nullable,
        )

    return rule


def _cube_root(node: Operation, operands: tuple[Value, ...]) -> Value:
    (operand,) = map(numeric, operands)
    return number(
        f"cbrt({operand.sql})",
        node=node,
        range=ranges.cube_root(operand.range),
        size=Size(math.cbrt(operand.size.least) / 2, math.cbrt(operand.size.most) * 2),
        nullable=operand.nullable,
    )


def _pi(node: Operation, operands: tuple[Value, ...]) -> Value:
    assert not operands
    return number(double(math.pi), node=node, range=Range(math.pi, math.pi), nullable=False)


CURVES: dict[str, _Rule] = {
    **dict.fromkeys(("SIN", "COS", "TAN"), _wave),
    **dict.fromkeys(("ASIN", "ACOS"), _arc),
    **dict.fromkeys(("ATAN", "ATAN2"), _arc_tangent),
    "RADIANS": _angle(math.pi / 180),
    "DEGREES": _angle(180 / math.pi),
    "CBRT": _cube_root,
    "PI": _pi,
}
