"""Individual filters: nobody loses more than her limit, and integers do not drift."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unacorda.accounting.individual import IndividualFilter, gaussian_costs
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import Gaussian
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

COSTS = st.lists(
    st.lists(st.floats(0, 2, allow_nan=False), min_size=4, max_size=4), min_size=1, max_size=30
)


@pytest.mark.long
@given(COSTS, st.sampled_from(["1", "0.3", "1e-300", "7e200", "1/3"]))
def test_sums_are_exact_up_to_the_unit(steps: list[list[float]], limit: str) -> None:
    budget = Fraction(limit)
    account = IndividualFilter(limit=ZCDP(limit), people=4)
    sums = [Fraction(0)] * 4
    for step in steps:
        scaled = [float(Fraction(cost) * budget / 5) for cost in step]
        active, account = account.charge(scaled)
        for person, cost in enumerate(scaled):
            after = sums[person] + Fraction(cost)
            if active[person]:
                sums[person] = after
            else:
                assert after > budget * (1 - Fraction(40, 2**51))  # refused only at the edge
        left = account.remaining
        for person in range(4):
            assert sums[person] + Fraction(float(left[person])) <= budget
            assert sums[person] + Fraction(float(left[person])) >= budget * (
                1 - Fraction(40, 2**51)
            )


def test_whoever_does_not_fit_sits_out_and_may_come_back() -> None:
    account = IndividualFilter(limit=ZCDP(1), people=3)
    active, account = account.charge([0.75, 1.0, 1.5])
    assert active.tolist() == [True, True, False]
    active, account = account.charge([0.5, 0.0, 0.5])
    assert active.tolist() == [False, True, True]
    active, account = account.charge(0.25)
    assert active.tolist() == [True, False, True]
    assert account.remaining.tolist() == [0.0, 0.0, 0.25]


def test_spending_what_remains_always_fits() -> None:
    account = IndividualFilter(limit=ZCDP("0.1"), people=5)
    for cost in (1e-3, 3e-5, 0.0, 7e-9):
        _, account = account.charge(cost)
    active, account = account.charge(account.remaining)
    assert active.all()
    assert not account.remaining.any()
    active, _ = account.charge(5e-324)
    assert not active.any()


def test_infinite_and_huge_costs_never_take_part() -> None:
    account = IndividualFilter(limit=PureDP(1), people=3)
    active, after = account.charge([math.inf, 1e308, 0.5])
    assert active.tolist() == [False, False, True]
    assert after.remaining.tolist() == [1.0, 1.0, 0.5]
    active, _ = IndividualFilter(limit=PureDP(0), people=2).charge([0.0, 5e-324])
    assert active.tolist() == [True, False]
    whole = np.array([2**60 + 1, 0, 1], dtype=np.int64)
    active, _ = IndividualFilter(limit=PureDP(2**60), people=3).charge(whole)
    assert active.tolist() == [False, True, True]


def test_the_old_filter_stays_as_it_was_and_shows_no_data() -> None:
    before = IndividualFilter(limit=ZCDP(1), people=2)
    _, after = before.charge([0.25, 0.5])
    assert before.remaining.tolist() == [1.0, 1.0]
    assert repr(after) == repr(before)
    with pytest.raises(InvalidParameter) as refusal:
        after.charge([0.123456, 0.123456, 0.123456])
    assert "123456" not in str(refusal.value)


@pytest.mark.parametrize(
    "costs",
    [[1.0], [0.1, 0.2, 0.3], [[0.1, 0.2]], np.array(["a", "b"]), np.array([1j, 0])],
)
def test_costs_of_a_wrong_shape_or_kind_are_refused(costs: Any) -> None:
    with pytest.raises(InvalidParameter):
        IndividualFilter(limit=ZCDP(1), people=2).charge(costs)


@pytest.mark.parametrize(
    "hostile", [math.nan, -1e-300, "a", None, 1j, 2**64, 10**400, [0.1], Fraction(-1, 3)]
)
def test_one_cost_decides_nothing_about_the_others(hostile: Any) -> None:
    costs: Any = [Fraction(1, 3), 2**53 + 1, hostile, 0.25]
    plain: Any = [Fraction(1, 3), 2**53 + 1, 0.125, 0.25]
    account = IndividualFilter(limit=ZCDP(2**60), people=4)
    (active, after), (_, before) = account.charge(costs), account.charge(plain)
    others = [0, 1, 3]
    assert after.remaining[others].tolist() == before.remaining[others].tolist()
    assert not active[2]
    rho, expected = gaussian_costs(costs, sigma=1.0), gaussian_costs(plain, sigma=1.0)
    assert rho[others].tolist() == expected[others].tolist()
    assert rho[2] > 1e30


@pytest.mark.parametrize("limit", [ApproxDP(1, 0.1), ZCDP(1, 0.1), GDP(1, 0.1)])
def test_limits_with_a_delta_are_refused(limit: Guarantee) -> None:
    with pytest.raises(InvalidParameter):
        IndividualFilter(limit=limit, people=2)
    with pytest.raises(InvalidParameter):
        IndividualFilter(limit=ZCDP(1), people=0)
    with pytest.raises(UnsupportedEvent):
        IndividualFilter(limit=Gaussian(noise_multiplier=1), people=2)  # type: ignore[arg-type]


def test_a_pair_pays_for_both() -> None:
    account = IndividualFilter(limit=ZCDP("0.25"), people=1)
    assert account.guarantee(neighbors=AddRemove) == ZCDP("0.25")
    assert account.guarantee(neighbors=ReplaceOne) == ZCDP(1)
    with pytest.raises(InvalidParameter):
        IndividualFilter(limit=RenyiDP(2, 1), people=1).guarantee(neighbors=ReplaceOne)


@pytest.mark.parametrize("seed", range(4))
def test_no_person_changes_the_law_of_the_answers_by_more_than_her_limit(seed: int) -> None:
    """Exact: sums of bits under symmetric noise, with and without each person, all courses.

    The answer is the sign of sum of active values plus logistic noise: the log odds of a person
    moving the sum by v are at most |v|, so epsilon is |v|. Costs follow her own value, which
    the analyst scales anew after each answer.
    """
    coin = random.Random(seed)
    values = np.array([coin.uniform(-1, 1) for _ in range(4)])
    limit = Fraction(9, 10)

    def laws(people: list[int]) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}

        def course(history: tuple[int, ...], mass: float, account: IndividualFilter) -> None:
            if len(history) == 7:
                found[history] = mass
                return
            scale = random.Random(f"{seed}{history}").uniform(0, 1.5)
            reach = np.abs(values[people]) * scale * (1 + 1e-12)
            active, after = account.charge(reach)
            total = float(np.sum(values[people][active]) * scale)
            high = 1 / (1 + math.exp(-total))
            course((*history, 1), mass * high, after)
            course((*history, 0), mass * (1 - high), after)

        course((), 1.0, IndividualFilter(limit=PureDP(limit), people=len(people)))
        return found

    everybody = laws([0, 1, 2, 3])
    assert math.isclose(sum(everybody.values()), 1)
    largest = 0.0
    for person in range(4):
        without = laws([other for other in range(4) if other != person])
        loss = max(abs(math.log(everybody[path] / without[path])) for path in everybody)
        assert loss <= limit + 1e-9
        largest = max(largest, loss)
    assert largest > 0.4


def test_gaussian_costs_are_upper_bounds() -> None:
    norms = np.array([0.0, 1e-200, 1e-160, 0.1, 1.0, 3.0, 1e150, 1e200])
    for sigma in (0.3, 1.0, 7e5):
        found = gaussian_costs(norms, sigma=sigma)
        for norm, rho in zip(norms.tolist(), found.tolist(), strict=True):
            exact = Fraction(norm) ** 2 / (2 * Fraction(sigma) ** 2)
            assert rho == math.inf or Fraction(rho) >= exact
            if 1e-150 < rho < math.inf:
                assert Fraction(rho) <= exact * (1 + Fraction(1, 2**48))
    assert gaussian_costs(0.0, sigma=1.0) == 0
    assert gaussian_costs([-1.0, math.nan], sigma=1.0).tolist() == [math.inf, math.inf]
    with pytest.raises(InvalidParameter):
        gaussian_costs([1.0], sigma=0.0)


@pytest.mark.long
def test_a_million_people_take_milliseconds() -> None:
    account = IndividualFilter(limit=ZCDP(1), people=1_000_000)
    costs = np.random.default_rng(1).random(1_000_000) / 3
    total = np.zeros(1_000_000)
    for _ in range(5):
        active, account = account.charge(costs)
        total += np.where(active, costs, 0)
    assert total.max() <= 1
    assert total.min() >= 2 / 3 - 1e-12 or total.min() >= 5 * costs.min()
