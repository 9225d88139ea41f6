"""From what the engine counted to what each aggregate is given, for public keys and for found ones.

Where all keys are public this is one step. Where some are private, the engine bounds the rows and
counts the people behind every key that anyone has; a rule names keys by these counts alone; then
the named ones are read, and counted by cell over the same bounded rows. Of the others nothing
leaves the engine but how many people they have, which goes into the rule and no further.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.query.aggregates.base import Answer, Exact
from unacorda.query.aggregates.grid import GridCounts, Ranking
from unacorda.query.aggregates.measures import Climbers, Measure, Thresholds
from unacorda.query.allocation import Allocation
from unacorda.query.engines.compile import KeyCountSql
from unacorda.query.engines.engine import Admission, Admitted, Climbed, KeyedRows, Tallies
from unacorda.query.noise.key_selection import KeyRule
from unacorda.query.plan.query import Query, Reads
from unacorda.query.schema.facts import Key

__all__ = [
    "Given",
    "ScanResult",
    "admitted",
    "answers_of",
    "run",
    "select_keys",
    "with_found_keys",
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Given:
    """The engine's integers by what is counted, and what each aggregate reads of them. Private.

    By cell, in the order of the public keys; no rows count as 0.
    """

    reads: Mapping[str, Reads]
    sums: Mapping[Measure, list[int]]
    rankings: Mapping[Ranking, GridCounts]
    people: Mapping[Thresholds, Climbers]

    @staticmethod
    def of(query: Query, tallies: Tallies) -> Given:
        """Of all aggregates of a question."""
        cells = len(query.keys)
        sums = [_by_cell(tallies.cells, column, cells) for column in tallies.sums]
        rankings = zip(query.rankings, tallies.rankings, strict=True)
        ladders = zip(query.ladders, tallies.ladders, strict=True)
        return Given(
            reads=query.reads,
            sums=dict(zip(query.measures, sums, strict=True)),
            rankings={one: GridCounts.of(one.steps, cells, lines) for one, lines in rankings},
            people={one: _climbers(one, cells, climbed) for one, climbed in ladders},
        )

    def exact(self, name: str) -> Exact:
        """What one aggregate is given."""
        reads = self.reads[name]
        return Exact(
            sums=tuple(self.sums[measure] for measure in reads.measures),
            rankings=tuple(self.rankings[ranking] for ranking in reads.rankings),
            people=tuple(self.people[ladder] for ladder in reads.ladders),
        )

    def __repr__(self) -> str:
        return "Given(...)"


def _by_cell(cells: NDArray[np.int64], numbers: Sequence[int], size: int) -> list[int]:
    column = [0] * size
    for cell, value in zip(cells.tolist(), numbers, strict=True):
        column[cell] = value
    return column


def _climbers(ladder: Thresholds, cells: int, tally: Climbed) -> Climbers:
    """The people of every cell by rungs passed; no people count as 0."""
    people = np.zeros((cells, len(ladder.rungs) + 1), dtype=np.int64)
    totals: list[dict[int, int]] = [{} for _ in range(cells)]
    at, passed, count, sums = tally
    people[at, passed] = count
    for cell, rung, total in zip(at.tolist(), passed.tolist(), sums, strict=True):
        totals[cell][rung] = total
    return Climbers(people=people, totals=totals)


ScanResult = Tallies | KeyedRows
"""What came of what is asked of the table itself."""


def admitted(admission: Admission, query: Query, *, salt: int) -> Admitted:
    """A question that its engine has all constructs of; UnsupportedConstruct for another."""
    asked = admission.admit(query, salt=salt)
    asked.engine.check(query, asked.sql)
    return asked


def run(asked: Admitted, kept: ExitStack) -> ScanResult:
    """Read the table; rows that are still asked for are kept as long as the stack is open."""
    if isinstance(asked.sql, KeyCountSql):
        return kept.enter_context(closing(asked.engine.find(asked)))
    return asked.engine.run(asked)


def select_keys(
    asked: Admitted, result: ScanResult, *, rule: KeyRule | None, bits: RandomBits
) -> tuple[Query, Tallies]:
    """The question with all its keys, and the exact integers of its cells.

    rule: how private keys are found; this is where they are, so that a charge has been committed.
    """
    if isinstance(result, Tallies):
        return asked.query, result
    assert rule is not None
    answered, places, parts = with_found_keys(asked.query, result, rule=rule, bits=bits)
    return answered, result.run(asked.chosen(places=places, parts=parts))


def with_found_keys(
    query: Query, keyed: KeyedRows, *, rule: KeyRule, bits: RandomBits
) -> tuple[Query, list[int], list[int]]:
    """The question with the keys that a rule finds; of each cell the place and the public cell.

    Cells are sorted column by column: public keys as they were listed, private ones by value (text
    by code point), NULL last.
    """
    # Places are in the order of the keys: which are left out is a function of the chosen ones.
    kept = np.flatnonzero(rule.kept(keyed.people, bits=bits))[: query.most_found].tolist()
    listed = [list(dict.fromkeys(column)) for column in zip(*query.keys, strict=True)]
    ranks = [{key: place for place, key in enumerate(column)} for column in listed]
    cells = []
    for place, found in zip(kept, keyed.keys(kept), strict=True):
        for part, public in enumerate(query.keys):
            private, given = iter(found), iter(zip(public, ranks, strict=True))
            whole: list[Key] = []
            order: list[tuple[bool, Key]] = []
            for group in query.groups:
                if group.private:
                    key = next(private)
                    order.append((key is None, key if key is not None else 0))
                else:
                    key, rank = next(given)
                    order.append((False, rank[key]))
                whole.append(key)
            cells.append((tuple(order), tuple(whole), place, part))
    cells.sort(key=lambda cell: cell[0])
    return (
        query.with_keys(tuple(whole for _, whole, _, _ in cells)),
        [place for _, _, place, _ in cells],
        [part for _, _, _, part in cells],
    )
