"""Functions of numbers and texts as PostgreSQL writes them.

Arithmetic of doubles in PostgreSQL, which raises where a result overflows, or underflows to 0.

A sum, difference, product or quotient is rounded as IEEE 754 says, as DuckDB rounds it; but where
the rounded result would be infinite although the operands are finite, or 0 although they are not,
PostgreSQL stops. An error that depends on a row must not be, so that such an operand is met by a
CASE first, which gives the infinity, or 0. Where the spans of the operands rule it out, nothing is
asked. With a constant the first and the last operand that raise are known doubles. For two unknown
operands the product of their mantissas is compared in whole numbers with the power of 2 at which
rounding changes over: half of the least double, and half a step below 2^1024.

Numbers in PostgreSQL: the same doubles as DuckDB's, bit for bit, or a refusal.

FLOOR, CEIL, TRUNC and SQRT are exact on both engines; ROUND of PostgreSQL takes ties to even, so
that DuckDB's, away from 0, is written with it. NaN is level with itself and above all on both.
Exponentials, logarithms, powers, circular functions and cube roots come from two libraries that
differ in the last bit now and then: they are refused.

Text in PostgreSQL: by code point, under the collation "C" from its first mention on.

DuckDB changes the case of every code point by a table of its own, which PostgreSQL is given.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from unacorda.query.engines.dialects.typed import (
    SPACES,
    Refused,
    Span,
    Typed,
    Untranslatable,
    Writer,
    Writing,
    call,
    case_table,
    chained,
    united,
)

__all__ = [
    "NUMBERS",
    "TEXTS",
    "as_double",
    "bound",
    "difference",
    "double",
    "finite",
    "literal",
    "literal_number",
    "product",
    "quotient",
    "remainder",
    "rounded",
    "span_of",
    "text",
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


_MOST_DIGITS = 15
_WHOLE_TYPES = ("BIGINT", "HUGEINT")


def constant(value: float) -> Typed:
    """A double that is known."""
    low = math.frexp(value)[1] - 1 if value else 1024
    return Typed(double(value), "DOUBLE", span=Span(low=low, least=value, most=value))


def literal_number(text: str) -> Typed:
    """A number without a sign, as DuckDB's SQL writes it: whole numbers, and doubles."""
    if text.isdigit():
        huge = int(text) >= 1 << 63
        return Typed(f"'{text}'::numeric" if huge else f"'{text}'::bigint",
                     "HUGEINT" if huge else "BIGINT")  # fmt: skip
    return constant(float(text))


def as_double(value: Typed) -> Typed:
    """A number as a double."""
    if value.type == "DOUBLE":
        return value
    if value.type not in ("BIGINT", "NULL"):
        raise Untranslatable(f"arithmetic of {value.type} and a number")
    return Typed(f"CAST({value.sql} AS float8)", "DOUBLE", span=span_of(value))


def rounded(value: Typed) -> Typed:
    """A double rounded to a whole one, ties away from 0."""

    def away(v: str) -> str:
        tie = f"abs({v} - round({v})) = {double(0.5)}"
        return f"(CASE WHEN {tie} THEN {v} + sign({v}) * {double(0.5)} ELSE round({v}) END)"

    return Typed(bound(value.sql, away), "DOUBLE", span=_whole_span(value))


def _whole_span(value: Typed) -> Span:
    span = span_of(value)
    return Span(low=0, least=math.floor(span.least) if _finite(span.least) else span.least,
                most=math.ceil(span.most) if _finite(span.most) else span.most)  # fmt: skip


def _finite(end: float) -> bool:
    return math.isfinite(end)


def _arithmetic(sign: str, of_doubles: Callable[[Typed, Typed], Typed]) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        a, b = writer.value(node.this), writer.value(node.args["expression"])
        kind = united(a, b)
        if kind == "DOUBLE":
            return of_doubles(as_double(a), as_double(b))
        if kind not in _WHOLE_TYPES:
            raise Untranslatable(f"arithmetic of {kind}")
        return Typed(f"({a.sql} {sign} {b.sql})", kind)

    return write


def _of_doubles(made: Callable[[Typed, Typed], Typed]) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        a, b = writer.value(node.this), writer.value(node.args["expression"])
        return made(as_double(a), as_double(b))

    return write


def _negative(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    span = value.span and Span(low=value.span.low, least=-value.span.most, most=-value.span.least)
    return Typed(f"(- {value.sql})", value.type, span=span)


def _size_of_number(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    span = span_of(value)
    most = max(abs(span.least), abs(span.most))
    known = value.span and Span(low=span.low, least=0.0, most=most)
    return Typed(f"abs({value.sql})", value.type, span=known)


def _whole(name: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        if value.type != "DOUBLE":
            return value
        return Typed(f"{name}({value.sql})", "DOUBLE", span=_whole_span(value))

    return write


def _round(writer: Writer, node: exp.Expression) -> Typed:
    value, digits = writer.value(node.this), node.args.get("decimals")
    if digits is None:
        return value if value.type != "DOUBLE" else rounded(value)
    places = int(digits.sql())
    if value.type != "DOUBLE" or abs(places) > _MOST_DIGITS:
        raise Untranslatable("ROUND to digits")
    unit = constant(float(f"1E{abs(places)}"))

    def cut(v: str) -> str:
        own = Typed(v, "DOUBLE", span=value.span)
        if places >= 0:
            near, instead = quotient(rounded(product(own, unit)), unit), v
        else:
            near, instead = product(rounded(quotient(own, unit)), unit), double(0.0)
        kept = bound(
            near.sql,
            lambda y: f"(CASE WHEN abs({y}) < {_INFINITY} THEN {y} ELSE {instead} END)",
            name="y",
        )
        return f"(CASE WHEN abs({v}) < {_INFINITY} THEN {kept} ELSE {v} END)"

    return Typed(bound(value.sql, cut, name="r"), "DOUBLE")


def _sign(writer: Writer, node: exp.Expression) -> Typed:
    value = as_double(writer.value(node.this))
    return Typed(f"sign({value.sql})", "DOUBLE", span=Span(low=0, least=-1.0, most=1.0))


def _root(writer: Writer, node: exp.Expression) -> Typed:
    value = as_double(writer.value(node.this))
    sql = bound(
        value.sql,
        lambda v: f"(CASE WHEN {v} < {double(0.0)} THEN 'NaN'::float8 ELSE sqrt({v}) END)",
    )
    return Typed(sql, "DOUBLE", span=Span(low=-537, least=0.0, most=2.0**512))


def _factor(factor: float) -> Writing:
    return lambda writer, node: product(as_double(writer.value(node.this)), constant(factor))


def _extreme(name: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        values = [writer.value(part) for part in (node.this, *node.expressions)]
        if len(values) == 1:
            return values[0]
        kind = united(*values)
        if kind == "DOUBLE":
            values = [as_double(value) for value in values]
        sql = f"{name}({', '.join(value.sql for value in values)})"
        return Typed(sql, kind, span=_extreme_span(name, values) if kind == "DOUBLE" else None)

    return write


def _extreme_span(name: str, values: list[Typed]) -> Span:
    spans = [span_of(value) for value in values]
    chosen = min if name == "LEAST" else max
    return Span(
        low=min(span.low for span in spans),
        least=chosen(span.least for span in spans),
        most=chosen(span.most for span in spans),
    )


def _not_a_number(writer: Writer, node: exp.Expression) -> Typed:
    return Typed(f"({as_double(writer.value(node.this)).sql} = 'NaN'::float8)", "BOOLEAN")


def _infinite(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    if value.type == "DOUBLE":
        return Typed(f"(abs({value.sql}) = {_INFINITY})", "BOOLEAN")
    if value.type in ("DATE", "TIMESTAMP"):
        return Typed(f"(NOT {finite(value)})", "BOOLEAN")
    raise Untranslatable("ISINF")


def finite(value: Typed) -> str:
    """SQL that tells whether a number, date or instant is finite; NULL for NULL."""
    match value.type:
        case "DOUBLE":
            return f"(abs({value.sql}) < {_INFINITY})"
        case "DATE" | "TIMESTAMP":
            return f"isfinite({value.sql})"
        case _:
            raise Untranslatable("ISFINITE")


def _shifted(writer: Writer, node: exp.Expression) -> Typed:
    value, by = writer.value(node.this), writer.value(node.args["expression"])
    shifted = f"{value.sql} >> CAST({by.sql} AS int)"
    if value.type != "HASH":
        return Typed(f"({shifted})", "BIGINT")
    bits = int(node.args["expression"].name)
    mask = (1 << (64 - bits)) - 1  # its first bit is no sign
    span = Span(low=0, least=0.0, most=float(mask))
    return Typed(f"(({shifted}) & '{mask}'::bigint)", "BIGINT", span=span)


NUMBERS: dict[type[object], Writing] = {
    exp.Add: _arithmetic("+", total),
    exp.Sub: _arithmetic("-", difference),
    exp.Mul: _arithmetic("*", product),
    exp.Div: _of_doubles(quotient),
    exp.Mod: _of_doubles(remainder),
    exp.Neg: _negative,
    exp.Abs: _size_of_number,
    exp.Floor: _whole("floor"),
    exp.Ceil: _whole("ceil"),
    exp.Trunc: _whole("trunc"),
    exp.Round: _round,
    exp.Sign: _sign,
    exp.Sqrt: _root,
    exp.IsNan: _not_a_number,
    exp.IsInf: _infinite,
    exp.Pi: lambda _, __: constant(math.pi),
    exp.Radians: _factor(0.017453292519943295),
    exp.Degrees: _factor(57.29577951308232),
    exp.Least: _extreme("LEAST"),
    exp.Greatest: _extreme("GREATEST"),
    exp.BitwiseRightShift: _shifted,
    exp.Log: Refused("LOG2 and LOG10"),
    exp.Pow: Refused("POWER"),
    exp.Cbrt: Refused("CBRT"),
    **{
        kind: Refused(kind.__name__.upper())
        for kind in (
            *(exp.Ln, exp.Exp, exp.Sin, exp.Cos, exp.Tan),
            *(exp.Asin, exp.Acos, exp.Atan, exp.Atan2),
        )
    },
}
"""By the node of the tree."""


def text(sql: str) -> str:
    """A text that nothing has given a collation to, by code point."""
    return f'({sql} COLLATE "C")'


def literal(value: str) -> str:
    r"""Text as a PostgreSQL literal, whatever standard_conforming_strings says.

    >>> print(literal("it's"), literal("a\\b"))
    (E'it''s' COLLATE "C") (E'a\\b' COLLATE "C")
    """
    if "\x00" in value:
        raise Untranslatable("a text with U+0000, which PostgreSQL does not have,")
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return text(f"E'{escaped}'")


def _cased(function: str, sql: str) -> str:
    before, after = case_table(function)
    return f"translate({sql}, {literal(before)}, {literal(after)})"


def _case(function: str) -> Writing:
    return lambda writer, node: Typed(_cased(function, writer.value(node.this).sql), "TEXT")


def _trim(writer: Writer, node: exp.Expression) -> Typed:
    side = str(node.args.get("position") or "BOTH").upper()
    cut = node.args.get("expression")
    signs = literal(SPACES) if cut is None else writer.value(cut).sql
    name = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side]
    return Typed(f"{name}({writer.value(node.this).sql}, {signs})", "TEXT")


def _number(node: exp.Expression | None, *, least: int, name: str) -> str:
    """A whole number that stands in the question."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        found = int(node.name)
        if least <= found < 1 << 31:
            return str(found)
    raise Untranslatable(f"{name} with this number")


def _end(name: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        length = _number(node.args["expression"], least=0, name=name.upper())
        return Typed(f"{name}({writer.value(node.this).sql}, {length})", "TEXT")

    return write


def _substring(writer: Writer, node: exp.Expression) -> Typed:
    start = _number(node.args.get("start"), least=1, name="SUBSTRING")
    length = _number(node.args.get("length"), least=0, name="SUBSTRING")
    return Typed(f"substr({writer.value(node.this).sql}, {start}, {length})", "TEXT")


def _part(writer: Writer, node: exp.Expression) -> Typed:
    delimiter = node.args["delimiter"]
    if not (isinstance(delimiter, exp.Literal) and delimiter.is_string and delimiter.name):
        raise Untranslatable("SPLIT_PART with this delimiter")
    place = _number(node.args["part_index"], least=1, name="SPLIT_PART")
    value = writer.value(node.this).sql
    return Typed(f"split_part({value}, {literal(delimiter.name)}, {place})", "TEXT")


def _replace(writer: Writer, node: exp.Expression) -> Typed:
    parts = (node.this, node.args["expression"], node.args["replacement"])
    return Typed(f"replace({', '.join(writer.value(part).sql for part in parts)})", "TEXT")


def _pad(writer: Writer, node: exp.Expression) -> Typed:
    name = "lpad" if node.args.get("is_left") else "rpad"
    length = _number(node.args["expression"], least=0, name=name.upper())
    fill = node.args["fill_pattern"]
    if not (isinstance(fill, exp.Literal) and fill.is_string and fill.name):
        raise Untranslatable(f"{name.upper()} with this filling")
    return Typed(f"{name}({writer.value(node.this).sql}, {length}, {literal(fill.name)})", "TEXT")


def _joined(writer: Writer, node: exp.Expression) -> Typed:
    """CONCAT passes over NULL."""
    parts = [f"coalesce({writer.value(part).sql}, {literal('')})" for part in node.expressions]
    return Typed(f"({' || '.join(parts)})", "TEXT")


def _joined_with(writer: Writer, node: exp.Expression) -> Typed:
    parts = [writer.value(part).sql for part in node.expressions]
    return Typed(text(f"concat_ws({', '.join(parts)})"), "TEXT")


def _pipes(writer: Writer, node: exp.Expression) -> Typed:
    return Typed(f"({' || '.join(value.sql for value in chained(writer, node))})", "TEXT")


def _like(writer: Writer, node: exp.Expression) -> Typed:
    pattern = node.args["expression"]
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise Untranslatable("LIKE with a pattern that is no literal")
    said, value = pattern.name, writer.value(node.this).sql
    if isinstance(node, exp.ILike):
        before, after = case_table("lower")
        value = _cased("lower", value)
        said = said.translate(str.maketrans(before, after))
    return Typed(f"({value} LIKE {literal(said)} ESCAPE '')", "BOOLEAN")  # DuckDB's has no escape


def _position(writer: Writer, node: exp.Expression) -> Typed:
    value, part = writer.value(node.this), writer.value(node.args["substr"])
    return Typed(f"CAST(strpos({value.sql}, {part.sql}) AS bigint)", "BIGINT")


def _contains(writer: Writer, node: exp.Expression) -> Typed:
    value, part = writer.value(node.this), writer.value(node.args["expression"])
    return Typed(f"(strpos({value.sql}, {part.sql}) > 0)", "BOOLEAN")


def _ends_of_text(writer: Writer, node: exp.Expression) -> Typed:
    value, part = writer.value(node.this), writer.value(node.args["expression"])
    # A text of no length ends every text; right(x, 0) is one.
    return Typed(f"(right({value.sql}, length({part.sql})) = {part.sql})", "BOOLEAN")


def _length(writer: Writer, node: exp.Expression) -> Typed:
    return Typed(f"CAST(length({writer.value(node.this).sql}) AS bigint)", "BIGINT")


def _literal(writer: Writer, node: exp.Expression) -> Typed:
    del writer
    if node.args.get("is_string"):
        return Typed(literal(node.name), "TEXT")
    return literal_number(node.name)


def _collated(writer: Writer, node: exp.Expression) -> Typed:
    """By code point: as every text is here."""
    value = writer.value(node.this)
    if node.args["expression"].name != "C" or value.type not in ("TEXT", "NULL"):
        raise Untranslatable("COLLATE")
    return value


TEXTS: dict[type[object], Writing] = {
    exp.Literal: _literal,
    exp.Collate: _collated,
    exp.Lower: _case("lower"),
    exp.Upper: _case("upper"),
    exp.Trim: _trim,
    exp.Length: _length,
    exp.StrPosition: _position,
    exp.Left: _end("left"),
    exp.Right: _end("right"),
    exp.Substring: _substring,
    exp.SplitPart: _part,
    exp.Replace: _replace,
    exp.Pad: _pad,
    exp.Concat: _joined,
    exp.ConcatWs: _joined_with,
    exp.DPipe: _pipes,
    exp.Like: _like,
    exp.ILike: _like,
    exp.StartsWith: call("starts_with", "this", "expression", type="BOOLEAN"),
    exp.EndsWith: _ends_of_text,
    exp.Contains: _contains,
}
"""By the node of the tree."""
