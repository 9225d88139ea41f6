"""Audits of many runs: validity, tightness, and what cannot be used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.tiers import mostly_slow

from unacorda.audit import many_runs
from unacorda.audit.binomials import rate_above
from unacorda.errors import InvalidParameter


def runs(n: int, epsilon: float, drawn: np.random.Generator) -> tuple[Any, Any]:
    """Laplace noise on a count with and without one person, exactly epsilon-DP."""
    inside = np.arange(n) % 2 == 0
    return inside + drawn.laplace(scale=1 / epsilon, size=n), inside


def test_a_given_threshold_is_counted_by_hand() -> None:
    scores = [0.0] * 90 + [1.0] * 10 + [0.0] * 20 + [1.0] * 80
    inside = [False] * 100 + [True] * 100
    found = many_runs(scores, inside, threshold=0.5, delta=0.01)
    missed, alarms = (stats.beta.ppf(0.975, k + 1, 100 - k) for k in (20, 10))
    odds = max((1 - missed - 0.01) / alarms, (1 - alarms - 0.01) / missed)
    assert found.epsilon == pytest.approx(math.log(odds), abs=1e-6)
    assert (found.guesses, found.right) == (200, 170)
    assert rate_above(20, 100, error=0.025) == pytest.approx(missed, rel=1e-6)
    normal = many_runs(scores, inside, threshold=0.5, delta=0.01, gaussian=True)
    assert normal.mu == pytest.approx(-stats.norm.ppf(missed) - stats.norm.ppf(alarms), abs=1e-6)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 2.0]))
def test_bounds_above_the_truth_are_as_rare_as_stated(epsilon: float) -> None:
    # A fifth of 400 runs may lie: more than 123 with p < 1e-6.
    drawn = np.random.default_rng(1)
    above = [
        many_runs(*runs(400, epsilon, drawn), confidence=0.8).epsilon > epsilon for _ in range(400)
    ]
    assert sum(above) <= 123


@pytest.mark.long
@pytest.mark.statistical
def test_null_data_yield_nothing_more_often_than_stated() -> None:
    drawn = np.random.default_rng(2)
    above = 0
    for _ in range(400):
        inside = drawn.random(300) < 0.5
        above += many_runs(drawn.normal(size=300), inside, confidence=0.8).epsilon > 0
    assert above <= 123


@pytest.mark.statistical
def test_many_runs_come_near_the_truth_from_both_directions() -> None:
    # The bound deviates by about 0.03 here; the limits are 6 of them away from 0.9 and below 1.
    drawn = np.random.default_rng(3)
    scores, inside = runs(100_000, 1.0, drawn)
    for found in (many_runs(scores, inside), many_runs(-scores, ~inside)):
        assert 0.7 < found.epsilon <= 1
    # Only outputs far below tell of absence: a mechanism that hides presence alone.
    hidden = np.where(inside, 1.0, np.where(drawn.random(100_000) < 0.2, 0.0, 1.0))
    assert many_runs(hidden, inside).epsilon > 5


@pytest.mark.statistical
def test_normal_noise_in_gaussian_terms() -> None:
    # mu = 1; the bound deviates by 0.02.
    drawn = np.random.default_rng(4)
    inside = np.arange(40_000) % 2 == 0
    found = many_runs(inside + drawn.normal(size=40_000), inside, delta=1e-5, gaussian=True)
    assert found.mu is not None
    assert 0.85 < found.mu <= 1
    assert found.epsilon > many_runs(inside + drawn.normal(size=40_000), inside, delta=1e-5).epsilon


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"scores": [math.nan] * 40}, "scores"),
        ({"included": [True] * 40}, "included"),
        ({"included": [True] * 39}, "included"),
        ({"included": [True] * 4 + [False] * 36}, "included"),
        ({"confidence": 1.5}, "confidence"),
        ({"delta": 1.0}, "delta"),
        ({"gaussian": True}, "delta"),
        ({"threshold": math.nan}, "threshold"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_bad_input_is_named(wrong: dict[str, Any], name: str) -> None:
    given: dict[str, Any] = {
        "scores": np.arange(40.0),
        "included": np.arange(40) % 2 == 0,
    }
    with pytest.raises(InvalidParameter, match=name):
        many_runs(**{**given, **wrong})
