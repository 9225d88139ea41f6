"""Attacks beat chance without noise, and fall to what is promised with it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda import SeededBits
from unacorda.attacks import (
    Attack,
    differencing,
    expected_power,
    likelihood_ratio,
    linkage,
    logit_confidence,
    membership,
    reconstruction,
)
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy.guarantees import ApproxDP

Floats = np.ndarray[Any, np.dtype[np.float64]]


def genomes(people: int, snps: int, seed: int) -> Floats:
    drawn = np.random.default_rng(seed)
    return (drawn.random((people, snps)) < drawn.uniform(0.1, 0.5, size=snps)).astype(float)


def test_curves_of_an_attack_by_hand() -> None:
    attack = Attack(
        scores=np.array([3.0, 2.0, 2.0, 1.0]), truth=np.array([True, True, False, False])
    )
    alarms, hits = attack.roc()
    assert alarms.tolist() == [0.0, 0.0, 0.5, 1.0]
    assert hits.tolist() == [0.0, 0.5, 1.0, 1.0]
    assert attack.auc == pytest.approx(0.875)
    assert attack.advantage == 0.5
    assert attack.true_positive_rate(fpr=0.0) == 0.5
    assert attack.true_positive_rate(fpr=0.5) == 1.0
    with pytest.raises(InvalidParameter, match="fpr"):
        attack.true_positive_rate(fpr=1.5)


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_the_area_is_the_chance_of_the_right_order(people: list[tuple[int, bool]]) -> None:
    scores, truth = (np.array(column) for column in zip(*people, strict=True))
    if truth.all() or not truth.any():
        return
    gaps = scores[truth][:, None] - scores[~truth][None, :]
    area = float(np.mean((gaps > 0) + 0.5 * (gaps == 0)))
    found = Attack(scores=scores.astype(float), truth=truth.astype(bool))
    assert found.auc == pytest.approx(area)


def test_means_of_many_attributes_give_members_away() -> None:
    attack = membership(genomes(400, 8000, 1), bits=SeededBits(1))
    assert attack.auc > 0.999
    assert attack.true_positive_rate(fpr=0.01) > 0.98
    assert attack.bound is not None
    assert attack.bound.epsilon > 2


@pytest.mark.statistical
def test_few_attributes_of_many_people_tell_little() -> None:
    # AUC of chance deviates by 0.02 here; 0.62 is at 6 of these.
    attack = membership(genomes(800, 5, 2), bits=SeededBits(2))
    assert attack.auc < 0.62


@pytest.mark.statistical
def test_private_means_hide_members_as_promised() -> None:
    # Normal noise for epsilon 1 at delta 1e-5 on the vector of sums: l2 sensitivity sqrt d. The
    # bound lies above 1 with probability 0.05 at most; under this seed it does not.
    people = genomes(400, 4000, 3)
    noise = Gaussian.for_guarantee(ApproxDP(1, 1e-5), l2_sensitivity=math.sqrt(4000))

    def defended(rows: Floats) -> Floats:
        sums = noise.release(rows.sum(axis=0), bits=SeededBits(4))
        return np.asarray(sums) / (len(people) / 2)

    attack = membership(people, defended=defended, promised=1.0, bits=SeededBits(3))
    assert attack.promised == 1.0
    assert attack.bound is not None
    assert attack.bound.epsilon <= 1
    assert attack.auc < 0.75
    clear = membership(people, bits=SeededBits(3))
    assert clear.auc > 0.95


@pytest.mark.statistical
@pytest.mark.parametrize(("snps", "noise"), [(400, 0.0), (2000, 0.0), (2000, 0.2)])
def test_power_is_what_the_theory_says(snps: int, noise: float) -> None:
    # 500 members: a share deviates by 0.022 at most, and the law of scores is near normal. Limits
    # are at 5.5 deviations of the mean of both tables.
    found = []
    for seed in range(2):
        drawn = np.random.default_rng(seed)
        rows = (drawn.random((1000, snps)) < 0.5).astype(float)

        def defended(inside: Floats, drawn: np.random.Generator = drawn) -> Floats:
            return np.asarray(inside.mean(axis=0) + 0.5 * noise * drawn.normal(size=snps))

        attack = membership(
            rows, population=np.full(snps, 0.5), defended=defended, bits=SeededBits(seed)
        )
        found.append(attack.true_positive_rate(fpr=0.05))
    expected = expected_power(dimension=snps, members=500, noise=noise, fpr=0.05)
    assert np.mean(found) == pytest.approx(expected, abs=0.12)


def ratings(seed: int) -> tuple[Floats, Floats]:
    drawn = np.random.default_rng(seed)
    has = drawn.random((2000, 300)) < drawn.uniform(0.005, 0.1, size=300)
    table = np.where(has, drawn.integers(1, 6, size=has.shape), np.nan)
    return table, np.where(has, drawn.uniform(0, 1000, size=has.shape), np.nan)


def facts(row: Floats, count: int, drawn: np.random.Generator, error: float) -> Floats:
    known = np.full(row.size, np.nan)
    has = np.flatnonzero(~np.isnan(row))
    chosen = drawn.choice(has, size=min(count, has.size), replace=False)
    known[chosen] = row[chosen] + error * drawn.normal(size=chosen.size)
    return known


def test_a_few_rough_facts_find_the_record() -> None:
    table, times = ratings(1)
    drawn = np.random.default_rng(2)
    right = 0
    for person in range(30):
        seed = drawn.integers(1 << 30)
        known, when = (
            facts(part[person], 8, np.random.default_rng(seed), error)
            for part, error in ((table, 0.5), (times, 10.0))
        )
        right += linkage(table, known, times=times, known_times=when).match == person
    assert right >= 27


def test_strangers_match_more_seldom() -> None:
    table, times = ratings(1)
    others, their_times = ratings(5)
    matched = 0
    for row, when in zip(others[:30], their_times[:30], strict=True):
        known, told = (facts(part, 8, np.random.default_rng(3), 0.0) for part in (row, when))
        matched += linkage(table, known, times=times, known_times=told).match is not None
    assert matched <= 9


def test_scores_of_linkage_by_hand() -> None:
    table = np.array([[5.0, np.nan, 1.0], [4.0, 2.0, np.nan], [np.nan, 2.0, 1.0]])
    found = linkage(table, [5.0, np.nan, 1.0], value_scale=1.5)
    weight = 1 / math.log(2)
    expected = [2 * weight, math.exp(-1 / 1.5) * weight, weight]
    np.testing.assert_allclose(found.scores, expected)
    gap = (expected[0] - expected[2]) / np.std(expected)
    assert found.eccentricity == pytest.approx(gap)


@pytest.mark.parametrize("method", ["linear programme", "least squares"])
def test_counts_give_a_column_away_and_noise_does_not(method: Any) -> None:
    drawn = np.random.default_rng(4)
    secret, asked = drawn.random(64) < 0.5, drawn.random((128, 64)) < 0.5
    exact = asked @ secret.astype(float)
    assert reconstruction(asked, exact, method=method).share_right(secret) == 1.0
    little = exact + drawn.normal(size=128)
    assert reconstruction(asked, little, method=method).share_right(secret) > 0.9
    much = exact + 100 * drawn.normal(size=128)
    assert reconstruction(asked, much, method=method).share_right(secret) < 0.75


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=5, max_size=5), max_size=6))
def test_whoever_is_exposed_is_told_exactly_and_nobody_else(rows: list[list[float]]) -> None:
    asked = np.array([*rows, [1.0] * 5])
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    exposed = {found.person: found for found in differencing(asked)}
    whole = int(np.linalg.matrix_rank(asked))
    for person in range(5):
        unit = np.eye(5)[person]
        inside = int(np.linalg.matrix_rank(np.vstack([asked, unit]))) == whole
        assert (person in exposed) == inside
        if inside:
            found = exposed[person]
            assert found.value(asked @ values) == pytest.approx(values[person])
            assert found.deviation == pytest.approx(float(np.linalg.norm(found.weights)))


def test_trained_examples_stand_out() -> None:
    drawn = np.random.default_rng(5)
    inside, truth = drawn.random((64, 500)) < 0.5, drawn.random(500) < 0.5
    hard = 2 * drawn.normal(size=500)  # some examples are learned whoever is trained on
    shadows = hard + 2 * inside + drawn.normal(size=(64, 500))
    observed = hard + 2 * truth + drawn.normal(size=500)
    attack = likelihood_ratio(shadows, inside, observed, truth=truth)
    plain = Attack(scores=observed, truth=truth)
    assert attack.auc > 0.88
    assert attack.auc > plain.auc + 0.05
    assert logit_confidence([0.0])[0] < -27


BAD: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (membership, (np.ones((3, 4)),), {}, "people"),
    (membership, (np.full((50, 4), np.nan),), {}, "people"),
    (membership, (np.ones((50, 4)),), {"population": [1.0]}, "population"),
    (membership, (np.ones((50, 4)),), {"defended": lambda rows: 0.0}, "defended"),
    (linkage, ([1.0],), {"known": [1.0]}, "table"),
    (linkage, (np.ones((3, 2)),), {"known": [1.0]}, "known"),
    (linkage, (np.ones((3, 2)),), {"known": [math.nan] * 2}, "known"),
    (linkage, (np.ones((3, 2)),), {"known": [1, 1], "times": np.ones((3, 2))}, "known_times"),
    (linkage, (np.ones((3, 2)),), {"known": [1, 1], "least": -1}, "least"),
    (reconstruction, ([[2, 0]], [1.0]), {}, "questions"),
    (reconstruction, ([[1, 0]], [1.0, 2.0]), {}, "answers"),
    (reconstruction, ([[1, 0]], [math.nan]), {}, "answers"),
    (reconstruction, ([[1, 0]], [1.0]), {"method": "guess"}, "method"),
    (differencing, ([1, 2],), {}, "questions"),
    (differencing, ([[math.inf]],), {}, "questions"),
    (
        likelihood_ratio,
        (np.ones((2, 3)), np.ones((2, 3)), np.ones(3)),
        {"truth": [True, False, True]},
        "trained_on",
    ),
    (
        likelihood_ratio,
        (np.ones((2, 3)), np.ones((2, 2)), np.ones(3)),
        {"truth": [True, False, True]},
        "trained_on",
    ),
    (expected_power, (), {"dimension": 0, "members": 3}, "dimension"),
]


@in_subtests(
    ("attack", "given_", "options", "name"),
    BAD,
    ids=[f"{case[0].__name__}-{case[3]}-{index}" for index, case in enumerate(BAD)],
)
def test_bad_input_is_named(
    attack: Any, given_: tuple[Any, ...], options: dict[str, Any], name: str
) -> None:
    with pytest.raises(InvalidParameter, match=name):
        attack(*given_, **options)
