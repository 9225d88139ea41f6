"""A part of an expression with its kind, its range and the sizes that its numbers have.

Every number that a column gives is 0 or of a size from SMALLEST to LARGEST. What is computed of it
may leave these ends, but never those of the doubles: an operation that could take it there sees its
operands held to the former first.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from unacorda.query.expressions.conversions import held, rounded, stepped
from unacorda.query.expressions.quoting import double, literal
from unacorda.query.expressions.ranges import EMPTY, EVERYTHING, Range
from unacorda.query.expressions.tree import Literal, Node, text_of
from unacorda.query.expressions.types import LARGEST, SMALLEST, Kind, literal_moment

__all__ = [
    "PLAIN",
    "KindMismatch",
    "Size",
    "Value",
    "as_kind",
    "constant",
    "described",
    "kept",
    "number",
    "numeric",
    "of_kind",
    "of_one_kind",
]


class KindMismatch(Exception):
    """Parts of different kinds meet; `parse` turns it into InvalidParameter."""


_STEPS = 2.0**-52
"""Of the power of 2 below a number, of which it is a multiple."""


@dataclass(frozen=True, slots=True)
class Size:
    """Between which sizes numbers are that are not 0; all are multiples of step, a power of 2.

    A sum is a multiple of what its parts are multiples of, however small it is, and rounding it
    leaves it one.
    """

    least: float
    most: float
    step: float = 0.0

    def __post_init__(self) -> None:
        if self.step == 0.0:
            known = math.ldexp(1.0, math.frexp(self.least)[1] - 1) * _STEPS
            object.__setattr__(self, "step", known)

    def within(self, other: Size) -> bool:
        """Whether all of these are sizes of the other."""
        return other.least <= self.least and self.most <= other.most

    def hull(self, other: Size) -> Size:
        """The sizes of both."""
        return Size(
            min(self.least, other.least), max(self.most, other.most), min(self.step, other.step)
        )


PLAIN = Size(SMALLEST, LARGEST)
"""What columns have, and what is held to that."""
FINISHED = Size(2.0**-664, 1e200)
"""What expressions have that have been finished."""


_NULL = Literal(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A part of an expression whose columns are known.

    sql: DuckDB text that binds as tightly as an atom; kind: None for a bare NULL; range, size: for
    numbers; node: what it was read from, which `parse` notes; nullable: whether it may be NULL;
    below: of LEAST(x, literal) the SQL of x, and the literal; else nothing.
    """

    sql: str
    kind: Kind | None
    range: Range = EVERYTHING
    node: Node = _NULL
    size: Size = PLAIN
    nullable: bool = True
    below: tuple[str, float] | None = None


def number(
    sql: str,
    *,
    range: Range,
    size: Size = PLAIN,
    integer: bool = False,
    nullable: bool = True,
) -> Value:
    """A value of kind NUMBER or INTEGER; its size is what this, its range and its kind allow."""
    if not range.empty:
        most = max(abs(range.lower), abs(range.upper))
        least = max(range.lower, -range.upper, 1.0 if integer else 0.0, size.least)
        step = max(size.step, 1.0) if integer else size.step
        size = Size(least, min(size.most, most), step)
    kind = Kind.INTEGER if integer else Kind.NUMBER
    return Value(sql=sql, kind=kind, range=range, size=size, nullable=nullable)


def kept(value: Value, to: Size = PLAIN) -> Value:
    """A number whose size is between two: held there where it may leave them."""
    if value.size.within(to) or value.kind is None or not value.kind.numeric:
        return value
    ends, most = (value.range.lower, value.range.upper), value.size.most
    if most <= to.most:
        lower, upper = (end if math.isinf(end) else rounded(end, to.least) for end in ends)
        sql, size = stepped(value.sql, to.least), Size(to.least, most, to.least)
        return replace(value, sql=sql, range=Range(lower, upper), size=size)
    lower, upper = (end if math.isinf(end) else min(max(end, -to.most), to.most) for end in ends)
    lower = 0.0 if 0 < lower < to.least else lower
    upper = 0.0 if -to.least < upper < 0 else upper
    least = min(max(value.size.least, to.least), to.most)
    step = max(min(value.size.step, Size(to.most, to.most).step), to.step)
    return replace(
        value,
        sql=held(value.sql, least=to.least, most=to.most),
        range=Range(lower, upper),
        size=Size(least, to.most, step),
    )


def constant(node: Literal) -> Value:
    """The value of a literal."""
    value = node.value
    match value:
        case None:
            return Value(sql="NULL", kind=None, range=EMPTY)
        case int() | float() if not isinstance(value, bool):
            exact, size = float(value), Size(abs(value) or 1.0, abs(float(value)))
            found = number(
                double(exact),
                range=Range(exact, exact),
                size=size,
                integer=isinstance(value, int),
                nullable=False,
            )
            return replace(found, node=node)
        case _:
            return Value(sql=literal(value), kind=Kind.of(value), node=node, nullable=False)


def of_one_kind(values: tuple[Value, ...], *, otherwise: Kind | None = None) -> tuple[Value, ...]:
    """The values in the kind that can hold all: numbers with integers, instants with dates.

    A text literal among dates or instants counts as one of them. otherwise: the kind that they
    take where all are NULL. Raises KindMismatch where there is no such kind.
    """
    kind = _common_kind(values) or otherwise
    return values if kind is None else tuple(as_kind(value, kind) for value in values)


def _common_kind(values: tuple[Value, ...]) -> Kind | None:
    kinds = {value.kind for value in values if value.kind is not None}
    if moments := kinds & {Kind.DATE, Kind.TIMESTAMP}:
        kinds = {v.kind for v in values if v.kind is not None and not _text_literal(v)} | moments
    if len(kinds) <= 1:
        return next(iter(kinds), None)
    for wider, narrower in ((Kind.NUMBER, Kind.INTEGER), (Kind.TIMESTAMP, Kind.DATE)):
        if kinds == {wider, narrower}:
            return wider
    first, *others = (v for v in values if v.kind is not None)
    alike = ({first.kind}, {Kind.INTEGER, Kind.NUMBER})
    other = next(v for v in others if {first.kind, v.kind} not in alike)
    text = first if first.kind == Kind.TEXT else other
    met = (first.kind, other.kind)
    target = next((kind for kind in (Kind.TIMESTAMP, Kind.DATE) if kind in met), Kind.NUMBER)
    raise KindMismatch(
        f"parts of one kind: {described(first)} meets {described(other).removesuffix(',')}; "
        f"write TRY_CAST({text_of(text.node)[:60]} AS {target.sql_type})"
    )


def as_kind(value: Value, kind: Kind) -> Value:
    """The value as another kind; raises KindMismatch where it can not be one."""
    if value.kind == kind:
        return value
    if value.kind is None:
        return replace(value, sql=f"CAST(NULL AS {kind.sql_type})", kind=kind)
    if value.kind == Kind.INTEGER and kind == Kind.NUMBER:
        return replace(value, kind=kind)
    if value.kind == Kind.DATE and kind == Kind.TIMESTAMP:
        return replace(value, sql=f"CAST({value.sql} AS TIMESTAMP)", kind=kind)
    if kind in (Kind.DATE, Kind.TIMESTAMP) and isinstance(value.node, Literal):
        moment = literal_moment(str(value.node.value), date=kind == Kind.DATE)
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
        sql = f"CAST({value.sql} AS DOUBLE)"
        truth = number(sql, range=Range(0.0, 1.0), integer=True, nullable=value.nullable)
        return replace(truth, node=value.node)
    return of_kind(value, Kind.INTEGER, Kind.NUMBER)


def described(value: Value) -> str:
    """The part as the caller wrote it, with its kind, for messages."""
    text = text_of(value.node)
    text = text if len(text) <= 60 else text[:59] + "…"
    return f"{text}, which is {value.kind.value if value.kind else 'NULL'},"


def _text_literal(value: Value) -> bool:
    return isinstance(value.node, Literal) and isinstance(value.node.value, str)


def _any_of(kinds: tuple[Kind, ...]) -> str:
    return " or ".join(f"{'an' if kind == Kind.INTEGER else 'a'} {kind.value}" for kind in kinds)


def _cast(value: Value, kind: Kind) -> str:
    if value.kind in (Kind.DATE, Kind.TIMESTAMP) and kind.numeric:
        return "use EXTRACT or DATE_DIFF to get a number, and x + INTERVAL 7 DAY to move a date"
    whole = kind == Kind.INTEGER and value.kind != Kind.TEXT
    name = "INTEGER" if whole else kind.sql_type
    return f"write TRY_CAST({text_of(value.node)[:60]} AS {name})"
