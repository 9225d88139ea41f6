"""Which budget buys what: the table, the smaller of two bounds, and nothing left by rounding."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.accounting.charges import charge, request_price
from unacorda.accounting.filters import Filter
from unacorda.errors import InvalidParameter, UnsupportedEvent, WrongUnit
from unacorda.privacy import conversions
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
)
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP

PURE, APPROX, ZC, GD, REN = PureDP(9), ApproxDP(9, 0.1), ZCDP(9, 0.1), GDP(9, 0.1), RenyiDP(8, 9)


@pytest.mark.parametrize(
    ("account", "request_", "cost"),
    [
        (PURE, PureDP(1), PureDP(1)),
        (APPROX, PureDP(1), ApproxDP(1, 0)),
        (APPROX, ApproxDP(1, 1e-6), ApproxDP(1, 1e-6)),
        (ZC, ZCDP(1, 1e-9), ZCDP(1, 1e-9)),
        (ZC, GDP(1, 1e-9), ZCDP(0.5, 1e-9)),
        (GD, GDP(1, 1e-9), GDP(1, 1e-9)),
        (REN, ZCDP(0.1), RenyiDP(8, 0.8)),
        (REN, GDP(1), RenyiDP(8, 4)),
        (REN, RenyiDP(8, 0.3), RenyiDP(8, 0.3)),
    ],
)
def test_the_table_where_it_is_exact(
    account: Guarantee, request_: Guarantee, cost: Guarantee
) -> None:
    assert request_price(request_, account) == cost


@pytest.mark.parametrize(
    ("account", "request_", "number"),
    [
        (ZC, PureDP(1), conversions.zcdp_from_pure(1)),
        (ZC, ApproxDP(1, 1e-6), conversions.zcdp_from_pure(1)),
        (GD, PureDP(1), conversions.gdp_from_pure(1) ** 2),
        (REN, PureDP(1), conversions.renyi_from_pure(1, alpha=8)),
    ],
)
def test_the_table_where_it_is_rounded(
    account: Guarantee, request_: Guarantee, number: float
) -> None:
    cost = request_price(request_, account)
    assert type(cost) is type(account)
    assert float(cost.additive[0]) == pytest.approx(number, rel=1e-14)
    if isinstance(request_, ApproxDP):
        assert cost.additive[1] == request_.delta


@in_subtests(
    ("account", "request_", "hint"),
    [
        (PURE, ApproxDP(1, 1e-6), "PureDP.within"),
        (PURE, ZCDP(1), "PureDP.within"),
        (PURE, GDP(1), "PureDP.within"),
        (PURE, RenyiDP(8, 1), "PureDP.within"),
        (APPROX, ZCDP(1), "ApproxDP.within"),
        (APPROX, GDP(1), "ApproxDP.within"),
        (APPROX, RenyiDP(8, 1), "PureDP.within"),
        (ZC, RenyiDP(8, 1), "ZCDP.within"),
        (GD, ZCDP(1), "GDP.within"),
        (GD, ApproxDP(1, 1e-6), "GDP.within"),
        (GD, RenyiDP(8, 1), "GDP.within|PureDP.within"),
        (REN, ApproxDP(1, 1e-6), "ZCDP.within"),
        (REN, RenyiDP(4, 1), "ZCDP.within"),
        (REN, ZCDP(1, 1e-9), "delta=0"),
        (REN, GDP(1, 1e-9), "delta=0"),
    ],
)
def test_any_other_pair_is_refused_with_the_conversion(
    account: Guarantee, request_: Guarantee, hint: str
) -> None:
    with pytest.raises(WrongUnit, match=hint):
        request_price(request_, account)
    with pytest.raises(WrongUnit):
        charge(Pure(epsilon=1e-9), request_, account)


def test_the_mend_of_a_refusal_works() -> None:
    names = {"PureDP": PureDP, "ApproxDP": ApproxDP, "ZCDP": ZCDP, "GDP": GDP, "RenyiDP": RenyiDP}
    for account in (PURE, APPROX, ZC, GD, REN):
        for request_ in (PureDP(1), ApproxDP(1, 1e-6), ZCDP(1), GDP(1), RenyiDP(4, 1)):
            try:
                request_price(request_, account)
            except WrongUnit as error:
                mended: Guarantee = eval(error.hint.removeprefix("Ask with ").rstrip("."), names)
                assert type(request_price(mended, account)) is type(account)
                assert mended.implies(request_)


def test_the_events_own_price_is_charged_where_it_is_lower() -> None:
    assert charge(Exponential(epsilon=1), PureDP(1), ZC) == ZCDP("1/8")
    assert charge(Laplace(noise_multiplier=4), PureDP(1), PURE) == PureDP("1/4")
    sigma = 1 / Fraction(conversions.gdp_from_approx_dp(1, delta=Fraction("1e-6")))
    cost = charge(Gaussian(noise_multiplier=sigma), ApproxDP(1, 1e-6), ZC)
    assert cost == ZCDP(1 / (2 * sigma**2))  # 0.028, where the request alone would cost 0.46


def test_the_requests_price_is_charged_where_the_event_keeps_it() -> None:
    gaussian = Gaussian(noise_multiplier=1 / Fraction(GDP.within(ApproxDP(1, 1e-6)).mu * 0.999999))
    assert charge(gaussian, ApproxDP(1, 1e-6), APPROX) <= ApproxDP(1, 1e-6)
    discrete = DiscreteGaussian(sigma=1, sensitivity=1)
    with pytest.raises(UnsupportedEvent):  # sigma = 1 does not keep mu = 1
        charge(discrete, GDP(1), GD)
    assert charge(discrete, GDP(1), ZC) == ZCDP(0.5)


def test_an_analytic_gaussian_fits_its_own_request() -> None:
    for request_ in (ApproxDP(1, 1e-6), ApproxDP("0.1", "1e-12"), ApproxDP(7, "1/3")):
        mu = conversions.gdp_from_approx_dp(request_.epsilon, delta=request_.delta)
        event = Gaussian(noise_multiplier=1 / Fraction(mu))
        assert charge(event, request_, APPROX) == request_


def test_an_event_that_breaks_its_request_is_refused() -> None:
    cases: list[tuple[Event, Guarantee, Guarantee]] = [
        (Laplace(noise_multiplier=1), PureDP(0.5), PURE),
        (Laplace(noise_multiplier=1), PureDP(0.5), ZC),
        (Gaussian(noise_multiplier=1), ZCDP(0.4), ZC),
        (Gaussian(noise_multiplier=1), ApproxDP(1, 1e-6), APPROX),
        (Gaussian(noise_multiplier=1), ApproxDP(1, 0), APPROX),
        (Gaussian(noise_multiplier=1), PureDP(1), APPROX),
        (Approximate(epsilon=0.1, delta=1e-9), ZCDP(1), ZC),
        (Approximate(epsilon=0.1, delta=1e-9), PureDP(1), APPROX),
        (Approximate(epsilon=0.1, delta=1e-9), GDP(1), GD),
    ]
    for event, request_, account in cases:
        with pytest.raises(InvalidParameter, match="event"):
            charge(event, request_, account)


def test_a_sampled_event_has_no_charge_yet() -> None:
    with pytest.raises(UnsupportedEvent):
        charge(Gaussian(noise_multiplier=9).poisson_sampled(rate=0.1), ZCDP(1), ZC)


def test_ten_requests_of_a_tenth_use_up_one_exactly() -> None:
    account = Filter(PureDP(1))
    scale = Fraction("10.0000000001")  # noise a little larger than asked for, by rounding
    for _ in range(10):
        cost = charge(Laplace(noise_multiplier=scale), PureDP(0.1), PureDP(1))
        assert account.admits(cost)
        account = account.spend(cost)
    assert account.remaining == PureDP(0)
    assert charge(Laplace(noise_multiplier=Fraction("10.001")), PureDP(0.1), PURE) < PureDP(0.1)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.fractions(Fraction(1, 1000), 20), st.fractions(1, 3))
def test_a_charge_lies_between_the_event_and_the_request(
    epsilon: Fraction, slack: Fraction
) -> None:
    event = Laplace(noise_multiplier=slack / epsilon)
    for account in (PURE, APPROX, ZC, GD, REN):
        cost = charge(event, PureDP(epsilon), account)
        asked = request_price(PureDP(epsilon), account)
        assert all(a <= b for a, b in zip(cost.additive, asked.additive, strict=True))
        least = charge(event, PureDP(epsilon / slack), account)
        assert cost.additive[0] >= least.additive[0] * (1 - Fraction(1, 10**15))
