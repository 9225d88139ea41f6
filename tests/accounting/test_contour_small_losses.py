"""Contours where losses are as small as 1e-13 each, and where only one direction can matter."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
from tests.accounting.by_contours import delta_interval, epsilon_interval
from tests.tiers import mostly_slow

from unacorda.privacy.events import Event, Gaussian


def steps(q: float, sigma: float, count: int) -> list[tuple[Event, int]]:
    return [(Gaussian(noise_multiplier=sigma).poisson_sampled(rate=q), count)]


def delta_of_two(q: float, sigma: float, epsilon: float) -> Any:
    """Of two steps with a unit removed: the profile of one, in closed form, averaged over one."""
    mp = mpmath.mp
    rate, mu = mp.mpf(q), 1 / mp.mpf(sigma)

    def profile(at: Any) -> Any:
        rest = mp.expm1(at) + rate
        if rest <= 0:
            return -mp.expm1(at)
        place = mp.log(rest / rate) / mu + mu / 2
        tail, raised = (mp.erfc(x / mp.sqrt(2)) / 2 for x in (place, place - mu))
        return rate * raised - rest * tail

    def integrand(x: Any) -> Any:
        f = 1 - rate + rate * mp.exp(mu * x - mu * mu / 2)
        return mp.npdf(x) * f * profile(mp.mpf(epsilon) - mp.log(f))

    return mp.quad(integrand, mp.linspace(-8, 26, 52))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "sigma", "deviations"),
    mostly_slow([(3.889e-7, 209100.0, 12.0), (1.471e-6, 11030.0, 20.0)]),
)
def test_delta_of_tiny_losses_is_that_of_long_arithmetic(
    q: float, sigma: float, deviations: float
) -> None:
    epsilon = deviations * math.sqrt(2) * q / sigma
    found = delta_interval(steps(q, sigma, 2), epsilon=epsilon)
    with mpmath.workdps(60):
        truth = delta_of_two(q, sigma, epsilon)
        assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 1e-6 * found.upper


def test_epsilon_far_below_a_billionth_is_found() -> None:
    event = steps(1.17e-9, 835400.0, 1144028)
    found = epsilon_interval(event, delta=2.734e-119)
    assert 0 < found.upper - found.lower < 1e-8 * found.upper
    assert delta_interval(event, epsilon=found.upper).lower <= 2.734e-119
    assert delta_interval(event, epsilon=found.lower).upper >= 2.734e-119


def test_an_added_unit_that_can_not_lose_so_much_does_not_widen_delta() -> None:
    event = steps(0.01042, 0.06905, 6334)  # an added one loses at most 6334 ln(1 / (1 - q)) = 66.3
    found = delta_interval(event, epsilon=21183.0)
    assert 0 < found.upper - found.lower < 1e-8 * found.upper
    assert found == delta_interval(event, epsilon=21183.0, directions="remove")
