"""Privacy loss distributions: exact enumeration, closed forms, reference values, known faults."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.accounting.profile_bounds import profile_bounds
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.pld.distribution import (
    PrivacyLossDistribution,
    worst_delta,
    worst_epsilon,
)
from unacorda.accounting.pld.grid import law_above, law_below, places
from unacorda.accounting.rules.base import curve_of
from unacorda.errors import InvalidParameter
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
)

mp = mpmath.MPContext()
mp.dps = 50

LAWS: list[Event] = [
    Gaussian(noise_multiplier=1),
    Gaussian(noise_multiplier=0.2),
    Gaussian(noise_multiplier=30),
    Laplace(noise_multiplier=3),
    Exponential(epsilon=1.5),
    RandomizedResponse(epsilon=0.7, categories=5),
    Approximate(epsilon=0.5, delta=1e-3),
    DiscreteGaussian(sigma=1.5, sensitivity=1),
    DiscreteLaplace(scale=2, sensitivity=3),
    Gaussian(noise_multiplier=1).poisson_sampled(rate=0.01),
    Gaussian(noise_multiplier=0.6).poisson_sampled(rate=0.001),
    Laplace(noise_multiplier=0.5).poisson_sampled(rate=0.1),
]


def exact_delta(pairs: list[list[tuple[Fraction, Fraction]]], epsilon: float) -> Any:
    """The profile of a product of finite pairs, by enumeration in rational numbers."""
    factor = mp.exp(mp.mpf(epsilon))
    total = mp.mpf(0)
    for outcome in itertools.product(*pairs):
        p = math.prod((one[0] for one in outcome), start=Fraction(1))
        q = math.prod((one[1] for one in outcome), start=Fraction(1))
        difference = _long(p) - factor * _long(q)
        total += max(difference, mp.mpf(0))
    return total


def _long(value: Fraction) -> Any:
    return mp.mpf(value.numerator) / value.denominator


def shares(counts: list[int]) -> list[Fraction]:
    return [Fraction(count, sum(counts)) for count in counts]


pairs_of_laws = st.integers(2, 4).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any),
        st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any),
    )
)


@pytest.mark.long
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    drawn=st.lists(pairs_of_laws, min_size=2, max_size=4),
    epsilon=st.floats(-1.5, 3.0, allow_nan=False),
)
def test_the_truth_lies_inside_for_finite_pairs(
    drawn: list[tuple[list[int], list[int]]], epsilon: float
) -> None:
    pairs = [list(zip(shares(p), shares(q), strict=True)) for p, q in drawn]
    losses = [
        PrivacyLossDistribution.from_pmfs(
            [float(p) for p, _ in pair], [float(q) for _, q in pair], grid=1 << 13
        )
        for pair in pairs
    ]
    composed = losses[0]
    for other in losses[1:]:
        composed = composed.compose(other)
    found = composed.delta_interval(epsilon)
    truth = exact_delta(pairs, epsilon)
    # the masses were rounded to floats before the engine saw them: 1e-15 each
    assert found.lower <= truth + mp.mpf(1e-14)
    assert truth - mp.mpf(1e-14) <= found.upper
    assert found.width < 1e-10


@pytest.mark.parametrize("count", [1, 2, 7])
def test_one_pair_composed_with_itself(count: int) -> None:
    p, q = shares([5, 3, 2]), shares([2, 3, 5])
    loss = PrivacyLossDistribution.from_pmfs([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]).self_compose(count)
    pairs = [list(zip(p, q, strict=True))] * count
    for epsilon in (-0.5, 0.0, 0.7, 2.1):
        found = loss.delta_interval(epsilon)
        truth = exact_delta(pairs, epsilon)
        assert found.lower <= truth + mp.mpf(1e-14)
        assert truth - mp.mpf(1e-14) <= found.upper
        assert found.width < 1e-12


@in_subtests("event", LAWS, ids=lambda event: str(event)[:50])
@pytest.mark.parametrize("step", mostly_slow([Fraction(1, 10), Fraction(1, 97), Fraction(1, 1000)]))
def test_laws_on_grids_lie_above_and_below_the_profile(event: Event, step: Fraction) -> None:
    for direction in ("remove", "add"):
        curve = curve_of(event, direction=direction)
        first, last = math.floor(-6 / step), math.ceil(12 / step)
        above = law_above(curve, step=step, first=first, last=last)
        below = law_below(curve, step=step, first=first, last=last)
        losses = places(first, last - first + 1, step).lower
        generator = np.random.default_rng(5)
        asked = np.concatenate((generator.uniform(-7, 13, 60), generator.uniform(-0.1, 0.1, 60)))
        truth = curve(asked)
        for epsilon, low, high in zip(asked, truth.lower, truth.upper, strict=True):
            beyond = losses > epsilon
            kernel = -np.expm1(epsilon - losses[beyond])
            one = math.fsum(above.weights[beyond] * kernel) + above.infinity
            two = math.fsum(below.weights[beyond] * kernel) + below.infinity
            assert one >= low * (1 - 1e-13)
            assert two <= high * (1 + 1e-13)
        assert math.fsum(below.weights) + below.infinity <= 1
        kernels = np.exp(-np.abs(losses))
        if above.infinity > 0.01:
            continue  # the grid ends where much of the law lies
        if step <= Fraction(1, 20) and "0.001" not in str(event):
            ours = math.fsum(below.weights * kernels) + below.infinity
            assert ours > 0.5 * (math.fsum(above.weights * kernels) + above.infinity)
        # where all the mass lies within one cell, the lower law may show no loss; else it is near
        if step == Fraction(1, 1000):
            for epsilon in (0.0, 0.05):
                kernel = np.maximum(-np.expm1(epsilon - losses), 0.0)
                one = math.fsum(above.weights * kernel) + above.infinity
                two = math.fsum(below.weights * kernel) + below.infinity
                assert one - two <= 2e-3 * (1 + one)


@pytest.mark.parametrize(("delta", "count"), [(0.3, 3), (1e-5, 100), (1e-15, 1000), (1e-200, 1000)])
def test_gaussian_sums_against_their_closed_form(delta: float, count: int) -> None:
    noise = 2 * math.sqrt(count)
    loss = PrivacyLossDistribution.from_event(Gaussian(noise_multiplier=noise) * count)
    found = loss.epsilon_interval(delta)
    assert found.width <= 1e-4 * found.upper
    for end, side in ((found.lower, 1), (found.upper, -1)):
        if end == 0 and side > 0:
            continue
        low, high = profile_bounds(Gaussian(noise_multiplier=noise) * count, [end])
        assert high[0] >= delta if side > 0 else low[0] <= delta


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta", "epsilon"),
    mostly_slow(
        [
            (0.01, 1.0, 1_000, 1e-5, 1.8282367),
            (0.01, 1.0, 10_000, 1e-5, 6.1877124),
            (0.001, 0.6, 50_000, 1e-5, 4.3800978),
        ]
    ),
)
def test_reference_values_of_the_sampled_gaussian(
    rate: float, noise: float, steps: int, delta: float, epsilon: float
) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * steps
    losses = [
        PrivacyLossDistribution.from_event(event, direction=direction, grid=1 << 18)
        for direction in ("remove", "add")
    ]
    found = worst_epsilon(losses, delta=delta)
    assert found.lower <= epsilon * (1 + 1e-6)
    assert epsilon * (1 - 1e-6) <= found.upper
    assert found.width < 1e-3 * epsilon if rate == 0.01 else 1e-2 * epsilon


@pytest.mark.parametrize(
    ("count", "delta"),
    [(2, 0.05), (40, 0.2), (40, 1e-6), (40, 1e-15), (1000, 1e-15), (1000, 1e-100)],
)
def test_randomised_response_against_binomial_sums(count: int, delta: float) -> None:
    loss = PrivacyLossDistribution.from_event(RandomizedResponse(epsilon=0.1, categories=2) * count)
    found = loss.epsilon_interval(delta)
    low, high = binomial(count, found.lower), binomial(count, found.upper)
    assert high <= delta
    assert low >= delta * (1 - mp.mpf(1e-9)) or found.lower == 0
    assert found.width <= 1e-9 * max(found.upper, 0.1)


def binomial(count: int, epsilon: float) -> Any:
    pure = mp.mpf(1) / 10
    p = 1 / (1 + mp.exp(-pure))
    total = mp.mpf(0)
    for many in range(count + 1):
        loss = (2 * many - count) * pure
        if loss > epsilon:
            weight = mp.binomial(count, many) * p**many * (1 - p) ** (count - many)
            total -= weight * mp.expm1(mp.mpf(epsilon) - loss)
    return total


def test_a_wide_loss_is_never_wrapped_into_a_small_window() -> None:
    """A peer reported [45.7, 45.9] here: its window was too small for the composed loss."""
    event = Gaussian(noise_multiplier=1) * 1000
    loss = PrivacyLossDistribution.from_event(event, grid=1 << 12)
    found = loss.epsilon_interval(1e-5)
    low, high = profile_bounds(event, [found.lower, found.upper])
    assert high[0] >= 1e-5 >= low[1]
    assert 577 < found.lower <= found.upper < 720


def test_the_lower_end_stays_below_the_truth_at_tiny_delta() -> None:
    """An optimistic bound lay above the truth at delta = 1e-15: round-off was not counted."""
    event = Gaussian(noise_multiplier=100) * 1000
    loss = PrivacyLossDistribution.from_event(event)
    for delta in (1e-12, 1e-15, 1e-18, 1e-30):
        found = loss.epsilon_interval(delta)
        low, high = profile_bounds(event, [found.lower, found.upper])
        assert high[0] >= delta >= low[1]


def test_masses_at_infinity_add() -> None:
    """A union of deltas was taken as their maximum: two parts of mass d have 1 - (1-d)^2."""
    promise = Approximate(epsilon=0.1, delta=0.01)
    loss = PrivacyLossDistribution.from_event(promise * 2)
    found = loss.delta_interval(0.1)
    top = 1 / (1 + math.exp(-0.1))  # of the losses 0.2, 0 and -0.2 the first is above 0.1
    truth = 1 - 0.99**2 * (1 - top**2 * -math.expm1(-0.1))
    assert found.lower <= truth * (1 + 1e-12)
    assert 1 - 0.99**2 < truth <= found.upper * (1 + 1e-12)
    assert found.width < 1e-12
    thousand = PrivacyLossDistribution.from_event(Approximate(epsilon=0.1, delta=1e-9) * 500)
    assert thousand.delta_interval(20.0).lower >= 499e-9
    assert thousand.epsilon_interval(1e-6).width < 1e-8
    assert thousand.epsilon(1e-7) == math.inf


def test_mixtures_agree_with_finer_grids_and_order_does_not_matter() -> None:
    event = Laplace(noise_multiplier=7) * 20 + Gaussian(noise_multiplier=5) * 10
    turned = Gaussian(noise_multiplier=5) * 10 + Laplace(noise_multiplier=7) * 20
    coarse = PrivacyLossDistribution.from_event(event, grid=1 << 12).epsilon_interval(1e-6)
    fine = PrivacyLossDistribution.from_event(turned, grid=1 << 17).epsilon_interval(1e-6)
    assert coarse.lower <= fine.upper
    assert fine.lower <= coarse.upper
    assert fine.width < coarse.width
    assert fine.width < 1e-5 * fine.upper


def test_discrete_laws_compose_on_their_lattice() -> None:
    event = DiscreteLaplace(scale=10, sensitivity=1) * 50
    found = PrivacyLossDistribution.from_event(event).epsilon_interval(1e-8)
    assert found.width < 1e-9


@pytest.mark.long
def test_profiles_of_the_callers() -> None:
    lower, upper = profile_bounds(Gaussian(noise_multiplier=4), [0.0])
    by_event = PrivacyLossDistribution.from_event(Gaussian(noise_multiplier=4) * 30)

    def profile(epsilons: Any) -> Any:
        return profile_bounds(Gaussian(noise_multiplier=4), epsilons)

    by_function = PrivacyLossDistribution.from_profile(profile).self_compose(30)
    epsilons = np.linspace(-2, 4, 4001)
    low, high = profile(epsilons)
    by_samples = PrivacyLossDistribution.from_profile((epsilons, (low + high) / 2))
    by_samples = by_samples.self_compose(30)
    assert float(lower[0]) <= float(upper[0])
    expected = by_event.delta_interval(2.0)
    for other in (by_function, by_samples):
        found = other.delta_interval(2.0)
        assert found.lower <= expected.upper
        assert expected.lower <= found.upper
    assert by_function.delta_interval(2.0).width < 1e-4 * expected.upper
    assert by_samples.delta(2.0) < 1.0001 * expected.upper
    assert by_samples.delta_interval(2.0).width < 0.01 * expected.upper


@pytest.mark.long
def test_pairs_of_scipy() -> None:
    normal = PrivacyLossDistribution.from_scipy(stats.norm(1, 2), stats.norm(0, 2))
    event = PrivacyLossDistribution.from_event(Gaussian(noise_multiplier=2))
    for count in (1, 10):
        found = normal.self_compose(count).delta_interval(1.0)
        truth = event.self_compose(count).delta_interval(1.0)
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper
        assert found.width < (1e-7 if count == 1 else 1e-3)
        assert found.upper < truth.upper * (1 + 1e-5)
    binomials = PrivacyLossDistribution.from_scipy(stats.binom(20, 0.5), stats.binom(20, 0.4))
    pairs = [
        (math.comb(20, k) * 0.5**20, math.comb(20, k) * 0.4**k * 0.6 ** (20 - k)) for k in range(21)
    ]
    truth_at = math.fsum(max(p - math.exp(0.5) * q, 0) for p, q in pairs)
    found = binomials.delta_interval(0.5)
    assert found.lower <= truth_at * (1 + 1e-9)
    assert truth_at * (1 - 1e-9) <= found.upper
    assert found.width < 1e-9


@pytest.mark.statistical
def test_samples_bound_with_their_confidence() -> None:
    """False alarms: below 1e-9, the confidence asked for."""
    generator = np.random.default_rng(11)
    losses = generator.normal(0.5, 1.0, 200_000)  # the loss of N(1, 1) against N(0, 1)
    loss = PrivacyLossDistribution.from_samples(losses, confidence=1 - 1e-9)
    truth = profile_bounds(Gaussian(noise_multiplier=1), [1.0])
    found = loss.delta_interval(1.0)
    assert found.lower <= truth[1][0]
    assert truth[0][0] <= found.upper
    assert 0.005 < found.width < 0.05
    assert loss.confidence == 1 - 1e-9
    assert loss.compose(loss).confidence == pytest.approx(1 - 2e-9, abs=1e-12)


@pytest.mark.slow
def test_the_worse_of_two_directions() -> None:
    event = Gaussian(noise_multiplier=1).poisson_sampled(rate=0.1) * 10
    losses = [
        PrivacyLossDistribution.from_event(event, direction="remove"),
        PrivacyLossDistribution.from_event(event, direction="add"),
    ]
    both = worst_delta(losses, epsilon=1.0)
    ends = [loss.delta_interval(1.0) for loss in losses]
    assert both.upper == max(end.upper for end in ends)
    assert both.lower == max(end.lower for end in ends)
    assert worst_epsilon(losses, delta=1e-5).upper == max(one.epsilon(1e-5) for one in losses)


def test_masses_look_like_the_loss() -> None:
    pmf = PrivacyLossDistribution.from_event(Gaussian(noise_multiplier=5) * 25).pmf
    mass = float(np.sum(pmf.masses)) + pmf.infinity
    assert mass == pytest.approx(1.0, abs=1e-6)
    assert float(np.sum(pmf.losses * pmf.masses)) == pytest.approx(0.5, abs=1e-4)


@pytest.mark.long
def test_edges() -> None:
    loss = PrivacyLossDistribution.from_event(Laplace(noise_multiplier=5) * 10)
    assert loss.epsilon_interval(1.0) == (0.0, 0.0)
    zero = loss.epsilon_interval(0.0)
    assert zero.lower <= 2.0 <= zero.upper
    far = loss.delta_interval(-30.0)
    assert far.lower <= -math.expm1(-30.0) <= far.upper <= 1
    assert loss.delta(5.0) < 1e-200
    nothing = PrivacyLossDistribution.from_event(Pure(epsilon=0) * 5)
    assert nothing.epsilon(1e-12) == 0.0
    single = PrivacyLossDistribution.from_event(Gaussian(noise_multiplier=1))
    assert single.epsilon_interval(1e-5).width < 1e-9


def test_many_steps_stay_valid() -> None:
    for count in (10**6, 10**9):
        noise = 2.0 * math.sqrt(count)
        event = Gaussian(noise_multiplier=noise) * count
        found = PrivacyLossDistribution.from_event(event).epsilon_interval(1e-6)
        low, high = profile_bounds(event, [found.lower, found.upper])
        assert high[0] >= 1e-6 >= low[1]


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match="sum 1"):
        PrivacyLossDistribution.from_pmfs([0.5, 0.4], [0.5, 0.5])
    with pytest.raises(InvalidParameter, match="the same number of masses"):
        PrivacyLossDistribution.from_pmfs([0.5, 0.5], [1.0])
    with pytest.raises(InvalidParameter, match="convex"):
        PrivacyLossDistribution.from_profile(([0.0, 1.0, 2.0], [0.5, 0.49, 0.1]))
    with pytest.raises(InvalidParameter, match="NaN"):
        PrivacyLossDistribution.from_samples([0.1, math.nan])
    with pytest.raises(InvalidParameter, match="grid"):
        PrivacyLossDistribution.from_event(Pure(epsilon=1), grid=7)
    loss = PrivacyLossDistribution.from_event(Pure(epsilon=1))
    for delta in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidParameter, match="delta"):
            loss.epsilon_interval(delta)
    with pytest.raises(InvalidParameter, match="epsilon"):
        loss.delta_interval(math.nan)
    with pytest.raises(InvalidParameter, match="count"):
        loss.self_compose(0)
