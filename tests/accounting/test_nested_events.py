"""Compositions inside samples, and the best of many runs beside other events, enumerated."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.accounting.finite_pairs import Pair, largest_delta, response
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import (
    delta,
    delta_interval,
    epsilon,
    epsilon_interval,
    priced,
)
from unacorda.accounting.laws import of_laplace
from unacorda.accounting.pld.distribution import PrivacyLossDistribution
from unacorda.accounting.pld.grid import law_above
from unacorda.accounting.pld.parts import curve_of_any
from unacorda.accounting.pld.sources import by_divergences, laid_below, laid_down
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import gaussian, nothing
from unacorda.accounting.profiles.noises import edged
from unacorda.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    NegativeBinomialTries,
    PoissonTries,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

# ----------------------------------------------------------------------- compositions inside


def geometric(scale: float, shift: int) -> Pair:
    places = np.arange(-300, 301)
    law = np.exp(-np.abs(places) / scale)
    law /= law.sum()
    return Pair(np.roll(law, shift), law).joined()


INSIDE: list[tuple[Event, Pair]] = [
    (
        Pure(epsilon=0.7) * 2 + RandomizedResponse(epsilon=1.3, categories=4),
        response(0.7) * response(0.7) * response(1.3, 4),
    ),
    (
        DiscreteLaplace(scale=2, sensitivity=1) + DiscreteLaplace(scale=3, sensitivity=2) * 2,
        geometric(2, 1) * geometric(3, 2) ** 2,
    ),
    (
        Approximate(epsilon=0.4, delta=1e-3) * 2 + Pure(epsilon=0.3),
        (
            Pair(
                np.append(response(0.4).p * (1 - 1e-3), [1e-3, 0]),
                np.append(response(0.4).q * (1 - 1e-3), [0, 1e-3]),
            )
            ** 2
        )
        * response(0.3),
    ),
]


@pytest.mark.parametrize(("inside", "pair"), INSIDE, ids=["coins", "geometric", "leaky"])
@pytest.mark.parametrize(("rate", "count"), mostly_slow([(0.3, 1), (0.1, 3)]))
def test_compositions_on_samples_are_enumerated(
    inside: Event, pair: Pair, rate: float, count: int
) -> None:
    event = inside.poisson_sampled(rate=rate) * count
    whole = pair.joined().sampled(rate).joined() ** count
    for at in (0.0, 0.05, 0.2, 0.6):
        found, truth = delta_interval(event, epsilon=at), largest_delta(whole, at)
        assert found.lower <= truth + 1e-12
        assert truth <= found.upper + 1e-12
        assert found.width <= 1e-3 * truth + 1e-12
    mass = 1e-4 if "Approximate" not in str(inside) else 2e-3
    interval = epsilon_interval(event, delta=mass)
    assert whole.delta(interval.upper) <= mass + 1e-12
    assert largest_delta(whole, interval.lower * (1 - 1e-9)) >= mass - 1e-12


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_curve_of_a_composition_holds_what_contours_find(direction: str) -> None:
    event = Gaussian(noise_multiplier=2.0) + Laplace(noise_multiplier=1.0) * 2
    way = "remove" if direction == "remove" else "add"
    curve = curve_of_any(event, direction=way, neighbors=AddRemove)
    assert curve.attained is not None
    for at in (0.0, 0.3, 1.0, 2.5, 4.0):
        known = delta_interval(event, epsilon=at)
        low, high = curve.attained(np.array([at])).lower[0], curve(np.array([at])).upper[0]
        assert low <= known.upper
        assert known.lower <= high
        assert high - low <= 1e-3 * high
        assert high <= known.upper * (1 + 1e-5)


@pytest.mark.long
def test_samples_of_compositions_cost_less_than_what_was_known() -> None:
    event = (Laplace(noise_multiplier=1.0) + Laplace(noise_multiplier=2.0) * 3).poisson_sampled(
        rate=0.05
    ) * 100
    interval, found = priced(event, delta=1e-6)
    assert interval.width <= 1e-3 * interval.upper
    assert interval.upper < 4.4
    assert "privacy loss distribution (FFT)" in [one.engine for one in found]
    small = (Gaussian(noise_multiplier=3.0) + Pure(epsilon=0.1)).poisson_sampled(rate=0.01) * 1000
    alone = Gaussian(noise_multiplier=3.0).poisson_sampled(rate=0.01) * 1000
    assert epsilon(alone, delta=1e-6) < epsilon(small, delta=1e-6) < 3 * epsilon(alone, delta=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [AddRemove, pytest.param(ReplaceOne, marks=pytest.mark.slow)])
def test_samples_in_samples_are_samples_of_the_product(neighbors: object) -> None:
    base = Laplace(noise_multiplier=2.0) + Pure(epsilon=0.2)
    twice = base.poisson_sampled(rate=0.5).poisson_sampled(rate=0.2) * 5
    once = base.poisson_sampled(rate=Fraction(1, 10)) * 5
    relation = AddRemove if neighbors is AddRemove else ReplaceOne
    assert epsilon(twice, delta=1e-6, neighbors=relation) == epsilon(
        once, delta=1e-6, neighbors=relation
    )


@pytest.mark.long
def test_nested_samples_of_a_fixed_size() -> None:
    inside = (Laplace(noise_multiplier=4.0) * 2).poisson_sampled(rate=0.5)
    nested = inside.fixed_size_sampled(size=5, population=50) * 4
    plain = (Laplace(noise_multiplier=4.0) * 2).fixed_size_sampled(size=5, population=50) * 4
    found = epsilon_interval(nested, delta=1e-6, neighbors=ReplaceOne)
    assert 0 < found.upper < epsilon(plain, delta=1e-6, neighbors=ReplaceOne)


# ------------------------------------------------------------------------- laws on the grid


@pytest.mark.slow
def test_what_is_roughly_known_adds_no_mass() -> None:
    smooth = gaussian(Fraction(1, 4))
    generator = np.random.default_rng(3)

    def rough(epsilon: Array) -> Array:
        return smooth(epsilon).upper * (1 + 1e-9 * generator.random(epsilon.shape))

    exact = PrivacyLossDistribution.from_profile(lambda x: smooth(x).upper).self_compose(100)
    noisy = PrivacyLossDistribution.from_profile(rough).self_compose(100)
    assert noisy.epsilon(1e-6) == pytest.approx(exact.epsilon(1e-6), rel=1e-4)
    curve = noisy.parts[0].above
    assert curve is not None
    law = law_above(curve, step=Fraction(1, 1 << 12), first=-(1 << 14), last=1 << 14)
    # At the end of the grid a slope may be wrong by 1e-9 / step; all nodes together by a tenth.
    assert 1 - 1e-12 <= law.weights.sum() + law.infinity <= 1 + 1e-5


@pytest.mark.slow
def test_random_allocations_compose() -> None:
    event = Gaussian(noise_multiplier=2.0).randomly_allocated(steps=20)
    alone, several = epsilon(event, delta=1e-5), epsilon(event * 20, delta=1e-5)
    assert alone < several < 8 * alone
    assert several < epsilon(Gaussian(noise_multiplier=2.0) * 20, delta=1e-5) / 2


def test_laws_from_functions_lie_on_their_side() -> None:
    exact = edged(of_laplace(Fraction(1)))
    above = laid_down(
        lambda x: exact(x).upper, lambda x: exact(x).upper, attained=nothing(), places=[1.0]
    )
    below = laid_below(exact)
    points = np.linspace(-2, 2, 401)
    truth = exact(points)
    assert np.all(above(points).upper >= truth.lower)
    assert np.all(above(points).upper <= truth.upper + 1e-5)
    assert np.all(below(points).lower <= truth.upper)
    assert np.all(below(points).lower >= truth.lower - 2e-3)
    # (alpha, alpha/2)-Renyi is 1/2-zCDP: the Gaussian with mu = 1 keeps it
    orders = [1 + 2.0**k for k in range(-3, 8)]
    profile = by_divergences(orders, [order / 2 for order in orders])
    places = np.linspace(0, 6, 50)
    assert np.all(profile(places) >= gaussian(Fraction(1))(places).lower)


def test_faint_bounds_are_laid_down_from_above() -> None:
    def faint(epsilons: Array) -> Array:
        return np.asarray(1e-20 * np.exp(-epsilons))

    places = np.linspace(0.1, 3, 30)
    assert np.all(laid_down(faint, faint, attained=nothing())(places).upper >= faint(places))


# ---------------------------------------------------------------------------- best of many


def best_of(run: Pair, event: NegativeBinomialTries | PoissonTries) -> Pair:
    """The release where outcomes are their own scores, in their order."""

    def generating(x: Array) -> Array:
        if isinstance(event, PoissonTries):
            return np.asarray(np.exp(float(event.mean) * (x - 1)))
        gamma, eta = float(event.stop), float(event.shape)
        inner = 1 - (1 - gamma) * x
        if eta == 0:
            return np.asarray(np.log(inner) / math.log(gamma))
        return np.asarray((inner ** (-eta) - 1) / (gamma ** (-eta) - 1))

    laws = []
    for law in (run.p, run.q):
        ends = np.append(0.0, np.cumsum(law))
        masses = np.diff(generating(np.minimum(ends, 1.0)))
        laws.append(np.append(masses, generating(np.zeros(1))))
    return Pair(laws[0], laws[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 6))]
)
def test_selections_next_to_other_events_meet_the_best_order_of_scores(seed: int) -> None:
    """The upper end lies above every order's attack, the lower one not above the best of them.

    A number between 0 and 1 is released with the outputs of a run, so that each is many.
    """
    generator = np.random.default_rng(seed)
    pure = float(generator.uniform(0.1, 1.0))
    run = response(pure) * response(pure)
    many = 64
    orders = []
    for order in itertools.permutations(range(4)):
        places = np.repeat(list(order), many)
        orders.append(Pair(run.p[places] / many, run.q[places] / many))
    inner = Pure(epsilon=pure) * 2
    kinds: list[NegativeBinomialTries | PoissonTries] = [
        NegativeBinomialTries(event=inner, shape=1, stop=0.2),
        NegativeBinomialTries(event=inner, shape=0, stop=0.1),
        PoissonTries(event=inner, mean=4),
    ]
    for tries in kinds:
        attacks = [best_of(order, tries) * response(0.5) for order in orders]
        event = tries + Pure(epsilon=0.5)
        alone = run * response(0.5)
        for at in (0.0, 0.5, 1.5):
            found = delta_interval(event, epsilon=at)
            best = max(largest_delta(attack, at) for attack in attacks)
            once = 1 - math.exp(-4) if isinstance(tries, PoissonTries) else 1.0
            assert best <= found.upper + 1e-12
            assert found.lower <= max(largest_delta(alone, at), best) + 1e-12
            assert found.lower >= once * largest_delta(alone, at) * 0.95 - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    "tries",
    mostly_slow(
        [
            NegativeBinomialTries(event=Gaussian(noise_multiplier=4.0), shape=0, stop=0.05),
            NegativeBinomialTries(event=ZeroConcentrated(rho=0.02), shape=1, stop=0.1),
            PoissonTries(event=Approximate(epsilon=0.1, delta=1e-9), mean=5),
            NegativeBinomialTries(
                event=Gaussian(noise_multiplier=2.0).poisson_sampled(rate=0.05) * 20,
                shape=1,
                stop=0.1,
            ),
        ],
        quick=2,
    ),
    ids=lambda event: str(event)[:40],
)
def test_selections_compose_better_than_by_parts(tries: Event) -> None:
    other = Laplace(noise_multiplier=5.0).poisson_sampled(rate=0.1) * 50
    whole = epsilon_interval(tries + other, delta=1e-5)
    assert whole.upper <= epsilon(tries, delta=5e-6) + epsilon(other, delta=5e-6)
    assert whole.upper >= epsilon_interval(other, delta=1e-5).lower
    assert whole.lower >= epsilon_interval(other, delta=1e-5).lower * (1 - 2e-3)
    assert delta(tries + other, epsilon=whole.upper) <= 1.5e-5
