"""Text in PostgreSQL: by code point, under the collation "C" from its first mention on.

DuckDB changes the case of every code point by a table of its own, which PostgreSQL is given.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from sqlglot import exp

from unacorda.query.engines.dialects.postgres_numbers import literal_number
from unacorda.query.engines.dialects.shapes import call, chained
from unacorda.query.engines.dialects.typed import Typed, Untranslatable, Writer, Writing
from unacorda.query.engines.dialects.unicode_tables import SPACES, case_table

__all__ = [
    "TEXTS",
    "literal",
    "text",
]


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


def _ends(writer: Writer, node: exp.Expression) -> Typed:
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
    exp.EndsWith: _ends,
    exp.Contains: _contains,
    exp.MD5: call("md5", "this"),
}
"""By the node of the tree."""
