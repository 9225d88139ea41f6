"""What is known of private keys before they are found: a function of the question alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from unacorda.query.allocation import Allocation
from unacorda.query.noise.key_selection import KeyRule
from unacorda.query.noise.sensitivity import of_people
from unacorda.query.plan.query import Query
from unacorda.query.schema.facts import MOST_KEYS

__all__ = ["FoundKeys"]


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
