"""Cross-validation: folds, who is in which fit, what a run and the last fit spend, the choice."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, PureDP, RenyiDP, ReplaceOne, SeededBits, accounting
from unacorda.bits import ScriptedBits
from unacorda.errors import FitFailed, InvalidParameter, MissingBound
from unacorda.inference import CrossValidatedSearch, LogisticRegression, RidgeRegression
from unacorda.inference.sums import NoisySums
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

Floats = np.ndarray[Any, np.dtype[np.float64]]

BUDGET = RenyiDP(8, 2)
FITS: list[tuple[GDP, Floats]] = []
JUDGED: list[Floats] = []


class Watched(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts its parameter, learns nothing, notes who fitted and who judged it."""

    def __init__(self, budget: Guarantee, value: float = 0.0, fails: float = math.inf) -> None:
        self.budget, self.value, self.fails = budget, value, fails

    def fit(self, X: Floats, y: Floats) -> Watched:
        FITS.append((self.budget, y))  # type: ignore[arg-type]
        if y.any() and len(y) >= self.fails:
            raise ValueError(f"somebody has {y.max()}")
        self.fitted_ = True
        return self

    def predict(self, X: Floats) -> Floats:
        JUDGED.append(X[:, 0])
        return np.full(len(X), self.value)


@pytest.fixture(autouse=True)
def nobody_was_fitted() -> None:
    FITS.clear()
    JUDGED.clear()


def search(estimator: Any = None, grid: Any = None, **options: Any) -> CrossValidatedSearch:
    chosen: dict[str, Any] = {"error_bound": 5.0, "bits": SeededBits(1)}
    return CrossValidatedSearch(
        Watched(BUDGET) if estimator is None else estimator,
        {"value": [0.0, 3.0]} if grid is None else grid,
        **(chosen | options),
    )


def numbered(n: int) -> tuple[Floats, Floats]:
    who = np.arange(1.0, n + 1)
    return who[:, None], who


@pytest.mark.parametrize(("folds", "n"), [(2, 41), (3, 90), (7, 100)])
def test_everybody_judges_once_a_run_and_is_in_all_other_fits(folds: int, n: int) -> None:
    fitted = search(folds=folds, tries=8).fit(*numbered(n))
    real = [(budget, set(y)) for budget, y in FITS if y.any()]
    *inside, (last, everybody) = real
    assert last == fitted.last_budget_
    assert everybody == set(range(1, n + 1))
    assert len(inside) == len(JUDGED)
    assert len(inside) % folds == 0
    for start in range(0, len(inside), folds):
        judges = [set(who) for who in JUDGED[start : start + folds]]
        assert sorted(who for one in judges for who in one) == list(range(1, n + 1))
        assert max(map(len, judges)) - min(map(len, judges)) <= 1
        for (budget, fitting), judging in zip(inside[start : start + folds], judges, strict=True):
            assert not fitting & judging
            assert len(fitting) + len(judging) == n
            # folds - 1 fits and one judgement make the whole of a run.
            assert budget.mu_squared * folds == fitted.run_budget_.mu_squared


@pytest.mark.long
@pytest.mark.parametrize("share", mostly_slow([0.2, 0.5, 0.7]))
@pytest.mark.parametrize("budget", [RenyiDP(8, 2), ApproxDP(1, 1e-6)], ids=repr)
def test_the_runs_and_the_last_fit_are_within_the_budget(budget: Guarantee, share: float) -> None:
    fitted = search(Watched(budget), share=share, tries=10).fit(*numbered(60))
    assert isinstance(fitted.event_, events.Composed)
    runs, last = fitted.event_.parts
    assert isinstance(runs, events.NegativeBinomialTries)
    for event, spent in ((runs.event, fitted.run_budget_), (last, fitted.last_budget_)):
        assert isinstance(event, events.Gaussian)
        assert 1 - 1e-12 < event.noise_multiplier * spent.mu < 1 + 1e-12
    if isinstance(budget, RenyiDP):
        told = accounting.renyi(fitted.event_, alpha=8, neighbors=ReplaceOne)
        assert 1.9 < told <= 2
    else:
        assert accounting.delta(fitted.event_, epsilon=1, neighbors=ReplaceOne) <= 1e-6
        assert accounting.delta(last, epsilon=share, neighbors=ReplaceOne) > 0.9e-6 * share


def test_a_judgement_moves_by_one_at_most_and_has_the_share_of_a_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[GDP, Floats]] = []
    released = NoisySums.mean

    def noting(self: NoisySums, part: Any, **options: Any) -> Any:
        each = np.array([part(slice(row, row + 1))[0] for row in range(self.rows)])
        seen.append((self.budget, each))
        assert float(options["sensitivity"]) == float(options["row_bound"]) == 1
        return released(self, part, **options)

    monkeypatch.setattr(NoisySums, "mean", noting)
    x, y = numbered(90)
    y[:30:3], y[1:30:3], y[2:30:3] = math.nan, math.inf, -1e308
    fitted = search(tries=3).fit(x, y)
    assert math.isfinite(fitted.best_score_)
    for budget, losses in seen:
        assert len(losses) == 90
        assert losses.min() >= 0
        assert losses.max() == 1  # of rows without a number too
        assert budget == fitted.run_budget_ / fitted.folds


@pytest.mark.slow
@pytest.mark.statistical
def test_the_better_candidate_wins_once_it_was_drawn() -> None:
    # Of 20 draws in the mean all are bad in 1 of 11: fewer than 60 of 100 with p < 1e-10.
    bits = SeededBits(5)
    x, _ = numbered(2000)
    won = 0
    for _ in range(100):
        fitted = search(tries=20, folds=2, bits=bits).fit(x, np.full(2000, 3.0))
        won += fitted.best_params_ == {"value": 3.0}
        told = 0.0 if fitted.best_params_ == {"value": 3.0} else -3.0
        assert abs(fitted.best_score_ - told) < 6 * fitted.score_error_
        assert fitted.best_estimator_.value == fitted.best_params_["value"]
    assert won >= 60


@pytest.mark.slow
def test_a_penalty_is_chosen_and_the_last_fit_has_everybody() -> None:
    drawn = np.random.default_rng(6)
    x = drawn.normal(size=(60_000, 3))
    y = x @ [1.0, -2.0, 0.0] + drawn.normal(size=60_000)
    ridge = RidgeRegression(
        budget=ApproxDP(1, 1e-6), target_bounds=(-20, 20), feature_bounds=(-3, 3)
    )
    fitted = clone(search(ridge, {"penalty": [0.01, 1000.0]}, folds=2)).fit(x, y)
    assert fitted.best_params_ == {"penalty": 0.01}
    np.testing.assert_allclose(fitted.best_estimator_.coef_, [1, -2, 0], atol=0.1)
    assert fitted.best_estimator_.guarantee_ == fitted.last_budget_
    assert fitted.best_estimator_.diagnostics_["rows"] == 60_000
    assert abs(fitted.best_score_ + math.sqrt(2 / math.pi)) < 0.1
    assert fitted.predict(x[:5]).shape == (5,)


@pytest.mark.long
def test_classifiers_are_scored_by_their_accuracy() -> None:
    drawn = np.random.default_rng(7)
    x = drawn.normal(size=(20_000, 2))
    y = np.where(x[:, 0] + 0.5 * drawn.normal(size=20_000) > 0, "yes", "no")
    model = LogisticRegression(budget=BUDGET, feature_bounds=(-3, 3), classes=("no", "yes"))
    fitted = search(model, {"classes": [("no", "yes")]}, error_bound=None, tries=2).fit(x, y)
    assert 0.8 < fitted.best_score_ < 0.92
    assert fitted.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("fails", [1, 100])  # in every run; in the last fit alone
def test_where_fits_fail_the_spend_stays_and_the_cause_is_hidden(fails: int) -> None:
    failing = search(grid={"fails": [fails]})
    with pytest.raises(FitFailed) as caught:
        failing.fit(*numbered(100))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert failing.guarantee_ == BUDGET
    assert not failing.__sklearn_is_fitted__()


def test_a_fit_too_poor_for_a_fold_is_refused_before_a_bit_is_drawn() -> None:
    ridge = RidgeRegression(budget=RenyiDP(8, 0.1), target_bounds=(-20, 20), feature_bounds=(-3, 3))
    x, y = np.zeros((500, 3)), np.zeros(500)
    with pytest.raises(InvalidParameter, match=r"^budget="):
        search(ridge, {"penalty": [1.0]}, tries=1, bits=ScriptedBits([])).fit(x, y)


@in_subtests(
    ("estimator", "options", "name"),
    [
        (Watched(BUDGET), {"folds": 1}, "folds"),
        (Watched(BUDGET), {"folds": 21}, "folds"),
        (Watched(BUDGET), {"folds": 2.5}, "folds"),
        (Watched(BUDGET), {"folds": 20}, "X"),  # of 30 people
        (Watched(BUDGET), {"share": 0}, "share"),
        (Watched(BUDGET), {"share": 1.0}, "share"),
        (Watched(BUDGET), {"share": math.nan}, "share"),
        (Watched(BUDGET), {"tries": 0.5}, "tries"),
        (Watched(BUDGET), {"error_bound": -1.0}, "error_bound"),
        (Watched(GDP(1)), {}, "budget"),
        (Watched(PureDP(1)), {}, "budget"),
        (StandardScaler(), {}, "estimator"),
        (make_pipeline(StandardScaler(), Watched(BUDGET)), {}, "estimator"),
    ],
)
def test_arguments_that_cannot_be_used_are_named_before_a_bit_is_drawn(
    estimator: Any, options: dict[str, Any], name: str
) -> None:
    grid = {} if name == "estimator" else {"value": [1.0]}
    grid = grid or {next(iter(estimator.get_params())): [1]}
    with pytest.raises(InvalidParameter, match=f"^{name}="):
        search(estimator, grid, **({"bits": ScriptedBits([])} | options)).fit(*numbered(30))


def test_a_size_of_errors_is_asked_for() -> None:
    with pytest.raises(MissingBound, match="error_bound"):
        search(error_bound=None).fit(*numbered(30))
