"""The accountant: sandwiched by enumeration, checked by other engines, papers and properties."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import (
    delta,
    delta_interval,
    epsilon,
    epsilon_interval,
    findings,
)
from unacorda.accounting.explanation import explain
from unacorda.accounting.prices import renyi
from unacorda.privacy import conversions
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
    from_json,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

SAMPLED = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01)


# ------------------------------------------------------------------------------- from papers


@pytest.mark.parametrize(
    ("event", "at", "reference", "source"),
    [
        (SAMPLED * 1000, 1e-5, 1.8282367, "34 digits, another quadrature"),
        (SAMPLED * 10_000, 1e-5, 6.1877124, "34 digits, another quadrature"),
        (
            Gaussian(noise_multiplier=0.6).poisson_sampled(rate=0.001) * 50_000,
            1e-5,
            4.3800978,
            "34 digits, another quadrature",
        ),
        (Gaussian(noise_multiplier=1.0), 1e-6, 4.8865541, "Balle and Wang 2018, Theorem 8"),
        (Gaussian(noise_multiplier=3.73), 1e-5, 1.0, "Balle and Wang 2018, Theorem 9"),
        (Gaussian(noise_multiplier=2.0) * 4, 1e-6, 4.8865541, "mu = 1 again"),
    ],
)
def test_reference_values(event: Event, at: float, reference: float, source: str) -> None:
    interval = epsilon_interval(event, delta=at)
    assert interval.upper == pytest.approx(reference, rel=1e-3 if reference == 1 else 1e-7), source
    assert interval.width <= 1e-8 * interval.upper
    assert epsilon(event, delta=at) == interval.upper


@pytest.mark.parametrize(
    ("rate", "noise", "count"), [(0.01, 1.0, 1000), (0.01, 1.0, 10_000), (0.001, 0.6, 50_000)]
)
def test_the_normal_approximation_lies_below_what_is_proved(
    rate: float, noise: float, count: int
) -> None:
    """A central limit accountant says mu = q sqrt(T (e^{1/sigma^2} - 1)): 3 to 15% too little."""
    mu = rate * math.sqrt(count * math.expm1(noise**-2))
    step = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate)
    proved = epsilon_interval(step * count, delta=1e-5).lower
    assert conversions.approx_dp_from_gdp(mu, delta=1e-5) < 0.98 * proved


# ----------------------------------------------------------------------------------- sandwich


class Law:
    """A pair of finite laws, and their product with another."""

    def __init__(self, pairs: list[tuple[float, float]]) -> None:
        self.pairs = pairs

    def __mul__(self, other: Law) -> Law:
        return Law(
            [(a * c, b * d) for (a, b), (c, d) in itertools.product(self.pairs, other.pairs)]
        )

    def delta(self, at: float) -> float:
        grown = math.exp(at)
        there = math.fsum(max(0.0, p - grown * q) for p, q in self.pairs)
        back = math.fsum(max(0.0, q - grown * p) for p, q in self.pairs)
        return max(there, back)

    def sampled(self, rate: float) -> Law:
        return Law([(rate * p + (1 - rate) * q, q) for p, q in self.pairs])


def response(local: float, categories: int) -> Law:
    whole = math.exp(local) + categories - 1
    high, low = math.exp(local) / whole, 1 / whole
    return Law([(high, low), (low, high), *[(low, low)] * (categories - 2)])


def leaky(local: float, mass: float) -> Law:
    pure = response(local, 2)
    kept = [((1 - mass) * p, (1 - mass) * q) for p, q in pure.pairs]
    return Law([*kept, (mass, 0.0), (0.0, mass)])


ATOMS = st.one_of(
    st.tuples(st.floats(0.05, 2), st.integers(2, 4)).map(
        lambda t: (RandomizedResponse(epsilon=t[0], categories=t[1]), response(*t))
    ),
    st.floats(0.05, 2).map(lambda e: (Pure(epsilon=e), response(e, 2))),
    st.tuples(st.floats(0.05, 2), st.floats(1e-6, 0.1)).map(
        lambda t: (Approximate(epsilon=t[0], delta=t[1]), leaky(*t))
    ),
    st.tuples(st.floats(0.05, 2), st.floats(0.01, 1)).map(
        lambda t: (
            Pure(epsilon=t[0]).poisson_sampled(rate=t[1]),
            response(t[0], 2).sampled(t[1]),
        )
    ),
)


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(st.lists(ATOMS, min_size=1, max_size=3), st.floats(0, 3), st.floats(1e-6, 0.3))
def test_random_trees_are_sandwiched_by_enumeration(
    atoms: list[tuple[Any, Law]], at: float, mass: float
) -> None:
    event = compose([one for one, _ in atoms])
    law = Law([(1.0, 1.0)])
    for _, one in atoms:
        law = law * one
    truth = law.delta(at)
    found = delta_interval(event, epsilon=at)
    assert found.lower <= truth + 1e-13
    assert truth <= found.upper + 1e-13
    interval = epsilon_interval(event, delta=mass)
    if interval.upper < 700:
        assert law.delta(interval.upper) <= mass + 1e-13
    if 1e-9 < interval.lower < 700:
        assert law.delta(interval.lower * (1 - 1e-9)) >= mass - 1e-12


TREES: list[tuple[Event, Neighbors]] = [
    (SAMPLED * 100, AddRemove),
    (SAMPLED, ZeroOut),
    (SAMPLED * 10, ReplaceOne),
    (SAMPLED * 50 + Laplace(noise_multiplier=20.0) * 3, AddRemove),
    (Laplace(noise_multiplier=5.0), AddRemove),
    (Laplace(noise_multiplier=5.0).poisson_sampled(rate=0.1) * 20, AddRemove),
    (DiscreteGaussian(sigma=3, sensitivity=1) * 4, AddRemove),
    (DiscreteGaussian(sigma=3, sensitivity=2), AddRemove),
    (DiscreteLaplace(scale=3, sensitivity=1), AddRemove),
    (Exponential(epsilon=0.3), AddRemove),
    (ZeroConcentrated(rho=0.1, delta=1e-7), AddRemove),
    (Approximate(epsilon=0.1, delta=1e-7) * 5 + Gaussian(noise_multiplier=3.0), AddRemove),
    (
        (Laplace(noise_multiplier=2.0) + Gaussian(noise_multiplier=2.0)).poisson_sampled(rate=0.1),
        AddRemove,
    ),
    (Gaussian(noise_multiplier=1.0).fixed_size_sampled(size=1, population=100) * 30, ReplaceOne),
    (Pure(epsilon=0.5).fixed_size_sampled(size=1, population=10) * 3, ReplaceOne),
    (RandomizedResponse(epsilon=1.0, categories=2).shuffled(count=500), ReplaceOne),
    (RandomizedResponse(epsilon=1.0, categories=3).shuffled(count=500) * 2, ReplaceOne),
    (Approximate(epsilon=1, delta=1e-8).poisson_sampled(rate=0.1) * 3, ReplaceOne),
]


LONG = (12, 13, 14, 15, 17)  # of fixed size, or replaced on a sample


@pytest.mark.parametrize(
    ("event", "neighbors"),
    mostly_slow(
        [
            pytest.param(*tree, marks=pytest.mark.slow if place in LONG else ())
            for place, tree in enumerate(TREES)
        ]
    ),
)
def test_engines_agree_within_what_they_prove(event: Event, neighbors: Neighbors) -> None:
    found = findings(event, delta=1e-5, neighbors=neighbors)
    assert found
    for one, two in itertools.combinations(found, 2):
        slack = 1 + 1e-12
        assert one.interval.lower <= two.interval.upper * slack, (one, two)
        assert two.interval.lower <= one.interval.upper * slack, (one, two)
    whole = epsilon_interval(event, delta=1e-5, neighbors=neighbors)
    assert whole.upper == min(one.interval.upper for one in found) or (
        whole.width <= 1e-9 * whole.upper
    )
    assert 0 <= whole.lower <= whole.upper < math.inf
    back = delta_interval(event, epsilon=whole.upper, neighbors=neighbors)
    assert back.lower <= 1e-5 * (1 + 1e-9)


@pytest.mark.parametrize(("event", "neighbors"), mostly_slow(TREES[:8]))
def test_divergences_never_beat_the_tighter_engines(event: Event, neighbors: Neighbors) -> None:
    found = {one.engine: one.interval for one in findings(event, delta=1e-6, neighbors=neighbors)}
    if "Renyi divergences" in found:  # they are not asked where grids know enough
        by_renyi = found.pop("Renyi divergences").upper
        for name, interval in found.items():
            assert interval.lower <= by_renyi, name
    whole = epsilon_interval(event, delta=1e-6, neighbors=neighbors)
    for alpha in (1.5, 4.0, 30.0):
        own = conversions.approx_dp_from_renyi(
            renyi(event, alpha=alpha, neighbors=neighbors), alpha=alpha, delta=1e-6
        )
        assert whole.upper <= own * (1 + 1e-9)


def test_a_fixed_size_sample_of_all_is_replacement_of_one() -> None:
    """Noise multipliers inside samples speak of add/remove: replacement moves twice as far."""
    fixed = Gaussian(noise_multiplier=2.0).fixed_size_sampled(size=10, population=10)
    plain = Gaussian(noise_multiplier=1.0)
    assert epsilon(fixed, delta=1e-5, neighbors=ReplaceOne) >= epsilon(plain, delta=1e-5) * (
        1 - 1e-12
    )
    assert epsilon(fixed, delta=1e-5, neighbors=ReplaceOne) == pytest.approx(
        epsilon(plain, delta=1e-5), rel=1e-6
    )
    laplace = Laplace(noise_multiplier=2.0).fixed_size_sampled(size=1, population=50)
    twice = conversions.approx_dp_delta_from_pure(1.0, epsilon=0.0) / 50
    assert delta(laplace, epsilon=0, neighbors=ReplaceOne) <= twice * (1 + 1e-12)


@pytest.mark.slow
def test_replacement_costs_more_than_adding_or_removing() -> None:
    for event in (SAMPLED * 10, Pure(epsilon=1).poisson_sampled(rate=0.1) * 3):
        alone = epsilon(event, delta=1e-6)
        assert alone < epsilon(event, delta=1e-6, neighbors=ReplaceOne)
        assert alone == epsilon(event, delta=1e-6, neighbors=ZeroOut)


# --------------------------------------------------------------------------------- properties


NOISES = st.floats(0.5, 5)
RATES = st.floats(0.001, 0.5)
STEPS = st.integers(1, 3000)
SLACK = 1 + 1e-6


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(NOISES, RATES, STEPS, st.floats(1.01, 3), st.sampled_from([1e-9, 1e-5, 1e-2]))
def test_more_noise_less_sampling_and_fewer_steps_cost_less(
    noise: float, rate: float, steps: int, factor: float, at: float
) -> None:
    def cost(noise: float, rate: float, steps: int, at: float) -> Any:
        event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * steps
        return epsilon_interval(event, delta=at)

    base = cost(noise, rate, steps, at)
    for cheaper in (
        cost(noise * factor, rate, steps, at),
        cost(noise, rate / factor, steps, at),
        cost(noise, rate, max(1, int(steps / factor)), at),
        cost(noise, rate, steps, min(0.5, at * factor)),
    ):
        assert cheaper.lower <= base.upper * SLACK


MIXABLE = st.one_of(
    st.floats(0.5, 5).map(lambda m: Gaussian(noise_multiplier=m)),
    st.floats(0.5, 5).map(lambda m: Laplace(noise_multiplier=m)),
    st.floats(0.01, 1).map(lambda e: Pure(epsilon=e)),
    st.floats(0.01, 0.2).map(lambda q: Gaussian(noise_multiplier=1.0).poisson_sampled(rate=q)),
)


@pytest.mark.long
@in_subtests("tolerance", [1.0, 1e-2, 1e-4, 1e-7, 1e-10, 0])
def test_answers_are_as_narrow_as_was_asked_where_an_engine_reaches_it(tolerance: float) -> None:
    steps = Gaussian(noise_multiplier=1.2).poisson_sampled(rate=0.02) * 300
    sharp = epsilon_interval(steps, delta=1e-6, tolerance=0)
    found = epsilon_interval(steps, delta=1e-6, tolerance=tolerance)
    assert found.width <= max(tolerance * max(found.upper, 1.0), 1e-9)
    assert found.lower <= sharp.upper
    assert sharp.lower <= found.upper
    delta = delta_interval(steps, epsilon=1, tolerance=tolerance)
    assert delta.width <= max(tolerance, 1e-8) * delta.upper


def test_a_tolerance_is_absolute_where_epsilon_is_small() -> None:
    """A promise that costs less than the tolerance needs no other engine."""
    event = Pure(epsilon=1e-5) * 4
    assert epsilon_interval(event, delta=1e-6) == (0.0, 4e-5)
    sharp = epsilon_interval(event, delta=1e-6, tolerance=1e-10)
    assert sharp.lower > 0
    assert sharp.width <= 1e-10


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(st.lists(MIXABLE, min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_order_text_and_listing_do_not_matter(parts: list[Event], order: Any) -> None:
    event = compose(parts)
    shuffled = list(parts)
    order.shuffle(shuffled)
    cost = epsilon(event, delta=1e-5)
    assert epsilon(compose(shuffled), delta=1e-5) == pytest.approx(cost, rel=1e-7)
    assert epsilon(shuffled, delta=1e-5) == pytest.approx(cost, rel=1e-7)
    assert epsilon(from_json(event.to_json()), delta=1e-5) == cost
    # a part alone never costs more than the whole
    assert epsilon_interval(parts[0], delta=1e-5).lower <= cost


# -------------------------------------------------------------------------------- explanation


def test_explanations_name_parts_and_engines() -> None:
    told = explain(SAMPLED * 1000 + Laplace(noise_multiplier=10), delta=1e-5)
    text = str(told)
    for word in ("1000 x", "Poisson", "Laplace", "Renyi divergences", "AddRemove", "contour"):
        assert word in text
    assert told.pure is None
    assert explain(Pure(epsilon=0.5) * 2).pure == 1.0
    assert explain(Pure(epsilon=0.5) * 2).found == ()
    for event, neighbors in TREES:
        assert all(line.source for line in explain(event, neighbors=neighbors).parts)
