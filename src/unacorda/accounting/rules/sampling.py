"""Rules of samples: Poisson ones, those of fixed size, and draws with replacement."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from fractions import Fraction

from unacorda.accounting import divergences
from unacorda.accounting.amplification.sampling import approx_dp_of_sample
from unacorda.accounting.divergences import (
    renyi_of_gaussian_mixture,
    renyi_of_replacement,
    renyi_of_sampled_gaussian,
)
from unacorda.accounting.laws import (
    FiniteLoss,
    composed_loss,
    of_replaced_pure,
    sampled_loss,
    sampled_replaced_loss,
)
from unacorda.accounting.profiles import amplified, draws, noises
from unacorda.accounting.profiles.amplified import two_steps
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.profiles.draws import location_family
from unacorda.accounting.rules import base
from unacorda.accounting.rules.composition import squared_mu
from unacorda.accounting.rules.noise import noise_of, shares_of
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.conversions.group import (
    approx_dp_of_group,
    renyi_of_two_steps,
    renyi_orders_of_two_steps,
)
from unacorda.privacy.events import (
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianMixture,
    PoissonSampled,
    Pure,
    ReplacementSampled,
    Shuffled,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, root_down

_STRETCHES = [1 + Fraction(2) ** k for k in range(-4, 5)]


@base.rules_for(PoissonSampled)
class PoissonRules(base.Rules[PoissonSampled]):
    """Numbers inside refer to adding or removing a unit, under every relation."""

    symmetric_if_replaced = sampled = one_unit = True
    theorem = "a Poisson sample: the mixture of both outputs against one, in both directions"
    source = "Zhu, Dong, Wang 2022; Steinke 2022, Thm. 34"

    def inside(self, event: PoissonSampled) -> tuple[Event, ...]:
        return (event.event,)

    def cite(self, event: PoissonSampled, neighbors: Neighbors) -> tuple[str, str]:
        if neighbors is not ReplaceOne:
            return self.theorem, self.source
        return (
            "a Poisson sample, one unit leaving and another coming",
            "group privacy of two steps",
        )

    def replaced(self, event: PoissonSampled, units: int) -> Event:
        if _rate(event) == 1:
            return base.under_replacement(event.event, units=units)
        return super().replaced(event, units)

    def of_both_units(self, event: PoissonSampled) -> Event:
        if _rate(event) == 1:
            with contextlib.suppress(UnsupportedEvent):
                return base.under_replacement(event.event)
        return event

    def below(self, event: PoissonSampled, neighbors: Neighbors) -> Event | None:
        if neighbors is ReplaceOne and _rate(event) == 1:
            known = base.rules_of(event.event).doubles(event.event)
            return base.units_replaced(event, neighbors) if known else None
        return super().below(event, neighbors)

    def doubles(self, event: PoissonSampled) -> bool:
        return base.rules_of(event.event).doubles(event.event)

    def without_mass(self, event: PoissonSampled, neighbors: Neighbors) -> tuple[Fraction, Event]:
        rate = _rate(event)
        mass, rest = base.without_mass(event.event, neighbors)
        kept = PoissonSampled(event=rest, rate=event.rate)
        if not mass or neighbors is not ReplaceOne:
            return rate * mass, kept
        pure = base.pure_of(kept, AddRemove)
        if pure is None:
            raise UnsupportedEvent(
                event, kind="RenyiDP", try_instead="Ask with neighbors=unacorda.AddRemove."
            )
        twice, failed = approx_dp_of_group(float_above(pure), delta=rate * mass, size=2)
        return Fraction(failed), Pure(epsilon=twice)

    def renyi(self, event: PoissonSampled, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        one, rate = event.event, _rate(event)
        if neighbors is ReplaceOne and isinstance(one, Pure):
            law = of_replaced_pure(exact("epsilon", one.epsilon), rate)
            return Fraction(divergences.renyi_of_law(law, alpha=alpha))
        if neighbors is ReplaceOne:
            return renyi_of_replaced(one, alpha, functools.partial(_poisson, one, rate))
        return _poisson(one, rate, alpha)

    def rho(self, event: PoissonSampled, neighbors: Neighbors) -> Fraction:
        return _rho_of_sample(event, neighbors, replaced=neighbors is ReplaceOne)

    def finite_loss(self, event: PoissonSampled, neighbors: Neighbors) -> FiniteLoss | None:
        alone = base.finite_loss(event.event, AddRemove)
        if alone is None:
            return None
        sampled = sampled_replaced_loss if neighbors is ReplaceOne else sampled_loss
        return sampled(alone, _rate(event))

    def curve(self, event: PoissonSampled, asked: base.Profile) -> PrivacyProfile:
        one, rate = event.event, _rate(event)
        if asked.neighbors is not ReplaceOne:
            sampled = amplified.poisson_sampled_add
            if asked.remove:
                sampled = amplified.poisson_sampled_remove
            return sampled(asked.of(one), rate)
        if isinstance(one, Pure):
            return noises.of_law(of_replaced_pure(exact("epsilon", one.epsilon), rate))
        forward, backward = asked.both(one, neighbors=AddRemove)
        reached = None
        if not base.rules_of(one).opposite:
            reached = amplified.poisson_sampled_remove(forward.attained or forward, rate)
        return two_steps(forward, backward, rate, attained=reached)


@base.rules_for(FixedSizeSampled)
class FixedSizeRules(base.Rules[FixedSizeSampled]):
    """Numbers inside refer to adding or removing a unit, and are read for replacing one."""

    symmetric_if_replaced = sampled = True
    keeps_size = "a fixed size"
    theorem = "a sample of fixed size, its numbers doubled for replacement"
    source = "Balle, Barthe, Gaboardi 2018; Wang, Balle, Kasiviswanathan 2019"

    def below(self, event: FixedSizeSampled, neighbors: Neighbors) -> Event | None:
        known = base.rules_of(event.event).doubles(event.event)
        return super().below(event, neighbors) if known else None

    def without_mass(self, event: FixedSizeSampled, neighbors: Neighbors) -> tuple[Fraction, Event]:
        # its numbers speak of add/remove: the mass is that of the event under replacement
        moved = base.under_replacement(event.event)
        mass, _ = base.without_mass(moved, neighbors)
        _, rest = base.without_mass(event.event, neighbors)
        kept = FixedSizeSampled(event=rest, size=event.size, population=event.population)
        return _share(event) * mass, kept

    def renyi(self, event: FixedSizeSampled, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        one, rate = base.under_replacement(event.event), _share(event)
        whole = base.renyi_of_event(one, alpha, ReplaceOne)
        epsilon = base.pure_of(one, ReplaceOne)
        found = [float_above(whole)]
        if epsilon is not None:
            amplified_epsilon, _ = approx_dp_of_sample(epsilon, delta=0, rate=rate)
            found.append(conversions.renyi_from_pure(amplified_epsilon, alpha=alpha))
        if alpha <= divergences.LARGEST_ORDER:
            found.append(
                divergences.renyi_of_fixed_size(
                    lambda k: float_above(base.renyi_of_event(one, Fraction(k), ReplaceOne)),
                    largest=math.inf if epsilon is None else float_above(epsilon),
                    rate=rate,
                    alpha=alpha,
                )
            )
        return min(whole, Fraction(min(found)))

    def rho(self, event: FixedSizeSampled, neighbors: Neighbors) -> Fraction:
        return _rho_of_sample(event, neighbors, replaced=True)

    def finite_loss(self, event: FixedSizeSampled, neighbors: Neighbors) -> FiniteLoss | None:
        alone = _of_two(event.event)
        return (
            None if alone is None else sampled_loss(alone, _share(event))._replace(attained=False)
        )

    def curve(self, event: FixedSizeSampled, asked: base.Profile) -> PrivacyProfile:
        if asked.neighbors is AddRemove:
            raise _of_fixed_size(event)
        moved = _replaced(event.event, 1, asked)
        if asked.neighbors is ReplaceOne:
            return amplified.fixed_size_sampled(*moved, _share(event))
        return amplified.fixed_size_zeroed(
            moved, asked.both(event.event), _share(event), remove=asked.remove
        )


@base.rules_for(ReplacementSampled)
class ReplacementRules(base.Rules[ReplacementSampled]):
    """As many hits of one unit as there may be, each number with its probability."""

    symmetric_if_replaced = sampled = True
    keeps_size = "a fixed size"
    theorem = "draws with replacement: as many hits of one unit as there may be"
    source = "Balle, Barthe, Gaboardi 2018, Thm. 10; docs/proofs/amplification.md"

    def renyi(self, event: ReplacementSampled, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        epsilon = base.pure_of(event, ReplaceOne)
        found = [] if epsilon is None else [conversions.renyi_from_pure(epsilon, alpha=alpha)]
        one = event.event
        alone = base.pure_of(base.under_replacement(one), ReplaceOne)
        known = renyi_of_replacement(
            lambda order, k: base.renyi_of_event(
                base.under_replacement(one, units=k), order, ReplaceOne
            ),
            largest=math.inf if alone is None else float_above(alone * event.size),
            alpha=alpha,
            size=event.size,
            population=event.population,
        )
        found += [] if known is None else [known]
        if not found:
            raise UnsupportedEvent(
                event, kind="Renyi DP", try_instead="Draw less often, or without replacement."
            )
        return Fraction(min(found))

    def rho(self, event: ReplacementSampled, neighbors: Neighbors) -> Fraction:
        epsilon = base.pure_of(event, neighbors)
        if epsilon is not None:
            return Fraction(conversions.zcdp_from_pure(epsilon))
        whole = base.under_replacement(event.event, units=event.size)
        return base.rules_of(whole).rho(whole, neighbors)

    def finite_loss(self, event: ReplacementSampled, neighbors: Neighbors) -> FiniteLoss | None:
        # the draws are changed one after the other, each like a sample of one
        alone = _of_two(event.event)
        if alone is None or alone.mass:
            return None
        one_draw = sampled_loss(alone, Fraction(1, event.population))
        return composed_loss([(one_draw, event.size)])._replace(attained=False)

    def curve(self, event: ReplacementSampled, asked: base.Profile) -> PrivacyProfile:
        if asked.neighbors is AddRemove:
            raise _of_fixed_size(event)
        # an empty contribution is one of those by which a unit's may be replaced
        return draws.with_replacement(
            lambda units: _replaced(event.event, units, asked),
            location_family(event.event),
            size=event.size,
            population=event.population,
            replaced=asked.neighbors is ReplaceOne,
            remove=asked.remove,
        )


def renyi_of_replaced(
    event: Event, alpha: Fraction, one_step: Callable[[Fraction], Fraction]
) -> Fraction:
    """The Renyi divergence where one unit leaves and another comes, by the best of a few splits.

    event: what every unit takes part in at most; one_step: the divergence, from its order, of
    removing or adding a unit.

    Bound       upper.
    Source      renyi_of_two_steps; under_replacement.
    """
    found = [base.renyi_of_event(base.under_replacement(event), alpha, ReplaceOne)]
    for stretch in _STRETCHES:
        first, second = renyi_orders_of_two_steps(alpha, stretch=stretch)
        found.append(
            renyi_of_two_steps(
                one_step(first), second=one_step(second), alpha=alpha, stretch=stretch
            )
        )
    return min(found)


@functools.lru_cache(maxsize=8192)
def _poisson(event: Event, rate: Fraction, alpha: Fraction) -> Fraction:
    """Under add/remove: the least of what is known of a Poisson sample."""
    if isinstance(event, PoissonSampled):
        return _poisson(event.event, rate * _rate(event), alpha)
    whole = base.renyi_of_event(event, alpha, AddRemove)
    if rate == 1:
        return whole
    noise = _one_gaussian(event)
    found = [divergences.renyi_at_large_orders(float_above(whole), rate=rate, alpha=alpha)]
    if noise is not None:
        found.append(renyi_of_sampled_gaussian(noise, rate=rate, alpha=alpha))
    if isinstance(event, GaussianMixture):
        shifts, weights = shares_of(event)
        sigma = noise_of(event)
        found.append(renyi_of_gaussian_mixture(sigma, shifts, weights, rate=rate, alpha=alpha))
    epsilon = base.pure_of(event, AddRemove)
    if epsilon is not None:
        found.append(divergences.renyi_of_sampled_pure(epsilon, rate=rate, alpha=alpha))
    if alpha <= divergences.LARGEST_ORDER and noise is None:
        found.append(
            divergences.renyi_of_poisson(
                lambda k: float_above(base.renyi_of_event(event, Fraction(k), AddRemove)),
                rate=rate,
                alpha=alpha,
            )
        )
    return Fraction(min(found))


def _one_gaussian(event: Event) -> Fraction | float | None:
    """The noise multiplier of one Gaussian that stands for all of them, rounded down, or None.

    Gaussians on the same sample are together one Gaussian: their 1/m^2 add.
    """
    if isinstance(event, Gaussian):
        return exact("noise_multiplier", event.noise_multiplier)
    square = squared_mu(event)
    return None if square is None else root_down(1 / square)


def _rate(event: PoissonSampled) -> Fraction:
    return exact("rate", event.rate)


def _share(event: FixedSizeSampled) -> Fraction:
    return Fraction(event.size, event.population)


def _rho_of_sample(
    event: PoissonSampled | FixedSizeSampled, neighbors: Neighbors, *, replaced: bool
) -> Fraction:
    one = base.under_replacement(event.event) if replaced else event.event
    whole = base.rules_of(one).rho(one, neighbors)
    epsilon = base.pure_of(event, neighbors)
    return whole if epsilon is None else min(whole, Fraction(conversions.zcdp_from_pure(epsilon)))


def _of_two(event: Event) -> FiniteLoss | None:
    """Inside a sample of fixed size, under replacement: as one unit leaves and another comes."""
    try:
        moved = base.under_replacement(event)
        return base.finite_loss(moved, ReplaceOne)
    except UnsupportedEvent:
        alone = base.pure_of(event, AddRemove)
        return None if alone is None else FiniteLoss(2 * alone, Fraction(0))


def _replaced(
    event: Event, units: int, asked: base.Profile
) -> tuple[PrivacyProfile, PrivacyProfile]:
    """Both directions of an event inside a sample, that many units replaced at once."""
    inner = base.Profile(inside=asked.inside)
    try:
        pair = base.under_replacement(event, units=units)
    except UnsupportedEvent:
        if units > 1:
            raise
        forward, backward = inner.both(event)
        curve = two_steps(forward, backward, Fraction(1), attained=forward.attained or forward)
        return curve, curve
    return inner.both(pair, neighbors=ReplaceOne)


def _of_fixed_size(event: Event) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="a privacy profile under AddRemove",
        try_instead="Samples of a fixed size are priced under ReplaceOne and ZeroOut.",
    )


@base.rules_for(Shuffled)
class ShuffledRules(base.Rules[Shuffled]):
    """What a single report is worth, where the theorem of shuffling itself is not asked."""

    symmetric = sampled = True
    keeps_size = "shuffling"
    theorem = "shuffled reports: one hides among clones"
    source = "Feldman, McMillan, Talwar 2022; docs/proofs/amplification.md"

    def below(self, event: Shuffled, neighbors: Neighbors) -> Event | None:
        return None

    def without_mass(self, event: Shuffled, neighbors: Neighbors) -> tuple[Fraction, Event]:
        mass, rest = base.without_mass(event.event, neighbors)
        return (mass, rest) if mass else (Fraction(0), event)

    def renyi(self, event: Shuffled, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        return base.renyi_of_event(event.event, alpha, neighbors)

    def rho(self, event: Shuffled, neighbors: Neighbors) -> Fraction:
        return base.rules_of(event.event).rho(event.event, neighbors)

    def curve(self, event: Shuffled, asked: base.Profile) -> PrivacyProfile:
        return base.curve_by_caller(event, asked)

    def finite_loss(self, event: Shuffled, neighbors: Neighbors) -> FiniteLoss | None:
        alone = base.finite_loss(event.event, neighbors)
        return None if alone is None else alone._replace(attained=False)
