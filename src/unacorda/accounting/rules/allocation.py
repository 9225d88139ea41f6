"""Rules of random allocation: a unit takes part in steps drawn at random; balls and bins."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction
from typing import Any

from unacorda.accounting.divergences.allocated import (
    LaplaceTransform,
    renyi_added,
    renyi_removed,
    whole_moments,
)
from unacorda.accounting.divergences.closed import LARGEST_ORDER
from unacorda.accounting.divergences.finite import FiniteLoss, composed_loss
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.allocated import AllocationPair, Tails, allocated
from unacorda.accounting.profiles.amplified import two_steps
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.profiles.draws import location_family
from unacorda.accounting.rules import base
from unacorda.accounting.rules.composition import squared_mu
from unacorda.accounting.rules.sampling import renyi_of_replaced
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import Event, Gaussian, RandomAllocation, compose
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, root_down


@base.rules_for(RandomAllocation)
class AllocationRules(base.Rules[RandomAllocation]):
    """One use exactly, by the average of the steps' ratios; several as one allocation for each."""

    symmetric_if_replaced = sampled = one_unit = slow_moments = True
    theorem = "a unit in steps drawn at random: the average of the steps' ratios"
    source = "Feldman and Shenfeld 2025; docs/proofs/allocation.md"

    def inside(self, event: RandomAllocation) -> tuple[Event, ...]:
        return (event.event,)

    def plain(self, event: RandomAllocation) -> Event:
        one = base.plain(event.event)
        if event.uses == event.steps:
            return _in_every_step(one, event.uses)
        return event if one is event.event else replace(event, event=one)

    def below(self, event: RandomAllocation, neighbors: Neighbors) -> Event | None:
        return (
            super().below(event, neighbors)
            if base.dominated(event.event, AddRemove) == event.event
            else None
        )

    def split(self, event: RandomAllocation) -> Event:
        """One allocation for each use, to a share of the steps of its own."""
        short, longer = divmod(event.steps, event.uses)
        if event.uses in (1, event.steps):
            return base.plain(event)
        one = base.plain(event.event)
        parts: list[Event] = []
        for share, count in ((short, event.uses - longer), (short + 1, longer)):
            if count and share == 1:
                parts.append(_in_every_step(one, count))
            elif count:
                parts.append(compose([one.randomly_allocated(steps=share)], count=count))
        return compose(parts)

    def apart(
        self, event: RandomAllocation, asked: base.Profile
    ) -> tuple[Event, PrivacyProfile] | None:
        if event.uses in (1, event.steps):
            return None
        return self.split(event), _attained(event, asked)

    def without_mass(self, event: RandomAllocation, neighbors: Neighbors) -> tuple[Fraction, Event]:
        # steps that fail beside the unit's own leave fewer to hide among: no amplification
        used = compose([event.event], count=event.uses)
        mass, rest = base.without_mass(used, neighbors)
        return (mass, rest) if mass else (Fraction(0), event)

    def renyi(self, event: RandomAllocation, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        if event.uses > 1 or event.steps == event.uses:
            return base.renyi_of_event(self.split(event), alpha, neighbors)
        if neighbors is ReplaceOne:
            one_step = functools.partial(_divergence, event.event, event.steps)
            return renyi_of_replaced(event.event, alpha, one_step)
        return _divergence(event.event, event.steps, alpha)

    def rho(self, event: RandomAllocation, neighbors: Neighbors) -> Fraction:
        one = base.under_replacement(event.event) if neighbors is ReplaceOne else event.event
        return base.rules_of(one).rho(one, neighbors) * event.uses

    def finite_loss(self, event: RandomAllocation, neighbors: Neighbors) -> FiniteLoss | None:
        alone = base.finite_loss(event.event, AddRemove)
        if alone is None or (alone.mass and neighbors is ReplaceOne):
            return None
        times = 2 * event.uses if neighbors is ReplaceOne else event.uses
        return composed_loss([(alone, times)])._replace(attained=False)

    def curve(self, event: RandomAllocation, asked: base.Profile) -> PrivacyProfile:
        if event.uses == event.steps:
            return asked.of(base.plain(event))
        if event.uses == 1 and asked.neighbors is not ReplaceOne:
            pair = _pair(event, opposite=False)
            tails = _tails(event.event, event.steps, asked.neighbors, asked.inside)
            return allocated(tails, remove=asked.remove, pair=pair)
        if event.uses > 1:
            whole = asked.of(self.split(event))
        else:
            forward, backward = asked.both(event, neighbors=AddRemove)
            whole = two_steps(forward, backward, Fraction(1), attained=curves.nothing())
        return curves.between(
            _attained(event, asked), whole.evaluate, infinity_above=whole.most_infinity
        )


def _attained(event: RandomAllocation, asked: base.Profile) -> PrivacyProfile:
    """The profile of one pair, by sums of one statistic; of no loss where none is known."""
    pair = _pair(event, opposite=asked.neighbors is ReplaceOne)
    return curves.nothing() if pair is None else pair.profile(remove=asked.remove)


@functools.lru_cache(maxsize=8)
def _pair(event: RandomAllocation, *, opposite: bool) -> AllocationPair | None:
    """The pair that noise on a number attains; None for other events. It is remembered."""
    one = event.event
    square = squared_mu(one)
    if square:
        one = Gaussian(noise_multiplier=1 / Fraction(root_down(square)))
    noise = location_family(one)
    if noise is None:
        return None
    return AllocationPair(noise=noise, steps=event.steps, uses=event.uses, opposite=opposite)


def _in_every_step(event: Event, count: int) -> Event:
    """A unit is in these steps always, but the numbers still compare it with none."""
    return compose([event.poisson_sampled(rate=1)], count=count)


@functools.lru_cache(maxsize=8)
def _tails(event: Event, steps: int, neighbors: Neighbors, inside: base.CurveOf | None) -> Tails:
    """Remembered: they hold large tables."""
    return Tails(*base.Profile(neighbors=neighbors, inside=inside).both(event), steps)


@functools.lru_cache(maxsize=8192)
def _divergence(event: Event, steps: int, alpha: Fraction) -> Fraction:
    """Under add/remove: one of `steps` steps, the larger of both directions."""
    whole = base.renyi_of_event(event, alpha, AddRemove)
    if alpha > LARGEST_ORDER:
        return whole
    removed = renyi_removed(lambda a: _moments(event, steps, a)[a], alpha=alpha)
    transform = _transform(event, steps)
    if transform is None:
        added = base.renyi_of_event(event, 1 + (alpha - 1) / steps, AddRemove)
    else:
        added = Fraction(
            renyi_added(transform, lambda a: base.renyi_of_event(event, a, AddRemove), alpha=alpha)
        )
    return min(whole, max(Fraction(removed), added))


def _moments(event: Event, steps: int, order: int) -> list[Any]:
    largest = next(size for size in (8, 32, 128, LARGEST_ORDER) if size >= order)
    return _moments_up_to(event, steps, largest)


@functools.lru_cache(maxsize=64)
def _moments_up_to(event: Event, steps: int, largest: int) -> list[Any]:
    return whole_moments(
        lambda n: float_above(base.renyi_of_event(event, Fraction(n), AddRemove)),
        steps=steps,
        largest=largest,
    )


@functools.lru_cache(maxsize=16)
def _transform(event: Event, steps: int) -> LaplaceTransform | None:
    try:
        forward, backward = base.Profile().both(event)
    except UnsupportedEvent:
        return None
    return LaplaceTransform(forward, backward, steps)
