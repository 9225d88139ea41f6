"""Strategies: their columns, their errors, and that the best found is between its bounds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated.strategies import (
    best_hierarchical,
    haar,
    hierarchical,
    identity,
    optimal,
    svd_bound,
    total_variance,
)
from unacorda.mechanisms.correlated.workloads import Prefixes, Queries, Ranges

Floats = NDArray[np.float64]


@pytest.mark.parametrize("cells", [1, 2, 5, 16, 100])
def test_columns_have_norm_one_and_cells_can_be_told_apart(cells: int) -> None:
    made = [identity(cells), haar(cells)]
    made += [hierarchical(cells, branching=b) for b in (2, 3, 10)]
    for strategy in made:
        norms = np.linalg.norm(strategy, axis=0)
        assert norms == pytest.approx(np.ones(cells))
        assert np.linalg.matrix_rank(strategy) == cells


def direct_variance(rows: Floats, strategy: Floats) -> float:
    """Sensitivity squared times the squared Frobenius norm of A C^+."""
    square = float((strategy**2).sum(axis=0).max())
    return square * float(((rows @ np.linalg.pinv(strategy)) ** 2).sum())


@pytest.mark.parametrize("cells", [4, 13])
def test_total_variances_are_exact_traces(cells: int) -> None:
    rows = np.random.default_rng(cells).normal(size=(6, cells))
    scale = np.random.default_rng(1).uniform(0.5, 2, size=cells)
    for strategy in (identity(cells), haar(cells), hierarchical(cells, branching=2) * scale):
        found = total_variance(rows, strategy)
        assert found == pytest.approx(direct_variance(rows, strategy), rel=1e-9)
        assert found >= svd_bound(rows) * (1 - 1e-9)
    assert svd_bound(rows) == pytest.approx(
        np.linalg.svd(rows, compute_uv=False).sum() ** 2 / cells, rel=1e-9
    )


@pytest.mark.parametrize("workload", [Prefixes(32), Ranges(32), Ranges(50)])
def test_the_best_found_is_between_the_bound_and_every_known_strategy(workload: Any) -> None:
    best = optimal(workload)
    known = [identity(workload.cells), haar(workload.cells)]
    known += [hierarchical(workload.cells, branching=b) for b in (2, 3, 4, 8)]
    known.append(best_hierarchical(workload))
    for strategy in known:
        assert best.total_variance <= total_variance(workload, strategy)
        assert total_variance(workload, best_hierarchical(workload)) <= total_variance(
            workload, identity(workload.cells)
        )
    assert best.lower_bound <= best.total_variance <= 1.0001 * best.lower_bound
    assert best.lower_bound >= svd_bound(workload) * (1 - 1e-9)
    assert total_variance(workload, best.matrix) == pytest.approx(best.total_variance, rel=1e-8)
    assert np.linalg.norm(best.matrix, axis=0) == pytest.approx(np.ones(workload.cells))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 2**32))
def test_any_workload_has_a_strategy_near_its_lower_bound(
    cells: int, queries: int, seed: int
) -> None:
    # Also where queries are few, repeat each other or leave cells out.
    rows = np.random.default_rng(seed).integers(-1, 2, (queries, cells)).astype(float)
    rows[0, 0] = 1
    best = optimal(rows, tolerance=1e-3)
    assert best.lower_bound >= svd_bound(rows) * (1 - 1e-6)
    assert total_variance(rows, best.matrix) == pytest.approx(best.total_variance, rel=1e-5)
    assert best.total_variance <= 1.01 * best.lower_bound
    assert best.total_variance <= total_variance(rows, identity(cells)) * (1 + 1e-9)


def test_no_other_search_finds_a_better_one() -> None:
    # A general minimiser over upper triangular strategies with columns of norm 1.
    rows = np.random.default_rng(8).normal(size=(7, 4))
    places = np.triu_indices(4)

    def cost(numbers: Any) -> float:
        strategy = np.zeros((4, 4))
        strategy[places] = numbers
        strategy /= np.linalg.norm(strategy, axis=0)
        return float(((rows @ np.linalg.inv(strategy)) ** 2).sum())

    starts = np.random.default_rng(2).normal(size=(6, 10)) + np.eye(4)[places]
    found = min(optimize.minimize(cost, start).fun for start in starts)
    best = optimal(rows, tolerance=1e-7)
    assert best.total_variance == pytest.approx(found, rel=1e-5)
    assert best.lower_bound <= found * (1 + 1e-9)


def test_workloads_that_are_solved_in_closed_form() -> None:
    # One query: measure it. Orthogonal queries of equal size: measure them.
    assert optimal(np.ones((1, 9))).total_variance == pytest.approx(1, rel=1e-4)
    hadamard = np.array([[1.0, 1], [1, -1]])
    four = np.kron(hadamard, hadamard)
    assert optimal(four).total_variance == pytest.approx(16, rel=1e-4)
    assert svd_bound(four) == pytest.approx(16)


def test_cells_that_no_query_uses_are_not_measured() -> None:
    rows = np.array([[0.0, 1, 1, 0], [0, 1, 0, 0]])
    best = optimal(rows)
    assert np.array_equal(best.matrix[:, [0, 3]], np.zeros((best.matrix.shape[0], 2)))
    inner = optimal(rows[:, 1:3])
    assert best.total_variance == pytest.approx(inner.total_variance, rel=1e-3)


def test_scaling_a_workload_scales_its_variance() -> None:
    for factor in (1e-6, 1e6):
        scaled = optimal(Queries(factor * np.tril(np.ones((8, 8)))))
        assert scaled.total_variance / factor**2 == pytest.approx(
            optimal(Prefixes(8)).total_variance, rel=2e-4
        )


def test_a_strategy_that_does_not_answer_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="each query can be computed"):
        total_variance(np.eye(3), np.ones((1, 3)))
    with pytest.raises(InvalidParameter, match="3 columns"):
        total_variance(np.eye(3), np.eye(2))
    assert total_variance(np.ones((1, 3)), np.ones((1, 3))) == pytest.approx(1)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: identity(0), "cells=0"),
        (lambda: haar(5000), "cells=5000"),
        (lambda: hierarchical(4, branching=1), "branching=1"),
        (lambda: hierarchical(4.5, branching=2), "cells=4.5"),  # type: ignore[arg-type]
        (lambda: optimal(Ranges(4), tolerance=0), "tolerance=0"),
        (lambda: total_variance(np.eye(2), [[np.nan, 1]]), "strategy="),
    ],
)
def test_numbers_that_mean_nothing_are_refused(make: Any, match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        make()
