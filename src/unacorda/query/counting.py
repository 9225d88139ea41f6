"""What the engine does for one question: bound the rows, find private keys, count by cell.

Where all keys are public this is one step. Where some are private, the engine bounds the rows and
counts the people behind every key that anybody has; a rule names keys by these counts alone; then
the named ones are read, and counted by cell over the same bounded rows. Of the others nothing
leaves the engine but how many people they have, which goes into the rule and no further.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np

from unacorda.bits import RandomBits
from unacorda.query.columns import Key
from unacorda.query.compile import Found, Statement, compile_chosen, compile_found, compile_query
from unacorda.query.engines.protocol import Engine, Keyed, Tallies
from unacorda.query.plan import Query
from unacorda.query.private_keys import KeyRule

__all__ = ["Begun", "First", "begun", "finished", "first_statement"]

First = Statement | Found
"""What is asked of the table itself."""

Begun = Tallies | Keyed
"""What came of it."""


def first_statement(engine: Engine, query: Query, *, salt: int) -> First:
    """The SQL that reads the tables; UnsupportedConstruct for what the engine does not have."""
    compiled = compile_query if query.private is None else compile_found
    first = compiled(
        query,
        unit=query.limited,
        scan=engine.scan,
        salt=salt,
        narrow=engine.narrow,
        once=engine.once,
    )
    engine.check(query, first)
    return first


def begun(engine: Engine, query: Query, first: First) -> Begun:
    """Read the table; the caller closes what comes."""
    if isinstance(first, Found):
        return engine.find(first)
    return engine.run(first, measures=len(query.measures))


def finished(
    query: Query, begun: Begun, *, rule: KeyRule | None, bits: RandomBits
) -> tuple[Query, Tallies]:
    """The question with all its keys, and the exact integers of its cells.

    rule: how private keys are found; this is where they are, so that a charge has been committed.
    """
    if isinstance(begun, Tallies):
        return query, begun
    assert rule is not None
    # Places are in the order of the keys: which are left out is a function of the chosen ones.
    kept = np.flatnonzero(rule.kept(begun.people, bits=bits))[: query.most_found]
    answered, places, parts = _named(query, begun, kept.tolist())
    statement = compile_chosen(query, unit=query.limited, places=places, parts=parts)
    return answered, begun.run(statement, measures=len(query.measures))


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
