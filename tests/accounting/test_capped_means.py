"""Bounds from where the sum of very many losses lies, against exact ones of few and of many."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.test_capped_sums import Pair, relative_width, steps
from tests.tiers import mostly_slow

from unacorda.accounting import accountant
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.pld.capped_means import delta_below, epsilon_below
from unacorda.accounting.pld.sampled_cells import SampledGaussian
from unacorda.privacy.events import Gaussian


@pytest.mark.parametrize(("rate", "noise"), [(0.9, 0.3), (0.5, 0.1), (0.01, 0.2), (1e-6, 3.0)])
def test_below_the_delta_of_one_step(rate: float, noise: float) -> None:
    exact = Pair(rate, noise)
    step = SampledGaussian(rate, 1 / noise)
    exact.q, exact.mu = mp.mpf(step.rate), mp.mpf(step.mean)
    for epsilon in (0.0, 0.1, 1.0, 3.0, 20.0):
        truth = exact.removed(mp.mpf(epsilon))
        assert delta_below([(step, 1)], epsilon=epsilon) <= truth
        below = epsilon_below([(step, 1)], delta=float(truth) * (1 + 1e-12))
        assert below <= epsilon


@pytest.mark.parametrize(
    ("rate", "noise", "count"), [(0.3, 0.5, 10**4), (0.5, 0.2, 10**6), (1e-3, 2.0, 10**11)]
)
def test_near_what_contours_find_of_many_steps(rate: float, noise: float, count: int) -> None:
    known = contour.epsilon_interval(steps(rate, noise, count), delta=1e-6, directions="remove")
    assert relative_width(known) < 1e-8
    step = SampledGaussian(math.nextafter(rate, 0), math.nextafter(1 / noise, 0))
    found = epsilon_below([(step, count)], delta=1e-6)
    # the sum's deviation, from the moments of one loss on a plain grid
    x = np.linspace(-12, 12 + 1 / noise, 200_001)
    loss = np.log1p(rate * np.expm1(x / noise - 0.5 / noise**2))
    own = np.exp(-x * x / 2 + loss)
    own /= own.sum()
    mean = float(own @ loss)
    deviation = math.sqrt(count * float(own @ (loss - mean) ** 2))
    assert known.lower - 12 * deviation < found <= known.upper
    assert delta_below([(step, count)], epsilon=count * mean - 8 * deviation) > 0.99
    assert delta_below([(step, count)], epsilon=known.upper) <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    mostly_slow(
        [(0.5758, 0.137, 241_250_798_037, 1.989e-8), (0.1217, 0.06618, 21_854_929_152, 0.00268)]
    ),
)
def test_epsilon_of_very_many_steps_is_narrow(
    rate: float, noise: float, count: int, delta: float
) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count
    found = accountant.epsilon_interval(event, delta=delta)
    assert relative_width(found) < 1e-4
    # the mean of the sum, up to a thousandth: nearly every loss of a hit is mu^2 / 2 + ln q
    mu = 1 / noise
    if mu > 10:
        mean = count * (rate * (mu * mu / 2 + math.log(rate)) + (1 - rate) * math.log(1 - rate))
        assert found.lower < mean * 1.001
        assert found.upper > mean * 0.999


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "epsilon"),
    mostly_slow(
        [(0.1905, 0.4245, 205_789_540_970, 7.14e-5), (1.767e-4, 0.08516, 50_384_785_679, 140.4)]
    ),
)
def test_delta_of_very_many_steps_is_one(
    rate: float, noise: float, count: int, epsilon: float
) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count
    found = accountant.delta_interval(event, epsilon=epsilon)
    assert found.upper == 1.0
    assert found.lower > 1 - 1e-12
