"""The optimal composition of exponential mechanisms, against strategies that are enumerated."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda import accounting
from unacorda.accounting.accountant import quick_epsilon
from unacorda.accounting.profiles.bounded_ranges import bounded_ranges, one_coin
from unacorda.privacy.events import Event, Exponential, Gaussian, Laplace, compose
from unacorda.privacy.neighbors import AddRemove, ReplaceOne


def coin(edge: float, share: float) -> list[tuple[float, float]]:
    """The probability of each loss, of a coin whose loss is at most this share of the range."""
    chance = math.expm1(-(1 - share) * edge) / math.expm1(-edge)
    return [(chance, share * edge), (1 - chance, (share - 1) * edge)]


def ends(edge: float, count: int, epsilon: float) -> tuple[float, float]:
    curve = bounded_ranges(Fraction(edge), count)
    assert curve is not None
    found = curve(np.asarray(epsilon))
    return float(found.lower), float(found.upper)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(
    edge=st.floats(0.01, 3.0),
    shares=st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7),
    at=st.floats(-1.0, 1.0),
)
def test_no_strategy_of_three_steps_exceeds_the_upper_end(
    edge: float, shares: list[float], at: float
) -> None:
    """The second coin depends on the first toss, the third on both."""
    epsilon = at * 3 * edge
    total = 0.0
    for tosses in itertools.product((0, 1), repeat=3):
        node, mass, loss = 0, 1.0, 0.0
        for toss in tosses:
            chance, own = coin(edge, shares[node])[toss]
            mass, loss, node = mass * chance, loss + own, 2 * node + 1 + toss
        total += mass * max(-math.expm1(epsilon - loss), 0.0)
    assert total <= ends(edge, 3, epsilon)[1] * (1 + 1e-9) + 1e-15


def optimum(edge: float, count: int, epsilon: float) -> float:
    """The recursion as it stands, by a search over the coin at every node."""
    if count == 0:
        return max(-math.expm1(epsilon), 0.0)

    def value(share: float) -> float:
        return sum(
            mass * optimum(edge, count - 1, epsilon - loss) for mass, loss in coin(edge, share)
        )

    grid = np.linspace(0.0, 1.0, 40 if count == 1 else 25)
    best = max(range(len(grid)), key=lambda index: value(float(grid[index])))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = scipy.optimize.minimize_scalar(
        lambda share: -value(float(share)), bounds=(low, high), method="bounded"
    )
    return max(-float(found.fun), value(float(grid[best])))


@pytest.mark.parametrize(("edge", "epsilon"), [(0.5, 0.3), (0.5, 0.9), (2.0, 1.0), (2.0, 3.0)])
def test_two_steps_by_a_search(edge: float, epsilon: float) -> None:
    lower, upper = ends(edge, 2, epsilon)
    best = optimum(edge, 2, epsilon)
    assert best <= upper * (1 + 1e-9)
    assert lower <= best * (1 + 1e-4)
    assert upper - lower <= 0.01 * best + 1e-4 * edge


@pytest.mark.parametrize("count", [2, 16, pytest.param(64, marks=pytest.mark.long)])
def test_the_ends_hold_the_best_coin_and_are_near(count: int) -> None:
    edge = 0.3
    hits = np.arange(count + 1)
    for delta in (1e-3, 1e-6):
        low, high = (_inverse(edge, count, delta, end) for end in (0, 1))
        assert high <= 1.002 * low
        found = []
        for share in np.linspace(0.3, 0.99, 70):
            chance = coin(edge, float(share))[0][0]
            losses = (hits - count * (1 - share)) * edge
            masses = scipy.stats.binom.pmf(hits, count, chance)
            own = float(masses @ np.maximum(-np.expm1(low - losses), 0.0))
            found.append(own / delta)
        assert 0.7 < max(found) <= 1.02  # one coin is nearly optimal, and no better


def _inverse(edge: float, count: int, delta: float, end: int) -> float:
    return float(
        scipy.optimize.brentq(
            lambda x: ends(edge, count, x)[end] - delta, 0.0, count * edge, xtol=1e-9
        )
    )


def test_one_coin_is_of_bounded_range() -> None:
    edge = Fraction(7, 10)
    curve = one_coin(edge, 20)
    finite = [x for x in np.linspace(-0.7, 0.7, 1401) if float(curve(np.asarray(x)).upper) > 0]
    assert max(finite) < 0.7
    assert float(curve(np.asarray(-0.7)).lower) == pytest.approx(-math.expm1(-0.7), rel=1e-9)


@pytest.mark.long
def test_other_mechanisms_and_ranges_compose_with_it() -> None:
    event = (
        Exponential(epsilon=0.2) * 70 + Exponential(epsilon=0.5) * 3 + Gaussian(noise_multiplier=3)
    )
    for neighbors in (AddRemove, ReplaceOne):
        found = accounting.epsilon_interval(event, delta=1e-6, neighbors=neighbors)
        assert found.upper <= 1.08 * found.lower


def test_ranges_beyond_floats_are_refused() -> None:
    assert bounded_ranges(Fraction(100), 7) is None
    assert bounded_ranges(Fraction(1, 10**150), 2) is None
    found = accounting.epsilon_interval(Exponential(epsilon=100) * 7, delta=1e-6)
    assert 300 < found.lower <= found.upper <= 700


@in_subtests(("edge", "count"), [("0.5", 2), ("1", 4), ("0.1", 10), ("0.05", 50)])
def test_what_a_search_takes_is_above_and_near(edge: str, count: int) -> None:
    several = Exponential(epsilon=float(edge)) * count
    true = accounting.epsilon_interval(several, delta=1e-6)
    assert true.lower <= quick_epsilon(several, delta=1e-6) <= true.upper * 1.005


@pytest.mark.long
@in_subtests(
    "more",
    [
        (Laplace(noise_multiplier=10.0),),
        (Gaussian(noise_multiplier=8.0),),
        tuple(Exponential(epsilon=0.01 * k) for k in range(1, 6)),
    ],
)
def test_of_several_kinds_a_search_is_above_and_near(more: tuple[Event, ...]) -> None:
    several = compose([Exponential(epsilon=0.1) * 5, *more])
    true = accounting.epsilon_interval(several, delta=1e-6)
    assert true.lower <= quick_epsilon(several, delta=1e-6) <= true.upper * 1.02
