"""Aggregates that rank rows or people on a public grid: quantiles, cuts, extremes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.aggregates.answers import Answer
from unacorda.query.aggregates.arguments import bounds_of, expression_of, given_bounds, weight_of
from unacorda.query.aggregates.grid_counts import Ranking
from unacorda.query.aggregates.sums import clamping_note
from unacorda.query.expressions.types import Expression, Kind
from unacorda.query.schema.quoting import double
from unacorda.query.schema.table import Scope

__all__ = ["Graded", "given", "interval_share", "without_errors"]

_STEPS = 2**20
_MOST_STEPS = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded(Aggregate):
    """What is read off the ranks of a number column on a public grid.

    steps: the grid has steps + 1 points, evenly from lower to upper.
    """

    column: str
    lower: Fraction | None
    upper: Fraction | None
    steps: int | None

    def bound_to(self, scope: Scope) -> Self:
        """The same, its column looked up, its bounds and its grid known."""
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        steps = self.steps or _steps_for(expression, lower, upper)
        return dataclasses.replace(
            self, expressions=(expression,), lower=lower, upper=upper, steps=steps
        )

    @property
    def of_people(self) -> Literal["min", "max"] | None:
        """Whether people are ranked, each once in a cell, by her least or greatest value."""
        return None

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        """Rows, or people, by the grid point next to a nullable double."""
        low, high, steps = self.grid
        place = _place_of(values[0], low, high, steps)
        return (Ranking(place=place, steps=steps, people=self.of_people),)

    @property
    def ranking(self) -> Ranking:
        """Its grid."""
        return self.rankings(["value"])[0]

    @property
    def grid(self) -> tuple[float, float, int]:
        """The ends of the grid, and its steps."""
        assert self.lower is not None
        assert self.upper is not None
        assert self.steps is not None
        return float(self.lower), float(self.upper), self.steps

    @property
    def step(self) -> float:
        """How far two points of the grid are apart."""
        low, high, steps = self.grid
        return (high - low) / steps

    def values_at(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """The values of points of the grid."""
        low, _, _ = self.grid
        return np.asarray(low + self.step * points)

    @property
    def notes(self) -> tuple[str, str]:
        """The sentences that name the clamping, and what values there are."""
        low, _, _ = self.grid
        return (
            clamping_note(self.lower, self.upper),
            f"answers are multiples of {self.step:g} from {low:g}; a value counts as the nearest",
        )


def given(
    lower: Number | None, upper: Number | None, *, steps: int | None, weight: Number
) -> dict[str, Any]:
    """What the caller wrote of range, grid and weight, checked.

    Raises InvalidParameter, or MissingBound where one bound alone is given.
    """
    low, high = given_bounds(lower, upper)
    if steps is not None and checks.positive_integer(steps=steps) > _MOST_STEPS:
        raise InvalidParameter("steps", steps, expected=f"at most 2^40 = {_MOST_STEPS:,} steps")
    return {"lower": low, "upper": high, "steps": steps, "weight": weight_of(weight)}


def interval_share(interval: Number) -> Fraction:
    """The share of an aggregate's budget that buys an interval, checked."""
    share = checks.exact("interval", interval)
    if not 0 <= share < 1:
        raise InvalidParameter("interval", interval, expected="a share from 0 to below 1")
    return share


def without_errors(values: list[float], *, limits: tuple[float, float]) -> Answer:
    """An answer of which nothing is known but that it was drawn."""
    nothing: list[float | None] = [None] * len(values)
    return Answer(
        values=values, standard_errors=nothing, lower=nothing, upper=nothing, limits=limits
    )


def _steps_for(expression: Expression, lower: Fraction, upper: Fraction) -> int:
    """The default grid: every whole number where values and bounds are whole, else 2^20 steps."""
    span = upper - lower
    whole = expression.kind is Kind.INTEGER and lower.denominator == span.denominator == 1
    return int(span) if whole and span <= _MOST_STEPS else _STEPS


def _place_of(value: str, low: float, high: float, steps: int) -> str:
    """SQL for the number of the grid point next to a nullable double; total."""
    # Values beyond the ends are not multiplied, since that could pass the range of doubles. The
    # product of one between them is off by less than 2^-50 of it, and steps are 2^40 at most.
    place = f"floor(({value} - {double(low)}) * {double(steps / (high - low))} + 0.5e0)"
    return (
        f"CAST(CASE WHEN {value} <= {double(low)} THEN 0e0 WHEN {value} >= {double(high)} "
        f"THEN {double(steps)} ELSE {place} END AS BIGINT)"
    )
