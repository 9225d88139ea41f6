"""Scores of searches: their sensitivities by brute force, their values, and validation curves."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics
from tests.tiers import mostly_long

from unacorda import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RenyiDP,
    ReplaceOne,
    SeededBits,
    accounting,
    events,
    inference,
)
from unacorda.errors import FitFailed, InvalidParameter, MissingBound
from unacorda.inference.diagnostics.scoring import Scoring, noisy_score, scoring_of

Floats = NDArray[np.float64]

QUIET = GDP(10**6)


class Given:
    """A fitted model whose answers are the features."""

    classes_ = np.array([0, 1])

    def predict(self, x: Floats) -> Floats:
        return np.asarray(x[:, 0])

    def predict_proba(self, x: Floats) -> Floats:
        return np.column_stack([1 - x[:, 0], x[:, 0]])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"target_bounds": (-1.0, 1.0)} if deep else {}


def own(predicted: Floats, target: Floats) -> Floats:
    return np.asarray(np.where(predicted < target, 0.9, 0.1) * np.abs(predicted - target))


CASES: list[tuple[Any, bool, float | None]] = [
    ("accuracy", True, None),
    ("auc", True, None),
    ("log_loss", True, None),
    ("brier", True, None),
    ("absolute_error", False, 1.0),
    ("r2", False, 1.0),
    (own, False, 1.0),
]
"""Scorings, whether of a classifier, and the bound."""


def scoring(name: Any, classifier: bool, bound: float | None) -> Scoring:
    return scoring_of(name, Given(), classifier=classifier, bound=bound)


@pytest.mark.parametrize(("name", "classifier", "bound"), CASES)
def test_sensitivities_hold_for_all_tables_of_three_rows(
    name: Any, classifier: bool, bound: float | None
) -> None:
    found = scoring(name, classifier, bound)
    targets = (0, 1, 7) if classifier else (-1.0, 0.0, 1.0, 5.0, math.nan)
    rows = list(itertools.product((0.0, 0.02, 0.5, 1.0, math.nan, -1.0), targets))
    vectors = []
    for x, target in rows:
        kept = found.of_rows(Given(), np.array([[x]]), np.array([target]))
        vectors.append(found.part(kept))
    vectors.append(found.part(np.array([found.worst])))
    # Sums of three rows of which one is replaced: the others cancel.
    apart = max(float(np.linalg.norm(a - b)) for a in vectors for b in vectors)
    assert apart <= float(found.sensitivity) * (1 + 1e-12)
    assert apart >= 0.99 * float(found.sensitivity)
    assert max(map(np.linalg.norm, vectors)) <= float(found.row_bound) * (1 + 1e-12)
    three = np.concatenate(
        [found.of_rows(Given(), np.array([[x]]), np.array([t])) for x, t in rows[:3]]
    )
    assert found.part(three) == pytest.approx(sum(vectors[:3]))


def test_scores_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(20_000)
    y = (rng.random(20_000) < p).astype(np.int64)
    x, bits = p[:, None], SeededBits(1)

    def score(name: Any, classifier: bool, bound: float | None, target: Any = y) -> float:
        found = scoring(name, classifier, bound)
        return noisy_score(found, found.of_rows(Given(), x, target), budget=QUIET, bits=bits)[0]

    assert score("auc", True, None) == pytest.approx(metrics.roc_auc_score(y, p), abs=1e-3)
    assert score("brier", True, None) == pytest.approx(-metrics.brier_score_loss(y, p), abs=1e-5)
    assert score("log_loss", True, None) == pytest.approx(-metrics.log_loss(y, p), abs=0.001)
    target = np.clip(p + 0.1 * rng.normal(size=20_000), -1, 1)
    assert score("r2", False, 1.0, target) == pytest.approx(metrics.r2_score(target, p), abs=1e-5)
    assert score("absolute_error", False, 1.0, target) == pytest.approx(
        -metrics.mean_absolute_error(target, p), abs=1e-5
    )
    assert score(own, False, 1.0, target) == pytest.approx(
        -metrics.mean_pinball_loss(target, p, alpha=0.9), abs=1e-5
    )


@pytest.mark.long
@pytest.mark.statistical
def test_the_noise_of_a_score_is_that_of_its_error() -> None:
    rng = np.random.default_rng(2)
    p = rng.random(2000)
    y = (rng.random(2000) < p).astype(np.int64)
    bits = SeededBits(3)
    for name, classifier, bound in CASES:
        target = y if classifier else np.clip(p + 0.2 * rng.normal(size=2000), -1, 1)
        found = scoring(name, classifier, bound)
        kept = found.of_rows(Given(), p[:, None], target)
        right = noisy_score(found, kept, budget=QUIET, bits=bits)[0]
        scores = [noisy_score(found, kept, budget=GDP(1), bits=bits) for _ in range(150)]
        z = np.array([(score - right) / error for score, error in scores])
        assert 0.85 < z.std() < 1.15, name
        assert abs(z.mean()) < 0.35, name


def test_where_noise_hides_a_class_or_the_variance_a_score_is_the_worst() -> None:
    area = scoring("auc", True, None)
    x = np.full((50, 1), 0.5)
    kept = area.of_rows(Given(), x, np.zeros(50))
    assert noisy_score(area, kept, budget=GDP(1), bits=SeededBits(1)) == (0.0, math.inf)
    squares = scoring("r2", False, 1.0)
    kept = squares.of_rows(Given(), x, np.zeros(50))
    assert noisy_score(squares, kept, budget=GDP(1), bits=SeededBits(1))[0] == -math.inf


def drawn(n: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    line = X @ [1.0, -1.0]
    return X, line + rng.normal(size=n), (rng.random(n) < 1 / (1 + np.exp(-line))).astype(np.int64)


RIDGE: dict[str, Any] = {"target_bounds": (-10, 10), "feature_bounds": (-3, 3)}
GRID: dict[str, Any] = {"penalty": [0.01, 100.0]}


@pytest.mark.long
@pytest.mark.parametrize("name", ["r2", own])
def test_searches_of_regressions_take_a_scoring_and_a_fresh_judge(name: Any) -> None:
    X, y, _ = drawn(40_000)
    search = inference.HeldOutSearch(
        inference.RidgeRegression(budget=RenyiDP(8, 2), **RIDGE),
        GRID,
        scoring=name,
        error_bound=5.0,
        fresh=1 / 3,
        held_out=0.5,
        tries=50,
        bits=SeededBits(2),
    ).fit(X, y)
    assert search.best_params_ == {"penalty": 0.01}
    right = metrics.r2_score(y, search.predict(X))
    if name == "r2":
        assert search.best_score_ == pytest.approx(right, abs=0.15)
        assert search.fresh_score_ == pytest.approx(right, abs=5 * search.fresh_error_ + 0.05)
    assert search.fresh_error_ > 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["auc", "log_loss", "brier"])
def test_searches_of_classifiers_take_a_scoring(name: Any) -> None:
    X, _, y = drawn(20_000)
    search = inference.CrossValidatedSearch(
        inference.LogisticRegression(budget=RenyiDP(8, 2), feature_bounds=(-3, 3)),
        {"bounds_share": [0.05, 0.1]},
        scoring=name,
        tries=2,
        bits=SeededBits(1),
    ).fit(X, y)
    expected = {"auc": 0.80, "log_loss": -0.53, "brier": -0.18}[name]
    assert search.best_score_ == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    "budget", mostly_long([ApproxDP(2, 1e-6), GDP(1), ZCDP(0.5), RenyiDP(8, 2)])
)
def test_a_validation_curve_scores_every_candidate(budget: Any) -> None:
    X, y, _ = drawn(40_000)
    curve = inference.ValidationCurve(
        inference.RidgeRegression(budget=budget, **RIDGE),
        {"penalty": [0.01, 1.0, 100.0]},
        scoring="r2",
        error_bound=5.0,
        bits=SeededBits(2),
    )
    told = curve.explain(40_000)
    curve.fit(X, y)
    assert told["candidates"] == len(curve.scores_) == 3
    assert told["rows that judge"] == 8000
    assert told["budget of a fit"] == curve.fit_budget_
    assert curve.guarantee_ == budget
    assert curve.fit_budget_.mu_squared * 3 <= GDP.within(budget).mu_squared
    assert curve.best_params_ == {"penalty": 0.01}
    for fitted, score, error in zip(
        curve.estimators_, curve.scores_, curve.score_errors_, strict=True
    ):
        right = metrics.r2_score(y, fitted.predict(X))
        assert score == pytest.approx(right, abs=5 * error + 0.06)
    frame = curve.frame()
    assert list(frame.columns) == ["penalty", "score", "noise_error", "lower", "upper"]
    assert (frame["upper"] - frame["lower"]).to_numpy() == pytest.approx(
        2 * 1.959964 * curve.score_errors_
    )


def test_noise_of_curves_is_of_the_whole_budget_and_that_of_fresh_judges_of_a_run() -> None:
    X, y, _ = drawn(3000)
    ridge = inference.RidgeRegression(budget=RenyiDP(8, 2), **RIDGE)
    named: dict[str, Any] = {"error_bound": 5.0, "bits": SeededBits(1)}
    curve = inference.ValidationCurve(ridge, {"penalty": [0.01, 1.0, 9.0]}, **named)
    told = curve.explain(3000)
    mu = math.sqrt(GDP.within(RenyiDP(8, 2)).mu_squared)
    assert told["noise of a score"] == pytest.approx(math.sqrt(3) / mu / 600, rel=1e-9)
    curve.fit(X, y)
    assert curve.score_errors_ == pytest.approx([5 * told["noise of a score"]] * 3, rel=1e-5)
    search = inference.HeldOutSearch(ridge, GRID, tries=1, fresh=0.5, **named).fit(X, y)
    assert search.fresh_error_ == pytest.approx(5 / search.run_budget_.mu / 300, rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("budget", [RenyiDP(8, 2), ApproxDP(1, 1e-6)], ids=str)
def test_the_event_of_a_search_holds_for_fresh_judges_too(budget: Any) -> None:
    X, y, _ = drawn(400)
    ridge = inference.RidgeRegression(budget=budget, **RIDGE)
    search = inference.HeldOutSearch(
        ridge, GRID, tries=20, fresh=0.5, error_bound=5.0, bits=SeededBits(1)
    ).fit(X, y)
    # A fresh judge meets one release: a mean of 40 rows, each in [0, 5].
    multiplier = search.fresh_error_ * 40 / 5
    judged = events.Gaussian(noise_multiplier=multiplier * (1 - 1e-4))
    for times, delta in itertools.product((1, 4), (1e-3, 1e-6, 1e-12)):
        promised, met = (
            accounting.epsilon(one * times, delta=delta, neighbors=ReplaceOne)
            for one in (search.event_, judged)
        )
        assert met <= promised


def test_a_validation_curve_has_areas_of_classifiers() -> None:
    X, _, y = drawn(20_000)
    curve = inference.ValidationCurve(
        inference.LogisticRegression(budget=GDP(2), feature_bounds=(-3, 3)),
        {"bounds_share": [0.05, 0.1]},
        scoring="auc",
        bits=SeededBits(2),
    ).fit(X, y)
    assert curve.scores_ == pytest.approx([0.80, 0.80], abs=0.03)
    assert curve.predict(X).shape == (20_000,)


@pytest.mark.parametrize(
    ("named", "argument"),
    [
        ({"scoring": "auc"}, "scoring"),
        ({"scoring": "f1"}, "scoring"),
        ({"error_bound": None}, "error_bound"),
        ({"error_bound": None, "scoring": "r2"}, "error_bound"),
        ({"error_bound": -1.0}, "error_bound"),
        ({"held_out": 1.5}, "held_out"),
        ({"grid": {}}, "grid"),
    ],
)
def test_bad_arguments_are_named(named: dict[str, Any], argument: str) -> None:
    X, y, _ = drawn(100)
    asked: dict[str, Any] = {"grid": GRID, "error_bound": 5.0} | named
    for kind in (inference.HeldOutSearch, inference.ValidationCurve):
        ridge = inference.RidgeRegression(budget=RenyiDP(8, 2), **RIDGE)
        with pytest.raises((InvalidParameter, MissingBound)) as caught:
            kind(ridge, **asked).fit(X, y)
        assert caught.value.argument == argument


def test_r2_needs_public_bounds_of_the_target() -> None:
    X, y, _ = drawn(100)
    ridge = inference.RidgeRegression(budget=GDP(1), feature_bounds=(-3, 3))
    with pytest.raises(MissingBound) as caught:
        inference.ValidationCurve(ridge, GRID, scoring="r2", error_bound=5.0).fit(X, y)
    assert caught.value.argument == "target_bounds"


def test_pure_budgets_and_candidates_that_all_fail_are_errors() -> None:
    X, y, _ = drawn(100)
    with pytest.raises(InvalidParameter):
        inference.ValidationCurve(
            inference.RidgeRegression(budget=PureDP(1), **RIDGE), GRID, error_bound=5.0
        ).fit(X, y)

    class Fails(inference.RidgeRegression):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            if not np.any(X):
                return super().fit(X, y)
            raise FloatingPointError

    with pytest.raises(FitFailed):
        inference.ValidationCurve(
            Fails(budget=GDP(50), **RIDGE), GRID, error_bound=5.0, bits=SeededBits(1)
        ).fit(*drawn(5000)[:2])
