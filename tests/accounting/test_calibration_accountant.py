"""Calibration by the accountant's own prices: closed forms, a reference, and no overshoot."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import pytest

from unacorda.accounting import accountant, renyi
from unacorda.accounting.calibration import (
    Advantage,
    TruePositiveRate,
    calibrate,
    calibrate_grid,
    calibration,
)
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixFactorization,
    Pure,
    TreeAggregation,
)
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, RenyiDP
from unacorda.privacy.neighbors import ReplaceOne, ZeroOut


def gaussian(noise: float) -> Event:
    return Gaussian(noise_multiplier=noise)


def training(noise: float) -> Event:
    return gaussian(noise).poisson_sampled(rate=0.01) * 10_000


def test_the_least_noise_of_private_training() -> None:
    """The reference was made by another method, to eight digits."""
    found = calibration(training, target=ApproxDP(2, 1e-5))
    assert math.isclose(found.parameter, 2.1273754, rel_tol=1e-6)
    assert found.cost <= 2
    assert accountant.epsilon(training(found.parameter), delta=1e-5) <= 2
    assert accountant.epsilon(training(found.parameter * (1 - 1e-7)), delta=1e-5) > 2
    assert found.evaluations <= 14


@pytest.mark.slow
def test_the_least_noise_of_one_gaussian() -> None:
    noise = calibrate(gaussian, target=ApproxDP(1, 1e-5))
    exact = 1 / conversions.gdp_from_approx_dp(1.0, delta=1e-5)
    assert exact * (1 - 1e-10) <= noise <= exact * (1 + 3e-8)


@pytest.mark.slow
def test_a_target_without_epsilon_is_met_by_delta() -> None:
    noise = calibrate(gaussian, target=ApproxDP(0, 0.1))
    exact = 1 / (2 * NormalDist().inv_cdf(0.55))
    assert math.isclose(noise, exact, rel_tol=1e-7)
    assert calibrate(gaussian, target=Advantage(0.1)) == noise


@pytest.mark.slow
def test_a_target_without_delta_is_met_by_pure_mechanisms_alone() -> None:
    noise = calibrate(lambda x: Laplace(noise_multiplier=x) * 7, target=ApproxDP(1, 0))
    assert 7 <= noise <= 7 * (1 + 1e-8)
    with pytest.raises(UnsupportedEvent):
        calibrate(gaussian, target=ApproxDP(1, 0))
    sampled = calibrate(
        lambda x: Laplace(noise_multiplier=x).poisson_sampled(rate=0.1), target=ApproxDP(1, 0)
    )
    assert math.isclose(sampled, 1 / math.log1p(math.expm1(1) / 0.1), rel_tol=1e-7)
    with pytest.raises(InvalidParameter, match="costs inf"):
        calibrate(
            lambda x: gaussian(x) + Approximate(epsilon=0, delta=0.1), target=ApproxDP(1, 0.1)
        )


def test_a_gaussian_target_of_samples_goes_through_their_pure_epsilon() -> None:
    """A tenth of people: e^epsilon - 1 is ten times that of the sample."""

    def sampled(noise: float) -> Event:
        return Laplace(noise_multiplier=noise).poisson_sampled(rate=0.1)

    noise = calibrate(sampled, target=GDP(0.5))
    inner = math.log1p(10 * math.expm1(conversions.pure_from_gdp(0.5)))
    assert noise == pytest.approx(1 / inner, rel=1e-8)
    assert noise >= 1 / inner
    with pytest.raises(UnsupportedEvent, match="privacy loss"):
        calibrate(lambda x: gaussian(x).poisson_sampled(rate=0.1), target=GDP(0.5))


def test_a_renyi_target() -> None:
    noise = calibrate(gaussian, target=RenyiDP(8, 1))
    assert 2 <= noise <= 2 * (1 + 1e-8)
    sampled = calibrate(training, target=RenyiDP(8, 0.5))
    assert renyi(training(sampled), alpha=8) <= 0.5
    assert renyi(training(sampled * (1 - 1e-7)), alpha=8) > 0.5


@pytest.mark.long
def test_a_true_positive_rate() -> None:
    target = TruePositiveRate(at_most=0.02, fpr=0.01)
    normal = NormalDist()
    mu = normal.inv_cdf(0.02) - normal.inv_cdf(0.01)
    assert math.isclose(calibrate(gaussian, target=target), 1 / mu, rel_tol=1e-7)
    # Randomised response: the rate is e^epsilon fpr.
    pure = calibrate(
        lambda x: Pure(epsilon=x),
        target=target,
        find="most",
        within=(1e-3, 5),
        guess=0.7,
        tolerance=1e-6,
    )
    assert math.log(2) * (1 - 1e-5) <= pure <= math.log(2)


@pytest.mark.slow
def test_a_true_positive_rate_of_private_training() -> None:
    noise = calibrate(training, target=TruePositiveRate(at_most=0.02, fpr=0.01), tolerance=1e-4)
    curve = accountant.tradeoff(training(noise), points=60)
    assert 0.0199 <= curve.true_positive_rate(fpr=0.01) <= 0.0203
    advantage = calibrate(training, target=Advantage(0.1))
    assert accountant.delta(training(advantage), epsilon=0) <= 0.1
    assert accountant.delta(training(advantage * (1 - 1e-6)), epsilon=0) > 0.1


def test_how_many_steps() -> None:
    def steps(count: int) -> Event:
        return gaussian(1.0).poisson_sampled(rate=0.01) * count

    found = calibrate(steps, target=ApproxDP(2, 1e-5), find="most", whole=True, guess=1000)
    assert accountant.epsilon(steps(found), delta=1e-5) <= 2
    assert accountant.epsilon(steps(found + 1), delta=1e-5) > 2


@pytest.mark.slow
def test_the_relation_is_passed_on() -> None:
    def sample(noise: float) -> Event:
        return gaussian(noise).fixed_size_sampled(size=10, population=1000) * 100

    noise = calibrate(sample, target=ApproxDP(1, 1e-5), neighbors=ReplaceOne, tolerance=1e-6)
    assert accountant.epsilon(sample(noise), delta=1e-5, neighbors=ReplaceOne) <= 1
    with pytest.raises(InvalidParameter):
        calibrate(sample, target=ApproxDP(1, 1e-5))


@pytest.mark.parametrize("event", [MatrixFactorization, TreeAggregation, Gaussian, GaussianMixture])
def test_targets_by_a_price_count_both_units_of_a_replacement(event: type) -> None:
    """Numbers of these events but Gaussian's compare a unit with none."""
    more: dict[type, dict[str, Any]] = {
        MatrixFactorization: {"encoder": (1,), "steps": 1},
        TreeAggregation: {"steps": 1},
        GaussianMixture: {"shifts": (1,), "weights": (1,)},
    }

    def family(noise: float) -> Event:
        made: Event = event(noise_multiplier=noise, **more.get(event, {}))
        return made + Gaussian(noise_multiplier=1e9)

    double = 1 if event is Gaussian else 2
    for target, noise in ((GDP(0.5), 2), (ZCDP(0.02), 5)):
        for neighbors, expected in ((ZeroOut, noise), (ReplaceOne, double * noise)):
            found = calibrate(family, target=target, neighbors=neighbors)
            assert math.isclose(found, expected, rel_tol=1e-6)


def test_a_grid_of_rates_and_steps() -> None:
    found = calibrate_grid(
        lambda noise, rate, steps: gaussian(noise).poisson_sampled(rate=rate) * steps,
        target=ApproxDP(2, 1e-5),
        over={"rate": [0.005, 0.01], "steps": [3000, 10_000]},
        tolerance=1e-6,
    )
    assert found.shape == (2, 2)
    assert math.isclose(found[1, 1], 2.1273754, rel_tol=2e-6)
    assert (found[0] < found[1]).all()
    assert (found[:, 0] < found[:, 1]).all()
