"""Questions that are asked together: one price, one reservation, and all answers or none."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.plan.codec import encode
from unacorda.query.results.record import SEVERAL
from unacorda.query.results.release import Release

__all__ = [
    "Batch",
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Batch:
    """The answers to questions that were asked together.

    names: as the caller named the questions, or '0', '1', ... of a list; releases: in the same
    order. charge: what the account was debited for all of them, once; every release repeats it.
    event: what all of them did; request: what was offered; remaining: what was left afterwards.
    `batch["name"]`, or `batch[0]`, is one release.
    """

    names: tuple[str, ...]
    releases: tuple[Release, ...]

    @property
    def request(self) -> Guarantee:
        """What was offered for all of them."""
        return self.releases[0].request

    @property
    def charge(self) -> Guarantee:
        """What the account was debited for all of them together."""
        return self.releases[0].charge

    @property
    def remaining(self) -> Guarantee:
        """What was left afterwards."""
        return self.releases[0].remaining

    @property
    def event(self) -> Event:
        """What all of them did, for any accountant."""
        return self.releases[0].event

    def __getitem__(self, name: str | int) -> Release:
        if isinstance(name, str) and name in self.names:
            return self.releases[self.names.index(name)]
        if isinstance(name, int) and -len(self.names) <= name < len(self.names):
            return self.releases[name]
        known = ", ".join(map(repr, self.names))
        raise InvalidParameter("name", name, expected=f"one of the batch's: {known}")

    def __iter__(self) -> Iterator[Release]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def to_json(self) -> str:
        """All releases, by name, as JSON text, which `Release.verify` reads."""
        return json.dumps(
            {
                "format": SEVERAL,
                "request": repr(self.request),
                "spent": repr(self.charge),
                "remaining": repr(self.remaining),
                "exact": {"spent": encode(self.charge)},
                "releases": {
                    name: json.loads(release.to_json())
                    for name, release in zip(self.names, self.releases, strict=True)
                },
            },
            indent=2,
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        tables = [
            f"{name}\n{release.shown()}"
            for name, release in zip(self.names, self.releases, strict=True)
        ]
        return "\n\n".join([*tables, f"spent {self.charge} for all, left {self.remaining}"])
