"""Sparse regression: exact scores, two parts of people, intervals after selection, bad input."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone, is_classifier
from tests.support.cases import in_subtests

from unacorda import GDP, ZCDP, ApproxDP, PureDP, ReplaceOne, SeededBits, accounting
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference import (
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    RidgeRegression,
    SparseRegression,
)
from unacorda.inference.regression import sparse
from unacorda.inference.regression.sparse import UNIT, absolute_sums, best_by_labels, grid_values
from unacorda.mechanisms.selection.noisy_max import TopK
from unacorda.privacy.guarantees import Guarantee

Floats = np.ndarray[Any, np.dtype[np.float64]]


def line(**options: Any) -> LinearRegression:
    chosen: dict[str, Any] = {
        "budget": GDP(1),
        "feature_bounds": (-2.5, 2.5),
        "target_bounds": (-20, 20),
    }
    return LinearRegression(**(chosen | options))


def logistic(**options: Any) -> LogisticRegression:
    chosen: dict[str, Any] = {"budget": GDP(1), "feature_bounds": (-2.5, 2.5)}
    return LogisticRegression(**(chosen | options))


def model(inner: Any = None, **options: Any) -> SparseRegression:
    chosen: dict[str, Any] = {"n_features": 2, "bits": SeededBits(1)}
    return SparseRegression(line() if inner is None else inner, **(chosen | options))


def people(n: int, p: int, effects: dict[int, float], *, seed: int) -> tuple[Floats, Floats]:
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(n, p))
    return x, sum(x[:, j] * e for j, e in effects.items()) + drawn.normal(size=n)


def test_scores_are_exact_and_move_no_farther_than_is_claimed() -> None:
    drawn = np.random.default_rng(1)
    units = drawn.integers(-UNIT, UNIT + 1, (20_000, 3)).astype(np.float64)
    target = drawn.integers(-700, 701, 20_000).astype(np.float64)
    target[:10_000] = 700  # so that sums are far from 0
    units[:10_000] = UNIT
    exact = [
        abs(sum(int(u) * int(r) for u, r in zip(units[:, j], target, strict=True)))
        for j in range(3)
    ]
    scores = absolute_sums(units, target)
    assert scores.tolist() == exact
    farthest = 0
    rows = [(u, r) for u in (-UNIT, 0, UNIT, 311) for r in (-700, 0, 700, -5)]
    for first in rows:
        units[5], target[5] = first
        before = absolute_sums(units, target)
        for other in rows:
            units[5], target[5] = other
            farthest = max(farthest, int(np.abs(absolute_sums(units, target) - before).max()))
    assert farthest == 2 * UNIT * 700


@pytest.mark.filterwarnings("error")
def test_whatever_the_values_are_they_come_to_stand_on_the_grid() -> None:
    strange = np.array([math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, -0.0, 5e-324])
    for deviation in (1e-300, 1.0, 1e300):
        found = grid_values(strange, centre=3.0, deviation=deviation)
        assert (found == np.rint(found)).all()
        assert (np.abs(found) <= UNIT).all()
        assert found[0] == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_sensitivity_told_holds_the_labels_that_were_centred(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, float]] = []

    def noting(self: TopK, scores: Any, *, bits: Any) -> Any:
        told.append((float(self.sensitivity), float(scores.max())))
        return np.arange(self.count)

    monkeypatch.setattr(TopK, "release", noting)
    second = (np.arange(1000) < 1000 * share).astype(float)
    for signs in (second * 2 - 1, 1 - second * 2, np.ones(1000)):
        best_by_labels(
            signs[:, None] * UNIT,
            second,
            np.ones(1000),
            count=1,
            budget=GDP(100),
            bits=SeededBits(1),
        )
    # A sum of 1000 products is at most 1000 times half of what one can move.
    assert all(largest <= 500 * sensitivity for sensitivity, largest in told)
    assert max(sensitivity for sensitivity, _ in told) <= 2 * UNIT**2


@pytest.mark.long
@pytest.mark.parametrize("budget", [ApproxDP(1, 1e-6), ZCDP(0.2), GDP(1)], ids=repr)
@pytest.mark.parametrize("inner", [line, logistic])
def test_each_part_and_the_whole_are_within_the_budget(budget: Guarantee, inner: Any) -> None:
    x, y = people(8000, 5, {1: 1.0, 3: 1.0}, seed=2)
    target = y > 0 if inner is logistic else y
    fitted = model(inner(budget=budget)).fit(x, target)
    assert fitted.guarantee_ == budget
    parts = (fitted.selection_event_, fitted.estimator_.event_, fitted.event_)
    if isinstance(budget, ApproxDP):
        spent = [accounting.delta(e, epsilon=1, neighbors=ReplaceOne) for e in parts]
        assert max(spent) <= 1e-6
        assert min(spent[1:]) > 0.9e-6  # a few selections are dearer in GDP than they are here
    else:
        rho = 0.2 if isinstance(budget, ZCDP) else 0.5
        spent = [accounting.rho(e, neighbors=ReplaceOne) for e in parts]
        assert max(spent) <= rho * (1 + 1e-9)
        assert min(spent) > 0.5 * rho
    assert spent[2] >= max(spent) * (1 - 1e-9)  # the whole costs no less than either


def test_nobody_both_selects_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = people(4000, 4, {0: 1.0}, seed=3)
    y = np.arange(4000.0)  # who it is
    fits: list[Floats] = []
    real, release = LinearRegression.fit, sparse.best_by_numbers

    def fit(self: LinearRegression, X: Floats, target: Floats) -> LinearRegression:
        fits.append(np.asarray(target))
        return real(self, X, target)

    selecting: list[Floats] = []

    def best(units: Floats, target: Floats, **options: Any) -> Any:
        selecting.append(target)
        return release(units, target, **options)

    monkeypatch.setattr(LinearRegression, "fit", fit)
    monkeypatch.setattr(sparse, "best_by_numbers", best)
    model(line(target_bounds=(0, 4000)), selection_rows=0.3).fit(x, y)
    assert len(fits) == 2  # a rehearsal on zeros, and the fit
    assert not fits[0].any()
    assert len(selecting) == 1
    assert sorted([*fits[1], *selecting[0]]) == sorted(y)
    assert len(selecting[0]) == 1200


@pytest.mark.statistical
@pytest.mark.parametrize("inner", [line, logistic])
def test_it_finds_the_features_that_matter(inner: Any) -> None:
    # Scores of the four lie some 10 deviations above the others': at seed 4, and at any.
    effects = {3: 1.0, 40: -1.0, 77: 0.8, 99: -0.8}
    x, y = people(20_000, 100, effects, seed=4)
    target = y > 0 if inner is logistic else y
    fitted = model(inner(), n_features=4).fit(x, target)
    assert fitted.selected_.tolist() == list(effects)
    found = np.ravel(fitted.coef_)
    assert np.flatnonzero(found).tolist() == list(effects)
    if inner is line:
        np.testing.assert_allclose(found[list(effects)], list(effects.values()), atol=0.1)
    assert fitted.score(x, target) > (0.8 if inner is logistic else 0.7)


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_cover_after_selection_and_would_not_without_the_split() -> None:
    # 3 features of 40 have an effect, 6 are selected: 3 by chance. 60 samples of 6 intervals at
    # 0.95: fewer than 312 of 360 with p < 1e-9. On the rows that selected, the chosen of the 37
    # have the largest of chance associations: one in five of their intervals misses 0.
    effects = {0: 1.0, 1: -0.7, 2: 0.5}
    bits, covered, naive, nulls = SeededBits(5), 0, 0, 0
    for seed in range(60):
        x, y = people(3000, 40, effects, seed=seed)
        fitted = model(n_features=6, bits=bits).fit(x, y)
        truth = np.array([effects.get(j, 0.0) for j in fitted.selected_])
        lower, upper = fitted.conf_int()[1:].T
        covered += int(((lower <= truth) & (truth <= upper)).sum())
        best = np.sort(np.argsort(-np.abs(x.T @ (y - y.mean())))[:6])
        all_rows = line(bits=bits).fit(x[:, best], y)
        lower, upper = all_rows.conf_int()[1:].T
        chance = best > 2
        naive += int(((lower <= 0) & (upper >= 0))[chance].sum())
        nulls += int(chance.sum())
    assert covered >= 312
    assert nulls > 150
    assert naive < 0.9 * nulls


def test_a_frame_keeps_its_names_and_labels_may_be_text() -> None:
    x, y = people(6000, 6, {2: 2.0, 4: -2.0}, seed=6)
    frame = pandas.DataFrame(x, columns=list("abcdef"))
    inner = logistic(classes=("no", "yes"))
    fitted = model(inner).fit(frame, np.where(y > 0, "yes", "no"))
    assert list(fitted.summary().to_pandas().index) == ["intercept", "c", "e"]
    assert set(fitted.predict(frame)) == {"no", "yes"}
    assert fitted.predict_proba(frame).shape == (6000, 2)
    assert fitted.decision_function(frame).shape == (6000,)
    assert fitted.coef_.shape == (1, 6)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert is_classifier(fitted)
    assert not hasattr(model(), "predict_proba")
    table = str(model(line()).fit(x, y).summary())
    assert "x2" in table
    assert "SparseRegression" in table


@pytest.mark.parametrize(
    "inner",
    [
        PoissonRegression(budget=GDP(1), feature_bounds=(-2.5, 2.5), largest=50),
        RidgeRegression(budget=GDP(1), feature_bounds=(-2.5, 2.5), target_bounds=(-20, 20)),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_other_regressions_stand_inside(inner: Any) -> None:
    x, y = people(20_000, 10, {2: 1.0}, seed=7)
    counts = np.random.default_rng(7).poisson(np.exp(0.7 * np.clip(x[:, 2], -3, 3)))
    poisson = isinstance(inner, PoissonRegression)
    bounds = None if poisson else (-20, 20)
    fitted = clone(model(inner, n_features=1, target_bounds=bounds)).fit(
        x, counts if poisson else y
    )
    assert fitted.selected_.tolist() == [2]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, 7.0])
def test_data_of_any_kind_raise_nothing(value: float) -> None:
    fitted = model().fit(np.full((3000, 3), value), np.full(3000, value))
    assert np.isfinite(fitted.coef_).all()
    same = model(logistic()).fit(np.full((3000, 3), value), np.full(3000, value))
    assert np.isfinite(same.coef_).all()


def test_a_fit_that_fails_says_what_was_spent_and_is_no_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = people(2000, 3, {0: 1.0}, seed=8)
    fits: list[int] = []
    real = LinearRegression.fit

    def broken(self: LinearRegression, X: Any, target: Any) -> Any:
        fits.append(1)
        if len(fits) == 2:
            raise MemoryError
        return real(self, X, target)

    monkeypatch.setattr(LinearRegression, "fit", broken)
    failing = model()
    with pytest.raises(MemoryError):
        failing.fit(x, y)
    assert failing.guarantee_ == GDP(1)
    assert accounting.rho(failing.event_, neighbors=ReplaceOne) >= 0.5 * (1 - 1e-9)
    assert not failing.__sklearn_is_fitted__()


@in_subtests(
    ("inner", "options", "name"),
    [
        (line(), {"n_features": 0}, "n_features"),
        (line(), {"n_features": 4}, "n_features"),
        (line(), {"n_features": True}, "n_features"),
        (line(), {"n_features": 1.0}, "n_features"),
        (line(), {"selection_rows": 0.0}, "selection_rows"),
        (line(), {"selection_rows": 1.0}, "selection_rows"),
        (line(), {"target_bounds": (3, 2)}, "target_bounds"),
        (line(budget=PureDP(1)), {}, "budget"),
        (line(budget=1.0), {}, "budget"),
        (line(budget=GDP(0.001)), {}, "budget"),
        (line(feature_bounds=(1, 0)), {}, "feature_bounds"),
        (line(tuning=-1.0), {}, "tuning"),
        (logistic(classes=(0, 0)), {}, "classes"),
        ("line", {}, "estimator"),
        (LinearRegression, {}, "estimator"),
        (SparseRegression(line(), n_features=1), {}, "estimator"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    inner: Any, options: dict[str, Any], name: str
) -> None:
    x, y = people(500, 3, {0: 1.0}, seed=9)
    bits = SeededBits(1)
    with pytest.raises(InvalidParameter, match=f"^{name}="):
        model(inner, **({"bits": bits} | options)).fit(x, y)
    assert bits.below(1 << 62) == SeededBits(1).below(1 << 62)  # nothing was drawn


def test_what_cannot_be_read_is_named() -> None:
    x, y = people(500, 3, {0: 1.0}, seed=9)
    with pytest.raises(MissingBound, match="target_bounds"):
        model(line(target_bounds=None)).fit(x, y)
    with pytest.raises(MissingBound, match="feature_bounds"):
        model(line(feature_bounds=None)).fit(x, y)
    with pytest.raises(InvalidParameter, match="n_samples=1"):
        model().fit(x[:1], y[:1])
    with pytest.raises(InvalidParameter, match=r"^X="):
        model().fit([["a", "b"]], [1.0])
    with pytest.raises(InvalidParameter, match=r"^y="):
        model().fit(x, y[:-1])
