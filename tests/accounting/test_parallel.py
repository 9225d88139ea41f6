"""Parallel composition: the running sum of the largest, and what one person can really lose."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unacorda.accounting.parallel import ParallelComposition, pair_price
from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

SPENDS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.fractions(min_value=0, max_value=3, max_denominator=12),
        st.fractions(min_value=0, max_value=Fraction(1, 500), max_denominator=10**6),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(SPENDS, st.integers(1, 4))
def test_owed_is_the_sum_of_the_largest_in_each_number(
    spends: list[tuple[int, Fraction, Fraction]], max_parts: int
) -> None:
    split = ParallelComposition(ApproxDP(0, 0), max_parts=max_parts)
    plain: dict[int, list[Fraction]] = {}
    for part, epsilon, delta in spends:
        before = split.owed
        foretold = split.increase(part, ApproxDP(epsilon, delta))
        assert split.owed == before
        assert split.spend(part, ApproxDP(epsilon, delta)) == foretold
        sums = plain.setdefault(part, [Fraction(0), Fraction(0)])
        sums[0] += epsilon
        sums[1] += delta
        largest = [
            sum(sorted((each[place] for each in plain.values()), reverse=True)[:max_parts])
            for place in (0, 1)
        ]
        assert split.owed == before + foretold == ApproxDP(*largest)
        assert split.spent(part) == ApproxDP(*sums)
    assert split.spent("unknown") == ApproxDP(0, 0)


@pytest.mark.parametrize(
    ("cost", "pair"),
    [
        (PureDP("1/3"), PureDP("2/3")),
        (ZCDP("1/3"), ZCDP("4/3")),
        (GDP(3), GDP(6)),
        (ApproxDP("1/3", 0), ApproxDP("2/3", 0)),
        (ApproxDP(5000, "1/4"), ApproxDP(10000, 1)),
    ],
)
def test_the_price_of_a_pair(cost: Guarantee, pair: Guarantee) -> None:
    assert pair_price(cost) == pair
    split = ParallelComposition(cost * 0, neighbors=ReplaceOne)
    assert split.spend("A", cost) == pair
    for neighbors in (AddRemove, ZeroOut):
        assert ParallelComposition(cost * 0, neighbors=neighbors).spend("A", cost) == cost


def test_the_delta_of_a_pair_is_rounded_up() -> None:
    pair = pair_price(ApproxDP(1, 1e-6))
    assert isinstance(pair, ApproxDP)
    assert 0 <= pair.delta - (1 + Fraction(math.e)) / 10**6 < Fraction(1, 10**20)


@pytest.mark.parametrize("cost", [ZCDP(1, 1e-9), GDP(1, 1e-9), RenyiDP(2, 1)])
def test_kinds_without_a_price_of_a_pair_are_refused(cost: Guarantee) -> None:
    with pytest.raises(InvalidParameter):
        pair_price(cost)
    split = ParallelComposition(cost * 0)
    assert split.spend("A", cost) == cost
    if isinstance(cost, RenyiDP):
        with pytest.raises(InvalidParameter):
            ParallelComposition(cost * 0, neighbors=ReplaceOne)


def test_bad_arguments_are_refused() -> None:
    for max_parts in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter):
            ParallelComposition(PureDP(0), max_parts=max_parts)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        ParallelComposition(1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        ParallelComposition(PureDP(0), neighbors="replace")  # type: ignore[arg-type]
    with pytest.raises(WrongUnit):
        ParallelComposition(PureDP(0)).spend("A", ZCDP(1))


@pytest.mark.long
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.booleans()), max_size=40),
    st.integers(1, 4),
    st.sampled_from([AddRemove, ReplaceOne]),
)
def test_what_is_withdrawn_was_never_spent(
    steps: list[tuple[int, int, bool]], max_parts: int, neighbors: Neighbors
) -> None:
    """After any order of spends and withdrawals all is as after the spends that stand."""
    split = ParallelComposition(PureDP(0), max_parts=max_parts, neighbors=neighbors)
    standing: list[tuple[int, PureDP]] = []
    for part, number, back in steps:
        if back and standing:
            key, cost = standing.pop(number % len(standing))
            owed, fall = split.owed, split.decrease(key, cost)
            assert split.owed == owed
            assert split.withdraw(key, cost) == fall == owed - split.owed
        else:
            cost = PureDP(number)
            split.spend(part, cost)
            standing.append((part, cost))
        again = ParallelComposition(PureDP(0), max_parts=max_parts, neighbors=neighbors)
        for key, cost in standing:
            again.spend(key, cost)
        assert split.owed == again.owed
        assert [split.spent(key) for key in range(5)] == [again.spent(key) for key in range(5)]
        for key in range(5):
            assert split.increase(key, PureDP(3)) == again.increase(key, PureDP(3))


def _losses(move: tuple[set[int], set[int]], seed: int, max_parts: int) -> tuple[float, float]:
    """The largest true loss of one unit in an interleaved, adaptive game, and what was owed.

    Each question is randomised response about one part, whose answer leans by +1 for a unit that
    comes, -1 for one that goes, and not at all where she is not; who holds a part before and
    after is moved from one extreme to the other. `move`: her parts under either neighbor.
    """
    before, after = move
    both = before & after
    neighbors = AddRemove if not before or not after else ReplaceOne
    worst, owed = 0.0, 0.0

    def course(
        depth: int, history: tuple[int, ...], loss: float, done: list[tuple[int, int]]
    ) -> None:
        nonlocal worst, owed
        if depth == 0:
            split = ParallelComposition(PureDP(0), max_parts=max_parts, neighbors=neighbors)
            for part, tenths in done:
                split.spend(part, PureDP(Fraction(tenths, 10)))
            (sum_owed,) = split.owed.additive
            worst, owed = max(worst, abs(loss) - float(sum_owed)), max(owed, float(sum_owed))
            return
        coin = random.Random(f"{seed}{history}")
        part, tenths = coin.randrange(4), coin.randrange(1, 9)
        epsilon = tenths / 10
        factor = 2 if part in both else (part in before or part in after)
        for outcome in (0, 1):
            sign = 1 if outcome == 0 else -1
            course(
                depth - 1,
                (*history, outcome),
                loss + sign * factor * epsilon,
                [*done, (part, tenths)],
            )

    course(8, (), 0.0, [])
    return worst, owed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_no_unit_loses_more_than_the_parent_owes(seed: int) -> None:
    """All 2^8 courses of games whose part and price depend on all answers before."""
    for max_parts in (1, 2):
        chosen = [set(parts) for parts in itertools.combinations(range(4), max_parts)]
        for before in chosen:
            excess, owed = _losses((before, set()), seed, max_parts)
            assert excess <= 1e-12 < owed
            for after in chosen[:3]:
                excess, owed = _losses((before, after), seed, max_parts)
                assert excess <= 1e-12 < owed


@pytest.mark.long
def test_a_spend_takes_microseconds_however_many_parts() -> None:
    """Bounds are 30 times what an idle machine needs, so that a busy one passes."""
    coin = random.Random(1)
    split = ParallelComposition(ZCDP(0), max_parts=100)
    costs = [ZCDP(Fraction(k, 1000)) for k in range(1, 50)]
    for part in range(20_000):
        split.spend(part, costs[part % 49])
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        for cost in costs:
            split.spend(coin.randrange(20_000), cost)
        best = min(best, (time.perf_counter() - start) / len(costs))
    assert best < 600e-6
