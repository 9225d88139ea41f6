"""Numbers in PostgreSQL: the same doubles as DuckDB's, bit for bit, or a refusal.

FLOOR, CEIL, TRUNC and SQRT are exact on both engines; ROUND of PostgreSQL takes ties to even, so
that DuckDB's, away from 0, is written with it. NaN is level with itself and above all on both.
Exponentials, logarithms, powers, circular functions and cube roots come from two libraries that
differ in the last bit now and then: they are refused.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable

from sqlglot import exp

from unacorda.query.engines.dialects.postgres_arithmetic import (
    bound,
    difference,
    double,
    product,
    quotient,
    remainder,
    span_of,
    total,
)
from unacorda.query.engines.dialects.typed import (
    Refused,
    Span,
    Typed,
    Untranslatable,
    Writer,
    Writing,
    united,
)

__all__ = [
    "NUMBERS",
    "as_double",
    "finite",
    "literal_number",
    "rounded",
]

_INFINITY = "'Infinity'::float8"
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


def _size(writer: Writer, node: exp.Expression) -> Typed:
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
    exp.Abs: _size,
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
