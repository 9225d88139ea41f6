"""From text to sqlglot's tree: what is refused before and while parsing."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from tacet.errors import InvalidParameter, UnsafeExpression
from tacet.query.expressions import refusals
from tacet.query.expressions.types import encodable

__all__ = ["MOST_CHARACTERS", "MOST_LEVELS", "condition", "statement"]

MOST_CHARACTERS = 10_000
MOST_LEVELS = 100

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)

# What sqlglot raises on text that it does not foresee. A fault of the parser is a refusal.
_FAULTS = (
    SqlglotError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


def condition(text: str, *, argument: str) -> exp.Expression:
    """The tree sqlglot makes of one expression.

    Raises InvalidParameter where text is none, UnsafeExpression where it is too long, nested too
    deeply, more than one statement, or not understood.

    >>> condition("age > 3", argument="where").key
    'gt'
    """
    _check(text, argument)
    return _parsed(text, into=exp.Condition)


def statement(text: str, *, argument: str) -> exp.Expression:
    """The tree sqlglot makes of one SELECT; a semicolon may end it.

    Raises like `condition`.
    """
    if isinstance(text, str):
        text = text.rstrip().removesuffix(";")
    words = _check(text, argument)
    if words[0] != TokenType.SELECT:
        raise UnsafeExpression(
            text,
            reason="it does not begin with SELECT",
            mend="Write SELECT ..., COUNT(*) FROM table WHERE ... GROUP BY ...",
        )
    return _parsed(text, into=None)


def _check(text: str, argument: str) -> list[TokenType]:
    if not isinstance(text, str):
        raise InvalidParameter(argument, type(text).__name__, expected="a text (str)")
    if len(text) > MOST_CHARACTERS:
        raise UnsafeExpression(
            text,
            reason=f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}",
            mend="Write it shorter, or derive a part of it as a column first.",
        )
    if not encodable(text):
        raise UnsafeExpression(
            text, reason="it holds U+0000 or half of a surrogate pair", mend="Remove it."
        )
    try:
        words = [token.token_type for token in sqlglot.tokenize(text, read="duckdb")]
    except _FAULTS:
        words = []
    if not words:
        raise UnsafeExpression(
            text,
            reason="it is empty, or a quote or comment in it is not closed",
            mend="Write an expression, and close every quote.",
        )
    level = 0
    for word in words:
        level += (word in _OPENING) - (word in _CLOSING)
        if word == TokenType.SEMICOLON:
            raise UnsafeExpression(
                text, reason="it holds a semicolon", mend="Write one statement only, without ';'."
            )
        if word == TokenType.DCOLON:
            raise UnsafeExpression(
                text, reason="it uses the operator '::'", mend="Write TRY_CAST(x AS DOUBLE)."
            )
        if level > MOST_LEVELS:
            raise refusals.too_deep(text)
    return words


def _parsed(text: str, *, into: type[exp.Condition] | None) -> exp.Expression:
    where = ""
    try:
        tree = (
            sqlglot.parse_one(text, read="duckdb")
            if into is None
            else sqlglot.parse_one(text, read="duckdb", into=into)
        )
    except RecursionError:
        raise refusals.too_deep(text) from None
    except _FAULTS as error:
        where = refusals.place(error) if isinstance(error, SqlglotError) else ""
    else:
        if isinstance(tree, exp.Expression):
            return tree
    raise UnsafeExpression(
        text,
        reason=f"it is not understood{where}",
        mend="Check brackets, commas, quotes and the order of words.",
    )
