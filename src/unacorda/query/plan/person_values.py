"""Values of one person from all of their rows: `Query.per_person(highest=max_("value"))`.

Every value is an exact function of the multiset of the person's own rows: the least, the greatest
and the first value are one of them, and counts and sums are integers. So other people's rows, the
order of rows and the number of threads change no bit of it (docs/proofs/per_person.md).

**Sums and means are of integers.** Every row's number is clamped to public bounds and put on a
public grid before it is summed, as in `measures.Clamp`: an integer of at most 2^53 in size. The sum
of any number of rows below 2^63 is then below 2^116, and what is made of it below 2^119: 128 bits
hold it, and so do decimals of 38 digits.

- A sum is clamped to 2^93 units in size, which fewer than 2^40 rows cannot pass, and becomes the
  double next to it: S = 2^40 h + r, of which h and r are doubles, and one addition rounds.
- A mean is one integer division, of the sum A above the lower bound by the number n of rows:
  floor((2 A + n) / (2 n)) units above the lower bound, which is A / n rounded to the grid, a tie
  upward. The grid is at most 2^-52 of the larger bound wide.

**NULL** is skipped, as in SQL aggregates; for the first and the last row both the value and the
time must be present. Among rows at one time the first is that with the least value, and the last
that with the greatest. A value over no rows is NULL; a count over none is 0.

A caller writes `max_("value")`, for example. The names end in `_` so that they do not hide Python's
functions; `unacorda.max` without it is a private answer about all rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeGuard, final, get_args

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.query.aggregates.base import bounds_of, expression_of, given_bounds
from unacorda.query.aggregates.measures import Clamp
from unacorda.query.expressions.language import (
    Column,
    ColumnExpression,
    Expression,
    Kind,
    Written,
    double,
    identifier,
    written,
)
from unacorda.query.expressions.ranges import Size
from unacorda.query.schema.table import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonColumn:
    """One reading of a person's value as SQL.

    column: the column that it becomes. expressions: what it is taken of, of a row. ordered: SQL of
    the order in which the row at place 1 is picked, descending or not, over the values of the
    expressions as {0}, {1}; none where no row is. aggregates: SQL over the rows of a person, of
    these and of the place as {place}. sql: of the value, over the aggregates as {0}, {1}.
    """

    column: Column
    expressions: tuple[Expression, ...]
    aggregates: tuple[str, ...]
    sql: str = "{0}"
    ordered: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Identifiers of the aggregates."""
        return tuple(identifier(f"{self.column.name} {n}") for n in range(len(self.aggregates)))

    @property
    def finished(self) -> str:
        """SQL of the value, over the aggregates by their identifiers."""
        return self.sql.format(*self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonValue(ABC):
    """What `per_person` takes."""

    tag: ClassVar[str]

    @abstractmethod
    def columns(self, label: str, scope: TableSchema) -> tuple[PersonColumn, ...]:
        """Its readings over the rows of a scope, best first; raises InvalidParameter.

        label: what the column is called. An untyped column is read in each of its ways, so that
        what uses the value chooses.
        """

    @property
    def called(self) -> str:
        """The function that makes it, without the `_` at the end."""
        return str(getattr(self, "function", self.tag.removeprefix("person")))

    def arguments(self) -> dict[str, Any]:
        """Those with which this function makes the same."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {n: value for n, value in found.items() if value is not None and n != "function"}

    def written(self, quoted: Callable[[str], str]) -> str:
        """As the caller wrote it; quoted: how texts are."""
        parts = []
        for name, value in self.arguments().items():
            said = quoted(value) if isinstance(value, str) else f"{float(value):g}"
            parts.append(f"by={said}" if name == "by" else said)
        return f"{self.called}_({', '.join(parts)})"

    @property
    def unchanged(self) -> str | None:
        """The column of which the value is one of the values; None where it is another number."""
        return None

    def __str__(self) -> str:
        return self.written(repr)


def _named(label: str, kind: Kind) -> str:
    """The SQL identifier of a reading."""
    return f"{label} as {kind.value}"


def _readings(text: str, scope: TableSchema, argument: str = "column") -> tuple[Expression, ...]:
    """An expression in each way that its untyped columns can be read, best first."""
    first = expression_of(text, scope, kind=None, argument=argument)
    found = {first.kind: first}
    used = (leaf for name, leaf in scope.by_identifier.items() if name in first.columns)
    if any(leaf.converts or len(scope.leaves[leaf.label]) > 1 for leaf in used):
        for kind in (Kind.NUMBER, Kind.DATE, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.TEXT):
            try:
                other = expression_of(text, scope, kind=kind, argument=argument)
            except InvalidParameter:
                continue
            if other.columns not in [one.columns for one in found.values()]:
                found.setdefault(other.kind, other)
    return tuple(found.values())


def _single(text: str, scope: TableSchema, argument: str) -> Expression:
    """An expression that can be read in one way alone; InvalidParameter."""
    first, *others = _readings(text, scope, argument)
    shown = identifier(text) if text in scope.names and not text.isidentifier() else text
    expected = (
        "a column of a known type, because text, numbers and dates sort differently: write "
        f"TRY_CAST({shown} AS DOUBLE) or TRY_CAST({shown} AS DATE), or declare the column as "
        "unacorda.Bounds(0, 100), unacorda.Dates() or unacorda.Text()"
    )
    checks.demand(not others, argument, text, expected=expected)
    return first


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PersonExtreme(PersonValue):
    """The least or the greatest value; of a condition whether all rows or any row has it."""

    tag: ClassVar[str] = "personextreme"

    function: Literal["min", "max", "all", "any"]
    column: str

    def columns(self, label: str, scope: TableSchema) -> tuple[PersonColumn, ...]:
        found: tuple[Expression, ...]
        if self.function in ("all", "any"):
            found = (expression_of(self.column, scope, kind=Kind.BOOLEAN, argument="condition"),)
        else:
            found = _readings(self.column, scope)
        side = "min" if self.function in ("min", "all") else "max"
        return tuple(
            PersonColumn(
                column=one.named(_named(label, one.kind)),
                expressions=(one,),
                aggregates=(f"{side}({{0}})",),
            )
            for one in found
        )

    @property
    def unchanged(self) -> str | None:
        return self.column

    def arguments(self) -> dict[str, Any]:
        if self.function in ("all", "any"):
            return {"condition": self.column}
        return PersonValue.arguments(self)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFirst(PersonValue):
    """The value at the first or the last time."""

    tag: ClassVar[str] = "personfirst"

    function: Literal["first", "last"]
    column: str
    by: str

    def columns(self, label: str, scope: TableSchema) -> tuple[PersonColumn, ...]:
        by = _single(self.by, scope, "by")
        down = " DESC" if self.function == "last" else ""
        unknown = "({0} IS NULL OR {1} IS NULL)"
        return tuple(
            PersonColumn(
                column=one.named(_named(label, one.kind)),
                expressions=(one, by),
                ordered=(unknown, f"{{1}}{down}", f"{{0}}{down}"),
                aggregates=("max(CASE WHEN {place} = 1 AND {1} IS NOT NULL THEN {0} END)",),
            )
            for one in _readings(self.column, scope)
        )

    @property
    def unchanged(self) -> str | None:
        return self.column


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PersonCount(PersonValue):
    """The number of rows, or of those in which the column is present."""

    tag: ClassVar[str] = "personcount"

    column: str | None

    def columns(self, label: str, scope: TableSchema) -> tuple[PersonColumn, ...]:
        found: tuple[Expression, ...] = ()
        if self.column is not None:
            found = (expression_of(self.column, scope, kind=None),)
        lower = 0 if found else 1  # without rows a person has no value at all
        most = double(2.0**53)
        column = Column(
            _named(label, Kind.INTEGER), Kind.INTEGER, lower=lower, size=Size(1.0, 2.0**53, 1.0)
        )
        counted = "count({0})" if found else "count(*)"
        return (
            PersonColumn(
                column=column,
                expressions=found,
                aggregates=(counted,),
                sql=f"least({{0}}::DOUBLE, {most})",
            ),
        )


_PART = 1 << 40
_MOST = (1 << 93) - 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSum(PersonValue):
    """The sum of numbers that are clamped first; whole numbers need no bounds.

    lower, upper: as written with it, or None where they are those declared of the column.
    """

    tag: ClassVar[str] = "personsum"

    column: str
    lower: Fraction | None
    upper: Fraction | None

    def columns(self, label: str, scope: TableSchema) -> tuple[PersonColumn, ...]:
        of = expression_of(self.column, scope)
        whole = of.kind is Kind.INTEGER
        if whole and self.lower is None and not math.isfinite(of.upper - of.lower):
            clamp = Clamp(lower=-(1 << 53), upper=1 << 53, unit_log2=0)  # beyond it no double is
        else:
            lower, upper = _bounds("sum", self.column, of, self.lower, self.upper)
            clamp = Clamp.of(lower, upper, whole=whole)
        unit = 2.0**clamp.unit_log2
        low, high = clamp.range
        kind = Kind.INTEGER if whole and clamp.unit_log2 >= 0 else Kind.NUMBER
        column = Column(
            _named(label, kind),
            kind,
            lower=low if low >= 0 else -math.inf,
            upper=high if high <= 0 else math.inf,
            size=Size(unit, 2.0**93 * unit, unit),
        )
        total = (
            f"(CASE WHEN {{0}} > {_MOST} THEN {_MOST} WHEN {{0}} < -{_MOST} THEN -{_MOST} "
            "ELSE {0} END)"
        )
        upper_part = f"({total} // {_PART})"
        lower_part = f"({total} - {upper_part} * {_PART})"
        together = f"({upper_part}::DOUBLE * {double(_PART)} + {lower_part}::DOUBLE)"
        return (
            PersonColumn(
                column=column,
                expressions=(of,),
                aggregates=(f"sum({clamp.sql('{0}')})",),
                sql=f"({together} * {double(unit)})",
            ),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PersonMean(PersonValue):
    """The mean of numbers that are clamped first, rounded to a public grid."""

    tag: ClassVar[str] = "personmean"

    column: str
    lower: Fraction | None
    upper: Fraction | None

    def columns(self, label: str, scope: TableSchema) -> tuple[PersonColumn, ...]:
        of = expression_of(self.column, scope)
        lower, upper = _bounds("mean", self.column, of, self.lower, self.upper)
        clamp = Clamp.of(lower, upper, whole=False)
        unit = 2.0**clamp.unit_log2
        low, high = clamp.range
        column = Column(
            _named(label, Kind.NUMBER),
            Kind.NUMBER,
            lower=low,
            upper=high,
            size=Size(unit, max(-low, high), unit),
        )
        above = f"((2 * {{0}} + {{1}}) // (2 * greatest({{1}}, 1)) + ({clamp.lower}))"
        return (
            PersonColumn(
                column=column,
                expressions=(of,),
                aggregates=(f"sum({clamp.sql('{0}')} - ({clamp.lower}))", "count({0})"),
                sql=f"({above}::DOUBLE * {double(unit)})",
            ),
        )


def _bounds(
    function: str,
    column: str,
    expression: Expression,
    lower: Fraction | None,
    upper: Fraction | None,
) -> tuple[Fraction, Fraction]:
    """The public bounds of every row; MissingBound."""
    try:
        return bounds_of(column, expression, lower, upper)
    except MissingBound as error:
        hint = error.hint.replace("aggregate", "value")
        hint = hint.replace("unacorda.mean", f"unacorda.{function}_")
        fault = error.about(error.argument, error.value, hint=hint)
    raise fault


AnyPersonValue = PersonExtreme | PersonFirst | PersonCount | PersonSum | PersonMean


def is_person_value(value: object) -> TypeGuard[PersonValue]:
    """Whether it is a value of this module: another's SQL need not be of one person's rows."""
    return type(value) in get_args(AnyPersonValue)


def _text(argument: str, value: object, expected: str = "a column or an expression") -> str:
    value = written(value) if isinstance(value, ColumnExpression) else value
    if not isinstance(value, str) or not value:
        raise InvalidParameter(argument, value, expected=f"{expected}, as text")
    return value


def max_(column: Written) -> PersonExtreme:
    """Take the greatest value of each person's rows: `per_person(highest=max_("value"))`.

    Parameters
    ----------
    column
        A column or an expression of numbers, texts (compared by code point), dates, instants or
        truth values.

    Returns
    -------
    PersonExtreme
        A value for `Query.per_person`; NULL for a person of whom no value is present.

    Raises
    ------
    InvalidParameter
        For a column that is no text.

    Examples
    --------
    >>> print(max_("value"))
    max_('value')
    """
    return PersonExtreme(function="max", column=_text("column", column))


def min_(column: Written) -> PersonExtreme:
    """Take the least value of each person's rows; see `max_`.

    Parameters
    ----------
    column
        As in `max_`.

    Returns
    -------
    PersonExtreme
        A value for `Query.per_person`; NULL for a person of whom no value is present.

    Raises
    ------
    InvalidParameter
        For a column that is no text.

    Examples
    --------
    >>> print(min_("value"))
    min_('value')
    """
    return PersonExtreme(function="min", column=_text("column", column))


def any_(condition: Written) -> PersonExtreme:
    """Take whether a condition holds in any of a person's rows; NULL if it is never known.

    Parameters
    ----------
    condition
        A row-wise SQL condition, or the name of a column of truth values.

    Returns
    -------
    PersonExtreme
        A value for `Query.per_person`.

    Raises
    ------
    InvalidParameter
        For a condition that is no text.

    Examples
    --------
    >>> print(any_("test = 'smoke'"))
    any_("test = 'smoke'")
    """
    return PersonExtreme(function="any", column=_text("condition", condition, "a condition"))


def all_(condition: Written) -> PersonExtreme:
    """Take whether a condition holds in all of a person's rows in which it is known.

    Parameters
    ----------
    condition
        A row-wise SQL condition, or the name of a column of truth values.

    Returns
    -------
    PersonExtreme
        A value for `Query.per_person`; NULL for a person without a row in which the condition is
        known.

    Raises
    ------
    InvalidParameter
        For a condition that is no text.

    Examples
    --------
    >>> print(all_("value < 60"))
    all_('value < 60')
    """
    return PersonExtreme(function="all", column=_text("condition", condition, "a condition"))


def first_(column: Written, *, by: Written) -> PersonFirst:
    """Take the value of the first of a person's rows, in the order of another column.

    Rows in which one of the two is missing are skipped. Among several rows at the first time the
    least value is taken.

    Parameters
    ----------
    column
        A column or an expression, of which the value is taken.
    by
        The column or expression that orders the rows, such as a date. Its type must be known.

    Returns
    -------
    PersonFirst
        A value for `Query.per_person`.

    Raises
    ------
    InvalidParameter
        For a column or an order that is no text.

    Examples
    --------
    >>> print(first_("value", by="days"))
    first_('value', by='days')
    """
    names = {"column": _text("column", column), "by": _text("by", by)}
    return PersonFirst(function="first", **names)


def last_(column: Written, *, by: Written) -> PersonFirst:
    """Take the value of the last of a person's rows, in the order of another column.

    Rows in which one of the two is missing are skipped. Among several rows at the last time the
    greatest value is taken.

    Parameters
    ----------
    column
        A column or an expression, of which the value is taken.
    by
        The column or expression that orders the rows, such as a date. Its type must be known.

    Returns
    -------
    PersonFirst
        A value for `Query.per_person`.

    Raises
    ------
    InvalidParameter
        For a column or an order that is no text.

    Examples
    --------
    >>> print(last_("value", by="days"))
    last_('value', by='days')
    """
    names = {"column": _text("column", column), "by": _text("by", by)}
    return PersonFirst(function="last", **names)


def count_(column: Written | None = None) -> PersonCount:
    """Count each person's rows, or those in which a column is present.

    Parameters
    ----------
    column
        A column or an expression, whose NULLs are not counted; None counts all rows.

    Returns
    -------
    PersonCount
        A value for `Query.per_person`: a whole number, 0 where the column is never present.

    Raises
    ------
    InvalidParameter
        For a column that is no text.

    Examples
    --------
    >>> print(count_(), count_("value"))
    count_() count_('value')
    """
    return PersonCount(column=None if column is None else _text("column", column))


def sum_(column: Written, lower: Number | None = None, upper: Number | None = None) -> PersonSum:
    """Sum each person's numbers, every row clamped first to public bounds.

    Parameters
    ----------
    column
        A column or an expression of numbers. Rows where it is NULL are passed over.
    lower, upper
        Public clamping bounds of one row's number, in the column's unit, lower < upper. They may be
        left out where they are declared of the column, where they follow from the expression, and
        for whole numbers.

    Returns
    -------
    PersonSum
        A value for `Query.per_person`; NULL for a person of whom no number is present.

    Raises
    ------
    InvalidParameter
        For a column that is no text, and for bounds that are no range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> print(sum_("dose", 0, 50))
    sum_('dose', 0, 50)
    """
    low, high = given_bounds(lower, upper)
    return PersonSum(column=_text("column", column), lower=low, upper=high)


def mean_(column: Written, lower: Number | None = None, upper: Number | None = None) -> PersonMean:
    """Take the mean of each person's numbers, every row clamped first to public bounds.

    Parameters
    ----------
    column
        A column or an expression of numbers. Rows where it is NULL are passed over.
    lower, upper
        Public clamping bounds of one row's number, in the column's unit, lower < upper. They may be
        left out where they are declared of the column, or follow from the expression.

    Returns
    -------
    PersonMean
        A value for `Query.per_person`; NULL for a person of whom no number is present.

    Raises
    ------
    InvalidParameter
        For a column that is no text, and for bounds that are no range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> print(mean_("value", 0, 300))
    mean_('value', 0, 300)
    """
    low, high = given_bounds(lower, upper)
    return PersonMean(column=_text("column", column), lower=low, upper=high)
