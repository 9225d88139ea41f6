"""A part of an expression: its SQL, its kind, its range and the sizes that its numbers have.

A number that is read is 0 or of a size from SMALLEST to LARGEST: what is smaller is 0, what is
larger is that end, and NaN is NULL. What is computed of it may leave these ends, but never those of
the doubles: an operation that could take it there sees its operands held to the former first. So
nothing overflows or vanishes, which some engines call an error. A date or an instant lies in the
years 1 to 9999; any other is NULL. A text is a number, a date, an instant or a truth value where it
is written as here, and NULL elsewhere. All of it is SQL that raises on no row, and that engines
compute alike.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from unacorda.query.expressions.language import (
    Kind,
    Literal,
    Node,
    Operation,
    double,
    literal,
    literal_moment,
    quoted,
    text_of,
)
from unacorda.query.expressions.ranges import (
    EMPTY,
    EVERYTHING,
    LARGEST,
    PLAIN,
    SMALLEST,
    Range,
    Size,
)


class KindMismatch(Exception):
    """Parts of different kinds meet; `parse` turns it into InvalidParameter."""


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


Rule = Callable[..., Value]
"""What an operation means: of its node and the values of its operands."""


def number(
    sql: str, *, range: Range, size: Size = PLAIN, integer: bool = False, nullable: bool = True
) -> Value:
    """A value of kind NUMBER or INTEGER; its size is what this, its range and its kind allow."""
    if not range.empty:
        most = max(abs(range.lower), abs(range.upper))
        least = max(range.lower, -range.upper, 1.0 if integer else 0.0, size.least)
        step = max(size.step, 1.0) if integer else size.step
        size = Size(least, min(size.most, most), step)
    kind = Kind.INTEGER if integer else Kind.NUMBER
    return Value(sql=sql, kind=kind, range=range, size=size, nullable=nullable)


def constant(node: Literal) -> Value:
    """The value of a literal."""
    match node.value:
        case None:
            return Value(sql="NULL", kind=None, range=EMPTY)
        case bool() | str() | dt.date() as value:
            return Value(sql=literal(value), kind=Kind.of(value), node=node, nullable=False)
        case value:
            exact, size = float(value), Size(abs(value) or 1.0, abs(float(value)))
            only, whole = Range(exact, exact), isinstance(value, int)
            found = number(double(exact), range=only, size=size, integer=whole, nullable=False)
            return replace(found, node=node)


# ---- kinds -------------------------------------------------------------------------------------


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


def _text_literal(value: Value) -> bool:
    return isinstance(value.node, Literal) and isinstance(value.node.value, str)


def as_kind(value: Value, kind: Kind) -> Value:
    """The value as another kind; raises KindMismatch where it can not be one."""
    match value.kind, kind:
        case found, _ if found == kind:
            return value
        case None, _:
            return replace(value, sql=f"CAST(NULL AS {kind.sql_type})", kind=kind)
        case Kind.INTEGER, Kind.NUMBER:
            return replace(value, kind=kind)
        case Kind.DATE, Kind.TIMESTAMP:
            return replace(value, sql=f"CAST({value.sql} AS TIMESTAMP)", kind=kind)
        case _, Kind.DATE | Kind.TIMESTAMP if isinstance(value.node, Literal):
            moment = literal_moment(str(value.node.value), date=kind == Kind.DATE)
            if moment is not None:
                return constant(Literal(moment))
            wanted = "a date such as '2024-01-31' or a time such as '2024-01-31 12:00:00'"
            raise KindMismatch(f"{wanted} where {described(value)} stands")
    raise _unfit(value, kind)


def of_kind(value: Value, *kinds: Kind) -> Value:
    """The value, if it is of one of the kinds or NULL, which becomes the first of them.

    Raises KindMismatch otherwise.
    """
    if value.kind in kinds:
        return value
    if value.kind is None or (value.kind == Kind.TEXT and Kind.DATE in kinds):
        return as_kind(value, kinds[0])
    raise _unfit(value, *kinds)


def each(*kinds: Kind) -> Callable[[tuple[Value, ...]], list[Value]]:
    """All operands, each as `of_kind` takes it."""
    return lambda operands: [of_kind(operand, *kinds) for operand in operands]


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


def _unfit(value: Value, *kinds: Kind) -> KindMismatch:
    """The refusal of a value where one of these kinds is needed."""
    kind = kinds[0]
    named = (f"{'an' if one == Kind.INTEGER else 'a'} {one.value}" for one in kinds)
    wanted = "a number" if kinds == (Kind.INTEGER, Kind.NUMBER) else " or ".join(named)
    whole = kind == Kind.INTEGER and value.kind != Kind.TEXT
    cast = f"write TRY_CAST({text_of(value.node)[:60]} AS {'INTEGER' if whole else kind.sql_type})"
    if value.kind in (Kind.DATE, Kind.TIMESTAMP) and kind.numeric:
        cast = "use EXTRACT or DATE_DIFF to get a number, and x + INTERVAL 7 DAY to move a date"
    return KindMismatch(f"{wanted} where {described(value)} stands; {cast}")


# ---- operations that are one form of SQL -------------------------------------------------------


def listed(values: Iterable[Value]) -> str:
    """The SQL of several values behind each other."""
    return ", ".join(value.sql for value in values)


def any_nullable(values: Iterable[Value]) -> bool:
    """Whether one of them may be NULL."""
    return any(value.nullable for value in values)


def form(
    sql: str,
    *,
    of: Callable[[tuple[Value, ...]], Sequence[Value]],
    gives: Kind = Kind.BOOLEAN,
    range: Range = EVERYTHING,
    nullable: bool | None = None,
) -> Rule:
    """An operation that is one form of SQL.

    sql: with {0}, {1}, ... for operands, {all} for their list and {others} for that of all but the
    first, {joined} for all of them with the operation between, {name} for the operation and
    {function} for the same in small letters. of: the operands
    as it takes them; gives: the kind of what comes out, and range: where that lies; nullable: as
    the operands are by default.
    """

    def rule(node: Operation, *operands: Value) -> Value:
        values = of(operands)
        text = sql.format(
            *(value.sql for value in values),
            all=listed(values),
            others=listed(values[1:]),
            joined=f" {node.name} ".join(value.sql for value in values),
            name=node.name,
            function=node.name.lower(),
        )
        null = any_nullable(values) if nullable is None else nullable
        if gives.numeric:
            return number(text, range=range, integer=gives is Kind.INTEGER, nullable=null)
        return Value(sql=text, kind=gives, nullable=null)

    return rule


_SHORT = 250
_BOUND = "unacorda_bound_value"


def let(body: Callable[..., str], *operands: str) -> str:
    """SQL that uses one or two operands several times: as they stand, or by names where long."""
    if sum(map(len, operands)) <= _SHORT:
        return body(*operands)
    if len(operands) == 1:
        bound, parts = operands[0], [_BOUND]
    else:
        bound = "struct_pack(first := {}, second := {})".format(*operands)
        parts = [f"struct_extract({_BOUND}, '{name}')" for name in ("first", "second")]
    return f"list_transform([{bound}], lambda {_BOUND}: {body(*parts)})[1]"


def guarded(sql: str, condition: str) -> str:
    """SQL of a value where a condition on {0} holds, else NULL."""
    return let(f"(CASE WHEN {condition} THEN {{0}} END)".format, sql)


# ---- numbers within their sizes ----------------------------------------------------------------


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
    return let(arms.format, sql)


_PLACES = 2.0**53


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


def kept(value: Value, to: Size = PLAIN) -> Value:
    """A number whose size is between two: held there where it may leave them."""
    if value.size.within(to) or value.kind is None or not value.kind.numeric:
        return value
    ends, most = (value.range.lower, value.range.upper), value.size.most
    if most <= to.most:
        lower, upper = (end if math.isinf(end) else rounded(end, to.least) for end in ends)
        most = max(rounded(most, to.least), -rounded(-most, to.least))  # it may be rounded up
        sql, size = stepped(value.sql, to.least), Size(to.least, most, to.least)
        return replace(value, sql=sql, range=Range(lower, upper), size=size)
    lower, upper = (end if math.isinf(end) else min(max(end, -to.most), to.most) for end in ends)
    lower = 0.0 if 0 < lower < to.least else lower
    upper = 0.0 if -to.least < upper < 0 else upper
    least = min(max(value.size.least, to.least), to.most)
    step = max(min(value.size.step, Size(to.most, to.most).step), to.step)
    sql, size = held(value.sql, least=to.least, most=to.most), Size(least, to.most, step)
    return replace(value, sql=sql, range=Range(lower, upper), size=size)


# ---- what is read out of a text ----------------------------------------------------------------

_SPACE = r"[ \t\r\n]*"
_DIGITS = "[0-9]{1,150}"
_NUMBER = rf"[+-]?(?:{_DIGITS}(?:\.[0-9]{{0,150}})?|\.{_DIGITS})(?:[eE][+-]?[0-9]{{1,2}})?"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def in_years(sql: str, kind: str) -> str:
    """SQL of a DATE or TIMESTAMP where it is in the years 1 to 9999, else NULL."""
    return guarded(sql, f"{{0}} >= {kind} '0001-01-01' AND {{0}} < {kind} '10000-01-01'")


def extracted(sql: str, pattern: str, group: int = 1) -> str:
    """SQL of a group of the pattern of a whole text, but for spaces around it; else no text."""
    whole = quoted(rf"\A{_SPACE}({pattern}){_SPACE}\z", "'")
    return f"regexp_extract({sql}, {whole}, {group})"


def of_text(sql: str, kind: Kind) -> str:
    """SQL of the value of a kind that a text says; NULL where it says none.

    A number is written in digits, at most 150 before the point and after it, with an exponent of
    two or without: a double has them. A day is written as 2024-01-31; an instant as that too, as
    2024-01-31 12:30, or to a microsecond. A truth is one of words such as true, f, yes and 0, also
    as True or TRUE.
    """
    match kind:
        case Kind.TEXT:
            return sql
        case Kind.BOOLEAN:
            true, false = (", ".join(map(literal, _spellings(words))) for words in (_TRUE, _FALSE))
            arms = f"(CASE WHEN {{0}} IN ({true}) THEN TRUE WHEN {{0}} IN ({false}) THEN FALSE END)"
            return let(arms.format, sql)
        case Kind.DATE | Kind.TIMESTAMP:
            pattern = _DATE if kind is Kind.DATE else rf"{_DATE}(?:[ T]{_CLOCK})?"
            moment = f"TRY_CAST({extracted(sql, pattern)} AS {kind.name})"
            return in_years(moment, kind.name)
        case _:
            return f"TRY_CAST({extracted(sql, _NUMBER)} AS DOUBLE)"


def _spellings(words: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(form for word in words for form in (word, word.capitalize(), word.upper()))
