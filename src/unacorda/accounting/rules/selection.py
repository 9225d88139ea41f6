"""Rules of private selection: the best of a random number of runs, from what one run costs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction

import numpy as np

from unacorda.accounting.laws import FiniteLoss
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.rules import base
from unacorda.accounting.selection import pure_of_tries, renyi_of_tries, without_failure
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.events import Event, NegativeBinomialTries, PoissonTries
from unacorda.privacy.events.selection import Tries
from unacorda.privacy.guarantees import RenyiDP
from unacorda.privacy.neighbors import Neighbors
from unacorda.privacy.rounding import grid_up

_DIRECTIONS: tuple[base.Direction, ...] = ("remove", "add")


@base.rules_for(NegativeBinomialTries, PoissonTries)
class TriesRules(base.Rules[Tries]):
    """Everything from the price of one run."""

    theorem = "the best of a random number of runs, from what one run costs"
    source = "Papernot and Steinke 2022; Koskela, Redberg, Wang 2024; docs/proofs/selection.md"
    slow_moments = True

    def inside(self, event: Tries) -> tuple[Event, ...]:
        return (event.event,)

    def plain(self, event: Tries) -> Event:
        once = isinstance(event, NegativeBinomialTries) and event.stop == 1
        return event.event if once else event

    def below(self, event: Tries, neighbors: Neighbors) -> Event | None:
        one = self.plain(event)
        return super().below(event, neighbors) if one is event else base.dominated(one, neighbors)

    def replaced(self, event: Tries, units: int) -> Event:
        return replace(event, event=base.under_replacement(event.event, units=units))

    def doubles(self, event: Tries) -> bool:
        return False

    def without_mass(self, event: Tries, neighbors: Neighbors) -> tuple[Fraction, Event]:
        mass, rest = base.without_mass(event.event, neighbors)
        return without_failure(event, mass, rest) if mass else (Fraction(0), event)

    def curve(self, event: Tries, asked: base.Profile) -> PrivacyProfile:
        return base.curve_by_caller(event, asked)

    def pure(self, event: Tries) -> Fraction | None:
        own = base.rules_of(event.event).pure(event.event)
        return None if own is None else pure_of_tries(event, own)

    def renyi_price(self, event: Tries, order: Fraction) -> RenyiDP:
        one = base.rules_of(event.event)
        divergence = renyi_of_tries(
            event,
            lambda inner: one.renyi_price(event.event, RenyiDP(inner, 0).alpha).epsilon,
            alpha=order,
            pure=one.pure(event.event),
        )
        return RenyiDP(order, grid_up(divergence))

    def renyi(self, event: Tries, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        return renyi_of_tries(
            event,
            lambda inner: base.renyi_of_event(event.event, inner, neighbors),
            alpha=alpha,
            pure=base.pure_of(event.event, neighbors),
            delta=functools.partial(_known_delta, event.event, neighbors),
        )

    def rho(self, event: Tries, neighbors: Neighbors) -> Fraction:
        epsilon = base.pure_of(event, neighbors)
        if epsilon is None:
            raise self.no_price(event, "ZCDP")
        return Fraction(conversions.zcdp_from_pure(epsilon))

    def finite_loss(self, event: Tries, neighbors: Neighbors) -> FiniteLoss | None:
        pure = base.pure_of(event.event, neighbors)
        return None if pure is None else FiniteLoss(pure_of_tries(event, pure), Fraction(0))


def _known_delta(event: Event, neighbors: Neighbors, epsilon: float) -> float:
    """Delta from the event's profile, 1 where it has none."""
    at = np.asarray(epsilon, dtype=np.float64)
    try:
        return max(
            float(base.Profile(direction=one, neighbors=neighbors).of(event)(at).upper)
            for one in _DIRECTIONS
        )
    except UnsupportedEvent:
        return 1.0
