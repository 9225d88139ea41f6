"""The best of all adversaries, by dynamic programming: not one of them passes a filter's limit."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest

from unacorda.accounting.filters import ApproximateFilter, Filter, RenyiFilter
from unacorda.privacy import conversions
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP

TENTHS = (1, 2, 4, 8)
"""Epsilons of the randomised responses she may ask, in tenths."""

Counts = tuple[int, ...]


def best_delta(start: Any, price: Callable[[float], Guarantee], *, epsilon: float) -> float:
    """The largest delta(epsilon) that any choice of questions and stopping reaches, exactly.

    The hockey-stick divergence is the mean of max(0, 1 - e^(epsilon - loss)) under P; what is
    yet to come depends on the questions asked so far, by count, and on the loss.
    """

    @functools.cache
    def account(counts: Counts) -> Any:
        if not any(counts):
            return start
        last = next(place for place, count in enumerate(counts) if count)
        before = tuple(count - (place == last) for place, count in enumerate(counts))
        return account(before).spend(price(TENTHS[last] / 10))

    @functools.cache
    def allowed(counts: Counts) -> tuple[int, ...]:
        held = account(counts)
        return tuple(
            place for place, tenths in enumerate(TENTHS) if held.admits(price(tenths / 10))
        )

    @functools.cache
    def value(counts: Counts, loss: int) -> float:
        found = max(0.0, 1 - math.exp(epsilon - loss / 10))
        for place in allowed(counts):
            after = tuple(count + (at == place) for at, count in enumerate(counts))
            step = TENTHS[place]
            high = 1 / (1 + math.exp(-step / 10))
            found = max(
                found, high * value(after, loss + step) + (1 - high) * value(after, loss - step)
            )
        return found

    return value((0,) * len(TENTHS), 0)


@pytest.mark.long
def test_against_zcdp() -> None:
    for epsilon in (0.2, 0.6, 1.0):
        reached = best_delta(
            Filter(ZCDP("0.09")),
            lambda x: ZCDP(conversions.zcdp_from_pure(x)),
            epsilon=epsilon,
        )
        allowed = conversions.approx_dp_delta_from_zcdp(0.09, epsilon=epsilon)
        assert allowed / 8 < reached <= allowed


def test_against_gdp() -> None:
    for epsilon in (0.0, 0.2, 0.6, 1.0):
        reached = best_delta(
            Filter(GDP("0.5")), lambda x: GDP(conversions.gdp_from_pure(x)), epsilon=epsilon
        )
        allowed = conversions.approx_dp_delta_from_gdp(0.5, epsilon=epsilon)
        assert allowed / 10 < reached <= allowed + 1e-15


@pytest.mark.parametrize("limit", [ApproxDP(0.6, 0.05), ApproxDP(1, 0.01)])
def test_against_squares_or_plain_sum(limit: ApproxDP) -> None:
    start = ApproximateFilter(limit, slack=limit.delta)
    reached = best_delta(start, PureDP, epsilon=float(limit.epsilon))
    assert limit.delta / 20 < reached <= limit.delta


def test_against_the_grid_of_orders() -> None:
    limit = ApproxDP(0.6, 0.05)
    start = RenyiFilter(limit, orders=(3, 6, 12, 24))
    reached = best_delta(start, PureDP, epsilon=0.6)
    assert limit.delta / 100 < reached <= limit.delta


def test_the_search_finds_what_convolving_as_one_goes_would_allow() -> None:
    """The search has teeth: a filter that convolves what was asked passes its own limit."""

    class Convolving:
        def __init__(self, asked: tuple[int, ...] = ()) -> None:
            self.asked = asked

        def admits(self, cost: PureDP) -> bool:
            return _delta_of((*self.asked, round(10 * float(cost.epsilon))), 0.6) <= 0.02

        def spend(self, cost: PureDP) -> Convolving:
            return Convolving((*self.asked, round(10 * float(cost.epsilon))))

    assert best_delta(Convolving(), PureDP, epsilon=0.6) > 0.02


def _delta_of(asked: tuple[int, ...], epsilon: float) -> float:
    law = {0: 1.0}
    for step in asked:
        high, after = 1 / (1 + math.exp(-step / 10)), dict[int, float]()
        for loss, mass in law.items():
            after[loss + step] = after.get(loss + step, 0.0) + high * mass
            after[loss - step] = after.get(loss - step, 0.0) + (1 - high) * mass
        law = after
    return math.fsum(
        mass * max(0.0, 1 - math.exp(epsilon - loss / 10)) for loss, mass in law.items()
    )
