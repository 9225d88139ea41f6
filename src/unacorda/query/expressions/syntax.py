"""From text to sqlglot's tree: what is refused before and while parsing."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.types import encodable

__all__ = ["MOST_CHARACTERS", "MOST_LEVELS", "condition", "refuse_lost", "statement"]

MOST_CHARACTERS = 10_000
MOST_LEVELS = 100

_OTHER_DIALECTS = (
    (re.compile("`"), 'Write names in double quotes, as in "age", or plainly.'),
    (re.compile(r"\bSELECT\s+TOP\b", re.IGNORECASE), "Write LIMIT 3 at the end in place of TOP 3."),
    (
        re.compile(r"\bDECODE\s*\(", re.IGNORECASE),
        "Write CASE WHEN x = 'a' THEN 1 ELSE 0 END for DECODE.",
    ),
)

_LITERALS = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER)
_NOISE = ("within", "nulls", "last")  # WITHIN GROUP, NULLS LAST


def condition(text: str, *, argument: str) -> exp.Expression:
    """The tree sqlglot makes of one expression.

    Raises InvalidParameter where text is none, UnsafeExpression where it is too long, nested too
    deeply, more than one statement, or not understood.

    >>> condition("age > 3", argument="where").key
    'gt'
    """
    _checked(text, argument)
    return _parsed(text, into=exp.Condition)


def statement(text: str, *, argument: str) -> exp.Expression:
    """The tree sqlglot makes of one SELECT; a semicolon may end it.

    Raises like `condition`.
    """
    if isinstance(text, str):
        text = text.rstrip().removesuffix(";")
    first, *_ = _checked(text, argument)
    if first.token_type not in (TokenType.SELECT, TokenType.WITH):
        raise UnsafeExpression(
            text,
            reason="it begins neither with SELECT nor with WITH",
            hint="Write SELECT ..., COUNT(*) FROM table WHERE ... GROUP BY ...",
            place=errors.span(first),
        )
    return _parsed(text, into=None)


def refuse_lost(text: str, tree: exp.Expression) -> None:
    """Raise where sqlglot left out of its tree a literal or a name that was written.

    It drops, for one, the time zone in DATE_TRUNC('day', x, 'UTC'). To be called once the tree is
    known to be otherwise in order.

    Raises UnsafeExpression naming what was left out.
    """
    kept = Counter(
        word for node in tree.walk() for value in node.args.values() for word in _words(value)
    )
    tokens = errors.tokens_of(text)
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        called = after is not None and after.token_type == TokenType.L_PAREN
        named = token.token_type == TokenType.VAR and not called
        if not named and token.token_type not in _LITERALS:
            continue
        for word in _words(token.text):
            found = word if word in kept else f"0.{word}"
            kept[found] -= 1
            if kept[found] < 0 and word not in _NOISE:
                raise UnsafeExpression(
                    text,
                    reason=f"a part of it would be without effect: {word[:60]!r}",
                    hint="Leave it out.",
                    place=errors.span(token),
                )


def _words(value: object) -> list[str]:
    if isinstance(value, exp.DataType.Type):
        return [value.name.casefold()]
    words = value.casefold().split() if isinstance(value, str) else []
    return [word.removeprefix("-") for word in words]


def _checked(text: str, argument: str) -> Sequence[Token]:
    """The words of a text that may be parsed."""
    if not isinstance(text, str):
        raise InvalidParameter(argument, type(text).__name__, expected="a text (str)")
    if len(text) > MOST_CHARACTERS:
        raise UnsafeExpression(
            text,
            reason=f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}",
            hint="Write it shorter, or derive a part of it as a column first.",
            place=(MOST_CHARACTERS, MOST_CHARACTERS + 1),
        )
    if not encodable(text):
        at = next(at for at, sign in enumerate(text) if not encodable(sign))
        raise UnsafeExpression(
            text,
            reason="it holds U+0000 or half of a surrogate pair",
            hint="Remove it.",
            place=(at, at + 1),
        )
    tokens = errors.tokens_of(text)
    if not tokens:
        raise UnsafeExpression(
            text,
            reason="it is empty, or a quote or comment in it is not closed",
            hint="Write an expression, and close every quote.",
            place=errors.unclosed(text),
        )
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise UnsafeExpression(
                text,
                reason="it holds a semicolon",
                hint="Write one statement only, without ';'.",
                place=errors.span(token),
            )
    if max(itertools.accumulate(map(errors.nesting, tokens))) > MOST_LEVELS:
        raise errors.too_deep(text)
    return tokens


def _parsed(text: str, *, into: type[exp.Condition] | None) -> exp.Expression:
    place = None
    try:
        tree = sqlglot.parse_one(text, read="duckdb", into=into)
    except RecursionError:
        raise errors.too_deep(text) from None
    except errors.FAULTS as error:
        place = errors.of_error(text, error) if isinstance(error, SqlglotError) else None
    else:
        if isinstance(tree, exp.Expression):
            return tree
    raise UnsafeExpression(
        text,
        reason="it is not understood" + ("" if place is None else f", at {text[slice(*place)]!r}"),
        hint=_hint(text),
        place=place,
    )


def _hint(text: str) -> str:
    """What may be written in place of text that is not understood."""
    for pattern, hint in _OTHER_DIALECTS:
        if pattern.search(text):
            return hint
    return "Check brackets, commas, quotes and the order of words."
