"""Arithmetic of doubles in PostgreSQL, which raises where a result overflows, or underflows to 0.

A sum, difference, product or quotient is rounded as IEEE 754 says, as DuckDB rounds it; but where
the rounded result would be infinite although the operands are finite, or 0 although they are not,
PostgreSQL stops. An error that depends on a row must not be, so that such an operand is met by a
CASE first, which gives the infinity, or 0. Where the spans of the operands rule it out, nothing is
asked. With a constant the first and the last operand that raise are known doubles. For two unknown
operands the product of their mantissas is compared in whole numbers with the power of 2 at which
rounding changes over: half of the least double, and half a step below 2^1024.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

from unacorda.query.engines.dialects.typed import Span, Typed

__all__ = [
    "bound",
    "difference",
    "double",
    "product",
    "quotient",
    "remainder",
    "span_of",
    "total",
]

_SHORT = 120
_INFINITY = "'Infinity'::float8"
_LOWEST, _HIGHEST = -1074, 1024
_TOO_LARGE = Fraction(2) ** 1024 - Fraction(2) ** 970
"""What rounds to infinity, from here on (ties go to even)."""
_TOO_SMALL = Fraction(2) ** -1075
"""What rounds to 0, down from here."""
_UNKNOWN = Span(low=_LOWEST, least=-math.inf, most=math.inf)
_LAST = (2047 << 52) - 1
"""The bits of the greatest finite double."""
_BY_TYPE = {
    "BIGINT": Span(low=0, least=-(2.0**63), most=2.0**63),
    "BOOLEAN": Span(low=0, least=0.0, most=1.0),
}


def double(value: float) -> str:
    """A double as a literal.

    >>> double(0.1), double(-math.inf)
    ("'0.1'::float8", "'-Infinity'::float8")
    """
    if math.isinf(value):
        return f"'{'-' if value < 0 else ''}Infinity'::float8"
    return f"'{value!r}'::float8"


def bound(value: str, body: Callable[[str], str], *, name: str = "x") -> str:
    """SQL that uses a value several times: as it stands where short, by a name where long.

    OFFSET 0 keeps the planner from putting the value back into its places.
    """
    if len(value) <= _SHORT:
        return body(value)
    return f"(SELECT {body(f'b{name}.v')} FROM (SELECT {value} AS v OFFSET 0) AS b{name})"


def span_of(value: Typed) -> Span:
    """Where a number lies, at the worst."""
    return value.span or _BY_TYPE.get(value.type, _UNKNOWN)


def _size(span: Span) -> float:
    return max(abs(span.least), abs(span.most))


def _constant(span: Span) -> float | None:
    return span.least if span.least == span.most and math.isfinite(span.least) else None


def _made(sql: str, low: int, least: float, most: float) -> Typed:
    """A rounded result; its ends are rounded outward."""
    span = Span(
        low=max(min(low, _HIGHEST), _LOWEST),
        least=math.nextafter(least, -math.inf),
        most=math.nextafter(most, math.inf),
    )
    known = span.low > _LOWEST or not math.isinf(_size(span))
    return Typed(sql, "DOUBLE", span=span if known else None)


def total(a: Typed, b: Typed) -> Typed:
    """A + b, of two doubles."""
    return _sum(a, b, "+")


def difference(a: Typed, b: Typed) -> Typed:
    """A - b, of two doubles."""
    return _sum(a, b, "-")


def _sum(a: Typed, b: Typed, sign: str) -> Typed:
    first, second = span_of(a), span_of(b)
    if sign == "-":
        second = Span(low=second.low, least=-second.most, most=-second.least)
    sizes = _size(first), _size(second)
    # Every operand is a multiple of the last place of the smallest one.
    low = min(first.low, second.low) - 52
    ends = first.least + second.least, first.most + second.most
    if sum(sizes) < 2.0**1023 or min(sizes) < 2.0**969:
        return _made(f"({a.sql} {sign} {b.sql})", low, *ends)

    def guarded(x: str, y: str) -> str:
        large = double(2.0**1023)
        plain = (
            f"abs({x}) < {large} AND abs({y}) < {large} OR abs({x}) >= {_INFINITY} "
            f"OR abs({y}) >= {_INFINITY} OR LEAST(abs({x}), abs({y})) < {double(2.0**969)}"
        )
        # Halves of such large numbers are exact, and so is their rounded sum.
        half = f"({x} * '0.5'::float8 {sign} {y} * '0.5'::float8)"
        return (
            f"(CASE WHEN {plain} THEN {x} {sign} {y} WHEN abs({half}) >= {large} "
            f"THEN sign({x}) * {_INFINITY} ELSE {x} {sign} {y} END)"
        )

    return _made(_of_two(a.sql, b.sql, guarded), low, *ends)


def product(a: Typed, b: Typed) -> Typed:
    """A * b, of two doubles."""
    first, second = span_of(a), span_of(b)
    if _constant(first) is not None:
        a, b, first, second = b, a, second, first
    constant = _constant(second)
    corners = [_times(x, y) for x in _ends(first) for y in _ends(second)]
    low = first.low + second.low
    over = not _size(first) * _size(second) < 2.0**1023
    under = low < _LOWEST
    if not (over or under) or constant == 0:
        sql = f"({a.sql} * {b.sql})"
    elif constant is not None:
        factor = abs(Fraction(constant))
        most, least = _last_below(_TOO_LARGE / factor), _last_up_to(_TOO_SMALL / factor)
        sql = _beside(a.sql, f"* {b.sql}", most=most, least=least, negative=constant < 0)
    else:
        sql = _of_two(a.sql, b.sql, _any_product)
    return _made(sql, low, min(corners), max(corners))


def quotient(a: Typed, b: Typed) -> Typed:
    """A / b, of two doubles; NULL where b is 0."""
    first, second = span_of(a), span_of(b)
    constant = _constant(second)
    divisor = b.sql if constant else f"NULLIF({b.sql}, {double(0.0)})"
    size = _size(first) / 2.0**second.low if second.low > -1000 else math.inf
    exponent = math.frexp(_size(second))[1] if not math.isinf(_size(second)) else _HIGHEST
    low = first.low - exponent - 1
    if size < 2.0**1023 and low >= _LOWEST:
        return _made(f"({a.sql} / {divisor})", low, -size, size)
    if constant:
        factor = abs(Fraction(constant))
        most, least = _last_below(_TOO_LARGE * factor), _last_up_to(_TOO_SMALL * factor)
        sql = _beside(a.sql, f"/ {b.sql}", most=most, least=least, negative=constant < 0)
    else:
        sql = _of_two(a.sql, divisor, _any_quotient)
    return _made(sql, low, -size, size)


def remainder(a: Typed, b: Typed) -> Typed:
    """The remainder of a / b with the sign of a, exactly; NULL where b is 0."""
    divisor = f"NULLIF({b.sql}, {double(0.0)})"

    def found(x: str, y: str) -> str:
        whole = " AND ".join(f"abs({v}) < {double(2.0**62)} AND {v} = floor({v})" for v in (x, y))
        nan = "'NaN'::float8"
        # With abs(x) >= abs(y), x is a whole multiple of the last place of y, and so is the rest.
        scaled = "mod(m1 * power(2::numeric, (e1 - e2)::numeric), m2)::float8"
        rest = f"(SELECT {scaled} * (abs({y}) / m2::float8) FROM {_mantissas(x, y)})"
        return (
            f"(CASE WHEN {x} = {nan} OR {y} = {nan} OR abs({x}) = {_INFINITY} THEN {nan} "
            f"WHEN abs({x}) < abs({y}) THEN {x} "
            f"WHEN {whole} THEN ({x}::bigint % {y}::bigint)::float8 "
            f"WHEN {x} IS NOT NULL AND {y} IS NOT NULL THEN sign({x}) * {rest} END)"
        )

    return Typed(_of_two(a.sql, divisor, found), "DOUBLE")


def _ends(span: Span) -> tuple[float, float]:
    return span.least, span.most


def _times(x: float, y: float) -> float:
    return 0.0 if 0 in (x, y) else x * y


def _of_two(x: str, y: str, body: Callable[[str, str], str]) -> str:
    """SQL that uses two values several times."""
    return f"(SELECT {body('p.x', 'p.y')} FROM (SELECT {x} AS x, {y} AS y OFFSET 0) AS p)"


def _beside(value: str, rest: str, *, most: float, least: float, negative: bool) -> str:
    """A value and a constant; most, least: the last sizes of it that do not raise, and that do."""
    sign = "- " if negative else ""
    if math.isinf(most) and least == 0:
        return f"({value} {rest})"

    def guarded(x: str) -> str:
        large = f"WHEN abs({x}) <= {double(most)} THEN {x} {rest} " if math.isfinite(most) else ""
        small = f"WHEN abs({x}) <= {double(least)} THEN {x} * {double(0.0)} " if least > 0 else ""
        if not large:
            return f"(CASE {small}ELSE {x} {rest} END)"
        beyond = f"WHEN abs({x}) < {_INFINITY} THEN {sign}sign({x}) * {_INFINITY} "
        return f"(CASE {small}{large}{beyond}ELSE {x} {rest} END)"

    return bound(value, guarded)


def _last_below(limit: Fraction) -> float:
    """The greatest double below a positive number; infinity where it is none of them."""
    if limit > Fraction(_of_bits(_LAST)):
        return math.inf
    return _search(lambda x: x < limit)


def _last_up_to(limit: Fraction) -> float:
    """The greatest double up to a positive number."""
    return _search(lambda x: x <= limit)


def _search(holds: Callable[[Fraction], bool]) -> float:
    """The greatest finite double from 0 on for which a falling condition holds."""
    low, high = 0, _LAST  # doubles are in the order of their bits
    while low < high:
        middle = (low + high + 1) // 2
        if holds(Fraction(_of_bits(middle))):
            low = middle
        else:
            high = middle - 1
    return _of_bits(low)


def _of_bits(bits: int) -> float:
    (found,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(found)


def _power(exponent: str) -> str:
    """2 to a power between 0 and 120."""
    half = f"({exponent}) / 2"
    return f"((1::bigint << {half})::numeric * (1::bigint << (({exponent}) - {half}))::numeric)"


def _mantissas(x: str, y: str) -> str:
    """A relation of whole m1, m2 and e1, e2: |x| = m1 * 2^(e1 - 1075), |y| = m2 * 2^(e2 - 1075)."""
    bits = [f"('x' || encode(float8send({v}), 'hex'))::bit(64)::bigint" for v in (x, y)]
    listed = []
    for number in (1, 2):
        exponent = f"((k{number} >> 52) & 2047)::int"
        fraction = f"(k{number} & {2**52 - 1})"
        listed += [
            f"(CASE {exponent} WHEN 0 THEN 0 ELSE {2**52} END + {fraction})::numeric AS m{number}",
            f"GREATEST({exponent}, 1) AS e{number}",
        ]
    inner = f"(SELECT {bits[0]} AS k1, {bits[1]} AS k2 OFFSET 0) AS bits"
    return f"(SELECT {', '.join(listed)} FROM {inner} OFFSET 0) AS parts"


def _any_product(x: str, y: str) -> str:
    # m1 m2 2^(e1 + e2 - 2150) against (2^54 - 1) 2^970 and 2^-1075.
    over, under = "3120 - e1 - e2", "1075 - e1 - e2"
    return _any(
        x,
        y,
        sign="*",
        over=f"CASE WHEN {over} > 53 THEN FALSE WHEN {over} < 0 THEN TRUE "
        f"ELSE m1 * m2 >= {2**54 - 1} * {_power(over)} END",
        under=f"CASE WHEN {under} < 0 THEN FALSE WHEN {under} > 106 THEN TRUE "
        f"ELSE m1 * m2 <= {_power(under)} END",
    )


def _any_quotient(x: str, y: str) -> str:
    # m1 2^(e1 - e2) against m2 (2^54 - 1) 2^970 and m2 2^-1075.
    over, under = "e1 - e2 - 970", "e1 - e2 + 1075"
    return _any(
        x,
        y,
        sign="/",
        over=f"CASE WHEN {over} < 0 THEN FALSE WHEN {over} > 107 THEN TRUE "
        f"ELSE m1 * {_power(over)} >= m2 * {2**54 - 1} END",
        under=f"CASE WHEN {under} > 53 THEN FALSE WHEN {under} < -53 THEN TRUE "
        f"WHEN {under} < 0 THEN m1 <= m2 * {_power(f'-({under})')} "
        f"ELSE m1 * {_power(under)} <= m2 END",
    )


def _any(x: str, y: str, *, sign: str, over: str, under: str) -> str:
    middle = " AND ".join(
        f"abs({v}) BETWEEN {double(2.0**-500)} AND {double(2.0**500)}" for v in (x, y)
    )
    special = " OR ".join(f"{v} = {double(0.0)} OR abs({v}) >= {_INFINITY}" for v in (x, y))
    infinite = f"CASE WHEN sign({x}) = sign({y}) THEN {_INFINITY} ELSE - {_INFINITY} END"
    decided = (
        f"(SELECT CASE WHEN {over} THEN {infinite} WHEN {under} THEN {double(0.0)} "
        f"ELSE {x} {sign} {y} END FROM {_mantissas(x, y)})"
    )
    plain = f"({middle}) OR {special} OR {x} IS NULL OR {y} IS NULL"
    return f"(CASE WHEN {plain} THEN {x} {sign} {y} ELSE {decided} END)"
