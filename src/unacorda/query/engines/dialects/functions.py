"""Functions of numbers and texts, and casts, as all engines write them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from datetime import datetime

import duckdb
from sqlglot import exp

from unacorda.query.engines.dialects.moments import moved
from unacorda.query.engines.dialects.typed import (
    TYPES,
    Dialect,
    Typed,
    Untranslatable,
    Values,
    Writing,
    chain,
    form,
    form_of_doubles,
    form_of_same_type,
    united,
)

__all__ = ["CASTS", "NUMBERS", "TEXTS"]


# ---- numbers -----------------------------------------------------------------------------------


def _arithmetic(sign: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        left, right = node.this, node.args["expression"]
        if isinstance(right, exp.Interval):
            return moved(writer, left, right)
        a, b = writer.value(left), writer.value(right)
        kind = united(a, b)
        if kind == "DOUBLE":
            return Typed(f"({writer.as_double(a)} {sign} {writer.as_double(b)})", kind)
        if kind not in _WHOLE_TYPES:
            raise Untranslatable(f"arithmetic of {kind}")
        return Typed(f"({a.sql} {sign} {b.sql})", kind)

    return write


def _divide(writer: Values, node: exp.Expression) -> Typed:
    a, b = writer.double(node.this), writer.double(node.args["expression"])
    return Typed(f"({a} / NULLIF({b}, {writer.dialect.number(0.0)}))", "DOUBLE")


def _rounded(rule: Callable[[Dialect, str], str]) -> Writing:
    """A double as a whole one; whole numbers are what they are."""

    def write(writer: Values, node: exp.Expression) -> Typed:
        value, dialect = writer.value(node.this), writer.dialect
        if node.args.get("decimals") is not None:
            raise Untranslatable("ROUND to digits")
        if value.type != "DOUBLE":
            return value
        return Typed(dialect.let(value.sql, lambda v: rule(dialect, v)), "DOUBLE")

    return write


def _floor(dialect: Dialect, v: str) -> str:
    near = dialect.near(v)
    return f"(CASE WHEN {near} > {v} THEN {near} - {dialect.number(1.0)} ELSE {near} END)"


def _ceiling(dialect: Dialect, v: str) -> str:
    near = dialect.near(v)
    return f"(CASE WHEN {near} < {v} THEN {near} + {dialect.number(1.0)} ELSE {near} END)"


def _truncated(dialect: Dialect, v: str) -> str:
    below = f"{v} < {dialect.number(0.0)}"
    return f"(CASE WHEN {below} THEN {_ceiling(dialect, v)} ELSE {_floor(dialect, v)} END)"


def _away(dialect: Dialect, v: str) -> str:
    """Ties go away from 0."""
    near, half = dialect.near(v), dialect.number(0.5)
    return f"(CASE WHEN abs({v} - {near}) = {half} THEN {v} + sign({v}) * {half} ELSE {near} END)"


def _logarithm(writer: Values, node: exp.Expression) -> Typed:
    base, operand = node.this.name, writer.double(node.args["expression"])
    match base:
        case "10":
            return Typed(f"log10({operand})", "DOUBLE")
        case "2":
            return Typed(f"(ln({operand}) / {writer.dialect.number(math.log(2))})", "DOUBLE")
        case _:
            raise Untranslatable("LOG")


def _extreme(name: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        values = [writer.value(part) for part in (node.this, *node.expressions)]
        kind = united(*values)
        if len(values) == 1:
            return values[0]
        doubles = kind == "DOUBLE"
        operands = [writer.as_double(value) if doubles else value.sql for value in values]
        return Typed(f"{name}({', '.join(operands)})", kind)

    return write


def _not_a_number(writer: Values, node: exp.Expression) -> Typed:
    nan = writer.dialect.cast(writer.dialect.literal("NaN"), "DOUBLE")
    return Typed(f"({writer.double(node.this)} = {nan})", "BOOLEAN")


_WHOLE_TYPES = ("BIGINT", "HUGEINT")

NUMBERS: dict[type[object], Writing] = {
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _divide,
    exp.Neg: form_of_same_type("(- {})"),
    exp.Abs: form_of_same_type("abs({})"),
    exp.Floor: _rounded(_floor),
    exp.Ceil: _rounded(_ceiling),
    exp.Trunc: _rounded(_truncated),
    exp.Round: _rounded(_away),
    exp.Log: _logarithm,
    exp.Pow: form_of_doubles("power({}, {})", "this", "expression"),
    exp.Atan2: form_of_doubles("atan2({}, {})", "this", "expression"),
    **{
        kind: form_of_doubles(f"{kind.__name__.lower()}({{}})", "this")
        for kind in (
            *(exp.Sign, exp.Sqrt, exp.Cbrt, exp.Ln, exp.Exp, exp.Sin, exp.Cos, exp.Tan),
            *(exp.Asin, exp.Acos, exp.Atan),
        )
    },
    exp.IsNan: _not_a_number,
    exp.Least: _extreme("least"),
    exp.Greatest: _extreme("greatest"),
}
"""Of the curves the last bit is that of an engine's library; all else is the same double."""


# ---- texts -------------------------------------------------------------------------------------


SPACES = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""The space separators of Unicode, which TRIM cuts."""


@functools.cache
def case_table(function: str) -> tuple[str, str]:
    """The code points that DuckDB's LOWER or UPPER changes, and what to, in one order.

    DuckDB changes the case of every code point by itself, others by whole texts or by a locale (the
    German sharp s becomes two letters). So they are given its table.
    """
    query = (
        "SELECT string_agg(c, '' ORDER BY i), string_agg(d, '' ORDER BY i) FROM (SELECT i, chr(i) "
        f"AS c, {function}(chr(i)) AS d FROM (SELECT unnest(range(1, 1114112))::INTEGER AS i) "
        "WHERE i NOT BETWEEN 55296 AND 57343) WHERE c <> d"
    )
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    before, after = found
    assert len(before) == len(after)
    return str(before), str(after)


def _cased(dialect: Dialect, function: str, sql: str) -> str:
    before, after = case_table(function)
    return f"translate({sql}, {dialect.literal(before)}, {dialect.literal(after)})"


def _case_changed(function: str) -> Writing:
    return lambda writer, node: Typed(
        _cased(writer.dialect, function, writer.value(node.this).sql), "TEXT"
    )


def _literal(writer: Values, node: exp.Expression) -> Typed:
    if node.args.get("is_string"):
        return Typed(writer.dialect.literal(node.name), "TEXT")
    if not node.name.isdigit():
        return Typed(writer.dialect.number(float(node.name)), "DOUBLE")
    whole = int(node.name)
    return Typed(writer.dialect.whole(whole), "HUGEINT" if whole >= 1 << 63 else "BIGINT")


def _constant(writer: Values, node: object) -> str:
    """A literal that is an argument of a function: a text, or a number from 0 on, of 31 bits."""
    if isinstance(node, exp.Literal) and node.is_string and node.name:
        return writer.dialect.literal(node.name)
    if isinstance(node, exp.Literal) and node.name.isdigit() and int(node.name) < 1 << 31:
        return node.name
    raise Untranslatable("a function with what is no literal")


def _of_text(name: str, *constants: str, type: str = "TEXT") -> Writing:
    """A function of a text and literals."""

    def write(writer: Values, node: exp.Expression) -> Typed:
        parts = [_constant(writer, node.args.get(part)) for part in constants]
        return Typed(f"{name}({', '.join([writer.value(node.this).sql, *parts])})", type)

    return write


def _trim(writer: Values, node: exp.Expression) -> Typed:
    side = str(node.args.get("position") or "BOTH").upper()
    cut = node.args.get("expression")
    signs = writer.dialect.literal(SPACES) if cut is None else writer.value(cut).sql
    return Typed(writer.dialect.trimmed(writer.value(node.this).sql, signs, side), "TEXT")


def _pad(writer: Values, node: exp.Expression) -> Typed:
    name = "lpad" if node.args.get("is_left") else "rpad"
    return _of_text(name, "expression", "fill_pattern")(writer, node)


def _joined(writer: Values, node: exp.Expression) -> Typed:
    """CONCAT passes over NULL."""
    nothing = writer.dialect.literal("")
    parts = [f"coalesce({writer.value(part).sql}, {nothing})" for part in node.expressions]
    return Typed(f"({' || '.join(parts)})", "TEXT")


def _joined_with(writer: Values, node: exp.Expression) -> Typed:
    parts = [writer.value(part).sql for part in node.expressions]
    return Typed(writer.dialect.text(f"concat_ws({', '.join(parts)})"), "TEXT")


_ESCAPES = "!#$^~|;:+=@&?<>"


def _like(writer: Values, node: exp.Expression) -> Typed:
    pattern = node.args["expression"]
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise Untranslatable("LIKE with a pattern that is no literal")
    said, value = pattern.name, writer.value(node.this).sql
    # DuckDB's LIKE has no escape; here it is a sign that the pattern does not hold.
    sign = next((sign for sign in _ESCAPES if sign not in said), None)
    if sign is None:
        raise Untranslatable("LIKE with this pattern")
    if isinstance(node, exp.ILike):
        value = _cased(writer.dialect, "lower", value)
        said = said.translate(str.maketrans(*case_table("lower")))
    return Typed(f"({value} LIKE {writer.dialect.literal(said)} ESCAPE '{sign}')", "BOOLEAN")


def _matched(writer: Values, node: exp.Expression) -> Typed:
    pattern, group = node.args["expression"], node.args.get("group")
    if not (isinstance(pattern, exp.Literal) and isinstance(group, exp.Literal)):
        raise Untranslatable("REGEXP_EXTRACT")
    value = writer.value(node.this).sql
    return Typed(writer.dialect.pattern_group(value, pattern.name, int(group.name)), "TEXT")


def _collated(writer: Values, node: exp.Expression) -> Typed:
    """By code point: as every text is here."""
    value = writer.value(node.this)
    if node.args["expression"].name != "C" or value.type not in ("TEXT", "NULL"):
        raise Untranslatable("COLLATE")
    return value


TEXTS: dict[type[object], Writing] = {
    exp.Literal: _literal,
    exp.Collate: _collated,
    exp.Lower: _case_changed("lower"),
    exp.Upper: _case_changed("upper"),
    exp.Trim: _trim,
    exp.Length: lambda writer, node: Typed(
        writer.dialect.cast(f"length({writer.value(node.this).sql})", "BIGINT"), "BIGINT"
    ),
    exp.Left: _of_text("left", "expression"),
    exp.Right: _of_text("right", "expression"),
    exp.Substring: _of_text("substr", "start", "length"),
    exp.SplitPart: _of_text("split_part", "delimiter", "part_index"),
    exp.Replace: form("replace({}, {}, {})", "TEXT", "this", "expression", "replacement"),
    exp.Pad: _pad,
    exp.Concat: _joined,
    exp.ConcatWs: _joined_with,
    exp.DPipe: chain("||", "TEXT"),
    exp.Like: _like,
    exp.ILike: _like,
    exp.RegexpExtract: _matched,
}


# ---- casts -------------------------------------------------------------------------------------


_ENDS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
_UNIT = 1 << 40


def _cast(writer: Values, node: exp.Expression) -> Typed:
    to, operand, dialect = node.args["to"], node.this, writer.dialect
    target = TYPES.get(to.this.name)
    if target is None:
        raise Untranslatable(f"CAST to {to.sql()}")
    if isinstance(operand, exp.Literal) and operand.is_string and target in ("DATE", "TIMESTAMP"):
        return Typed(_moment(dialect, operand.name, target), target)
    if target == "UBIGINT" and isinstance(operand, exp.Literal):
        whole = int(operand.name)
        return Typed(dialect.whole(whole - (1 << 64) if whole >= 1 << 63 else whole), "BIGINT")
    value, stored = writer.value(operand), "BIGINT" if target in _ENDS else target
    if value.type == target:
        return value
    if value.type == "NULL" and stored in dialect.types:
        return Typed(dialect.cast("NULL", stored), stored)
    if value.type == "TEXT" and stored in ("DOUBLE", "DATE", "TIMESTAMP"):
        if not isinstance(operand.unnest(), exp.RegexpExtract | exp.DPipe):
            raise Untranslatable(f"CAST of text AS {target}")  # which no pattern has matched
        return Typed(dialect.converted(value.sql, stored), stored)
    if stored == "BIGINT" and value.type in ("DOUBLE", "BIGINT"):
        return Typed(_within(dialect, value, _ENDS[target]), stored)
    if (value.type, stored) == ("DOUBLE", "HUGEINT"):
        return Typed(dialect.let(value.sql, lambda v: _huge(dialect, v)), stored)
    if stored not in _PLAIN.get(value.type, ()):
        raise Untranslatable(f"CAST of {value.type} AS {target}")
    sql = f"CAST({value.sql} AS int)" if value.type == "BOOLEAN" and stored != "TEXT" else value.sql
    plain = dialect.cast(sql, stored)
    return Typed(dialect.text(plain) if stored == "TEXT" else plain, stored)


_PLAIN = {
    **dict.fromkeys(
        ("BIGINT", "HUGEINT", "DECIMAL", "WIDE", "HASH"), ("DOUBLE", "HUGEINT", "TEXT")
    ),
    "BOOLEAN": ("DOUBLE", "BIGINT", "TEXT"),
    "DATE": ("TIMESTAMP", "TEXT"),
    "TIMESTAMP": ("DATE", "TEXT"),
}
"""What is converted by CAST alone."""


def _moment(dialect: Dialect, said: str, target: str) -> str:
    """A date or an instant of a question: of the years 1 to 9999, or the beginning of 10000."""
    form = re.compile("([0-9]{4}-[0-9]{2}-[0-9]{2})( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?")
    if said != "10000-01-01":
        found = form.fullmatch(said)
        if found is None or (target == "DATE" and found[2]):
            raise Untranslatable(f"CAST of text AS {target}")
        datetime.fromisoformat(said)
    return dialect.moment(said, target)


def _within(dialect: Dialect, value: Typed, bits: int) -> str:
    """A number as a whole one, a tie to the even one; NULL beyond the ends of a type."""
    if value.type == "BIGINT":
        ends = f"{dialect.whole(-(1 << bits))} AND {dialect.whole((1 << bits) - 1)}"
        return dialect.let(value.sql, lambda v: f"(CASE WHEN {v} BETWEEN {ends} THEN {v} END)")
    low, high = dialect.number(-(2.0**bits)), dialect.number(2.0**bits)

    def held(v: str) -> str:
        inside = f"{v} >= {low} AND {v} < {high}"
        return f"(CASE WHEN {inside} THEN {dialect.cast(v, 'BIGINT')} END)"

    return dialect.let(dialect.near(value.sql), held)


def _huge(dialect: Dialect, v: str) -> str:
    """A whole double below 2^100 in 128 bits, exactly, by its upper and lower part.

    Engines convert the shortest decimal that is next to a double, which is another whole number.
    """
    unit = dialect.number(float(_UNIT))
    high = _floor(dialect, f"({v} / {unit})")
    low = f"({v} - {high} * {unit})"
    upper, lower = (
        f"CAST({dialect.cast(part, 'BIGINT')} AS DECIMAL(20,0))" for part in (high, low)
    )
    joined = f"({upper} * CAST({dialect.whole(_UNIT)} AS DECIMAL(14,0)) + {lower})"
    return dialect.cast(joined, "HUGEINT")


CASTS: dict[type[object], Writing] = dict.fromkeys((exp.Cast, exp.TryCast), _cast)
