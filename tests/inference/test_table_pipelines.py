"""Pipelines from tables: a scaler and a model, each for its own part of one reservation."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted
from tests.tiers import mostly_slow

import unacorda
from unacorda import GDP, ZCDP, ApproxDP, RenyiDP, SeededBits, accounting, inference
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

DRAWN = np.random.default_rng(1)
N = 3000
X = DRAWN.normal([40, 12], [10, 3], size=(N, 2))
TABLE = pd.DataFrame(X, columns=["age", "school"])
TABLE["wage"] = 5 + X @ [0.2, 1.5] + 4 * DRAWN.standard_t(4, size=N)
TABLE["who"] = np.arange(N)
QUIET = GDP(10**6)
WIDE = ([-500, -500], [500, 100])


def scaler(budget: Guarantee) -> inference.RobustScaler:
    return inference.RobustScaler(budget=budget, feature_bounds=WIDE)


def line(budget: Guarantee) -> inference.LinearRegression:
    return inference.LinearRegression(budget=budget, feature_bounds=(-3, 3), target_bounds=(0, 70))


def sparse(budget: Guarantee) -> inference.SparseRegression:
    return inference.SparseRegression(line(budget), n_features=1)


def fitted(pipeline: Any, *, budget: Guarantee, unit: Any = None, table: Any = TABLE) -> Any:
    unit = unit or unacorda.Person("who", max_rows=1)
    with unacorda.Session({"t": table}, unit=unit, budget=budget, bits=SeededBits(1)) as session:
        found = session.fit(pipeline, "t", features=["age", "school"], target="wage")
        assert found is pipeline
        assert all(
            spent <= whole
            for spent, whole in zip(session.spent.additive, budget.additive, strict=True)
        )
        return found


def test_without_noise_it_is_the_model_of_standardised_features() -> None:
    pipeline = fitted(make_pipeline(scaler(QUIET), line(QUIET)), budget=GDP(2 * 10**6))
    scaled, model = pipeline[0], pipeline[1]
    quartiles = np.quantile(X, [0.25, 0.75], axis=0)
    # A thousandth of the ranges.
    assert np.abs(scaled.center_ - quartiles.mean(axis=0)).max() < 1
    assert np.abs(scaled.scale_ / [10, 3] - 1).max() < 0.2
    alone = line(QUIET).set_params(bits=SeededBits(2))
    alone.fit(scaled.transform(TABLE[["age", "school"]]), TABLE["wage"])
    assert model.coef_ == pytest.approx(list(alone.coef_), rel=1e-6)
    assert model.intercept_ == pytest.approx(alone.intercept_, rel=1e-6)


@pytest.mark.filterwarnings("error")
def test_a_pipeline_predicts_as_one_that_was_fitted_to_arrays() -> None:
    pipeline = fitted(make_pipeline(scaler(QUIET), line(QUIET)), budget=GDP(2 * 10**6))
    check_is_fitted(pipeline)
    new = TABLE[["age", "school"]].head(50)
    by_hand = pipeline[1].intercept_ + pipeline[0].transform(new) @ pipeline[1].coef_
    assert pipeline.predict(new) == pytest.approx(by_hand.tolist())
    assert list(pipeline.feature_names_in_) == ["age", "school"]
    assert np.abs(by_hand - (5 + X[:50] @ [0.2, 1.5])).max() < 1.5


BUDGETS = [GDP(2), ZCDP("2"), ApproxDP(3, 1e-6), RenyiDP(8, 8)]


@pytest.mark.parametrize("budget", mostly_slow(BUDGETS), ids=repr)
def test_its_steps_cost_their_budgets_and_the_account_their_sum(budget: Guarantee) -> None:
    tenth = budget / 10
    pipeline = fitted(make_pipeline(scaler(tenth), line(budget - tenth)), budget=budget)
    spent = []
    for step, own in zip(pipeline, (tenth, budget - tenth), strict=True):
        spent.append(float(GDP.within(own).mu_squared) / 2)
        assert accounting.rho(step.event_) == pytest.approx(spent[-1], rel=1e-2)
        assert accounting.rho(step.event_) <= spent[-1]
        assert step.guarantee_ == own
    told = events.compose([step.event_ for step in pipeline])
    assert accounting.rho(told) <= sum(spent) <= float(GDP.within(budget).mu_squared) / 2


def test_a_fit_that_fails_in_its_rehearsal_leaves_the_steps_as_they_were() -> None:
    steps = scaler(GDP(1)), inference.LinearRegression(budget=GDP(1), target_bounds=(0, 70))
    with pytest.raises(unacorda.errors.MissingBound, match="feature_bounds"):
        fitted(make_pipeline(*steps), budget=GDP(2))
    assert not hasattr(steps[0], "center_")


def test_a_step_that_passes_all_through_costs_nothing() -> None:
    pipeline = make_pipeline("passthrough", line(GDP(1)).set_params(feature_bounds=WIDE))
    assert fitted(pipeline, budget=GDP(1))[-1].coef_.shape == (2,)


@pytest.mark.parametrize("unit", [unacorda.Row(), unacorda.Person("who", max_rows=1)], ids=str)
def test_a_sparse_regression_selects_among_standardised_features(unit: Any) -> None:
    budget = GDP(4)
    pipeline = make_pipeline(scaler(budget / 4), sparse(budget - budget / 4))
    fitted(pipeline, budget=budget, unit=unit)
    assert pipeline[1].selected_.tolist() == [1]
    slope = pipeline[1].coef_[1] / pipeline[0].scale_[1]
    assert slope == pytest.approx(1.5, abs=0.3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e300, -1e300, 7.0])
def test_features_of_any_size_raise_nothing(value: float) -> None:
    pipeline = make_pipeline(scaler(GDP(1)), line(GDP(1)))
    fitted(pipeline, budget=GDP(2), table=TABLE.assign(age=value))
    assert np.isfinite(pipeline[0].scale_).all()
    assert np.isfinite(pipeline[1].coef_).all()
