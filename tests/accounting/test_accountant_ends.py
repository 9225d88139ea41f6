"""The accountant at its ends: extremes, refused arguments, curves, and its face."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import pytest
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.accounting import accountant
from unacorda.accounting.accountant import (
    delta,
    delta_interval,
    epsilon,
    epsilon_interval,
    findings,
    tradeoff,
)
from unacorda.accounting.explanation import explain
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from unacorda.privacy.guarantees import GDP, ApproxDP
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.privacy.tradeoff import TradeoffCurve

SAMPLED = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01)


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
        with pytest.raises(InvalidParameter, match=r"neighbors=unacorda\.ReplaceOne"):
            ask()


@pytest.mark.long
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


@pytest.mark.long
def test_the_face_is_lazy_and_complete() -> None:
    code = (
        "import sys, unacorda; from unacorda import accounting;"
        "bad = {m.split('.')[0] for m in sys.modules} & {'numpy', 'scipy', 'flint'};"
        "assert not bad, bad;"
        "import unacorda.accounting.accountant;"
        "assert all(callable(getattr(accounting, n)) for n in accounting.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = accounting.nonsense  # type: ignore[attr-defined]
    assert accounting.epsilon is accountant.epsilon
