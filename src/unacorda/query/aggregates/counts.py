"""Counts: of rows, of rows where a column is present, of people."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.query.aggregates.aggregate import Single
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast
from unacorda.query.aggregates.arguments import expression_of, weight_of
from unacorda.query.noise.additive import CONFIDENCE, AdditiveNoise, Share, additive_noise
from unacorda.query.noise.sensitivity import Sensitivity, of_counts, of_people
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Person, Reach, Unit

__all__ = ["Count", "CountPeople", "Counting", "count", "count_people", "released"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting(Single):
    """What is one whole number a cell, released with noise."""

    @abstractmethod
    def sensitivity(self, reach: Reach) -> Sensitivity:
        """How far one unit moves the counts."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader of its forecast should know."""
        return ()

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share."""
        return additive_noise(share, self.sensitivity(reach), unit_log2=0, counts=True)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy counts with their errors."""
        return released(exact, noise, bits)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
        """The error, known beforehand."""
        del assume
        return Forecast(
            noise=str(noise),
            sensitivity=self.sensitivity(reach).reason,
            standard_error=noise.standard_deviation,
            half_width=noise.half_width(CONFIDENCE),
            notes=self.notes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Counting):
    """How many rows, or how many in which `column` is not NULL."""

    tag: ClassVar[str] = "count"

    column: str | None

    def bound_to(self, scope: Scope) -> Count:
        """The same, its column looked up."""
        if self.column is None:
            return self
        counted = expression_of(self.column, scope, numeric=False)
        return dataclasses.replace(self, expressions=(counted,))

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
        return (f"count({values[0]})" if values else "count(*)",)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        """How far one unit moves the counts."""
        return of_counts(reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPeople(Counting):
    """How many units (people) have at least one row in the cell, in which `column` is present."""

    tag: ClassVar[str] = "countpeople"

    column: str | None = None

    def bound_to(self, scope: Scope) -> CountPeople:
        """The same, its column looked up."""
        if self.column is None:
            return self
        counted = expression_of(self.column, scope, numeric=False)
        return dataclasses.replace(self, expressions=(counted,))

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        present = f" FILTER ({values[0]} IS NOT NULL)" if values else ""
        if not isinstance(unit, Person):
            return (f"count(*){present}",)
        ids = ", ".join(f"u{index}" for index in range(len(unit.id)))
        counted = f"count(DISTINCT {ids})" if len(unit.id) == 1 else f"count(DISTINCT ({ids}))"
        return (f"{counted}{present}",)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        """How far one unit moves the counts."""
        return of_people(reach)


def count(column: str | None = None, *, weight: Number = 1) -> Count:
    """Count rows, or with a column (or expression) the rows in which it is not NULL.

    weight: this aggregate's part of the budget, relative to the others in the same `agg`.

    >>> count().column is None
    True
    """
    return Count(column=column, weight=weight_of(weight))


def count_people(column: str | None = None, *, weight: Number = 1) -> CountPeople:
    """Count the people (units) with at least one row, with a column one in which it is not NULL.

    The column may be an expression. Weight as in `count`.

    >>> count_people("phone").column
    'phone'
    """
    return CountPeople(column=column, weight=weight_of(weight))


def released(
    exact: Exact,
    noise: AdditiveNoise,
    bits: RandomBits,
    *,
    limits: tuple[float, float] = (0.0, math.inf),
) -> Answer:
    """Exact integers plus noise, with the standard error and interval of the noise alone.

    limits: between which the truth is known to lie.
    """
    noisy = noise.release(exact.sums[0], bits=bits)
    values = [value if isinstance(value, int) else float(value) for value in noisy]
    width = noise.half_width(CONFIDENCE)
    return Answer(
        values=values,
        standard_errors=[noise.standard_deviation] * len(values),
        lower=[value - width for value in values],
        upper=[value + width for value in values],
        limits=limits,
    )
