"""The choice of parameters by the best of a random number of runs: price, people, failures."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.ensemble import BaggingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, ReplaceOne, SeededBits, accounting
from unacorda.accounting.selection import stop_of
from unacorda.errors import FitFailed, InvalidParameter, MissingBound
from unacorda.inference import (
    PCA,
    HeldOutSearch,
    LinearRegression,
    LogisticRegression,
    RidgeRegression,
    SparseRegression,
)
from unacorda.inference.search import runs_within
from unacorda.inference.sums import NoisySums
from unacorda.mechanisms.retry.best import BestOf
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

Floats = np.ndarray[Any, np.dtype[np.float64]]

BUDGET = RenyiDP(8, 2)
FITS: list[tuple[Any, Floats, Floats]] = []


class Constant(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts its parameter, learns nothing, notes who it was fitted to."""

    def __init__(self, budget: Guarantee, value: float = 0.0, fails: bool = False) -> None:
        self.budget, self.value, self.fails = budget, value, fails

    def fit(self, X: Floats, y: Floats) -> Constant:
        FITS.append((self.budget, X, y))
        if self.fails and X.any():
            raise ValueError(f"somebody has {X.max()}")
        self.fitted_ = True
        return self

    def predict(self, X: Floats) -> Floats:
        return np.full(len(X), self.value)


class Label(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts its parameter."""

    def __init__(self, budget: Guarantee, value: Any = "no") -> None:
        self.budget, self.value = budget, value

    def fit(self, X: Floats, y: Any) -> Label:
        self.classes_ = np.array(["no", "yes"])
        return self

    def predict(self, X: Floats) -> Any:
        return np.full(len(X), self.value)


@pytest.fixture(autouse=True)
def nobody_was_fitted() -> None:
    FITS.clear()


def search(estimator: Any = None, grid: Any = None, **options: Any) -> HeldOutSearch:
    chosen: dict[str, Any] = {"error_bound": 5.0, "bits": SeededBits(3)}
    return HeldOutSearch(
        Constant(BUDGET) if estimator is None else estimator,
        {"value": [0.0, 3.0]} if grid is None else grid,
        **(chosen | options),
    )


def people(n: int, *, seed: int) -> tuple[Floats, Floats]:
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(n, 3))
    return x, x @ [1.0, -2.0, 0.0] + drawn.normal(size=n)


@in_subtests("shape", [-0.5, 0.0, 1.0, 2.5])
@in_subtests("tries", [1.0, 1.5, 20.0, 1000.0])
def test_the_law_has_the_mean_that_was_asked(shape: float, tries: float) -> None:
    event = events.NegativeBinomialTries(
        event=events.Pure(epsilon=1), shape=shape, stop=stop_of(shape=shape, tries=tries)
    )
    assert BestOf(event=event).mean == pytest.approx(tries, rel=1e-3)


@pytest.mark.parametrize(
    "budget", mostly_slow([RenyiDP(8, 2), RenyiDP(4, 1.5), ApproxDP(1, 1e-6)]), ids=repr
)
def test_the_best_of_the_runs_is_priced_within_the_budget(budget: Guarantee) -> None:
    runs = runs_within(budget, shape=1.0, tries=20.0)
    dearer = events.NegativeBinomialTries(
        event=events.Gaussian(noise_multiplier=0.99 / runs.each.mu), shape=1.0, stop=0.05
    )
    assert isinstance(runs.event.event, events.Gaussian)
    told = float(runs.event.event.noise_multiplier)
    assert told == pytest.approx(1 / runs.each.mu)
    if isinstance(budget, RenyiDP):
        alpha, epsilon = float(budget.alpha), float(budget.epsilon)
        assert accounting.renyi(runs.event, alpha=alpha, neighbors=ReplaceOne) <= epsilon
        assert accounting.renyi(dearer, alpha=alpha, neighbors=ReplaceOne) > epsilon
    else:
        assert accounting.delta(runs.event, epsilon=1, neighbors=ReplaceOne) <= 1e-6
        assert accounting.delta(dearer, epsilon=1, neighbors=ReplaceOne) > 1e-6


def test_nobody_both_fits_and_judges_and_every_run_has_the_runs_budget() -> None:
    x, _ = people(1000, seed=2)
    y = np.arange(1000.0)  # who it is
    fitted = search(held_out=0.3, tries=30).fit(x, y)
    zeros, real = FITS[:2], FITS[2:]
    assert not any(given.any() for _, given, _ in zeros)  # both candidates rehearse on zeros
    assert all(budget == fitted.run_budget_ for budget, _, _ in real)
    assert len({tuple(who) for _, _, who in real}) == 1  # the same rows in every run
    assert len(real[0][2]) == 700
    assert fitted.guarantee_ == BUDGET
    assert isinstance(fitted.event_, events.NegativeBinomialTries)


def test_what_judges_say_is_from_zero_to_one_and_its_noise_is_the_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Floats] = []
    spent: list[Any] = []
    released = NoisySums.mean

    def noting(self: NoisySums, part: Any, **options: Any) -> Any:
        seen.append(np.array([part(slice(row, row + 1))[0] for row in range(self.rows)]))
        assert float(options["sensitivity"]) == float(options["row_bound"]) == 1
        found = released(self, part, **options)
        spent.append((self.budget, self.left, self.event))
        return found

    monkeypatch.setattr(NoisySums, "mean", noting)
    x, y = people(400, seed=3)
    y[:300:3], y[1:300:3], y[2:300:3] = math.nan, math.inf, 1e308
    for value in (0.0, math.nan, -math.inf, 1e308):
        fitted = search(grid={"value": [value]}, tries=1).fit(x, y)
        assert math.isfinite(fitted.best_score_)
    assert all(((merits >= 0) & (merits <= 1)).all() for merits in seen)
    assert np.concatenate(seen).max() > 0.9
    assert np.concatenate(seen).min() == 0
    for budget, left, event in spent:
        assert budget == fitted.run_budget_
        assert left == 0
        assert accounting.rho(event, neighbors=ReplaceOne) <= float(budget.mu_squared) / 2


@pytest.mark.long
@pytest.mark.statistical
def test_as_many_fits_are_made_as_the_law_says() -> None:
    # Geometric of mean 5, deviation 4.5: the mean of 200 is within 3.4 and 6.6 but for p < 1e-6.
    x, y = people(50, seed=4)
    bits = SeededBits(4)
    fitted = search(tries=5, bits=bits)
    for _ in range(200):
        fitted.fit(x, y)
    assert 3.4 < (len(FITS) - 2 * 200) / 200 < 6.6


@pytest.mark.slow
@pytest.mark.statistical
def test_the_better_candidate_wins_once_it_was_drawn() -> None:
    # Scores differ by 3/5 with a noise of 0.01; of 20 draws in the mean all are bad in 1 of 11:
    # fewer than 60 of 100 with p < 1e-10.
    x, _ = people(2000, seed=5)
    bits = SeededBits(5)
    won = 0
    for _ in range(100):
        fitted = search(tries=20, bits=bits).fit(x, np.full(2000, 3.0))
        won += fitted.best_params_ == {"value": 3.0}
        told = 0.0 if fitted.best_params_ == {"value": 3.0} else -3.0
        assert abs(fitted.best_score_ - told) < 6 * fitted.score_error_
    assert won >= 60


@pytest.mark.slow
def test_a_penalty_is_chosen_under_approximate_privacy() -> None:
    x, y = people(60_000, seed=6)
    ridge = RidgeRegression(
        budget=ApproxDP(1, 1e-6), target_bounds=(-20, 20), feature_bounds=(-3, 3), penalty=7.0
    )
    fitted = clone(search(ridge, {"penalty": [0.01, 1000.0]})).fit(x, y)
    assert fitted.best_params_ == {"penalty": 0.01}
    np.testing.assert_allclose(fitted.best_estimator_.coef_, [1, -2, 0], atol=0.2)
    assert fitted.predict(x[:5]).shape == (5,)
    assert abs(fitted.best_score_ + math.sqrt(2 / math.pi)) < 0.1
    assert fitted.score(x, y) > 0.7
    assert ridge.penalty == 7.0
    assert ridge.budget == ApproxDP(1, 1e-6)


@pytest.mark.long
def test_budgets_of_a_pipeline_are_shared_out_as_they_were() -> None:
    x, y = people(20_000, seed=7)
    inside = make_pipeline(
        Normalizer(),  # learns nothing
        PCA(budget=BUDGET / 4, feature_bounds=(-1, 1), center=False),
        LogisticRegression(budget=BUDGET * 3 / 4, feature_bounds=(-1, 1)),
    )
    fitted = search(inside, {"pca__n_components": [1, 3]}, error_bound=None).fit(x, y > 0)
    assert fitted.guarantee_ == BUDGET
    assert fitted.best_params_ == {"pca__n_components": 3}
    budgets = fitted.best_estimator_.get_params()
    assert budgets["pca__budget"] == fitted.run_budget_ / 4
    assert budgets["logisticregression__budget"] == fitted.run_budget_ * 3 / 4
    assert fitted.best_score_ > 0.7
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.predict_proba(x[:4]).shape == (4, 2)


@pytest.mark.long
def test_the_number_of_features_is_chosen() -> None:
    x, y = people(20_000, seed=8)
    line = LinearRegression(budget=BUDGET, feature_bounds=(-3, 3), target_bounds=(-20, 20))
    sparse = SparseRegression(line, n_features=3)
    fitted = search(sparse, {"n_features": [1, 2]}).fit(x, y)
    assert fitted.best_estimator_.selected_.tolist() == [0, 1]


def test_labels_may_be_text() -> None:
    x, y = people(2000, seed=9)
    labels = np.where(y > -5, "yes", "no").astype(object)
    fitted = search(Label(BUDGET), {"value": ["no", "yes"]}, tries=50, error_bound=None)
    fitted.fit(x, labels)
    assert fitted.best_params_ == {"value": "yes"}
    assert fitted.best_score_ == pytest.approx(np.mean(labels == "yes"), abs=0.1)


def test_a_candidate_that_fails_on_the_rows_loses_and_tells_nothing() -> None:
    x, y = people(500, seed=10)
    fitted = search(grid={"fails": [True, False]}, tries=40).fit(x, y)
    assert fitted.best_params_ == {"fails": False}


def test_where_all_runs_fail_the_spend_stays_and_the_cause_is_hidden() -> None:
    x, y = people(500, seed=11)
    failing = search(grid={"fails": [True]})
    with pytest.raises(FitFailed) as caught:
        failing.fit(x, y)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert str(x.max()) not in str(caught.value)
    assert failing.guarantee_ == BUDGET
    assert failing.event_ == runs_within(BUDGET, shape=1.0, tries=4.0).event
    assert not failing.__sklearn_is_fitted__()


def test_what_cannot_be_fitted_at_all_is_refused_before_anything_is_read() -> None:
    x, y = people(500, seed=12)
    ridge = RidgeRegression(budget=BUDGET, target_bounds=(-20, 20), feature_bounds=(-3, 3))
    bits = SeededBits(1)
    with pytest.raises(InvalidParameter, match=r"^penalty="):
        search(ridge, {"penalty": [1.0, -1.0]}, bits=bits).fit(x, y)
    small = clone(ridge).set_params(budget=RenyiDP(8, 1e-6))
    with pytest.raises(InvalidParameter, match=r"^budget="):
        search(small, {"penalty": [1.0]}, tries=1, bits=bits).fit(x, y)
    with pytest.raises(InvalidParameter, match=r"^budget=.*fewer tries than 4"):
        search(small, {"penalty": [1.0]}, bits=bits).fit(x, y)
    assert bits.below(1 << 62) == SeededBits(1).below(1 << 62)  # nothing was drawn


@in_subtests(
    ("estimator", "grid", "options", "name"),
    [
        (Constant(BUDGET), {}, {}, "grid"),
        (Constant(BUDGET), [{"value": [1]}], {}, "grid"),
        (Constant(BUDGET), {"value": []}, {}, "grid"),
        (Constant(BUDGET), {"value": "abc"}, {}, "grid"),
        (Constant(BUDGET), {"values": [1.0]}, {}, "grid"),
        (Constant(BUDGET), {"budget": [GDP(1)]}, {}, "grid"),
        (Constant(GDP(1)), None, {}, "budget"),
        (Constant(ZCDP(1)), None, {}, "budget"),
        (Constant(PureDP(1)), None, {}, "budget"),
        (Constant(ApproxDP(1, 0)), None, {}, "budget"),
        (Constant(1.0), None, {}, "budget"),  # type: ignore[arg-type]
        (Constant(BUDGET), None, {"tries": 0.5}, "tries"),
        (Constant(BUDGET), None, {"tries": math.nan}, "tries"),
        (Constant(BUDGET), None, {"shape": -1.0}, "shape"),
        (Constant(BUDGET), None, {"held_out": 1.0}, "held_out"),
        (Constant(BUDGET), None, {"error_bound": 0.0}, "error_bound"),
        ("ridge", None, {}, "estimator"),
        (Constant, None, {}, "estimator"),
        (StandardScaler(), {"with_mean": [True]}, {}, "estimator"),
        (
            make_pipeline(StandardScaler(), Constant(BUDGET)),
            {"constant__value": [1.0]},
            {},
            "estimator",
        ),
        (BaggingRegressor(Constant(BUDGET)), {"estimator__value": [1.0]}, {}, "estimator"),
        (  # a candidate that brings a budget of its own
            make_pipeline(Constant(BUDGET)),
            {"constant": [Constant(GDP(100))]},
            {},
            "grid",
        ),
        (
            make_pipeline(Constant(BUDGET)),
            {"steps": [[("constant", Constant(GDP(100)))]]},
            {},
            "grid",
        ),
        (
            make_pipeline(PCA(budget=GDP(1)), Constant(BUDGET)),
            {"constant__value": [1.0]},
            {},
            "estimator",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    estimator: Any, grid: Any, options: dict[str, Any], name: str
) -> None:
    x, y = people(50, seed=13)
    with pytest.raises(InvalidParameter, match=f"^{name}="):
        search(estimator, grid, **options).fit(x, y)


def test_what_cannot_be_read_is_named() -> None:
    x, y = people(50, seed=14)
    with pytest.raises(MissingBound, match="error_bound"):
        search(error_bound=None).fit(x, y)
    with pytest.raises(InvalidParameter, match=r"^y="):
        search().fit(x, y[:-1])
    with pytest.raises(InvalidParameter, match=r"^y="):
        search(Label(BUDGET), {"value": ["no"]}).fit(x, y[:-1])
    with pytest.raises(InvalidParameter, match="n_samples=1"):
        search().fit(x[:1], y[:1])
    with pytest.raises(InvalidParameter, match=r"^X="):
        search().fit([["a"]], [1.0])
