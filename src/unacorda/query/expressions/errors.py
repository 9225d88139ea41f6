"""What is refused, where in the text it stands, and what to write instead.

Names that users of pandas, polars, Spark and SQL type have hints on what they mean here.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions.language import FUNCTIONS

FAULTS = (
    SqlglotError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What sqlglot raises on what it does not foresee. A fault of the parser is a refusal."""

NESTING: Final = {
    **dict.fromkeys((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE), 1),
    **dict.fromkeys((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END), -1),
}
"""1 for a bracket or a CASE that opens, -1 for what closes one."""
_STARTS = {TokenType.SELECT, TokenType.WITH}
_HEAD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\s*\(\s*$")  # of a function that sqlglot did not note


@functools.lru_cache(maxsize=16)
def tokens_of(text: str) -> Sequence[Token]:
    """The words of a text; none where it cannot be cut into words."""
    try:
        return tuple(sqlglot.tokenize(text, read="duckdb"))
    except FAULTS:
        return ()


def span(first: Token, last: Token | None = None) -> tuple[int, int]:
    """The first character of a word, and one past the last of it or of another."""
    return first.start, (last or first).end + 1


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
        found = _itself(text, node) or _spelled(text, node)
        around = _itself(text, node.parent) if isinstance(node.parent, exp.Query) else None
        if found is None and around is not None:  # a clause by its word, such as WHERE
            found = of_word(text, node.key, within=(around[0], len(text)))
        node = node.parent
    return found


def _itself(text: str, node: object) -> tuple[int, int] | None:
    """The place of a node as sqlglot noted it, and None where it did not.

    Neither brackets nor CASE and END are noted: those that stand half in it belong to it.
    """
    noted = _noted(text, node)
    if noted is None:
        return None
    start, end = noted
    if isinstance(node, exp.Query | exp.SubqueryPredicate):
        start = _begun(text, start)
    for first, last in _pairs(text):
        if first.start < start <= last.start < end:
            start = _with_head(text, first.start, first.end + 1)
            break
    if isinstance(node, exp.Func):
        start = _with_head(text, start, start)
    for first, last in _pairs(text):
        called = first.token_type == TokenType.L_PAREN and first.start == end
        if called or start <= first.start < end <= last.start:
            end = last.end + 1
    return start, end


@functools.lru_cache(maxsize=16)
def _pairs(text: str) -> Sequence[tuple[Token, Token]]:
    """The brackets and CASEs of a text, each with what closes it."""
    waiting: list[Token] = []
    found: list[tuple[Token, Token]] = []
    for token in tokens_of(text):
        step = NESTING.get(token.token_type, 0)
        if step > 0:
            waiting.append(token)
        elif step < 0 and waiting:
            found.append((waiting.pop(), token))
    return sorted(found, key=lambda pair: pair[0].start)


def _with_head(text: str, start: int, end: int) -> int:
    """A start, or that of the function whose bracket opens before the end."""
    head = _HEAD.search(text[:end])
    return start if head is None else head.start()


def of_word(text: str, word: str, within: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """The first time that a word of SQL stands in a text, or in this part of it."""
    start, end = within or (0, len(text))
    for token in tokens_of(text):
        first = token.text.upper().partition(" ")[0]  # GROUP BY is one token
        if start <= token.start < end and first == word.upper():
            return span(token)
    return None


def between(text: str, tree: exp.SetOperation) -> tuple[int, int] | None:
    """The words between two SELECTs, such as UNION."""
    left, right = _noted(text, tree.this), _noted(text, tree.expression)
    if left is not None and right is not None:
        word = of_word(text, tree.key, within=(left[1], right[0])) or right
        behind = [one for one in tokens_of(text) if word[1] <= one.start < right[0]]
        begun = [one.start for one in behind if one.token_type in {*_STARTS, TokenType.L_PAREN}]
        if begun:
            return word[0], len(text[: begun[0]].rstrip())
    return of_word(text, tree.key) or of_node(text, tree)


def unclosed(text: str) -> tuple[int, int] | None:
    """From a quote or comment that is not closed to the end of the text; None where all are."""
    for closing in ("'", '"', "*/"):
        tokens = tokens_of(f"{text}{closing}")
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


def _spelled(text: str, node: exp.Expression) -> tuple[int, int] | None:
    """The one place in the text where the words of a node stand."""
    tokens = tokens_of(text)
    written = _words(tokens)
    for dialect in ("duckdb", None):
        try:
            sql = node.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.IGNORE)
        except FAULTS:
            continue
        words = _words(tokens_of(sql))
        size = len(words)
        found = [at for at in range(len(tokens)) if words and written[at : at + size] == words]
        if len(found) == 1:
            return span(tokens[found[0]], tokens[found[0] + size - 1])
    return None


def _words(tokens: Sequence[Token]) -> list[tuple[bool, str]]:
    """The words, texts in quotes distinguished from others."""
    return [(one.token_type == TokenType.STRING, one.text.upper()) for one in tokens]


def _begun(text: str, start: int) -> int:
    """Where the SELECT begins of which this is the first place that was noted."""
    closed = [(first.start, last.start) for first, last in _pairs(text) if last.start < start]
    before, found = None, start
    for token in tokens_of(text):
        inside = any(first < token.start < last for first, last in closed)
        if token.start < start and token.token_type in _STARTS and not inside:
            bracket = before is not None and before.token_type == TokenType.L_PAREN
            found = before.start if before is not None and bracket else token.start
        before = token
    return found


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
    exp.IsInf: ("ISINF", "Numbers are finite here: write ABS(x) >= 1e100."),
    exp.Reverse: ("REVERSE", "Write RIGHT(x, 1), or SUBSTRING(x, 1, 1)."),
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
    exp.Column: ("a column's name", "Write the name of the column alone."),
    exp.Literal: ("a number", "Write the number in digits."),
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
    "ISFINITE": "Numbers and dates are finite here: write x IS NOT NULL.",
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
    words = tokens_of(text)
    levels = list(itertools.accumulate(NESTING.get(word.token_type, 0) for word in words))
    most = max(levels, default=0)
    return UnsafeExpression(
        text,
        reason="its parts are nested too deeply",
        hint="Write it with fewer brackets, or derive an inner part as a column first.",
        place=span(words[levels.index(most)]) if most > 0 else (0, len(text)),
    )


def refusal(
    text: str, node: object, *, form: bool = False, hint: str | None = None
) -> UnsafeExpression:
    """The refusal of one node; form: its kind is allowed, but not written in this way."""
    shown = quoted(text, node)
    at = f", at {shown!r}" if shown and len(text) > len(shown) else ""
    what, remedy = _described(node, text)
    place = of_node(text, node)
    if form:
        return UnsafeExpression(
            text,
            reason=f"this form of {what} is not allowed{at}",
            hint=hint or "Write it plainly, as docs/expressions.md shows.",
            place=place,
        )
    return UnsafeExpression(text, reason=f"it uses {what}{at}", hint=hint or remedy, place=place)


def _described(node: object, text: str = "") -> tuple[str, str]:
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
    place = _itself(text, node)
    return shown if place is None else _cut(text[slice(*place)])


def fragment(node: object) -> str:
    """The node as text, cut for messages; empty where it can not be written."""
    if not isinstance(node, exp.Expression):
        return ""
    try:
        text = node.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)
    except FAULTS:
        return ""
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


# ---- names of other tools ------------------------------------------------------------------------


_FILTER = ".where(\"age >= 18\") or .where(unacorda.col('age') >= 18)"
_GROUP = '.group_by("county", keys=[...])'
_DERIVE = '.derive(hours="minutes / 60")'
_AGG = ".agg(n=unacorda.count(), m=unacorda.mean('age', 0, 120))"
_EVALUATE = "session.evaluate(query, budget=...), which answers with noise"
_PANDAS = ".to_pandas(), and the method there"

QUERY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("filter", "query", "having"), _FILTER),
    **dict.fromkeys(("groupby", "groupBy", "by", "group"), _GROUP),
    **dict.fromkeys(("with_columns", "with_column", "withColumn", "assign", "mutate"), _DERIVE),
    **dict.fromkeys(("select", "aggregate", "summarize", "summarise"), _AGG),
    "count": ".agg(n=unacorda.count())",
    "size": ".agg(n=unacorda.count())",
    "nunique": '.agg(n=unacorda.count_distinct("county"))',
    "value_counts": '.agg(values=unacorda.top("county", 10))',
    **{
        name: f'.agg(answer=unacorda.{name}("age", 0, 120))'
        for name in ("sum", "mean", "median", "min", "max")
    },
    **dict.fromkeys(("std", "stddev"), '.agg(answer=unacorda.stdev("age", 0, 120))'),
    "var": '.agg(answer=unacorda.variance("age", 0, 120))',
    "quantile": '.agg(answer=unacorda.quantile("age", 0.9, 0, 120))',
    "merge": '.join("zips", on="zip")',
    **dict.fromkeys(("concat", "union_all", "unionAll", "vstack"), ".union(session.table(...))"),
    "describe": "session.describe(table, budget=...)",
    **dict.fromkeys(("collect", "show", "execute", "run", "compute", "release"), _EVALUATE),
    **dict.fromkeys(("evaluate", "head", "limit", "first", "to_pandas", "toPandas"), _EVALUATE),
    "explain": "session.explain(query, budget=...)",
    **dict.fromkeys(("sort", "sort_values", "orderBy", "order_by"), f"{_EVALUATE}, then {_PANDAS}"),
    **dict.fromkeys(("dropna", "drop_nulls"), '.where("age IS NOT NULL")'),
}
"""What to write for names that a query has not."""

SESSION: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("query", "execute", "run", "answer", "release"),
        "session.evaluate(query, budget=...), or session.sql(text, budget=...) for a SELECT",
    ),
    **dict.fromkeys(
        ("filter", "where", "groupby", "group_by", "select", "agg", "read_csv"),
        'session.table("visits"), on which .where, .derive, .group_by and .agg follow',
    ),
    "create_dataframe": "unacorda.Session({name: source}, unit=..., budget=...)",
    **dict.fromkeys(("remaining_budget", "remaining_privacy_budget"), "session.remaining"),
    "fit_model": "session.fit(model, table, features=[...], target=...)",
}
"""What to write for names that a session has not."""

RELEASE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("df", "data", "table", "toPandas", "collect", "show"), ".to_pandas()"),
    **dict.fromkeys(("item", "value"), ".scalar(), where there is one number"),
    "values": '.to_dicts(), or release["name"] for one column',
    "rows": ".to_dicts()",
    "spent": ".charge",
    **dict.fromkeys(("filter", "sort_values", "sort", "groupby", "head"), _PANDAS),
    "interval": 'release["name_low"] and release["name_high"]',
}
"""What to write for names that a release has not."""


def unknown_attribute(
    kind: str, name: str, hints: Mapping[str, str], known: Iterable[str]
) -> AttributeError:
    """The error for an attribute that a value has not; with what to write, where that is known.

    known: the attributes there are, of which the nearest is named.
    """
    hint = f" Write {hints[name]}." if name in hints else ""
    if not hint and not name.startswith("_"):
        close = resembling(name, [one for one in known if not one.startswith("_")])
        hint = f" {close}".rstrip()
    return AttributeError(f"{kind} has no attribute {name!r}.{hint}", name=name)
