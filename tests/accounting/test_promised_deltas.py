"""Promises of (epsilon, delta), sampled and composed, asked at just the delta that they spend."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest
from tests.accounting import by_contours, by_grids
from tests.support.cases import in_subtests

from unacorda.accounting import accountant
from unacorda.accounting.rules.base import finite_loss
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Approximate, Event, Pure, RandomizedResponse
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

ONE_IN_A_MILLION = Fraction(1, 10**6)


def _amplified(epsilon: object, rate: object) -> float:
    """Balle, Barthe, Gaboardi 2018, Theorem 8, in 50 digits."""
    with mpmath.workdps(50):
        q, x = (mpmath.mpf(Fraction(str(n)).numerator) / Fraction(str(n)).denominator
                for n in (rate, epsilon))  # fmt: skip
        return float(mpmath.log(1 + q * (mpmath.exp(x) - 1)))


@in_subtests("neighbors", [AddRemove, ZeroOut])
@in_subtests(
    ("epsilon", "delta", "rate", "at"),
    [
        (1, 1e-6, 0.01, 1e-8),
        (1, 1e-6, Fraction(1, 2), 5e-7),
        (1, 1e-6, 1, 1e-6),
        (0.3, 3e-7, 0.07, 2.1e-8),
        (2.5, Fraction(1, 3), Fraction(1, 7), Fraction(1, 21)),
        (8, 1e-290, 1e-5, Fraction(1, 10**295)),
    ],
)
def test_a_sampled_promise_at_its_own_delta(
    epsilon: float, delta: float, rate: float, at: float, neighbors: Neighbors
) -> None:
    event = Approximate(epsilon=epsilon, delta=delta).poisson_sampled(rate=rate)
    found = accountant.epsilon_interval(event, delta=at, neighbors=neighbors)
    truth = _amplified(epsilon, rate)
    assert truth <= found.upper <= truth * (1 + 1e-15) + 1e-17
    assert found.lower <= truth
    # no epsilon is enough below it, however near
    below = accountant.epsilon(
        event, delta=Fraction(str(at)) * (1 - Fraction(1, 10**40)), neighbors=neighbors
    )
    assert below == math.inf
    # and back: what is spent at that epsilon
    spent = accountant.delta(event, epsilon=Fraction(found.upper), neighbors=neighbors)
    assert Fraction(str(at)) <= Fraction(spent)
    assert spent <= float(Fraction(str(at))) * (1 + 1e-15)


def test_the_number_of_the_theorem() -> None:
    event = Approximate(epsilon=1, delta=1e-6).poisson_sampled(rate=0.01)
    assert accountant.epsilon(event, delta=1e-8) == pytest.approx(
        math.log(1 + 0.01 * math.expm1(1))
    )
    assert round(accountant.epsilon(event, delta=1e-8), 7) == 0.0170369


@pytest.mark.parametrize("count", [2, 3, 50, 200])
@pytest.mark.parametrize("rate", [1, Fraction(1, 100)])
def test_copies_at_the_delta_that_they_spend(count: int, rate: Fraction) -> None:
    one: Event = Approximate(epsilon=1, delta=ONE_IN_A_MILLION)
    one = one if rate == 1 else one.poisson_sampled(rate=rate)
    # Kairouz, Oh, Viswanath 2015: infinite with probability 1 - (1 - delta)^k, else k epsilon
    spent = 1 - (1 - rate * ONE_IN_A_MILLION) ** count
    found = finite_loss(one * count, AddRemove)
    assert found is not None
    assert found.mass == spent
    truth = count * (1 if rate == 1 else _amplified(1, rate))
    assert truth * (1 - 1e-15) <= float(found.epsilon) <= truth * (1 + 1e-14)
    if count <= 3:
        assert accountant.epsilon(one * count, delta=spent) <= truth * (1 + 1e-14)


@pytest.mark.parametrize("ask", [by_contours.epsilon_interval, by_grids.epsilon_interval])
def test_a_delta_that_rounding_hides_is_not_taken_for_more_than_is_spent(
    ask: Callable[..., Interval],
) -> None:
    delta = Fraction(301, 10**7)
    spent = 1 - (1 - delta) ** 300
    found = ask([(Approximate(epsilon=0.1, delta=delta), 300)], delta=spent)
    assert found.lower <= 30 <= found.upper


@pytest.mark.long
def test_different_promises_together() -> None:
    events: list[Event] = [
        Approximate(epsilon=1, delta=1e-6),
        Pure(epsilon=0.5),
        Approximate(epsilon=0, delta=1e-7),
    ]
    spent = 1 - (1 - Fraction(1, 10**6)) * (1 - Fraction(1, 10**7))
    assert accountant.epsilon(events, delta=spent) <= 1.5
    assert accountant.epsilon(events, delta=spent - Fraction(1, 10**30)) == math.inf


def test_a_long_mass_is_rounded_up() -> None:
    found = finite_loss(Approximate(epsilon=1, delta=Fraction(1, 3**80)) * 10**6, AddRemove)
    assert found is not None
    with mpmath.workdps(3000):
        truth = -mpmath.expm1(10**6 * mpmath.log1p(-mpmath.mpf(1) / mpmath.mpf(3) ** 80))
        above = mpmath.mpf(found.mass.numerator) / found.mass.denominator
        assert truth <= above <= truth * (1 + mpmath.mpf(10) ** -2000)


@pytest.mark.long
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 2), Fraction(99, 100)])
def test_one_unit_replaced_in_a_sample(rate: Fraction) -> None:
    event = Approximate(epsilon=1, delta=ONE_IN_A_MILLION).poisson_sampled(rate=rate)
    at = rate * ONE_IN_A_MILLION
    found = accountant.epsilon(event, delta=at, neighbors=ReplaceOne)
    with mpmath.workdps(50):
        q = mpmath.mpf(rate.numerator) / rate.denominator
        truth = float(mpmath.log((1 - q + q * mpmath.e) / (1 - q)))
    assert truth <= found <= truth * (1 + 1e-15)


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_no_three_laws_break_the_promise_of_a_replaced_unit(rate: Fraction) -> None:
    """Random laws with, without and with another unit: the exact excess is at most rate delta."""
    rng = random.Random(5)
    e, delta = Fraction(2), Fraction(1, 20)  # e^epsilon, exactly
    growth = (1 - rate + rate * e) / (1 - rate)
    kept = worst = Fraction(0)
    for _ in range(1000):
        first, none, second = (_law(rng) for _ in range(3))
        pairs = [(first, none), (none, first), (second, none), (none, second)]
        if any(_excess(one, other, e) > delta for one, other in pairs):
            continue
        kept += 1
        with_first = [rate * a + (1 - rate) * b for a, b in zip(first, none, strict=True)]
        with_second = [rate * a + (1 - rate) * b for a, b in zip(second, none, strict=True)]
        worst = max(worst, _excess(with_first, with_second, growth))
    # nearly attained by a law that has an atom of its own
    none, first = [Fraction(1), Fraction(0)], [1 - delta, delta]
    with_first = [rate * a + (1 - rate) * b for a, b in zip(first, none, strict=True)]
    assert _excess(with_first, none, growth) == rate * delta
    assert kept > 30
    assert worst <= rate * delta


def _law(rng: random.Random) -> list[Fraction]:
    weights = [Fraction(rng.choice((0, 0, 1, 9, 10, 11, 19, 20, 21)), 20) + (place == 0)
               for place in range(3)]  # fmt: skip
    return [weight / sum(weights) for weight in weights]


def _excess(p: list[Fraction], q: list[Fraction], growth: Fraction) -> Fraction:
    return sum((max(a - growth * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def test_pure_parts_keep_their_number() -> None:
    event = [Pure(epsilon=Fraction(1, 3)) * 3, RandomizedResponse(epsilon=1, categories=4)]
    assert accountant.epsilon(event, delta=0) == 2.0


@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_a_sample_of_what_only_fails_is_as_bad_as_its_worst_pair(rate: float) -> None:
    delta = 1e-5
    event = Approximate(epsilon=0, delta=delta).poisson_sampled(rate=rate)
    found = accountant.epsilon_interval(event, delta=1.1 * rate * delta, neighbors=ReplaceOne)
    # Two units that take rate * delta each from two outputs of mass delta to outputs of their own:
    # delta(epsilon) = rate * delta + delta * (1 - (1 - rate) e^epsilon).
    exact = math.log((1 - 0.1 * rate) / (1 - rate))
    assert 0.99 * exact <= found.lower <= exact <= found.upper <= exact * (1 + 1e-5)
