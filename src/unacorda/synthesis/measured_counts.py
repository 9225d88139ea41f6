"""Counts, proportions and means of the data from the measured tables, with intervals.

The measured tables that contain a set of columns are several noisy views of the same counts. Counts
over columns r are a sum of parts, one for each s within r: the interaction of the columns s beyond
all smaller sets. A table with the columns s measures the part of s, and the parts of one table have
independent noise. So the best linear unbiased estimate averages each part over all tables that
measure it, with weights of 1 over their variances. A ratio of two such sums has Fieller's interval.

The intervals are for the rows of the data as they are counted (bounded, each in its cell), not for
a population from which these were drawn.

Source: docs/proofs/synthesis.md, section 5. Parts of tables: Scheffe 1959, "The Analysis of
Variance", Section 4.1; ratios: Fieller 1954, doi:10.1111/j.2517-6161.1954.tb00159.x.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unacorda.checks import Number
from unacorda.mechanisms.noise.error_bounds import laplace_quantile, normal_quantile
from unacorda.synthesis.junction_tree import Columns, Floats, broadcast, sum_to
from unacorda.synthesis.model import NoisyMarginal


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredValue:
    """A number of the data, estimated from the measured tables of a synthesis.

    Attributes
    ----------
    value
        The estimate. NaN if the noise leaves no rows in the denominator.
    standard_error
        The standard error of its noise.
    lower, upper
        An interval that covers the number of the data with at least this confidence.
    confidence
        The confidence.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> people = pandas.DataFrame({"id": range(600), "smoker": [True, False, False] * 200})
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> with unacorda.Session(
    ...     {"people": people}, unit=unit, budget=unacorda.ZCDP(1), bits=bits
    ... ) as session:
    ...     synthesis = session.table("people").synthesize(["smoker"], workload=1)
    ...     synthetic = session.evaluate(synthesis, budget=unacorda.ZCDP(1))
    >>> smokers = synthetic.measured.count({"smoker": True})
    >>> round(smokers.value), round(smokers.standard_error, 1), smokers.confidence
    (200, 0.7, 0.95)
    """

    value: float
    standard_error: float
    lower: float
    upper: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.lower:.4g} to {self.upper:.4g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCounts:
    """The best linear unbiased estimate of the counts over some columns.

    counts: of the shape of their cells; variances: by the columns of a part, of each cell of the
    table over these columns, before it is spread over the cells of all.
    """

    columns: Columns
    counts: Floats
    variances: Mapping[Columns, float]

    def covariance(self, first: Floats, second: Floats) -> float:
        """Of the sums of the counts with these weights, of the shape of the cells."""
        found = 0.0
        for part, variance in self.variances.items():
            one, two = (_part(sum_to(x, self.columns, part)) for x in (first, second))
            found += variance * (one.size / self.counts.size) ** 2 * float((one * two).sum())
        return found

    @property
    def standard_error(self) -> float:
        """Of each cell."""
        unit = np.zeros_like(self.counts)
        unit[(0,) * unit.ndim] = 1.0
        return math.sqrt(self.covariance(unit, unit))

    def total(self, weights: Floats, *, deviations: float, confidence: float) -> MeasuredValue:
        """The sum of the counts with these weights, 0 or above.

        deviations: half the width of its interval, in standard deviations.
        """
        value = float((weights * self.counts).sum())
        error = math.sqrt(self.covariance(weights, weights))
        low, high = value - deviations * error, value + deviations * error
        return MeasuredValue(
            value=value,
            standard_error=error,
            lower=max(low, 0.0),
            upper=max(high, 0.0),
            confidence=confidence,
        )

    def ratio(
        self,
        numerators: Sequence[Floats],
        denominator: Floats,
        *,
        limits: tuple[float, float],
        deviations: float,
        confidence: float,
    ) -> MeasuredValue:
        """A sum of the counts over another.

        numerators: weights of the estimate, of a lower bound and of an upper bound, which may be
        equal; limits: the range of the ratio for all data.
        """
        value, lower, upper = (
            self._fieller(one, denominator, limits=limits, deviations=deviations)
            for one in numerators
        )
        return MeasuredValue(
            value=value[0],
            standard_error=value[1],
            lower=lower[2],
            upper=upper[3],
            confidence=confidence,
        )

    def _fieller(
        self,
        numerator: Floats,
        denominator: Floats,
        *,
        limits: tuple[float, float],
        deviations: float,
    ) -> tuple[float, float, float, float]:
        """The ratio, its standard error, and its interval.

        p is in it where numerator - p * denominator is within its noise of 0. Where the noise does
        not tell the denominator from 0 it is all that is possible.
        """
        low, high = limits
        top, bottom = (float((x * self.counts).sum()) for x in (numerator, denominator))
        of_top, of_bottom = (self.covariance(x, x) for x in (numerator, denominator))
        of_both = self.covariance(numerator, denominator)
        if bottom <= 0:
            return math.nan, math.inf, low, high
        value = min(max(top / bottom, low), high)
        error = math.sqrt(max(of_top - 2 * value * of_both + value**2 * of_bottom, 0.0)) / bottom
        square = deviations**2
        a, b = bottom**2 - square * of_bottom, top * bottom - square * of_both
        if a <= 0:
            return value, error, low, high
        root = math.sqrt(max(b**2 - a * (top**2 - square * of_top), 0.0))
        lower, upper = (min(max(end / a, low), high) for end in (b - root, b + root))
        return value, error, lower, upper


def measured_counts(
    marginals: Iterable[NoisyMarginal], columns: Columns, *, sizes: Sequence[int]
) -> MeasuredCounts | None:
    """The best linear unbiased estimate of the counts over some columns, from all measured tables.

    None if no measured table holds the columns; sizes: how many cells each column has.

    >>> one = NoisyMarginal(columns=(0,), counts=np.array([12.0, 8.0]), variance=1.0)
    >>> two = NoisyMarginal(columns=(1,), counts=np.array([10.0, 12.0]), variance=1.0)
    >>> found = measured_counts([one, two], (0,), sizes=(2, 2))
    >>> found.counts.tolist(), found.standard_error
    ([12.5, 8.5], 0.866...)
    """
    seen = list(marginals)
    if not any(set(columns) <= set(one.columns) for one in seen):
        return None
    shape = [sizes[a] for a in columns]
    counts = np.zeros(shape)
    variances: dict[Columns, float] = {}
    for size in range(len(columns) + 1):
        for part in itertools.combinations(columns, size):
            cells = math.prod(sizes[a] for a in part)
            total, precision = np.zeros([sizes[a] for a in part]), 0.0
            for one in seen:
                if set(part) <= set(one.columns):
                    weight = cells / (one.counts.size * one.variance)
                    total = total + weight * sum_to(one.counts, one.columns, part)
                    precision += weight
            own = _part(total / precision) * (cells / counts.size)
            counts += broadcast(own, part, columns, sizes)
            variances[part] = 1 / precision
    return MeasuredCounts(columns=columns, counts=counts, variances=variances)


def noise_deviations(confidence: Number, *, laplace: bool) -> float:
    """The half width, in standard deviations, of an interval for a sum of independent noises.

    laplace: whether the noise has Laplace tails. Then it is that of a single Laplace variable,
    which no weighted sum exceeds from 95% on, or the normal one if that is larger.
    """
    normal = float(normal_quantile(confidence))
    return max(normal, float(laplace_quantile(confidence)) / math.sqrt(2)) if laplace else normal


def _part(table: Floats) -> Floats:
    """What a table adds to all tables over fewer of its columns: with the mean of each axis 0."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
