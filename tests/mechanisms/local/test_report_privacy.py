"""No two inputs differ by more than e^epsilon, exactly; events price reports, shuffled ones too."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import pytest
from mpmath import mp, mpf
from tests.mechanisms.local.report_laws import (
    KINDS,
    RAPPOR,
    WHOLE,
    Law,
    at_most_exp,
    hockey_stick,
    law,
    shortfall,
    unary_law,
    worst_ratio,
)
from tests.support.cases import in_subtests

from unacorda import ReplaceOne, accounting, checks
from unacorda.mechanisms.local.categories import RandomizedResponse, SubsetSelection, UnaryEncoding
from unacorda.mechanisms.local.hashing import HadamardResponse, LocalHashing
from unacorda.mechanisms.local.reports import pair_event
from unacorda.privacy import events

EPSILONS = ["1e-3", "0.1", "1/3", "1", "1.0986122886681098", "3", "8", "20", "40", "1000"]
AT = [0.0, 0.05, 0.3, 0.7, 1.0, 2.0, 2.9]


@in_subtests("kind", KINDS)
@in_subtests("categories", [2, 3, 5])
@in_subtests("epsilon", EPSILONS)
def test_every_ratio_is_at_most_e_to_the_epsilon(kind: str, categories: int, epsilon: str) -> None:
    exact = Fraction(epsilon)
    mechanism = KINDS[kind](epsilon=exact, categories=categories)
    ratio = worst_ratio([law(mechanism, value) for value in range(categories)])
    assert at_most_exp(ratio, exact)
    if exact <= 40:  # and no ratio is given away, but for what steps of 2^-64 cost
        assert shortfall(ratio, exact) < 2.0**-62 * (math.exp(exact) + categories) * categories


@in_subtests("epsilon", EPSILONS)
def test_the_told_cell_keeps_the_ratio_given_the_hash(epsilon: str) -> None:
    exact = Fraction(epsilon)
    mechanism = LocalHashing(epsilon=exact, categories=1000)
    laws = [hashing_law(mechanism, own=own) for own in ("own", "other")]
    assert at_most_exp(worst_ratio(laws), exact)
    if exact <= 8:
        assert shortfall(worst_ratio(laws), exact) < 1e-12


def hashing_law(mechanism: LocalHashing, *, own: str) -> Law:
    """A report as two categories see it: the cell of one, of the other, of both or of neither."""
    together, cells = mechanism.collision, mechanism.cells
    truth = mechanism.support.own
    lie = (1 - truth) / (cells - 1)
    apart = 1 - together
    return {
        "both": together * truth,
        "neither, together": together * (1 - truth),
        "own": apart * (truth if own == "own" else lie),
        "other": apart * (lie if own == "own" else truth),
        **({"neither": apart * (cells - 2) * lie} if cells > 2 else {}),
    }


# ---- planted faults, which the same checker must catch


def resampled(probability: Fraction, categories: int) -> list[Law]:
    """Answer uniformly at random with this probability, else truly."""
    each = probability / categories
    return [
        {told: each + (1 - probability) * (told == value) for told in range(categories)}
        for value in range(categories)
    ]


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
def test_the_folklore_epsilon_of_resampling_is_caught(epsilon: str) -> None:
    exact = Fraction(epsilon)
    with mp.workprec(100):
        share = Fraction(int(mp.floor(mp.exp(-mpf(exact.numerator) / exact.denominator) * 2**80)))
    assert not at_most_exp(worst_ratio(resampled(share / 2**80, 2)), exact)


@pytest.mark.parametrize("categories", [2, 3, 10])
@pytest.mark.parametrize("probability", ["1/1000", "1/2", "9/10"])
def test_resampling_costs_what_it_says(probability: str, categories: int) -> None:
    mechanism = RandomizedResponse.resampling(probability, categories=categories)
    laws = resampled(Fraction(probability), categories)
    epsilon = checks.exact("epsilon", mechanism.epsilon)
    assert at_most_exp(worst_ratio(laws), epsilon)
    assert shortfall(worst_ratio(laws), epsilon) < 1e-12
    for told, mass in law(mechanism, 0).items():
        assert float(mass) == pytest.approx(float(laws[0][told]), rel=1e-12)
    if categories == 2:
        assert float(epsilon) == pytest.approx(math.log(2 / Fraction(probability) - 1), rel=1e-12)


def test_bits_with_the_whole_epsilon_each_are_caught() -> None:
    honest = RAPPOR(epsilon=1, categories=3).support
    greedy = RAPPOR(epsilon=2, categories=3).support  # flips with odds 1 : e
    for support, fine in ((honest, True), (greedy, False)):
        laws: list[Law] = [
            unary_law([support.own if index == value else support.other for index in range(3)])
            for value in range(3)
        ]
        assert at_most_exp(worst_ratio(laws), Fraction(1)) is fine


def test_a_lie_that_is_one_chance_too_rare_is_caught() -> None:
    mechanism = RandomizedResponse(epsilon=1, categories=3)
    lie = mechanism.support.other - Fraction(1, WHOLE)
    laws: list[Law] = [
        {told: lie if told != value else 1 - 2 * lie for told in range(3)} for value in (0, 1)
    ]
    assert not at_most_exp(worst_ratio(laws), Fraction(1))


# ---- events


def pairs(epsilon: Fraction) -> list[tuple[Any, Law, Law]]:
    """Mechanisms with the laws of two of their inputs, all pairs that differ in kind."""
    found: list[tuple[Any, Law, Law]] = []
    for kind in KINDS.values():
        for categories in (2, 3, 6):
            mechanism = kind(epsilon=epsilon, categories=categories)
            others = {1, categories - 1}
            found += [(mechanism, law(mechanism, 0), law(mechanism, other)) for other in others]
    large = HadamardResponse(epsilon=epsilon, categories=20)
    found += [(large, law(large, 0), law(large, other)) for other in (1, 19)]
    for categories in (2, 1000):
        hashing = LocalHashing(epsilon=epsilon, categories=categories)
        laws = [hashing_law(hashing, own=own) for own in ("own", "other")]
        found.append((hashing, laws[0], laws[1]))
    return found


@pytest.mark.parametrize("epsilon", ["1/4", "1", "3"])
def test_the_event_dominates_the_law(epsilon: str) -> None:
    """At every epsilon: so it does for any number of reports together."""
    for mechanism, first, second in pairs(Fraction(epsilon)):
        for at in AT:
            priced = accounting.delta(mechanism.event, epsilon=at, neighbors=ReplaceOne)
            assert hockey_stick(first, second, math.exp(at)) <= priced + 1e-15
            assert hockey_stick(second, first, math.exp(at)) <= priced + 1e-15


@pytest.mark.parametrize("at", [0.0, 0.4, 0.9])
def test_the_event_is_exact_where_it_can_be(at: float) -> None:
    epsilon = 1.0986122886681098  # the least float whose exponential is 3 or more
    for mechanism in (
        RandomizedResponse(epsilon=epsilon, categories=4),
        RAPPOR(epsilon=epsilon, categories=4),
        UnaryEncoding(epsilon=epsilon, categories=4),
        SubsetSelection(epsilon=epsilon, categories=4),
        HadamardResponse(epsilon=epsilon, categories=3),
    ):
        priced = accounting.delta(mechanism.event, epsilon=at, neighbors=ReplaceOne)
        exact = hockey_stick(law(mechanism, 0), law(mechanism, 1), math.exp(at))
        assert exact == pytest.approx(priced, rel=1e-9), mechanism


def test_the_event_says_less_than_pure_would() -> None:
    for mechanism in (
        UnaryEncoding(epsilon=1, categories=100),
        SubsetSelection(epsilon=1, categories=100),
        HadamardResponse(epsilon=1, categories=100),
        LocalHashing(epsilon=1, categories=100),
        RAPPOR(epsilon=1, categories=100),
    ):
        together = accounting.epsilon(mechanism.event * 50, delta=1e-6, neighbors=ReplaceOne)
        pure = accounting.epsilon(events.Pure(epsilon=1) * 50, delta=1e-6, neighbors=ReplaceOne)
        assert together < 0.85 * pure, mechanism


def test_events_of_extreme_mechanisms_have_prices() -> None:
    for epsilon in (1e-3, 30, 64, 1000.0, 10**6):
        kinds: list[Any] = [*KINDS.values(), LocalHashing]
        for kind in kinds:
            event = kind(epsilon=epsilon, categories=50).event
            found = accounting.delta(event, epsilon=0.0005, neighbors=ReplaceOne)
            assert 0 < found <= 1


def test_two_categories_that_are_nearly_always_told_apart_are_priced_as_pure() -> None:
    assert pair_event(1, weight=Fraction(1)) == events.Pure(epsilon=1)
    assert pair_event(1, weight=Fraction(1, 2)) == events.RandomizedResponse(
        epsilon=1, categories=5
    )


def shuffled(laws: Sequence[Law]) -> dict[tuple[Any, ...], float]:
    """The law of the multiset of independent reports."""
    found: dict[tuple[Any, ...], float] = {(): 1.0}
    for one in laws:
        longer: dict[tuple[Any, ...], float] = {}
        for told, mass in found.items():
            for report, more in one.items():
                key = tuple(sorted((*told, report)))
                longer[key] = longer.get(key, 0.0) + mass * float(more)
        found = longer
    return found


SHUFFLED: list[Any] = [
    RandomizedResponse(epsilon=1, categories=3),
    RandomizedResponse(epsilon=2, categories=2),
    UnaryEncoding(epsilon=1, categories=3),
    RAPPOR(epsilon=1, categories=3),
    SubsetSelection(epsilon=0.5, categories=5),
    SubsetSelection(epsilon=2, categories=4),
    HadamardResponse(epsilon=1, categories=3),
    HadamardResponse(epsilon=3, categories=4),
]


@pytest.mark.parametrize("mechanism", SHUFFLED, ids=str)
def test_the_event_also_prices_shuffled_reports(mechanism: Any) -> None:
    """All tables of three reports, one of which is replaced."""
    laws = [law(mechanism, value) for value in range(mechanism.categories)]
    for others in combinations_with_replacement(range(len(laws)), 2):
        both = [laws[value] for value in others]
        first, second = (shuffled([*both, laws[value]]) for value in (0, 1))
        for at in (0.0, 0.2, 0.6, 1.5):
            exact = math.fsum(max(first[key] - math.exp(at) * second[key], 0.0) for key in first)
            event = mechanism.event.shuffled(count=3)
            assert exact <= accounting.delta(event, epsilon=at, neighbors=ReplaceOne) + 1e-12
