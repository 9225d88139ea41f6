"""Odometers: the reading holds at all times at once, also for whoever stops because of it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
import random
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.filter_games import Path, binary, leaky
from tests.tiers import mostly_slow

from unacorda.accounting.odometers import Odometer, PureOdometer, mixture_boundary, sharpest_at
from unacorda.errors import BudgetExceeded, InvalidParameter, UnsupportedEvent, WrongUnit
from unacorda.privacy import conversions
from unacorda.privacy.events import Gaussian
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP


def classic(rho: float, delta: float, r: float) -> float:
    v = 2 * rho
    return v / 2 + math.sqrt((v + r) * math.log((v + r) / (r * delta**2)))


@pytest.mark.long
@settings(deadline=None)
@given(st.floats(1e-9, 1e4), st.floats(1e-30, 0.9), st.floats(1e-6, 1e3))
def test_the_boundary_solves_its_equation_and_is_below_the_classic(
    rho: float, delta: float, r: float
) -> None:
    found = mixture_boundary(rho, delta=delta, r=r)
    assert found <= classic(rho, delta, r) * (1 + 1e-12)
    with mpmath.workdps(40):
        v = 2 * mpmath.mpf(rho)
        x = (mpmath.mpf(found) - v / 2) / mpmath.sqrt(v + r)
        # The mixture of exp(lambda s - lambda^2 V / 2) over a half normal lambda, by quadrature.
        level = x**2 / 2 + mpmath.log(2 * mpmath.ncdf(x)) + mpmath.log(r / (v + r)) / 2
        assert level >= -mpmath.log(mpmath.mpf(delta))
        if delta < 0.5:
            assert level <= -mpmath.log(mpmath.mpf(delta)) * (1 + mpmath.mpf(10) ** -9)


def test_the_mixture_is_what_the_closed_form_says() -> None:
    s, v, r = 1.7, 0.8, 0.3
    mixed = mpmath.quad(
        lambda x: (
            2
            * mpmath.sqrt(r / (2 * mpmath.pi))
            * mpmath.exp(-r * x * x / 2 + x * s - x * x * v / 2)
        ),
        [0, 2, 20],
    )
    x = s / math.sqrt(v + r)
    closed = 2 * mpmath.ncdf(x) * mpmath.exp(x * x / 2) * mpmath.sqrt(r / (v + r))
    assert mpmath.almosteq(mixed, closed, 1e-12)


def test_the_chosen_r_is_sharpest_where_it_should_be() -> None:
    for rho in (1e-4, 0.05, 3.0):
        for delta in (0.1, 1e-6, 1e-15):
            r = sharpest_at(rho, delta=delta)
            least = classic(rho, delta, r)
            for factor in (0.3, 0.9, 1.1, 3.0):
                assert least <= classic(rho, delta, r * factor) * (1 + 1e-12)


def test_the_reading_costs_little_more_than_a_filter_that_stops_there() -> None:
    reading = mixture_boundary(0.05, delta=1e-6, r=sharpest_at(0.05, delta=1e-6))
    fixed = 0.05 + 2 * math.sqrt(0.05 * math.log(1e6))
    assert fixed < reading < 1.18 * fixed


@pytest.mark.long
@pytest.mark.parametrize("epsilon", mostly_slow([0.05, 0.3]))
@pytest.mark.parametrize("delta", [0.2, 0.02])
def test_the_loss_ever_passes_the_reading_with_probability_below_delta(
    epsilon: float, delta: float
) -> None:
    """Randomised response, 3000 times: exact, by the number of ones, whoever passed is kept."""
    high, step = 1 / (1 + math.exp(-epsilon)), conversions.zcdp_from_pure(epsilon)
    r = sharpest_at(0.5, delta=delta)
    alive, passed = {0: 1.0}, 0.0
    for time in range(1, 3001):
        after: dict[int, float] = {}
        for losses, mass in alive.items():
            after[losses + 1] = after.get(losses + 1, 0.0) + mass * high
            after[losses - 1] = after.get(losses - 1, 0.0) + mass * (1 - high)
        if time <= 50 or time % 10 == 0:  # between, the earlier reading is easier to pass
            reading = mixture_boundary(step * time, delta=delta, r=r)
        passed += sum(mass for losses, mass in after.items() if losses * epsilon > reading)
        alive = {
            losses: mass
            for losses, mass in after.items()
            if losses * epsilon <= reading and mass > 1e-18
        }
    assert delta / 20 < passed <= delta


STOPS = ("when it pays", "at the reading", "never")


@pytest.mark.long
@pytest.mark.parametrize("stop", mostly_slow(STOPS, quick=2))
@pytest.mark.parametrize("seed", range(4))
def test_whoever_stops_because_of_the_reading_gains_nothing(stop: str, seed: int) -> None:
    """P(S) <= E_Q[e^epsilon 1_S] + delta + own_delta, for the best S of every stopping rule."""
    start = Odometer(delta=0.1, own_delta=0.05, sharp_at=0.3)
    paths: list[Path] = []

    def course(history: tuple[int, ...], p: float, q: float, meter: Odometer) -> None:
        coin = random.Random(f"{seed}{history}")
        reading = meter.epsilon
        loss = math.log(p / q) if p > 0 and q > 0 else 0.0
        ends = (
            len(history) == 6
            or p == 0
            or q == 0
            or (stop == "when it pays" and loss > reading)
            or (stop == "at the reading" and reading > 1.5)
        )
        if ends:
            paths.append(Path(history, p, q, meter))
            return
        size = 0.2 + coin.random() * (1.2 if loss > 0 else 0.4)
        question = binary(size, ApproxDP)
        if not history or coin.random() < 0.3:
            question = leaky(size, 0.02, ZCDP)
        try:
            after = meter.spend(question.cost)
        except BudgetExceeded:
            question = binary(size, PureDP)
            after = meter.spend(question.cost)
        for outcome, (here, there) in enumerate(
            zip(question.under_p, question.under_q, strict=True)
        ):
            course((*history, outcome), p * here, q * there, after)

    course((), 1.0, 1.0, start)
    assert math.isclose(math.fsum(path.p for path in paths), 1)
    for way in (1, -1):
        gain = math.fsum(
            max(0.0, (p, q)[::way][0] - math.exp(path.account.epsilon) * (p, q)[::way][1])
            for path in paths
            for p, q in [(path.p, path.q)]
        )
        assert gain <= 0.15
    leaked = math.fsum(path.p for path in paths if path.q == 0)
    assert 0 < leaked <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("delta", mostly_slow([0.3, 0.05]))
def test_no_adversary_at_all_passes_the_reading_more_often_than_delta(delta: float) -> None:
    """The best of all choices of up to 16 questions, by dynamic programming, exactly."""
    steps = (2, 4, 8)  # epsilons in tenths
    start = Odometer(delta=delta, sharp_at=0.5).spend(ZCDP("1e-30"))  # no plain sum
    prices = [ZCDP(conversions.zcdp_from_pure(step / 10)) for step in steps]

    @functools.cache
    def reading(counts: tuple[int, ...]) -> float:
        meter = start
        for price, count in zip(prices, counts, strict=True):
            meter = meter.spend(price * count)
        return meter.epsilon

    @functools.cache
    def passing(counts: tuple[int, ...], loss: int) -> float:
        if loss / 10 > reading(counts):
            return 1.0
        if sum(counts) == 16:
            return 0.0
        found = 0.0
        for place, step in enumerate(steps):
            after = tuple(count + (at == place) for at, count in enumerate(counts))
            high = 1 / (1 + math.exp(-step / 10))
            found = max(
                found, high * passing(after, loss + step) + (1 - high) * passing(after, loss - step)
            )
        return found

    reached = passing((0, 0, 0), 0)
    assert delta / 20 < reached <= delta


def test_pure_costs_are_never_read_above_their_sum() -> None:
    meter = Odometer(delta=1e-6)
    assert meter.epsilon == 0
    assert meter.guarantee == ApproxDP(0, 1e-6)
    once = meter.spend(PureDP(0.5))
    assert once.guarantee == ApproxDP(0.5, 1e-6)
    assert once.spend(ZCDP("1e-12")).epsilon > 0.5  # no sum any more
    many = meter
    for _ in range(400):
        many = many.spend(PureDP(0.02))
    assert many.epsilon < 2.5  # the sum is 8
    total = PureOdometer()
    for _ in range(10):
        total = total.spend(PureDP(0.1))
    assert total.guarantee == PureDP(1)


def test_readings_grow_and_do_not_depend_on_the_order() -> None:
    costs: list[Guarantee] = [PureDP(0.2), ZCDP(0.01), GDP(0.2), ApproxDP(0.1, 1e-7)]
    meter, before = Odometer(delta=1e-6, own_delta=1e-6), 0.0
    for cost in costs:
        meter = meter.spend(cost)
        assert meter.epsilon > before
        before = meter.epsilon
    back = Odometer(delta=1e-6, own_delta=1e-6)
    for cost in reversed(costs):
        back = back.spend(cost)
    assert back == meter
    assert meter.guarantee.delta == Fraction(2, 10**6)
    assert meter.spent.delta == Fraction(1, 10**7)


def test_own_deltas_are_limited_beforehand() -> None:
    meter = Odometer(delta=1e-6, own_delta=1e-7)
    with pytest.raises(BudgetExceeded):
        meter.spend(ApproxDP(0.1, "1.0000001e-7"))
    full = meter.spend(ApproxDP(0.1, 1e-7))
    with pytest.raises(BudgetExceeded):
        full.spend(ZCDP(0, 1e-20))
    full.spend(ZCDP(5))


def test_bad_input_is_refused() -> None:
    for delta in (0, 1, -0.1, "nan"):
        with pytest.raises(InvalidParameter):
            Odometer(delta=delta)
    with pytest.raises(InvalidParameter):
        Odometer(delta=0.1, own_delta=-1)
    with pytest.raises(InvalidParameter):
        Odometer(delta=0.1, sharp_at=0)
    with pytest.raises(WrongUnit):
        Odometer(delta=0.1).spend(RenyiDP(2, 1))
    with pytest.raises(UnsupportedEvent):
        Odometer(delta=0.1).spend(Gaussian(noise_multiplier=1.0))  # type: ignore[arg-type]
    with pytest.raises(WrongUnit):
        PureOdometer().spend(ZCDP(1))  # type: ignore[arg-type]
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(InvalidParameter):
            mixture_boundary(bad, delta=0.1, r=1.0)
        with pytest.raises(InvalidParameter):
            mixture_boundary(1.0, delta=0.1, r=bad)
