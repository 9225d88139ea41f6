"""Counts and shares of the rows for which a condition is true."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.query.aggregates.aggregate import Single
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast
from unacorda.query.aggregates.arguments import weight_of
from unacorda.query.aggregates.counts import Counting
from unacorda.query.aggregates.moments import Splits
from unacorda.query.expressions.types import Kind
from unacorda.query.noise.additive import AdditiveNoise, Share, additive_noise
from unacorda.query.noise.sensitivity import Sensitivity, of_counts, of_splits
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Reach, Unit

__all__ = ["CountIf", "Proportion", "count_if", "proportion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountIf(Counting):
    """How many rows fulfil a condition."""

    tag: ClassVar[str] = "countif"

    condition: str

    def bound_to(self, scope: Scope) -> CountIf:
        """The same, its condition read."""
        expression = scope.parse(self.condition, argument="condition", expect=Kind.BOOLEAN)
        return dataclasses.replace(self, expressions=(expression,))

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
        return (f"count(CASE WHEN {values[0]} THEN 1 END)",)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        """How far one unit moves the counts."""
        return of_counts(reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion(Single):
    """The share of rows that fulfil a condition, of those where it is known.

    A row adds 1 to the number of those that do or to that of those that do not: the mean of a
    column of ones and zeros, with its noise, error and interval.
    """

    tag: ClassVar[str] = "proportion"

    condition: str

    def bound_to(self, scope: Scope) -> Proportion:
        """The same, its condition read."""
        expression = scope.parse(self.condition, argument="condition", expect=Kind.BOOLEAN)
        return dataclasses.replace(self, expressions=(expression,))

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its condition: ones and zeros."""
        return (self.condition,)

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
        (value,) = values
        return (f"count(CASE WHEN {value} THEN 1 END)", f"count({value})")

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, for the pair of counts."""
        return additive_noise(share, of_splits(reach, width=1), unit_log2=0, counts=False)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy shares with their errors."""
        above, rows = exact.sums
        below = [every - some for some, every in zip(above, rows, strict=True)]
        return Splits(low=0.0, width=1.0).release(above, below, noise, bits)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
        """The error: a table over the number of rows, or a number for shares near 0 or 1."""
        return Splits(low=0.0, width=1.0).forecast(
            noise,
            None if assume is None else assume.of(self.condition),
            assume,
            names="on each of two counts, of rows that fulfil the condition and that do not",
            sensitivity=of_splits(reach, width=1).reason,
        )


def count_if(condition: str, *, weight: Number = 1) -> CountIf:
    """Count the rows for which a row-wise SQL condition is true (NULL is not true).

    Unlike `where` it leaves the rows in for the other aggregates. Weight as in `count`.

    >>> count_if("age >= 65").condition
    'age >= 65'
    """
    return CountIf(condition=condition, weight=weight_of(weight))


def proportion(condition: str, *, weight: Number = 1) -> Proportion:
    """The share of rows for which a row-wise SQL condition is true, of those where it is not NULL.

    As the mean of 1 where it is true and 0 where it is false. Weight as in `count`.

    >>> proportion("smokes = 'yes'").condition
    "smokes = 'yes'"
    """
    return Proportion(condition=condition, weight=weight_of(weight))
