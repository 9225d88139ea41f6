"""Rules of noise: Gaussian, Laplace, their discrete kinds, staircases, cut and mixed noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

from unacorda.accounting import divergences
from unacorda.accounting.divergences import (
    renyi_of_discrete_laplace,
    renyi_of_gaussian_mixture,
    renyi_of_law,
)
from unacorda.accounting.laws import (
    Edged,
    Finite,
    Law,
    MixedNormal,
    Normal,
    no_loss,
    of_discrete_gaussian,
    of_discrete_laplace,
    of_laplace,
    of_staircase,
    of_truncated_laplace,
)
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.rules.base import Profile, Rules, known, renyi_of_event, rules_for
from unacorda.balls import float_up
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    GaussianMixture,
    Laplace,
    Pure,
    Staircase,
    TruncatedLaplace,
)
from unacorda.privacy.guarantees import GDP, ZCDP, RenyiDP, renyi_of
from unacorda.privacy.neighbors import Neighbors, ReplaceOne
from unacorda.privacy.rounding import grid_up

_LARGEST_TABLE = 50_000
"""Discrete Gaussians beyond this sigma are bounded by their zCDP, not tabulated."""


def noise_of(event: Gaussian | Laplace | TruncatedLaplace | GaussianMixture) -> Fraction:
    """The noise multiplier."""
    return exact("noise_multiplier", event.noise_multiplier)


@rules_for(Gaussian)
class GaussianRules(Rules[Gaussian]):
    """Everything follows from mu = 1 / noise_multiplier."""

    theorem = "Gaussian noise, by its exact profile; several are one"
    source = "Balle and Wang 2018"
    symmetric = mirrored = opposite = True

    def replaced(self, event: Gaussian, units: int) -> Event:
        return Gaussian(noise_multiplier=noise_of(event) / (2 * units))

    def zcdp(self, event: Gaussian) -> ZCDP:
        return ZCDP(1 / (2 * noise_of(event) ** 2))

    def gdp(self, event: Gaussian, *, fine: bool) -> GDP:
        return GDP.from_squared(1 / noise_of(event) ** 2)

    def renyi_price(self, event: Gaussian, order: Fraction) -> RenyiDP:
        return known(renyi_of(self.zcdp(event), alpha=order))

    def law(self, event: Gaussian, *, reach: int) -> Law:
        return Normal(square=1 / noise_of(event) ** 2)


@rules_for(Laplace)
class LaplaceRules(Rules[Laplace]):
    """Pure privacy of 1 / noise_multiplier."""

    theorem = "Laplace noise, by its exact loss"
    source = "Dwork, McSherry, Nissim, Smith 2006"
    symmetric = mirrored = opposite = True

    def replaced(self, event: Laplace, units: int) -> Event:
        return Laplace(noise_multiplier=noise_of(event) / (2 * units))

    def pure(self, event: Laplace) -> Fraction:
        return 1 / noise_of(event)

    def renyi_price(self, event: Laplace, order: Fraction) -> RenyiDP:
        found = conversions.renyi_from_laplace(self.pure(event), alpha=order)
        return RenyiDP(order, grid_up(found))

    def law(self, event: Laplace, *, reach: int) -> Law:
        return of_laplace(self.pure(event))


@rules_for(DiscreteGaussian)
class DiscreteGaussianRules(Rules[DiscreteGaussian]):
    """Exact where the integers move by at most one step; zCDP beyond."""

    theorem = "discrete Gaussian noise, exactly for a shift by one, else by zCDP"
    source = "Canonne, Kamath, Steinke 2020"
    symmetric = mirrored = opposite = True

    def replaced(self, event: DiscreteGaussian, units: int) -> Event:
        moved = 2 * units * exact("sensitivity", event.sensitivity)
        return DiscreteGaussian(sigma=event.sigma, sensitivity=moved)

    def zcdp(self, event: DiscreteGaussian) -> ZCDP:
        return ZCDP(
            (exact("sensitivity", event.sensitivity) / exact("sigma", event.sigma)) ** 2 / 2
        )

    def gdp(self, event: DiscreteGaussian, *, fine: bool) -> GDP:
        raise no_gdp(event)

    def renyi_price(self, event: DiscreteGaussian, order: Fraction) -> RenyiDP:
        return known(renyi_of(self.zcdp(event), alpha=order))

    def concentrated(self, event: DiscreteGaussian) -> Fraction | None:
        sigma, sensitivity = exact("sigma", event.sigma), exact("sensitivity", event.sensitivity)
        known_exactly = sensitivity < 1 or _tabulated(sigma, sensitivity)
        return None if known_exactly else self.zcdp(event).rho

    def curve(self, event: DiscreteGaussian, asked: Profile) -> PrivacyProfile:
        """One shift by 1 below an l2 sensitivity of sqrt(2), exactly; else zCDP above it."""
        sigma, sensitivity = exact("sigma", event.sigma), exact("sensitivity", event.sensitivity)
        shift = math.floor(sensitivity)
        if _tabulated(sigma, sensitivity):
            return curves.discrete_gaussian(sigma, shift)
        if shift == 0:
            return curves.nothing()
        above = curves.zero_concentrated(self.zcdp(event).rho)
        below = curves.nothing()
        if sigma <= _LARGEST_TABLE:
            below = curves.discrete_gaussian(sigma, shift)
        return curves.between(below, above.evaluate)

    def law(self, event: DiscreteGaussian, *, reach: int) -> Law | None:
        square = exact("sensitivity", event.sensitivity) ** 2
        if square < 1:
            return no_loss()
        return of_discrete_gaussian(exact("sigma", event.sigma), reach) if square < 2 else None


@rules_for(DiscreteLaplace)
class DiscreteLaplaceRules(Rules[DiscreteLaplace]):
    """Pure privacy of sensitivity / scale; the query is a whole number."""

    theorem = "two-sided geometric noise, by its exact loss"
    source = "Ghosh, Roughgarden et al. 2012"
    symmetric = mirrored = opposite = True

    def replaced(self, event: DiscreteLaplace, units: int) -> Event:
        moved = 2 * units * exact("sensitivity", event.sensitivity)
        return DiscreteLaplace(scale=event.scale, sensitivity=moved)

    def pure(self, event: DiscreteLaplace) -> Fraction:
        return exact("sensitivity", event.sensitivity) / exact("scale", event.scale)

    def renyi(self, event: DiscreteLaplace, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        found = renyi_of_discrete_laplace(
            exact("scale", event.scale),
            sensitivity=exact("sensitivity", event.sensitivity),
            alpha=alpha,
        )
        return Fraction(found)

    def curve(self, event: DiscreteLaplace, asked: Profile) -> PrivacyProfile:
        return curves.discrete_laplace(exact("scale", event.scale), _shift(event))

    def law(self, event: DiscreteLaplace, *, reach: int) -> Law:
        return of_discrete_laplace(1 / exact("scale", event.scale), _shift(event))


@rules_for(Staircase)
class StaircaseRules(Rules[Staircase]):
    """A finite law of losses on multiples of epsilon."""

    theorem = "staircase noise, by its exact loss"
    source = "Geng and Viswanath 2014"
    symmetric = mirrored = True

    def doubles(self, event: Staircase) -> bool:
        return False

    def replaced(self, event: Staircase, units: int) -> Event:
        return Pure(epsilon=2 * units * self.pure(event))

    def pure(self, event: Staircase) -> Fraction:
        return exact("epsilon", event.epsilon)

    def gdp(self, event: Staircase, *, fine: bool) -> GDP:
        mu = divergences.gdp_of_staircase(self.pure(event), exact("split", event.split))
        return GDP.from_squared(grid_up(mu**2))

    def renyi_price(self, event: Staircase, order: Fraction) -> RenyiDP:
        return RenyiDP(order, grid_up(renyi_of_law(self.law(event, reach=0), alpha=order)))

    def law(self, event: Staircase, *, reach: int) -> Finite:
        return of_staircase(self.pure(event), exact("split", event.split))


@rules_for(TruncatedLaplace)
class TruncatedLaplaceRules(Rules[TruncatedLaplace]):
    """A law between two edges, and a mass where only one of both supports lies."""

    theorem = "cut Laplace noise, by its exact loss; where only one law lives, all is shown"
    source = "Geng, Ding, Guo, Kumar 2020"
    symmetric = mirrored = opposite = True

    def replaced(self, event: TruncatedLaplace, units: int) -> Event:
        bound = exact("bound", event.bound) / (2 * units)
        if 2 * bound < 1:  # the supports part: everything is shown
            return Approximate(epsilon=0, delta=1)
        return TruncatedLaplace(noise_multiplier=noise_of(event) / (2 * units), bound=bound)

    def approximate(self, event: TruncatedLaplace) -> tuple[Fraction, Fraction]:
        law = self.law(event, reach=0)
        return law.edge, min(Fraction(float_up(law.infinite)), Fraction(1))

    def without_mass(self, event: TruncatedLaplace, neighbors: Neighbors) -> tuple[Fraction, Event]:
        epsilon, mass = self.approximate(event)
        return mass, Pure(epsilon=epsilon)

    def law(self, event: TruncatedLaplace, *, reach: int) -> Edged:
        return of_truncated_laplace(1 / noise_of(event), exact("bound", event.bound))


@rules_for(GaussianMixture)
class GaussianMixtureRules(Rules[GaussianMixture]):
    """No worse than its largest shift; known exactly by the ratio of the mixture."""

    theorem = "a mixture of Gaussians against one, in both directions"
    source = "Choquette-Choo, Ganesh, Steinke, Thakurta 2024"
    opposite = True

    def replaced(self, event: GaussianMixture, units: int) -> Event:
        # whatever both units drew: mixtures are no farther apart than their farthest parts
        moved = divergences.moved_by(event)
        if moved == 0:
            return Pure(epsilon=0)
        return Gaussian(noise_multiplier=1 / (2 * units * moved))

    def of_both_units(self, event: GaussianMixture) -> Event:
        return self.replaced(event, 1)

    def below(self, event: GaussianMixture, neighbors: Neighbors) -> Event | None:
        if neighbors is not ReplaceOne:
            return event
        return self.replaced(event, 1) if self.doubles(event) else None

    def doubles(self, event: GaussianMixture) -> bool:
        shifts, weights = shares_of(event)
        return len({shift for shift, weight in zip(shifts, weights, strict=True) if weight}) == 1

    def pure(self, event: GaussianMixture) -> Fraction | None:
        return Fraction(0) if divergences.moved_by(event) == 0 else None

    def zcdp(self, event: GaussianMixture) -> ZCDP:
        return ZCDP(divergences.moved_by(event) ** 2 / 2)

    def gdp(self, event: GaussianMixture, *, fine: bool) -> GDP:
        return GDP.from_squared(divergences.moved_by(event) ** 2)

    def renyi_price(self, event: GaussianMixture, order: Fraction) -> RenyiDP:
        shifts, weights = shares_of(event)
        found = renyi_of_gaussian_mixture(noise_of(event), shifts, weights, rate=1, alpha=order)
        return RenyiDP(order, grid_up(found))

    def renyi(self, event: GaussianMixture, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        if neighbors is ReplaceOne:
            return renyi_of_event(self.replaced(event, 1), alpha, neighbors)
        return self.renyi_price(event, alpha).epsilon

    def rho(self, event: GaussianMixture, neighbors: Neighbors) -> Fraction:
        times = 2 if neighbors is ReplaceOne else 1
        return self.zcdp(event).rho * times**2

    def curve(self, event: GaussianMixture, asked: Profile) -> PrivacyProfile:
        if asked.neighbors is ReplaceOne:
            return asked.of(self.replaced(event, 1))
        return super().curve(event, asked)

    def law(self, event: GaussianMixture, *, reach: int) -> Law | None:
        shifts, weights = shares_of(event)
        return MixedNormal(noise=noise_of(event), shifts=shifts, weights=weights)


def no_gdp(event: Event) -> UnsupportedEvent:
    """The error that what is zCDP need not be GDP.

    The discrete Gaussian of sigma 1 and sensitivity 1 needs mu of at least 1.0458, not 1.
    """
    return UnsupportedEvent(
        event, kind="GDP", try_instead="It has a price as ZCDP; use rounded Gaussian noise."
    )


def _tabulated(sigma: Fraction, sensitivity: Fraction) -> bool:
    return sensitivity * sensitivity < 2 and sigma <= _LARGEST_TABLE


def _shift(event: DiscreteLaplace) -> int:
    """By how many whole numbers the query moves."""
    return math.floor(exact("sensitivity", event.sensitivity))


def shares_of(event: GaussianMixture) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Shifts and weights, exactly."""
    shifts = tuple(exact("shifts", shift) for shift in event.shifts)
    return shifts, tuple(exact("weights", weight) for weight in event.weights)
