"""Logistic regression: sensitivities by brute force, coverage, error beside maximum likelihood."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from tests.inference.watched_fits import Floats, watch, worst_rows

from unacorda import GDP, ApproxDP, ReplaceOne, SeededBits, accounting
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.logistic import LogisticRegression
from unacorda.privacy.guarantees import Guarantee

TRUTH = np.array([0.3, 0.8, -0.5, 0.3, 0.0])


def people(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x = drawn.normal(size=(n, 4))
    return x, (drawn.random(n) < expit(TRUTH[0] + x @ TRUTH[1:])).astype(float)


def regression(bits: SeededBits, budget: Guarantee | None = None) -> LogisticRegression:
    return LogisticRegression(budget=budget or GDP(1), feature_bounds=(-3, 3), bits=bits)


def most_likely(x: Floats, y: Floats) -> Floats:
    """Maximum likelihood, without weights and without noise."""
    rows = np.column_stack([np.ones(len(x)), x])
    theta = np.zeros(rows.shape[1])
    for _ in range(20):
        p = expit(rows @ theta)
        bent = (rows * (p * (1 - p))[:, None]).T @ rows
        theta = theta + np.linalg.solve(bent, rows.T @ (y - p))
    return theta


def share_covered(n: int, *, fits: int, seed: int) -> float:
    drawn, bits = np.random.default_rng(seed), SeededBits(seed)
    covered = []
    for _ in range(fits):
        low, high = regression(bits).fit(*people(n, drawn)).conf_int().T
        covered.append(np.mean((low <= TRUTH) & (high >= TRUTH)))
    return float(np.mean(covered))


@pytest.mark.parametrize("seed", range(3))
def test_no_two_people_are_farther_apart_than_a_release_says(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    seen = watch(monkeypatch)
    x, y = worst_rows(240, 2, seed=seed)
    y = (y > 0).astype(float)
    model = regression(SeededBits(seed), GDP(3)).fit(x, y)
    assert len(seen) == 1 + 2 * model.n_iter_ - 1 + 2
    for release in seen:
        assert release.farthest <= release.sensitivity * (1 + 2**-29)
        assert release.longest <= release.row_bound * (1 + 2**-29)
    reached = [release.farthest / release.sensitivity for release in seen]
    assert max(reached) > 0.7


def test_the_event_costs_the_budget() -> None:
    model = regression(SeededBits(1), ApproxDP(1, 1e-6)).fit(
        *people(20_000, np.random.default_rng(1))
    )
    delta = accounting.delta(model.event_, epsilon=1, neighbors=ReplaceOne)
    assert 0.95e-6 < delta <= 1e-6


@pytest.mark.statistical
def test_intervals_cover() -> None:
    # 60 fits of 5 parameters: below 0.86 with p < 1e-7 at a coverage of 0.95.
    assert share_covered(1000, fits=60, seed=1) >= 0.86


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.timeout(600)
@pytest.mark.parametrize("n", [500, 1000, 5000])
def test_intervals_cover_within_two_points(n: int) -> None:
    # 400 fits of 5 parameters: a deviation of at most 0.0055; 5.2 of them are 0.029.
    assert 0.95 - 0.029 <= share_covered(n, fits=400, seed=n) <= 0.95 + 0.029


@pytest.mark.slow
@pytest.mark.statistical
def test_error_at_epsilon_one_is_near_that_of_maximum_likelihood() -> None:
    # 8 fits of 21 parameters: the ratio, 1.07 on average, deviates by 0.02.
    drawn, bits = np.random.default_rng(3), SeededBits(3)
    private, free = 0.0, 0.0
    for _ in range(8):
        slopes = drawn.normal(size=20)
        truth = np.append(0.3, slopes / np.linalg.norm(slopes))
        x = drawn.normal(size=(100_000, 20))
        y = (drawn.random(100_000) < expit(truth[0] + x @ truth[1:])).astype(float)
        model = regression(bits, ApproxDP(1, 1e-6)).fit(x, y)
        found = np.append(model.intercept_, model.coef_)
        private += float(np.sum((found - truth) ** 2))
        free += float(np.sum((most_likely(x, y) - truth) ** 2))
    assert math.sqrt(private / free) <= 1.15


def test_without_noise_it_is_near_maximum_likelihood() -> None:
    x, y = people(4000, np.random.default_rng(2))
    model = regression(SeededBits(2), GDP(10**5)).fit(x, y)
    likely = most_likely(x, y)
    # Weights of the features move it by a part of its standard error of about 0.04.
    assert np.abs(np.append(model.intercept_, model.coef_) - likely).max() < 0.04
    probabilities = model.predict_proba(x)
    assert np.abs(probabilities[:, 1] - expit(likely[0] + x @ likely[1:])).max() < 0.03
    assert np.mean(model.predict(x) == y) > 0.65


def test_labels_of_any_kind_are_those_that_were_named() -> None:
    x, y = people(3000, np.random.default_rng(4))
    words = np.where(y > 0, "yes", "no")
    models = [
        regression(SeededBits(5)).set_params(classes=("no", "yes")).fit(x, labels)
        for labels in (words, words.astype(object), list(words))
    ]
    whole = regression(SeededBits(5)).fit(x, y.astype(bool))
    for model in models:
        np.testing.assert_array_equal(model.coef_, whole.coef_)
        assert set(model.predict(x)) == {"no", "yes"}
    # Whoever has another label has weight 0, which raises nothing.
    other = words.copy()
    other[:300] = "no answer"
    apart = regression(SeededBits(5)).set_params(classes=("no", "yes")).fit(x, other)
    assert np.abs(apart.coef_[0] - TRUTH[1:]).max() < 0.4


@pytest.mark.filterwarnings("error")
def test_separated_classes_get_no_interval() -> None:
    x, _ = people(3000, np.random.default_rng(6))
    model = regression(SeededBits(6)).fit(x, x[:, 0] > 0)
    assert np.isfinite(model.coef_).all()
    assert np.isinf(model.conf_int()).all()
    assert model.diagnostics_["signal"] < 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, 0.0])
def test_data_of_any_kind_raise_nothing_and_answer_in_numbers(value: float) -> None:
    x, y = people(2000, np.random.default_rng(7))
    x[::3, 1] = value
    y[::5] = value
    model = regression(SeededBits(7)).fit(x, y)
    assert np.isfinite(model.coef_).all()
    x[:] = value
    assert np.isfinite(regression(SeededBits(7)).fit(x, y).coef_).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"budget": 1.0}, "budget"),
        ({"budget": GDP(0.001)}, "budget"),
        ({"classes": (1, 1)}, "classes"),
        ({"classes": (0, 1, 2)}, "classes"),
        ({"classes": None}, "classes"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(change: dict[str, Any], named: str) -> None:
    model = regression(SeededBits(8)).set_params(**change)
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        model.fit(*people(1000, np.random.default_rng(8)))


def test_bounds_are_asked_for_and_labels_have_one_dimension() -> None:
    x, y = people(50, np.random.default_rng(9))
    with pytest.raises(MissingBound):
        LogisticRegression(budget=GDP(1)).fit(x, y)
    with pytest.raises(InvalidParameter, match=r"^y="):
        regression(SeededBits(1)).fit(x, np.column_stack([y, y]))
    with pytest.raises(InvalidParameter, match=r"^y="):
        regression(SeededBits(1)).fit(x, None)  # type: ignore[arg-type]
