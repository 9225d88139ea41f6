"""Rules of promises: pure, approximate and concentrated privacy, and what answers at random."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from unacorda.accounting.divergences import renyi_of_law
from unacorda.accounting.laws import Finite, FiniteLoss, Law, of_bounded_range, of_points
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.bounded_ranges import MOST_AT_ONCE, bounded_ranges, one_coin
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.profiles.noises import finite
from unacorda.accounting.rules.base import Profile, Rules, Together, known, rules_for
from unacorda.accounting.rules.noise import no_gdp
from unacorda.checks import exact
from unacorda.privacy import conversions
from unacorda.privacy.conversions.group import approx_dp_of_group
from unacorda.privacy.events import (
    Approximate,
    Event,
    Exponential,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP, RenyiDP, renyi_of, zcdp_of
from unacorda.privacy.neighbors import Neighbors
from unacorda.privacy.rounding import grid_up

_FEW_RANGES = 8
"""Beyond, lattices are coarser: what several ranges lose together is more."""
_MOST_COINS = 1000
"""Beyond, the best coin hardly changes."""


def epsilon_of(event: Pure | Approximate | RandomizedResponse | Exponential) -> Fraction:
    """The epsilon that is promised."""
    return exact("epsilon", event.epsilon)


@rules_for(Pure)
class PureRules(Rules[Pure]):
    """Binary randomised response stands for whatever is epsilon-DP."""

    theorem = "randomised response, beside a mass of which nothing is known, stands for it"
    source = "Kairouz, Oh, Viswanath 2015, Thm. 3.3"
    symmetric = mirrored = opposite = attains_pure = True

    def replaced(self, event: Pure, units: int) -> Event:
        return Pure(epsilon=2 * units * epsilon_of(event))

    def pure(self, event: Pure) -> Fraction:
        return epsilon_of(event)

    def law(self, event: Pure, *, reach: int) -> Law:
        return of_points(epsilon_of(event), 2)


@rules_for(Approximate)
class ApproximateRules(Rules[Approximate]):
    """Binary randomised response next to a mass of which nothing is known."""

    theorem = PureRules.theorem
    source = PureRules.source
    symmetric = mirrored = opposite = True

    def replaced(self, event: Approximate, units: int) -> Event:
        larger, mass = approx_dp_of_group(
            epsilon_of(event), delta=exact("delta", event.delta), size=2 * units
        )
        return Approximate(epsilon=larger, delta=Fraction(mass))

    def doubles(self, event: Approximate) -> bool:
        return event.delta == 0

    def without_mass(self, event: Approximate, neighbors: Neighbors) -> tuple[Fraction, Event]:
        return exact("delta", event.delta), Pure(epsilon=event.epsilon)

    def pure(self, event: Approximate) -> Fraction | None:
        return None if event.delta else epsilon_of(event)

    def approximate(self, event: Approximate) -> tuple[Fraction, Fraction]:
        return epsilon_of(event), exact("delta", event.delta)

    def finite_loss(self, event: Approximate, neighbors: Neighbors) -> FiniteLoss:
        return FiniteLoss(*self.approximate(event), attained=True)

    def curve(self, event: Approximate, asked: Profile) -> PrivacyProfile:
        mass = exact("delta", event.delta)
        return replace(super().curve(event, asked), infinity=mass, infinity_above=None)

    def law(self, event: Approximate, *, reach: int) -> Law:
        epsilon, mass = self.approximate(event)
        return of_points(epsilon, 2, mass)


@rules_for(ZeroConcentrated)
class ZeroConcentratedRules(Rules[ZeroConcentrated]):
    """Renyi divergences of all orders, and a mass of which nothing is known."""

    theorem = "Renyi divergences of every order"
    source = "Bun and Steinke 2016"
    symmetric = opposite = True

    def replaced(self, event: ZeroConcentrated, units: int) -> Event:
        if event.delta:
            return super().replaced(event, units)
        return ZeroConcentrated(rho=(2 * units) ** 2 * exact("rho", event.rho))

    def without_mass(self, event: ZeroConcentrated, neighbors: Neighbors) -> tuple[Fraction, Event]:
        return exact("delta", event.delta), ZeroConcentrated(rho=event.rho)

    def zcdp(self, event: ZeroConcentrated) -> ZCDP:
        return ZCDP(exact("rho", event.rho), exact("delta", event.delta))

    def gdp(self, event: ZeroConcentrated, *, fine: bool) -> GDP:
        raise no_gdp(event)

    def renyi_price(self, event: ZeroConcentrated, order: Fraction) -> RenyiDP:
        if event.delta:
            raise self.has_delta(event)
        return known(renyi_of(self.zcdp(event), alpha=order))

    def concentrated(self, event: ZeroConcentrated) -> Fraction:
        return exact("rho", event.rho)

    def curve(self, event: ZeroConcentrated, asked: Profile) -> PrivacyProfile:
        return curves.zero_concentrated(exact("rho", event.rho), exact("delta", event.delta))


@rules_for(RandomizedResponse)
class RandomizedResponseRules(Rules[RandomizedResponse]):
    """Its epsilon speaks of replacing one answer from the start."""

    theorem = "randomised response, by its exact loss"
    source = "Kairouz, Oh, Viswanath 2015"
    symmetric = mirrored = attains_pure = True

    def replaced(self, event: RandomizedResponse, units: int) -> Event:
        return event if units == 1 else Pure(epsilon=units * epsilon_of(event))

    def pure(self, event: RandomizedResponse) -> Fraction:
        return epsilon_of(event)

    def renyi(self, event: RandomizedResponse, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        return Fraction(renyi_of_law(self.law(event, reach=0), alpha=alpha))

    def law(self, event: RandomizedResponse, *, reach: int) -> Finite:
        return of_points(epsilon_of(event), event.categories)


@rules_for(Exponential)
class ExponentialRules(Rules[Exponential]):
    """A bounded range of log-ratios, which is worth more than its pure epsilon."""

    theorem = "bounded range: coins of every bias"
    source = "Dong, Durfee, Rogers 2020"
    symmetric = True

    def replaced(self, event: Exponential, units: int) -> Event:
        return Exponential(epsilon=2 * units * epsilon_of(event))

    def pure(self, event: Exponential) -> Fraction:
        return epsilon_of(event)

    def zcdp(self, event: Exponential) -> ZCDP:
        by_range = ZCDP(conversions.zcdp_from_bounded_range(epsilon_of(event)))
        return min(by_range, known(zcdp_of(PureDP(epsilon_of(event)))))

    def gdp(self, event: Exponential, *, fine: bool) -> GDP:
        square = Fraction(conversions.gdp_from_bounded_range(epsilon_of(event))) ** 2
        return GDP.from_squared(square if fine else grid_up(square))

    def renyi_price(self, event: Exponential, order: Fraction) -> RenyiDP:
        by_range = known(renyi_of(self.zcdp(event), alpha=order))
        return min(known(renyi_of(PureDP(epsilon_of(event)), alpha=order)), by_range)

    def curve(self, event: Exponential, asked: Profile) -> PrivacyProfile:
        """No exponential mechanism need reach the maximum over all pairs under composition."""
        # two candidates whose odds go from e^{-epsilon/2} to e^{epsilon/2}
        pair = finite(of_points(epsilon_of(event) / 2, 2))
        return replace(super().curve(event, asked), attained=pair)

    def together(
        self,
        event: Exponential,
        count: int,
        among: Sequence[tuple[Event, int]],
        asked: Profile,
    ) -> Together | None:
        """By the optimal composition of the coins, in blocks; the pair is one coin for all."""
        edge = epsilon_of(event)
        alike = [(epsilon_of(one), n) for one, n in among if isinstance(one, Exponential)]
        blocks, rest = divmod(count, MOST_AT_ONCE)
        found = [(MOST_AT_ONCE, blocks)] * bool(blocks) + [(rest, 1)] * bool(rest)
        fine = len(alike) <= _FEW_RANGES
        above = [
            bounded_ranges(edge, size, fine=fine, quick=asked.quick)
            if size > 1
            else self.curve(event, asked)
            for size, _ in found
        ]
        known = [curve for curve in above if curve is not None]
        if sum(n for _, n in alike) == 1 or len(known) < len(found):
            return None
        if asked.quick:  # which asks for upper ends
            return Together(tuple(zip(known, [n for _, n in found], strict=True)), curves.nothing())
        # the coin that suits as many of this range as deviate like all
        several = round(sum(n * (one / edge) ** 2 for one, n in alike))
        times = [n for _, n in found]
        return Together(
            tuple(zip(known, times, strict=True)), one_coin(edge, min(several, _MOST_COINS))
        )

    def law(self, event: Exponential, *, reach: int) -> Law:
        return of_bounded_range(epsilon_of(event))
