"""How a release was made, in plain words: functions of the question alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.query.allocation import Allocation
from unacorda.query.found_keys import FoundKeys
from unacorda.query.plan.batch import BatchPosition
from unacorda.query.plan.query import Query
from unacorda.query.plan.words import limits_in_words, lines_of
from unacorda.query.schema.units import Person

__all__ = ["provenance", "rows_in_words"]

_READING = (
    "Values are as released and may be below zero or out of range; .clamped() gives possible "
    "ones, which is also how they are printed. Standard errors and intervals are about the exact "
    "answer on the kept rows, and count the noise, not what bounding, clamping or sampling did."
)


def provenance(
    query: Query, allocation: Allocation, cost: Guarantee, *, place: BatchPosition | None = None
) -> tuple[str, ...]:
    """How a release was made, sentence by sentence: no part of it depends on the data."""
    change = "replaced by another" if query.unit.neighbors is ReplaceOne else "left out"
    protects = (
        f"Protects {query.unit}: whether it is in the table or {change} changes the law of this "
        f"answer by no more than {cost} allows."
    )
    noises = [
        f"{name}: {aggregate.forecast(allocation.noises[name], allocation.reach, None).noise}"
        for name, aggregate in query.aggregates.items()
    ]
    together = []
    if place is not None:
        together.append(
            f"Question {place.name!r} of {len(place.together.names):,} that were asked together: "
            f"{cost} is for all of them, once."
        )
    keys = FoundKeys.of(query, allocation)
    return (
        protects,
        *together,
        *rows_in_words(query),
        *([] if keys is None else keys.sentences),
        *noises,
        _READING,
    )


def rows_in_words(query: Query) -> tuple[str, ...]:
    """What happens to the rows, in order."""
    lines = lines_of(query.rows, query.names, query.limited)
    if query.public_groups:
        names = ", ".join(group.label for group in query.public_groups)
        count = f"{len(query.keys):,} public key{'s' if len(query.keys) != 1 else ''}"
        lines.append(f"keep rows whose {names} is one of {count}; every key is answered")
    if query.margins is not None:
        lines.append(f"sum over columns ({query.margins}); all tables add up")
    unit = query.limited
    if isinstance(unit, Person):
        ids = ", ".join(unit.id)
        lines.append(f"drop rows without {ids} (whether or not there are any)")
        lines += limits_in_words(unit, cells=query.cells)
    return tuple(lines)
