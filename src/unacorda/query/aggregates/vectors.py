r"""Sums of vectors, each row's cut to a public length: gradients and moments, in the engine.

A row's numbers v_1, ..., v_p are multiplied by min(1, norm / |v|), put on whole multiples of a
public unit and added exactly. So one row is worth a vector of length `norm` at most, and whatever
direction it has, the price is that of the length alone: with normal noise no more for a hundred
numbers than for one. A row in which one of the numbers is missing adds nothing.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast
from unacorda.query.aggregates.arguments import expression_of, weight_of
from unacorda.query.noise.additive import CONFIDENCE, AdditiveNoise, Share, additive_noise
from unacorda.query.noise.sensitivity import Sensitivity, of_balls
from unacorda.query.schema.quoting import double
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Reach, Unit

__all__ = ["VectorSum", "vector_sum"]

_MOST = 1000
_FARTHEST = Fraction(10) ** 100
_UNITS_LOG2 = 40
"""The length is about 2^40 units: 2^80 rows fit into 128 bits."""
_CUT = 2.0**20
"""Single numbers are cut at so many lengths, so that their squares stay finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSum(Aggregate):
    """The sums of several number columns, each row's vector of them cut to a length.

    columns: as the caller wrote them; norm: the length, in the l2 norm.
    """

    tag: ClassVar[str] = "vectorsum"

    columns: tuple[str, ...]
    norm: Fraction

    def bound_to(self, scope: Scope) -> VectorSum:
        """The same, its columns looked up."""
        found = tuple(expression_of(column, scope) for column in self.columns)
        return dataclasses.replace(self, expressions=found)

    @property
    def parts(self) -> tuple[str, ...]:
        """One for each column, by its place."""
        return tuple(f"_{place}" for place in range(len(self.columns)))

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its columns."""
        return self.columns

    @property
    def length(self) -> float:
        """The length as the float that the engine reckons with."""
        return float(self.norm)

    @property
    def unit_log2(self) -> int:
        """Sums are whole multiples of 2^unit_log2."""
        return math.frexp(self.length)[1] - _UNITS_LOG2

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell; no row raises."""
        del unit
        end = double(self.length * _CUT)
        inside = [f"greatest(least({value}, {end}), -{end})" for value in values]
        # NULL where a number is missing: GREATEST and LEAST would leave it out.
        present = " AND ".join(f"{value} IS NOT NULL" for value in values)
        square = " + ".join(f"({number}) * ({number})" for number in inside)
        scale, length = double(2.0**-self.unit_log2), double(self.length)
        whole = double(self.length * self.length)
        factor = (
            f"CASE WHEN {square} <= {whole} THEN {scale} "
            f"ELSE {length} / sqrt({square}) * {scale} END"
        )
        return tuple(
            f"sum(CASE WHEN {present} THEN CAST(round(({number}) * ({factor})) AS BIGINT) END)"
            for number in inside
        )

    def _sensitivity(self, reach: Reach) -> Sensitivity:
        # Squares, their sum, a root, a quotient and two products err by less than 2^-40 of the
        # length together; rounding to units by half a unit a number.
        exact = Fraction(self.length) * Fraction(2) ** -self.unit_log2
        rounded = math.isqrt(len(self.columns)) + 1
        radius = math.ceil(exact * (1 + Fraction(1, 1 << 40))) + rounded
        return of_balls(reach, radius=radius, size=len(self.columns))

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, of each number."""
        return additive_noise(
            share, self._sensitivity(reach), unit_log2=self.unit_log2, counts=False
        )

    def answers(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Mapping[str, Answer]:
        """Noisy sums with their errors, one answer a column."""
        p = len(self.columns)
        cells = [number for cell in zip(*exact.sums, strict=True) for number in cell]
        noisy = [float(value) for value in noise.release(cells, bits=bits)]
        error, width = noise.standard_deviation, noise.half_width(CONFIDENCE)
        return {
            part: Answer(
                values=noisy[place::p],
                standard_errors=[error] * (len(noisy) // p),
                lower=[value - width for value in noisy[place::p]],
                upper=[value + width for value in noisy[place::p]],
            )
            for place, part in enumerate(self.parts)
        }

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
        """The error of each number about the sum of cut vectors, known beforehand."""
        del assume
        return Forecast(
            noise=f"{noise} on each of {len(self.columns)} numbers",
            sensitivity=self._sensitivity(reach).reason,
            standard_error=noise.standard_deviation,
            half_width=noise.half_width(CONFIDENCE),
            notes=(_cutting(self.length),),
        )


def vector_sum(columns: Sequence[str], *, norm: Number, weight: Number = 1) -> VectorSum:
    """Sum several columns (or expressions), the vector of each row cut to a public length.

    columns: 1 to 1000 of them; norm: above 0, the length in the l2 norm, to which longer vectors
    are shortened, keeping their direction. A row with a missing number adds nothing. Answers are
    named after the aggregate and the place of the column: `g_0`, `g_1`, .... Under normal noise
    the error does not depend on how many there are. weight: as for `count`.

    >>> vector_sum(["x", "x * x"], norm=2).parts
    ('_0', '_1')
    """
    if isinstance(columns, str) or not 1 <= len(columns) <= _MOST:
        raise InvalidParameter("columns", columns, expected=f"a list of 1 to {_MOST} columns")
    length = checks.exact("norm", norm)
    if not 1 / _FARTHEST <= length <= _FARTHEST:
        raise InvalidParameter("norm", norm, expected="a number from 1e-100 to 1e100")
    return VectorSum(columns=tuple(columns), norm=length, weight=weight_of(weight))


def _cutting(length: float) -> str:
    return (
        f"vectors longer than {length:g} are cut to that length; by how much that moves the sums "
        "is not known"
    )
