"""Fits of graphical models to noisy marginals, against direct minimization and mbi."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import check_grad, minimize, nnls
from tests.synthesis.dense_models import dense, summed

from unacorda.synthesis.model import MarginalModel, NoisyMarginal, average, fit_model
from unacorda.synthesis.model import _Problem as Problem

SIZES = (2, 3, 2, 3)
SETS: list[tuple[int, ...]] = [(0,), (0, 1), (1, 2), (0, 2), (2, 3)]
ROWS = 200.0


def noisy(seed: int, *, variance: float = 20.0) -> list[NoisyMarginal]:
    generator = np.random.default_rng(seed)
    joint = generator.dirichlet(np.full(math.prod(SIZES), 0.5)).reshape(SIZES) * ROWS
    return [
        NoisyMarginal(
            columns=c,
            counts=summed(joint, c)
            + math.sqrt(variance) * generator.normal(size=[*np.take(SIZES, c)]),
            variance=variance,
        )
        for c in SETS
    ]


def tau_of(seen: NoisyMarginal) -> float:
    """As the page of proofs has it."""
    sigma = math.sqrt(seen.variance)
    return 1 / min(max(ROWS / seen.counts.size, sigma / 10), 4 * sigma)


def direct(seen: list[NoisyMarginal]) -> NDArray[Any]:
    """The joint probabilities of the least value, from the dense table alone."""
    ends = np.cumsum([0, *(one.counts.size for one in seen)])
    shifted = [one.counts + (ROWS - one.counts.sum()) / one.counts.size for one in seen]

    def factors(theta: NDArray[Any]) -> dict[tuple[int, ...], NDArray[Any]]:
        parts = [theta[a:b] for a, b in itertools.pairwise(ends)]
        return {
            one.columns: part.reshape(one.counts.shape)
            for one, part in zip(seen, parts, strict=True)
        }

    def value(theta: NDArray[Any]) -> float:
        _, log_total = dense(SIZES, factors(theta))
        total = ROWS * log_total
        for one, target in zip(seen, shifted, strict=True):
            part = factors(theta)[one.columns]
            total -= float((part * target).sum())
            total += tau_of(one) * one.variance * float((part**2).sum()) / 2
        return total

    found = minimize(value, np.zeros(ends[-1]), method="BFGS", options={"gtol": 1e-7})
    return dense(SIZES, factors(found.x))[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_fit_is_the_direct_minimum(seed: int) -> None:
    seen = noisy(seed)
    model = fit_model(SIZES, seen, rows=ROWS, tolerance=1e-15)
    joint = direct(seen)
    for columns in [*SETS, (0, 1, 2, 3)]:
        assert np.abs(model.marginal(columns) - summed(joint, columns)).max() < 2e-5


def test_the_default_tolerance_is_close_to_the_minimum() -> None:
    for seed in range(5):
        seen = noisy(seed)
        exact = fit_model(SIZES, seen, rows=ROWS, tolerance=1e-15)
        quick = fit_model(SIZES, seen, rows=ROWS)
        for columns in SETS:
            assert np.abs(exact.marginal(columns) - quick.marginal(columns)).max() < 2e-3


def test_gradients_are_those_of_the_value() -> None:
    mask = np.array([[True, True, False], [True, True, True]])
    empty = MarginalModel(
        SIZES,
        dict.fromkeys(SETS, np.zeros(())) | {c: np.zeros([SIZES[a] for a in c]) for c in SETS},
        possible={(0, 1): mask},
    )
    problem = Problem(empty, noisy(4), rows=ROWS, ridge=None)
    point = np.random.default_rng(1).normal(size=problem.target.size)
    off = check_grad(lambda x: problem.value(x)[0], lambda x: problem.value(x)[1], point)
    assert off < 1e-5


def test_values_and_gradients_are_those_of_the_dense_table() -> None:
    """N log Z - <theta, y> + the ridge, and N mu - y + the ridge, with sums over all cells."""
    seen = noisy(4)
    empty = MarginalModel(SIZES, {c: np.zeros([SIZES[a] for a in c]) for c in SETS})
    problem = Problem(empty, seen, rows=ROWS, ridge=None)
    point = np.random.default_rng(2).normal(size=problem.target.size)
    theta = problem.potentials(point)
    joint, log_total = dense(SIZES, theta)
    value, gradient = problem.value(point)
    expected = ROWS * log_total
    slopes = problem.potentials(gradient * ROWS / problem.scale**2)
    for one in seen:
        target = one.counts + (ROWS - one.counts.sum()) / one.counts.size
        ridge = tau_of(one) * one.variance
        expected += float(
            (ridge * theta[one.columns] / 2 - target).ravel() @ theta[one.columns].ravel()
        )
        off = ROWS * summed(joint, one.columns) - target + ridge * theta[one.columns]
        assert np.abs(slopes[one.columns] - off).max() < 1e-10
    assert value * ROWS == pytest.approx(expected, rel=1e-12)


def test_potentials_too_large_for_floats_have_values_and_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where factors vanish their logarithms are used: both ways agree where both can be taken."""
    empty = MarginalModel(SIZES, {c: np.zeros([SIZES[a] for a in c]) for c in SETS})
    problem = Problem(empty, noisy(4), rows=ROWS, ridge=None)
    point = np.random.default_rng(2).normal(size=problem.target.size)
    by_factors = problem.value(point)
    monkeypatch.setattr(problem.tree, "calibrate_products", lambda *_, **__: None)
    by_logs = problem.value(point)
    assert by_factors[0] == pytest.approx(by_logs[0], rel=1e-13)
    assert np.abs(by_factors[1] - by_logs[1]).max() < 1e-13
    problem = Problem(empty, noisy(4), rows=ROWS, ridge=None)
    value, gradient = problem.value(1e5 * point)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_tables_almost_without_noise_are_met() -> None:
    seen = [
        NoisyMarginal(columns=one.columns, counts=np.maximum(one.counts, 5), variance=1e-9)
        for one in noisy(3, variance=1e-9)[:1]
    ]
    seen.append(NoisyMarginal(columns=(1, 2), counts=np.full((3, 2), ROWS / 6), variance=1e-9))
    total = float(seen[0].counts.sum())
    model = fit_model(SIZES, seen, rows=total, tolerance=1e-15)
    assert np.abs(model.marginal((0,)) - seen[0].counts / total).max() < 1e-6
    assert np.abs(model.marginal((1, 2)) - 1 / 6).max() < 1e-6


def test_tables_of_mere_noise_give_the_uniform_distribution() -> None:
    model = fit_model(SIZES, noisy(3, variance=1e12), rows=ROWS)
    found = model.marginal((0, 1, 2, 3))
    assert np.isfinite(found).all()
    assert found.max() < 1.5 / found.size


@pytest.mark.parametrize("rows", [0.0, -50.0, 0.3])
def test_empty_tables_and_fewer_rows_than_one_are_fitted(rows: float) -> None:
    seen = [NoisyMarginal(columns=(0, 1), counts=np.zeros((2, 3)), variance=4.0)]
    assert fit_model(SIZES, seen, rows=rows).marginal((0, 1)).sum() == pytest.approx(1)


def test_columns_of_one_cell_and_no_tables_at_all_are_fitted() -> None:
    assert fit_model((1, 2), [], rows=5).marginal((0, 1)).tolist() == [[0.5, 0.5]]
    seen = [NoisyMarginal(columns=(0,), counts=np.array([4.0]), variance=4.0)]
    assert fit_model((1,), seen, rows=5).marginal((0,)).tolist() == [1.0]


def test_impossible_cells_stay_empty_whatever_was_measured() -> None:
    mask = np.array([[True, True, False], [False, True, True]])
    model = fit_model(SIZES, noisy(5), rows=ROWS, possible={(0, 1): mask})
    assert not model.marginal((0, 1))[~mask].any()
    assert model.marginal((0, 1))[mask].min() > 0


def test_a_start_changes_nothing_but_the_time() -> None:
    seen = noisy(6)
    cold = fit_model(SIZES, seen, rows=ROWS, tolerance=1e-15)
    warm = fit_model(SIZES, seen, rows=ROWS, tolerance=1e-15, start=cold.potentials)
    assert np.abs(cold.marginal((0, 1, 2, 3)) - warm.marginal((0, 1, 2, 3))).max() < 1e-5


def test_two_measurements_are_averaged_by_their_precision() -> None:
    one = NoisyMarginal(columns=(0,), counts=np.array([0.0, 8.0]), variance=4.0)
    two = NoisyMarginal(columns=(0,), counts=np.array([4.0, 8.0]), variance=12.0)
    both = average(one, two)
    assert both.counts.tolist() == [1.0, 8.0]
    assert both.variance == pytest.approx(3.0)


def test_almost_without_a_ridge_the_fit_is_that_of_least_squares() -> None:
    """The problem is hardly curved: short memories and failed steps do not get there."""
    seen = noisy(8, variance=4.0)
    seen = [
        NoisyMarginal(columns=s.columns, counts=np.maximum(s.counts, 3), variance=4.0) for s in seen
    ]
    cells = np.eye(math.prod(SIZES)).reshape(*SIZES, -1)
    matrix, targets = [np.full((1, cells.shape[-1]), 1e4)], [np.array([1e4 * ROWS])]
    for one in seen:
        out = tuple(axis for axis in range(len(SIZES)) if axis not in one.columns)
        matrix.append(cells.sum(axis=out).reshape(one.counts.size, -1))
        shifted = one.counts + (ROWS - one.counts.sum()) / one.counts.size
        targets.append(shifted.ravel())
    joint = nnls(np.concatenate(matrix), np.concatenate(targets))[0].reshape(SIZES)
    model = fit_model(SIZES, seen, rows=ROWS, ridge=1e-6, tolerance=1e-15, iterations=5000)
    for one in seen:
        off = model.marginal(one.columns) * ROWS - summed(joint, one.columns)
        assert np.abs(off).max() < 0.01


def test_marginals_are_those_of_mbi_where_it_is_installed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mbi: Any = pytest.importorskip("mbi")
        seen = noisy(8, variance=4.0)
        seen = [  # without noise below 0, and of one total, both methods have one optimum
            NoisyMarginal(columns=s.columns, counts=np.maximum(s.counts, 3), variance=4.0)
            for s in seen
        ]
        seen = [
            NoisyMarginal(columns=s.columns, counts=s.counts * ROWS / s.counts.sum(), variance=4.0)
            for s in seen
        ]
        names = ["a", "b", "c", "d"]
        domain = mbi.Domain(names, SIZES)
        measurements = [
            mbi.LinearMeasurement(s.counts.ravel(), tuple(names[a] for a in s.columns), stddev=2.0)
            for s in seen
        ]
        theirs = mbi.estimation.MirrorDescent().estimate(
            domain, measurements, known_total=ROWS, iters=3000
        )
    model = fit_model(SIZES, seen, rows=ROWS, ridge=1e-6, tolerance=1e-15, iterations=5000)
    for s in seen:
        values = np.asarray(theirs.project(tuple(names[a] for a in s.columns)).datavector())
        found = model.marginal(s.columns).ravel() * ROWS
        assert np.abs(values - found).max() < 0.05
