"""Operations that pass one of their operands on: CASE, COALESCE, NULLIF, LEAST, GREATEST."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from unacorda.query.expressions import ranges
from unacorda.query.expressions.ranges import Range
from unacorda.query.expressions.tree import Literal, Node, Operation
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import (
    KindMismatch,
    Value,
    as_kind,
    bound_pair,
    common_kind,
    described,
    double,
    of_kind,
    settled,
)

__all__ = ["CHOICES"]

_LONGEST_SWITCH = 120
_LONGEST_CUT = 80
"""What is cut is computed again for every row that stays."""


def _united(operands: tuple[Value, ...]) -> tuple[Value, ...]:
    kind = common_kind(operands)
    if kind is None:
        return operands
    return tuple(as_kind(operand, kind) for operand in operands)


def _one_of(sql: str, node: Node, values: tuple[Value, ...], *, nullable: bool) -> Value:
    return Value(
        sql=sql,
        kind=values[0].kind,
        range=ranges.hull(*(value.range for value in values)),
        node=node,
        nullable=nullable,
        nan=any(value.nan for value in values),
    )


def _case(node: Operation, operands: tuple[Value, ...]) -> Value:
    *pairs, default = operands
    conditions = [of_kind(condition, Kind.BOOLEAN) for condition in pairs[::2]]
    results = _united((*pairs[1::2], default))
    return _arms("CASE", [c.sql for c in conditions], node, results)


def _switch(node: Operation, operands: tuple[Value, ...]) -> Value:
    first, *pairs, default = operands
    subject, *matches = (settled(value) for value in _united((first, *pairs[::2])))
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
    values = tuple(settled(value) for value in _united(operands))
    # What stands behind an operand that is never NULL is never reached.
    reached: list[Value] = []
    for value in values:
        reached.append(value)
        if not value.nullable:
            break
    sql = f"coalesce({', '.join(value.sql for value in reached)})"
    return _one_of(sql, node, tuple(reached), nullable=reached[-1].nullable)


def _nullif(node: Operation, operands: tuple[Value, ...]) -> Value:
    a, b = (settled(value) for value in _united(operands))
    sql = bound_pair(a.sql, b.sql, lambda x, y: f"(CASE WHEN {x} = {y} THEN NULL ELSE {x} END)")
    return replace(a, sql=sql, node=node, nullable=True)


def _extreme(node: Operation, operands: tuple[Value, ...]) -> Value:
    """LEAST or GREATEST; NULLs are passed over, as in DuckDB, so NULL only where all are NULL."""
    values = tuple(settled(value) for value in _united(operands))
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
