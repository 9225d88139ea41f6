"""The base of aggregates: values that define what to count, the noise and the error.

An aggregate reads the bounded rows of a question through exact integers alone: counts and sums over
the rows of a cell (`measures`), counts by place on a grid (`rankings`), and people by how far their
numbers climb (`Thresholds`). It turns its part of the budget into noise, and the integers and
the noise into released numbers. A new aggregate is one class with a `tag`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression
from unacorda.query.aggregates.grid import Flags, Floats, GridCounts, Ranking
from unacorda.query.aggregates.measures import Climbers, Measure, Thresholds
from unacorda.query.expressions.language import (
    Expression,
    Kind,
    Literal,
    Operation,
    identifier,
    text_of,
)
from unacorda.query.noise.additive import Noise, Share
from unacorda.query.schema.table import TableSchema, interval
from unacorda.query.schema.units import Reach, Unit

ENDINGS = ("", "_se", "_low", "_high", "_from", "_to", "_value")
"""What columns of a release may add to the name of an answer."""

IMPRECISE = "*"
"""The mark of an answer whose 95% interval is wider than its value."""

TABLE_ROWS = (100, 1_000, 10_000, 100_000, 1_000_000)
"""For which numbers of rows a forecast lists the error."""

_MOST_ROWS = 10**9  # of one person
_WEIGHT_BITS = 256  # of either number of the fraction


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Exact:
    """The engine's exact integers for one aggregate; they are never released without noise.

    sums: one list per measure, one integer a cell; rankings, people: one for each ranking and each
    ladder that was asked about.
    """

    sums: tuple[Sequence[int], ...] = ()
    rankings: tuple[GridCounts, ...] = ()
    people: tuple[Climbers, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Released numbers, one per row of the release, with their errors.

    values: estimates; None only in a computed column, where it is undefined. standard_errors: of
    the noise, None where the law is not known.
    lower, upper: ends of a 95% interval about the exact answer on the bounded rows, None likewise.
    beside: further columns by their `ENDINGS` without the underscore: `from` and `to`, the ends of
    what the number is of (levels at which totals were cut, edges of a bin), `value`, what is
    counted. limits: between which the exact answer is known to lie, whatever the data.
    is_range: the released thing is the range from `lower` to `upper`, and the value its middle.
    of: what else was released, of which these numbers are made.
    All are functions of released values and public numbers alone.
    """

    values: Sequence[Any]
    standard_errors: Sequence[float | None]
    lower: Sequence[float | None]
    upper: Sequence[float | None]
    beside: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    limits: tuple[float, float] = (-math.inf, math.inf)
    is_range: bool = False
    of: object = None

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Both ends of every line; for answers that have them, such as ranges."""
        ends = zip(self.lower, self.upper, strict=True)
        return [(low, high) for low, high in ends if low is not None and high is not None]

    @property
    def usable(self) -> list[bool]:
        """Whether anything is known of each line: its interval is less than all that is possible.

        True where no interval is known at all, as of quantiles without one.
        """
        low, high = self.limits
        return [
            (error is None and lower is None and upper is None)
            or (lower is not None and lower > low)
            or (upper is not None and upper < high)
            for error, lower, upper in zip(
                self.standard_errors, self.lower, self.upper, strict=True
            )
        ]

    @property
    def imprecise(self) -> list[bool]:
        """Whether the interval of each line is wider than its value."""
        lines = zip(self.values, self.lower, self.upper, strict=True)
        return [
            value is not None
            and lower is not None
            and upper is not None
            and not self.is_range
            and upper - lower > abs(value)
            for value, lower, upper in lines
        ]

    @property
    def marks(self) -> list[str]:
        """What follows each line as it is shown: a star where it is usable and imprecise."""
        marked = [wide and usable for wide, usable in zip(self.imprecise, self.usable, strict=True)]
        plain = "  " if any(marked) else ""  # of the same width, so that columns stay aligned
        return [f" {IMPRECISE}" if one else plain for one in marked]

    def opened(self, lines: Sequence[bool]) -> Answer:
        """The same; the interval of each of these lines is all that is possible."""
        low, high = self.limits
        lower, upper = (
            [limit if opened else end for opened, end in zip(lines, ends, strict=True)]
            for limit, ends in ((low, self.lower), (high, self.upper))
        )
        return dataclasses.replace(self, lower=lower, upper=upper)

    def clamped(self) -> Answer:
        """The same within `limits`: every value lies in its interval, and both in the limits.

        Where a value lies beyond, its interval keeps half of its width from the limit inward: it
        holds all of the interval as released that is possible, and never shrinks to a point.
        """
        low, high = self.limits
        values, lower, upper = [], [], []
        for value, a, b in zip(self.values, self.lower, self.upper, strict=True):
            clipped = None if value is None else min(max(value, low), high)
            half = 0.0
            if clipped != value and a is not None and b is not None:
                half = (b - a) / 2
            if clipped is not None and a is not None:
                a = max(min(a, clipped - half), low)  # noqa: PLW2901  # the end that is shown
            if clipped is not None and b is not None:
                b = min(max(b, clipped + half), high)  # noqa: PLW2901
            values.append(clipped)
            lower.append(a)
            upper.append(b)
        return dataclasses.replace(self, values=values, lower=lower, upper=upper)

    def picked(self, indices: Sequence[int]) -> Answer:
        """The answers of these lines, in this order."""
        return Answer(
            values=[self.values[i] for i in indices],
            standard_errors=[self.standard_errors[i] for i in indices],
            lower=[self.lower[i] for i in indices],
            upper=[self.upper[i] for i in indices],
            beside={end: [column[i] for i in indices] for end, column in self.beside.items()},
            limits=self.limits,
            is_range=self.is_range,
            of=self.of,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The noise of one aggregate and its expected error, computed before anything is spent.

    Attributes
    ----------
    noise
        The mechanism, in words.
    sensitivity
        The sensitivity to one privacy unit, with its reason.
    standard_error
        The standard error of each answer. None if it depends on the data and nothing was assumed
        about them.
    half_width
        Half of the 95% interval, on the same terms.
    table
        Pairs (rows in a group, standard error), if the error depends on the number of rows.
    rank_error
        For quantiles: with 95% probability, the rank is off by at most this number of rows.
    people_error
        For levels that are found: with 95% probability, at most this number of people exceed the
        level.
    assumed_rows
        The assumed number of rows, if the error depends on it.
    levels
        For a question with margins: the largest standard error at each level.
    least_rows
        If a group has more rows than this, its answer depends on them with 95% probability.
    reading
        How to read an answer that has no interval.
    notes
        Further remarks, in words.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with unacorda.Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
    ...     question = session.table("visits").agg(n=unacorda.count())
    ...     plan = session.explain(question, budget=unacorda.PureDP(1))
    >>> plan.forecasts["n"].noise, plan.forecasts["n"].half_width
    ('discrete Laplace noise of scale 1', 3.0)
    """

    noise: str
    sensitivity: str
    standard_error: float | None = None
    half_width: float | None = None
    table: tuple[tuple[int, float], ...] = ()
    rank_error: float | None = None
    people_error: int | None = None
    assumed_rows: int | None = None
    levels: tuple[float, ...] = ()
    least_rows: float | None = None
    reading: str = ""
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[float | None, ...]:
        """The standard error by level; of an answer without levels the one that it has."""
        return self.levels or (self.standard_error,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """Assumed numbers of the data, from `unacorda.Assume`."""

    rows: int
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    rows_per_person: Sequence[int] | None = None
    rows_kept: float | None = None

    def __post_init__(self) -> None:
        checks.positive_integer(rows=self.rows)
        kept = 0.0 if self.rows_kept is None else checks.finite(rows_kept=self.rows_kept)
        checks.demand(0 <= kept <= 1, "rows_kept", self.rows_kept, expected="a share from 0 to 1")
        found = np.asarray([1] if self.rows_per_person is None else self.rows_per_person)
        whole = found.ndim == 1 and len(found) and np.issubdtype(found.dtype, np.integer)
        fits = whole and found.min() >= 1 and found.max() <= _MOST_ROWS
        checks.demand(fits, "rows_per_person", "...", expected="whole numbers of rows, 1 or above")
        for name, values in self.values.items():
            array = np.asarray(values, dtype=np.float64)
            fits = array.ndim == 1 and len(array) and np.isfinite(array).all()
            expected = "a list of finite numbers, not empty"
            checks.demand(fits, f"values[{name!r}]", "...", expected=expected)

    def of(self, column: str) -> Floats | None:
        """The assumed values of a column, or None."""
        values = self.values.get(column)
        return None if values is None else np.asarray(values, dtype=np.float64)


def widened(
    values: Floats, half_widths: Floats, ends: tuple[Floats, Floats], limits: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Intervals that were cut to limits, none of them shorter than the noise of its value.

    An estimate at or beyond a limit can leave nothing, or a point, of what explains it within. Its
    interval then reaches from there inward by the half width of the noise; it only grows.
    """
    low, high = limits
    at = np.clip(values, low, high)
    beyond = (at != values) | (ends[0] >= ends[1])
    lower = np.where(beyond, np.minimum(ends[0], np.maximum(at - half_widths, low)), ends[0])
    upper = np.where(beyond, np.maximum(ends[1], np.minimum(at + half_widths, high)), ends[1])
    return lower, upper


def halve(
    holds: Callable[[Floats], Flags], inside: Floats, outside: Floats, *, rounds: int
) -> tuple[Floats, Floats]:
    """Halve brackets, each by itself, between a place where a condition holds and one beyond."""
    for _ in range(rounds):
        middle = (inside + outside) / 2
        fine = holds(middle)
        inside, outside = np.where(fine, middle, inside), np.where(fine, outside, middle)
    return inside, outside


def answer_of(
    values: Floats, errors: Floats, ends: tuple[Floats, Floats], limits: tuple[float, float]
) -> Answer:
    """Estimates with their standard errors and the ends of their intervals, cell by cell."""
    lower, upper = (end.tolist() for end in ends)
    return Answer(
        values=values.tolist(),
        standard_errors=errors.tolist(),
        lower=lower,
        upper=upper,
        limits=limits,
    )


Assumed = Mapping[str, Assumption | None]
"""What is supposed of the numbers that each aggregate's error depends on, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(ABC):
    """What `agg` takes.

    weight: its part of the question's budget, relative to the others'. expressions: what it is
    taken of, once the columns are known. tag: its `kind` in digests and stored releases, which
    stays where a class is renamed. overall: whether its one answer is about all groups together,
    and so the same in each line of a release. reads: the fields that name columns or expressions,
    each with the kind that they have to be of, None for any; those whose names are plural hold
    several. optional: those that may be left out. functions: those of its module that make it,
    whose names a question in JSON may use. renamed: fields that are called otherwise among the
    arguments of these, or "" for what is none of them. zeros_add_nothing: whether rows in which its
    expression is 0 could go without changing it. in_units: whether its answer is in the unit of its
    column, to be read beside the bounds.
    """

    tag: ClassVar[str]
    overall: ClassVar[bool] = False
    reads: ClassVar[Mapping[str, Kind | None]] = MappingProxyType({})
    optional: ClassVar[Collection[str]] = ()
    functions: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({})
    zeros_add_nothing: ClassVar[bool] = False
    in_units: ClassVar[bool] = False
    weight: Fraction = Fraction(1)
    expressions: tuple[Expression, ...] = ()

    def bound_to(self, scope: TableSchema) -> Aggregate:
        """The same (or what it amounts to), its columns looked up and its bounds known."""
        found: list[Expression] = []
        for name, kind in self.reads.items():
            written = getattr(self, name)
            if written is None and name in self.optional:
                continue
            argument = name.removesuffix("s")
            texts = (written,) if argument == name else written
            found += [expression_of(text, scope, kind=kind, argument=argument) for text in texts]
        return replace(self, expressions=tuple(found))

    @property
    def function(self) -> str:
        """The one of its functions that made it."""
        return self.functions[0]

    def arguments(self) -> dict[str, Any]:
        """Those with which this function makes the same, but for the weight."""
        names = [one.name for one in fields(self) if one.name not in {"weight", "expressions"}]
        found = {self.renamed.get(name, name): getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if name and value is not None}

    def within(self, reach: Reach) -> Aggregate:
        """The same in a question with these contribution bounds."""
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """The suffixes of its columns in a release, one for each answer."""
        return ("",)

    @property
    def lines(self) -> int:
        """How many lines a cell has in the release; where it is not 1, `agg` takes nothing else."""
        return 1

    @property
    def integers(self) -> int:
        """How many integers a cell needs beside sums; public."""
        return 0

    @property
    def assumes(self) -> tuple[str, ...]:
        """Columns, as the caller named them, whose values can be assumed to forecast errors."""
        return ()

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The public range to which values of its column are clamped, if any."""
        lower, upper = (getattr(self, name, None) for name in ("lower", "upper"))
        return None if lower is None or upper is None else (float(lower), float(upper))

    @property
    def clamped(self) -> tuple[tuple[str, float, float], ...]:
        """The columns whose values are clamped, each with its public range."""
        column = getattr(self, "column", None)
        return () if self.bounds is None or column is None else ((column, *self.bounds),)

    @property
    def expression(self) -> Expression:
        """The one it is taken of, where there is one."""
        (found,) = self.expressions
        return found

    @property
    def filter(self) -> str | None:
        """The condition of the rows that it is taken of, as with FILTER; None for any rows."""
        conditions = {_filter_of(one, zero=self.zeros_add_nothing) for one in self.expressions}
        return conditions.pop() if len(conditions) == 1 else None

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """Exact integers over the bounded rows of a cell; values: its expressions' names."""
        return ()

    def reads_people(self, values: Sequence[str], unit: Unit) -> bool:
        """Whether it reads several rows of one person in another way than rows of several."""
        return (
            any(measure.counts_people for measure in self.measures(values))
            or any(ranking.people is not None for ranking in self.rankings(values))
            or bool(self.ladders(values, unit))
        )

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        """What is counted by place on a public grid."""
        return ()

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Thresholds, ...]:
        """What people are counted by."""
        return ()

    @abstractmethod
    def noise(self, share: Share, reach: Reach) -> Noise:
        """The least noise within a share of the budget. Raises for shares that no scale keeps."""

    @abstractmethod
    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        """The released numbers, by `parts`; noise: what `noise` returned."""

    @abstractmethod
    def forecast(self, noise: Any, reach: Reach, assume: Assumption | None) -> Forecast:
        """What is known of the error before anything is spent; noise: what `noise` returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Single(Aggregate):
    """An aggregate with one answer, under its own name."""

    @abstractmethod
    def release(self, exact: Exact, noise: Any, bits: RandomBits) -> Answer:
        """The released numbers; noise: what `noise` returned."""

    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        return {"": self.release(exact, noise, bits)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfColumn(Aggregate):
    """An aggregate of one number column (or expression) between public bounds.

    lower, upper: as written with it, or None where they are those declared of the column.
    """

    column: str
    lower: Fraction | None
    upper: Fraction | None

    def bound_to(self, scope: TableSchema) -> Aggregate:
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        return replace(self, expressions=(expression,), lower=lower, upper=upper)

    @property
    def assumes(self) -> tuple[str, ...]:
        return (self.column,)


def _filter_of(expression: Expression, *, zero: bool) -> str | None:
    """The condition without which an expression is NULL, where it is a CASE as FILTER makes one.

    zero: or 0.
    """
    node, found = expression.node, list[str]()
    while isinstance(node, Operation) and node.name == "CASE" and len(node.operands) == 3:
        condition, value, other = node.operands
        if other != Literal(None) and not (zero and other == Literal(0)):
            break
        found.append(text_of(condition))
        node = value
    return " AND ".join(f"({one})" for one in found) if found else None


def weight_of(weight: Number, *, argument: str = "weight") -> Fraction:
    """A weight as an exact number above zero, of which many still add up fast."""
    value = checks.exact(argument, weight)
    checks.demand(value > 0, argument, weight, expected="a number above 0")
    short = max(value.numerator.bit_length(), value.denominator.bit_length()) <= _WEIGHT_BITS
    checks.demand(short, argument, weight, expected="a fraction of whole numbers below 2^256")
    return value


def expression_of(
    column: str, scope: TableSchema, *, kind: Kind | None = Kind.NUMBER, argument: str = "column"
) -> Expression:
    """A column by its name, or else an expression, as an expression.

    A name may have any characters; an untyped column is read as the kind that its use needs, None
    for any. Raises InvalidParameter for a value that is neither column nor expression, or is of
    another kind.
    """
    text = column
    if checks.is_text(column) and column in scope:
        text = identifier(column)
    fault: InvalidParameter | None = None
    try:
        return scope.parse(text, argument=argument, expect=kind)
    except UnsafeExpression:
        raise
    except InvalidParameter as error:
        fault = error
    raise fault if fault.value != text else fault.about(argument, column)


def given_bounds(
    lower: Number | None, upper: Number | None
) -> tuple[Fraction, Fraction] | tuple[None, None]:
    """Both bounds, checked, or neither."""
    if lower is None and upper is None:
        return None, None
    if lower is None or upper is None:
        name = "lower" if lower is None else "upper"
        raise MissingBound(name, None, expected="both a lower and an upper bound, or neither")
    return interval(lower, upper)


def bounds_of(
    column: str, expression: Expression, lower: Fraction | None, upper: Fraction | None
) -> tuple[Fraction, Fraction]:
    """The public range of an aggregate: as written with it, or else as declared of the column."""
    if lower is not None and upper is not None:
        return lower, upper
    if math.isfinite(expression.lower) and math.isfinite(expression.upper):
        low, high = Fraction(expression.lower), Fraction(expression.upper)
        if low < high:
            return interval(low, high)
    raise MissingBound(
        "lower",
        None,
        expected=f"public bounds for {column!r}",
        column=column,
        hint="write them with the aggregate, such as "
        f"unacorda.mean({column!r}, 0, 100), or open the session with columns={{...: "
        "unacorda.Bounds(0, 100)} for every column it is made of",
    )
