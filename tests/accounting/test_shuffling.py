"""Shuffled reports from both sides, against the enumeration of all datasets and randomizers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats
from tests.support.cases import in_subtests
from tests.support.planting import plant
from tests.tiers import mostly_long

from unacorda.accounting import delta_interval, epsilon_interval
from unacorda.accounting.amplification import shuffling
from unacorda.accounting.amplification.events import delta_of_shuffled_event
from unacorda.accounting.amplification.shuffling import (
    delta_of_shuffled_bits,
    delta_of_shuffled_reports,
    delta_of_shuffled_response,
    lower_delta_of_shuffled_response,
)
from unacorda.accounting.pld import parts
from unacorda.privacy.events import Event, Gaussian, Laplace, Pure, RandomizedResponse, Shuffled
from unacorda.privacy.neighbors import ReplaceOne

Floats = NDArray[np.float64]
Law = dict[tuple[int, ...], float]
EPSILONS = (0.0, 0.05, 0.2, 0.6)


def counts_of(rows: list[Floats]) -> Law:
    """The law of how many reports are of each output, by convolution report by report."""
    law: Law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        grown: Law = defaultdict(float)
        for counts, chance in law.items():
            for output, weight in enumerate(row):
                raised = list(counts)
                raised[output] += 1
                grown[tuple(raised)] += chance * float(weight)
        law = grown
    return law


def worst(randomizer: Floats, count: int, epsilon: float) -> float:
    """The largest delta over all datasets of `count` inputs, and both orders of neighbors."""
    inputs = range(len(randomizer))
    found = 0.0
    for others in itertools.combinations_with_replacement(inputs, count - 1):
        laws = [counts_of([randomizer[x] for x in (own, *others)]) for own in inputs]
        for one, two in itertools.permutations(laws, 2):
            gaps = (one[place] - math.exp(epsilon) * two[place] for place in one)
            found = max(found, math.fsum(gap for gap in gaps if gap > 0))
    return found


def response(local: float, categories: int) -> Floats:
    rows: Floats = np.ones((categories, categories)) + np.diag(
        np.full(categories, math.expm1(local))
    )
    found: Floats = rows / (math.exp(local) + categories - 1)
    return found


@pytest.mark.long
@in_subtests("categories, count", [(2, 3), (2, 5), (2, 8), (3, 3), (3, 6), (4, 4), (5, 3)])
@pytest.mark.parametrize("local", [0.3, 1.0, 3.0])
def test_answers_by_enumeration_of_all_datasets(categories: int, count: int, local: float) -> None:
    for epsilon in EPSILONS:
        if epsilon >= local:
            continue
        truth = worst(response(local, categories), count, epsilon)
        high = delta_of_shuffled_response(
            local, categories=categories, count=count, epsilon=epsilon
        )
        low = lower_delta_of_shuffled_response(
            local, categories=categories, count=count, epsilon=epsilon
        )
        assert low <= truth * (1 + 1e-9) <= high * (1 + 2e-9)
        if categories == 2:
            assert high <= truth * 1.101


def extreme_randomizer(drawn: np.random.Generator, inputs: int, local: float) -> Floats:
    """A vertex of all pure randomizers: at each output the likelihoods are 1 or e^local times."""
    patterns = np.array(list(itertools.product((1.0, math.exp(local)), repeat=inputs))).T
    found = optimize.linprog(
        drawn.normal(size=patterns.shape[1]) - 1, A_eq=patterns, b_eq=np.ones(inputs)
    )
    assert found.status == 0
    outputs = found.x > 1e-12
    weights: Floats = patterns[:, outputs] * found.x[outputs]
    rows: Floats = weights / weights.sum(axis=1, keepdims=True)
    return rows


@in_subtests("seed", range(12))
@pytest.mark.parametrize("local", [0.4, 1.5])
def test_no_pure_randomizer_is_worse(local: float, seed: int) -> None:
    drawn = np.random.default_rng(seed)
    randomizer = extreme_randomizer(drawn, 3, local)
    pairs = itertools.combinations(randomizer, 2)
    distance = max(float(np.abs(one - two).sum()) / 2 for one, two in pairs) * (1 + 1e-12)
    for count, epsilon in itertools.product((2, 4), (0.0, 0.1, 0.3)):
        truth = worst(randomizer, count, epsilon)
        near = delta_of_shuffled_reports(local, distance=distance, count=count, epsilon=epsilon)
        known = delta_of_shuffled_reports(local, distance=1, count=count, epsilon=epsilon)
        assert truth <= near * (1 + 1e-9)
        assert near <= known * 1.05


def by_every_dataset(local: float, count: int, epsilon: float) -> float:
    """As the module of binary answers, for each number of ones among the others."""
    s, grown = 1 / (1 + math.exp(local)), math.exp(epsilon)
    found = 0.0
    for m in range(count):
        ones = stats.binom.pmf(np.arange(m + 1), m, 1 - s)
        others = np.convolve(ones, stats.binom.pmf(np.arange(count - m), count - 1 - m, s))
        more, same = np.append(0.0, others), np.append(others, 0.0)
        p, q = (1 - s) * more + s * same, s * more + (1 - s) * same
        found = max(found, float(np.maximum(p - grown * q, 0).sum()))
    return found


@in_subtests(
    "local, count, epsilon",
    [(1.0, 100, 0.3), (2.0, 300, 0.6), (0.5, 300, 0.1), (2.0, 300, 1.2), (4.0, 60, 0.0)],
)
def test_binary_answers_by_sums_over_every_dataset(
    local: float, count: int, epsilon: float
) -> None:
    truth = by_every_dataset(local, count, epsilon)
    found = delta_of_shuffled_bits(local, count=count, epsilon=epsilon)
    assert truth * (1 - 1e-8) <= found <= truth * 1.101


def blanket_by_sums(local: float, count: int, epsilon: float, overlap: float) -> float:
    """The pair of the module by sums over t, r and t_a, with this mass of a."""
    grown = math.exp(local)
    own = (grown + 1) * overlap
    chances = 2 * overlap, (1 - own) / grown
    found = 0.0
    for clones, common in itertools.product(range(count), repeat=2):
        for shown in (True, False):
            t, r = clones + shown, common + (not shown)
            if t == 0 or clones + common > count - 1:
                continue
            # all ways in which the attacker may see these t and r
            ways = [
                stats.multinomial.pmf(
                    [t - 1, r, count - t - r], count - 1, [*chances, 1 - sum(chances)]
                )
                * own,
                stats.multinomial.pmf(
                    [t, r - 1, count - t - r], count - 1, [*chances, 1 - sum(chances)]
                )
                * (1 - own)
                if r
                else 0.0,
            ]
            if not shown and ways[0] > 0:
                continue  # counted where it is shown
            x = np.arange(t + 1)
            lean = math.tanh(local / 2) * ways[0] / sum(ways) if sum(ways) else 0.0
            one = stats.binom.pmf(x, t, 0.5) * (1 + lean * (2 * x / t - 1))
            two = stats.binom.pmf(x, t, 0.5) * (1 - lean * (2 * x / t - 1))
            found += sum(ways) * float(np.maximum(one - math.exp(epsilon) * two, 0).sum())
    return found


@in_subtests("local, count, epsilon", [(1.0, 12, 0.1), (2.0, 20, 0.3), (0.5, 15, 0.02)])
def test_blankets_by_plain_sums(local: float, count: int, epsilon: float) -> None:
    for categories in (3, 6):
        overlap = 1 / (math.exp(local) + categories - 1)
        truth = blanket_by_sums(local, count, epsilon, overlap)
        distance = math.expm1(local) * overlap * (1 + 1e-15)
        found = delta_of_shuffled_reports(local, distance=distance, count=count, epsilon=epsilon)
        assert truth * (1 - 1e-9) <= found <= truth * 1.5


@pytest.mark.long
@in_subtests("local", [0.3, 1.0, 2.5])
@in_subtests("categories", [2, 3, 20])
def test_the_ends_of_many_answers_are_near(local: float, categories: int) -> None:
    for count in (1_000, 20_000):
        event = RandomizedResponse(epsilon=local, categories=categories).shuffled(count=count)
        found = epsilon_interval(event, delta=1e-7, neighbors=ReplaceOne)
        assert found.upper <= found.lower * 1.25


@pytest.mark.long
@in_subtests("local", [0.3, 0.7, 1.0, 2.5])
def test_the_ends_of_pure_reports_are_near(local: float) -> None:
    event = Pure(epsilon=local).shuffled(count=5_000)
    found = epsilon_interval(event, delta=1e-7, neighbors=ReplaceOne)
    assert found.upper <= found.lower * 1.25
    noise = epsilon_interval(
        Laplace(noise_multiplier=2 / local).shuffled(count=5_000), delta=1e-7, neighbors=ReplaceOne
    )
    assert noise.lower == 0.0  # Laplace reports are not known to reach it
    assert noise.upper <= found.upper * (1 + 1e-6)


def clones_by_sums(local: float, count: int, epsilon: float) -> float:
    """The older bound, of clones alone: Feldman, McMillan, Talwar 2021, Section 3."""
    p, total = 1 / (1 + math.exp(-local)), 0.0
    for c in range(count):
        weight = stats.binom.pmf(c, count - 1, math.exp(-local))
        x = np.arange(c + 2)
        one = np.where(x > 0, stats.binom.pmf(x - 1, c, 0.5), 0)
        two = stats.binom.pmf(x, c, 0.5)
        gap = (p * one + (1 - p) * two) - math.exp(epsilon) * ((1 - p) * one + p * two)
        total += weight * np.maximum(gap, 0).sum()
    return float(total)


def test_fewer_clones_are_never_better() -> None:
    for local, count, epsilon in itertools.product((0.2, 1.0, 4.0), (50, 200), (0.01, 0.1)):
        clones = clones_by_sums(local, count, epsilon)
        found = delta_of_shuffled_reports(local, distance=1, count=count, epsilon=epsilon)
        assert found <= clones * 1.1 + 1e-20


@pytest.mark.long
@pytest.mark.parametrize(("delta", "most"), [("1e-15", 0.2987), ("1e-25", 0.4152)])
def test_tiny_deltas_do_not_stop_at_what_scipy_is_granted(delta: str, most: float) -> None:
    event = Pure(epsilon=1).shuffled(count=1000)
    assert epsilon_interval(event, delta=delta, neighbors=ReplaceOne).upper < most


def test_tiny_deltas_and_edges() -> None:
    event = RandomizedResponse(epsilon=1, categories=2)
    assert delta_interval(event.shuffled(count=10**5), epsilon=0.9, neighbors=ReplaceOne).upper < (
        1e-100
    )
    alone = delta_interval(event.shuffled(count=1), epsilon=0.2, neighbors=ReplaceOne)
    truth = (math.e - math.exp(0.2)) / (1 + math.e)
    assert alone.lower == pytest.approx(truth, rel=1e-6)
    assert alone.upper == pytest.approx(truth, rel=1e-6)
    loud = RandomizedResponse(epsilon=40, categories=2).shuffled(count=3)
    assert delta_interval(loud, epsilon=0.2, neighbors=ReplaceOne).upper <= 1
    assert delta_of_shuffled_reports(31, distance=1, count=3, epsilon=1) == 1
    assert delta_of_shuffled_response(0, categories=3, count=9, epsilon=0) == 0
    assert lower_delta_of_shuffled_response(2, categories=3, count=10**8, epsilon=1) == 0


def product(laws: list[list[float]]) -> Floats:
    found = np.ones(1)
    for law in laws:
        found = np.outer(found, law).ravel()
    return found


@in_subtests("categories, count, times", [(2, 3, 2), (2, 4, 3), (3, 3, 2), (3, 4, 2)])
@pytest.mark.parametrize("local", mostly_long([0.8, 2.0]))
def test_compositions_by_enumeration_of_all_datasets(
    categories: int, count: int, times: int, local: float
) -> None:
    """The same rows in every release, which ask the same of them, or have their own for each."""
    randomizer, inputs = response(local, categories), range(categories)
    datasets = list(itertools.combinations_with_replacement(inputs, count - 1))
    laws = [
        [list(counts_of([randomizer[x] for x in (own, *others)]).values()) for own in inputs]
        for others in datasets
    ]
    event = RandomizedResponse(epsilon=local, categories=categories).shuffled(count=count) * times
    for epsilon in (0.0, 0.3, 1.0):
        found = delta_interval(event, epsilon=epsilon, neighbors=ReplaceOne)
        truth = 0.0
        for chosen in itertools.combinations_with_replacement(laws, times):
            for one, two in itertools.permutations(inputs, 2):
                p, q = (product([law[own] for law in chosen]) for own in (one, two))
                truth = max(truth, float(np.maximum(p - math.exp(epsilon) * q, 0).sum()))
        assert found.lower <= truth * (1 + 1e-9)
        assert truth <= found.upper * (1 + 1e-9)


@pytest.mark.long
@in_subtests(
    "event",
    [
        RandomizedResponse(epsilon=1, categories=2).shuffled(count=3_000) * 5,
        RandomizedResponse(epsilon=2, categories=6).shuffled(count=3_000) * 20,
        Pure(epsilon=0.5).shuffled(count=3_000) * 4,
        Pure(epsilon=2).shuffled(count=3_000) * 4,
        RandomizedResponse(epsilon=1, categories=3).shuffled(count=900)
        + RandomizedResponse(epsilon=0.5, categories=2).shuffled(count=900) * 2,
    ],
)
def test_the_ends_of_compositions_are_near(event: Event) -> None:
    found = epsilon_interval(event, delta=1e-6, neighbors=ReplaceOne)
    assert 0 < found.lower <= found.upper <= found.lower * 1.25


@pytest.mark.long
def test_compositions_with_other_noise() -> None:
    shuffled = RandomizedResponse(epsilon=1, categories=2).shuffled(count=3_000)
    noise = Laplace(noise_multiplier=10)
    alone = epsilon_interval(shuffled * 2, delta=1e-6, neighbors=ReplaceOne)
    found = epsilon_interval(shuffled * 2 + noise, delta=1e-6, neighbors=ReplaceOne)
    assert alone.upper < found.lower <= found.upper <= alone.upper + 0.2 + 1e-9
    loud = Gaussian(noise_multiplier=2).shuffled(count=9) * 2
    plain = epsilon_interval(Gaussian(noise_multiplier=2) * 2, delta=1e-6, neighbors=ReplaceOne)
    found = epsilon_interval(loud, delta=1e-6, neighbors=ReplaceOne)
    assert found.upper == pytest.approx(plain.upper, rel=1e-12)


FAULTS: dict[str, tuple[float, Any, Any]] = {
    "a report leans half as much": (
        0.0501,
        shuffling._given,
        lambda t, rho, epsilon, right=shuffling._given, **more: right(t, rho / 2, epsilon, **more),
    ),
    "ranges end before their last dataset": (
        0.0502,
        shuffling._delta_of_range,
        lambda low, high, *rest, right=shuffling._delta_of_range: right(
            low, max(low, high - 1), *rest
        ),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    epsilon, right, wrong = FAULTS[fault]  # not asked of otherwise: answers are remembered
    plant(monkeypatch, right, wrong)
    below = [
        delta_of_shuffled_response(local, categories=categories, count=count, epsilon=epsilon)
        < worst(response(local, categories), count, epsilon)
        for categories, count, local in ((2, 3, 1.0), (3, 6, 1.0))
    ]
    assert any(below)


def test_a_planted_fault_of_compositions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = delta_of_shuffled_event
    plant(monkeypatch, right, lambda event, epsilon: right(event, epsilon=epsilon * 1.3 + 0.01))
    event = RandomizedResponse(epsilon=1, categories=2).shuffled(count=2_000)
    assert isinstance(event, Shuffled)
    curve = parts.curve_of_shuffled(event)
    assert curve.attained is not None
    at = np.asarray(0.1)
    assert float(curve(at).upper) < float(curve.attained(at).lower)
