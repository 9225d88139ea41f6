"""One unit in place of another on samples: rows of three laws, enumerated."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.accounting import by_grids
from tests.accounting.finite_pairs import Pair, largest_delta
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import delta_interval, epsilon, epsilon_interval
from unacorda.accounting.amplification.sampling import pure_of_replaced_sample, replaced_response
from unacorda.accounting.divergences import renyi_of_law
from unacorda.accounting.laws import of_replaced_pure
from unacorda.accounting.pld.distribution import PrivacyLossDistribution
from unacorda.accounting.pld.sources import finite_pair
from unacorda.accounting.prices import pure_epsilon, renyi
from unacorda.accounting.profiles.amplified import two_steps
from unacorda.accounting.rules.base import curve_of
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
    Staircase,
    TruncatedLaplace,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import AddRemove, ReplaceOne, ZeroOut

EPSILONS = (0.0, 1e-3, 0.05, 0.2, 0.5, 1.0, 2.0)


def pulled_apart(one: Pair, other: Pair) -> tuple[Pair, NDArray[np.float64]]:
    """(P, P') and R with R's outcomes ordered so that P is likely where P' is not.

    one: (P, R), other: (P', R), each by outcomes of its own.
    """
    orders = np.argsort(one.p / one.q), np.argsort(-other.p / other.q)
    sums = [np.cumsum(pair.q[order]) for pair, order in zip((one, other), orders, strict=True)]
    ends = np.unique(np.concatenate(sums))
    neither = np.diff(np.append(0.0, ends))
    ratios = []
    for pair, order, places in zip((one, other), orders, sums, strict=True):
        index = np.minimum(np.searchsorted(places, ends - neither / 2), len(order) - 1)
        ratios.append((pair.p / pair.q)[order][index])
    return Pair(neither * ratios[0], neither * ratios[1]), neither


@pytest.mark.long
@pytest.mark.parametrize("seed", mostly_slow(range(12), quick=5))
def test_no_row_of_three_laws_exceeds_the_profile_of_two_steps(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rate = float(generator.choice([0.03, 0.3, 1.0]))
    first, second = generator.dirichlet(np.ones(5)), generator.dirichlet(np.ones(5))
    middle = generator.dirichlet(np.ones(5))
    curve = two_steps(
        finite_pair(first, middle), finite_pair(middle, second), Fraction(rate), attained=None
    )
    truth = Pair(rate * first + (1 - rate) * middle, rate * second + (1 - rate) * middle)
    for at in EPSILONS:
        found = curve(np.array([at]))
        assert truth.delta(at) <= found.upper[0] * (1 + 1e-12) + 1e-15
        assert found.lower[0] <= found.upper[0]


@pytest.mark.long
@pytest.mark.parametrize("seed", mostly_slow(range(8), quick=5))
def test_the_row_that_pulls_apart_attains_it_at_every_epsilon(seed: int) -> None:
    generator = np.random.default_rng(100 + seed)
    rate = float(generator.choice([0.1, 0.6, 1.0]))
    first, second = generator.dirichlet(np.ones(4)), generator.dirichlet(np.ones(4))
    one, other = generator.dirichlet(np.ones(4)), generator.dirichlet(np.ones(4))
    curve = two_steps(
        finite_pair(first, one), finite_pair(other, second), Fraction(rate), attained=None
    )
    apart, neither = pulled_apart(Pair(first, one), Pair(second, other))
    truth = Pair(rate * apart.p + (1 - rate) * neither, rate * apart.q + (1 - rate) * neither)
    for at in EPSILONS:
        found, exact = curve(np.array([at])), truth.delta(at)
        assert found.lower[0] <= exact + 1e-13
        assert exact <= found.upper[0] + 1e-13
        assert found.upper[0] <= exact * (1 + 1e-3) + 1e-6  # about the best y, not far above


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "rate"), mostly_slow([(1.0, 0.1), (3.0, 0.01), (0.4, 0.5), (1.0, 1.0)])
)
def test_gaussian_noise_is_moved_up_and_down(noise: float, rate: float) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate)
    curve = curve_of(event, neighbors=ReplaceOne)
    for at in (0.0, 0.01, 0.3, 1.0, 3.0):
        found = curve(np.array([at]))
        other = by_grids.delta_interval([(event, 1)], epsilon=at, neighbors=ReplaceOne)
        assert found.lower[0] <= other.upper
        assert other.lower <= found.upper[0]
        if found.upper[0] > 1e-30:
            assert found.upper[0] - found.lower[0] <= 1e-4 * found.upper[0]


@pytest.mark.parametrize(("pure", "rate", "count"), [(1.0, 0.1, 1), (0.5, 0.3, 4), (2.0, 0.05, 6)])
def test_pure_mechanisms_on_samples_have_three_losses(pure: float, rate: float, count: int) -> None:
    high = 1 / (1 + math.exp(pure))
    neither = np.array([high, high, 1 - 2 * high])
    low = math.exp(-pure)
    first = neither * [1 / low, low, low]
    second = neither * [low, 1 / low, low]
    assert first.sum() == pytest.approx(1, abs=1e-14)
    pair = Pair(rate * first + (1 - rate) * neither, rate * second + (1 - rate) * neither)
    event = Pure(epsilon=pure).poisson_sampled(rate=rate) * count
    whole = pair**count
    grid = PrivacyLossDistribution.from_event(event, neighbors=ReplaceOne)
    for at in (0.0, 0.1, 0.3, 0.7):
        truth = largest_delta(whole, at)
        for found in (
            delta_interval(event, epsilon=at, neighbors=ReplaceOne),
            grid.delta_interval(at),
        ):
            assert found.lower <= truth + 1e-13
            assert truth <= found.upper + 1e-13
            assert found.width <= 1e-6 * max(truth, 1e-9)
    largest = float(np.max(np.log(pair.p / pair.q)))
    assert pure_epsilon(event, neighbors=ReplaceOne) == pytest.approx(count * largest, rel=1e-12)
    assert pure_of_replaced_sample(pure, rate=rate) < 2 * math.log1p(rate * math.expm1(pure))
    for alpha in (1.1, 2.0, 30.0):
        moment = math.fsum(pair.p**alpha * pair.q ** (1 - alpha))
        bound = renyi_of_law(of_replaced_pure(Fraction(pure), Fraction(rate)), alpha=alpha)
        assert bound == pytest.approx(math.log(moment) / (alpha - 1), rel=1e-9)
        assert renyi(event, alpha=alpha, neighbors=ReplaceOne) == pytest.approx(count * bound)


def test_other_rows_of_pure_laws_stay_below() -> None:
    pure, rate = 1.2, 0.25
    largest = float(replaced_response(pure, rate=rate)[0])
    event = Pure(epsilon=pure).poisson_sampled(rate=rate)
    generator = np.random.default_rng(5)
    for _ in range(200):
        neither = generator.dirichlet(np.ones(6))
        laws = []
        for _ in range(2):
            ratio = np.exp(generator.choice([-pure, 0.0, pure], 6))
            law = neither * ratio
            laws.append(law / law.sum())
        first, second = laws
        reach = max(float(np.max(np.abs(np.log(law / neither)))) for law in laws)
        if reach > pure:
            continue
        pair = Pair(rate * first + (1 - rate) * neither, rate * second + (1 - rate) * neither)
        assert np.max(np.abs(np.log(pair.p / pair.q))) <= largest
        for at in (0.0, 0.1, 0.2):
            bound = delta_interval(event, epsilon=at, neighbors=ReplaceOne).upper
            assert largest_delta(pair, at) <= bound + 1e-14


EVENTS: list[Event] = [
    Laplace(noise_multiplier=1.0),
    DiscreteGaussian(sigma=2.0, sensitivity=1),
    DiscreteLaplace(scale=2.0, sensitivity=2),
    TruncatedLaplace(noise_multiplier=1.0, bound=20),
    Staircase(epsilon=1.0, split=0.5),
    RandomizedResponse(epsilon=1.0, categories=3),
    Exponential(epsilon=1.0),
    Approximate(epsilon=0.5, delta=1e-8),
    ZeroConcentrated(rho=0.1),
    Laplace(noise_multiplier=2.0) + Gaussian(noise_multiplier=2.0),
]


QUICK = (Laplace, TruncatedLaplace, Approximate)


@pytest.mark.long
@pytest.mark.parametrize(
    "event",
    mostly_slow(
        [
            pytest.param(event, marks=() if isinstance(event, QUICK) else pytest.mark.slow)
            for event in EVENTS
        ]
    ),
    ids=lambda event: str(event)[:30],
)
def test_every_event_on_a_poisson_sample_is_priced_under_replacement(event: Event) -> None:
    sampled = event.poisson_sampled(rate=0.05) * 10
    found = epsilon_interval(sampled, delta=1e-5, neighbors=ReplaceOne)
    alone = epsilon_interval(sampled, delta=1e-5)
    assert found.upper >= alone.lower  # an empty unit may come
    assert found.upper <= 2 * epsilon(sampled, delta=1e-5 / (1 + math.exp(alone.upper)))
    back = delta_interval(sampled, epsilon=found.upper, neighbors=ReplaceOne)
    assert back.lower <= 1e-5 * (1 + 1e-9)
    if isinstance(event, Laplace | DiscreteGaussian | DiscreteLaplace | TruncatedLaplace):
        assert found.width <= 5e-3 * found.upper


@pytest.mark.slow
def test_laplace_noise_moved_up_and_down_is_enumerated() -> None:
    """Discrete noise on a table, three steps: (1-q) X + q (X + 1) against (1-q) X + q (X - 1)."""
    scale, rate, count = 3.0, 0.2, 3
    places = np.arange(-400, 401)
    law = np.exp(-np.abs(places) / scale)
    law /= law.sum()
    up, down = np.roll(law, 1), np.roll(law, -1)
    pair = Pair(rate * up + (1 - rate) * law, rate * down + (1 - rate) * law).joined() ** count
    event = DiscreteLaplace(scale=scale, sensitivity=1).poisson_sampled(rate=rate) * count
    for at in (0.0, 0.1, 0.2, 0.3):
        truth = largest_delta(pair, at)
        found = delta_interval(event, epsilon=at, neighbors=ReplaceOne)
        assert found.lower <= truth + 1e-12
        assert truth <= found.upper + 1e-12
        assert found.width <= 2e-3 * truth + 1e-12


# ---------------------------------------------------------------------------- emptied units


def test_emptied_contributions_on_samples_of_a_fixed_size_are_enumerated() -> None:
    """The number of ones on 2 of 3 units with geometric noise; a unit's bit becomes 0."""
    scale, size, population = 1.5, 2, 3
    places = np.arange(-120, 121)
    noise = np.exp(-np.abs(places) / scale)
    noise /= noise.sum()

    def law(table: tuple[int, ...]) -> NDArray[np.float64]:
        total = np.zeros_like(noise)
        samples = list(itertools.combinations(range(population), size))
        for sample in samples:
            total += np.roll(noise, sum(table[i] for i in sample)) / len(samples)
        return total

    event = DiscreteLaplace(scale=scale, sensitivity=1).fixed_size_sampled(
        size=size, population=population
    )
    largest = 0.0
    for at in (0.0, 0.1, 0.25, 0.4, 0.6):
        found = delta_interval(event, epsilon=at, neighbors=ZeroOut)
        for others in itertools.product((-1, 0, 1), repeat=2):
            for bit in (-1, 1):
                pair = Pair(law((bit, *others)), law((0, *others)))
                for one in (pair, pair.turned()):
                    assert one.delta(at) <= found.upper + 1e-13
                largest = max(largest, largest_delta(pair, at) - found.lower)
        assert found.upper <= delta_interval(event, epsilon=at, neighbors=ReplaceOne).upper + 1e-13
    assert largest >= -1e-13  # the lower end is of one of these tables


@pytest.mark.long
@pytest.mark.parametrize("size", mostly_slow([5, 10]))
def test_emptying_costs_between_a_poisson_sample_and_replacing(size: int) -> None:
    event = Gaussian(noise_multiplier=2.0).fixed_size_sampled(size=size, population=10) * 5
    emptied = epsilon_interval(event, delta=1e-6, neighbors=ZeroOut)
    replaced = epsilon(event, delta=1e-6, neighbors=ReplaceOne)
    poisson = Gaussian(noise_multiplier=2.0).poisson_sampled(rate=Fraction(size, 10)) * 5
    plain = epsilon_interval(poisson, delta=1e-6)
    assert emptied.lower <= plain.upper * (1 + 1e-3)
    assert plain.lower <= emptied.upper <= replaced * (1 + 1e-9)
    if size == 10:
        assert emptied.upper == pytest.approx(plain.upper, rel=1e-4)
    mixed = event + Laplace(noise_multiplier=4.0).sampled_with_replacement(size=2, population=50)
    assert emptied.lower <= epsilon(mixed, delta=1e-6, neighbors=ZeroOut) < replaced + 0.5


@pytest.mark.slow
def test_relations_agree_where_they_are_the_same() -> None:
    event = Laplace(noise_multiplier=1.0).poisson_sampled(rate=0.2) * 3
    assert epsilon(event, delta=1e-6, neighbors=ZeroOut) == epsilon(
        event, delta=1e-6, neighbors=AddRemove
    )


@pytest.mark.long
def test_many_hits_of_one_unit_take_seconds() -> None:
    """Each number of hits has a profile of its own; no cost of the whole is below that of one."""
    before = time.process_time()
    several = Pure(epsilon=0.3479).sampled_with_replacement(size=149_153, population=353_192)
    found = epsilon_interval(several * 20, delta=1e-39, neighbors=ReplaceOne)
    assert time.process_time() - before < 20
    assert found.upper >= epsilon(several, delta=1e-39, neighbors=ReplaceOne)
    known = epsilon(Pure(epsilon=0.3479) * 20, delta=1e-39, neighbors=ReplaceOne)
    most = pure_epsilon(several * 20, neighbors=ReplaceOne)
    assert most is not None
    assert found.upper <= most
    assert known < found.upper  # a unit that is hit often costs more than one


@pytest.mark.long
def test_a_part_without_a_known_pair_takes_no_lower_end_from_the_others() -> None:
    noise = Laplace(noise_multiplier=229.8) * 20
    sample = Approximate(epsilon=0.0017, delta=4e-12).fixed_size_sampled(size=7, population=10**8)
    alone = delta_interval(noise, epsilon=4.5e-5, neighbors=ReplaceOne)
    both = delta_interval(noise + sample, epsilon=4.5e-5, neighbors=ReplaceOne)
    assert alone.lower <= both.lower <= both.upper
    assert both.upper - both.lower < 1e-4 * both.upper
    cost = epsilon_interval(noise + sample, delta=1e-6, neighbors=ReplaceOne)
    assert cost.lower >= epsilon_interval(noise, delta=1e-6, neighbors=ReplaceOne).lower > 0
