"""Counts, proportions and means of the original data, from the measured tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from unacorda.checks import Number, demand
from unacorda.errors import InvalidParameter
from unacorda.synthesis.domain import BinnedColumn
from unacorda.synthesis.junction_tree import Columns, Floats
from unacorda.synthesis.measured_counts import (
    MeasuredCounts,
    MeasuredValue,
    measured_counts,
    noise_deviations,
)
from unacorda.synthesis.model import NoisyMarginal
from unacorda.synthesis.plan import Condition, SynthesisPlan, check_condition

_CONFIDENCE: Final = 0.95


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
        found = np.ones([self.plan.domain.sizes[a] for a in columns])
        for place, cells in self.plan.meeting(condition).items():
            met = np.zeros(self.plan.domain.sizes[place])
            met[cells] = 1.0
            found = found * met.reshape([-1 if a == place else 1 for a in columns])
        return found

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
