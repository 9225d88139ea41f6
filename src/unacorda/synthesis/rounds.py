"""Rounds of a synthesis: choose tables where the model errs, measure them, fit the model again.

First every single column is measured; with what share of the budget follows from how many rows
there seem to be (`singles_share`). Then each round scores the tables that may still be added,
chooses a few of them by scores with noise, and measures these. A score counts each cell where the
model errs by more than a deviation of the noise, by how much more. Where a round moves the model
by less than its noise, the amounts of later rounds are twice as large; the last round takes all
that is left. Every decision depends on noisy answers and public facts alone.

Source: McKenna, Mullins, Sheldon, Miklau 2022, arXiv:2201.12677 (AIM), whose rounds these follow;
thresholds, batches and shares are this package's: docs/proofs/synthesis.md, section 3.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.synthesis.charges import CountNoise, Shares
from unacorda.synthesis.junction_tree import ColumnGraph, Columns
from unacorda.synthesis.model import MarginalModel, NoisyMarginal, average, fit_model
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.sensitivity import CountSensitivity
from unacorda.synthesis.tables import Candidate, PrivateTables

_GROWTH: Final = 2
_PICKS: Final = 4  # for each column
_TENTHS: Final = 7  # of the budget, for single columns at most
_SINGLE_ERROR: Final = 0.05
_MOST_SCORED: Final = 500
_ITERATIONS: Final = 30
_LAST_ITERATIONS: Final = 100
_ABSOLUTE_NORMAL: Final = math.sqrt(2 / math.pi)  # E|X| of a standard normal
_ABSOLUTE_LAPLACE: Final = math.sqrt(1 / 2)  # likewise, of the Laplace law of deviation 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSummary:
    """What a round did; all of it is released.

    tables: by their columns; deviation: of the noise in each cell; moved: the share of the tables
    for which the model moved by more than the noise; left: the share of the budget.
    """

    tables: tuple[Columns, ...]
    deviation: float
    moved: float
    left: float


Watch = Callable[[RoundSummary], None]


def planned_picks(plan: SynthesisPlan) -> int:
    """How many tables the amounts of the first rounds are planned for."""
    return _PICKS * len(plan.domain.columns)


def batch_size(plan: SynthesisPlan) -> int:
    """How many tables a round measures at most."""
    return max(2, len(plan.domain.columns) // 4)


def singles_share(
    plan: SynthesisPlan,
    shares: Shares,
    sensitivity: CountSensitivity,
    *,
    amount: Fraction,
    rows: float,
) -> Fraction:
    """The share of an amount that measures single columns: a tenth, or more where rows are few.

    The least number of tenths with which noise moves less than 5 in 100 rows of a single column,
    in the mean over the columns; 7 at most. All of it where no tables of several columns count.
    """
    if all(len(columns) == 1 for columns in plan.tables):
        return Fraction(1)
    sizes = plan.domain.sizes
    mean = sum(sizes) / len(sizes)
    for tenths in range(1, _TENTHS):
        noise = shares.noise(amount * tenths / 10 / len(sizes), sensitivity.counts)
        if mean * _absolute(noise) / 2 <= _SINGLE_ERROR * rows:
            return Fraction(tenths, 10)
    return Fraction(_TENTHS, 10)


def _absolute(noise: CountNoise) -> float:
    """The mean size of a number's noise."""
    laplace = isinstance(noise, DiscreteLaplace)
    of_deviation = _ABSOLUTE_LAPLACE if laplace else _ABSOLUTE_NORMAL
    return float(noise.standard_deviation) * of_deviation


class Rounds:
    """The measurements of a synthesis and the model of them, as they grow."""

    def __init__(
        self,
        private: PrivateTables,
        plan: SynthesisPlan,
        *,
        amount: Fraction,
        generator: np.random.Generator,
        watch: Watch | None = None,
    ) -> None:
        self.private, self.plan, self.amount = private, plan, amount
        self.generator, self.watch = generator, watch
        self.sizes, self.possible = plan.domain.sizes, plan.possible()
        self.weights = plan.candidates()
        self.cells = {columns: plan.cells(columns) for columns in self.weights}
        self.marginals: dict[Columns, NoisyMarginal] = {}
        self.summaries: list[RoundSummary] = []
        self.spent = Fraction(0)
        self.model = MarginalModel(self.sizes, {}, possible=self.possible)

    @property
    def rows(self) -> float:
        """How many rows, by the noisy sums of all tables, each weighted by 1 / its variance."""
        pairs = [
            (1 / (seen.variance * seen.counts.size), float(seen.counts.sum()))
            for seen in self.marginals.values()
        ]
        mean = sum(weight * total for weight, total in pairs) / sum(weight for weight, _ in pairs)
        return max(mean, 1.0)

    def run(self) -> None:
        """Spend the whole amount."""
        for rows in (math.inf, None):
            share = self._singles_share(rows)
            if share * self.amount > self.spent:
                self._measure_singles(share * self.amount - self.spent)
        self._fit()
        each = (self.amount - self.spent) / planned_picks(self.plan)
        while self.spent < self.amount:
            left = self.amount - self.spent
            count = min(batch_size(self.plan), int(left / each))
            if count < 1:
                count, each = 1, left
            elif left - count * each < each:
                each = left / count
            if self._round(count, each) < 1 / 2:
                each *= _GROWTH

    def _singles_share(self, rows: float | None) -> Fraction:
        """Of the amount; by default for as many rows as there seem to be."""
        private = self.private
        return singles_share(
            self.plan,
            private.shares,
            private.sensitivity,
            amount=self.amount,
            rows=self.rows if rows is None else rows,
        )

    def _round(self, count: int, each: Fraction) -> float:
        """Choose and measure several tables for this amount each; the share that moved."""
        share = self.private.shares.selection
        noise = self.private.shares.noise(each * (1 - share), self.private.sensitivity.counts)
        deviation, absolute = float(noise.standard_deviation), _absolute(noise)
        used = (self.spent + count * each) / self.amount
        limit = self.plan.max_cells * min(1.0, float(used))
        several = [held for held in self.marginals if len(held) > 1]
        graphs = [ColumnGraph(self.sizes, [*several, *self.possible])]  # by tables of this round
        candidates = self._candidates(graphs[0], limit, deviation=deviation)

        def apart(candidate: Candidate, chosen: Sequence[Candidate]) -> bool:
            own = set(candidate.columns)
            if any(len(own & set(other.columns)) >= 2 for other in chosen):
                return False
            for other in chosen[len(graphs) - 1 :]:
                graphs.append(graphs[-1].joined(other.columns))
            return graphs[-1].joined(candidate.columns).cells <= limit

        chosen = self.private.choose(candidates, count=count, amount=each * share, apart=apart)
        self.spent += each * share * len(chosen)
        if not chosen:  # no table may be added
            self._measure_singles(self.amount - self.spent)
            self._fit()
            return 1.0
        for candidate in chosen:
            self._measure(candidate.columns, each * (1 - share))
        self._fit()
        moved = 0
        for candidate in chosen:
            found = self.model.marginal(candidate.columns) * self.rows
            change = float(np.abs(found - candidate.expected).sum())
            moved += change > absolute * candidate.expected.size
        summary = RoundSummary(
            tables=tuple(candidate.columns for candidate in chosen),
            deviation=deviation,
            moved=moved / len(chosen),
            left=1 - float(self.spent / self.amount),
        )
        self.summaries.append(summary)
        if self.watch is not None:
            self.watch(summary)
        return summary.moved

    def _candidates(self, graph: ColumnGraph, limit: float, *, deviation: float) -> list[Candidate]:
        """The tables of a junction tree within the limit, with what the model expects of them."""
        fitting = [columns for columns in self.weights if self.cells[columns] <= limit]
        if len(fitting) > _MOST_SCORED:
            drawn = self.generator.choice(len(fitting), _MOST_SCORED, replace=False)
            fitting = [fitting[i] for i in sorted(drawn.tolist())]
        rows, found = self.rows, []
        for columns in fitting:
            held = self.model.tree.home(columns) is not None
            if not held and graph.joined(columns).cells > limit:
                continue
            found.append(
                Candidate(
                    columns=columns,
                    weight=self.weights[columns],
                    expected=self.model.marginal(columns) * rows,
                    threshold=deviation,
                )
            )
        return found

    def _measure(self, columns: Columns, amount: Fraction) -> None:
        seen = self.private.measure(columns, amount=amount)
        self.spent += amount
        before = self.marginals.get(columns)
        self.marginals[columns] = seen if before is None else average(before, seen)

    def _measure_singles(self, amount: Fraction) -> None:
        """Every single column, in equal parts of the amount."""
        for place in range(len(self.sizes)):
            self._measure((place,), amount / len(self.sizes))

    def _fit(self) -> None:
        self.model = fit_model(
            self.sizes,
            list(self.marginals.values()),
            rows=self.rows,
            possible=self.possible,
            start=self.model.potentials,
            iterations=_ITERATIONS if self.spent < self.amount else _LAST_ITERATIONS,
        )
