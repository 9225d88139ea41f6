"""Calibration: what comes back meets the target, nothing a little better does, in few steps."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.accounting import prices
from unacorda.accounting.calibration import (
    Advantage,
    TruePositiveRate,
    calibrate,
    calibrate_grid,
    calibration,
)
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.events import (
    Approximate,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    Repeated,
)
from unacorda.privacy.guarantees import GDP, ZCDP, Guarantee, PureDP
from unacorda.privacy.tradeoff import TradeoffCurve


def gaussian(noise: float) -> Event:
    return Gaussian(noise_multiplier=noise)


def gaussian_epsilon(delta: float) -> Callable[[Event], float]:
    """The exact price of sums of Gaussians, rounded up."""

    def price(event: Event) -> float:
        mu = prices.gdp_price(event)
        return conversions.approx_dp_from_gdp(
            Fraction(mu.mu) * (1 + Fraction(1, 2**50)), delta=delta
        )

    return price


@pytest.mark.long
@settings(deadline=None, max_examples=25)
@given(st.floats(1e-2, 50), st.floats(1e-18, 0.2), st.integers(1, 10**9))
def test_the_least_noise_is_that_of_the_analytic_gaussian(
    epsilon: float, delta: float, steps: int
) -> None:
    price = gaussian_epsilon(delta)
    found = calibration(
        lambda noise: gaussian(noise) * steps, target=epsilon, price=price, tolerance=1e-8
    )
    assert found.fails is not None
    assert found.cost <= epsilon
    assert price(gaussian(found.parameter) * steps) <= epsilon
    assert price(gaussian(found.fails) * steps) > epsilon
    assert found.fails < found.parameter <= found.fails * (1 + 1.01e-8)
    exact = math.sqrt(steps) / conversions.gdp_from_approx_dp(epsilon, delta=delta)
    assert exact * (1 - 1e-9) <= found.parameter <= exact * (1 + 2e-8)
    assert found.evaluations <= 30


@pytest.mark.long
@settings(deadline=None, max_examples=20)
@given(st.floats(1e-1, 50), st.floats(1e-18, 0.2), st.floats(20, 1e5))
def test_the_most_steps_are_the_most(epsilon: float, delta: float, noise: float) -> None:
    price = gaussian_epsilon(delta)

    def meets(steps: int) -> bool:
        return price(gaussian(noise) * steps) <= epsilon

    if not meets(1):
        return
    found = calibrate(
        lambda steps: gaussian(noise) * steps,
        target=epsilon,
        price=price,
        find="most",
        whole=True,
    )
    assert isinstance(found, int)
    assert meets(found)
    assert found == 10**12 or not meets(found + 1)


@pytest.mark.parametrize(
    ("family", "target", "answer"),
    [
        (lambda x: gaussian(x) * 8, ZCDP(1), 2.0),
        (lambda x: gaussian(x) * 9, GDP(0.5), 6.0),
        (lambda x: Laplace(noise_multiplier=x) * 5, PureDP(0.1), 50.0),
        (lambda x: gaussian(x) + Approximate(epsilon=0, delta=1e-9), ZCDP(0.5, 1e-9), 1.0),
    ],
)
def test_closed_forms(family: Callable[[float], Event], target: Guarantee, answer: float) -> None:
    found = calibration(family, target=target, tolerance=1e-12)
    assert math.isclose(found.parameter, answer, rel_tol=2e-12)
    assert found.cost <= found.level
    assert found.evaluations <= 12


def test_parameters_that_cost_more_as_they_grow() -> None:
    found = calibrate(lambda x: Exponential(epsilon=x) * 4, target=ZCDP("0.5"), find="most")
    assert 1 - 1e-8 < found <= 1
    found = calibrate(
        lambda x: RandomizedResponse(epsilon=x, categories=3), target=PureDP("1/3"), find="most"
    )
    assert 1 / 3 - 1e-9 < found <= 1 / 3
    assert Fraction(repr(found)) <= Fraction(1, 3)


def test_advantage_and_true_positive_rate_with_a_price() -> None:
    def curve(event: Event) -> TradeoffCurve:
        return TradeoffCurve.of_guarantee(prices.gdp_price(event))

    noise = calibrate(gaussian, target=0.1, price=lambda event: curve(event).advantage)
    # advantage = 2 Phi(mu / 2) - 1
    assert math.isclose(math.erf(1 / noise / 2 / math.sqrt(2)), 0.1, rel_tol=1e-7)
    noise = calibrate(
        gaussian, target=0.02, price=lambda event: curve(event).true_positive_rate(fpr=0.01)
    )
    assert curve(gaussian(noise)).true_positive_rate(fpr=0.01) <= 0.02
    assert curve(gaussian(noise * (1 - 1e-8))).true_positive_rate(fpr=0.01) > 0.02


def test_a_target_that_no_noise_reaches_says_so() -> None:
    def family(noise: float) -> Event:
        return gaussian(noise) + Approximate(epsilon=0.1, delta=1e-5)

    with pytest.raises(InvalidParameter, match=r"costs inf, and 0\.5 is allowed"):
        calibrate(family, target=ZCDP(0.5, 1e-6))
    with pytest.raises(InvalidParameter, match=r"still costs 0\.00499"):
        calibrate(family, target=ZCDP(0.001, 1e-5))
    with pytest.raises(InvalidParameter, match=r"at the end of the range, 1, it still costs 2"):
        calibrate(lambda steps: Pure(epsilon=2) * steps, target=PureDP(1), find="most", whole=True)
    with pytest.raises(InvalidParameter, match="check find="):
        calibrate(gaussian, target=ZCDP(0.25), find="most")
    with pytest.raises(InvalidParameter):
        calibrate(gaussian, target=ZCDP(0))


def test_the_wrong_way_round_is_noticed() -> None:
    with pytest.raises(InvalidParameter, match="the other end"):
        calibrate(gaussian, target=ZCDP(2), find="most")
    with pytest.raises(InvalidParameter, match="the other end"):
        calibrate(lambda x: Pure(epsilon=x), target=PureDP(2))


def test_a_range_that_meets_the_target_everywhere_gives_its_end() -> None:
    found = calibration(gaussian, target=ZCDP(0.5), within=(3, 10))
    assert (found.parameter, found.fails) == (3, None)
    most = calibration(
        lambda steps: Pure(epsilon=0) * steps, target=PureDP(1), find="most", whole=True
    )
    assert (most.parameter, most.fails) == (10**12, None)
    inside = calibration(lambda x: Pure(epsilon=x), target=PureDP(9), find="most", within=(0.1, 1))
    assert inside.parameter == 1
    assert calibrate(gaussian, target=ZCDP(0.5), guess=1e9, within=(0.5, 2)) <= 1 + 1e-8


def test_parameters_never_leave_the_range() -> None:
    seen: list[float] = []

    def family(rate: float) -> Event:
        seen.append(rate)
        return Pure(epsilon=0.7 * rate)

    found = calibrate(family, target=PureDP(0.69), find="most", within=(1e-6, 1), guess=0.001)
    assert found <= 0.69 / 0.7 < found + 1e-8
    assert all(1e-6 <= rate <= 1 for rate in seen)
    seen.clear()
    calibrate(family, target=PureDP(1.5), find="most", within=(2, 40), whole=True, guess=0.001)
    assert seen == [2, 3]


def test_integers_are_passed_as_integers() -> None:
    seen: list[int] = []

    def family(steps: int) -> Event:
        seen.append(steps)
        return Pure(epsilon=Fraction(1, 1000)) * steps

    assert calibrate(family, target=PureDP(1), find="most", whole=True) == 1000
    assert all(type(steps) is int for steps in seen)
    assert len(seen) <= 12
    size = calibrate(lambda batch: Pure(epsilon=Fraction(100, batch)), target=PureDP(1), whole=True)
    assert size == 100


def test_costs_that_are_infinite_zero_or_not_a_number_are_walked_over() -> None:
    def price(event: Event) -> float:
        assert isinstance(event, Pure)
        x = float(event.epsilon)
        if x < 0.3:
            return math.nan
        if x < 20:
            return math.inf
        return 0.0 if x > 5000 else 1000 / x

    found = calibration(lambda x: Pure(epsilon=x), target=1, price=price)
    assert math.isclose(found.parameter, 1000, rel_tol=1e-8)
    stepped = calibration(
        lambda x: Pure(epsilon=x), target=1, price=lambda e: 0.0 if price(e) < 0.5 else math.inf
    )
    assert math.isclose(stepped.parameter, 2000, rel_tol=1e-8)
    assert stepped.evaluations < 60


@in_subtests("power", [0.01, 0.5, 1, 7, 200])
@in_subtests("guess", [1e-6, 1, 1e6])
def test_any_slope_from_any_guess(power: float, guess: float) -> None:
    def price(event: Event) -> float:
        assert isinstance(event, Pure)
        return math.exp(min(-power * math.log(float(event.epsilon) / 123.456), 700.0))

    found = calibration(lambda x: Pure(epsilon=x), target=1, price=price, guess=guess)
    assert math.isclose(found.parameter, 123.456, rel_tol=1e-8)
    assert price(Pure(epsilon=found.parameter)) <= 1
    assert found.evaluations <= 25


def test_a_rough_price_is_still_met() -> None:
    """A price that wobbles is not monotone: the result still meets the target."""

    def price(event: Event) -> float:
        assert isinstance(event, Pure)
        x = float(event.epsilon)
        return (1 + 1e-3 * math.sin(1e5 * x)) / x

    for level in (0.3, 1.7):
        found = calibration(lambda x: Pure(epsilon=x), target=level, price=price)
        assert price(Pure(epsilon=found.parameter)) <= level
        assert math.isclose(found.parameter, 1 / level, rel_tol=3e-3)


def test_grids_have_the_shape_of_their_axes() -> None:
    def family(noise: float, steps: int, parts: int) -> Event:
        return gaussian(noise) * steps * parts

    found = calibrate_grid(
        family, target=ZCDP(0.5), over={"steps": [1, 4, 16], "parts": [1, 25]}, tolerance=1e-12
    )
    assert found.dtype == np.float64
    assert np.allclose(found, [[1, 5], [2, 10], [4, 20]], rtol=1e-11)
    whole = calibrate_grid(
        lambda steps, noise: gaussian(noise) * steps,
        target=ZCDP("0.5"),
        over={"noise": (Fraction(k) for k in (2, 3, 4))},
        find="most",
        whole=True,
    )
    assert whole.dtype == np.int64
    assert whole.tolist() == [4, 9, 16]
    with pytest.raises(InvalidParameter):
        calibrate_grid(family, target=ZCDP(0.5), over={"steps": [], "parts": [1]})


@pytest.mark.long
def test_a_grid_begins_where_its_neighbor_ended() -> None:
    count = 0

    def family(noise: float, steps: int) -> Event:
        nonlocal count
        count += 1
        return gaussian(noise) * steps

    price = gaussian_epsilon(1e-6)
    calibrate_grid(family, target=1.0, price=price, over={"steps": range(1000, 2000, 50)})
    assert count <= 20 * 8


@in_subtests(
    "wrong",
    [
        {"target": 1.0},
        {"target": "ZCDP"},
        {"target": ZCDP(1), "price": lambda event: 1.0},
        {"target": ZCDP(1), "within": (0, 1)},
        {"target": ZCDP(1), "within": (2, 1)},
        {"target": ZCDP(1), "within": (1, math.inf)},
        {"target": ZCDP(1), "within": 7},
        {"target": ZCDP(1), "within": (0.5, 2), "whole": True},
        {"target": ZCDP(1), "guess": 0},
        {"target": ZCDP(1), "tolerance": 0},
        {"target": ZCDP(1), "tolerance": 1},
        {"target": ZCDP(1), "find": "best"},
        {"target": ZCDP(1), "neighbors": "add_remove"},
    ],
)
def test_bad_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        calibrate(gaussian, **wrong)


def test_bad_targets_are_refused() -> None:
    for value in (-0.1, 1.1, "nan"):
        with pytest.raises(InvalidParameter):
            Advantage(value)
        with pytest.raises(InvalidParameter):
            TruePositiveRate(at_most=value, fpr=0.01)
    with pytest.raises(InvalidParameter):
        TruePositiveRate(at_most=0.01, fpr=0.02)
    with pytest.raises(UnsupportedEvent):
        calibrate(gaussian, target=PureDP(1))


def test_events_of_a_family_may_be_any() -> None:
    found = calibrate(lambda x: Repeated(event=gaussian(x), count=4), target=ZCDP(2))
    assert math.isclose(found, 1, rel_tol=1e-8)
