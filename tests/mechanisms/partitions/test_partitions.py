"""The optimal choice of keys: its table, its price, its coins."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from tests.mechanisms.divergences import exceeds
from tests.mechanisms.laws import as_mpf

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.partitions.selection import PartitionSelection, thresholds
from unacorda.privacy import events

SETTINGS = [(1.0, 1e-5), (0.1, 1e-3), (3.0, 1e-9), (0.01, 0.05), (12.0, 1e-3), (0.5, 0.6)]
EPSILONS = (0.0, 0.05, 0.5, 1.0, 1.9, 2.0)


def closed_form(epsilon: float, delta: float) -> list[mpf]:
    """Theorem 1 of the source: a growing branch, a second one from n1 on, 1 from n2 on."""
    e, d = as_mpf(Fraction(str(epsilon))), as_mpf(Fraction(str(delta)))
    turn = 1 + int(mp.floor(mp.log((mp.exp(e) + 2 * d - 1) / (d * (mp.exp(e) + 1))) / e))
    at_turn = mp.expm1(turn * e) / mp.expm1(e) * d
    more = int(mp.floor(mp.log(1 + mp.expm1(e) / d * (1 - at_turn)) / e))
    first = [mp.expm1(n * e) / mp.expm1(e) * d for n in range(turn + 1)]
    second = [
        -mp.expm1(-m * e) * (1 + d / mp.expm1(e)) + mp.exp(-m * e) * at_turn
        for m in range(1, more + 1)
    ]
    return [*first, *second, mpf(1)]


def coin(chance: Fraction) -> dict[bool, mpf]:
    return {True: as_mpf(chance), False: as_mpf(1 - chance)}


def product(one: dict[bool, mpf], two: dict[bool, mpf]) -> dict[tuple[bool, bool], mpf]:
    return {(a, b): one[a] * two[b] for a, b in itertools.product(one, two)}


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_the_table_is_the_closed_form_rounded_down(epsilon: float, delta: float) -> None:
    with mp.workprec(400):
        rule, ideal = PartitionSelection(epsilon=epsilon, delta=delta), closed_form(epsilon, delta)
        assert rule.sure_from in (len(ideal) - 1, len(ideal) - 2)
        for count, chance in enumerate(ideal):
            gap = chance - as_mpf(rule.probability(count))
            assert 0 <= gap < mpf(2) ** -80
    assert rule.probability(0) == 0
    assert rule.probability(10**15) == 1


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_each_step_keeps_the_promise_and_uses_it_up(epsilon: float, delta: float) -> None:
    rule = PartitionSelection(epsilon=epsilon, delta=delta)
    with mp.workprec(400):
        growth, d = mp.exp(as_mpf(Fraction(str(epsilon)))), as_mpf(Fraction(str(delta)))
        for count in range(rule.sure_from):
            p, q = as_mpf(rule.probability(count)), as_mpf(rule.probability(count + 1))
            room = [growth * p + d - q, growth * (1 - q) + d - (1 - p)]
            assert q >= p  # so what removal demands of each answer holds as well
            assert min(room) >= 0
            assert q == 1 or min(room) < mpf(2) ** -100


def test_the_event_holds_for_one_and_for_two_keys() -> None:
    with mp.workprec(300):
        one = PartitionSelection(epsilon=1.0, delta=0.01)
        coins = [coin(one.probability(n)) for n in range(one.sure_from + 2)]
        steps = list(itertools.pairwise(coins))
        assert exceeds(one.event, steps, epsilons=EPSILONS) == []
        assert exceeds(events.Approximate(epsilon=1, delta=0.0099), steps, epsilons=EPSILONS)
        two = PartitionSelection(epsilon=2.0, delta=0.02, l0_sensitivity=2)
        assert two.event == one.event * 2
        both = [
            (product(a, b), product(c, d))
            for (a, c), (b, d) in itertools.combinations_with_replacement(steps, 2)
        ]
        assert exceeds(two.event, both, epsilons=EPSILONS) == []
        # The rule of one key used for two: the checker sees it.
        assert exceeds(one.event, both, epsilons=EPSILONS)


def test_wrong_rules_are_caught() -> None:
    epsilon, delta = Fraction(1), Fraction(1, 100)
    with mp.workprec(300):
        event = events.Approximate(epsilon=epsilon, delta=delta)
        rule = PartitionSelection(epsilon=epsilon, delta=delta)
        rounded = [
            coin(Fraction(round(rule.probability(n) * 256), 256)) for n in range(rule.sure_from + 1)
        ]
        assert exceeds(event, list(itertools.pairwise(rounded)), epsilons=EPSILONS)
        growing = [Fraction(0)]  # the first branch alone
        while growing[-1] < 1:
            growing.append(min(growing[-1] * Fraction("2.718") + delta, Fraction(1)))
        steps = list(itertools.pairwise(map(coin, growing)))
        assert exceeds(event, steps, epsilons=EPSILONS)


@pytest.mark.statistical
def test_coins_fall_as_often_as_they_should() -> None:
    rule = PartitionSelection(epsilon=1.0, delta=1e-4)
    size = 200_000
    for count in (5, 8, 9, 10, 13):
        kept = int(rule.release_array(np.full(size, count), bits=SeededBits(count)).sum())
        chance = float(rule.probability(count))
        assert stats.binomtest(kept, size, chance).pvalue > 1e-7
        off = chance * 1.1 if chance < 0.5 else 1 - (1 - chance) * 1.1
        if min(chance, 1 - chance) > 0.03:
            assert stats.binomtest(kept, size, off).pvalue < 1e-7


def test_equal_words_are_decided_by_the_next() -> None:
    rule = PartitionSelection(epsilon=1.0, delta=1e-4)
    high, low = thresholds(Fraction(1), Fraction(1, 10_000))
    first, second = int(high[7]), int(low[7])
    for words, kept in (
        ([first - 1], True),
        ([first + 1], False),
        ([first, second - 1], True),
        ([first, second], False),
    ):
        bits = ScriptedBits(words)
        assert bool(rule.release_array([7], bits=bits)[0]) is kept
        assert bits.left == 0


def test_who_nobody_has_is_never_kept_and_many_always_are() -> None:
    rule = PartitionSelection(epsilon=1.0, delta=1e-4)
    for word in (0, 2**64 - 1):
        bits = ScriptedBits([word] * 8)
        got = rule.release_array(
            np.array([[0, -5, rule.sure_from, 2**62]]), bits=ScriptedBits([word] * 8)
        )
        assert got.tolist() == [[False, False, True, True]]
        assert rule.release_array(np.uint64(2**64 - 1), bits=bits)
    assert rule.release_array([], bits=ScriptedBits([])).shape == (0,)


def test_keys_leave_sorted() -> None:
    rule = PartitionSelection(epsilon=1.0, delta=1e-4)
    many = dict.fromkeys(("b", "c", "a"), 10**30)
    assert rule.release({**many, "d": 0, "e": -1}) == ["a", "b", "c"]
    assert rule.release({(2, "x"): 99, (1, "y"): 99}) == [(1, "y"), (2, "x")]
    mixed: dict[Any, int] = {None: 99, "a": 99, 3: 99}
    other: dict[Any, int] = {3: 99, None: 99, "a": 99}
    assert rule.release(mixed) == rule.release(other)
    assert rule.release({}) == []


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"epsilon": 0, "delta": 0.1}, "epsilon"),
        ({"epsilon": 1, "delta": 0}, "delta"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"epsilon": 1, "delta": 1e-30}, "delta"),
        ({"epsilon": 1e-9, "delta": 1e-9}, "epsilon"),
        ({"epsilon": 1, "delta": 0.1, "l0_sensitivity": 0}, "l0_sensitivity"),
        ({"epsilon": 1, "delta": 0.1, "l0_sensitivity": 1.5}, "l0_sensitivity"),
    ],
)
def test_wrong_numbers_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        PartitionSelection(**fields)


def test_wrong_counts_are_refused_before_a_bit_is_drawn() -> None:
    rule, nothing = PartitionSelection(epsilon=1, delta=0.1), ScriptedBits([])
    wrong: list[Any] = [np.array([1.5]), np.array(["a"]), np.array([1j])]
    for counts in wrong:
        with pytest.raises(InvalidParameter, match="counts"):
            rule.release_array(counts, bits=nothing)
    mappings: list[Any] = [[("a", 1)], 3, "ab"]
    for counts in mappings:
        with pytest.raises(InvalidParameter, match="counts"):
            rule.release(counts, bits=nothing)
