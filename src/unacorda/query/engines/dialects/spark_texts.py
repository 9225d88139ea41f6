"""Text in Spark: positions count code points on both engines, and case is one table for both.

DuckDB changes the case of every code point by itself; Spark and its libraries do so by whole texts
(the German sharp s becomes two letters). So Spark is given DuckDB's own table, read once.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from sqlglot import exp

from unacorda.query.engines.dialects.shapes import call, chained
from unacorda.query.engines.dialects.typed import Typed, Untranslatable, Writer, Writing
from unacorda.query.engines.dialects.unicode_tables import SPACES, case_table

__all__ = [
    "TEXTS",
    "literal",
]

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
    exp.MD5: call("md5", "this"),
}
"""By the node of the tree."""
