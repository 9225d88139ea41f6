"""Where in the caller's text a node of sqlglot stands."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

__all__ = ["of_error", "of_node"]

_OPENING = {TokenType.L_PAREN, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.END}
_HEAD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\s*\(\s*$")  # of a function that sqlglot did not note
_SELECT = re.compile(r"\(\s*(?:SELECT|WITH)\b", re.IGNORECASE)  # of a sub-select, likewise


def of_node(text: str, node: object) -> tuple[int, int] | None:
    """The first character of a node and one past its last; None where sqlglot did not note it.

    >>> of_node("age > 18", sqlglot.parse_one("age > 18", read="duckdb").expression)
    (6, 8)
    """
    if not isinstance(node, exp.Expression):
        return None
    noted = [part.meta for part in node.walk() if "start" in part.meta and "end" in part.meta]
    if not noted:
        return None
    start = min(meta["start"] for meta in noted)
    end = max(meta["end"] for meta in noted) + 1
    if not 0 <= start < end <= len(text):
        return None
    if isinstance(node, exp.Query | exp.SubqueryPredicate):
        heads = [head.start() for head in _SELECT.finditer(text, 0, start)]
        start = heads[-1] if heads else start
    if isinstance(node, exp.Func) and (head := _HEAD.search(text[:start])) is not None:
        start = head.start()
    return start, _closed(text, start, end)


def of_error(text: str, error: SqlglotError) -> tuple[int, int] | None:
    """The word at which sqlglot stopped reading."""
    if not isinstance(error, ParseError) or not error.errors:
        return None
    first = error.errors[0]
    before, word = first.get("start_context") or "", first.get("highlight") or ""
    at = text.find(f"{before}{word}") if word else -1
    return (at + len(before), at + len(before) + len(word)) if at >= 0 else None


def _closed(text: str, start: int, end: int) -> int:
    """The end of a part, moved behind brackets and CASEs that it opened: they are not noted."""
    open_ones = 0
    for token in sqlglot.tokenize(text, read="duckdb"):
        if token.start < start:
            continue
        opening = token.token_type == TokenType.L_PAREN and token.start == end
        closing = token.token_type in _CLOSING and open_ones > 0
        if token.start >= end and not (opening or closing):
            break
        open_ones += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if open_ones < 0:
            break
        end = max(end, token.end + 1)
    return end
