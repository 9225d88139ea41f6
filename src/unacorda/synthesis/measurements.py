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
from typing import Final

import numpy as np

from unacorda.checks import Number, demand
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.error_bounds import laplace_quantile, normal_quantile
from unacorda.synthesis.domain import BinnedColumn
from unacorda.synthesis.junction_tree import Columns, Floats, broadcast, sum_to
from unacorda.synthesis.model import NoisyMarginal
from unacorda.synthesis.plan import Condition, SynthesisPlan, check_condition

_CONFIDENCE: Final = 0.95


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Measurements:
    """The measured tables of a synthesis, for estimates with intervals that include the noise.

    The estimates are of the rows of the data as they were counted, after contribution bounding.
    They use neither the model nor the synthetic rows, and are not about a population. Each measured
    table has noise of its own, also if it was chosen after earlier answers; see
    docs/proofs/synthesis.md, section 5.

    Attributes
    ----------
    plan
        The columns and their cells.
    marginals
        The measured tables.
    laplace
        Whether the noise has the tails of the Laplace distribution.

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
    >>> print(synthetic.measured.count())
    599 (596.5 to 601.5)
    >>> print(synthetic.measured.proportion({"smoker": True}))
    0.3339 (0.332 to 0.3358)
    """

    plan: SynthesisPlan
    marginals: Mapping[Columns, NoisyMarginal]
    laplace: bool

    def __repr__(self) -> str:
        return f"Measurements({len(self.marginals):,} tables)"

    def counts(self, columns: Columns) -> MeasuredCounts | None:
        """The estimated counts over some places of columns; None where no table holds them."""
        return measured_counts(self.marginals.values(), columns, sizes=self.plan.domain.sizes)

    def count(
        self, where: Condition | None = None, *, confidence: Number = _CONFIDENCE
    ) -> MeasuredValue:
        """Estimate the number of rows of the data, all or those that meet a condition.

        The interval includes only the noise. It is for the rows of the data as they were counted,
        bounded and each in its cell, not for a population.

        Parameters
        ----------
        where
            By column, one label or several, as {"county": "A"}. All rows by default.
        confidence
            The confidence of the interval.

        Returns
        -------
        MeasuredValue
            The estimate with its interval.

        Raises
        ------
        InvalidParameter
            For unknown columns and labels, and for columns that no measured table has together.
        """
        given = _given(where)
        columns, seen = self._held(given)
        met = self._weights(columns, given)
        return seen.total(met, **self._interval(confidence))

    def proportion(
        self,
        event: Condition,
        *,
        where: Condition | None = None,
        confidence: Number = _CONFIDENCE,
    ) -> MeasuredValue:
        """Estimate the share of the data's rows that meet a condition.

        The interval is for the rows of the data, as in `count`.

        Source: Fieller 1954; docs/proofs/synthesis.md, section 5.

        Parameters
        ----------
        event
            By column, one label or several, as {"county": "A"}.
        where
            A condition on the rows in the denominator. All rows by default.
        confidence
            The confidence of the interval.

        Returns
        -------
        MeasuredValue
            The estimate with its interval.

        Raises
        ------
        InvalidParameter
            As `count`.
        """
        check_condition("event", event)
        demand(event, "event", event, expected="conditions on one or more columns")
        given = _given(where)
        columns, seen = self._held({**event, **given})
        among = self._weights(columns, given)
        return seen.ratio(
            [among * self._weights(columns, event)] * 3,
            among,
            limits=(0.0, 1.0),
            **self._interval(confidence),
        )

    def mean(
        self,
        column: str,
        *,
        where: Condition | None = None,
        confidence: Number = _CONFIDENCE,
    ) -> MeasuredValue:
        """Estimate the mean of a column's numbers in the data's rows.

        Numbers outside the edges count as the nearest edge; missing ones are skipped. The estimate
        places each number in the middle of its bin. The interval includes the noise and the width
        of the bins: it covers the mean for all positions of the numbers in their bins.

        Parameters
        ----------
        column
            A column with bins of numbers.
        where
            A condition on the rows that count. All rows by default.
        confidence
            The confidence of the interval.

        Returns
        -------
        MeasuredValue
            The estimate with its interval.

        Raises
        ------
        InvalidParameter
            As `count`, and for columns without bins of numbers.
        """
        given = _given(where)
        columns, seen = self._held({column: None, **given})
        (place,) = self.plan.domain.places([column])
        bins = self.plan.domain.columns[place]
        fits = isinstance(bins, BinnedColumn) and not bins.dates
        demand(fits, "column", column, expected="a column with bins of numbers")
        assert isinstance(bins, BinnedColumn)
        lowest, highest = bins.ends
        among = self._weights(columns, given)
        shape = [-1 if a == place else 1 for a in columns]
        present = np.arange(bins.size) < len(lowest)

        def spread(numbers: Floats) -> Floats:
            padded = np.zeros(bins.size)
            padded[: len(numbers)] = numbers
            return among * padded.reshape(shape)

        return seen.ratio(
            [spread((lowest + highest) / 2), spread(lowest), spread(highest)],
            among * present.reshape(shape),
            limits=(float(lowest[0]), float(highest[-1])),
            **self._interval(confidence),
        )

    def _held(self, condition: Condition) -> tuple[Columns, MeasuredCounts]:
        """The columns of a condition, and the estimate of their counts."""
        columns = places_of(self.plan, tuple(condition))
        found = self.counts(columns)
        if found is None:
            several = sorted(held for held in self.marginals if len(held) > 1)
            known = [" and ".join(self.plan.domain.names[a] for a in held) for held in several]
            expected = f"columns that were measured together: {'; '.join(known) or 'one alone'}"
            raise InvalidParameter("columns", tuple(condition), expected=expected)
        return columns, found

    def _weights(self, columns: Columns, condition: Condition) -> Floats:
        """1 for the cells over the columns that meet a condition, 0 for others."""
        return self.plan.met(columns, condition).astype(np.float64)

    def _interval(self, confidence: Number) -> dict[str, float]:
        """How many standard deviations wide an interval is, and its confidence."""
        deviations = noise_deviations(confidence, laplace=self.laplace)
        return {"deviations": deviations, "confidence": float(confidence)}


def _given(where: Condition | None) -> Condition:
    """A condition that may be none."""
    if where is not None:
        check_condition("where", where)
    return where or {}


def places_of(plan: SynthesisPlan, names: Sequence[str]) -> Columns:
    """The positions of different columns whose table has at most `max_cells` cells."""
    columns = plan.domain.places(names)
    demand(len(columns) == len(names), "columns", names, expected="different columns")
    expected = f"a table of at most {plan.max_cells} cells"
    demand(plan.cells(columns) <= plan.max_cells, "columns", names, expected=expected)
    return columns
