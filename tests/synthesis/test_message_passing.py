"""Messages on junction trees, against the sums over all cells."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.synthesis.dense_models import dense, summed

from unacorda.errors import InvalidParameter
from unacorda.synthesis.junction_tree import ColumnGraph, FactorTree, JunctionTree
from unacorda.synthesis.model import MarginalModel

SIZES = (2, 3, 4, 2, 3, 2)
SHAPES: list[list[tuple[int, ...]]] = [
    [],
    [(2,)],
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)],
    [(0, 1), (2, 3), (4, 5)],
    [(0, 1), (1, 2), (0, 2), (3, 5)],
    [(0, 1), (1, 2), (2, 3), (0, 3)],
    [(0, 1, 2), (1, 3, 4), (4, 5)],
    [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5)],
]


@pytest.mark.parametrize("shape", SHAPES)
def test_all_marginals_are_those_of_the_dense_table(shape: list[tuple[int, ...]]) -> None:
    generator = np.random.default_rng(len(shape))
    factors = {c: 3 * generator.normal(size=[SIZES[a] for a in c]) for c in shape}
    model = MarginalModel(SIZES, factors)
    probabilities, log_total = dense(SIZES, factors)
    assert model.beliefs.log_total == pytest.approx(log_total, abs=1e-10)
    for count in range(len(SIZES) + 1):
        for columns in itertools.combinations(range(len(SIZES)), count):
            found = model.marginal(columns)
            assert np.abs(found - summed(probabilities, columns)).max() < 1e-10


def test_random_models_with_zeros_agree_with_the_dense_table() -> None:
    generator = np.random.default_rng(7)
    pairs = list(itertools.combinations(range(len(SIZES)), 2))
    for _ in range(60):
        chosen = generator.choice(len(pairs), size=4, replace=False)
        factors: dict[tuple[int, ...], NDArray[Any]] = {
            pairs[i]: generator.normal(size=[SIZES[a] for a in pairs[i]]) for i in chosen
        }
        zeros = pairs[int(generator.integers(len(pairs)))]
        mask = generator.random([SIZES[a] for a in zeros]) < 0.6
        mask.flat[0] = True
        with np.errstate(divide="ignore"):
            logs = {c: f + (np.log(mask) if c == zeros else 0) for c, f in factors.items()}
            logs.setdefault(zeros, np.log(mask))
        model = MarginalModel(SIZES, factors, possible={zeros: mask})
        probabilities, log_total = dense(SIZES, logs)
        assert model.beliefs.log_total == pytest.approx(log_total, abs=1e-10)
        for columns in [zeros, (0, 2, 5), (1, 3, 4), (0, 1, 2, 3, 4, 5)]:
            found = model.marginal(columns)
            assert np.abs(found - summed(probabilities, columns)).max() < 1e-10
        assert not model.marginal(zeros)[~mask].any()


def test_huge_factors_neither_overflow_nor_vanish() -> None:
    factors: dict[tuple[int, ...], NDArray[Any]] = {
        (0, 1): np.array([[2000.0, -2000], [-2000, 1999]]),
        (1,): np.array([-900.0, 0]),
    }
    found = MarginalModel((2, 2), factors).marginal((0, 1))
    assert found.sum() == pytest.approx(1)
    assert found[1, 1] == pytest.approx(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_messages_of_factors_are_those_of_their_logarithms(shape: list[tuple[int, ...]]) -> None:
    tree = JunctionTree(SIZES, shape)
    generator = np.random.default_rng(len(shape))
    logs = [3 * generator.normal(size=clique) for clique in tree.shapes]
    logs = [table - table.max() for table in logs]
    by_logs = tree.calibrate(logs)
    found = tree.calibrate_products([np.exp(table) for table in logs])
    assert found is not None
    assert found.log_total == pytest.approx(by_logs.log_total, abs=1e-12)
    for one, other in zip(found.cliques, by_logs.cliques, strict=True):
        assert np.abs(one - other).max() < 1e-14
    for one, other in zip(found.separators, by_logs.separators, strict=True):
        assert np.abs(one - other).max() < 1e-14


def test_factors_too_small_for_floats_are_told() -> None:
    tree = JunctionTree((2, 2, 2), [(0, 1), (1, 2)])
    small = [np.ones((2, 2)), np.exp(np.array([[-900.0, -900], [0, 0]]))]
    assert tree.calibrate_products(small) is None


@pytest.mark.parametrize("seed", range(10))
def test_tables_of_a_clique_are_multiplied_and_its_cells_summed(seed: int) -> None:
    generator = np.random.default_rng(seed)
    clique, count = (0, 1, 3, 4, 5), int(generator.integers(0, 7))
    sets = [
        tuple(sorted(generator.choice(clique, size=int(generator.integers(0, 4)), replace=False)))
        for _ in range(count)
    ]
    tables = [generator.random([SIZES[a] for a in held]) for held in sets]
    tree, product = FactorTree(clique, sets, SIZES), np.empty([SIZES[a] for a in clique])
    tree.multiply(tables, out=product)
    expected = np.ones_like(product)
    for table, held in zip(tables, sets, strict=True):
        expected *= table.reshape([SIZES[a] if a in held else 1 for a in clique])
    assert np.abs(product - expected).max() < 1e-14
    for found, held in zip(tree.sums(product), sets, strict=True):
        out = tuple(axis for axis, a in enumerate(clique) if a not in held)
        assert np.abs(found - product.sum(axis=out)).max() < 1e-12


def test_conditions_give_conditional_probabilities() -> None:
    generator = np.random.default_rng(3)
    sets: list[tuple[int, ...]] = [(0, 1), (1, 2), (3, 4)]
    factors = {c: generator.normal(size=[SIZES[a] for a in c]) for c in sets}
    probabilities, _ = dense(SIZES, factors)
    given = MarginalModel(SIZES, factors).where({1: [0, 2], 4: [1]})
    kept = probabilities.copy()
    kept[:, 1] = 0
    kept[:, :, :, :, [0, 2]] = 0
    kept /= kept.sum()
    assert np.abs(given.marginal((0, 2, 3)) - summed(kept, (0, 2, 3))).max() < 1e-12
    assert given.where({1: [0]}).marginal((1,)).tolist() == [1, 0, 0]
    with pytest.raises(InvalidParameter, match="some cell possible"):
        given.where({1: [1]})


def test_cliques_hold_the_sets_and_any_two_share_what_lies_between() -> None:
    generator = np.random.default_rng(5)
    for _ in range(50):
        sets = [
            tuple(sorted(generator.choice(6, size=int(generator.integers(1, 4)), replace=False)))
            for _ in range(5)
        ]
        tree = JunctionTree(SIZES, sets)
        assert all(tree.home(columns) is not None for columns in sets)
        assert tree.cells == ColumnGraph(SIZES, sets).cells
        assert tree.cells == sum(math.prod(SIZES[a] for a in c) for c in tree.cliques)
        for column in range(6):  # the cliques that hold a column are connected
            held = [i for i, clique in enumerate(tree.cliques) if column in clique]
            tops = [i for i in held if column not in tree.separators[i]]
            assert len(tops) == 1
            assert all(tree.parents[i] in held for i in held if i not in tops)
