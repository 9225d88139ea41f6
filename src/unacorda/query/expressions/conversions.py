"""What is read out of a value, and what a number may be: the language's own definition.

A number that is read is 0 or of a size from 1e-100 to 1e100: what is smaller is 0, what is larger
is that end, and NaN is NULL. So what is computed of few neither overflows nor vanishes, which some
engines call an error; of many, `values.kept` sees to it. A date or an instant lies in the years 1
to 9999; any other is NULL. A text is a number, a date, an instant or a truth value where it is
written as here, and NULL elsewhere. All of it is SQL that raises on no row, and that engines
compute alike.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

from unacorda.query.expressions.quoting import double, quoted
from unacorda.query.expressions.types import LARGEST, SMALLEST

__all__ = [
    "boolean_of_text",
    "date_of_text",
    "extracted",
    "held",
    "in_years",
    "instant_of_text",
    "let",
    "let_pair",
    "plain_number",
    "rounded",
    "stepped",
]

_SHORT = 250
_BOUND = "unacorda_bound_value"

_PLACES = 2.0**53
_SPACE = r"[ \t\r\n]*"
_DIGITS = "[0-9]{1,150}"
_NUMBER = rf"[+-]?(?:{_DIGITS}(?:\.[0-9]{{0,150}})?|\.{_DIGITS})(?:[eE][+-]?[0-9]{{1,2}})?"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def let(sql: str, body: Callable[[str], str]) -> str:
    """SQL that uses an operand several times: as it stands where short, by a name where long."""
    if len(sql) <= _SHORT:
        return body(sql)
    return f"list_transform([{sql}], lambda {_BOUND}: {body(_BOUND)})[1]"


def let_pair(first: str, second: str, body: Callable[[str, str], str]) -> str:
    """As `let`, for two operands."""
    if len(first) + len(second) <= _SHORT:
        return body(first, second)
    fields = (f"struct_extract({_BOUND}, '{name}')" for name in ("first", "second"))
    pair = f"[struct_pack(first := {first}, second := {second})]"
    return f"list_transform({pair}, lambda {_BOUND}: {body(*fields)})[1]"


def held(
    sql: str, *, least: float = SMALLEST, most: float = LARGEST, undefined: bool = False
) -> str:
    """SQL of a number that is 0 or of a size between two; undefined: it may be NaN, which is NULL.

    >>> print(held("x", most=9.0, least=1.0))
    (CASE WHEN abs(x) BETWEEN 1.0e0 AND 9.0e0 THEN x WHEN abs(x) < 1.0e0 THEN 0e0 \
WHEN x < 0e0 THEN (-9.0e0) WHEN x > 0e0 THEN 9.0e0 END)
    """
    small, large = double(least), double(most)
    # NaN is greater than all numbers.
    nan = "WHEN isnan({0}) THEN NULL " if undefined else ""
    arms = (
        f"(CASE WHEN abs({{0}}) BETWEEN {small} AND {large} THEN {{0}} "
        f"WHEN abs({{0}}) < {small} THEN 0e0 {nan}"
        f"WHEN {{0}} < 0e0 THEN {double(-most)} WHEN {{0}} > 0e0 THEN {large} END)"
    )
    return let(sql, arms.format)


def stepped(sql: str, step: float) -> str:
    """SQL of a number as a multiple of a power of 2: the next one, or itself where it is large.

    A number of 2^53 steps is added, where doubles have no smaller places, and taken away.
    """
    shift = double(step * _PLACES)
    return f"(({sql} + {shift}) - {shift})"


def rounded(value: float, step: float) -> float:
    """What `stepped` makes of a number.

    >>> rounded(1e-150, 2.0**-332), rounded(0.1, 2.0**-332)
    (0.0, 0.1)
    """
    return value + step * _PLACES - step * _PLACES


def in_years(sql: str, kind: str) -> str:
    """SQL of a DATE or TIMESTAMP where it is in the years 1 to 9999, else NULL."""
    ends = f"{{0}} >= {kind} '0001-01-01' AND {{0}} < {kind} '10000-01-01'"
    return let(sql, f"(CASE WHEN {ends} THEN {{0}} END)".format)


def extracted(sql: str, pattern: str, group: int = 1) -> str:
    """SQL of a group of the pattern of a whole text, but for spaces around it; else no text."""
    whole = quoted(rf"\A{_SPACE}({pattern}){_SPACE}\z", "'")
    return f"regexp_extract({sql}, {whole}, {group})"


def plain_number(sql: str) -> str:
    """SQL of the number that a text says in digits, with a point and an exponent or without.

    At most 150 digits before the point and after it, and an exponent of two: a double has them.
    """
    return f"TRY_CAST({extracted(sql, _NUMBER)} AS DOUBLE)"


def date_of_text(sql: str) -> str:
    """SQL of the day that a text says as 2024-01-31."""
    return in_years(f"TRY_CAST({extracted(sql, _DATE)} AS DATE)", "DATE")


def instant_of_text(sql: str) -> str:
    """SQL of the instant that a text says as 2024-01-31, 2024-01-31 12:30 or to a microsecond."""
    pattern = rf"{_DATE}(?:[ T]{_CLOCK})?"
    return in_years(f"TRY_CAST({extracted(sql, pattern)} AS TIMESTAMP)", "TIMESTAMP")


def boolean_of_text(sql: str) -> str:
    """SQL of the truth of words such as true, f, yes and 0; true may be True or TRUE."""
    true, false = (
        ", ".join(quoted(form, "'") for word in words for form in _spellings(word))
        for words in (_TRUE, _FALSE)
    )
    return let(
        sql, lambda x: f"(CASE WHEN {x} IN ({true}) THEN TRUE WHEN {x} IN ({false}) THEN FALSE END)"
    )


def _spellings(word: str) -> dict[str, None]:
    return dict.fromkeys((word, word.capitalize(), word.upper()))
