"""The longest gradients of a line: their tail, and whether they pull one way."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.inference.designs import ols

from unacorda import GDP, SeededBits, inference
from unacorda.inference.records import Floats
from unacorda.inference.regression.bounds import Lengths, ParetoTail


def counted(lengths: Floats, deviation: float = 1.0) -> Lengths:
    """Counts of lengths by half octaves, with normal noise of this deviation."""
    edges = 2.0 ** (np.arange(-10, 20) / 2)
    places = np.minimum(np.searchsorted(edges, lengths), len(edges) - 1)
    counts = np.bincount(places, minlength=len(edges)).astype(np.float64)
    noise = np.random.default_rng(3).normal(scale=deviation, size=len(edges))
    return Lengths(edges=edges, counts=counts + noise, deviation=deviation)


@pytest.mark.parametrize("index", [1.6, 2.2])
def test_a_pareto_tail_is_found_with_what_is_beyond_bounds(index: float) -> None:
    drawn = 1 + np.random.default_rng(1).pareto(index, 50_000)
    tail = ParetoTail.of(counted(drawn))
    # Some 7 to 20 rows lie beyond the last edge that is seen, three times as many before it.
    assert tail.index == pytest.approx(index, abs=0.5)
    for bound in (3.0, 10.0):
        # The mean of what is beyond: the sum itself is decided by its largest rows.
        expected = 50_000 * bound ** (1 - index) / (index - 1)
        assert 0.5 * expected <= tail.excess(bound) <= 2.0 * expected


def test_a_light_tail_is_not_believed_and_excess_falls_with_the_bound() -> None:
    tail = ParetoTail.of(counted(np.abs(np.random.default_rng(1).normal(size=50_000))))
    assert tail.index == 2.5
    found = [tail.excess(bound) for bound in tail.lengths.edges]
    assert all(later <= before for before, later in itertools.pairwise(found))


def fitted(y: Floats, x: Floats, *, seed: int = 1) -> Any:
    return inference.LinearRegression(
        budget=GDP(1), feature_bounds=(0, 8), target_bounds=(-8, 8), bits=SeededBits(seed)
    ).fit(x[:, None], y)


def test_a_line_through_a_curve_is_pulled_and_says_so() -> None:
    drawn = np.random.default_rng(2)
    x = np.minimum(drawn.exponential(size=20_000), 20.0)
    noise = drawn.normal(scale=0.3, size=len(x))
    curve, line = fitted(np.log(x + 0.2) + noise, x), fitted(0.5 * x + noise, x)
    assert curve.diagnostics_["pull"] > 0.3
    assert "point one way" in " ".join(str(curve.summary()).split())
    assert line.diagnostics_["pull"] < 0.15
    truth, errors = ols(x[:, None], np.log(x + 0.2) + noise)
    claimed = np.diff(curve.conf_int(), axis=1).ravel() / (2 * 1.96)
    # Without the pull estimates are off by two to three errors that are claimed for them.
    assert np.all(
        np.abs([curve.intercept_, *curve.coef_] - truth) <= 2.5 * np.hypot(claimed, errors)
    )
    assert np.all(claimed > errors)


def test_few_people_are_not_asked_which_way_they_point() -> None:
    x = np.random.default_rng(2).exponential(size=200)
    assert fitted(np.log(x + 0.2), x).diagnostics_["pull"] == 0.0
