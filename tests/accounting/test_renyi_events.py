"""Renyi divergences against other formulas, enumeration and quadrature with many digits."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.divergences import (
    renyi_of_discrete_laplace,
    renyi_of_law,
    renyi_of_sampled_gaussian,
    renyi_of_sampled_pure,
)
from unacorda.accounting.findings import delta_from_renyi, epsilon_from_renyi
from unacorda.accounting.laws import of_points
from unacorda.accounting.prices import price, pure_epsilon, renyi, rho
from unacorda.accounting.rules.base import without_mass
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
)
from unacorda.privacy.guarantees import RenyiDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne, ZeroOut


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with mpmath.workdps(50):
        yield


def divergence(p: list[Any], q: list[Any], alpha: Any) -> Any:
    a = mpmath.mpf(alpha)
    total = mpmath.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True) if x > 0)
    return mpmath.log(total) / (a - 1)


def mixture(p: list[Any], q: list[Any], rate: Any) -> list[Any]:
    share = mpmath.mpf(rate)
    return [share * x + (1 - share) * y for x, y in zip(p, q, strict=True)]


def sampled_gaussian_at_whole_order(sigma: float, q: float, alpha: int) -> Any:
    """Mironov, Talwar, Zhang 2019, Section 3.3: a finite sum."""
    share, s = mpmath.mpf(q), mpmath.mpf(sigma)
    total = mpmath.fsum(
        mpmath.binomial(alpha, k)
        * (1 - share) ** (alpha - k)
        * share**k
        * mpmath.expm1(k * (k - 1) / (2 * s**2))
        for k in range(2, alpha + 1)
    )
    return mpmath.log1p(total) / (alpha - 1)


@pytest.mark.long
@in_subtests("sigma", [0.05, 0.5, 1.0, 10.0, 1000.0])
@in_subtests("q", [1e-6, 0.01, 0.5, 0.999])
@in_subtests("alpha", [2, 3, 17, 100])
def test_sampled_gaussian_at_whole_orders(sigma: float, q: float, alpha: int) -> None:
    value = renyi_of_sampled_gaussian(sigma, rate=q, alpha=alpha)
    truth = sampled_gaussian_at_whole_order(sigma, q, alpha)
    assert truth <= value <= truth * (1 + mpmath.mpf("1e-9"))


def gaussian_moment_by_quadrature(sigma: float, q: float, power: float) -> Any:
    s, share, t = mpmath.mpf(sigma), mpmath.mpf(q), mpmath.mpf(power)
    ends = [-40 * s, 0, 1, max(power, 1) / 2 + 1, max(power, 1) + 40 * s]

    def integrand(z: Any) -> Any:
        ratio = 1 - share + share * mpmath.exp((2 * z - 1) / (2 * s * s))
        weight = mpmath.exp(-z * z / (2 * s * s)) / (s * mpmath.sqrt(2 * mpmath.pi))
        return weight * ratio**t

    with mpmath.workdps(25):
        return mpmath.quad(integrand, ends, maxdegree=9)


@pytest.mark.parametrize(
    ("sigma", "q", "alpha"),
    mostly_slow([(1.0, 0.1, 1.5), (2.0, 0.3, 7.25), (0.7, 0.05, 3.7), (1.0, 0.9, 1.1)], quick=2),
)
def test_sampled_gaussian_at_real_orders_both_ways(sigma: float, q: float, alpha: float) -> None:
    value = renyi_of_sampled_gaussian(sigma, rate=q, alpha=alpha)
    moments = [gaussian_moment_by_quadrature(sigma, q, t) for t in (alpha, 1 - alpha)]
    truth = max(mpmath.log(moment) / (alpha - 1) for moment in moments)
    assert truth * (1 - mpmath.mpf("1e-15")) <= value <= truth * (1 + mpmath.mpf("1e-9"))


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.floats(0.2, 50), st.floats(1e-7, 0.999), st.floats(1.01, 60), st.floats(1.0, 1.5))
def test_sampled_gaussian_is_monotone(sigma: float, q: float, alpha: float, factor: float) -> None:
    value = renyi_of_sampled_gaussian(sigma, rate=q, alpha=alpha)
    slack = 1 + 1e-7 / (alpha - 1)
    assert renyi_of_sampled_gaussian(sigma * factor, rate=q, alpha=alpha) <= value * slack + 1e-15
    assert value <= renyi_of_sampled_gaussian(sigma, rate=q, alpha=alpha * factor) * slack + 1e-15
    larger = min(0.9995, q * factor)
    assert value <= renyi_of_sampled_gaussian(sigma, rate=larger, alpha=alpha) * slack + 1e-15
    assert value <= alpha / (2 * sigma**2) * slack


@in_subtests("epsilon", [1e-8, 0.3, 2.0, 50.0])
@in_subtests("categories", [2, 3, 10])
@in_subtests("alpha", [1.0001, 2, 7.5, 300])
def test_randomised_response_by_its_outcomes(epsilon: float, categories: int, alpha: float) -> None:
    grown = mpmath.exp(mpmath.mpf(epsilon))
    rest = [mpmath.mpf(1)] * (categories - 2)
    whole = grown + categories - 1
    p = [x / whole for x in [grown, mpmath.mpf(1), *rest]]
    q = [x / whole for x in [mpmath.mpf(1), grown, *rest]]
    truth = divergence(p, q, alpha)
    value = renyi_of_law(of_points(Fraction(epsilon), categories), alpha=alpha)
    assert truth <= value <= truth * (1 + mpmath.mpf("1e-14"))


@pytest.mark.long
@pytest.mark.parametrize("scale", [0.5, 3.0])
@pytest.mark.parametrize("shift", [1, pytest.param(2, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("alpha", [1.5, pytest.param(4, marks=pytest.mark.slow)])
def test_discrete_laplace_by_its_series(scale: float, shift: int, alpha: float) -> None:
    r = mpmath.exp(-1 / mpmath.mpf(scale))
    support = range(-400, 401)
    p = [r ** abs(k) for k in support]
    q = [r ** abs(k - shift) for k in support]
    truth = divergence([x / mpmath.fsum(p) for x in p], [y / mpmath.fsum(q) for y in q], alpha)
    value = renyi_of_discrete_laplace(scale, sensitivity=shift, alpha=alpha)
    assert truth * (1 - mpmath.mpf("1e-30")) <= value
    # several coordinates may be worse than one; for this noise they are not
    assert value <= truth * (1 + mpmath.mpf("1e-12"))
    assert value <= conversions.renyi_from_pure(Fraction(shift) / Fraction(scale), alpha=alpha)
    assert renyi_of_discrete_laplace(scale, sensitivity=0.9, alpha=alpha) == 0


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 6), st.floats(0.001, 0.999), st.floats(1.01, 40), st.floats(-1, 1))
def test_sampled_pure_bounds_every_pair_of_coins(
    epsilon: float, rate: float, alpha: float, lean: float
) -> None:
    value = renyi_of_sampled_pure(epsilon, rate=rate, alpha=alpha)
    # a coin pair with odds ratios within e^epsilon: q from the lean, p the largest allowed
    q = (1 + mpmath.mpf(lean) * 0.98) / 2
    grown = mpmath.exp(mpmath.mpf(epsilon))
    p = min(grown * q, 1 - (1 - q) / grown)
    pair, null = [p, 1 - p], [q, 1 - q]
    mixed = mixture(pair, null, rate)
    for one, two in ((mixed, null), (null, mixed)):
        assert divergence(one, two, alpha) <= value * (1 + mpmath.mpf("1e-15"))
    assert value <= conversions.renyi_from_pure(epsilon, alpha=alpha) * (1 + 1e-12)


@pytest.mark.parametrize("alpha", [1.3, 2, 5.5, 40])
def test_a_sampled_event_by_enumeration(alpha: float) -> None:
    """Binary randomised response of one unit, run where the unit is in the sample."""
    event = RandomizedResponse(epsilon=1.5, categories=2).poisson_sampled(rate=0.2)
    head = 1 / (1 + mpmath.exp(mpmath.mpf("-1.5")))
    p, q = [head, 1 - head], [1 - head, head]
    mixed = mixture(p, q, mpmath.mpf("0.2"))
    truth = max(divergence(mixed, q, alpha), divergence(q, mixed, alpha))
    value = renyi(event, alpha=alpha)
    assert truth <= value <= truth * (1 + mpmath.mpf("1e-12"))


@pytest.mark.parametrize("alpha", [2, 3.5, 20])
def test_fixed_size_sampling_by_enumeration(alpha: float) -> None:
    """One of three bits is drawn and released by randomised response; one bit is replaced."""
    epsilon = 1.2
    event = RandomizedResponse(epsilon=epsilon, categories=2).fixed_size_sampled(
        size=1, population=3
    )
    head = 1 / (1 + mpmath.exp(-mpmath.mpf(str(epsilon))))
    value = renyi(event, alpha=alpha, neighbors=ReplaceOne)
    worst = mpmath.mpf(0)
    for others in itertools.product([0, 1], repeat=2):
        laws = []
        for bit in (0, 1):
            ones = mpmath.mpf(sum(others) + bit) / 3
            law = ones * head + (1 - ones) * (1 - head)
            laws.append([law, 1 - law])
        there, back = divergence(laws[0], laws[1], alpha), divergence(laws[1], laws[0], alpha)
        worst = max(worst, there, back)
    assert worst <= value


MIXED: list[Event] = [
    Gaussian(noise_multiplier=2.0),
    Laplace(noise_multiplier=3.0),
    DiscreteGaussian(sigma=2.0, sensitivity=1),
    DiscreteLaplace(scale=2.0, sensitivity=2),
    RandomizedResponse(epsilon=0.5, categories=3),
    Exponential(epsilon=0.7),
    Pure(epsilon=0.4),
    Approximate(epsilon=0.4, delta=0),
    ZeroConcentrated(rho=0.1),
    Gaussian(noise_multiplier=1.0) + Laplace(noise_multiplier=2.0) * 2,
]


@in_subtests("event", MIXED)
@pytest.mark.parametrize("alpha", mostly_slow([1.25, 2, 6.5, 400]))
def test_sampling_never_costs_and_prices_are_never_beaten(event: Event, alpha: float) -> None:
    whole = renyi(event, alpha=alpha)
    assert whole <= price(event, RenyiDP, alpha=alpha).epsilon * (1 + Fraction(1, 10**12))
    half = renyi(event.poisson_sampled(rate=0.5), alpha=alpha)
    small = renyi(event.poisson_sampled(rate=0.01), alpha=alpha)
    assert 0 <= small <= half <= whole * (1 + 1e-12)
    assert renyi(event.poisson_sampled(rate=1), alpha=alpha) == whole
    again = event.poisson_sampled(rate=0.1).poisson_sampled(rate=0.1)
    assert renyi(again, alpha=alpha) == pytest.approx(small, rel=1e-12)
    replaced = renyi(event.poisson_sampled(rate=0.01), alpha=alpha, neighbors=ReplaceOne)
    assert small <= replaced
    assert renyi(event.poisson_sampled(rate=0.01), alpha=alpha, neighbors=ZeroOut) == small
    fixed = event.fixed_size_sampled(size=1, population=100)
    assert renyi(fixed, alpha=alpha, neighbors=ReplaceOne) >= 0
    assert renyi(event.shuffled(count=5), alpha=alpha, neighbors=ReplaceOne) == whole
    assert renyi(event * 3, alpha=alpha) == pytest.approx(3 * whole, rel=1e-12)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.floats(0.3, 5), st.floats(0.001, 0.5), st.floats(1.1, 50), st.floats(1.001, 3))
def test_divergences_grow_with_their_order(
    noise: float, rate: float, alpha: float, factor: float
) -> None:
    for event in (
        Laplace(noise_multiplier=noise).poisson_sampled(rate=rate),
        DiscreteGaussian(sigma=noise, sensitivity=1).poisson_sampled(rate=rate),
    ):
        low = renyi(event, alpha=alpha)
        high = renyi(event, alpha=max(alpha * factor, alpha + 2))
        assert low <= high * (1 + 1e-9) + 1e-15


def test_one_gaussian_stands_for_many_on_the_same_sample() -> None:
    four = (Gaussian(noise_multiplier=2.0) * 4).poisson_sampled(rate=0.1)
    one = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.1)
    assert renyi(four, alpha=6) == pytest.approx(renyi(one, alpha=6), rel=1e-12)
    # on samples of their own they are cheaper: a unit is rarely in all four
    apart = Gaussian(noise_multiplier=2.0).poisson_sampled(rate=0.1) * 4
    assert renyi(apart, alpha=2) < renyi(four, alpha=2)


def test_rho_and_pure_epsilon() -> None:
    assert rho(Gaussian(noise_multiplier=2.0) * 4 + ZeroConcentrated(rho=0.5)) == 1.0
    assert rho(Gaussian(noise_multiplier=2.0).poisson_sampled(rate=0.01)) == 0.125
    assert rho(Gaussian(noise_multiplier=2.0).poisson_sampled(rate=0.01), neighbors=ReplaceOne) == (
        0.5
    )
    amplified = math.log1p(0.01 * math.expm1(1.0))
    event = Laplace(noise_multiplier=1.0).poisson_sampled(rate=0.01)
    assert pure_epsilon(event) == pytest.approx(amplified, rel=1e-12)
    replaced = amplified - math.log1p(0.01 * math.expm1(-1.0))  # two units pull apart, not twice
    assert pure_epsilon(event, neighbors=ReplaceOne) == pytest.approx(replaced, rel=1e-12)
    assert rho(event) == pytest.approx(amplified * math.tanh(amplified / 2), rel=1e-9)
    fixed = Pure(epsilon=0.5).fixed_size_sampled(size=1, population=100)
    assert pure_epsilon(fixed, neighbors=ReplaceOne) == pytest.approx(amplified, rel=1e-12)
    assert pure_epsilon(Pure(epsilon=0.5).shuffled(count=9), neighbors=ReplaceOne) == 0.5
    assert pure_epsilon(Pure(epsilon=1) + Gaussian(noise_multiplier=1)) is None
    for order in (1.5, 4, 100):
        for each in MIXED:
            assert renyi(each, alpha=order) <= rho(each) * order * (1 + 1e-12)


@pytest.mark.parametrize(
    "event", [Approximate(epsilon=1, delta=1e-6), ZeroConcentrated(rho=1, delta=1e-6)]
)
def test_a_delta_has_no_renyi_divergence(event: Event) -> None:
    for one in (event, event * 3, event.poisson_sampled(rate=0.1), event + Pure(epsilon=1)):
        with pytest.raises(UnsupportedEvent, match=r"ZCDP|ApproxDP"):
            renyi(one, alpha=2)
        with pytest.raises(UnsupportedEvent, match=r"epsilon\(\)"):
            rho(one)


def test_wrong_schemes_and_numbers_are_named() -> None:
    fixed = Gaussian(noise_multiplier=1).fixed_size_sampled(size=1, population=10)
    for event in (fixed, fixed * 3, Pure(epsilon=1).shuffled(count=5), fixed + Pure(epsilon=1)):
        for ask in (lambda e: renyi(e, alpha=2), rho, pure_epsilon):
            with pytest.raises(InvalidParameter, match="ReplaceOne") as caught:
                ask(event)
            assert caught.value.argument == "neighbors"
    for wrong in (1, 0.5, -3, math.nan, math.inf, "two"):
        with pytest.raises(InvalidParameter, match="alpha"):
            renyi(Pure(epsilon=1), alpha=wrong)
    with pytest.raises(InvalidParameter, match="neighbors"):
        renyi(Pure(epsilon=1), alpha=2, neighbors="add_remove")  # type: ignore[arg-type]
    nested = Pure(epsilon=1).poisson_sampled(rate=0.5).fixed_size_sampled(size=1, population=2)
    with pytest.raises(UnsupportedEvent):
        renyi(nested, alpha=2, neighbors=ReplaceOne)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.floats(0.5, 5), st.floats(0.005, 0.5), st.integers(1, 500), st.floats(1e-9, 0.1))
def test_epsilon_and_delta_by_divergences_there_and_back(
    noise: float, rate: float, steps: int, delta: float
) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * steps
    epsilon = epsilon_from_renyi(event, delta=Fraction(delta), neighbors=AddRemove)
    assert epsilon >= 0
    if epsilon > 0:
        back = delta_from_renyi(event, epsilon=Fraction(epsilon), neighbors=AddRemove)
        assert back <= delta * 1.1  # both search a few orders


def test_masses_are_charged_beside_the_rest() -> None:
    gaussian_event = Gaussian(noise_multiplier=2.0) * 3
    keys = Approximate(epsilon=0.1, delta=1e-7) * 2
    mass, rest = without_mass(keys + gaussian_event, AddRemove)
    assert mass == Fraction("2e-7")
    assert rest == Pure(epsilon=0.1) * 2 + gaussian_event
    exhausted = epsilon_from_renyi(keys, delta=Fraction("1e-7"), neighbors=AddRemove)
    assert math.isinf(exhausted)
    sampled_keys = keys.poisson_sampled(rate=0.1)
    mass, rest = without_mass(sampled_keys, AddRemove)
    assert mass == Fraction("2e-8")
    assert rest == (Pure(epsilon=0.1) * 2).poisson_sampled(rate=0.1)
    mass, rest = without_mass(sampled_keys, ReplaceOne)
    assert mass > Fraction("4e-8")
    known = pure_epsilon((Pure(epsilon=0.1) * 2).poisson_sampled(rate=0.1))
    assert known is not None
    assert pure_epsilon(rest) == pytest.approx(2 * known, rel=1e-12)
    with pytest.raises(UnsupportedEvent):
        without_mass(ZeroConcentrated(rho=0.1, delta=1e-7).poisson_sampled(rate=0.1), ReplaceOne)
