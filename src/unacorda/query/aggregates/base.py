"""What every aggregate is: a plain value that says what to count, with which noise, and how wrong.

An aggregate reads the bounded rows of a question through exact integers alone: counts and sums over
the rows of a cell (`measures`), counts by place on a grid (`rankings`), and people by how far their
numbers climb (`threshold_counts`). It turns its part of the budget into noise, and the integers and
the noise into released numbers. A new aggregate is one class with a `tag`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.query.aggregates.answers import Answer, Assumption, Exact, Forecast
from unacorda.query.aggregates.grid_counts import Ranking
from unacorda.query.aggregates.measures import Measure
from unacorda.query.aggregates.threshold_counts import Thresholds
from unacorda.query.expressions.types import Expression, Kind
from unacorda.query.noise.additive import Noise, Share
from unacorda.query.schema.facts import interval
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach, Unit

__all__ = [
    "Aggregate",
    "OfColumn",
    "Single",
    "bounds_of",
    "expression_of",
    "given_bounds",
    "weight_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(ABC):
    """What `agg` takes.

    weight: its part of the question's budget, relative to the others'. expressions: what it is
    taken of, once the columns are known. tag: its `kind` in digests and stored releases, which
    stays where a class is renamed.
    """

    tag: ClassVar[str]
    weight: Fraction = Fraction(1)
    expressions: tuple[Expression, ...] = ()

    @abstractmethod
    def bound_to(self, scope: TableSchema) -> Aggregate:
        """The same (or what it amounts to), its columns looked up and its bounds known."""

    @property
    def parts(self) -> tuple[str, ...]:
        """What follows its name in the columns of a release, one for each answer it gives."""
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
        """Columns, as the caller named them, of which values may be assumed to foretell errors."""
        return ()

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The public range that values of its column are clamped to, where it has one."""
        lower, upper = (getattr(self, name, None) for name in ("lower", "upper"))
        return None if lower is None or upper is None else (float(lower), float(upper))

    @property
    def in_units(self) -> bool:
        """Whether its answer is in the unit of its column, to be read beside the bounds."""
        return False

    @property
    def expression(self) -> Expression:
        """The one it is taken of, where there is one."""
        (found,) = self.expressions
        return found

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """Exact integers over the bounded rows of a cell; values: its expressions' names."""
        del values
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
        del values
        return ()

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Thresholds, ...]:
        """What people are counted by."""
        del values, unit
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
        """The released numbers under the aggregate's own name."""
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
        """The same, its column looked up and its bounds known."""
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        return replace(self, expressions=(expression,), lower=lower, upper=upper)

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column,)


def weight_of(weight: Number) -> Fraction:
    """A weight as an exact number above zero."""
    value = checks.exact("weight", weight)
    if value <= 0:
        raise InvalidParameter("weight", weight, expected="a number above 0")
    return value


def expression_of(
    column: str, scope: TableSchema, *, numeric: bool = True, kind: Kind | None = None
) -> Expression:
    """A column by its name, or else an expression, as an expression.

    A name is taken whole, whatever signs it holds; an untyped column is read as its use needs: as
    a number, or as the kind that is given. Raises InvalidParameter for what is neither column nor
    expression, or of another kind.
    """
    text = column
    if checks.is_text(column) and column in scope:
        text = '"' + column.replace('"', '""') + '"'
    return scope.parse(text, argument="column", expect=kind or (Kind.NUMBER if numeric else None))


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
        f"unacorda.mean({column!r}, 0, 100), or declare columns={{...: unacorda.Bounds(0, 100)}} "
        "for every column it is made of",
    )
