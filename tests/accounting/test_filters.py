"""Filters: exact sums, never over the limit, in a few microseconds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.accounting.filters import Filter
from unacorda.errors import WrongUnit
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.rounding import grid_up

LIMITS: list[Guarantee] = [
    PureDP(1),
    ApproxDP(1, 1e-6),
    ZCDP(0.5, 1e-8),
    GDP(1, 1e-8),
    RenyiDP(8, 0.3),
]


@in_subtests("limit", LIMITS)
@in_subtests("parts", [1, 3, 10, 49])
def test_equal_parts_use_up_the_limit_exactly(limit: Guarantee, parts: int) -> None:
    account, share = Filter(limit), limit / parts
    for _ in range(parts):
        assert account.admits(share)
        account = account.spend(share)
    assert account.spent == limit
    assert not any(account.remaining.additive)
    assert not account.admits(limit * "1e-30")
    assert account.admits(limit * 0)


def test_each_number_has_its_own_limit() -> None:
    account = Filter(ApproxDP(1, 1e-6))
    assert account.admits(ApproxDP(1, 0))
    assert account.admits(ApproxDP(0, 1e-6))
    assert not account.admits(ApproxDP(0, 2e-6))
    assert not account.admits(ApproxDP(2, 0))
    assert account.spend(ApproxDP(0.25, 0)).remaining == ApproxDP(0.75, 1e-6)


def test_gdp_adds_squares() -> None:
    account = Filter(GDP(5)).spend(GDP(3))
    assert account.admits(GDP(4))
    assert not account.admits(GDP("4.0000001"))
    assert account.remaining == GDP(4)


def test_spending_leaves_the_old_value_alone() -> None:
    before = Filter(PureDP(1))
    after = before.spend(PureDP("1/3"))
    assert before.spent == PureDP(0)
    assert after.spent == PureDP("1/3")


def test_a_sum_over_the_limit_is_reported_as_it_is() -> None:
    account = Filter(ApproxDP(1, 0.5)).spend(ApproxDP(3, 0))
    assert account.spent == ApproxDP(3, 0)
    assert account.remaining == ApproxDP(0, 0.5)
    assert not account.admits(ApproxDP(0, 0))


@pytest.mark.parametrize("cost", [ZCDP(0.1), PureDP(0.1), RenyiDP(4, 0.1)])
def test_another_unit_is_refused(cost: Guarantee) -> None:
    account = Filter(RenyiDP(8, 1))
    with pytest.raises(WrongUnit):
        account.admits(cost)
    with pytest.raises(WrongUnit):
        account.spend(cost)


COSTS = st.lists(st.fractions(min_value=0, max_value=Fraction(1, 2)), max_size=20)


@pytest.mark.long
@given(COSTS)
def test_the_filter_is_the_plain_sum_of_fractions(costs: list[Fraction]) -> None:
    account, total = Filter(PureDP(2)), Fraction(0)
    for epsilon in costs:
        admitted = account.admits(PureDP(epsilon))
        assert admitted == (total + epsilon <= 2)
        if admitted:
            account, total = account.spend(PureDP(epsilon)), total + epsilon
        assert account.spent == PureDP(total)
        assert account.remaining == PureDP(2 - total)


def test_a_decision_takes_microseconds_however_long_the_history() -> None:
    """The bound is 20 times what an idle machine needs, so that a busy one passes."""
    account: Any = Filter(ZCDP(100, 1e-6))
    costs = [ZCDP(grid_up(Fraction(1, 3 * k)), Fraction(k, 10**15)) for k in range(1, 51)]
    for cost in costs * 40:
        account = account.spend(cost)
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        for cost in costs:
            account.admits(cost)
            account.spend(cost)
        best = min(best, (time.perf_counter() - start) / len(costs))
    assert best < 200e-6
