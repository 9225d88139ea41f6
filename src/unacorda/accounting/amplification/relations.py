"""Which relation a sampling scheme speaks of."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.accounting.rules.base import rules_of
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_neighbors

__all__ = ["check_relation"]


def check_relation(event: Event, neighbors: Neighbors) -> None:
    """Refuse a scheme that says nothing about this relation; InvalidParameter has the hint.

    Poisson samples are priced under every relation (replacement as removing and adding). A fixed
    size and shuffling keep the number of units: they speak of ReplaceOne and ZeroOut only.

    Bound       none: it only refuses.
    Source      Balle, Barthe, Gaboardi 2018, Table 1.
    """
    check_neighbors(neighbors)
    rules = rules_of(event)
    if rules.keeps_size and neighbors is AddRemove:
        raise InvalidParameter(
            "neighbors",
            neighbors,
            expected="neighbors=unacorda.ReplaceOne",
            hint=f"{rules.keeps_size} keeps the number of units, so it says nothing about adding "
            "or removing one; or use poisson_sampled(rate=...)",
        )
    for part in rules.inside(event):
        check_relation(part, neighbors)
