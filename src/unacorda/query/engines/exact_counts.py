"""From what the engine counted to what each aggregate is given, and to the answers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from unacorda.bits import RandomBits
from unacorda.query.aggregates.answers import Answer, Exact
from unacorda.query.aggregates.grid_counts import GridCounts, Ranking
from unacorda.query.aggregates.measures import Measure
from unacorda.query.aggregates.threshold_counts import Climbers, Thresholds
from unacorda.query.allocation import Allocation
from unacorda.query.engines.protocol import Climbed, Tallies
from unacorda.query.plan.query import Query, Reads

__all__ = [
    "Given",
    "answers_of",
    "exact_of",
]


def answers_of(
    query: Query, allocation: Allocation, exact: Callable[[str], Exact], bits: RandomBits
) -> dict[str, Answer]:
    """The noisy answers, by the names of their columns; exact: what an aggregate is given."""
    answers: dict[str, Answer] = {}
    for name, aggregate in query.aggregates.items():
        found = aggregate.answers(exact(name), allocation.noises[name], bits)
        answers |= {f"{name}{part}": answer for part, answer in found.items()}
    return answers


def exact_of(query: Query, name: str, tallies: Tallies) -> Exact:
    """What one aggregate is given."""
    return Given.of(query, tallies).exact(name)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Given:
    """The engine's integers, and where each aggregate finds its own among them. Private.

    reads: what each reads; measures, rankings, ladders: their places in the tallies.
    """

    cells: int
    reads: Mapping[str, Reads]
    measures: Mapping[Measure, int]
    rankings: Mapping[Ranking, int]
    ladders: Mapping[Thresholds, int]
    tallies: Tallies
    _known: dict[Ranking, GridCounts] = field(default_factory=dict, init=False)

    @staticmethod
    def of(query: Query, tallies: Tallies) -> Given:
        """Of all aggregates of a question."""
        return Given(
            cells=len(query.keys),
            reads=query.reads,
            measures={measure: number for number, measure in enumerate(query.measures)},
            rankings={ranking: number for number, ranking in enumerate(query.rankings)},
            ladders={ladder: number for number, ladder in enumerate(query.ladders)},
            tallies=tallies,
        )

    def exact(self, name: str) -> Exact:
        """By cell, in the order of the public keys; no rows count as 0."""
        reads, tallies = self.reads[name], self.tallies
        return Exact(
            sums=tuple(self._summed(self.measures[measure]) for measure in reads.measures),
            rankings=tuple(self._counted(ranking) for ranking in reads.rankings),
            people=tuple(
                _climbers(ladder, self.cells, tallies.ladders[self.ladders[ladder]])
                for ladder in reads.ladders
            ),
        )

    def _counted(self, ranking: Ranking) -> GridCounts:
        """The counts of one ranking, the same for all who ask."""
        if ranking not in self._known:
            lines = self.tallies.rankings[self.rankings[ranking]]
            self._known[ranking] = GridCounts.of(ranking.steps, self.cells, lines)
        return self._known[ranking]

    def _summed(self, number: int) -> list[int]:
        column = [0] * self.cells
        for cell, value in zip(self.tallies.cells.tolist(), self.tallies.sums[number], strict=True):
            column[cell] = value
        return column

    def __repr__(self) -> str:
        return "Given(...)"


def _climbers(ladder: Thresholds, cells: int, tally: Climbed) -> Climbers:
    """The people of every cell by rungs passed; no people count as 0."""
    people = np.zeros((cells, len(ladder.rungs) + 1), dtype=np.int64)
    totals: list[dict[int, int]] = [{} for _ in range(cells)]
    at, passed, count, sums = tally
    people[at, passed] = count
    for cell, rung, total in zip(at.tolist(), passed.tolist(), sums, strict=True):
        totals[cell][rung] = total
    return Climbers(people=people, totals=totals)
