"""Numbers that compare a unit with none are doubled under replacement, also where all take part."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.accounting import by_contours
from tests.accounting.profile_bounds import profile_bounds
from tests.tiers import mostly_slow

from unacorda.accounting import (
    delta,
    delta_interval,
    epsilon,
    epsilon_interval,
    renyi,
    rho,
    tradeoff,
)
from unacorda.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixFactorization,
    Pure,
    RandomAllocation,
    Staircase,
    TreeAggregation,
)
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

_NOISE = Gaussian(noise_multiplier=1)
_MIXTURE = GaussianMixture(noise_multiplier=1, shifts=(0, 1), weights=(0.5, 0.5))


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _gaussian_delta(mu: float, at: float) -> float:
    """Balle and Wang 2018, Theorem 8, for outputs `mu` standard deviations apart."""
    return _normal(mu / 2 - at / mu) - math.exp(at) * _normal(-mu / 2 - at / mu)


@pytest.mark.parametrize(
    ("event", "squared"),
    mostly_slow(
        [
            (_NOISE.poisson_sampled(rate=1), 4),
            (_NOISE.poisson_sampled(rate=1).poisson_sampled(rate=1), 4),
            ((_NOISE * 2).poisson_sampled(rate=1), 8),
            (_NOISE.poisson_sampled(rate=1) * 3, 12),
            ((_NOISE.poisson_sampled(rate=1) + Pure(epsilon=0)).poisson_sampled(rate=1), 4),
            (
                _NOISE.poisson_sampled(rate=1) + _NOISE,
                5,
            ),  # outside a sample: as the relation moves it
            (_NOISE.randomly_allocated(steps=1), 4),
            (_NOISE.randomly_allocated(steps=3, uses=3), 12),
            (GaussianMixture(noise_multiplier=1, shifts=(1,), weights=(1,)), 4),
            (GaussianMixture(noise_multiplier=1, shifts=(1,), weights=(1,)) * 2, 8),
            (GaussianMixture(noise_multiplier=1, shifts=(1,), weights=(1,)) + _NOISE, 5),
        ],
        quick=2,
    ),
    ids=lambda value: type(value).__name__ if isinstance(value, Event) else str(value),
)
def test_where_everybody_takes_part_a_replaced_unit_moves_twice_as_far(
    event: Event, squared: int
) -> None:
    for at in (0.5, 1.0, 2.0):
        truth = _gaussian_delta(math.sqrt(squared), at)
        found = delta(event, epsilon=at, neighbors=ReplaceOne)
        assert truth * (1 - 1e-12) <= found <= truth * 1.01
        if not isinstance(event, GaussianMixture | RandomAllocation):
            inside = by_contours.delta_interval([(event, 1)], epsilon=at, neighbors=ReplaceOne)
            assert inside.upper >= truth * (1 - 1e-12)
        assert epsilon(event, delta=found, neighbors=ReplaceOne) <= at * (1 + 1e-6)
    assert renyi(event, alpha=4, neighbors=ReplaceOne) >= 2 * squared * (1 - 1e-12)
    assert rho(event, neighbors=ReplaceOne) == pytest.approx(squared / 2)
    assert delta(event, epsilon=1, neighbors=AddRemove) < delta(
        event, epsilon=1, neighbors=ReplaceOne
    )


def test_everybody_costs_no_less_than_nearly_everybody() -> None:
    for one in (_NOISE, Laplace(noise_multiplier=1), _MIXTURE):
        whole = one.poisson_sampled(rate=1)
        nearly = one.poisson_sampled(rate=0.99)
        for at in (0.25, 1.0):
            most = delta(whole, epsilon=at, neighbors=ReplaceOne)
            assert delta(nearly, epsilon=at, neighbors=AddRemove) < most


@pytest.mark.long
@pytest.mark.parametrize("opposite", mostly_slow([1.0, 0.5]))
def test_a_replaced_mixture_is_no_better_than_its_two_sides(opposite: float) -> None:
    """One unit moves up, the other down: the pair's delta by a sum over a fine grid."""
    x = np.linspace(-12, 12, 200_001)
    density = [np.exp(-0.5 * (x - place) ** 2) / math.sqrt(2 * math.pi) for place in (0, 1)]
    up = 0.5 * density[0] + 0.5 * density[1]
    down = 0.5 * density[0] + 0.5 * np.exp(-0.5 * (x + opposite) ** 2) / math.sqrt(2 * math.pi)
    for at in (0.1, 0.5, 1.5):
        truth = float(np.sum(np.maximum(up - math.exp(at) * down, 0.0)) * (x[1] - x[0]))
        for event in (_MIXTURE, _NOISE.poisson_sampled(rate=0.5)):
            assert delta(event, epsilon=at, neighbors=ReplaceOne) >= truth * (1 - 1e-7)
        assert profile_bounds(_MIXTURE, [at], neighbors=ReplaceOne)[1][0] >= truth * (1 - 1e-7)


@pytest.mark.slow
def test_allocations_of_which_some_have_one_step_count_all_steps_twice() -> None:
    event = _NOISE.randomly_allocated(steps=3, uses=2)
    # the step of its own shows at least one unit replaced in it
    assert delta(event, epsilon=1, neighbors=ReplaceOne) > _gaussian_delta(2, 1)


def test_a_sample_of_everybody_has_a_tradeoff() -> None:
    curve = tradeoff(_NOISE.poisson_sampled(rate=1), points=9)
    assert curve.advantage == pytest.approx(_gaussian_delta(1, 0), rel=1e-3)
    replaced = tradeoff(_NOISE.poisson_sampled(rate=1), neighbors=ReplaceOne, points=9)
    assert replaced.advantage >= _gaussian_delta(2, 0) * (1 - 1e-9)


@pytest.mark.parametrize(
    "event",
    [
        MatrixFactorization(noise_multiplier=2, encoder=(1,), steps=5),
        TreeAggregation(noise_multiplier=2, steps=1),
    ],
    ids=["matrix", "tree"],
)
def test_two_units_take_part_at_steps_of_their_own(event: Event) -> None:
    """A unit that comes may take part where the other did: twice the sensitivity, and reached."""
    twice = Gaussian(noise_multiplier=1)
    once = Gaussian(noise_multiplier=2)
    for whole in (event, event * 3):
        times = 3 if whole != event else 1
        assert delta(whole, epsilon=1, neighbors=ReplaceOne) == delta(twice * times, epsilon=1)
        assert delta(whole, epsilon=1) == delta(once * times, epsilon=1)
        assert renyi(whole, alpha=3, neighbors=ReplaceOne) == 1.5 * times
        assert rho(whole, neighbors=ReplaceOne) == 0.5 * times
    bounds = profile_bounds(event, [1.0], neighbors=ReplaceOne)
    assert bounds[0][0] <= delta(twice, epsilon=1) <= bounds[1][0] * (1 + 1e-9)


_RARE = GaussianMixture(noise_multiplier=1, shifts=(0, 1), weights=(0.99, 0.01))


@pytest.mark.parametrize(
    "event",
    [
        _RARE,
        _RARE.poisson_sampled(rate=1),
        _RARE.fixed_size_sampled(size=2, population=2),
        Approximate(epsilon=0.5, delta=0.01).fixed_size_sampled(size=1, population=2),
        Staircase(epsilon=1, split=0.3).poisson_sampled(rate=1),
    ],
    ids=str,
)
def test_what_stands_for_two_units_from_above_claims_nothing_below(event: Event) -> None:
    """Both units are read as if they drew the largest shift; 99 in 100 draw none."""
    found = epsilon_interval(event, delta=1e-4, neighbors=ReplaceOne)
    assert found.lower == 0 < found.upper
    found = delta_interval(event, epsilon=0.01, neighbors=ReplaceOne)
    assert found.lower == 0 < found.upper


def test_beside_another_part_the_other_one_alone_is_claimed_below() -> None:
    alone = Laplace(noise_multiplier=2)
    whole = _RARE * 3 + alone
    found = epsilon_interval(whole, delta=1e-4, neighbors=ReplaceOne)
    below = epsilon_interval(alone, delta=1e-4, neighbors=ReplaceOne)
    assert below.lower <= found.lower <= below.upper < found.upper
    at, least = (delta_interval(e, epsilon=0.01, neighbors=ReplaceOne) for e in (whole, alone))
    assert 0 < least.lower <= at.lower <= least.upper < at.upper


def test_what_is_reached_is_claimed_below() -> None:
    assert epsilon_interval(_RARE, delta=1e-3).lower > 0
    once = GaussianMixture(noise_multiplier=1, shifts=(1,), weights=(1,))
    found = epsilon_interval(once, delta=1e-3, neighbors=ReplaceOne)
    assert found.upper - found.lower < 1e-8 * found.upper
