"""From what the engine counted to what each aggregate is given, and to the answers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unacorda.bits import RandomBits
from unacorda.query.aggregates.answers import Answer, Exact
from unacorda.query.aggregates.grid_counts import (
    MOST_LINES,
    Aim,
    Asked,
    Counted,
    Lines,
    Ranking,
    Refined,
)
from unacorda.query.aggregates.threshold_counts import Climbers, Ladder
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
    measures: Mapping[str, int]
    rankings: Mapping[Ranking, int]
    ladders: Mapping[Ladder, int]
    tallies: Tallies
    _known: dict[Ranking, Counted] = field(default_factory=dict, init=False)
    _lines: dict[Ranking, Lines] = field(default_factory=dict, init=False)

    @staticmethod
    def of(query: Query, tallies: Tallies) -> Given:
        """Of all aggregates of a question."""
        return Given(
            cells=len(query.keys),
            reads=query.reads,
            measures={sql: number for number, sql in enumerate(query.measures)},
            rankings={ranking: number for number, ranking in enumerate(query.rankings)},
            ladders={ladder: number for number, ladder in enumerate(query.ladders)},
            tallies=tallies,
        )

    def sharpen(self, aims: Mapping[str, Sequence[Aim]]) -> None:
        """Ask at once for what draws would ask one by one; aims: where, by aggregate."""
        wanted: dict[Ranking, list[Aim]] = {}
        for name, listed in aims.items():
            for ranking in self.reads[name].rankings if listed else ():
                wanted.setdefault(ranking, []).extend(listed)
        near = {ranking: self._counted(ranking).near(listed) for ranking, listed in wanted.items()}
        asked = {self.rankings[key]: one for key, one in near.items() if one is not None}
        if not asked:
            return
        assert self.tallies.deeper is not None
        found = self.tallies.deeper.count(asked)
        for ranking in near:
            number = self.rankings[ranking]
            if number in asked:
                self._counted(ranking).sharpen(asked[number], found[number])

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

    def _counted(self, ranking: Ranking) -> Counted:
        """The counts of one ranking, the same for all who ask, so that they are read once."""
        if ranking not in self._known:
            number, deeper, whole = self.rankings[ranking], self.tallies.deeper, (0, self.cells)
            assert deeper is not None

            def read(first: int, end: int) -> Lines:
                if (first, end) == whole:
                    return self._whole(ranking)
                return deeper.first([number], (first, end))[0]

            def finer(asked: Asked) -> Refined:
                return deeper.count({number: asked})[number]

            self._known[ranking] = Counted(
                ranking=ranking,
                cells=self.cells,
                read=read,
                finer=finer if ranking.shift else None,
            )
        return self._known[ranking]

    def _whole(self, ranking: Ranking) -> Lines:
        """The counts of one ranking in all cells, read with those of others that are still due."""
        if ranking not in self._lines:
            assert self.tallies.deeper is not None
            together, lines = [ranking], ranking.bins * self.cells
            for other in self.rankings:
                lines += other.bins * self.cells
                due = other != ranking and other not in self._known and other not in self._lines
                if due and lines <= MOST_LINES:
                    together.append(other)
            numbers = [self.rankings[one] for one in together]
            found = self.tallies.deeper.first(numbers, None)
            self._lines.update(zip(together, found, strict=True))
        return self._lines.pop(ranking)

    def _summed(self, number: int) -> list[int]:
        column = [0] * self.cells
        for cell, value in zip(self.tallies.cells.tolist(), self.tallies.sums[number], strict=True):
            column[cell] = value
        return column

    def __repr__(self) -> str:
        return "Given(...)"


def _climbers(ladder: Ladder, cells: int, tally: Climbed) -> Climbers:
    """The people of every cell by rungs passed; no people count as 0."""
    people = np.zeros((cells, len(ladder.rungs) + 1), dtype=np.int64)
    totals: list[dict[int, int]] = [{} for _ in range(cells)]
    at, passed, count, sums = tally
    people[at, passed] = count
    for cell, rung, total in zip(at.tolist(), passed.tolist(), sums, strict=True):
        totals[cell][rung] = total
    return Climbers(people=people, totals=totals)
