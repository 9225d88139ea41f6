"""Which questions of a batch can be answered from the same bounded rows, in one scan.

Questions with the same table, steps, groups and keys read the same rows, which are bound alike, so
that their aggregates can stand side by side: one relation is bounded, and every exact integer is
counted over it. Each aggregate's sensitivity is what it is alone, since a unit's rows in the
relation keep to the same limits; only which of them are kept may differ. Others are scanned
apart, and so is a question with private keys, which finds keys of its own.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.plan.query import Query

__all__ = ["Scan", "scans_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One statement. query: the aggregates of all its questions; members: their places."""

    query: Query
    members: tuple[int, ...]

    @staticmethod
    def name_of(member: int, name: str) -> str:
        """What an aggregate of one question is called in the scan."""
        return f"{member} {name}"


def scans_of(queries: Sequence[Query]) -> tuple[Scan, ...]:
    """The fewest scans that answer all questions, in the order of their first ones."""
    together: list[list[int]] = []
    for place, query in enumerate(queries):
        for members in together:
            if _alike(queries[members[0]], query):
                members.append(place)
                break
        else:
            together.append([place])
    return tuple(_scan(queries, members) for members in together)


def _alike(one: Query, other: Query) -> bool:
    return (
        one.rows == other.rows
        and one.unit == other.unit
        and one.groups == other.groups
        and one.keys == other.keys
        and one.private is other.private is None
        and one.margins == other.margins
    )


def _scan(queries: Sequence[Query], members: Sequence[int]) -> Scan:
    aggregates: dict[str, Aggregate] = {
        Scan.name_of(place, name): aggregate
        for place in members
        for name, aggregate in queries[place].aggregates.items()
    }
    query = dataclasses.replace(queries[members[0]], aggregates=aggregates)
    return Scan(query=query, members=tuple(members))
