"""Errors of regressions: the recursion against simulation and a closed form, spread, gates."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.inference.designs import DESIGNS
from tests.inference.regressions import REGRESSIONS, parameters
from tests.inference.watched_fits import watch, worst_rows

from unacorda import GDP, SeededBits, inference
from unacorda.inference import sums
from unacorda.inference.records import Floats
from unacorda.inference.regression import rows
from unacorda.inference.regression.covariance import (
    Step,
    privacy_errors,
    propagated,
    sampling_errors,
    shrunk,
    step_ratio,
)
from unacorda.inference.regression.rows import Gradient, Matrix, Released, RowBlock
from unacorda.inference.sums import Moment, packed, unpacked

CURVATURE = np.array([[0.9, 0.3], [0.3, 0.4]])
SCORES = np.array([[0.7, -0.1], [-0.1, 0.5]])


def released(matrix: Any, deviation: float = 1e-9) -> Moment:
    return Moment(matrix=matrix, deviation=deviation)


def test_the_recursion_is_the_covariance_of_simulated_steps() -> None:
    drawn = np.random.default_rng(1)
    steps = [
        Step(preconditioner=np.array([[1.2, 0.1], [0.1, 0.8]]) * factor, noise=noise)
        for factor, noise in ((1.0, 3.0), (0.5, 1.0), (1.3, 0.4))
    ]
    theta = np.zeros((200_000, 2))
    for step in steps:
        noise = drawn.normal(size=theta.shape) * step.noise
        theta = theta - (theta @ CURVATURE + noise) @ step.preconditioner
    # Variances of 200,000 draws: relative deviation 0.0032; 6 of them.
    np.testing.assert_allclose(propagated(steps, CURVATURE), np.cov(theta.T), rtol=0.02, atol=0.004)


def test_equal_steps_have_the_closed_form() -> None:
    # step nu^2 [M (2 I - step M)]^{-1} (I - (I - step M)^{2K})
    step, noise, count = 0.7, 0.3, 5
    steps = [Step(preconditioner=step * np.eye(2), noise=noise)] * count
    rest = np.eye(2) - np.linalg.matrix_power(np.eye(2) - step * CURVATURE, 2 * count)
    inner = CURVATURE @ (2 * np.eye(2) - step * CURVATURE)
    closed = step * noise**2 * np.linalg.inv(inner) @ rest
    np.testing.assert_allclose(propagated(steps, CURVATURE), closed, rtol=1e-6)


def test_what_the_last_step_left_of_its_way_is_added() -> None:
    steps = [Step(preconditioner=0.5 * np.eye(2), noise=0.0)]
    last = np.array([1.0, -2.0])
    left = (np.eye(2) - 0.5 * CURVATURE) @ last
    np.testing.assert_allclose(privacy_errors(steps, CURVATURE, last), np.outer(left, left))


def test_the_sampling_part_is_the_sandwich() -> None:
    found = sampling_errors(
        CURVATURE, CURVATURE, released(SCORES), level=float(np.trace(SCORES)), number=50.0
    )
    inverse = np.linalg.inv(CURVATURE)
    np.testing.assert_allclose(found, inverse @ SCORES @ inverse / 50, rtol=1e-6)


def test_scores_that_noise_explains_are_a_multiple_of_the_curvature() -> None:
    noisy = released(2 * CURVATURE + 0.1, deviation=10.0)
    matrix, kept = shrunk(noisy, 2 * CURVATURE)
    assert kept == 0
    np.testing.assert_array_equal(matrix, 2 * CURVATURE)
    matrix, kept = shrunk(released(SCORES), 2 * CURVATURE)
    assert kept == pytest.approx(1)


def test_packed_matrices_keep_their_norm() -> None:
    numbers = packed(SCORES)
    assert np.linalg.norm(numbers) == pytest.approx(np.linalg.norm(SCORES))
    np.testing.assert_allclose(unpacked(numbers, 2), SCORES)


def test_a_wrong_curvature_makes_the_last_step_too_long() -> None:
    """Steps with M taken for 2 M, or far from their end, are longer than their errors explain."""
    good = [Step(preconditioner=np.linalg.inv(CURVATURE), noise=0.01)]
    covariance = propagated(good, CURVATURE)
    near = step_ratio(np.eye(2), good, CURVATURE, np.array([0.01, 0.01]), covariance)
    far = step_ratio(np.eye(2), good, CURVATURE, np.array([1.0, 1.0]), covariance)
    assert near < 3.5 < far


@pytest.mark.parametrize("name", ["linear", "logistic", "huber"])
@pytest.mark.slow
@pytest.mark.statistical
def test_the_spread_of_noise_is_what_it_is_said_to_be(name: str) -> None:
    """300 fits to one table: deviations are known to 4 %, and lie within a quarter of the claim."""
    x, y = REGRESSIONS[name].draw(5000, np.random.default_rng(7))
    bits = SeededBits(7)
    found, claimed = [], []
    for _ in range(300):
        model = REGRESSIONS[name].make(bits).fit(x, y)
        found.append(parameters(model))
        claimed.append(model.privacy_error_**2)
    ratio = np.std(found, axis=0) / np.sqrt(np.mean(claimed, axis=0))
    assert (ratio > 0.75).all()
    assert (ratio < 1.25).all()


def test_every_matrix_of_a_fit_is_of_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Gram matrix that whitens steps is that of their weights, for dummies too."""
    squares: list[float] = []
    ask = rows.ArrayRows.ask

    def noting(self: Any, *releases: Any, theta: Any = None) -> Any:
        squares.extend(one.bound for one in releases if isinstance(one, Matrix))
        return ask(self, *releases, theta=theta)

    monkeypatch.setattr(rows.ArrayRows, "ask", noting)
    design = DESIGNS["3 dummies 10 %"]
    drawn = np.random.default_rng(3)
    x = design.draw(drawn, 5000)
    y = x @ [1.0, 2.0, 3.0] + drawn.normal(size=5000)
    inference.LinearRegression(
        budget=GDP(1), feature_bounds=design.bounds, target_bounds=(-10, 20), bits=SeededBits(3)
    ).fit(x, y)
    *_, gram, inside, _ = squares  # two of whitening, G, M, Q
    assert len(squares) == 5
    assert gram == inside


def test_the_curvature_of_counts_is_the_derivative_of_cut_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of few people, where many gradients are cut; by differences, and not without the cut."""
    found: list[Floats] = []
    gradients: list[Gradient] = []
    ask = rows.ArrayRows.ask

    def noting(self: Any, *releases: Any, theta: Any = None) -> Any:
        gradients.extend(one for one in releases if isinstance(one, Gradient))
        if isinstance(releases[0], Matrix) and theta is not None:
            found.extend(_both_ways(self, releases[0], gradients[-1], theta))
        return ask(self, *releases, theta=theta)

    monkeypatch.setattr(rows.ArrayRows, "ask", noting)
    design = DESIGNS["3 dummies 10 %"]
    drawn = np.random.default_rng(3)
    x = design.draw(drawn, 1000)
    y = drawn.poisson(np.exp(2 + x @ [0.3, -0.2, 0.1])).astype(np.float64)
    inference.PoissonRegression(
        budget=GDP(1), feature_bounds=design.bounds, largest=100, bits=SeededBits(3)
    ).fit(x, y)
    told, by_differences, of_all = found
    np.testing.assert_allclose(told, by_differences, atol=2e-3)
    assert np.abs(of_all - told).max() > 0.05


def _both_ways(rows: Any, matrix: Matrix, gradient: Gradient, theta: Floats) -> list[Floats]:
    """M as it is asked, without noise and cap; the derivative of gradients, cut and whole."""
    everybody, a = slice(0, len(rows.rows)), rows.rows

    def mean(theta: Floats, bound: float) -> Floats:
        values = rows._of(gradient.of, everybody, theta)
        length = np.abs(values) * np.linalg.norm(a, axis=1)
        values = values * np.minimum(1.0, bound / np.maximum(length, 1e-300))
        return np.asarray(values @ a / len(a))

    def derivative(bound: float) -> Floats:
        steps = 1e-6 * np.eye(len(theta))
        columns = [mean(theta + step, bound) - mean(theta - step, bound) for step in steps]
        return np.array(columns).T / 2e-6

    told = (a * rows._of(matrix.of, everybody, theta)[:, None]).T @ a / len(a)
    return [np.asarray(told), derivative(gradient.bound), derivative(np.inf)]


def _matrices_felt_as_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sums, "ROOT_TWO", Fraction(1))


def _matrices_not_cut(patch: pytest.MonkeyPatch) -> None:
    def uncut(self: Any, asked: Matrix, theta: Any) -> Moment:
        def part(block: slice) -> Floats:
            rows = self.rows[block]
            found: Floats = (rows * self._of(asked.of, block, theta)[:, None]).T @ rows
            return found

        bound = Fraction(asked.bound)
        found: Moment = self.sums.moment(part, size=self.size, trace_bound=bound, share=asked.share)
        return found

    patch.setattr(RowBlock, "weight", lambda row, _: row.own)
    patch.setattr(rows.ArrayRows, "_matrix", uncut)


def _gradients_not_cut(patch: pytest.MonkeyPatch) -> None:
    def uncut(self: Any, asked: Gradient, theta: Any) -> Released:
        def part(block: slice) -> Floats:
            total: Floats = self._of(asked.of, block, theta) @ self.rows[block]
            return total

        longest = Fraction(asked.bound)
        found: Released = self._mean(
            part, size=self.size, longest=longest, apart=2, share=asked.share
        )
        return found

    patch.setattr(rows.ArrayRows, "_gradient", uncut)


@pytest.mark.parametrize(
    "fault",
    [_matrices_felt_as_one, _matrices_not_cut, _gradients_not_cut],
    ids=lambda fault: fault.__name__,
)
def test_planted_faults_are_seen_by_replacing_people(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    seen = watch(monkeypatch)
    x, y = worst_rows(120, 2, seed=1)
    REGRESSIONS["linear"].make(SeededBits(1), budget=GDP(12)).fit(x, y)
    assert any(one.farthest > one.sensitivity * (1 + 2**-29) for one in seen)
