"""Sums of clamped values, exact in a public unit until the noise is added."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.query.aggregates.aggregate import Single
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast
from unacorda.query.aggregates.arguments import bounds_of, expression_of, given_bounds, weight_of
from unacorda.query.aggregates.counts import released
from unacorda.query.aggregates.totals import Total
from unacorda.query.expressions.types import Expression, Kind
from unacorda.query.noise.additive import (
    CONFIDENCE,
    AdditiveNoise,
    Share,
    additive_noise,
    grid_unit,
)
from unacorda.query.noise.sensitivity import Sensitivity, of_sums
from unacorda.query.schema.quoting import double
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Reach, Unit

__all__ = ["Clamp", "Sum", "clamp_of", "clamping_note", "sum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clamp:
    """A public range as integers of a public unit: value = integer times 2^unit_log2.

    The bounds are rounded to the unit first, and values are clamped again as integers, since
    rounding after clamping could pass a bound. The unit depends on the bounds alone.
    """

    lower: int
    upper: int
    unit_log2: int

    @staticmethod
    @functools.lru_cache(maxsize=1_024)
    def of(lower: Fraction, upper: Fraction, *, whole: bool) -> Clamp:
        """The range as integers; whole: the values are known to be whole numbers."""
        unit_log2 = grid_unit(lower, upper, whole=whole)
        unit = Fraction(2) ** unit_log2
        low, high = round(lower / unit), round(upper / unit)
        return Clamp(lower=low, upper=max(high, low + 1), unit_log2=unit_log2)

    def sql(self, value: str) -> str:
        """SQL for the clamped integer of a nullable double; total, and NULL for NULL."""
        # Values between the ends times a power of two do not pass them, nor does what is rounded
        # then; those beyond are not multiplied, since that could pass the range of doubles.
        low, high = self.absolute(self.lower), self.absolute(self.upper)
        scale = 2.0**-self.unit_log2
        assert low * scale == self.lower
        assert high * scale == self.upper
        return (
            f"CAST(CASE WHEN {value} <= {double(low)} THEN {double(low * scale)} "
            f"WHEN {value} >= {double(high)} THEN {double(high * scale)} "
            f"ELSE round({value} * {double(scale)}) END AS BIGINT)"
        )

    def absolute(self, integer: int | Fraction) -> float:
        """An integer of the unit as a number."""
        return float(integer * Fraction(2) ** self.unit_log2)


def clamp_of(expression: Expression, lower: Fraction | None, upper: Fraction | None) -> Clamp:
    """The public range of a bound aggregate as integers."""
    assert lower is not None
    assert upper is not None
    return Clamp.of(lower, upper, whole=expression.kind is Kind.INTEGER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Single):
    """The sum of a number column, each value clamped to [lower, upper]."""

    tag: ClassVar[str] = "sum"

    column: str
    lower: Fraction | None
    upper: Fraction | None

    def bound_to(self, scope: Scope) -> Sum | Total:
        """The same, its column looked up and its bounds known; without any, a `Total`."""
        expression = expression_of(self.column, scope)
        if self.lower is None and not (-math.inf < expression.lower < expression.upper < math.inf):
            return Total.of(self.column, expression, self.weight)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        return dataclasses.replace(self, expressions=(expression,), lower=lower, upper=upper)

    @property
    def in_units(self) -> bool:
        """Its answer is in the unit of its column."""
        return True

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column,)

    @property
    def clamp(self) -> Clamp:
        """The public range in integers."""
        return clamp_of(self.expression, self.lower, self.upper)

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
        return (f"sum({self.clamp.sql(values[0])})",)

    def _sensitivity(self, reach: Reach) -> Sensitivity:
        return of_sums(reach, lower=self.clamp.lower, upper=self.clamp.upper)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share."""
        return additive_noise(
            share, self._sensitivity(reach), unit_log2=self.clamp.unit_log2, counts=False
        )

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy sums with their errors."""
        low, high = self.clamp.lower, self.clamp.upper
        limits = (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
        return released(exact, noise, bits, limits=limits)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
        """The error about the sum of clamped values, known beforehand."""
        del assume
        return Forecast(
            noise=str(noise),
            sensitivity=self._sensitivity(reach).reason,
            standard_error=noise.standard_deviation,
            half_width=noise.half_width(CONFIDENCE),
            notes=(clamping_note(self.lower, self.upper),),
        )


def sum(  # noqa: A001  # the public word is unacorda.sum
    column: str, lower: Number | None = None, upper: Number | None = None, *, weight: Number = 1
) -> Sum:
    """Sum a number column, each value clamped to the public range [lower, upper].

    Left out, the bounds are those declared of the column. Where there are none either, each
    person's total is cut at a level that is found privately with half of the share, and released
    beside the sum of cut totals (columns name_from and name_to): a sum without few of the people
    with the largest totals. With bounds that are near the truth, it is better to write them. NULL
    and NaN count for nothing; infinities are clamped. Weight as in `count`.

    >>> sum("income", 0, 100_000).upper
    Fraction(100000, 1)
    """
    low, high = given_bounds(lower, upper)
    return Sum(column=column, lower=low, upper=high, weight=weight_of(weight))


def clamping_note(lower: Fraction | None, upper: Fraction | None) -> str:
    """The sentence that names clamping without guessing its size."""
    assert lower is not None
    assert upper is not None
    return f"values are clamped to [{float(lower):g}, {float(upper):g}]; by how much is not known"
