"""Conditions, choices, conversions between kinds, and functions of text.

Positions count code points. An operation that could make a text longer keeps its first 10,000
characters, of what goes in and of what comes out: nested ones would otherwise exhaust memory.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

from unacorda.query.expressions import ranges
from unacorda.query.expressions.language import Kind, Literal, Operation, double, text_of
from unacorda.query.expressions.ranges import EMPTY, EVERYTHING, PLAIN, Range, Size
from unacorda.query.expressions.values import (
    KindMismatch,
    Rule,
    Value,
    any_nullable,
    described,
    each,
    form,
    held,
    let,
    listed,
    number,
    numeric,
    of_kind,
    of_one_kind,
    of_text,
)

_alike = functools.partial(of_one_kind, otherwise=Kind.BOOLEAN)
"""Operands of any one kind; bare NULLs alone are compared as truth values."""
_truths, _texts = each(Kind.BOOLEAN), each(Kind.TEXT)


# ---- choices -----------------------------------------------------------------------------------

_LONGEST_SWITCH = 120
_LONGEST_CUT = 80
"""What is cut is computed again for every row that stays."""


def _one_of(sql: str, values: Sequence[Value], *, nullable: bool) -> Value:
    sizes = [value.size for value in values if not value.range.empty] or [PLAIN]
    return Value(
        sql=sql,
        kind=values[0].kind,
        range=ranges.hull(*(value.range for value in values)),
        size=functools.reduce(Size.hull, sizes),
        nullable=nullable,
    )


def _case(_: Operation, *operands: Value) -> Value:
    *pairs, default = operands
    return _arms("CASE", _truths(tuple(pairs[::2])), (*pairs[1::2], default))


def _switch(_: Operation, *operands: Value) -> Value:
    first, *pairs, default = operands
    subject, *matches = of_one_kind((first, *pairs[::2]))
    if len(subject.sql) > _LONGEST_SWITCH:  # DuckDB repeats it in every arm
        raise KindMismatch(
            f"a shorter operand than {described(first)} behind CASE; write CASE WHEN, or derive "
            "the operand as a column first"
        )
    return _arms(f"CASE {subject.sql}", matches, (*pairs[1::2], default))


def _arms(head: str, conditions: list[Value], results: tuple[Value, ...]) -> Value:
    *values, default = of_one_kind(results)
    arms = " ".join(
        f"WHEN {condition.sql} THEN {value.sql}"
        for condition, value in zip(conditions, values, strict=True)
    )
    every = [*values, default]
    return _one_of(f"({head} {arms} ELSE {default.sql} END)", every, nullable=any_nullable(every))


def _coalesce(_: Operation, *operands: Value) -> Value:
    values = of_one_kind(operands)
    # What stands behind an operand that is never NULL is never reached.
    certain = next((at for at, value in enumerate(values, 1) if not value.nullable), None)
    reached = values[:certain]
    return _one_of(f"coalesce({listed(reached)})", reached, nullable=certain is None)


def _nullif(_: Operation, *operands: Value) -> Value:
    a, b = of_one_kind(operands)
    sql = let("(CASE WHEN {0} = {1} THEN NULL ELSE {0} END)".format, a.sql, b.sql)
    return replace(a, sql=sql, nullable=True, below=None)


def _extreme(node: Operation, *operands: Value) -> Value:
    """LEAST or GREATEST; NULLs are passed over, as in DuckDB, so NULL only where all are NULL."""
    values = of_one_kind(operands)
    certain = [value.range for value in values if not value.nullable]
    cuts = _cuts(values)
    sql = _cut(*values) if cuts and node.name == "GREATEST" else None
    sql = sql or f"{node.name.lower()}({listed(values)})"
    found = _one_of(sql, values, nullable=not certain)
    least, most = found.range.lower, found.range.upper
    if node.name == "GREATEST":
        least = max(least, *(one.lower for one in certain), -math.inf)
        return replace(found, range=Range(least, most))
    most = min(most, *(one.upper for one in certain), math.inf)
    below = (values[0].sql, values[1].range.upper) if cuts else None
    return replace(found, range=Range(least, most), below=below)


def _cuts(values: Sequence[Value]) -> bool:
    """Whether these are a number and a literal one."""
    numbers = all(value.kind is not None and value.kind.numeric for value in values)
    return numbers and len(values) == 2 and isinstance(values[1].node, Literal)


def _cut(inner: Value, limit: Value) -> str | None:
    """GREATEST(LEAST(x, high), low) as DuckDB computes it in a sixth of the time; None for others.

    Most rows take the first arm. NULL and what is beyond `high` take the last.
    """
    if inner.below is None:
        return None
    (x, most), least = inner.below, limit.range.lower
    if len(x) > _LONGEST_CUT or least > most:
        return None
    low, high = double(least), double(most)
    return (
        f"(CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} WHEN {x} < {low} THEN {low} "
        f"ELSE {high} END)"
    )


# ---- conversions -------------------------------------------------------------------------------

_INTEGER_RANGES = {
    "TINYINT": Range(-(2.0**7), 2.0**7 - 1),
    "SMALLINT": Range(-(2.0**15), 2.0**15 - 1),
    "INTEGER": Range(-(2.0**31), 2.0**31 - 1),
    "BIGINT": Range(-(2.0**63), 2.0**63),
}


def _cast(node: Operation, operand: Value) -> Value:
    target, sql = str(node.option), operand.sql
    match target, operand.kind:
        case "VARCHAR", Kind.NUMBER:
            raise KindMismatch(
                f"a whole number, date, boolean or text where {described(operand)} stands, which "
                f"has no one text; write CAST(ROUND({text_of(operand.node)[:60]}) AS VARCHAR)"
            )
        case "VARCHAR", Kind.INTEGER:  # 5 rather than 5.0; NULL from 2^63 on
            return Value(sql=f"CAST(TRY_CAST({sql} AS BIGINT) AS VARCHAR)", kind=Kind.TEXT)
        case "VARCHAR", _:
            sql = f"CAST({sql} AS VARCHAR)"
            return Value(sql=sql, kind=Kind.TEXT, nullable=operand.nullable)
        case "DATE" | "TIMESTAMP" | "BOOLEAN", Kind.TEXT:
            return Value(sql=of_text(sql, Kind[target]), kind=Kind[target])
        case "DATE" | "TIMESTAMP", Kind.DATE | Kind.TIMESTAMP | None:
            return Value(sql=f"CAST({sql} AS {target})", kind=Kind[target])
        case "DATE" | "TIMESTAMP", _:
            raise KindMismatch(f"a text or date where {described(operand)} stands")
        case _, Kind.DATE | Kind.TIMESTAMP:
            instead = "use EXTRACT or DATE_DIFF to get a number"
            raise KindMismatch(
                f"a number, text or boolean where {described(operand)} stands; "
                f"{'compare it instead' if target == 'BOOLEAN' else instead}"
            )
        case "BOOLEAN", Kind.NUMBER | Kind.INTEGER:
            return Value(sql=f"({sql} <> 0e0)", kind=Kind.BOOLEAN)
        case "BOOLEAN", _:
            return Value(sql=f"CAST({sql} AS BOOLEAN)", kind=Kind.BOOLEAN)
        case _, Kind.TEXT:
            found = number(held(of_text(sql, Kind.NUMBER)), range=EVERYTHING)
        case _, None:
            found = number("CAST(NULL AS DOUBLE)", range=EMPTY)
        case _:
            found = numeric(operand)
    if target == "DOUBLE":
        return replace(found, kind=Kind.NUMBER)
    # What the type can not hold becomes NULL; a tie goes to the even number.
    limit, near = _INTEGER_RANGES[target], ranges.whole(found.range)
    return number(
        f"CAST(TRY_CAST({found.sql} AS {target}) AS DOUBLE)",
        range=Range(max(limit.lower, near.lower), min(limit.upper, near.upper)),
        integer=True,
    )


# ---- text --------------------------------------------------------------------------------------

LONGEST_JOINED = 10_000
"""How many characters of a text that may have grown are kept."""


def _first(sql: str) -> str:
    return f"left({sql}, {LONGEST_JOINED})"


def _shortened(operands: tuple[Value, ...]) -> list[Value]:
    """Texts of which all but literals are cut."""
    return [
        value if isinstance(value.node, Literal) else replace(value, sql=_first(value.sql))
        for value in _texts(operands)
    ]


def _and_constants(operands: tuple[Value, ...]) -> list[Value]:
    """A text and what the reader has found to be literals, whole numbers as integers."""
    text, *constants = operands
    return [of_kind(text, Kind.TEXT), *map(_constant, constants)]


def _constant(value: Value) -> Value:
    whole = value.node.value if isinstance(value.node, Literal) else None
    return replace(value, sql=str(whole)) if type(whole) is int else value


_edited = form("{function}({all})", of=_and_constants, gives=Kind.TEXT)
_grown = form(
    _first(f"{{function}}({_first('{0}')}, {{others}})"), of=_and_constants, gives=Kind.TEXT
)
_joined = form(_first("{function}({all})"), of=_shortened, gives=Kind.TEXT, nullable=False)

LOGIC: dict[str, Rule] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), form("({0} {name} {1})", of=_alike)),
    **dict.fromkeys(
        ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        form("({0} {name} {1})", of=_alike, nullable=False),
    ),
    "BETWEEN": form("({0} BETWEEN {1} AND {2})", of=_alike, nullable=True),
    "IN": form("({0} IN ({others}))", of=_alike, nullable=True),
    "IS NULL": form("({0} IS NULL)", of=list, nullable=False),
    **dict.fromkeys(("AND", "OR"), form("({joined})", of=_truths)),
    "NOT": form("(NOT {0})", of=_truths),
    **dict.fromkeys(("LIKE", "ILIKE"), form("({0} {name} {1})", of=_texts)),
    **dict.fromkeys(("STARTS_WITH", "ENDS_WITH", "CONTAINS"), form("{function}({all})", of=_texts)),
    "CASE": _case,
    "SWITCH": _switch,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    **dict.fromkeys(("LEAST", "GREATEST"), _extreme),
    "TRY_CAST": _cast,
    **dict.fromkeys(("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM"), _edited),
    **dict.fromkeys(("LEFT", "RIGHT", "SUBSTRING", "SPLIT_PART"), _edited),
    **dict.fromkeys(("REPLACE", "LPAD", "RPAD"), _grown),
    "||": form(_first("{joined}"), of=_shortened, gives=Kind.TEXT),
    **dict.fromkeys(("CONCAT", "CONCAT_WS"), _joined),  # these pass over NULLs
    **dict.fromkeys(
        ("LENGTH", "STRPOS"),
        form(
            "CAST({function}({all}) AS DOUBLE)",
            of=_texts,
            gives=Kind.INTEGER,
            range=Range(0.0, 2.0**32),
        ),
    ),
}
"""Conditions, choices, conversions and functions of text, by the operation."""
