"""Rules of shuffled reports: the order alone can only lose information."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.accounting.divergences.finite import FiniteLoss
from unacorda.accounting.rules.base import (
    Rules,
    finite_loss,
    renyi_of_event,
    rules_for,
    rules_of,
    without_mass,
)
from unacorda.privacy.events import Event, Shuffled
from unacorda.privacy.neighbors import Neighbors


@rules_for(Shuffled)
class ShuffledRules(Rules[Shuffled]):
    """What a single report is worth, where the theorem of shuffling itself is not asked."""

    symmetric = sampled = True
    keeps_size = "shuffling"
    theorem = "shuffled reports: one hides among clones"
    source = "Feldman, McMillan, Talwar 2022; docs/proofs/amplification.md"

    def below(self, event: Shuffled, neighbors: Neighbors) -> Event | None:
        return None

    def without_mass(self, event: Shuffled, neighbors: Neighbors) -> tuple[Fraction, Event]:
        mass, rest = without_mass(event.event, neighbors)
        return (mass, rest) if mass else (Fraction(0), event)

    def renyi(self, event: Shuffled, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        return renyi_of_event(event.event, alpha, neighbors)

    def rho(self, event: Shuffled, neighbors: Neighbors) -> Fraction:
        return rules_of(event.event).rho(event.event, neighbors)

    def finite_loss(self, event: Shuffled, neighbors: Neighbors) -> FiniteLoss | None:
        alone = finite_loss(event.event, neighbors)
        return None if alone is None else alone._replace(attained=False)
