"""What events cost on grids: mass at infinity, lower ends that are reached, extremes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from tests.tiers import mostly_slow

from unacorda.accounting import accountant
from unacorda.accounting.pld.distribution import PrivacyLossDistribution
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
    compose,
)
from unacorda.privacy.neighbors import ReplaceOne

mp = mpmath.MPContext()
mp.dps = 50


@pytest.mark.long
def test_mass_at_infinity_beside_the_asked_delta() -> None:
    part = Approximate(epsilon=0.2, delta=1e-6)
    event = part * 10 + Laplace(noise_multiplier=10.0) * 10
    loss = PrivacyLossDistribution.from_event(event)
    mass = 1 - (1 - mp.mpf(10) ** -6) ** 10
    for factor in (1 + 1e-9, 1.001, 2.0):
        delta = float(mass) * factor
        found = loss.epsilon_interval(delta)
        assert found.upper < math.inf
        assert found.lower <= 3.0 + 1e-12
        assert loss.delta_interval(found.upper).lower <= delta
    assert loss.epsilon(float(mass) * (1 - 1e-9)) == math.inf
    far = loss.delta_interval(10.0)
    assert far.lower <= mass <= far.upper
    assert far.width <= 1e-12


@pytest.mark.long
def test_zero_concentrated_costs_are_added_before_they_are_converted() -> None:
    event = ZeroConcentrated(rho=0.01) * 10 + Laplace(noise_multiplier=10) * 20
    found = accountant.epsilon_interval(event, delta=1e-6)
    gaussian = Gaussian(noise_multiplier=1 / math.sqrt(0.2)) + Laplace(noise_multiplier=10) * 20
    least = accountant.epsilon_interval(gaussian, delta=1e-6)
    assert found.lower >= least.lower * (1 - 1e-4)
    assert found.upper >= least.upper
    alone = accountant.epsilon_interval(ZeroConcentrated(rho=0.1), delta=1e-6).upper
    assert (
        alone
        < found.upper
        < alone + accountant.epsilon(Laplace(noise_multiplier=10) * 20, delta=1e-6)
    )


@pytest.mark.long
def test_exponential_mechanisms_have_a_lower_end_above_that_of_symmetric_coins() -> None:
    found = PrivacyLossDistribution.from_event(Exponential(epsilon=0.1) * 200).epsilon_interval(
        1e-6
    )
    coins = accountant.epsilon_interval(
        RandomizedResponse(epsilon=0.05, categories=2) * 200, delta=1e-6
    )
    assert coins.lower <= found.lower <= found.upper <= 1.02 * found.lower


@pytest.mark.long
def test_lattices_that_miss_each_other() -> None:
    event = (
        DiscreteLaplace(scale=7, sensitivity=1) * 3
        + DiscreteLaplace(scale=11, sensitivity=2) * 2
        + DiscreteGaussian(sigma=Fraction(31, 10), sensitivity=1) * 2
        + Pure(epsilon=Fraction(1, 13))
    )
    found = accountant.epsilon_interval(event, delta=1e-5)
    assert found.width <= 3e-4 * found.upper
    finest = PrivacyLossDistribution.from_event(event, grid=1 << 18).epsilon_interval(1e-5)
    assert finest.lower <= found.upper
    assert found.lower <= finest.upper


@pytest.mark.long
@pytest.mark.parametrize("delta", mostly_slow([0.0, 1e-12, 1e-9, 1e-3]))
def test_coins_that_share_no_lattice_against_all_their_sums(delta: float) -> None:
    """Steep tilts make windows so small that coarse lattices would be spread over 10^8 nodes."""
    coins = [(Fraction(1, 7), 3), (Fraction(1, 11), 2), (Fraction(123456789, 10**9), 5)]
    event = compose([Pure(epsilon=pure) * count for pure, count in coins])
    loss = PrivacyLossDistribution.from_event(event, grid=1 << 16)
    found = loss.epsilon_interval(delta)
    sums = [(mp.mpf(0), mp.mpf(1))]
    for pure, count in coins:
        one = mp.mpf(pure.numerator) / pure.denominator
        p = 1 / (1 + mp.exp(-one))
        sums = [
            (
                loss_so_far + (2 * up - count) * one,
                mass * mp.binomial(count, up) * p**up * (1 - p) ** (count - up),
            )
            for loss_so_far, mass in sums
            for up in range(count + 1)
        ]

    def truth(epsilon: float) -> Any:
        return mp.fsum(
            -mass * mp.expm1(mp.mpf(epsilon) - place) for place, mass in sums if place > epsilon
        )

    if found.upper < math.inf:
        assert truth(found.upper) <= delta
        assert found.width <= 1e-4 * found.upper
    else:
        assert delta == 0  # a grid's sum has a largest loss, but round-off beyond it
    if found.lower > 0:
        assert truth(found.lower) >= delta


@pytest.mark.long
@pytest.mark.parametrize(
    "event",
    [
        Pure(epsilon=0) * 3 + Approximate(epsilon=0, delta=1),
        pytest.param(
            RandomizedResponse(epsilon=30, categories=1000) * 4 + Laplace(noise_multiplier=0.1),
            marks=pytest.mark.slow,
        ),
        Laplace(noise_multiplier=2).poisson_sampled(rate=1e-12) * 10**6,
        DiscreteGaussian(sigma=Fraction(1, 10), sensitivity=1) * 5,
        Gaussian(noise_multiplier=0.3).poisson_sampled(rate=1e-9) * 10**9,
        Laplace(noise_multiplier=10**7) * 10**12,
    ],
    ids=lambda event: str(event)[:40],
)
def test_extremes_end_and_stay_valid(event: Event) -> None:
    loss = PrivacyLossDistribution.from_event(event, grid=1 << 14)
    for delta in (1e-300, 1e-9, 0.4):
        found = loss.epsilon_interval(delta)
        assert 0 <= found.lower <= found.upper
        for epsilon in (found.upper, found.upper * 1.5 + 0.1):
            if epsilon < 1e6:
                assert loss.delta_interval(epsilon).lower <= delta
    for epsilon in (0.0, 1e-3, 5.0):
        found = loss.delta_interval(epsilon)
        assert 0 <= found.lower <= found.upper <= 1


def draws(rho: str, size: int, population: int) -> Event:
    one = ZeroConcentrated(rho=Fraction(rho))
    return one.sampled_with_replacement(size=size, population=population)


@pytest.mark.long
@pytest.mark.parametrize(
    ("event", "delta", "most"),
    mostly_slow(
        [
            # epsilon was 0.839, and delta there 8.6e-6
            (draws("7.53e-5", 1, 22) * 1502, 1.24e-16, 0.45),
            # epsilon was 0.0249, and delta there 7.4e-4
            (draws("5.23e-5", 17, 7572) * 1428, 6.57e-7, 0.0072),
            # epsilon was 360.9, that of Renyi divergences
            (draws("0.739", 11, 40522) * 53254, 2.72e-29, 207.0),
        ]
    ),
)
def test_of_draws_with_replacement_the_losses_below_0_are_told(
    event: Event, delta: float, most: float
) -> None:
    found = accountant.epsilon(event, delta=delta, neighbors=ReplaceOne)
    assert found < most
    assert accountant.delta(event, epsilon=found, neighbors=ReplaceOne) <= delta * (1 + 1e-6)


@pytest.mark.long
def test_one_draw_with_replacement_costs_no_less_than_a_pair_of_one_without() -> None:
    one = ZeroConcentrated(rho=Fraction("7.53e-5"))
    found = accountant.epsilon(draws("7.53e-5", 1, 22) * 1502, delta=1e-16, neighbors=ReplaceOne)
    other = one.fixed_size_sampled(size=1, population=22) * 1502
    lower = accountant.epsilon_interval(other, delta=1e-16, neighbors=ReplaceOne).lower
    assert 0 < lower <= found
