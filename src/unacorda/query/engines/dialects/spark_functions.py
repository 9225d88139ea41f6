"""Functions of numbers and texts as Spark writes them.

Numbers in Spark: the same doubles as DuckDB's, bit for bit, or a refusal.

Sums, differences, products, quotients, remainders and square roots are rounded as IEEE 754 says on
both engines. Spark's FLOOR and ROUND leave the doubles (for whole numbers of 64 bits, which
saturate, and for decimals), so that both are written with RINT, which is exact. Exponentials,
logarithms, powers, circular functions and cube roots come from two libraries that differ in the
last bit now and then: they are refused.

Text in Spark: positions count code points on both engines, and case is one table for both.

DuckDB changes the case of every code point by itself; Spark and its libraries do so by whole texts
(the German sharp s becomes two letters). So Spark is given DuckDB's own table, read once.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from unacorda.query.engines.dialects.typed import (
    SPACES,
    Refused,
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
    "bound",
    "finite",
    "floor",
    "literal",
    "rounded",
]

_INFINITY = "CAST('Infinity' AS DOUBLE)"
_PI = "3.141592653589793D"
_MOST_DIGITS = 15
_SHORT = 120


def bound(value: str, body: Callable[[str], str], *, name: str = "x") -> str:
    """SQL that uses a value several times: as it stands where short, by a name where long."""
    if len(value) <= _SHORT:
        return body(value)
    return f"transform(array({value}), {name} -> {body(name)})[0]"


def floor(x: str) -> str:
    """SQL of the floor of a double, as a double."""
    return bound(x, lambda v: f"(CASE WHEN rint({v}) > {v} THEN rint({v}) - 1D ELSE rint({v}) END)")


def ceiling(x: str) -> str:
    """SQL of the ceiling of a double, as a double."""
    return bound(x, lambda v: f"(CASE WHEN rint({v}) < {v} THEN rint({v}) + 1D ELSE rint({v}) END)")


def rounded(x: str) -> str:
    """SQL of a double rounded to a whole one, ties away from 0."""

    def away(v: str) -> str:
        tie = f"abs({v} - rint({v})) = 0.5D"
        return f"(CASE WHEN {tie} THEN {v} + sign({v}) * 0.5D ELSE rint({v}) END)"

    return bound(x, away)


def _arithmetic(sign: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        a, b = writer.value(node.this), writer.value(node.args["expression"])
        return Typed(f"({a.sql} {sign} {b.sql})", united(a, b))

    return write


def _divide(writer: Writer, node: exp.Expression) -> Typed:
    a, b = (_double(writer, part) for part in (node.this, node.args["expression"]))
    return Typed(f"try_divide({a}, {b})", "DOUBLE")


def _remainder(writer: Writer, node: exp.Expression) -> Typed:
    a, b = (_double(writer, part) for part in (node.this, node.args["expression"]))
    return Typed(f"try_mod({a}, {b})", "DOUBLE")


def _double(writer: Writer, node: object) -> str:
    value = writer.value(node)
    return value.sql if value.type == "DOUBLE" else f"CAST({value.sql} AS DOUBLE)"


def _negative(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    return Typed(f"(- {value.sql})", value.type)


def _whole(write: object) -> Writing:
    assert callable(write)

    def found(writer: Writer, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        if value.type != "DOUBLE":
            return value
        return Typed(write(value.sql), "DOUBLE")

    return found


def _truncated(x: str) -> str:
    return bound(x, lambda v: f"(CASE WHEN {v} < 0D THEN {ceiling(v)} ELSE {floor(v)} END)")


def _round(writer: Writer, node: exp.Expression) -> Typed:
    value, digits = writer.value(node.this), node.args.get("decimals")
    if digits is None:
        return value if value.type != "DOUBLE" else Typed(rounded(value.sql), "DOUBLE")
    places = int(digits.sql())
    if value.type != "DOUBLE" or abs(places) > _MOST_DIGITS:
        raise Untranslatable("ROUND to digits")
    unit = f"1E{abs(places)}D"
    if places >= 0:
        cut = f"({rounded(f'({value.sql} * {unit})')} / {unit})"
    else:
        cut = f"({rounded(f'({value.sql} / {unit})')} * {unit})"
    instead = (
        value.sql
        if places >= 0
        else f"CASE WHEN abs({value.sql}) < {_INFINITY} THEN 0D ELSE {value.sql} END"
    )
    lost = bound(
        cut, lambda y: f"(CASE WHEN abs({y}) < {_INFINITY} THEN {y} ELSE {instead} END)", name="y"
    )
    return Typed(lost, "DOUBLE")


def _function(name: str, type: str | None = None) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        value = writer.value(node.this)
        return Typed(f"{name}({value.sql})", type or value.type)

    return write


def _factor(factor: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        return Typed(f"({_double(writer, node.this)} * {factor})", "DOUBLE")

    return write


def _extreme(name: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        values = [writer.value(part) for part in (node.this, *node.expressions)]
        if len(values) == 1:
            return values[0]
        return Typed(f"{name}({', '.join(value.sql for value in values)})", united(*values))

    return write


def _infinite(writer: Writer, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    if value.type == "DOUBLE":
        return Typed(f"(abs({value.sql}) = {_INFINITY})", "BOOLEAN")
    if value.type in ("DATE", "TIMESTAMP"):
        return Typed(f"(NOT {finite(value)})", "BOOLEAN")
    raise Untranslatable("ISINF")


def finite(value: Typed) -> str:
    """SQL that tells whether a number, date or instant is finite; NULL for NULL.

    DuckDB's infinite dates and instants are the ends of its integers, as a Parquet file holds them.
    """
    match value.type:
        case "DOUBLE":
            return f"(abs({value.sql}) < {_INFINITY})"
        case "DATE":
            return f"(abs(CAST(unix_date({value.sql}) AS BIGINT)) < 2147483647L)"
        case "TIMESTAMP":
            micros = f"unix_micros(CAST({value.sql} AS TIMESTAMP))"
            return f"({micros} BETWEEN -9223372036854775806L AND 9223372036854775806L)"
        case _:
            raise Untranslatable("ISFINITE")


def _shifted(writer: Writer, node: exp.Expression) -> Typed:
    value, by = writer.value(node.this), writer.value(node.args["expression"])
    name = "shiftrightunsigned" if value.type == "HASH" else "shiftright"
    return Typed(f"{name}({value.sql}, CAST({by.sql} AS INT))", "BIGINT")


NUMBERS: dict[type[object], Writing] = {
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _divide,
    exp.Mod: _remainder,
    exp.Neg: _negative,
    exp.Abs: _function("abs"),
    exp.Floor: _whole(floor),
    exp.Ceil: _whole(ceiling),
    exp.Trunc: _whole(_truncated),
    exp.Round: _round,
    exp.Sign: _function("sign", "DOUBLE"),
    exp.Sqrt: _function("sqrt", "DOUBLE"),
    exp.IsNan: _function("isnan", "BOOLEAN"),
    exp.IsInf: _infinite,
    exp.Pi: lambda _, __: Typed(_PI, "DOUBLE"),
    exp.Radians: _factor("0.017453292519943295D"),
    exp.Degrees: _factor("57.29577951308232D"),
    exp.Least: _extreme("least"),
    exp.Greatest: _extreme("greatest"),
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


_ESCAPES = "!#$^~|;:+=@&?<>"


def literal(text: str) -> str:
    r"""Text as a Spark literal.

    >>> print(literal("it's"), literal("a\\b"))
    'it\'s' 'a\\b'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _cased(function: str, sql: str) -> str:
    before, after = case_table(function)
    return f"translate({sql}, {literal(before)}, {literal(after)})"


def _case(function: str) -> Writing:
    def write(writer: Writer, node: exp.Expression) -> Typed:
        return Typed(_cased(function, writer.value(node.this).sql), "TEXT")

    return write


def _trim(writer: Writer, node: exp.Expression) -> Typed:
    side = str(node.args.get("position") or "BOTH").upper()
    cut = node.args.get("expression")
    signs = literal(SPACES) if cut is None else writer.value(cut).sql
    return Typed(f"trim({side} {signs} FROM {writer.value(node.this).sql})", "TEXT")


def _replace(writer: Writer, node: exp.Expression) -> Typed:
    parts = (node.this, node.args["expression"], node.args["replacement"])
    return Typed(f"replace({', '.join(writer.value(part).sql for part in parts)})", "TEXT")


def _pad(writer: Writer, node: exp.Expression) -> Typed:
    parts = (node.this, node.args["expression"], node.args["fill_pattern"])
    name = "lpad" if node.args.get("is_left") else "rpad"
    return Typed(f"{name}({', '.join(writer.value(part).sql for part in parts)})", "TEXT")


def _joined(writer: Writer, node: exp.Expression) -> Typed:
    """CONCAT passes over NULL."""
    parts = [f"coalesce({writer.value(part).sql}, '')" for part in node.expressions]
    return Typed(f"concat({', '.join(parts)})", "TEXT")


def _joined_with(writer: Writer, node: exp.Expression) -> Typed:
    parts = [writer.value(part).sql for part in node.expressions]
    return Typed(f"concat_ws({', '.join(parts)})", "TEXT")


def _pipes(writer: Writer, node: exp.Expression) -> Typed:
    parts = ", ".join(value.sql for value in chained(writer, node))
    return Typed(f"concat({parts})", "TEXT")


def _like(writer: Writer, node: exp.Expression) -> Typed:
    pattern = node.args["expression"]
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise Untranslatable("LIKE with a pattern that is no literal")
    text, sign = pattern.name, next((s for s in _ESCAPES if s not in pattern.name), None)
    if sign is None:
        raise Untranslatable("LIKE with this pattern")
    value = writer.value(node.this).sql
    if isinstance(node, exp.ILike):
        before, after = case_table("lower")
        value = _cased("lower", value)
        text = text.translate(str.maketrans(before, after))
    # DuckDB's LIKE has no escape; Spark's is one that the pattern does not hold.
    return Typed(f"({value} LIKE {literal(text)} ESCAPE '{sign}')", "BOOLEAN")


def _literal(writer: Writer, node: exp.Expression) -> Typed:
    del writer
    if node.args.get("is_string"):
        return Typed(literal(node.name), "TEXT")
    text = node.name
    if text.isdigit():
        whole = int(text)
        mark = "" if whole < 1 << 31 else "L" if whole < 1 << 63 else "BD"
        return Typed(f"{text}{mark}", "HUGEINT" if mark == "BD" else "BIGINT")
    return Typed(f"{text}D", "DOUBLE")


TEXTS: dict[type[object], Writing] = {
    exp.Literal: _literal,
    exp.Lower: _case("lower"),
    exp.Upper: _case("upper"),
    exp.Trim: _trim,
    exp.Length: call("length", "this", type="BIGINT"),
    exp.StrPosition: call("instr", "this", "substr", type="BIGINT"),
    exp.Left: call("left", "this", "expression"),
    exp.Right: call("right", "this", "expression"),
    exp.Substring: call("substring", "this", "start", "length"),
    exp.SplitPart: call("split_part", "this", "delimiter", "part_index"),
    exp.Replace: _replace,
    exp.Pad: _pad,
    exp.Concat: _joined,
    exp.ConcatWs: _joined_with,
    exp.DPipe: _pipes,
    exp.Like: _like,
    exp.ILike: _like,
    exp.StartsWith: call("startswith", "this", "expression", type="BOOLEAN"),
    exp.EndsWith: call("endswith", "this", "expression", type="BOOLEAN"),
    exp.Contains: call("contains", "this", "expression", type="BOOLEAN"),
}
"""By the node of the tree."""
