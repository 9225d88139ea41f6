"""Counts, sums and sums of vectors: one number, or a few, with noise.

**Distinct values**, among the bounded rows. A person removes at most as many values as they have
rows, and a person who replaces them adds at most as many as theirs. In a cell with k rows of the
one and k' of the other the number changes by at most max(k, k'). So its sensitivity is that of a
count of rows. The values themselves are never released.

**Sums of vectors**, each clipped to a public length. A row's numbers v_1, ..., v_p are multiplied
by min(1, norm / |v|), rounded to whole multiples of a public unit and added exactly. So one row
adds a vector of length `norm` at most, and the price depends on that length alone: with normal
noise a hundred numbers cost no more than one. A row in which one of the numbers is missing adds
nothing.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.automatic import AutomaticSum
from unacorda.query.aggregates.base import (
    Aggregate,
    Answer,
    Assumption,
    Exact,
    Forecast,
    OfColumn,
    expression_of,
    given_bounds,
    weight_of,
)
from unacorda.query.aggregates.measures import (
    Clamp,
    Clamped,
    Measure,
    PeopleCount,
    PresentCount,
    Shortened,
    SumOf,
    TrueCount,
    ValueCount,
    clamp_of,
    clamping_note,
)
from unacorda.query.expressions.language import Kind, Written, written
from unacorda.query.noise.additive import (
    CONFIDENCE,
    AdditiveNoise,
    Sensitivity,
    Share,
    additive_noise,
    of_balls,
    of_counts,
    of_people,
    of_sums,
)
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Aggregate):
    """Exact integers released with noise of one size.

    A new one states what it reads, its measures and their sensitivity. counts: whether the integers
    are numbers of rows or people.
    """

    counts: ClassVar[bool] = False

    @abstractmethod
    def sensitivity(self, reach: Reach) -> Sensitivity:
        """The sensitivity of the integers."""

    @property
    def unit_log2(self) -> int:
        """The integers are in units of 2^unit_log2."""
        return 0

    @property
    def limits(self) -> tuple[float, float]:
        """The range of the exact answers for all data."""
        return (0.0, math.inf) if self.counts else (-math.inf, math.inf)

    @property
    def each(self) -> str:
        """A suffix in words for what the noise is added to; empty for one number."""
        return f" on each of {len(self.parts)} numbers" if len(self.parts) > 1 else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes for the forecast."""
        return ()

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        return additive_noise(
            share, self.sensitivity(reach), unit_log2=self.unit_log2, counts=self.counts
        )

    def integers_of(self, exact: Exact) -> Sequence[int]:
        """The integers that get noise, cell by cell."""
        if len(exact.sums) == 1:
            return exact.sums[0]
        return [number for cell in zip(*exact.sums, strict=True) for number in cell]

    def answers(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Mapping[str, Answer]:
        found = released(self.integers_of(exact), noise, bits, limits=self.limits)
        lines, step = range(len(found.values)), len(self.parts)
        return {part: found.picked(lines[place::step]) for place, part in enumerate(self.parts)}

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error of the sum over bounded and clamped rows, which is known beforehand."""
        return Forecast(
            noise=f"{noise}{self.each}",
            sensitivity=self.sensitivity(reach).reason,
            standard_error=noise.standard_deviation,
            half_width=noise.half_width(CONFIDENCE),
            notes=self.notes,
        )


def released(
    integers: Sequence[int],
    noise: AdditiveNoise,
    bits: RandomBits,
    *,
    limits: tuple[float, float] = (0.0, math.inf),
) -> Answer:
    """Add noise to exact integers, with the standard error and interval of the noise alone.

    limits: the known range of the truth.
    """
    noisy = noise.release(integers, bits=bits)
    values = [value if isinstance(value, int) else float(value) for value in noisy]
    width = noise.half_width(CONFIDENCE)
    return Answer(
        values=values,
        standard_errors=[noise.standard_deviation] * len(values),
        lower=[value - width for value in values],
        upper=[value + width for value in values],
        limits=limits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Linear):
    """How many rows, or how many in which `column` is not NULL."""

    tag: ClassVar[str] = "count"
    functions: ClassVar[tuple[str, ...]] = ("count",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"column": None}
    optional: ClassVar[Collection[str]] = ("column",)
    counts: ClassVar[bool] = True

    column: str | None

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        return (PresentCount(tuple(values)),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        return of_counts(reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountIf(Linear):
    """How many rows fulfil a condition."""

    tag: ClassVar[str] = "countif"
    functions: ClassVar[tuple[str, ...]] = ("count_if",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"condition": Kind.BOOLEAN}
    counts: ClassVar[bool] = True

    condition: str

    @property
    def filter(self) -> str | None:
        return f"({self.expression.text})"

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        return (TrueCount(values[0]),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        return of_counts(reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPeople(Linear):
    """How many units (people) have at least one row in the cell in which `column` is present.

    People are counted from all of their rows; no bound on rows drops a person.
    """

    tag: ClassVar[str] = "countpeople"
    functions: ClassVar[tuple[str, ...]] = ("count_people",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"column": None}
    optional: ClassVar[Collection[str]] = ("column",)
    counts: ClassVar[bool] = True

    column: str | None = None

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        return (PeopleCount(*values),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        return of_people(reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDistinct(Linear):
    """How many different values there are, NULL not among them."""

    tag: ClassVar[str] = "countdistinct"
    functions: ClassVar[tuple[str, ...]] = ("count_distinct",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"column": None}
    counts: ClassVar[bool] = True
    notes: ClassVar[tuple[str, ...]] = ("values that only dropped rows have are not counted",)

    column: str

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        return (ValueCount(values[0], numeric=self.expression.kind.numeric),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        counted = of_counts(reach)
        reason = f"{counted.reason}, and no more values than rows"
        return dataclasses.replace(counted, reason=reason)


def count(column: Written | None = None, *, weight: Number = 1) -> Count:
    """Count rows, or with a column (or expression) the rows in which it is not NULL.

    Parameters
    ----------
    column
        A column or an expression, whose NULLs are not counted; None counts all rows.
    weight
        This aggregate's part of the budget, relative to the others in the same `agg`; above 0.

    Returns
    -------
    Count
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a weight that is not above 0.

    Examples
    --------
    >>> count().column is None
    True
    """
    return Count(column=written(column), weight=weight_of(weight))


def count_people(column: Written | None = None, *, weight: Number = 1) -> CountPeople:
    """Count the people (units) with at least one row, with a column one in which it is not NULL.

    Each person counts once in each group. All of their rows are read, also those that contribution
    bounding drops for other aggregates. A person counts in at most `max_groups` groups, and no more
    than `max_rows`; if they have rows in more, the groups are chosen at random.

    Parameters
    ----------
    column
        A column or an expression that must be present in one of their rows; None counts all people.
    weight
        As in `count`.

    Returns
    -------
    CountPeople
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a weight that is not above 0.

    Examples
    --------
    >>> count_people("phone").column
    'phone'
    """
    return CountPeople(column=written(column), weight=weight_of(weight))


def count_if(condition: Written, *, weight: Number = 1) -> CountIf:
    """Count the rows for which a row-wise SQL condition is true (NULL is not true).

    Unlike `where` it keeps the other rows for the other aggregates.

    Parameters
    ----------
    condition
        A row-wise SQL condition. The name of a boolean column is one, whatever characters it holds.
    weight
        As in `count`.

    Returns
    -------
    CountIf
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a weight that is not above 0.

    Examples
    --------
    >>> count_if("age >= 65").condition
    'age >= 65'
    """
    return CountIf(condition=written(condition), weight=weight_of(weight))


def count_distinct(column: Written, *, weight: Number = 1) -> CountDistinct:
    """Count the different values of a column or expression: numbers, text, dates, booleans.

    NULL is not counted, and texts are compared by code point. Only values in the bounded rows are
    counted: contribution bounding also drops values that no one else has. The noise grows with the
    contribution bound. If few people have many distinct values each, a smaller bound is therefore
    more accurate.

    Parameters
    ----------
    column
        A column or an expression.
    weight
        As in `count`.

    Returns
    -------
    CountDistinct
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a weight that is not above 0.

    Examples
    --------
    >>> count_distinct("product").column
    'product'
    """
    return CountDistinct(column=written(column), weight=weight_of(weight))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClamped(OfColumn, Linear):
    """What is linear in the clamped values of a column."""

    in_units: ClassVar[bool] = True

    @property
    def clamp(self) -> Clamp:
        """The public range in integers."""
        return clamp_of(self.expression, self.lower, self.upper)

    @property
    def unit_log2(self) -> int:
        return self.clamp.unit_log2

    @property
    def notes(self) -> tuple[str, ...]:
        return (clamping_note(self.lower, self.upper),)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedSum(OfClamped):
    """The sum of a number column, each value clamped to [lower, upper]."""

    tag: ClassVar[str] = "sum"
    functions: ClassVar[tuple[str, ...]] = ("sum",)
    zeros_add_nothing: ClassVar[bool] = True

    def bound_to(self, scope: TableSchema) -> Aggregate:
        """The same with column and bounds resolved; without bounds an `AutomaticSum`."""
        expression = expression_of(self.column, scope)
        if self.lower is None and not (-math.inf < expression.lower < expression.upper < math.inf):
            return AutomaticSum.of(self.column, expression, self.weight)
        return OfColumn.bound_to(self, scope)

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        return (SumOf(Clamped(values[0], self.clamp)),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        return of_sums(reach, lower=self.clamp.lower, upper=self.clamp.upper)

    @property
    def limits(self) -> tuple[float, float]:
        """0 on a side on which no value lies."""
        low, high = self.clamp.lower, self.clamp.upper
        return (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)


def sum(  # noqa: A001  # the public word is unacorda.sum
    column: Written, lower: Number | None = None, upper: Number | None = None, *, weight: Number = 1
) -> BoundedSum:
    """Sum a number column, each value clamped to the public range [lower, upper].

    NULL and NaN are skipped; infinities are clamped.

    Without bounds, each person's total is clamped at a level that is found privately with half of
    the share. The level is released with the sum (columns name_from and name_to); the sum then
    lacks the excess of the few people above it. Given bounds that are close to the data are more
    accurate.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    lower, upper
        Public clamping bounds of one row's number, in the column's unit, lower < upper. Left out,
        they are those declared of the column.
    weight
        As in `count`.

    Returns
    -------
    BoundedSum
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, and a weight that is not above 0.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> sum("income", 0, 100_000).upper
    Fraction(100000, 1)
    """
    low, high = given_bounds(lower, upper)
    return BoundedSum(column=written(column), lower=low, upper=high, weight=weight_of(weight))


_MOST = 1000
_FARTHEST = Fraction(10) ** 100


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSum(Linear):
    """The sums of several number columns, with each row's vector clipped to a length.

    columns: as the caller wrote them; norm: the greatest l2 norm.
    """

    tag: ClassVar[str] = "vectorsum"
    functions: ClassVar[tuple[str, ...]] = ("vector_sum",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"columns": Kind.NUMBER}

    columns: tuple[str, ...]
    norm: Fraction

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(f"_{place}" for place in range(len(self.columns)))

    @property
    def assumes(self) -> tuple[str, ...]:
        return self.columns

    @property
    def length(self) -> float:
        """The norm as the engine's float."""
        return float(self.norm)

    def _terms(self, values: Sequence[str]) -> list[Shortened]:
        return [Shortened(tuple(values), place, self.length) for place in range(len(self.columns))]

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """The sums of the clipped numbers, over rows in which none is missing."""
        return tuple(SumOf(term, present=tuple(values)) for term in self._terms(values))

    def sensitivity(self, reach: Reach) -> Sensitivity:
        radius = self._terms(self.columns)[0].radius
        return of_balls(reach, radius=radius, size=len(self.columns))

    @property
    def unit_log2(self) -> int:
        return self._terms(self.columns)[0].unit_log2

    @property
    def notes(self) -> tuple[str, ...]:
        longer = f"vectors longer than {self.length:g} are cut to that length"
        return (f"{longer}; by how much that moves the sums is not known",)


def vector_sum(columns: Sequence[Written], *, norm: Number, weight: Number = 1) -> VectorSum:
    """Sum several columns (or expressions), the vector of each row clipped to a public length.

    A row with a missing number adds nothing. Answers are named after the aggregate and the position
    of the column: `g_0`, `g_1`, .... Under normal noise the error does not depend on the number of
    columns.

    Parameters
    ----------
    columns
        1 to 1,000 columns or expressions of numbers.
    norm
        The greatest length of a row's vector in the l2 norm, from 1e-100 to 1e100. Longer vectors
        are shortened and keep their direction.
    weight
        As in `count`.

    Returns
    -------
    VectorSum
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For another number of columns, a norm out of its range, and a weight that is not above 0.

    Examples
    --------
    >>> vector_sum(["x", "x * x"], norm=2).parts
    ('_0', '_1')
    """
    if isinstance(columns, str) or not 1 <= len(columns) <= _MOST:
        raise InvalidParameter("columns", columns, expected=f"a list of 1 to {_MOST} columns")
    length = checks.exact("norm", norm)
    if not 1 / _FARTHEST <= length <= _FARTHEST:
        raise InvalidParameter("norm", norm, expected="a number from 1e-100 to 1e100")
    return VectorSum(columns=tuple(map(written, columns)), norm=length, weight=weight_of(weight))
