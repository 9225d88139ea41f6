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
from dataclasses import dataclass, replace
from functools import partial

from unacorda.query.expressions import ranges
from unacorda.query.expressions.language import Kind, Operation, double
from unacorda.query.expressions.ranges import LARGEST, PLAIN, Range, Size
from unacorda.query.expressions.values import (
    Rule,
    Value,
    any_nullable,
    guarded,
    held,
    kept,
    let,
    number,
    numeric,
)

_DOUBLES = Size(1e-300, 1e300)
"""Within the normal doubles, with room for what computing them errs."""
_NEARLY = 1 + 2.0**-40
_NOT_ZERO = "{0} <> 0e0"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A function of one number or two.

    sql: with {0} and {1} for the numbers, {name} for the operation; defined: where it has a value,
    a condition on the last of them; range, size: of the result, from those of the numbers; whole:
    whether it is an integer, or as the numbers are where that is None; plain: whether the numbers
    are held to the sizes of numbers whatever comes out.
    """

    sql: str
    range: Callable[..., Range]
    size: Callable[..., Size]
    defined: str | None = None
    whole: bool | None = False
    plain: bool = False

    def __call__(self, node: Operation, *operands: Value) -> Value:
        values = [numeric(operand) for operand in operands]
        size = self.size(*(value.size for value in values))
        if self.plain or (len(values) > 1 and not size.within(_DOUBLES)):
            values = [kept(value) for value in values]
            size = self.size(*(value.size for value in values))
        parts, last = [value.sql for value in values], values[-1]
        guard = self.defined != _NOT_ZERO or last.range.contains(0.0)
        if self.defined is not None and guard:
            parts[-1] = guarded(last.sql, self.defined)
        return number(
            self.sql.format(*parts, name=node.name),
            range=self.range(*(value.range for value in values)),
            size=size,
            integer=_integers(*values) if self.whole is None else self.whole,
            nullable=self.defined is not None or any_nullable(values),
        )


def _integers(*values: Value) -> bool:
    return all(value.kind == Kind.INTEGER for value in values)


# ---- sizes, and rows of the table that several functions share ----------------------------------


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


def _same(size: Size) -> Size:
    return size


_arithmetic = partial(_Function, sql="({0} {name} {1})", whole=None)
_rounding = partial(
    _Function, range=ranges.whole, size=lambda a: Size(1.0, a.most + 1, 1.0), whole=True
)
"""To a whole number next to it."""


def _of_root(root: Callable[[float], float]) -> Callable[[Size], Size]:
    return lambda a: Size(root(a.least) / 2, root(a.most) * 2)


def _within(lower: float, upper: float) -> Callable[..., Range]:
    """The range of a function, whatever its operands."""
    return lambda *_: Range(lower, upper)


_FARTHEST = 1_100.0
"""No logarithm of a double is larger; none but 0 is smaller than 2^-55, the distance from 1."""
_logarithm = partial(_Function, defined="{0} > 0e0", size=lambda _: Size(2.0**-55, _FARTHEST))

_HALF = math.nextafter(math.pi / 2, 2.0)
_WHOLE = math.nextafter(math.pi, 4.0)
_LARGEST_TANGENT = 1e18  # no double lies nearer than 6e-17 to an odd multiple of pi / 2
_NEAREST = 1e-25  # nor nearer to a multiple of pi than this, but 0
_curve = partial(_Function, size=lambda a: Size(min(a.least / 2, _NEAREST), _LARGEST_TANGENT))


def _angle(factor: float) -> Rule:
    return _Function(
        sql=f"({{0}} * {double(factor)})",
        range=partial(ranges.multiply, Range(factor, factor)),
        size=partial(_of_product, Size(factor, factor)),
        plain=True,
    )


# ---- functions of their own --------------------------------------------------------------------


def _round(node: Operation, operand: Value) -> Value:
    a, digits = kept(numeric(operand)), node.option
    assert isinstance(digits, int)
    if digits > 0 and _integers(a):
        return a
    unit = f"1e{abs(digits)}"
    if digits > 0:
        sql = f"(round({a.sql} * {unit}) / {unit})"
    elif digits < 0:
        sql = f"(round({a.sql} / {unit}) * {unit})"
    else:
        sql = f"round({a.sql})"
    return number(
        sql,
        range=ranges.round_to(a.range, digits),
        size=Size(10.0**-digits / 2, a.size.most * _NEARLY + 10.0**-digits),
        integer=digits <= 0 or _integers(a),
        nullable=a.nullable,
    )


_MOST_EXPONENT = 230.0
"""The exponential of it is a number, and that of its negative."""


def _exponential(_: Operation, operand: Value) -> Value:
    """Of a number that is held to what has one."""
    a = numeric(operand)
    sql, least, most = a.sql, a.range.lower, a.range.upper
    if a.size.most > _MOST_EXPONENT:
        sql = held(sql, least=a.size.least, most=_MOST_EXPONENT)
        least = min(max(least, -_MOST_EXPONENT), _MOST_EXPONENT)
        most = most if most == math.inf else max(min(most, _MOST_EXPONENT), -_MOST_EXPONENT)
    found = ranges.exponential(Range(least, most))
    return number(f"exp({sql})", range=found, nullable=a.nullable)


_MOST_CONSTANT = 1_000.0
"""Up to here a base between 1/2 and 2 gives a double."""


def _power(_: Operation, *operands: Value) -> Value:
    """A base to an exponent; NULL for 0 to a negative one, and for what is not a real number.

    A base to a constant is held to what gives a double. Else the logarithm of the result is looked
    at: what would be larger than e^230 is 1e100, what is smaller than e^-230 0, and of negative
    bases both are NULL.
    """
    base, exponent = (kept(numeric(operand)) for operand in operands)
    y, size = exponent.range.lower, PLAIN
    if y != exponent.range.upper or abs(y) > _MOST_CONSTANT:
        sql = let(_any_power, base.sql, exponent.sql)
        found = ranges.power(base.range, exponent.range)
        lower, upper = (
            end if math.isinf(end) else min(max(end, -LARGEST), LARGEST)
            for end in (found.lower, found.upper)
        )
        # e^-230 and what is below is 0, e^230 and what is above 1e100: with room for both.
        lower, upper = 0.0 if 0 < lower < 2e-100 else lower, LARGEST if upper > 7e99 else upper
        found = Range(lower, upper)
    elif y == 0:
        sql = let("(CASE WHEN {0} IS NOT NULL THEN 1e0 END)".format, base.sql)
        found = Range(1.0, 1.0)
    else:
        power = min(1_000.0 / abs(y), 332.0)
        to, whole, known = Size(2.0 ** -math.floor(power), 2.0**power), base.range, base.size
        most = min(known.most, to.most)
        least = min(max(known.least, to.least), most)
        if (least, most) != (known.least, known.most):  # what is smaller is 0: it is not stepped
            lower, upper = (
                end if math.isinf(end) else min(max(end, -most), most)
                for end in (whole.lower, whole.upper)
            )
            lower = 0.0 if 0 < lower < least else lower
            upper = 0.0 if -least < upper < 0 else upper
            text = held(base.sql, least=least, most=most)
            base = replace(base, sql=text, range=Range(lower, upper))
        real = "{0} >= 0e0" if y != math.floor(y) else "{0} IS NOT NULL"
        within = guarded(base.sql, real if y > 0 else f"{real} AND {_NOT_ZERO}")
        sql, found = f"pow({within}, {exponent.sql})", ranges.power(base.range, exponent.range)
        if y > 0 or least > 0:  # else the base is 0, and the power NULL
            ends = sorted(one**y for one in (least, most))
            size = Size(ends[0] / 2, ends[1] * 2)
    return number(sql, range=found, size=size)


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


NUMBERS: dict[str, Rule] = {
    "+": _arithmetic(range=ranges.add, size=_of_sum),
    "-": _arithmetic(range=lambda a, b: ranges.add(a, ranges.negate(b)), size=_of_sum),
    "*": _arithmetic(range=ranges.multiply, size=_of_product),
    "/": _arithmetic(range=ranges.divide, size=_of_quotient, whole=False, defined=_NOT_ZERO),
    "%": _arithmetic(range=ranges.remainder, size=_of_remainder, defined=_NOT_ZERO),
    "NEGATIVE": _Function(sql="(- {0})", range=ranges.negate, size=_same, whole=None),
    "ABS": _Function(sql="abs({0})", range=ranges.absolute, size=_same, whole=None),
    "FLOOR": _rounding(sql="floor({0})"),
    "CEIL": _rounding(sql="ceil({0})"),
    "TRUNC": _rounding(sql="trunc({0})"),
    "ROUND": _round,
    "SIGN": _rounding(
        sql="CAST(sign({0}) AS DOUBLE)", range=_within(-1.0, 1.0), size=lambda _: PLAIN
    ),
    "SQRT": _Function(
        sql="sqrt({0})", defined="{0} >= 0e0", range=ranges.root, size=_of_root(math.sqrt)
    ),
    "CBRT": _Function(sql="cbrt({0})", range=ranges.cube_root, size=_of_root(math.cbrt)),
    "LN": _logarithm(sql="ln({0})", range=partial(ranges.logarithm, function=math.log)),
    "LOG2": _logarithm(sql="log2({0})", range=partial(ranges.logarithm, function=math.log2)),
    "LOG10": _logarithm(sql="log10({0})", range=partial(ranges.logarithm, function=math.log10)),
    "EXP": _exponential,
    "POWER": _power,
    "SIN": _curve(sql="sin({0})", range=_within(-1.0, 1.0)),
    "COS": _curve(sql="cos({0})", range=_within(-1.0, 1.0)),
    "TAN": _curve(sql="tan({0})", range=_within(-_LARGEST_TANGENT, _LARGEST_TANGENT)),
    "ASIN": _curve(sql="asin({0})", range=_within(-_HALF, _HALF), defined="abs({0}) <= 1e0"),
    "ACOS": _curve(sql="acos({0})", range=_within(0.0, _WHOLE), defined="abs({0}) <= 1e0"),
    "ATAN": _curve(sql="atan({0})", range=_within(-_HALF, _HALF), plain=True),
    "ATAN2": _Function(
        sql="atan2({0}, {1})",
        range=_within(-_WHOLE, _WHOLE),
        size=lambda a, b: Size(min(_of_quotient(a, b).least / 2, 0.5), _WHOLE),
        plain=True,
    ),
    "RADIANS": _angle(math.pi / 180),
    "DEGREES": _angle(180 / math.pi),
    "PI": lambda _: number(double(math.pi), range=Range(math.pi, math.pi), nullable=False),
}
"""Operations on numbers, by name."""
