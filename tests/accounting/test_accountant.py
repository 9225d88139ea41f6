"""The accountant: sandwiched by enumeration, checked by other engines, papers and properties."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import itertools
import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import mostly_slow

from tacet import accounting
from tacet.accounting import accountant, explanation
from tacet.accounting.accountant import (
    delta,
    delta_interval,
    epsilon,
    epsilon_interval,
    findings,
    renyi,
    tradeoff,
)
from tacet.accounting.explanation import explain
from tacet.errors import InvalidParameter, UnsupportedEvent
from tacet.privacy import conversions
from tacet.privacy.event_codec import from_json
from tacet.privacy.events import (
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
from tacet.privacy.guarantees import GDP, ApproxDP
from tacet.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut
from tacet.privacy.tradeoff import TradeoffCurve

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


# -------------------------------------------------------------------------------------- edges


def test_nothing_costs_nothing() -> None:
    assert epsilon([], delta=0) == delta([], epsilon=0) == 0
    assert tradeoff([]).beta(alpha=0.25) == pytest.approx(0.75, rel=1e-15)
    assert findings([], delta=0.1) == ()
    assert epsilon(Pure(epsilon=0) * 5, delta=0) == 0
    assert epsilon(ZeroConcentrated(rho=0), delta=1e-9) == 0


def test_delta_zero_is_pure_privacy() -> None:
    assert epsilon(Pure(epsilon=0.5) + Laplace(noise_multiplier=2) * 3, delta=0) == 2.0
    assert math.isinf(epsilon(Gaussian(noise_multiplier=1), delta=0))
    assert math.isinf(epsilon(Approximate(epsilon=1, delta=1e-4), delta=1e-5))
    assert epsilon(Approximate(epsilon=1, delta=0) * 2, delta=0) == 2.0
    sampled = Pure(epsilon=1).poisson_sampled(rate=0.01)
    assert epsilon(sampled, delta=0) == pytest.approx(math.log1p(0.01 * math.expm1(1)), rel=1e-12)


def test_an_own_delta_stays() -> None:
    event = Approximate(epsilon=0.5, delta=1e-4)
    assert delta(event, epsilon=0.5) == pytest.approx(1e-4, rel=1e-12)
    assert delta(event, epsilon=0.5) >= 1e-4
    assert epsilon(event, delta=1e-4) <= 0.5 * (1 + 1e-9)
    many = delta(event * 3 + Gaussian(noise_multiplier=5), epsilon=50)
    assert many == pytest.approx(1 - (1 - 1e-4) ** 3, rel=1e-6)


@pytest.mark.parametrize("at", mostly_slow([0.5, 1e-30, 1e-100, 1e-300]))
def test_extreme_deltas_are_finite_and_ordered(at: float) -> None:
    for event in (Gaussian(noise_multiplier=1.0), Laplace(noise_multiplier=1.0) * 20, SAMPLED * 20):
        found = epsilon_interval(event, delta=at)
        assert 0 <= found.lower <= found.upper < math.inf


@pytest.mark.slow
@pytest.mark.parametrize("noise", mostly_slow([0.05, 1e6]))
def test_extreme_noise(noise: float) -> None:
    for event in (
        Gaussian(noise_multiplier=noise),
        Gaussian(noise_multiplier=noise).poisson_sampled(rate=1e-9) * 10**12,
        Laplace(noise_multiplier=noise) * 3,
    ):
        found = epsilon_interval(event, delta=1e-6)
        assert 0 <= found.lower <= found.upper < math.inf


def test_arguments_are_named() -> None:
    event = Pure(epsilon=1)
    for wrong in (-0.1, 1, 1.5, math.nan, math.inf, "much", None, True):
        with pytest.raises(InvalidParameter) as caught:
            epsilon(event, delta=wrong)  # type: ignore[arg-type]
        assert caught.value.argument == "delta"
    for wrong in (-0.1, math.nan, math.inf, "much", None, True):
        with pytest.raises(InvalidParameter) as caught:
            delta(event, epsilon=wrong)  # type: ignore[arg-type]
        assert caught.value.argument == "epsilon"
    for wrong in ("add_remove", None, 1):
        with pytest.raises(InvalidParameter, match="neighbors"):
            epsilon(event, delta=0.1, neighbors=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="neighbors"):
            epsilon([], delta=0.1, neighbors=wrong)  # type: ignore[arg-type]
    for what in (3, None, object(), ["event"]):
        with pytest.raises(InvalidParameter, match="event"):
            epsilon(what, delta=0.1)  # type: ignore[arg-type]
    for points in (1, 0, True, 10**6):
        with pytest.raises(InvalidParameter, match="points"):
            tradeoff(event, points=points)


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(noise_multiplier=1).fixed_size_sampled(size=1, population=10) * 3,
        RandomizedResponse(epsilon=1, categories=2).shuffled(count=10),
    ],
)
def test_a_scheme_with_the_wrong_relation_has_its_mend(event: Event) -> None:
    for ask in (
        lambda: epsilon(event, delta=0.1),
        lambda: delta(event, epsilon=0.1),
        lambda: tradeoff(event),
        lambda: explain(event),
    ):
        with pytest.raises(InvalidParameter, match=r"neighbors=tacet\.ReplaceOne"):
            ask()


def test_what_no_theorem_prices_is_refused() -> None:
    nested = SAMPLED.sampled_with_replacement(size=5, population=10)
    with pytest.raises(UnsupportedEvent):
        epsilon(nested, delta=1e-5, neighbors=ReplaceOne)
    with pytest.raises(UnsupportedEvent):
        delta(nested, epsilon=1.0, neighbors=ReplaceOne)


@pytest.mark.parametrize(
    ("rate", "noise", "count", "epsilon"),
    [(1.117e-8, 119.9, 87_227, 9.444), (1.845e-4, 31.45, 3, 0.06586), (5e-4, 30.6, 59_812, 6045.0)],
)
def test_no_delta_to_speak_of_is_told_without_a_long_search(
    rate: float, noise: float, count: int, epsilon: float
) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count
    interval, found = accountant.priced(event, epsilon=epsilon)
    assert interval.upper < 1e-300
    assert len(found) <= 2


def test_numbers_may_be_written_exactly() -> None:
    event = Gaussian(noise_multiplier=Fraction(1))
    assert epsilon(event, delta="1e-6") == epsilon(event, delta=Fraction(1, 10**6))
    assert delta(event, epsilon="1/2") == delta(event, epsilon=0.5)


# ------------------------------------------------------------------------------------- curves


def test_curves_of_events() -> None:
    exact = tradeoff(Gaussian(noise_multiplier=2) * 4)
    assert exact == TradeoffCurve.of_guarantee(GDP(1))
    curve = tradeoff(SAMPLED * 1000, points=9)
    for rate in (0.001, 0.05, 0.5):
        interval = curve.beta_interval(alpha=rate)
        assert 0 <= interval.lower <= interval.upper <= 1 - rate + 1e-12
    assert curve.advantage == pytest.approx(delta(SAMPLED * 1000, epsilon=0), rel=1e-6)
    assert curve.advantage >= delta_interval(SAMPLED * 1000, epsilon=0).lower
    pure = tradeoff(Pure(epsilon=1.0), points=9)
    assert pure.beta(alpha=0) == pytest.approx(1, abs=1e-12)
    assert pure.advantage == pytest.approx(math.tanh(0.5), rel=1e-9)


@pytest.mark.parametrize(
    ("event", "epsilon", "mass"),
    [
        (Approximate(epsilon=1.0, delta=1e-6), 1.0, 1e-6),
        (Approximate(epsilon=1.0, delta=1e-3), 1.0, 1e-3),
        (Approximate(epsilon=0.01, delta=0.3), 0.01, 0.3),
        (Approximate(epsilon=1e-3, delta=1e-6) + Pure(epsilon=3), 3.001, 1e-6),
    ],
)
def test_a_mass_of_its_own_leaves_the_curve_close(
    event: Event, epsilon: float, mass: float
) -> None:
    """Delta stops falling at the mass; epsilons beyond that place say nothing of the curve."""
    curve = tradeoff(event)
    worst = TradeoffCurve.of_guarantee(ApproxDP(epsilon, mass))
    for rate in (1e-4, 0.01, 0.1, 0.5):
        found = curve.beta_interval(alpha=rate)
        truth = worst.beta(alpha=rate)
        assert found.lower <= truth * (1 + 1e-12)
        assert found.lower >= truth - 0.02 * (1 - truth)
        assert found.upper >= truth * (1 - 1e-3)  # a sum of both is a little above the worst pair
        assert found.width <= 0.02


# --------------------------------------------------------------------------------------- face


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


def test_the_face_is_lazy_and_complete() -> None:
    code = (
        "import sys, tacet; from tacet import accounting;"
        "bad = {m.split('.')[0] for m in sys.modules} & {'numpy', 'scipy', 'mpmath'};"
        "assert not bad, bad;"
        "import tacet.accounting.accountant;"
        "assert all(callable(getattr(accounting, n)) for n in accounting.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(accounting.__all__) <= set(dir(accounting))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = accounting.nonsense
    assert accounting.epsilon is accountant.epsilon


@pytest.mark.parametrize("module", [accountant, explanation])
def test_every_function_says_its_source_and_bound(module: Any) -> None:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            document = inspect.getdoc(value) or ""
            assert "Source" in document, name
            assert "Bound" in document, name
