"""Conditions, choices, conversions between kinds, and functions of text.

Positions count code points. An operation that could make a text longer keeps its first 10,000
characters, of what goes in and of what comes out: nested ones would otherwise exhaust memory.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from unacorda.query.expressions import ranges
from unacorda.query.expressions.conversions import (
    boolean_of_text,
    date_of_text,
    held,
    instant_of_text,
    let_pair,
    plain_number,
)
from unacorda.query.expressions.quoting import double
from unacorda.query.expressions.ranges import EMPTY, EVERYTHING, Range
from unacorda.query.expressions.tree import Literal, Operation, text_of
from unacorda.query.expressions.types import Kind
from unacorda.query.expressions.values import (
    PLAIN,
    KindMismatch,
    Size,
    Value,
    described,
    number,
    numeric,
    of_kind,
    of_one_kind,
)

__all__ = ["LOGIC", "LONGEST_JOINED"]


# ---- conditions --------------------------------------------------------------------------------


def _truth(sql: str, *, nullable: bool = True) -> Value:
    return Value(sql=sql, kind=Kind.BOOLEAN, nullable=nullable)


def _any_nullable(values: Iterable[Value]) -> bool:
    return any(value.nullable for value in values)


def _condition(
    sql: str, *, of: Kind | None = None, nullable: bool | None = None
) -> Callable[..., Value]:
    """A condition on operands of a kind, or of any one kind that they share.

    sql: with {0} and so on for the operands, {name} for the operator; nullable: as the operands are
    by default. Bare NULLs alone are compared as truth values.
    """

    def rule(node: Operation, *operands: Value) -> Value:
        values = (
            of_one_kind(operands, otherwise=Kind.BOOLEAN)
            if of is None
            else [of_kind(one, of) for one in operands]
        )
        found = sql.format(*(value.sql for value in values), name=node.name)
        return _truth(found, nullable=_any_nullable(values) if nullable is None else nullable)

    return rule


def _in(_: Operation, *operands: Value) -> Value:
    first, *choices = of_one_kind(operands, otherwise=Kind.BOOLEAN)
    return _truth(f"({first.sql} IN ({_listed(choices)}))")


def _is_null(_: Operation, operand: Value) -> Value:
    return _truth(f"({operand.sql} IS NULL)", nullable=False)


def _connected(node: Operation, *operands: Value) -> Value:
    values = [of_kind(operand, Kind.BOOLEAN) for operand in operands]
    sql = f" {node.name} ".join(value.sql for value in values)
    return _truth(f"({sql})", nullable=_any_nullable(values))


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
    conditions = [of_kind(condition, Kind.BOOLEAN) for condition in pairs[::2]]
    return _arms("CASE", conditions, (*pairs[1::2], default))


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
    values = of_one_kind(results)
    arms = " ".join(
        f"WHEN {condition.sql} THEN {value.sql}"
        for condition, value in zip(conditions, values[:-1], strict=True)
    )
    sql = f"({head} {arms} ELSE {values[-1].sql} END)"
    return _one_of(sql, values, nullable=_any_nullable(values))


def _coalesce(_: Operation, *operands: Value) -> Value:
    values = of_one_kind(operands)
    # What stands behind an operand that is never NULL is never reached.
    certain = next((at for at, value in enumerate(values, 1) if not value.nullable), None)
    reached = values[:certain]
    sql = f"coalesce({_listed(reached)})"
    return _one_of(sql, reached, nullable=certain is None)


def _nullif(_: Operation, *operands: Value) -> Value:
    a, b = of_one_kind(operands)
    sql = let_pair(a.sql, b.sql, "(CASE WHEN {0} = {1} THEN NULL ELSE {0} END)".format)
    return replace(a, sql=sql, nullable=True)


def _extreme(node: Operation, *operands: Value) -> Value:
    """LEAST or GREATEST; NULLs are passed over, as in DuckDB, so NULL only where all are NULL."""
    values = of_one_kind(operands)
    certain = [value.range for value in values if not value.nullable]
    sql = _cut(node.name, values) or _called(node, values)
    found = _one_of(sql, values, nullable=not certain)
    least, most = found.range.lower, found.range.upper
    if node.name == "GREATEST":
        least = max(least, *(one.lower for one in certain), -math.inf)
        return replace(found, range=Range(least, most))
    most = min(most, *(one.upper for one in certain), math.inf)
    below = (values[0].sql, values[1].range.upper) if _cuts(values) else None
    return replace(found, range=Range(least, most), below=below)


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


# ---- conversions -------------------------------------------------------------------------------

_INTEGER_RANGES = {
    "TINYINT": Range(-(2.0**7), 2.0**7 - 1),
    "SMALLINT": Range(-(2.0**15), 2.0**15 - 1),
    "INTEGER": Range(-(2.0**31), 2.0**31 - 1),
    "BIGINT": Range(-(2.0**63), 2.0**63),
}


def _cast(node: Operation, operand: Value) -> Value:
    target = str(node.option)
    match target:
        case "VARCHAR":
            return _to_text(operand)
        case "BOOLEAN":
            return _to_boolean(operand)
        case "DATE" | "TIMESTAMP":
            return _to_moment(operand, Kind[target])
        case _:
            return _to_number(operand, target)


def _no_moment(value: Value, instead: str) -> None:
    """Raise KindMismatch for a date or an instant, of which there is no number and no truth."""
    if value.kind in (Kind.DATE, Kind.TIMESTAMP):
        raise KindMismatch(f"a number, text or boolean where {described(value)} stands; {instead}")


def _to_number(operand: Value, target: str) -> Value:
    _no_moment(operand, "use EXTRACT or DATE_DIFF to get a number")
    if operand.kind == Kind.TEXT:
        found = number(held(plain_number(operand.sql)), range=EVERYTHING)
    elif operand.kind is None:
        found = number("CAST(NULL AS DOUBLE)", range=EMPTY)
    else:
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


def _to_text(operand: Value) -> Value:
    sql, nullable = operand.sql, operand.nullable
    if operand.kind == Kind.NUMBER:
        raise KindMismatch(
            f"a whole number, date, boolean or text where {described(operand)} stands, which has "
            f"no one text; write CAST(ROUND({text_of(operand.node)[:60]}) AS VARCHAR)"
        )
    if operand.kind == Kind.INTEGER:  # 5 rather than 5.0; NULL from 2^63 on
        sql, nullable = f"TRY_CAST({sql} AS BIGINT)", True
    return Value(sql=f"CAST({sql} AS VARCHAR)", kind=Kind.TEXT, nullable=nullable)


def _to_boolean(operand: Value) -> Value:
    _no_moment(operand, "compare it instead")
    if operand.kind == Kind.TEXT:
        return _truth(boolean_of_text(operand.sql))
    if operand.kind in (Kind.NUMBER, Kind.INTEGER):
        return _truth(f"({operand.sql} <> 0e0)")
    return _truth(f"CAST({operand.sql} AS BOOLEAN)")


def _to_moment(operand: Value, kind: Kind) -> Value:
    if operand.kind not in (Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, None):
        raise KindMismatch(f"a text or date where {described(operand)} stands")
    if operand.kind == Kind.TEXT:
        sql = (date_of_text if kind == Kind.DATE else instant_of_text)(operand.sql)
    else:
        sql = f"CAST({operand.sql} AS {kind.name})"
    return Value(sql=sql, kind=kind)


# ---- text --------------------------------------------------------------------------------------

LONGEST_JOINED = 10_000
"""How many characters of a text that may have grown are kept."""

_LONGEST_TEXT = 2.0**32


def _texts(operands: Iterable[Value]) -> list[Value]:
    return [of_kind(operand, Kind.TEXT) for operand in operands]


def _listed(values: Iterable[Value]) -> str:
    return ", ".join(value.sql for value in values)


def _called(node: Operation, values: Iterable[Value]) -> str:
    return f"{node.name.lower()}({_listed(values)})"


def _first(sql: str) -> str:
    return f"left({sql}, {LONGEST_JOINED})"


def _constant(value: Value) -> str:
    """SQL of an operand that the reader has found to be a literal: whole numbers as integers."""
    whole = value.node.value if isinstance(value.node, Literal) else None
    return str(whole) if type(whole) is int else value.sql


def _edited(node: Operation, text: Value, *constants: Value) -> Value:
    """A function of one text and constants, which is NULL where the text is, and only there."""
    value, grows = of_kind(text, Kind.TEXT), node.name in ("REPLACE", "LPAD", "RPAD")
    parts = [_first(value.sql) if grows else value.sql, *map(_constant, constants)]
    sql = f"{node.name.lower()}({', '.join(parts)})"
    return Value(sql=_first(sql) if grows else sql, kind=Kind.TEXT, nullable=value.nullable)


def _counted(node: Operation, *operands: Value) -> Value:
    """A number of characters of a text."""
    values = _texts(operands)
    return number(
        f"CAST({_called(node, values)} AS DOUBLE)",
        range=Range(0.0, _LONGEST_TEXT),
        integer=True,
        nullable=_any_nullable(values),
    )


def _join(node: Operation, *operands: Value) -> Value:
    """|| gives NULL where an operand is NULL; CONCAT and CONCAT_WS pass over NULLs."""
    values = _texts(operands)
    parts = [
        value.sql if isinstance(value.node, Literal) else _first(value.sql) for value in values
    ]
    if node.name == "||":
        sql, nullable = " || ".join(parts), _any_nullable(values)
    else:
        sql, nullable = f"{node.name.lower()}({', '.join(parts)})", False
    return Value(sql=_first(sql), kind=Kind.TEXT, nullable=nullable)


LOGIC: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _condition("({0} {name} {1})")),
    **dict.fromkeys(
        ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        _condition("({0} {name} {1})", nullable=False),
    ),
    "BETWEEN": _condition("({0} BETWEEN {1} AND {2})", nullable=True),
    "IN": _in,
    "IS NULL": _is_null,
    **dict.fromkeys(("AND", "OR"), _connected),
    "NOT": _condition("(NOT {0})", of=Kind.BOOLEAN),
    **dict.fromkeys(("LIKE", "ILIKE"), _condition("({0} {name} {1})", of=Kind.TEXT)),
    "STARTS_WITH": _condition("starts_with({0}, {1})", of=Kind.TEXT),
    "ENDS_WITH": _condition("ends_with({0}, {1})", of=Kind.TEXT),
    "CONTAINS": _condition("contains({0}, {1})", of=Kind.TEXT),
    "CASE": _case,
    "SWITCH": _switch,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    **dict.fromkeys(("LEAST", "GREATEST"), _extreme),
    "TRY_CAST": _cast,
    **dict.fromkeys(("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM"), _edited),
    **dict.fromkeys(("LEFT", "RIGHT", "SUBSTRING", "SPLIT_PART"), _edited),
    **dict.fromkeys(("REPLACE", "LPAD", "RPAD"), _edited),
    **dict.fromkeys(("||", "CONCAT", "CONCAT_WS"), _join),
    **dict.fromkeys(("LENGTH", "STRPOS"), _counted),
}
"""Conditions, choices, conversions and functions of text, by the operation."""
