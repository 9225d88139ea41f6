"""What the engine does for one question: bound the rows, find private keys, count by cell.

Where all keys are public this is one step. Where some are private, the engine bounds the rows and
counts the people behind every key that anyone has; a rule names keys by these counts alone; then
the named ones are read, and counted by cell over the same bounded rows. Of the others nothing
leaves the engine but how many people they have, which goes into the rule and no further.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from contextlib import ExitStack, closing

import numpy as np

from unacorda.bits import RandomBits
from unacorda.query.engines.compile import KeyCountSql
from unacorda.query.engines.protocol import Admission, Admitted, Keyed, Tallies
from unacorda.query.noise.key_selection import KeyRule
from unacorda.query.plan.query import Query
from unacorda.query.schema.facts import Key

__all__ = [
    "ScanResult",
    "admitted",
    "run",
    "select_keys",
    "with_found_keys",
]

ScanResult = Tallies | Keyed
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
    query: Query, keyed: Keyed, *, rule: KeyRule, bits: RandomBits
) -> tuple[Query, list[int], list[int]]:
    """The question with the keys that a rule finds; of each cell the place and the public cell."""
    # Places are in the order of the keys: which are left out is a function of the chosen ones.
    kept = np.flatnonzero(rule.kept(keyed.people, bits=bits))[: query.most_found]
    return _named(query, keyed, kept.tolist())


def _named(query: Query, keyed: Keyed, kept: list[int]) -> tuple[Query, list[int], list[int]]:
    """The question with the keys at these places; of each cell the place and the public cell.

    Cells are sorted column by column: public keys as they were listed, private ones by value (text
    by code point), NULL last.
    """
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
