"""Forecasts of a synthesis: its measurements, noise and errors, free and from public facts."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import fmean
from typing import Any, Final

import numpy as np

from unacorda import checks
from unacorda.bits import SeededBits
from unacorda.checks import Number
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors
from unacorda.synthesis.charges import shares_within
from unacorda.synthesis.measured_errors import half_width, mean_half_width
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import synthesize
from unacorda.synthesis.rounds import planned_picks, singles_share
from unacorda.synthesis.sensitivity import CountSensitivity
from unacorda.synthesis.tables import CodedRows, CountTables

_TRIALS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisForecast:
    """The noise of a synthesis, computed before anything is spent.

    `print` shows it as text.

    Attributes
    ----------
    columns
        By column, the number of its cells. For cells that are found privately, it is the most bins
        that there can be, without the texts.
    tables
        The number of tables in the workload.
    candidates
        The number of tables of two columns or more that may be measured.
    planned
        The number of tables that the budget is allocated for. If rounds find little, fewer are
        measured, each with less noise.
    single_deviation, table_deviation
        The standard deviation of the noise in a cell: of a single column, and of a table that is
        chosen in the first round.
    half_width, mean_half_width
        Half of the interval of a measured error, in rows that lie in another cell: for a table, and
        for the mean of all tables. None if no errors are measured.
    event
        The privacy event of the whole release: its most possible cost.
    found
        By column, how cells that are not public are found.
    expected_errors
        The mean error of the workload's tables in each trial on an assumed table, in total
        variation. Empty if none is assumed.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> people = pandas.DataFrame({"id": range(600), "smoker": [True, False, False] * 200})
    >>> people["active"] = [True, False] * 300
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with unacorda.Session({"people": people}, unit=unit, budget=unacorda.ZCDP(1)) as session:
    ...     synthesis = session.table("people").synthesize(["smoker", "active"], workload=2)
    ...     forecast = session.explain(synthesis, budget=unacorda.ZCDP(1))
    >>> forecast.columns, round(forecast.single_deviation, 1), forecast.rows_needed
    ({'smoker': 3, 'active': 3}, 3.2, 10)
    """

    columns: dict[str, int]
    tables: int
    candidates: int
    planned: int
    single_deviation: float
    table_deviation: float | None
    half_width: float | None
    mean_half_width: float | None
    event: Event
    found: Mapping[str, str] = field(default_factory=dict)
    expected_errors: tuple[float, ...] = ()

    @property
    def expected_error(self) -> float | None:
        """The mean of `expected_errors`; None if no table is assumed."""
        return fmean(self.expected_errors) if self.expected_errors else None

    @property
    def rows_needed(self) -> int:
        """The number of rows at which an average cell of each column is as large as its noise.

        With fewer rows little is learned. Use fewer cells or a larger budget then.
        """
        return math.ceil(max(self.columns.values(), default=1) * self.single_deviation)

    def __str__(self) -> str:
        cells = ", ".join(f"{name} {count}" for name, count in self.columns.items())
        lines = [
            f"Cells: {cells or 'found privately alone'}.",
            f"Noise in each cell of a single column: deviation {self.single_deviation:.3g}.",
            f"With fewer than {self.rows_needed:,} rows little is learned.",
        ]
        lines[1:1] = [f"Found privately for {name}: {how}." for name, how in self.found.items()]
        if self.table_deviation is not None:
            lines += [
                f"Tables that are chosen: about {self.planned:,} times one of {self.candidates:,}.",
                f"Noise in each cell of them: deviation {self.table_deviation:.3g}.",
            ]
        if self.half_width is not None and self.mean_half_width is not None:
            mean = f"{self.mean_half_width:.3g}"
            lines.append(
                f"Errors are measured to within {self.half_width:.3g} rows, their mean to {mean}."
            )
        if self.expected_error is not None:
            low, high = min(self.expected_errors), max(self.expected_errors)
            lines.append(
                f"Tried out {len(self.expected_errors)} times on the assumed table: mean error of "
                f"a table {self.expected_error:.4f} (from {low:.4f} to {high:.4f})."
            )
        return "\n".join(lines)


def forecast(
    plan: SynthesisPlan,
    *,
    budget: Guarantee,
    rows_per_unit: int,
    neighbors: Neighbors,
    assuming: int | CountTables | None = None,
    confidence: Number = Fraction(95, 100),
) -> SynthesisForecast:
    """Forecast the noise of `synthesize` with these arguments; raises the same errors.

    assuming: the number of rows, which determines the share of the single columns, by default many;
    or public counts that are assumed to be like those of the data. Then the whole synthesis runs on
    them with simulated noise, to estimate its errors.

    >>> from unacorda.privacy.guarantees import ZCDP
    >>> from unacorda.privacy.neighbors import AddRemove
    >>> from unacorda.synthesis.domain import BinnedColumn, Domain
    >>> age, cost = (BinnedColumn(name=name, edges=(0, 1, 2, 3)) for name in ("age", "cost"))
    >>> plan = SynthesisPlan(domain=Domain(columns=(age, cost)), workload=2)
    >>> print(forecast(plan, budget=ZCDP(0.1), rows_per_unit=1, neighbors=AddRemove))
    Cells: age 3, cost 3.
    Noise in each cell of a single column: deviation 10.3.
    With fewer than 31 rows little is learned.
    Tables that are chosen: about 8 times one of 1.
    Noise in each cell of them: deviation 7.21.
    Errors are measured to within 10 rows, their mean to 10.
    """
    shares = shares_within(budget)
    sensitivity = CountSensitivity(rows=rows_per_unit, neighbors=neighbors)
    report = Fraction(plan.report) * shares.total
    amount = shares.total - report
    trials: tuple[float, ...] = ()
    rows = math.inf
    if isinstance(assuming, int):
        rows = assuming
    elif assuming is not None:
        rows = int(assuming.counts((0,)).sum())
        trials = tuple(
            _trial(
                assuming,
                plan,
                budget=budget,
                rows_per_unit=rows_per_unit,
                neighbors=neighbors,
                bits=SeededBits(seed),
            )
            for seed in range(_TRIALS)
        )
    share = singles_share(plan, shares, sensitivity, amount=amount, rows=rows)
    singles, planned = share * amount, planned_picks(plan)
    width, tables = len(plan.domain.columns), len(plan.tables)
    single = shares.noise(singles / width, sensitivity.counts).standard_deviation
    table = half = mean = None
    if amount > singles:
        each = (amount - singles) / planned * (1 - shares.selection)
        table = shares.noise(each, sensitivity.counts).standard_deviation
    if report:
        noise = shares.noise(report, sensitivity.distances(tables))
        level = checks.exact("confidence", confidence)
        # Of half the differences.
        half = half_width(noise, level) / 2
        mean = mean_half_width(noise, level, tables=tables) / 2
    return SynthesisForecast(
        columns=dict(zip(plan.domain.names, plan.domain.sizes, strict=True)),
        tables=tables,
        candidates=sum(len(columns) > 1 for columns in plan.candidates()),
        planned=planned,
        single_deviation=float(single),
        table_deviation=None if table is None else float(table),
        half_width=half,
        mean_half_width=mean,
        event=shares.event,
        expected_errors=trials,
    )


def _trial(public: CountTables, plan: SynthesisPlan, **given: Any) -> float:
    """The mean error of the workload's tables where a public table is synthesized."""
    rows = synthesize(public, replace(plan, rows=None), **given).codes
    synthetic = CodedRows(rows, sizes=plan.domain.sizes)
    errors = []
    for columns in plan.tables:
        exact = public.counts(columns)
        off = np.abs(exact - synthetic.counts(columns)).sum()
        errors.append(float(off) / 2 / max(int(exact.sum()), 1))
    return fmean(errors)
