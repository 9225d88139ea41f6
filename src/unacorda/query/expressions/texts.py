"""Operations on text. None raises on any row, and none makes more than a bounded text of it.

Positions count code points. An operation that could make a text longer keeps its first 10,000
characters, of what goes in and of what comes out: nested ones would otherwise exhaust memory.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

from unacorda.query.expressions.ranges import EVERYTHING, Range
from unacorda.query.expressions.tree import Literal, Node, Operation
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import Value, number, of_kind

__all__ = ["LONGEST_JOINED", "TEXTS"]

LONGEST_JOINED = 10_000
"""How many characters of a text that may have grown are kept."""

_LONGEST_TEXT = 2.0**32


def _text(sql: str, node: Node, *, nullable: bool) -> Value:
    return Value(sql=sql, kind=Kind.TEXT, range=EVERYTHING, node=node, nullable=nullable)


def _cut(sql: str) -> str:
    return f"left({sql}, {LONGEST_JOINED})"


def _constant(value: Value) -> str:
    """SQL of an operand that the reader has found to be a literal: whole numbers as integers."""
    whole = value.node.value if isinstance(value.node, Literal) else None
    return str(whole) if type(whole) is int else value.sql


def _simple(node: Operation, operands: tuple[Value, ...]) -> Value:
    """A function of one text and constants, which is NULL where the text is, and only there."""
    first, *rest = operands
    operand = of_kind(first, Kind.TEXT)
    parts = ", ".join([operand.sql, *map(_constant, rest)])
    return _text(f"{node.name.lower()}({parts})", node, nullable=operand.nullable)


def _growing(node: Operation, operands: tuple[Value, ...]) -> Value:
    first, *rest = operands
    operand = of_kind(first, Kind.TEXT)
    parts = ", ".join([_cut(operand.sql), *map(_constant, rest)])
    return _text(_cut(f"{node.name.lower()}({parts})"), node, nullable=operand.nullable)


def _length(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = of_kind(operands[0], Kind.TEXT)
    return number(
        f"CAST(length({operand.sql}) AS DOUBLE)",
        node=node,
        range=Range(0.0, _LONGEST_TEXT),
        integer=True,
        nullable=operand.nullable,
    )


def _position(node: Operation, operands: tuple[Value, ...]) -> Value:
    text, part = (of_kind(operand, Kind.TEXT) for operand in operands)
    return number(
        f"CAST(strpos({text.sql}, {part.sql}) AS DOUBLE)",
        node=node,
        range=Range(0.0, _LONGEST_TEXT),
        integer=True,
        nullable=text.nullable or part.nullable,
    )


def _join(node: Operation, operands: tuple[Value, ...]) -> Value:
    """|| gives NULL where an operand is NULL; CONCAT and CONCAT_WS pass over NULLs."""
    values = [of_kind(operand, Kind.TEXT) for operand in operands]
    parts = [value.sql if isinstance(value.node, Literal) else _cut(value.sql) for value in values]
    listed = f"{node.name.lower()}({', '.join(parts)})"
    joined = " || ".join(parts) if node.name == "||" else listed
    nullable = node.name == "||" and any(value.nullable for value in values)
    return _text(_cut(joined), node, nullable=nullable)


TEXTS: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    **dict.fromkeys(("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM"), _simple),
    **dict.fromkeys(("LEFT", "RIGHT", "SUBSTRING", "SPLIT_PART"), _simple),
    **dict.fromkeys(("REPLACE", "LPAD", "RPAD"), _growing),
    **dict.fromkeys(("||", "CONCAT", "CONCAT_WS"), _join),
    "LENGTH": _length,
    "STRPOS": _position,
}
