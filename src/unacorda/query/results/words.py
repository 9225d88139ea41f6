"""How a release was made, sentence by sentence, and which private keys appear how often."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.query.allocation import Allocation
from unacorda.query.noise.key_selection import KeyRule
from unacorda.query.noise.sensitivity import of_people
from unacorda.query.plan.query import BatchPosition, Query
from unacorda.query.plan.words import limits_in_words, lines_of
from unacorda.query.schema.facts import MOST_KEYS
from unacorda.query.schema.units import Person

__all__ = [
    "FoundKeys",
    "provenance",
    "rows_in_words",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKeys:
    """Which private keys appear how often.

    groups: their columns; part: of the budget; sensitivity: under how many keys one unit counts,
    and why; most: how many combinations are answered, of more the first in the order of the keys.
    """

    groups: tuple[str, ...]
    part: float
    rule: KeyRule
    sensitivity: str
    most: int

    @classmethod
    def of(cls, query: Query, allocation: Allocation) -> Self | None:
        """What a question with this noise finds, None where all keys are public."""
        if allocation.rule is None:
            return None
        return cls(
            groups=tuple(group.label for group in query.private_groups),
            part=float(query.keys_part),
            rule=allocation.rule,
            sensitivity=of_people(allocation.reach).reason,
            most=query.most_found,
        )

    @property
    def names(self) -> str:
        """The columns, in words."""
        return ", ".join(self.groups)

    @property
    def sentence(self) -> str:
        """Which keys may be missing, beside a table."""
        return f"{self.names}: {self.rule.words()}; keys may be missing"

    @property
    def sentences(self) -> tuple[str, ...]:
        """How keys are found, and what may be missing."""
        rows = "the rows that are left; NULL is a key like any other"
        return (
            f"find keys of {self.names} that enough different people have, counted over {rows}",
            f"{self.rule.words()}. Keys may be missing; how many is not known",
            *self._first,
            f"keys: {self.rule}",
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """A paragraph of an explanation."""
        share = f"{100 * self.part:.3g}% of the budget, delta {float(self.rule.delta):.3g}"
        return (
            f"keys of {self.names} ({share})",
            f"  sensitivity: {self.sensitivity}",
            f"  rule: {self.rule}",
            f"  {self.rule.words()}",
            "  keys may be missing; how many is not known",
            *(f"  {text}" for text in self._first),
        )

    @property
    def _first(self) -> tuple[str, ...]:
        if self.most >= MOST_KEYS:  # more than public keys may be
            return ()
        return (f"at most {self.most:,} of the keys that are found are answered, in their order",)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "columns": list(self.groups),
            "part": self.part,
            "delta": float(self.rule.delta),
            "rule": str(self.rule),
            "sensitivity": self.sensitivity,
            "most": self.most,
            "appear": [[float(chance), people] for chance, people in self.rule.chances],
        }


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
