"""Covariance and correlation matrices: sensitivity, errors as told, strange tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pandas
import pytest
from tests.support.cases import in_subtests

from unacorda import GDP, ApproxDP, PureDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee


@in_subtests("p", [1, 2, 3, 4, 7])
@in_subtests("factor", [1.0, 1.7])
def test_first_and_second_moments_move_no_farther_than_is_said(p: int, factor: float) -> None:
    a = factor * math.sqrt(2 / p)
    told = math.sqrt(2) * (a * p + 1 / (2 * a))
    drawn = np.random.default_rng(p)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=p)))
    inner = drawn.uniform(-1, 1, (100, p))
    points = np.concatenate([corners, inner, np.zeros((1, p))])
    rows = np.concatenate(
        [points, a * (points[:, :, None] * points[:, None, :]).reshape(-1, p * p)], 1
    )
    farthest = max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
    assert farthest <= told * (1 + 1e-12)
    assert farthest >= 0.7 * told  # and it is not far from that


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("budget", [GDP(1), PureDP(4), ApproxDP(2, 1e-6)], ids=repr)
def test_intervals_cover_the_entries(budget: Guarantee) -> None:
    # 3 variances and 3 covariances of 60 samples; entries of a sample hang together, so that each
    # counts by itself: fewer than 44 of 60 with p < 1e-7 at a coverage of 0.95, 6 entries.
    drawn, bits = np.random.default_rng(1), SeededBits(2)
    truth = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.0]])
    covered, related = np.zeros((3, 3)), np.zeros((3, 3))
    for _ in range(60):
        x = drawn.multivariate_normal(np.zeros(3), truth, 2000)
        for counts, ask in (
            (covered, inference.covariance_matrix),
            (related, inference.correlation_matrix),
        ):
            lower, upper = ask(x, bounds=[(-5, 5)] * 3, budget=budget, bits=bits).interval()
            np.add(counts, (lower - 1e-12 <= truth) & (truth <= upper + 1e-12), out=counts)
    assert covered.min() >= 44
    assert related.min() >= 44


def test_values_are_positive_semidefinite_and_named() -> None:
    frame = pandas.DataFrame({"a": [1.0, math.nan], "b": [math.inf, 2.0]})
    estimate = inference.covariance_matrix(
        frame, bounds=[(0, 1), (-1, 1)], budget=GDP(0.1), bits=SeededBits(1)
    )
    assert np.linalg.eigvalsh(estimate.value).min() >= -1e-9 * np.abs(estimate.value).max()
    assert list(estimate.to_pandas().columns) == ["a", "b"]
    related = inference.correlation_matrix(frame, bounds=[(0, 1)] * 2, budget=GDP(0.1))
    assert (np.abs(related.value) <= 1).all()
    assert np.isfinite(related.standard_error).all()


@pytest.mark.parametrize(
    ("bounds", "named"),
    [
        ([], "bounds"),
        ([(0, 1)], "bounds"),
        (5, "bounds"),
        ([(0, 1), (1, 0)], "bounds[1]"),
        ([(0, 1), (0, 1, 2)], "bounds[1]"),
        ([3, (0, 1)], "bounds[0]"),
        ([None, (0, 1)], "bounds[0]"),
    ],
)
def test_bounds_that_do_not_fit_are_named(bounds: Any, named: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{re.escape(named)}="):
        inference.covariance_matrix(np.zeros((3, 2)), bounds=bounds, budget=GDP(1))
