"""Workloads against their matrices."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated.workloads import Prefixes, Queries, Ranges, as_workload

Floats = NDArray[np.float64]


def matrix_of(workload: Any) -> Floats:
    """Its rows, from its answers to single cells."""
    return np.array([workload.answers(row) for row in np.eye(workload.cells)]).T


def test_prefixes_and_ranges_are_what_they_say() -> None:
    assert np.array_equal(matrix_of(Prefixes(4)), np.tril(np.ones((4, 4))))
    ranges = Ranges(5)
    rows = matrix_of(ranges)
    for row, (start, stop) in zip(rows, ranges.bounds.tolist(), strict=True):
        assert row.tolist() == [float(start <= cell < stop) for cell in range(5)]
    assert len({tuple(row) for row in rows.tolist()}) == ranges.queries == 15


@pytest.mark.parametrize("cells", [1, 2, 7, 20])
@pytest.mark.parametrize("kind", [Prefixes, Ranges])
def test_grams_and_variances_are_those_of_the_matrix(kind: Any, cells: int) -> None:
    workload = kind(cells)
    rows = matrix_of(workload)
    assert rows.shape == (workload.queries, workload.cells)
    assert np.array_equal(workload.gram, rows.T @ rows)
    root = np.random.default_rng(cells).normal(size=(cells, cells))
    covariance = root @ root.T
    expected = np.diag(rows @ covariance @ rows.T)
    assert workload.variances(covariance) == pytest.approx(expected, rel=1e-9)
    written = Queries(rows)
    assert np.array_equal(written.gram, workload.gram)
    assert written.variances(covariance) == pytest.approx(expected, rel=1e-9)
    histogram = np.arange(cells, dtype=float)
    assert written.answers(histogram) == pytest.approx(workload.answers(histogram))


def test_a_workload_is_kept_and_a_matrix_is_read() -> None:
    ranges = Ranges(3)
    assert as_workload(ranges) is ranges
    given = np.eye(2)
    read = as_workload(given)
    given[0, 0] = 5
    assert read.answers(np.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    "value",
    [
        "a",
        [1, 2],
        [[1j]],
        [[np.nan]],
        [[np.inf, 1]],
        [[0, 0]],
        np.zeros((0, 3)),
        np.ones((1, 5000)),
        None,
    ],
)
def test_what_is_no_matrix_of_queries_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="workload="):
        as_workload(value)


@in_subtests("cells", [0, -1, 1.5, 2**13, True])
@in_subtests("kind", [Prefixes, Ranges])
def test_sizes_that_mean_nothing_are_refused(kind: Any, cells: Any) -> None:
    with pytest.raises(InvalidParameter, match="cells="):
        kind(cells)
