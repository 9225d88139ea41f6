"""Optimal composition of different mechanisms against enumeration in long arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.accounting.by_grids import delta_interval, epsilon_interval
from tests.tiers import mostly_slow

from unacorda.accounting.rules.base import rules_of
from unacorda.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Pure,
    RandomizedResponse,
)

mp = mpmath.MPContext()
mp.dps = 50


def exact(value: Any) -> Any:
    """A float means the decimal that it prints as."""
    return (
        mp.mpf(str(value))
        if not isinstance(value, Fraction)
        else mp.mpf(value.numerator) / (value.denominator)
    )


def murtagh_vadhan(pairs: Sequence[tuple[Any, Any]], epsilon: Any) -> Any:
    """Theorem 1.5 of Murtagh and Vadhan 2016, literally: a sum over all subsets."""
    losses = [exact(e) for e, _ in pairs]
    whole = mp.fsum(losses)
    total = mp.mpf(0)
    for chosen in itertools.product((0, 1), repeat=len(losses)):
        inside = mp.fsum(e for e, one in zip(losses, chosen, strict=True) if one)
        total += max(mp.exp(inside) - mp.exp(epsilon + whole - inside), mp.mpf(0))
    total /= mp.fprod(1 + mp.exp(e) for e in losses)
    return 1 - (1 - total) * mp.fprod(1 - exact(d) for _, d in pairs)


def by_joint_law(events: Sequence[tuple[Event, int]], epsilon: Any) -> Any:
    """Delta from the output probabilities themselves, outcome by outcome."""
    pairs: list[list[tuple[Any, Any]]] = []
    for event, count in events:
        match event:
            case RandomizedResponse(epsilon=e, categories=k):
                odds = mp.exp(exact(e))
                p = [odds, 1] + [1] * (k - 2)
                q = [1, odds] + [1] * (k - 2)
            case DiscreteLaplace(scale=scale):
                # outcomes up to 0 and from 1 on have constant ratios
                tail = mp.exp(-1 / exact(scale))
                p, q = [1, tail], [tail, 1]
            case Pure(epsilon=e):
                p, q = [mp.exp(exact(e)), 1], [1, mp.exp(exact(e))]
            case _:
                raise AssertionError(event)
        total = mp.fsum(p)
        pairs += [[(a / total, b / total) for a, b in zip(p, q, strict=True)]] * count
    delta = mp.mpf(0)
    for outcome in itertools.product(*pairs):
        p = mp.fprod(one[0] for one in outcome)
        q = mp.fprod(one[1] for one in outcome)
        delta += max(p - mp.exp(epsilon) * q, mp.mpf(0))
    return delta


def hold(composition: Sequence[tuple[Event, int]], truth: Any, *, wide: float = 1e-5) -> None:
    """Delta at some epsilons and epsilon at some deltas hold what `truth` says of them."""
    promised: Any = [(rules_of(event).approximate(event), n) for event, n in composition]
    largest = sum(float(epsilon) * n for (epsilon, _), n in promised)
    for share in (0.0, 0.1, 0.37, 0.71, 0.96):
        at = Fraction(largest) * Fraction(str(share))
        found = delta_interval(composition, epsilon=at)
        value = truth(exact(at))
        slack = mp.mpf(10) ** -40
        assert found.lower <= value + slack
        assert value - slack <= found.upper
        assert found.width <= wide * found.upper
    for delta in ("0.2", "1e-3", "1e-6"):
        place = epsilon_interval(composition, delta=Fraction(delta))
        assert truth(mp.mpf(place.upper)) <= mp.mpf(delta) * (1 + mp.mpf(10) ** -30)
        if place.lower > 0:
            assert truth(mp.mpf(place.lower)) >= mp.mpf(delta) * (1 - mp.mpf(10) ** -30)
        assert place.width <= wide * place.upper


@pytest.mark.parametrize(
    "pairs",
    mostly_slow(
        [
            [("0.1", 0), ("0.2", 0), ("0.3", "1e-9"), ("0.5", 0)],
            [("1", 0), ("0.123456789", "1e-7"), ("2.71828", 0), ("0.5", "1e-10"), ("0.5", 0)],
            [
                (f"0.{digits}", 0)
                for digits in ("31", "7", "5123", "44", "9", "12", "8888", "61", "2")
            ],
            [("7", 0), ("0.001", 0), ("3", 0)],
        ],
        quick=2,
    ),
)
def test_different_pairs_hold_the_published_sum(pairs: list[tuple[str, str]]) -> None:
    events: list[tuple[Event, int]] = [
        (Approximate(epsilon=Fraction(e), delta=Fraction(d)), 1) for e, d in pairs
    ]
    hold(events, lambda at: murtagh_vadhan(pairs, at))


@pytest.mark.long
@pytest.mark.parametrize(
    "events",
    mostly_slow(
        [
            [(RandomizedResponse(epsilon=1.0, categories=3), 4), (Pure(epsilon=0.5), 3)],
            [
                (RandomizedResponse(epsilon=2.0, categories=7), 3),
                (DiscreteLaplace(scale=3, sensitivity=1), 3),
            ],
            [
                (DiscreteLaplace(scale=0.7, sensitivity=1.5), 2),
                (RandomizedResponse(epsilon=0.3, categories=4), 3),
            ],
        ]
    ),
    ids=["response and pure", "response and integers", "no lattice"],
)
def test_three_losses_hold_the_joint_law(events: list[tuple[Event, int]]) -> None:
    hold(events, lambda at: by_joint_law(events, at))


@pytest.mark.long
def test_equal_responses_are_a_trinomial() -> None:
    e, k, count = mp.mpf(1), 5, 60
    low = mp.exp(-e)
    whole = 1 + (k - 1) * low
    p, r, s = 1 / whole, (k - 2) * low / whole, low / whole

    def truth(at: Any) -> Any:
        total = mp.mpf(0)
        for up in range(count + 1):
            for down in range(min(up, count - up) + 1):
                loss = (up - down) * e
                if loss > at:
                    ways = mp.binomial(count, up) * mp.binomial(count - up, down)
                    mass = ways * p**up * s**down * r ** (count - up - down)
                    total += mass * (1 - mp.exp(at - loss))
        return total

    hold([(RandomizedResponse(epsilon=1, categories=k), count)], truth)


@pytest.mark.long
def test_thirty_six_different_mechanisms() -> None:
    """Two halves of 2^18 sums against the accountant's other engines, and against more of them."""
    draw = random.Random(9)
    losses = [draw.uniform(0.01, 0.4) for _ in range(36)]
    events: list[tuple[Event, int]] = [(Pure(epsilon=loss), 1) for loss in losses]
    found = epsilon_interval(events, delta=1e-6)
    assert found.width <= 1e-5 * found.upper
    less = epsilon_interval(events[1:], delta=1e-6)
    assert less.upper <= found.upper
    rounded: list[tuple[Event, int]] = [
        (Pure(epsilon=Fraction(math.ceil(loss * 1000), 1000)), 1) for loss in losses
    ]
    above = epsilon_interval(rounded, delta=1e-6)
    assert found.lower <= above.upper
    assert above.upper <= found.upper + 0.036


@pytest.mark.slow
def test_too_many_sums_keep_a_valid_bound() -> None:
    draw = random.Random(2)
    losses = [draw.uniform(0.01, 0.2) for _ in range(60)]
    events: list[tuple[Event, int]] = [(Pure(epsilon=loss), 1) for loss in losses]
    found = epsilon_interval(events, delta=1e-6)
    coarse: list[tuple[Event, int]] = [
        (Pure(epsilon=Fraction(math.floor(loss * 1000), 1000)), 1) for loss in losses
    ]
    assert epsilon_interval(coarse, delta=1e-6).lower <= found.upper
    at = delta_interval(events, epsilon=2.0)
    assert delta_interval(coarse, epsilon=2.0).lower <= at.upper


def test_losses_that_are_infinite() -> None:
    events: list[tuple[Event, int]] = [(Approximate(epsilon=0.1, delta=1e-9), 100)]
    infinite = 1 - (1 - mp.mpf("1e-9")) ** 100
    found = delta_interval(events, epsilon=10)
    assert found.lower <= infinite <= found.upper
    assert found.width < 1e-12 * found.upper
    assert epsilon_interval(events, delta=9.9e-8).upper == math.inf
    assert epsilon_interval(events, delta=1e-7).upper <= 10.0
    certain = delta_interval([(Approximate(epsilon=1, delta=1), 2)], epsilon=0)
    assert certain.upper == 1.0
    assert certain.lower > 1 - 1e-13


numbers = st.fractions(Fraction(1, 1000), 3, max_denominator=1000)


@pytest.mark.slow
@given(
    epsilons=st.lists(numbers, min_size=1, max_size=6),
    extra=numbers,
    delta=st.sampled_from(["1e-9", "1e-4", "0.1"]),
    at=st.fractions(0, 5),
)
def test_more_mechanisms_cost_no_less(
    epsilons: list[Fraction], extra: Fraction, delta: str, at: Fraction
) -> None:
    events: list[tuple[Event, int]] = [(Pure(epsilon=e), 1) for e in epsilons]
    more: list[tuple[Event, int]] = [*events, (RandomizedResponse(epsilon=extra, categories=3), 1)]
    assert epsilon_interval(events, delta=delta).lower <= epsilon_interval(more, delta=delta).upper
    assert delta_interval(events, epsilon=at).lower <= delta_interval(more, epsilon=at).upper
    looser = epsilon_interval(events, delta=Fraction(delta) * 2)
    assert looser.lower <= epsilon_interval(events, delta=delta).upper
