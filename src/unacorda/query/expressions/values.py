"""A part of an expression with its kind and range, and the guards that keep its SQL total.

Two facts carry the design. A number may be NaN inside arithmetic, where NaN spreads as NULL does;
it becomes NULL (`settled`) before anything that would tell it from NULL: a comparison, a function
other than arithmetic, the end. And a guard needs its operand twice, so a long operand is bound to
a name in a one-element list; otherwise nested guards would double the SQL at each level.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace

from unacorda.query.expressions import literals
from unacorda.query.expressions.ranges import EMPTY, EVERYTHING, Range
from unacorda.query.expressions.tree import Literal, Node, text_of
from unacorda.query.expressions.types import Kind

__all__ = [
    "KindMismatch",
    "Value",
    "as_kind",
    "bound",
    "bound_pair",
    "common_kind",
    "constant",
    "described",
    "double",
    "number",
    "numeric",
    "of_kind",
    "quoted",
    "settled",
]

_SHORT = 120
_BOUND = "unacorda_bound_value"

_TYPES = {
    Kind.NUMBER: "DOUBLE",
    Kind.INTEGER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}


class KindMismatch(Exception):
    """Parts of different kinds meet; `parse` turns it into InvalidParameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A part of an expression whose columns are known.

    sql: DuckDB text that binds as tightly as an atom; kind: None for a bare NULL; range: for
    numbers; node: what it was read from; nullable: whether it may be NULL; nan: whether it may
    be NaN; below: of LEAST(x, literal) the SQL of x, and the literal; else nothing.
    """

    sql: str
    kind: Kind | None
    range: Range
    node: Node
    nullable: bool = True
    nan: bool = False
    below: tuple[str, float] | None = None


def number(
    sql: str,
    *,
    node: Node,
    range: Range,
    integer: bool = False,
    nullable: bool = True,
    nan: bool = False,
) -> Value:
    """A value of kind NUMBER or INTEGER."""
    kind = Kind.INTEGER if integer else Kind.NUMBER
    return Value(sql=sql, kind=kind, range=range, node=node, nullable=nullable, nan=nan)


def constant(node: Literal) -> Value:
    """The value of a literal."""
    value = node.value
    match value:
        case None:
            return Value(sql="NULL", kind=None, range=EMPTY, node=node)
        case bool():
            return _plain("TRUE" if value else "FALSE", Kind.BOOLEAN, node)
        case int() | float():
            exact = Range(float(value), float(value))
            sql = double(float(value))
            return number(
                sql, node=node, range=exact, integer=isinstance(value, int), nullable=False
            )
        case str():
            return _plain(quoted(value, "'"), Kind.TEXT, node)
        case dt.datetime():
            return _plain(f"TIMESTAMP '{value.isoformat(sep=' ')}'", Kind.TIMESTAMP, node)
        case dt.date():
            return _plain(f"DATE '{value.isoformat()}'", Kind.DATE, node)


def _plain(sql: str, kind: Kind, node: Node) -> Value:
    return Value(sql=sql, kind=kind, range=EVERYTHING, node=node, nullable=False)


def double(value: float) -> str:
    """A finite double in SQL; the exponent keeps DuckDB from reading a DECIMAL.

    >>> double(0.1), double(-5.0), double(1e300)
    ('0.1e0', '(-5.0e0)', '1e+300')
    """
    text = repr(value)
    text = text if "e" in text else text + "e0"
    return f"({text})" if value < 0 else text


def quoted(text: str, mark: str) -> str:
    """Text in quotes of a kind, each such mark in it doubled.

    >>> print(quoted('a"b', '"'), quoted("it's", "'"))
    "a""b" 'it''s'
    """
    return mark + text.replace(mark, mark * 2) + mark


def bound(sql: str, body: Callable[[str], str]) -> str:
    """SQL that uses an operand several times: as it stands where short, by a name where long."""
    if len(sql) <= _SHORT:
        return body(sql)
    return f"list_transform([{sql}], lambda {_BOUND}: {body(_BOUND)})[1]"


def bound_pair(first: str, second: str, body: Callable[[str, str], str]) -> str:
    """As `bound`, for two operands."""
    if len(first) + len(second) <= _SHORT:
        return body(first, second)
    fields = (f"struct_extract({_BOUND}, '{name}')" for name in ("first", "second"))
    pair = f"[struct_pack(first := {first}, second := {second})]"
    return f"list_transform({pair}, lambda {_BOUND}: {body(*fields)})[1]"


def settled(value: Value) -> Value:
    """The same value with NaN made NULL."""
    if not value.nan:
        return value
    sql = bound(value.sql, lambda x: f"(CASE WHEN isnan({x}) THEN NULL ELSE {x} END)")
    return replace(value, sql=sql, nan=False, nullable=True)


def common_kind(values: tuple[Value, ...]) -> Kind | None:
    """The kind that can hold all of them: numbers with integers, instants with dates.

    A text literal among dates or instants counts as one of them. None where all are NULL.
    Raises KindMismatch where there is no such kind.
    """
    kinds = {value.kind for value in values if value.kind is not None}
    moments = kinds & {Kind.DATE, Kind.TIMESTAMP}
    if moments:
        kinds = {v.kind for v in values if v.kind is not None and not _text_literal(v)} | moments
    if len(kinds) <= 1:
        return next(iter(kinds), None)
    for wider, narrower in ((Kind.NUMBER, Kind.INTEGER), (Kind.TIMESTAMP, Kind.DATE)):
        if kinds == {wider, narrower}:
            return wider
    first = next(v for v in values if v.kind is not None)
    other = next(
        v for v in values if v.kind not in (None, first.kind) and not (_both_numeric(first, v))
    )
    met = described(other).removesuffix(",")
    raise KindMismatch(f"parts of one kind: {described(first)} meets {met}; {_mend(first, other)}")


def as_kind(value: Value, kind: Kind) -> Value:
    """The value as another kind that `common_kind` gave."""
    if value.kind == kind:
        return value
    if value.kind is None:
        return replace(value, sql=f"CAST(NULL AS {_TYPES[kind]})", kind=kind)
    if value.kind == Kind.INTEGER and kind == Kind.NUMBER:
        return replace(value, kind=kind)
    if value.kind == Kind.DATE and kind == Kind.TIMESTAMP:
        # The days that no instant can hold become NULL instead of raising.
        return replace(value, sql=f"TRY_CAST({value.sql} AS TIMESTAMP)", kind=kind, nullable=True)
    if kind in (Kind.DATE, Kind.TIMESTAMP) and isinstance(value.node, Literal):
        moment = literals.moment(str(value.node.value), date=kind == Kind.DATE)
        if moment is not None:
            return constant(Literal(moment))
        raise KindMismatch(
            "a date such as '2024-01-31' or a time such as '2024-01-31 12:00:00' "
            f"where {described(value)} stands"
        )
    raise KindMismatch(f"{_any_of((kind,))} where {described(value)} stands; {_cast(value, kind)}")


def of_kind(value: Value, *kinds: Kind) -> Value:
    """The value, if it is of one of the kinds or NULL, which becomes the first of them.

    Raises KindMismatch otherwise.
    """
    if value.kind in kinds:
        return value
    if value.kind is None or (value.kind == Kind.TEXT and Kind.DATE in kinds):
        return as_kind(value, kinds[0])
    wanted = "a number" if kinds == (Kind.INTEGER, Kind.NUMBER) else _any_of(kinds)
    raise KindMismatch(f"{wanted} where {described(value)} stands; {_cast(value, kinds[0])}")


def numeric(value: Value) -> Value:
    """The value, if it is a number, a truth value (true is 1, false is 0) or NULL.

    Raises KindMismatch otherwise.
    """
    if value.kind == Kind.BOOLEAN:
        return number(
            f"CAST({value.sql} AS DOUBLE)",
            node=value.node,
            range=Range(0.0, 1.0),
            integer=True,
            nullable=value.nullable,
        )
    return of_kind(value, Kind.INTEGER, Kind.NUMBER)


def described(value: Value) -> str:
    """The part as the caller wrote it, with its kind, for messages."""
    text = text_of(value.node)
    text = text if len(text) <= 60 else text[:59] + "…"
    return f"{text}, which is {value.kind.value if value.kind else 'NULL'},"


def _text_literal(value: Value) -> bool:
    return isinstance(value.node, Literal) and isinstance(value.node.value, str)


def _both_numeric(a: Value, b: Value) -> bool:
    return bool(a.kind and b.kind and a.kind.numeric and b.kind.numeric)


def _mend(first: Value, second: Value) -> str:
    text = next((v for v in (first, second) if v.kind == Kind.TEXT), second)
    target = Kind.NUMBER if first.kind and second.kind else Kind.TEXT
    if Kind.DATE in (first.kind, second.kind):
        target = Kind.DATE
    if Kind.TIMESTAMP in (first.kind, second.kind):
        target = Kind.TIMESTAMP
    return f"write TRY_CAST({text_of(text.node)[:60]} AS {_TYPES[target]})"


def _any_of(kinds: tuple[Kind, ...]) -> str:
    return " or ".join(f"{'an' if kind == Kind.INTEGER else 'a'} {kind.value}" for kind in kinds)


def _cast(value: Value, kind: Kind) -> str:
    if value.kind in (Kind.DATE, Kind.TIMESTAMP) and kind.numeric:
        return "use EXTRACT or DATE_DIFF to get a number, and x + INTERVAL 7 DAY to move a date"
    whole = kind == Kind.INTEGER and value.kind != Kind.TEXT
    name = "INTEGER" if whole else _TYPES[kind]
    return f"write TRY_CAST({text_of(value.node)[:60]} AS {name})"
