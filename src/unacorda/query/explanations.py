"""What several questions would do, cost and err by, if they were asked together."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.allocation import PricedBatch
from unacorda.query.explanation import Explanation, explained
from unacorda.query.outlook import Outlook
from unacorda.query.supposed import Supposed

__all__ = ["Explanations", "explanation_of"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanations:
    """The plan of questions before they are asked together. Printing it gives a page for people.

    members: by name, in the order asked; `explanations["name"]`, or `[0]`, is one. parts: each
    question's part of the budget. scans: how often the table is read for all of them.
    """

    members: Mapping[str, Explanation]
    parts: Mapping[str, float]
    scans: int

    @property
    def request(self) -> Guarantee:
        """What was offered for all of them."""
        return self[0].request

    @property
    def cost(self) -> Guarantee:
        """What the account would be charged for all of them, once."""
        return self[0].cost

    @property
    def left(self) -> Guarantee:
        """What the account holds now."""
        return self[0].left

    @property
    def affordable(self) -> bool:
        """Whether the account could pay for all of them now."""
        return self[0].affordable

    @property
    def outlook(self) -> Outlook:
        """What other budgets and limits would do, for all of them."""
        return Outlook.joined({name: one.outlook for name, one in self.members.items()})

    def __getitem__(self, name: str | int) -> Explanation:
        names = list(self.members)
        if isinstance(name, str) and name in self.members:
            return self.members[name]
        if isinstance(name, int) and -len(names) <= name < len(names):
            return self.members[names[name]]
        raise InvalidParameter("name", name, expected=f"one of {', '.join(map(repr, names))}")

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.members.values())

    def __len__(self) -> int:
        return len(self.members)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        whole = {"request", "cost", "left", "affordable", "outlook"}
        return {
            "request": repr(self.request),
            "cost": repr(self.cost),
            "left": repr(self.left),
            "affordable": self.affordable,
            "scans": self.scans,
            "questions": {
                name: {
                    "part": self.parts[name],
                    **{key: v for key, v in one.to_dict().items() if key not in whole},
                }
                for name, one in self.members.items()
            },
            "outlook": self.outlook.to_dict(),
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        scans = "one scan" if self.scans == 1 else f"{self.scans:,} scans"
        lines = [f"{len(self):,} questions together, from {scans} of the table", *self[0].price]
        told: dict[tuple[str, ...], str] = {}
        for name, one in self.members.items():
            lines += ["", f"Question {name!r} ({100 * self.parts[name]:.3g}% of the budget)"]
            if one.rows in told:
                lines += [f"  rows as in question {told[one.rows]!r}"]
            else:
                told[one.rows] = name
                lines += [f"  {text}" for text in one.steps]
            lines += [f"  {text}" if text else "" for text in one.aggregates("this part")]
        if more := self.outlook.lines:
            lines += ["", *more]
        return "\n".join(lines)


def explanation_of(
    priced: PricedBatch, *, left: Guarantee, assuming: Supposed | None
) -> Explanation | Explanations:
    """The explanation of one question, or of several; left: what the account holds."""
    asked = priced.together
    found = explained(priced, left=left, assuming=assuming)
    if asked.single:
        return found[0]
    return Explanations(
        members=dict(zip(asked.names, found, strict=True)),
        parts=asked.parts,
        scans=len(priced.scans),
    )
