"""Amplification against enumeration of small mechanisms, and against its own inverses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unacorda.accounting.amplification.events import (
    delta_of_shuffled_event,
    epsilon_of_shuffled_event,
    shuffled_parts,
    without_shuffling,
)
from unacorda.accounting.amplification.sampling import (
    approx_dp_of_replaced_sample,
    approx_dp_of_sample,
    approx_dp_within_sample,
    pure_of_replaced_sample,
    sampling_worth,
)
from unacorda.accounting.amplification.shuffling import (
    delta_of_shuffled_reports,
    delta_of_shuffled_response,
)
from unacorda.accounting.arguments import check_relation
from unacorda.accounting.prices import pure_epsilon
from unacorda.accounting.rules.base import leaves, under_replacement, without_mass
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
    Shuffled,
    TruncatedLaplace,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import AddRemove, ReplaceOne, ZeroOut


def hockey_stick(p: dict[Any, float], q: dict[Any, float], epsilon: float) -> float:
    grown = math.exp(epsilon)
    keys = {*p, *q}
    return max(
        sum(max(0.0, one.get(k, 0.0) - grown * two.get(k, 0.0)) for k in keys)
        for one, two in ((p, q), (q, p))
    )


def response(bit: int, epsilon: float) -> dict[int, float]:
    head = 1 / (1 + math.exp(-epsilon))
    return {bit: head, 1 - bit: 1 - head}


# ------------------------------------------------------------------------------------ sampling


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 20), st.floats(0, 1), st.floats(1e-6, 1))
def test_sampling_is_tight_on_randomised_response_with_a_leak(
    epsilon: float, delta: float, rate: float
) -> None:
    amplified, mass = approx_dp_of_sample(epsilon, delta=delta, rate=rate)
    with mpmath.workdps(50):
        e, d, q = (mpmath.mpf(v) for v in (epsilon, delta, rate))
        head = 1 / (1 + mpmath.exp(-e))
        p = [d, (1 - d) * head, (1 - d) * (1 - head), mpmath.mpf(0)]
        null = [mpmath.mpf(0), (1 - d) * (1 - head), (1 - d) * head, d]
        mixed = [q * x + (1 - q) * y for x, y in zip(p, null, strict=True)]
        grown = 1 + q * mpmath.expm1(e)
        truth = mpmath.fsum(max(0, x - grown * y) for x, y in zip(mixed, null, strict=True))
        assert mpmath.log(grown) <= amplified <= mpmath.log(grown) * (1 + mpmath.mpf("1e-14"))
        assert truth <= mass + mpmath.mpf("1e-40")
        assert abs(truth - q * d) < mpmath.mpf("1e-40")


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 20), st.floats(0, 1), st.floats(1e-6, 1))
def test_sampling_and_its_inverse_never_gain(epsilon: float, delta: float, rate: float) -> None:
    inner, mass = approx_dp_within_sample(epsilon, delta=delta, rate=rate)
    again, leak = approx_dp_of_sample(inner, delta=mass, rate=rate)
    assert again <= epsilon * (1 + 1e-14)
    assert leak <= delta * (1 + 1e-14) or mass == 1.0
    assert inner >= epsilon * (1 - 1e-14)


Laws = list[tuple[dict[Any, float], dict[Any, float]]]


def test_sampling_worth_lies_between_its_bounds() -> None:
    for epsilon in (1e-4, 0.01, 0.1, 1.0, 8.0):
        for rate in (1e-4, 0.01, 0.5, 1.0):
            worth = sampling_worth(epsilon, rate=rate)
            assert rate / (rate + epsilon) * (1 - 1e-12) <= worth.noise_ratio <= 1
            c = epsilon / rate
            assert worth.noise_ratio >= math.log1p(c) / c * (1 - 1e-12)
            assert worth.free == (worth.noise_ratio >= 0.95)
            assert ("not free" in worth.warning) != worth.free
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidParameter, match="epsilon"):
            sampling_worth(wrong, rate=0.1)
    with pytest.raises(InvalidParameter, match="rate"):
        sampling_worth(1.0, rate=0)


def test_refuses_wrong_numbers() -> None:
    for wrong in (-0.1, 1.5, math.nan):
        with pytest.raises(InvalidParameter, match="rate"):
            approx_dp_of_sample(1.0, delta=0, rate=wrong)
        with pytest.raises(InvalidParameter, match="delta"):
            approx_dp_of_sample(1.0, delta=wrong, rate=0.5)
    for count in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter, match="count"):
            delta_of_shuffled_reports(1.0, distance=1, count=count, epsilon=0.1)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="categories"):
        delta_of_shuffled_response(1.0, categories=1, count=5, epsilon=0.1)


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(st.floats(0.05, 4), st.integers(2, 10**5), st.floats(0, 2), st.integers(2, 10))
def test_shuffling_is_monotone(local: float, count: int, epsilon: float, factor: int) -> None:
    delta = functools.partial(delta_of_shuffled_reports, distance=1)
    value = delta(local, count=count, epsilon=epsilon)
    assert value <= conversions.approx_dp_delta_from_pure(local, epsilon=epsilon) + 1e-12
    assert delta(local, count=count * factor, epsilon=epsilon) <= value * 1.5 + 1e-200
    assert delta(local, count=count, epsilon=epsilon + 0.1) <= value * 1.5 + 1e-200
    assert value <= delta(local * 1.2, count=count, epsilon=epsilon) * 1.5 + 1e-200


@pytest.mark.slow
def test_shuffled_events() -> None:
    event = RandomizedResponse(epsilon=1.0, categories=2).shuffled(count=1000)
    assert isinstance(event, Shuffled)
    found = epsilon_of_shuffled_event(event, delta=Fraction("1e-5"))
    assert 0 < found.lower <= found.upper < 0.3
    at = delta_of_shuffled_event(event, epsilon=found.upper)
    assert at.upper <= 1e-5
    general = Pure(epsilon=1.0).shuffled(count=1000)
    assert isinstance(general, Shuffled)
    assert epsilon_of_shuffled_event(general, delta=Fraction("1e-5")).upper > found.upper
    nothing = Pure(epsilon=0).shuffled(count=5)
    assert isinstance(nothing, Shuffled)
    assert epsilon_of_shuffled_event(nothing, delta=Fraction("1e-5")).upper == 0
    noisy = Gaussian(noise_multiplier=1).shuffled(count=5)
    assert isinstance(noisy, Shuffled)
    with pytest.raises(UnsupportedEvent, match="pure"):
        delta_of_shuffled_event(noisy, epsilon=0.1)
    assert shuffled_parts(event * 3 + general + Pure(epsilon=1)) == 4
    replaced = without_shuffling(event * 3 + noisy, delta=Fraction("1e-6"))
    assert not any(isinstance(part, Shuffled) for part in leaves(replaced))
    assert without_shuffling(event, delta=Fraction(0)) == event.event


# ----------------------------------------------------------------------------------- relations


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Gaussian(noise_multiplier=0.1), Gaussian(noise_multiplier=Fraction(1, 20))),
        (Laplace(noise_multiplier=3), Laplace(noise_multiplier=Fraction(3, 2))),
        (
            DiscreteGaussian(sigma=2, sensitivity=1),
            DiscreteGaussian(sigma=2, sensitivity=2),
        ),
        (DiscreteLaplace(scale=2, sensitivity=1), DiscreteLaplace(scale=2, sensitivity=2)),
        (RandomizedResponse(epsilon=1, categories=3), RandomizedResponse(epsilon=1, categories=3)),
        (Exponential(epsilon=1), Exponential(epsilon=2)),
        (Pure(epsilon=0.5) * 3, Pure(epsilon=1) * 3),
        (ZeroConcentrated(rho=0.25), ZeroConcentrated(rho=1)),
        (Approximate(epsilon=1, delta=0), Approximate(epsilon=2, delta=0)),
    ],
)
def test_replacing_doubles_what_adding_moves(event: Event, expected: Event) -> None:
    assert under_replacement(event) == expected


def test_relations_and_schemes() -> None:
    fixed = Pure(epsilon=1).fixed_size_sampled(size=1, population=2)
    for event in (fixed, fixed * 2, Pure(epsilon=1).shuffled(count=2)):
        check_relation(event, ReplaceOne)
        check_relation(event, ZeroOut)
        with pytest.raises(InvalidParameter, match=r"unacorda\.ReplaceOne"):
            check_relation(event, AddRemove)
    with pytest.raises(UnsupportedEvent):
        under_replacement(ZeroConcentrated(rho=1, delta=0.1))
    leaky = Approximate(epsilon=1, delta=0.1).poisson_sampled(rate=0.5)
    pure = Pure(epsilon=1).poisson_sampled(rate=0.5)
    for shown in (leaky, TruncatedLaplace(noise_multiplier=1, bound=4).poisson_sampled(rate=0.5)):
        mass, rest = without_mass(shown, ReplaceOne)
        alone, _ = without_mass(shown, AddRemove)
        assert 2 * alone < mass < 4 * alone
        one = pure_epsilon(pure)
        assert one is not None
        assert pure_epsilon(rest) == pytest.approx(2 * one, rel=1e-12)


@pytest.mark.long
def test_a_billion_reports_are_priced_at_once() -> None:
    one = delta_of_shuffled_reports(1.0, distance=1, count=10**9, epsilon=5e-5)
    assert 0 < one < delta_of_shuffled_reports(1.0, distance=1, count=10**8, epsilon=5e-5)
    # a tenth of the people: the law of the share of ones is sqrt(10) times as wide
    fewer = delta_of_shuffled_reports(1.0, distance=1, count=10**8, epsilon=5e-5 * math.sqrt(10))
    assert fewer == pytest.approx(math.sqrt(10) * one, rel=0.01)


@pytest.mark.parametrize("epsilon", [1e-300, 1.0, 999_999.0, 1e7, 1e200, 1.7e308])
def test_samples_of_any_guarantee_have_finite_prices(epsilon: float) -> None:
    once, _ = approx_dp_of_sample(epsilon, delta=0, rate=0.25)
    replaced = pure_of_replaced_sample(epsilon, rate=0.25)
    within, _ = approx_dp_within_sample(epsilon, delta=0, rate=0.25)
    assert 0 < once <= replaced <= epsilon * (1 + 1e-15) < math.inf
    assert approx_dp_of_sample(epsilon, delta=0.5, rate=0) == (0, 0)
    assert once * (1 - 1e-15) <= approx_dp_of_replaced_sample(epsilon, rate=0.25) < math.inf
    assert epsilon * (1 - 1e-15) <= within <= 4 * epsilon
    assert approx_dp_of_sample(within, delta=0, rate=0.25)[0] <= epsilon * (1 + 1e-15)


@pytest.mark.parametrize("epsilon", [1e-80, 1e-9])
def test_shuffled_reports_that_tell_next_to_nothing_have_a_small_delta(epsilon: float) -> None:
    delta = delta_of_shuffled_reports(epsilon, distance=0.5, count=100, epsilon=0.0)
    assert 0 < delta < epsilon
