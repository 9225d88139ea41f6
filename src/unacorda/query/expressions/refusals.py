"""The sentences with which an expression is refused: what was met, and what to write instead."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import difflib

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions import places

__all__ = ["FUNCTIONS", "described", "fragment", "quoted", "refusal", "resembling", "too_deep"]

FUNCTIONS = (
    "ABS",
    "ACOS",
    "ASIN",
    "ATAN",
    "ATAN2",
    "CBRT",
    "CEIL",
    "COALESCE",
    "CONCAT",
    "CONCAT_WS",
    "CONTAINS",
    "COS",
    "DATE_ADD",
    "DATE_DIFF",
    "DATE_PART",
    "DATE_SUB",
    "DATE_TRUNC",
    "DAY",
    "DAYNAME",
    "DAYOFWEEK",
    "DAYOFYEAR",
    "DEGREES",
    "ENDS_WITH",
    "EPOCH",
    "EXP",
    "EXTRACT",
    "FLOOR",
    "GREATEST",
    "HOUR",
    "IF",
    "IFNULL",
    "ISFINITE",
    "ISINF",
    "ISODOW",
    "LAST_DAY",
    "LEAST",
    "LEFT",
    "LENGTH",
    "LN",
    "LOG10",
    "LOG2",
    "LOWER",
    "LPAD",
    "LTRIM",
    "MAKE_DATE",
    "MINUTE",
    "MOD",
    "MONTH",
    "MONTHNAME",
    "NULLIF",
    "PI",
    "POWER",
    "QUARTER",
    "RADIANS",
    "REPLACE",
    "REVERSE",
    "RIGHT",
    "ROUND",
    "RPAD",
    "RTRIM",
    "SECOND",
    "SIGN",
    "SIN",
    "SPLIT_PART",
    "SQRT",
    "STARTS_WITH",
    "STRFTIME",
    "STRPOS",
    "SUBSTRING",
    "TAN",
    "TO_TIMESTAMP",
    "TRIM",
    "TRUNC",
    "TRY_CAST",
    "TRY_STRPTIME",
    "UPPER",
    "WEEK",
    "YEAR",
)

_LOOKS = "Use operators, CASE, literals and the functions " + ", ".join(FUNCTIONS) + "."

_MENDS: dict[type[object], tuple[str, str]] = {
    exp.Query: ("a subquery", "Write a condition on the row's own columns."),
    exp.Exists: ("a subquery (EXISTS)", "Write a condition on the row's own columns."),
    exp.Any: ("a subquery or list (ANY)", "Write x IN (1, 2, 3)."),
    exp.All: ("a subquery or list (ALL)", "Write the comparisons one by one with AND."),
    exp.Window: ("a window function (OVER)", "An expression sees one row only."),
    exp.Placeholder: ("a parameter", "Write the value itself."),
    exp.Parameter: ("a parameter", "Write the value itself."),
    exp.SessionParameter: ("a setting of the session", "Write the value itself."),
    exp.PositionalColumn: ("a column by position", "Write the column's name."),
    exp.Lambda: ("a lambda", "An expression sees one value only."),
    exp.Struct: ("a struct", "Use its fields as columns of their own."),
    exp.Array: ("a list", "Lists stand only behind IN, as in x IN (1, 2, 3)."),
    exp.Tuple: ("a row of values", "Compare the columns one by one with AND."),
    exp.Bracket: ("a subscript", "Use SUBSTRING(x, 1, 3) for text."),
    exp.Dot: ("a name with a dot", "Write the name of a column or function alone."),
    exp.JSONExtract: ("the operator -> (JSON or lambda)", "Use plain columns."),
    exp.JSONExtractScalar: ("the operator ->> (JSON)", "Use plain columns."),
    exp.RegexpLike: ("a regular expression", "Use LIKE, CONTAINS or STARTS_WITH."),
    exp.SimilarTo: ("a regular expression", "Use LIKE, CONTAINS or STARTS_WITH."),
    exp.Glob: ("GLOB", "Use LIKE, CONTAINS or STARTS_WITH."),
    exp.Escape: ("LIKE with ESCAPE", "Use CONTAINS or STARTS_WITH for a literal % or _."),
    exp.Collate: ("COLLATE", "Compare LOWER(x) instead."),
    exp.Interval: ("an INTERVAL", "Write x + INTERVAL 7 DAY, x - INTERVAL 1 MONTH."),
    exp.BitwiseXor: ("XOR", "Write a <> b, which is true where just one of them is."),
    exp.IsNan: ("ISNAN", "Write x IS NULL: NaN is NULL here."),
    exp.RegexpExtract: ("a regular expression", "Use SPLIT_PART, SUBSTRING or LIKE."),
    exp.RegexpReplace: ("a regular expression", "Use REPLACE with literal texts."),
    exp.BitwiseAnd: ("the operator &", "Write AND."),
    exp.BitwiseOr: ("the operator |", "Write OR."),
    exp.BitwiseNot: ("the operator ~", "Write NOT."),
    exp.IntDiv: ("the operator //", "Write FLOOR(a / b)."),
    exp.AtTimeZone: ("AT TIME ZONE", "All instants are in UTC."),
    exp.Star: ("*", "Write the name of a column."),
    exp.Block: ("more than one statement", "Write one expression only."),
    exp.Log: ("LOG with an unclear base", "Write LN(x), LOG10(x) or LOG2(x)."),
    exp.TimestampTrunc: ("DATE_TRUNC", "Write DATE_TRUNC('month', x)."),
    exp.Rand: ("the random function", "An expression depends on the row alone."),
    exp.CurrentDate: ("today's date", "Write a literal such as DATE '2024-01-01'."),
    exp.CurrentTimestamp: ("the present time", "Write TIMESTAMP '2024-01-01 00:00:00'."),
    exp.ByteString: ("a text with escapes", "Write the characters themselves: 'text'."),
    exp.RawString: ("a text in dollar quotes", "Write the text in single quotes."),
    exp.National: ("a national text", "Write the text in single quotes."),
    exp.ToChar: ("the function TO_CHAR", "Write STRFTIME(x, '%Y-%m'), or CAST(x AS VARCHAR)."),
    exp.ToNumber: ("the function TO_NUMBER", "Write CAST(x AS DOUBLE)."),
    exp.Nvl2: ("the function NVL2", "Write CASE WHEN x IS NULL THEN 0 ELSE 1 END."),
    exp.SafeDivide: ("the function SAFE_DIVIDE", "Write a / NULLIF(b, 0)."),
}

_PRESENT = "Write the day itself, as in DATE '2024-01-31': an expression depends on the row alone."
_ELSEWHERE: dict[str, str] = {
    "AGE": "Write DATE_PART('year', AGE(later, earlier)).",
    "CURDATE": _PRESENT,
    "DATEADD": "Write x + INTERVAL 7 DAY.",
    "DATEPART": "Write DATE_PART('year', x).",
    "DATE_FORMAT": "Write STRFTIME(x, '%Y-%m').",
    "EOMONTH": "Write LAST_DAY(x).",
    "FROM_UNIXTIME": "Write TO_TIMESTAMP(x).",
    "GETDATE": _PRESENT,
    "HISTOGRAM": "It is an aggregate of a column and its edges: HISTOGRAM(x, [0, 10, 20]).",
    "HISTOGRAM_NUMERIC": "It is an aggregate: HISTOGRAM_NUMERIC(x, 10).",
    "ISNULL": "Write IFNULL(x, 0), or x IS NULL.",
    "ISNUMERIC": "Write CAST(x AS DOUBLE) IS NOT NULL.",
    "NOW": _PRESENT,
    "PARSE_DATE": "Write TRY_STRPTIME(x, '%d.%m.%Y').",
    "SYSDATE": _PRESENT,
    "TO_DATE": "Write CAST(x AS DATE), or TRY_STRPTIME(x, '%d.%m.%Y').",
    "UNIX_TIMESTAMP": "Write EPOCH(x).",
    "ZEROIFNULL": "Write COALESCE(x, 0).",
}
"""What to write in place of functions of other dialects."""


def too_deep(text: str) -> UnsafeExpression:
    """The refusal of an expression whose parts stand inside each other too many times."""
    return UnsafeExpression(
        text,
        reason="its parts are nested too deeply",
        mend="Write it with fewer brackets, or derive an inner part as a column first.",
        place=places.deepest(text),
    )


def refusal(
    text: str, node: object, *, form: bool = False, mend: str | None = None
) -> UnsafeExpression:
    """The refusal of one node; form: its kind is allowed, but not written in this way."""
    shown = quoted(text, node)
    at = f", at {shown!r}" if shown and len(text) > len(shown) else ""
    what, remedy = described(node, text)
    place = places.of_node(text, node)
    if form:
        return UnsafeExpression(
            text,
            reason=f"this form of {what} is not allowed{at}",
            mend=mend or "Write it plainly, as docs/sql.md shows.",
            place=place,
        )
    return UnsafeExpression(text, reason=f"it uses {what}{at}", mend=mend or remedy, place=place)


def described(node: object, text: str = "") -> tuple[str, str]:
    """What a node of this text is called in a message, and what may stand in its place."""
    if not isinstance(node, exp.Expression):
        return "an incomplete part", _LOOKS
    for kind, words in _MENDS.items():
        if isinstance(node, kind):
            return words
    if isinstance(node, exp.Anonymous):
        name = str(node.name)
        if name.upper() in _ELSEWHERE:
            return f"the function {name!r}", _ELSEWHERE[name.upper()]
        return f"the function {name[:60]!r}", resembling(name, FUNCTIONS) + _LOOKS
    if isinstance(node, exp.AggFunc):
        return (
            f"the aggregate {_spelling(node, text)}",
            "An expression sees one row only; aggregates stand in agg(...) or after SELECT.",
        )
    if isinstance(node, exp.Column):
        return "a column's name", "Write the name of the column alone."
    if isinstance(node, exp.Literal):
        return "a number", "Write the number in digits."
    if isinstance(node, exp.Func) and not isinstance(node, exp.Case | exp.If):
        return f"the function {_spelling(node, text)}", _LOOKS
    return type(node).__name__.upper(), _LOOKS


def _spelling(node: exp.Func, text: str) -> str:
    """The function's name as the text has it, or else as DuckDB spells it."""
    head = fragment(node).partition("(")[0]
    names = [head, *map(str, node.sql_names())]
    written = [name for name in names if name.isidentifier() and name.upper() in text.upper()]
    return next(iter(written), head if head.isidentifier() else names[1])


def resembling(name: str, available: tuple[str, ...] | list[str]) -> str:
    """A question with the nearest available name, or nothing.

    >>> resembling("sqr", ["SQRT", "LN"])
    "Did you mean 'SQRT'? "
    """
    lower = {entry.lower(): entry for entry in available}
    close = difflib.get_close_matches(name[:100].lower(), list(lower), n=1)
    return f"Did you mean {lower[close[0]]!r}? " if close else ""


def quoted(text: str, node: object) -> str:
    """The node as the text has it, where DuckDB would spell it in another way."""
    shown = fragment(node)
    if not isinstance(node, exp.Func) or shown.partition("(")[0].upper() in text.upper():
        return shown
    place = places.itself(text, node)
    return shown if place is None else _cut(text[slice(*place)], 60)


def fragment(node: object, *, most: int = 60) -> str:
    """The node as text, cut to a length for messages; empty where it can not be written."""
    if not isinstance(node, exp.Expression):
        return ""
    try:
        text = node.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)
    except (
        SqlglotError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ):
        return ""
    return _cut(text, most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
