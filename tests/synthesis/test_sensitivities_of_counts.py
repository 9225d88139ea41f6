"""Sensitivities by enumeration of small neighboring tables, and planted faults that it catches."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut
from unacorda.synthesis.charges import ConcentratedShares, GaussianShares, PureShares
from unacorda.synthesis.sensitivity import GRID_LOG2, CountSensitivity
from unacorda.synthesis.tables import Candidate, score

Counts = NDArray[np.int64]
Statistic = Callable[[Counts], tuple[int, ...]]

SHAPE = (2, 3)
CASES = [(rows, kind) for rows in (1, 2) for kind in (AddRemove, ReplaceOne, ZeroOut)]
PUBLIC = np.array([[0.3, 1.0, 2.7], [0.0, 1.5, 0.123456]])


@cache
def bags(most: int) -> list[tuple[int, ...]]:
    """All tables of at most `most` rows over the six cells, as counts."""
    return [bag for bag in itertools.product(range(most + 1), repeat=6) if sum(bag) <= most]


def neighbors_of(rows: int, kind: Neighbors) -> Iterator[tuple[Counts, Counts]]:
    """All pairs of neighboring tables: at most two rows of others, and one unit's."""
    for others in bags(2):
        base = np.array(others, np.int64)
        for first in bags(rows):
            seconds = bags(rows) if kind is ReplaceOne else [(0,) * 6]
            for second in seconds:
                yield (
                    (base + np.array(first, np.int64)).reshape(SHAPE),
                    (base + np.array(second, np.int64)).reshape(SHAPE),
                )


@cache
def moved(name: str, rows: int, kind: Neighbors) -> int:
    """The most that a statistic moves in the l1 norm."""
    statistic, most, known = STATISTICS[name], 0, {}

    def value(counts: Counts) -> tuple[int, ...]:
        key = counts.tobytes()
        if key not in known:
            known[key] = statistic(counts)
        return known[key]

    for first, second in neighbors_of(rows, kind):
        pair = zip(value(first), value(second), strict=True)
        most = max(most, sum(abs(a - b) for a, b in pair))
    return most


def candidate(**changes: Any) -> Candidate:
    values: dict[str, Any] = {"columns": (0, 1), "weight": 3, "expected": PUBLIC}
    return Candidate(**values | changes)


def hard_threshold(counts: Counts) -> tuple[int, ...]:
    """A planted fault: what lies above the threshold counts in full."""
    off = np.abs((counts << GRID_LOG2) - np.rint(PUBLIC * 2**GRID_LOG2).astype(np.int64))
    return (3 * int(off[off > 2 << GRID_LOG2].sum()),)


STATISTICS: dict[str, Statistic] = {
    "counts": lambda counts: tuple(counts.ravel().tolist()),
    "no threshold": lambda counts: (score(counts, candidate()),),
    "threshold": lambda counts: (score(counts, candidate(threshold=0.7)),),
    "column": lambda counts: (
        score(counts.sum(axis=0), candidate(columns=(1,), expected=PUBLIC.sum(axis=0))),
    ),
    "distances": lambda counts: (
        int(np.abs(counts - 1).sum()),
        int(np.abs(counts.sum(axis=0) - 2).sum()),
        int(np.abs(counts.sum(axis=1) - 1).sum()),
    ),
    "hard threshold": hard_threshold,
}
SCORES = ["no threshold", "threshold", "column"]


@pytest.mark.parametrize(("rows", "kind"), CASES)
def test_counts_move_by_their_sensitivity_at_most(rows: int, kind: Neighbors) -> None:
    declared = CountSensitivity(rows=rows, neighbors=kind).counts
    assert moved("counts", rows, kind) == declared.l1
    squares = [int(((a - b) ** 2).sum()) for a, b in neighbors_of(rows, kind)]
    assert max(squares) == declared.l2_squared


@pytest.mark.parametrize(("rows", "kind"), CASES)
@pytest.mark.parametrize("name", SCORES)
def test_scores_move_by_their_sensitivity_at_most(name: str, rows: int, kind: Neighbors) -> None:
    declared = CountSensitivity(rows=rows, neighbors=kind).score(3)
    assert moved(name, rows, kind) <= declared
    assert declared == 3 * rows * (2 if kind is ReplaceOne else 1) * 2**16
    if name == "no threshold":
        assert moved(name, rows, kind) == declared


@pytest.mark.parametrize(("rows", "kind"), CASES)
def test_distances_move_by_their_sensitivity_at_most(rows: int, kind: Neighbors) -> None:
    declared = CountSensitivity(rows=rows, neighbors=kind).distances(3)
    tables = STATISTICS["distances"]
    assert moved("distances", rows, kind) <= declared.l1
    squares = [
        sum((a - b) ** 2 for a, b in zip(tables(first), tables(second), strict=True))
        for first, second in neighbors_of(rows, kind)
    ]
    assert max(squares) <= declared.l2_squared
    if kind is not ReplaceOne:
        assert max(squares) == declared.l2_squared


def test_the_enumeration_catches_rows_that_were_forgotten() -> None:
    for name in ["no threshold", "threshold"]:
        forgotten = CountSensitivity(rows=1, neighbors=AddRemove).score(3)
        assert moved(name, 2, AddRemove) > forgotten
    assert moved("counts", 2, AddRemove) > CountSensitivity(rows=1, neighbors=AddRemove).counts.l1


def test_the_enumeration_catches_a_relation_that_was_forgotten() -> None:
    forgotten = CountSensitivity(rows=1, neighbors=AddRemove)
    assert moved("counts", 1, ReplaceOne) > forgotten.counts.l1
    assert moved("no threshold", 1, ReplaceOne) > forgotten.score(3)


def test_the_enumeration_catches_a_grid_that_was_forgotten() -> None:
    forgotten = CountSensitivity(rows=1, neighbors=AddRemove).score(3) >> GRID_LOG2
    assert moved("threshold", 1, AddRemove) > forgotten


def test_the_enumeration_catches_a_weight_that_was_forgotten() -> None:
    assert moved("no threshold", 1, AddRemove) > CountSensitivity(
        rows=1, neighbors=AddRemove
    ).score(1)


def test_the_enumeration_catches_a_threshold_without_a_bound() -> None:
    declared = CountSensitivity(rows=1, neighbors=AddRemove).score(3)
    assert moved("hard threshold", 1, AddRemove) > declared


def test_scores_are_exact_sums_of_whole_steps() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        counts = generator.integers(0, 1 << 39, size=20)
        expected = generator.random(20) * float(1 << 39)
        table = Candidate(columns=(0,), weight=7, expected=expected, threshold=1.7)
        step = Fraction(1, 1 << GRID_LOG2)
        on_grid = [round(Fraction(one) / step) * step for one in expected.tolist()]
        threshold = round(1.7 / step) * step
        pairs = zip(counts.tolist(), on_grid, strict=True)
        above = sum(max(abs(x - m) - threshold, Fraction(0)) for x, m in pairs)
        assert score(counts, table) * step == 7 * above


def test_expectations_that_are_no_numbers_are_put_on_the_grid() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, -5.0, 1e300])
    found = score(np.array([0, 0, 0, 0, 0]), candidate(columns=(0,), expected=odd, weight=1))
    assert found == 2 << 40 + GRID_LOG2


@pytest.mark.parametrize(("rows", "kind"), CASES)
@pytest.mark.parametrize("amount", [Fraction(1, 3), Fraction(1, 1000)])
def test_mechanisms_are_made_for_these_sensitivities(
    amount: Fraction, rows: int, kind: Neighbors
) -> None:
    sensitivity = CountSensitivity(rows=rows, neighbors=kind)
    normal, pure = ConcentratedShares(total=amount), PureShares(total=amount)
    ideal = GaussianShares(total=amount)
    both: list[tuple[ConcentratedShares | GaussianShares, int]] = [(normal, 2), (ideal, 1)]
    for shares, squares in both:  # rho is half of mu^2
        for move in (sensitivity.counts, sensitivity.distances(5)):
            sigma = Fraction(str(shares.noise(amount, move).sigma))
            assert 0.999999 * amount < move.l2_squared / (squares * sigma**2) <= amount
    for move in (sensitivity.counts, sensitivity.distances(5)):
        assert move.l1 / Fraction(str(pure.noise(amount, move).scale)) <= amount
    for shares, _ in both:
        chosen = shares.choice(amount, sensitivity, weight=4)
        assert chosen.sensitivity == sensitivity.score(4)
        assert not chosen.monotone
    assert Fraction(str(normal.choice(amount, sensitivity, weight=4).epsilon)) ** 2 / 8 <= amount
    assert ideal.noise(amount, sensitivity.counts).grid_log2 == 0
    # The two coins of the widest bounded range: no threshold on normal shifts tells more.
    epsilon = float(Fraction(str(ideal.choice(amount, sensitivity, weight=4).epsilon)))
    mu = math.sqrt(amount)
    assert 1 / (1 + math.exp(-epsilon / 2)) <= NormalDist().cdf(mu / 2) * (1 + 1e-12)
    assert 1 / (1 + math.exp(-epsilon / 2)) >= NormalDist().cdf(mu / 2) * (1 - 1e-6)
    assert pure.choice(amount, sensitivity, weight=4).sensitivity == sensitivity.score(4)
