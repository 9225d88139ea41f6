"""Means in which each row counts by another column.

A row with value x in [lower, upper] and weight w in [0, W] adds (w (x - lower), w (upper - x)) to a
pair of sums: not negative, and together at most W (upper - lower), in both norms. From the noisy
pair follow mean, error and interval as those of `mean`, with the sum of the weights in place of the
number of rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast
from unacorda.query.aggregates.arguments import weight_of
from unacorda.query.aggregates.moments import Splits
from unacorda.query.aggregates.pairs import OfTwo, Side, assumed_pairs, present, refuse_negative
from unacorda.query.aggregates.strategies import (
    moment_clamp,
)
from unacorda.query.aggregates.sums import Clamp
from unacorda.query.noise.additive import AdditiveNoise, Share, additive_noise
from unacorda.query.noise.sensitivity import Sensitivity, of_splits
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Reach, Unit

__all__ = ["WeightedMean", "weighted_mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedMean(OfTwo):
    """The mean of a number column, each row weighed by another column, both clamped."""

    tag: ClassVar[str] = "weightedmean"

    def bound_to(self, scope: Scope) -> WeightedMean:
        """The same, its columns looked up and their bounds known."""
        found = OfTwo.bound_to(self, scope)
        refuse_negative("weights_bounds", found.sides[1])
        return found

    @property
    def clamps(self) -> tuple[Clamp, Clamp]:
        """The public ranges in integers, of values and of weights; products fit in 63 bits."""
        (x, w), (first, second) = self.sides, self.expressions
        values = moment_clamp(first, x.lower, x.upper)
        weights = moment_clamp(second, Fraction(0), w.upper)
        assert w.lower is not None
        least = round(w.lower / Fraction(2) ** weights.unit_log2)
        return values, dataclasses.replace(weights, lower=min(least, weights.upper))

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
        (value, weight), (x, w) = values, self.clamps
        product = f"({x.sql(value)} - ({x.lower})) * {w.sql(weight)}"
        return tuple(f"sum({present(values, summed)})" for summed in (product, w.sql(weight)))

    @property
    def _widths(self) -> tuple[int, int]:
        """Of the range of values, and the largest weight, in their units."""
        values, weights = self.clamps
        return values.upper - values.lower, weights.upper

    def _sensitivity(self, reach: Reach) -> Sensitivity:
        return of_splits(reach, width=math.prod(self._widths))

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, for the pair of sums."""
        # So that the largest weight is between 1/2 and 1.
        unit_log2 = self.clamps[0].unit_log2 - self._widths[1].bit_length()
        return additive_noise(share, self._sensitivity(reach), unit_log2=unit_log2, counts=False)

    @property
    def _splits(self) -> Splits:
        values, _ = self.clamps
        low, high = values.absolute(values.lower), values.absolute(values.upper)
        return Splits(low=low, width=high - low)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy means with their errors."""
        above, weights = exact.sums
        width, _ = self._widths
        below = [width * w - a for a, w in zip(above, weights, strict=True)]
        return self._splits.release(above, below, noise, bits)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
        """The error: a table over the number of rows, or a number under assumptions.

        Where no weights are assumed, all are at their upper bound.
        """
        largest = self._widths[1] * 2.0 ** -self._widths[1].bit_length()
        middle, rows = None, assume
        if assume is not None:
            mean, inside = largest, assumed_pairs(assume, self.assumes)
            if inside is not None:
                x, w = inside
                clamp = self.clamps[1]
                low, high = clamp.absolute(clamp.lower), clamp.absolute(clamp.upper)
                w = np.clip(w, low, high) / high * largest
                x = np.clip(x, self._splits.low, self._splits.low + self._splits.width)
                mean = float(w.mean())
                middle = np.array([np.sum(w * x) / np.sum(w)]) if mean > 0 else None
            rows = Assume(rows=max(1, round(assume.rows * mean)))
        found = self._splits.forecast(
            noise,
            middle,
            rows,
            names="on each of two weighted sums, of x - lower and of upper - x",
            sensitivity=self._sensitivity(reach).reason,
            notes=(
                *self.clamping,
                *([] if assume else ["the errors by rows are for weights at their upper bound"]),
            ),
        )
        table = tuple((n, min(error / largest, self._splits.width / 2)) for n, error in found.table)
        return dataclasses.replace(
            found, table=table, assumed_rows=None if assume is None else assume.rows
        )


def weighted_mean(
    column: str,
    weights: str,
    bounds: tuple[Number, Number] | None = None,
    weights_bounds: tuple[Number, Number] | None = None,
    *,
    weight: Number = 1,
) -> WeightedMean:
    """The mean of a number column in which each row counts by another column.

    Over rows where both are present: the sum of weights times values over that of the weights.
    bounds, weights_bounds: (lower, upper) of each, by default as declared; weights are 0 at least.
    weight: of this aggregate in the budget, as in `count`.

    >>> weighted_mean("income", "persons", (0, 100_000), (0, 10)).assumes
    ('income', 'persons')
    """
    return WeightedMean(
        sides=(
            Side.of("bounds", column, bounds),
            Side.of("weights_bounds", weights, weights_bounds),
        ),
        weight=weight_of(weight),
    )
