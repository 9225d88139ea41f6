r"""How many different values a column has, among the bounded rows.

A person takes away no more values than she has rows, and another who takes her place brings no more
than that: in a cell with k rows of the one and k' of the other the number moves by at most
max(k, k'). So its sensitivity is that of a count of rows. Which values there are is never told.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tacet.bits import RandomBits
from tacet.checks import Number
from tacet.query.aggregates.aggregate import Single
from tacet.query.aggregates.answers import Answer, Assume, Exact, Forecast
from tacet.query.aggregates.arguments import CONFIDENCE, expression_of, weight_of
from tacet.query.aggregates.counts import released
from tacet.query.noise import AdditiveNoise, Share, additive_noise
from tacet.query.scope import Scope
from tacet.query.sensitivity import of_counts
from tacet.query.units import Reach, Unit

__all__ = ["CountDistinct", "count_distinct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDistinct(Single):
    """How many different values there are, NULL not among them."""

    column: str

    def bound_to(self, scope: Scope) -> CountDistinct:
        """The same, its column looked up."""
        counted = expression_of(self.column, scope, numeric=False)
        return dataclasses.replace(self, expressions=(counted,))

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, an exact integer a cell."""
        del unit
        zero = " + 0.0e0" if self.expression.kind.numeric else ""  # -0.0 is 0.0
        return (f"count(DISTINCT {values[0]}{zero})",)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share."""
        return additive_noise(share, of_counts(reach), unit_log2=0, counts=True)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy numbers with their errors."""
        return released(exact, noise, bits)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
        """The error, known beforehand."""
        del assume
        return Forecast(
            noise=str(noise),
            sensitivity=f"{of_counts(reach).reason}, and no more values than rows",
            standard_error=noise.standard_deviation,
            half_width=noise.half_width(CONFIDENCE),
            notes=("values that only dropped rows have are not counted",),
        )


def count_distinct(column: str, *, weight: Number = 1) -> CountDistinct:
    """Count the different values of a column or expression: numbers, text, dates, booleans.

    NULL is none of them; text differs by its code points. Counted are the values of the bounded
    rows: a person's rows beyond her limits take values along that nobody else has. The noise grows
    with the number of rows a person may bring, so that for many distinct values of few people a
    smaller limit tells more. Weight as in `count`.

    >>> count_distinct("product").column
    'product'
    """
    return CountDistinct(column=column, weight=weight_of(weight))
