"""Standard errors: the recursion of the noise against simulation and a closed form, the gate."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest

from unacorda.inference.noisy_sums import Moment, packed, unpacked
from unacorda.inference.sandwich import Step, standard_errors

CURVATURE = np.array([[0.9, 0.3], [0.3, 0.4]])
SCORES = np.array([[0.7, -0.1], [-0.1, 0.5]])

NOWHERE = np.zeros(2)


def released(matrix: np.ndarray, deviation: float = 1e-9) -> Moment:
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
    errors = standard_errors(
        steps, NOWHERE, curvature=released(CURVATURE), scores=released(SCORES), rows=100
    )
    # Variances of 200,000 draws: relative deviation 0.0032; 6 of them.
    np.testing.assert_allclose(errors.privacy, np.cov(theta.T), rtol=0.02, atol=0.004)


def test_equal_steps_have_the_closed_form() -> None:
    # n step nu^2 [M (2 I - step M)]^{-1} (I - (I - step M)^{2K}) step, per person's mean.
    step, noise, count = 0.7, 0.3, 5
    errors = standard_errors(
        [Step(preconditioner=step * np.eye(2), noise=noise)] * count,
        NOWHERE,
        curvature=released(CURVATURE),
        scores=released(SCORES),
        rows=1,
    )
    rest = np.eye(2) - np.linalg.matrix_power(np.eye(2) - step * CURVATURE, 2 * count)
    inner = CURVATURE @ (2 * np.eye(2) - step * CURVATURE)
    closed = step * noise**2 * np.linalg.inv(inner) @ rest
    np.testing.assert_allclose(errors.privacy, closed, rtol=1e-6)


def test_the_sampling_part_is_the_sandwich() -> None:
    errors = standard_errors(
        [], NOWHERE, curvature=released(CURVATURE), scores=released(SCORES), rows=50, unit=2.0
    )
    inverse = np.linalg.inv(CURVATURE)
    np.testing.assert_allclose(errors.sampling, 4 * inverse @ SCORES @ inverse / 50, rtol=1e-6)
    assert errors.contraction == 1.0


@pytest.mark.parametrize(("deviation", "enough"), [(0.05, True), (0.1, False)])
def test_errors_are_infinite_where_noise_hides_the_curvature(
    deviation: float, enough: bool
) -> None:
    # The least eigenvalue of the curvature is 0.26; the noise's norm is 2 deviations.
    errors = standard_errors(
        [], NOWHERE, curvature=released(CURVATURE, deviation), scores=released(SCORES), rows=50
    )
    assert errors.enough is enough
    assert np.isinf(errors.sampling).all() is np.bool_(not enough)


def test_negative_eigenvalues_of_noisy_scores_become_small_positive_ones() -> None:
    errors = standard_errors(
        [], NOWHERE, curvature=released(np.eye(2)), scores=released(-SCORES, 0.01), rows=1
    )
    assert np.linalg.eigvalsh(errors.sampling).min() == pytest.approx(0.01, rel=1e-2)


def noisy(matrix: np.ndarray, deviation: float, drawn: np.random.Generator) -> Moment:
    size = len(matrix)
    noise = unpacked(drawn.normal(size=size * (size + 1) // 2), size)
    return Moment(matrix=matrix + deviation * noise, deviation=deviation)


def test_noise_in_the_scores_makes_errors_no_larger_on_average() -> None:
    # Of 4 parameters, noise as large as the eigenvalues; floors alone would add a third.
    drawn, bent = np.random.default_rng(3), np.diag([1.0, 0.9, 0.8, 0.7])
    found = [
        standard_errors(
            [],
            np.zeros(4),
            curvature=released(bent),
            scores=noisy(0.2 * bent, 0.1, drawn),
            rows=1,
        ).sampling
        for _ in range(4000)
    ]
    truth = 0.2 * np.linalg.inv(bent)
    # Diagonals of a mean of 4000, each with a deviation of at most 0.12: 5.5 of them are 0.0105.
    ratio = np.mean(found, axis=0).diagonal() / truth.diagonal()
    assert np.abs(ratio - 1).max() < 0.06
    assert np.mean([np.linalg.eigvalsh(one)[0] > 0 for one in found]) == 1


def test_scores_that_differ_from_the_curvature_are_kept_where_noise_is_small() -> None:
    drawn = np.random.default_rng(4)
    unequal = np.array([[0.7, -0.2], [-0.2, 0.2]])
    errors = standard_errors(
        [], NOWHERE, curvature=released(CURVATURE), scores=noisy(unequal, 0.02, drawn), rows=1
    )
    inverse = np.linalg.inv(CURVATURE)
    np.testing.assert_allclose(errors.sampling, inverse @ unequal @ inverse, rtol=0.2, atol=0.2)


def test_the_way_that_is_left_counts_as_an_error() -> None:
    steps = [Step(preconditioner=0.5 * np.eye(2), noise=0.0)] * 2
    errors = standard_errors(
        steps, np.array([3.0, 0.0]), curvature=released(np.eye(2)), scores=released(SCORES), rows=1
    )
    # Of a way of 3 the steps leave 1/4.
    np.testing.assert_allclose(errors.privacy, np.diag([0.75**2, 0.0]), atol=1e-6)
    assert errors.contraction == pytest.approx(0.25)


def test_packing_keeps_the_norm_and_comes_back() -> None:
    numbers = packed(CURVATURE)
    assert np.linalg.norm(numbers) == pytest.approx(np.linalg.norm(CURVATURE))
    np.testing.assert_allclose(unpacked(numbers, 2), CURVATURE)


def test_noise_norm_is_that_of_symmetric_normal_matrices() -> None:
    drawn, size = np.random.default_rng(2), 60
    norms = []
    for _ in range(30):
        matrix = unpacked(drawn.normal(size=size * (size + 1) // 2), size)
        norms.append(np.linalg.norm(matrix, 2))
    stated = Moment(matrix=np.zeros((size, size)), deviation=1.0).norm
    assert stated == pytest.approx(math.sqrt(120))
    assert 0.9 < np.mean(norms) / stated < 1.05


def test_rows_of_one_person_that_agree_are_errors_of_one() -> None:
    alone, several = (
        standard_errors(
            [],
            NOWHERE,
            curvature=released(CURVATURE),
            scores=released(SCORES),
            rows=50 * repeated,
            repeated=repeated,
        )
        for repeated in (1, 3)
    )
    np.testing.assert_allclose(several.sampling, alone.sampling, rtol=1e-12)


def test_a_noisy_number_of_rows_moves_a_penalised_solution_as_is_said() -> None:
    # sum of curvatures n M, scores n M (theta - t): theta(n') solves n M (theta - t) + n' P theta.
    penalty, target, rows, error = np.diag([0.0, 0.3]), np.array([2.0, -1.0]), 1000.0, 1.0

    def solution(counted: float) -> np.ndarray:
        whole = rows * CURVATURE + counted * penalty
        return np.linalg.solve(whole, rows * CURVATURE @ target)

    moved = (solution(rows + error) - solution(rows - error)) / 2
    theta = solution(rows)
    errors = standard_errors(
        [],
        NOWHERE,
        curvature=released(CURVATURE),
        scores=released(SCORES),
        rows=rows,
        penalty=penalty,
        penalty_error=penalty @ theta * (error / rows),
    )
    np.testing.assert_allclose(errors.privacy, np.outer(moved, moved), rtol=1e-4, atol=1e-15)
