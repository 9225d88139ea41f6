"""Jumps over a bulk where a step more or less matters: docs/proofs/jumps.md, Theorem 2."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.tiers import mostly_slow

from unacorda.accounting import accountant
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.jumps import engine
from unacorda.accounting.jumps.compound import Compound, times
from unacorda.accounting.jumps.laws import raised
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Gaussian


def steps(rate: float, noise: float, count: int) -> list[tuple[Event, int]]:
    return [(Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate), count)]


def width(found: Interval) -> float:
    return (found.upper - found.lower) / found.upper


def test_products_are_convolutions_on_the_same_nodes() -> None:
    one = np.array([0.0, 0.0, 0.25, 0.5, 0.0, 0.125])
    two = Compound(np.array([0.5, 0.0, 0.25, 0.0, 0.125, 0.0]), 1e-12, 0.0625)
    whole = np.convolve(one, two.masses) / 3
    found = times(one, two, over=3)
    np.testing.assert_allclose(found.masses, whole[:6], rtol=found.error, atol=0)
    rest = float(whole[6:].sum()) + 0.0625 * float(one.sum()) / 3
    assert rest <= found.beyond <= rest * (1 + 1e-8)
    assert found.error > 1e-12
    tiny = times(np.array([0.0, 1e-160]), Compound(np.array([0.0, 1e-160, 1e-150]), 0.0, 0.0))
    assert tiny.beyond == pytest.approx(1e-310, rel=1e-6)


def test_raised_masses_keep_both_laws() -> None:
    masses, h = np.array([0.5, 0.25, 0.125, 0.0]), 0.1
    found = raised(masses, 0.03, h=h)
    assert found is not None
    null = np.exp(-h * np.arange(4))
    assert float(found.sum()) == pytest.approx(float(masses.sum()), rel=1e-12)
    assert float(found @ null) == pytest.approx(math.exp(-0.03) * float(masses @ null), rel=1e-12)
    assert raised(masses, 0.1, h=h) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "log_delta", "most"),
    mostly_slow(
        [  # of the first, one step in 7775 that is forgotten is more than both widths
            (2.21e-4, 0.837, 7775, -54.2, 2e-4),
            (1.22e-3, 0.585, 101, -79.2, 4e-3),
            (1.06e-5, 6.7, 25202, -87.2, 1e-8),
        ]
    ),
)
def test_contours_meet_jumps_of_few_steps(
    rate: float, noise: float, count: int, log_delta: float, most: float
) -> None:
    event = steps(rate, noise, count)
    epsilon = contour.epsilon_interval(event, delta=math.exp(log_delta)).upper
    exact = contour.delta_interval(event, epsilon=epsilon)
    assert width(exact) < 1e-6
    found = engine.delta_interval(event, epsilon=epsilon)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert width(found) < most
    again = engine.epsilon_interval(event, delta=exact.upper)
    assert again.lower <= epsilon * (1 + 1e-12)
    assert epsilon * (1 - 1e-6) <= again.upper


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "epsilon", "known"),
    mostly_slow(
        [  # the ends are those of sums below caps on their finest grids
            (3.182e-8, 1.288, 194_817, 0.0007896944, (2.16608e-40, 2.16650e-40)),
            (3.837e-8, 2.017, 5434, 0.00128154, (2.260419e-101, 2.260826e-101)),
            (2.713e-5, 4.041, 11_089, 0.0669286, (2.490427e-221, 2.490863e-221)),
            (3.532e-4, 6.656, 384, 0.0353668, (6.036185e-201, 6.036943e-201)),
        ]
    ),
)
def test_the_accountant_is_narrow_between_bulk_and_jump(
    rate: float, noise: float, count: int, epsilon: float, known: tuple[float, float]
) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count
    found, asked = accountant.priced(event, epsilon=epsilon)
    assert asked[-1].engine == "jumps over a bulk"
    assert width(found) < 1e-4
    assert found.lower <= known[1]
    assert known[0] <= found.upper


@pytest.mark.slow
def test_delta_is_told_by_epsilon_where_contours_tell_that_better() -> None:
    event = Gaussian(noise_multiplier=0.6442).poisson_sampled(rate=3.025e-8) * 71_449_707_132
    found, asked = accountant.priced(event, epsilon=44.728)
    assert asked[-1].engine == "contour quadrature of epsilon, turned round"
    assert width(found) < 1e-4
    assert 1.15669e-254 < found.lower < found.upper < 1.15771e-254
