"""What events cost: the table of units, exact where rational, certified where not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.accounting.prices import approx_dp_price, gdp_price, price, pure_price, zcdp_price
from unacorda.errors import InvalidParameter, UnsupportedEvent
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
)
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

TENTH = Fraction(1, 10)


@in_subtests(
    ("event", "cost"),
    [
        (Laplace(noise_multiplier=10), PureDP(0.1)),
        (Laplace(noise_multiplier=Fraction(1, 3)), PureDP(3)),
        (DiscreteLaplace(scale=20, sensitivity=2), PureDP(0.1)),
        (RandomizedResponse(epsilon=0.5, categories=4), PureDP(0.5)),
        (Exponential(epsilon=0.5), PureDP(0.5)),
        (Pure(epsilon=0.1) * 10, PureDP(1)),
        (Approximate(epsilon=0.5, delta=0), PureDP(0.5)),
        (Pure(epsilon=0.1) + Laplace(noise_multiplier=5) * 2, PureDP(0.5)),
        (Gaussian(noise_multiplier=2), ZCDP("1/8")),
        (Gaussian(noise_multiplier=0.1), ZCDP(50)),
        (DiscreteGaussian(sigma=2, sensitivity=3), ZCDP("9/8")),
        (Exponential(epsilon=0.1), ZCDP("1/800")),
        (ZeroConcentrated(rho=0.1, delta=1e-9) * 3, ZCDP(0.3, 3e-9)),
        (Gaussian(noise_multiplier=2), GDP(0.5)),
        (Gaussian(noise_multiplier=3) * 9, GDP(1)),
        (Gaussian(noise_multiplier=2), RenyiDP(8, 1)),
        (DiscreteGaussian(sigma=2, sensitivity=1) * 2, RenyiDP(8, 2)),
        (ZeroConcentrated(rho=0.1), RenyiDP(8, 0.8)),
        (Laplace(noise_multiplier=10), ApproxDP(0.1, 0)),
        (Approximate(epsilon=1, delta=1e-7) * 2 + Pure(epsilon=1), ApproxDP(3, 2e-7)),
    ],
)
def test_rational_prices_are_exact(event: Event, cost: Any) -> None:
    assert price(event, type(cost), alpha=getattr(cost, "alpha", None)) == cost


def test_irrational_prices_are_rounded_up_to_the_grid() -> None:
    rho = zcdp_price(Pure(epsilon=0.1)).rho
    assert 2**80 % rho.denominator == 0
    assert 0 <= rho - Fraction(0.1 * math.tanh(0.05)) < Fraction(1, 10**17)
    assert float(gdp_price(Pure(epsilon=1)).mu) == pytest.approx(1.2320353853)
    assert float(gdp_price(Exponential(epsilon=1)).mu) == pytest.approx(0.6238925921)
    assert gdp_price(Approximate(epsilon=1, delta=1e-9)).delta == Fraction("1e-9")
    assert zcdp_price(Approximate(epsilon=1, delta=1e-9)) == ZCDP(
        conversions_grid(conversions.zcdp_from_pure(1)), 1e-9
    )


def conversions_grid(value: float) -> Fraction:
    return Fraction(math.ceil(Fraction(value) * 2**80), 2**80)


def test_the_exponential_mechanism_is_cheaper_than_pure_dp_but_in_pure_dp() -> None:
    event, known = Exponential(epsilon=1), Pure(epsilon=1)
    assert pure_price(event) == pure_price(known)
    assert zcdp_price(event) < zcdp_price(known)
    assert gdp_price(event) < gdp_price(known)
    for alpha in (1.5, 2, 8, 100):
        assert price(event, RenyiDP, alpha=alpha) <= price(known, RenyiDP, alpha=alpha)
        laplace = price(Laplace(noise_multiplier=1), RenyiDP, alpha=alpha)
        assert laplace <= price(known, RenyiDP, alpha=alpha)


SAMPLED: list[Event] = [
    Gaussian(noise_multiplier=1).poisson_sampled(rate=0.1),
    Pure(epsilon=1).fixed_size_sampled(size=1, population=10),
    RandomizedResponse(epsilon=1, categories=2).shuffled(count=100),
    Pure(epsilon=1) + Gaussian(noise_multiplier=1).poisson_sampled(rate=0.1) * 3,
]


@in_subtests("event", SAMPLED)
@in_subtests("kind", [PureDP, ApproxDP, ZCDP, GDP, RenyiDP])
def test_sampled_events_have_no_additive_price(event: Event, kind: Any) -> None:
    with pytest.raises(UnsupportedEvent, match=r"ask epsilon\(\) or delta\(\) of them"):
        price(event, kind, alpha=2, delta=1e-6)
    with pytest.raises(UnsupportedEvent):
        price(event, kind, alpha=2)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Gaussian(noise_multiplier=1), PureDP),
        (DiscreteGaussian(sigma=1, sensitivity=1), PureDP),
        (ZeroConcentrated(rho=1), PureDP),
        (Approximate(epsilon=1, delta=1e-9), PureDP),
        (DiscreteGaussian(sigma=1, sensitivity=1), GDP),
        (ZeroConcentrated(rho=1), GDP),
        (Gaussian(noise_multiplier=1) + ZeroConcentrated(rho=1), GDP),
        (Approximate(epsilon=1, delta=1e-9), RenyiDP),
        (ZeroConcentrated(rho=1, delta=1e-9), RenyiDP),
    ],
)
def test_no_price_without_a_theorem(event: Event, kind: Any) -> None:
    with pytest.raises(UnsupportedEvent):
        price(event, kind, alpha=2)


def test_a_renyi_price_needs_its_order() -> None:
    with pytest.raises(InvalidParameter, match="alpha"):
        price(Pure(epsilon=1), RenyiDP)
    with pytest.raises(InvalidParameter, match="alpha"):
        price(Pure(epsilon=1), RenyiDP, alpha=1)


def test_the_discrete_gaussian_has_no_gaussian_price_because_it_would_be_wrong() -> None:
    """Exact trade-off points of sigma = 1 lie below mu = 1: it needs 1.0458 (theory of noise)."""
    support = np.arange(-30, 31)
    weights = np.exp(-(support**2) / 2)
    law = weights / weights.sum()
    needed = 0.0
    for threshold in range(-8, 9):
        false_alarm = law[support >= threshold].sum()
        power = law[support >= threshold - 1].sum()
        if 1e-9 < false_alarm < power < 1 - 1e-9:
            from scipy.special import ndtri

            needed = max(needed, float(ndtri(power) - ndtri(false_alarm)))
    assert needed == pytest.approx(1.0458, abs=1e-3)


def test_approx_dp_of_gaussians_goes_through_gdp() -> None:
    event = Gaussian(noise_multiplier=2) * 4  # mu = 1
    assert float(approx_dp_price(event, delta=1e-6).epsilon) == pytest.approx(4.88655412)
    discrete = DiscreteGaussian(sigma=2, sensitivity=1) * 4  # rho = 1/2, no GDP
    assert float(approx_dp_price(discrete, delta=1e-6).epsilon) == pytest.approx(5.22153444)
    both = approx_dp_price(event + ZeroConcentrated(rho=0), delta=1e-6)
    assert float(both.epsilon) == pytest.approx(5.22153444)  # one zCDP part: no GDP for the whole


def test_approx_dp_takes_the_least_of_its_ways() -> None:
    few, many = Laplace(noise_multiplier=10) * 2, Laplace(noise_multiplier=10) * 1000
    assert approx_dp_price(few, delta=1e-6) == ApproxDP(0.2, 0)
    assert approx_dp_price(many) == ApproxDP(100, 0)
    assert approx_dp_price(many, delta=1e-6).epsilon < 22
    # A large pure part next to small Gaussian noise: adding beats turning it into GDP.
    mixed = Pure(epsilon=20) + Gaussian(noise_multiplier=10)
    added = 20 + approx_dp_price(Gaussian(noise_multiplier=10), delta=1e-6).epsilon
    assert approx_dp_price(mixed, delta=1e-6) == ApproxDP(added, 1e-6)


def test_approx_dp_spends_the_delta_of_its_parts_first() -> None:
    keys, noise = Approximate(epsilon=0.5, delta=4e-7), Gaussian(noise_multiplier=5)
    cost = approx_dp_price(keys + noise, delta=1e-6)
    assert cost.delta == Fraction("1e-6")
    assert cost.epsilon <= Fraction(1, 2) + approx_dp_price(noise, delta=6e-7).epsilon
    assert approx_dp_price(keys, delta=1e-6) == ApproxDP(0.5, 4e-7)
    for too_small in (1e-7, 4e-7, 0):
        with pytest.raises(InvalidParameter, match="delta"):
            approx_dp_price(keys + noise, delta=too_small)
    with pytest.raises(InvalidParameter, match="delta"):
        approx_dp_price(noise)
    with pytest.raises(InvalidParameter, match="delta"):
        approx_dp_price(keys, delta=0)


SIMPLE = st.one_of(
    st.builds(Laplace, noise_multiplier=st.floats(0.1, 100)),
    st.builds(Gaussian, noise_multiplier=st.floats(0.1, 100)),
    st.builds(Exponential, epsilon=st.floats(0.01, 5)),
    st.builds(Pure, epsilon=st.floats(0.01, 5)),
)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(SIMPLE, SIMPLE, st.integers(1, 6))
def test_prices_add(first: Event, second: Event, count: int) -> None:
    both = first * count + second
    assert zcdp_price(both) == zcdp_price(first) * count + zcdp_price(second)
    assert gdp_price(both) == gdp_price(first) * count + gdp_price(second)
    assert price(both, RenyiDP, alpha=4) == price(first, RenyiDP, alpha=4) * count + price(
        second, RenyiDP, alpha=4
    )
    assert zcdp_price(both) >= zcdp_price(first)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.lists(SIMPLE, min_size=1, max_size=3), st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_approx_dp_is_no_better_than_its_ways_and_implied_by_one(
    parts: list[Event], delta: float
) -> None:
    event = compose(parts)
    cost = approx_dp_price(event, delta=delta)
    epsilons = [
        conversions.approx_dp_from_gdp(gdp_price(event).mu, delta=delta),
        conversions.approx_dp_from_zcdp(zcdp_price(event).rho, delta=delta),
    ]
    assert float(cost.epsilon) <= min(epsilons) * (1 + 1e-12)
    assert cost.delta <= Fraction(repr(delta))
