"""Conditions, choices, conversions between kinds, and functions of text.

Positions count code points. An operation that could make a text longer keeps its first 10,000
characters, of what goes in and of what comes out: nested ones would otherwise exhaust memory.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

from unacorda.query.expressions import ranges
from unacorda.query.expressions.conversions import (
    boolean_of_text,
    date_of_text,
    instant_of_text,
    let_pair,
    number_of_text,
)
from unacorda.query.expressions.quoting import double
from unacorda.query.expressions.ranges import EMPTY, EVERYTHING, Range
from unacorda.query.expressions.tree import Literal, Node, Operation, text_of
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import (
    PLAIN,
    KindMismatch,
    Size,
    Value,
    as_kind,
    common_kind,
    described,
    number,
    numeric,
    of_kind,
)

__all__ = ["CHOICES", "CONVERSIONS", "LONGEST_JOINED", "PREDICATES", "TEXTS"]


def _truth(sql: str, node: Node, *, nullable: bool = True) -> Value:
    return Value(sql=sql, kind=Kind.BOOLEAN, range=EVERYTHING, node=node, nullable=nullable)


def _comparable(operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """Operands of one kind. Bare NULLs alone are compared as truth values."""
    kind = common_kind(operands) or Kind.BOOLEAN
    return tuple(as_kind(operand, kind) for operand in operands)


def _compare(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = _comparable(operands)
    return _truth(f"({a.sql} {node.name} {b.sql})", node, nullable=a.nullable or b.nullable)


def _distinct(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = _comparable(operands)
    return _truth(f"({a.sql} {node.name} {b.sql})", node, nullable=False)


def _between(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, low, high = _comparable(operands)
    return _truth(f"({a.sql} BETWEEN {low.sql} AND {high.sql})", node)


def _in(node: Operation, operands: tuple[Value, ...]) -> Value:
    first, *choices = _comparable(operands)
    return _truth(f"({first.sql} IN ({', '.join(choice.sql for choice in choices)}))", node)


def _is_null(node: Operation, operands: tuple[Value, ...]) -> Value:
    (operand,) = operands
    return _truth(f"({operand.sql} IS NULL)", node, nullable=False)


def _logic(node: Operation, operands: tuple[Value, ...]) -> Value:
    values = [of_kind(operand, Kind.BOOLEAN) for operand in operands]
    sql = f"({f' {node.name} '.join(value.sql for value in values)})"
    return _truth(sql, node, nullable=any(value.nullable for value in values))


def _not(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand = of_kind(operands[0], Kind.BOOLEAN)
    return _truth(f"(NOT {operand.sql})", node, nullable=operand.nullable)


def _like(node: Operation, operands: tuple[Value, ...]) -> Value:
    operand, pattern = (of_kind(value, Kind.TEXT) for value in operands)
    return _truth(f"({operand.sql} {node.name} {pattern.sql})", node, nullable=operand.nullable)


def _text_test(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = (of_kind(value, Kind.TEXT) for value in operands)
    sql = f"{node.name.lower()}({a.sql}, {b.sql})"
    return _truth(sql, node, nullable=a.nullable or b.nullable)


PREDICATES: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _compare),
    "IS DISTINCT FROM": _distinct,
    "IS NOT DISTINCT FROM": _distinct,
    "BETWEEN": _between,
    "IN": _in,
    "IS NULL": _is_null,
    "AND": _logic,
    "OR": _logic,
    "NOT": _not,
    "LIKE": _like,
    "ILIKE": _like,
    "STARTS_WITH": _text_test,
    "ENDS_WITH": _text_test,
    "CONTAINS": _text_test,
}


_LONGEST_SWITCH = 120
_LONGEST_CUT = 80
"""What is cut is computed again for every row that stays."""


def _united(operands: tuple[Value, ...]) -> tuple[Value, ...]:
    kind = common_kind(operands)
    if kind is None:
        return operands
    return tuple(as_kind(operand, kind) for operand in operands)


def _one_of(sql: str, node: Node, values: tuple[Value, ...], *, nullable: bool) -> Value:
    sizes = [value.size for value in values if not value.range.empty] or [PLAIN]
    return Value(
        sql=sql,
        kind=values[0].kind,
        range=ranges.hull(*(value.range for value in values)),
        node=node,
        size=functools.reduce(Size.hull, sizes),
        nullable=nullable,
    )


def _case(node: Operation, operands: tuple[Value, ...]) -> Value:
    *pairs, default = operands
    conditions = [of_kind(condition, Kind.BOOLEAN) for condition in pairs[::2]]
    results = _united((*pairs[1::2], default))
    return _arms("CASE", [c.sql for c in conditions], node, results)


def _switch(node: Operation, operands: tuple[Value, ...]) -> Value:
    first, *pairs, default = operands
    subject, *matches = _united((first, *pairs[::2]))
    if len(subject.sql) > _LONGEST_SWITCH:  # DuckDB repeats it in every arm
        raise KindMismatch(
            f"a shorter operand than {described(first)} behind CASE; write CASE WHEN, or derive "
            "the operand as a column first"
        )
    results = _united((*pairs[1::2], default))
    return _arms(f"CASE {subject.sql}", [match.sql for match in matches], node, results)


def _arms(head: str, conditions: list[str], node: Operation, results: tuple[Value, ...]) -> Value:
    arms = " ".join(
        f"WHEN {condition} THEN {result.sql}"
        for condition, result in zip(conditions, results, strict=False)
    )
    sql = f"({head} {arms} ELSE {results[-1].sql} END)"
    return _one_of(sql, node, results, nullable=any(result.nullable for result in results))


def _coalesce(node: Operation, operands: tuple[Value, ...]) -> Value:
    values = _united(operands)
    # What stands behind an operand that is never NULL is never reached.
    reached: list[Value] = []
    for value in values:
        reached.append(value)
        if not value.nullable:
            break
    sql = f"coalesce({', '.join(value.sql for value in reached)})"
    return _one_of(sql, node, tuple(reached), nullable=reached[-1].nullable)


def _nullif(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = _united(operands)
    sql = let_pair(a.sql, b.sql, lambda x, y: f"(CASE WHEN {x} = {y} THEN NULL ELSE {x} END)")
    return replace(a, sql=sql, node=node, nullable=True)


def _extreme(node: Operation, operands: tuple[Value, ...]) -> Value:
    """LEAST or GREATEST; NULLs are passed over, as in DuckDB, so NULL only where all are NULL."""
    values = _united(operands)
    certain = [value.range for value in values if not value.nullable]
    sql = _cut(node.name, values) or f"{node.name.lower()}({', '.join(v.sql for v in values)})"
    found = _one_of(sql, node, values, nullable=not certain)
    if node.name == "LEAST" and _cuts(values):
        found = replace(found, below=(values[0].sql, values[1].range.upper))
    least, most = found.range.lower, found.range.upper
    if node.name == "LEAST":
        most = min(most, *(one.upper for one in certain), math.inf)
    else:
        least = max(least, *(one.lower for one in certain), -math.inf)
    return replace(found, range=Range(least, most))


def _cut(name: str, values: tuple[Value, ...]) -> str | None:
    """GREATEST(LEAST(x, high), low) as DuckDB computes it in a sixth of the time; None for others.

    Most rows take the first arm. NULL and what is beyond `high` take the last.
    """
    if name != "GREATEST" or not _cuts(values) or values[0].below is None:
        return None
    x, most = values[0].below
    least = values[1].range.lower
    if len(x) > _LONGEST_CUT or least > most:
        return None
    low, high = double(least), double(most)
    return (
        f"(CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} WHEN {x} < {low} THEN {low} "
        f"ELSE {high} END)"
    )


def _cuts(values: tuple[Value, ...]) -> bool:
    """Whether these are a number and a literal one."""
    return (
        len(values) == 2
        and isinstance(values[1].node, Literal)
        and all(value.kind is not None and value.kind.numeric for value in values)
    )


CHOICES: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    "CASE": _case,
    "SWITCH": _switch,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "LEAST": _extreme,
    "GREATEST": _extreme,
}


_INTEGER_RANGES = {
    "TINYINT": Range(-(2.0**7), 2.0**7 - 1),
    "SMALLINT": Range(-(2.0**15), 2.0**15 - 1),
    "INTEGER": Range(-(2.0**31), 2.0**31 - 1),
    "BIGINT": Range(-(2.0**63), 2.0**63),
}


def _cast(node: Operation, operands: tuple[Value, ...]) -> Value:
    (operand,) = operands
    target = str(node.option)
    match target:
        case "VARCHAR":
            return _to_text(node, operand)
        case "BOOLEAN":
            return _to_boolean(node, operand)
        case "DATE" | "TIMESTAMP":
            return _to_moment(node, operand, Kind[target])
        case _:
            return _to_number(node, operand, target)


def _to_number(node: Operation, operand: Value, target: str) -> Value:
    if operand.kind in (Kind.DATE, Kind.TIMESTAMP):
        raise KindMismatch(
            f"a number, text or boolean where {described(operand)} stands; "
            "use EXTRACT or DATE_DIFF to get a number"
        )
    if operand.kind == Kind.TEXT:
        found = number(number_of_text(operand.sql), node=node, range=EVERYTHING)
    elif operand.kind is None:
        found = number("CAST(NULL AS DOUBLE)", node=node, range=EMPTY)
    else:
        found = numeric(operand)
    if target == "DOUBLE":
        return replace(found, kind=Kind.NUMBER, node=node)
    # What the type can not hold becomes NULL; a tie goes to the even number.
    limit, near = _INTEGER_RANGES[target], ranges.whole(found.range)
    return number(
        f"CAST(TRY_CAST({found.sql} AS {target}) AS DOUBLE)",
        node=node,
        range=Range(max(limit.lower, near.lower), min(limit.upper, near.upper)),
        integer=True,
    )


def _to_text(node: Operation, operand: Value) -> Value:
    if operand.kind == Kind.NUMBER:
        raise KindMismatch(
            f"a whole number, date, boolean or text where {described(operand)} stands, which has "
            f"no one text; write CAST(ROUND({text_of(operand.node)[:60]}) AS VARCHAR)"
        )
    sql = operand.sql
    if operand.kind == Kind.INTEGER:
        # 5 rather than 5.0; NULL from 2^63 on.
        sql = f"TRY_CAST({sql} AS BIGINT)"
    nullable = operand.nullable or operand.kind == Kind.INTEGER
    text = f"CAST({sql} AS VARCHAR)"
    return Value(sql=text, kind=Kind.TEXT, range=EVERYTHING, node=node, nullable=nullable)


def _to_boolean(node: Operation, operand: Value) -> Value:
    match operand.kind:
        case Kind.DATE | Kind.TIMESTAMP:
            raise KindMismatch(
                f"a number, text or boolean where {described(operand)} stands; compare it instead"
            )
        case Kind.NUMBER | Kind.INTEGER:
            return _truth(f"({operand.sql} <> 0e0)", node)
        case Kind.TEXT:
            return _truth(boolean_of_text(operand.sql), node)
        case _:
            return _truth(f"CAST({operand.sql} AS BOOLEAN)", node)


def _to_moment(node: Operation, operand: Value, kind: Kind) -> Value:
    if operand.kind not in (Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, None):
        raise KindMismatch(f"a text or date where {described(operand)} stands")
    if operand.kind == Kind.TEXT:
        sql = (date_of_text if kind == Kind.DATE else instant_of_text)(operand.sql)
    else:
        sql = f"CAST({operand.sql} AS {kind.name})"
    return Value(sql=sql, kind=kind, range=EVERYTHING, node=node)


CONVERSIONS: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {"TRY_CAST": _cast}


LONGEST_JOINED = 10_000
"""How many characters of a text that may have grown are kept."""

_LONGEST_TEXT = 2.0**32


def _text(sql: str, node: Node, *, nullable: bool) -> Value:
    return Value(sql=sql, kind=Kind.TEXT, range=EVERYTHING, node=node, nullable=nullable)


def _first(sql: str) -> str:
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
    parts = ", ".join([_first(operand.sql), *map(_constant, rest)])
    return _text(_first(f"{node.name.lower()}({parts})"), node, nullable=operand.nullable)


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
    parts = [
        value.sql if isinstance(value.node, Literal) else _first(value.sql) for value in values
    ]
    listed = f"{node.name.lower()}({', '.join(parts)})"
    joined = " || ".join(parts) if node.name == "||" else listed
    nullable = node.name == "||" and any(value.nullable for value in values)
    return _text(_first(joined), node, nullable=nullable)


TEXTS: dict[str, Callable[[Operation, tuple[Value, ...]], Value]] = {
    **dict.fromkeys(("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM"), _simple),
    **dict.fromkeys(("LEFT", "RIGHT", "SUBSTRING", "SPLIT_PART"), _simple),
    **dict.fromkeys(("REPLACE", "LPAD", "RPAD"), _growing),
    **dict.fromkeys(("||", "CONCAT", "CONCAT_WS"), _join),
    "LENGTH": _length,
    "STRPOS": _position,
}
