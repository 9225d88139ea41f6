"""From what the engine counted to what each aggregate is given, and to the answers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tacet.bits import RandomBits
from tacet.query.aggregates.answers import Answer, Counted, Exact
from tacet.query.allocation import Allocation
from tacet.query.engines.protocol import Climbed, Tallies
from tacet.query.ladders import Climbers, Ladder
from tacet.query.plan import Query
from tacet.query.ranking import Ranking

__all__ = ["answers_of", "exact_of"]


def answers_of(
    query: Query, allocation: Allocation, exact: Mapping[str, Exact], bits: RandomBits
) -> dict[str, Answer]:
    """The noisy answers, by the names of their columns; exact: by the aggregates' names."""
    answers: dict[str, Answer] = {}
    for name, aggregate in query.aggregates.items():
        found = aggregate.answers(exact[name], allocation.noises[name], bits)
        answers |= {f"{name}{part}": answer for part, answer in found.items()}
    return answers


def exact_of(query: Query, name: str, tallies: Tallies) -> Exact:
    """The engine's integers by cell, in the order of the public keys; no rows count as 0."""
    aggregate, cells = query.aggregates[name], len(query.keys)
    rankings = tuple(
        _counted(query.rankings.index(ranking), ranking, cells, tallies)
        for ranking in query.rankings_of(aggregate)
    )
    people = tuple(
        _climbers(ladder, cells, tallies.ladders[query.ladders.index(ladder)])
        for ladder in query.ladders_of(aggregate)
    )
    sums, measures = [], query.measures
    for measure in query.measures_of(aggregate):
        column = [0] * cells
        found = tallies.sums[measures.index(measure)]
        for cell, value in zip(tallies.cells.tolist(), found, strict=True):
            column[cell] = value
        sums.append(column)
    return Exact(sums=tuple(sums), rankings=rankings, people=people)


def _counted(number: int, ranking: Ranking, cells: int, tallies: Tallies) -> Counted:
    """The counts of one ranking in every cell; no rows count as 0."""
    counts = np.zeros((cells, ranking.bins), dtype=np.int64)
    at, bins, rows = tallies.histograms[number]
    counts[at, bins] = rows
    finer = None if tallies.deeper is None else partial(tallies.deeper.count, number)
    return Counted(counts=counts, finer=finer)


def _climbers(ladder: Ladder, cells: int, tally: Climbed) -> Climbers:
    """The people of every cell by rungs passed; no people count as 0."""
    people = np.zeros((cells, len(ladder.rungs) + 1), dtype=np.int64)
    totals: list[dict[int, int]] = [{} for _ in range(cells)]
    at, passed, count, sums = tally
    people[at, passed] = count
    for cell, rung, total in zip(at.tolist(), passed.tolist(), sums, strict=True):
        totals[cell][rung] = total
    return Climbers(people=people, totals=totals)
