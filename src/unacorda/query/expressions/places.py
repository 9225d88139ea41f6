"""Where in the caller's text a node of sqlglot stands."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Sequence

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

__all__ = [
    "between",
    "deepest",
    "first_word",
    "itself",
    "of_error",
    "of_node",
    "of_word",
    "unclosed",
]

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_BRACKETS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_STARTS = {TokenType.SELECT, TokenType.WITH}
_HEAD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\s*\(\s*$")  # of a function that sqlglot did not note


def of_node(text: str, node: object) -> tuple[int, int] | None:
    """The first character of a node and one past its last, or those of what stands around it.

    Where sqlglot did not note the place, such as that of TRUE, the node is looked for by its words;
    where these stand in the text more than once, the smallest part around it is taken that can be
    found. None for what comes from another text.

    >>> of_node("age > 18", sqlglot.parse_one("age > 18", read="duckdb").expression)
    (6, 8)
    >>> of_node("a = (TRUE)", sqlglot.parse_one("a = (TRUE)", read="duckdb").find(exp.Boolean))
    (5, 9)
    """
    found = None
    while found is None and isinstance(node, exp.Expression):
        found = itself(text, node) or _spelled(text, node)
        around = itself(text, node.parent) if isinstance(node.parent, exp.Query) else None
        if found is None and around is not None:  # a clause by its word, such as WHERE
            found = of_word(text, node.key, within=(around[0], len(text)))
        node = node.parent
    return found


def itself(text: str, node: object) -> tuple[int, int] | None:
    """The place of a node as sqlglot noted it; None where it did not."""
    noted = _noted(text, node)
    if noted is None:
        return None
    start, end = noted
    if isinstance(node, exp.Query | exp.SubqueryPredicate):
        start = _begun(text, start)
    start = _opened(text, start, end)
    if isinstance(node, exp.Func) and (head := _HEAD.search(text[:start])) is not None:
        start = head.start()
    return start, _closed(text, start, end)


def of_word(text: str, word: str, within: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """The first time that a word of SQL stands in a text, or in this part of it."""
    start, end = within or (0, len(text))
    for token in _tokens(text):
        first = token.text.upper().partition(" ")[0]  # GROUP BY is one token
        if start <= token.start < end and first == word.upper():
            return token.start, token.end + 1
    return None


def first_word(text: str) -> tuple[int, int] | None:
    """The word that a text begins with."""
    return next(((token.start, token.end + 1) for token in _tokens(text)), None)


def between(text: str, tree: exp.SetOperation) -> tuple[int, int] | None:
    """The words between two SELECTs, such as UNION."""
    left, right = _noted(text, tree.this), _noted(text, tree.expression)
    words = [
        token
        for token in _tokens(text)
        if left is not None and right is not None and left[1] <= token.start < right[0]
    ]
    starts = [at for at, token in enumerate(words) if token.text.upper() == tree.key.upper()]
    ends = [
        at
        for at, token in enumerate(words)
        if starts and at > starts[0] and token.token_type in {*_STARTS, TokenType.L_PAREN}
    ]
    if not ends:
        return of_word(text, tree.key) or of_node(text, tree)
    return words[starts[0]].start, words[ends[0] - 1].end + 1


def deepest(text: str) -> tuple[int, int]:
    """The bracket or CASE that stands inside the most others; all of a text without any."""
    level, most, found = 0, 0, (0, len(text))
    for token in _tokens(text):
        level += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if level > most:
            most, found = level, (token.start, token.end + 1)
    return found


def unclosed(text: str) -> tuple[int, int] | None:
    """From a quote or comment that is not closed to the end of the text; None where all are."""
    for closing in ("'", '"', "*/"):
        tokens = _tokens(f"{text}{closing}")
        start = text.rfind("/*") if closing == "*/" else tokens[-1].start if tokens else -1
        if tokens and 0 <= start < len(text):
            return start, len(text)
    return None


def of_error(text: str, error: SqlglotError) -> tuple[int, int] | None:
    """The word at which sqlglot stopped reading."""
    if not isinstance(error, ParseError) or not error.errors:
        return None
    first = error.errors[0]
    before, word = first.get("start_context") or "", first.get("highlight") or ""
    at = text.find(f"{before}{word}") if word else -1
    return (at + len(before), at + len(before) + len(word)) if at >= 0 else None


def _noted(text: str, node: object) -> tuple[int, int] | None:
    """From the first to the last word of a node whose place sqlglot noted."""
    if not isinstance(node, exp.Expression):
        return None
    noted = [part.meta for part in node.walk() if "start" in part.meta and "end" in part.meta]
    if not noted:
        return None
    start = min(meta["start"] for meta in noted)
    end = max(meta["end"] for meta in noted) + 1
    return (start, end) if 0 <= start < end <= len(text) else None


def _tokens(text: str) -> Sequence[Token]:
    try:
        return sqlglot.tokenize(text, read="duckdb")
    except (SqlglotError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return []


def _spelled(text: str, node: exp.Expression) -> tuple[int, int] | None:
    """The one place in the text where the words of a node stand."""
    tokens = _tokens(text)
    written = _words(tokens)
    for dialect in ("duckdb", None):
        try:
            sql = node.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.IGNORE)
        except (SqlglotError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            continue
        words = _words(_tokens(sql))
        size = len(words)
        found = [at for at in range(len(tokens)) if words and written[at : at + size] == words]
        if len(found) == 1:
            return tokens[found[0]].start, tokens[found[0] + size - 1].end + 1
    return None


def _words(tokens: Sequence[Token]) -> list[tuple[bool, str]]:
    """The words, texts in quotes told apart from others."""
    return [(one.token_type == TokenType.STRING, one.text.upper()) for one in tokens]


def _begun(text: str, start: int) -> int:
    """Where the SELECT begins of which this is the first place that was noted."""
    tokens = [token for token in _tokens(text) if token.start < start]
    level = 0
    for at in range(len(tokens) - 1, -1, -1):
        word = tokens[at].token_type
        if level == 0 and word in _STARTS:
            before = tokens[at - 1] if at else None
            opened = before is not None and before.token_type == TokenType.L_PAREN
            return before.start if opened and before is not None else tokens[at].start
        level = max(0, level - _BRACKETS.get(word, 0))  # brackets around all of it do not count
    return start


def _opened(text: str, start: int, end: int) -> int:
    """The start of a part, moved before brackets and CASEs that it closes: they are not noted."""
    tokens = [token for token in _tokens(text) if token.start < end]
    level, missing = 0, 0
    for token in tokens:
        if token.start >= start:
            level += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            missing = max(missing, -level)
    for token in reversed(tokens):
        if missing == 0:
            break
        if token.start < start:
            missing -= (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            if missing == 0:
                head = _HEAD.search(text[: token.end + 1])
                return token.start if head is None else head.start()
    return start


def _closed(text: str, start: int, end: int) -> int:
    """The end of a part, moved behind brackets and CASEs that it opened: they are not noted."""
    open_ones = 0
    for token in _tokens(text):
        if token.start < start:
            continue
        called = token.token_type == TokenType.L_PAREN and token.start == end
        if token.start >= end and not open_ones and not called:
            break
        open_ones += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if open_ones < 0:
            break
        end = max(end, token.end + 1)
    return end
