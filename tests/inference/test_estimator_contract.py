"""scikit-learn's own checks of an estimator, and each one that is not meant to pass, and why."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter
from tests.support.cases import in_subtests

from unacorda import GDP, ApproxDP, RenyiDP, inference
from unacorda.errors import InvalidParameter
from unacorda.inference.losses import LogCosh

# So much that no noise is seen: these checks are about the contract, not about accuracy.
BUDGET = GDP(10**7)

LINE = inference.LinearRegression(budget=BUDGET, feature_bounds=(-5, 5), target_bounds=(-10, 10))
LOGISTIC = inference.LogisticRegression(budget=BUDGET, feature_bounds=(-5, 5))

ESTIMATORS = [
    LINE,
    LOGISTIC,
    inference.LocalLinearRegression(budget=BUDGET, feature_bounds=(-5, 5), residual_bound=5.0),
    inference.LocalLogisticRegression(budget=BUDGET, feature_bounds=(-5, 5)),
    inference.LocalMEstimator(loss=LogCosh(1.0), budget=BUDGET, feature_bounds=(-5, 5)),
    inference.NoisySGD(
        loss=LogCosh(1.0), budget=ApproxDP(20, 1e-6), feature_bounds=(-5, 5), steps=20
    ),
    inference.PoissonRegression(budget=BUDGET, feature_bounds=(-5, 5), largest=100),
    inference.MEstimator(loss=LogCosh(1.0), budget=BUDGET, feature_bounds=(-5, 5)),
    inference.QuantileRegression(budget=BUDGET, feature_bounds=(-5, 5), target_bounds=(-10, 10)),
    inference.RidgeRegression(
        target_bounds=(-100, 100), penalty=0.01, budget=BUDGET, feature_bounds=(-5, 5)
    ),
]

# For the best of several runs, which no Gaussian budget can pay for.
RENYI = RenyiDP(2, 10**14)

WRAPPERS = [
    inference.HeldOutSearch(
        inference.LinearRegression(budget=RENYI, feature_bounds=(-5, 5), target_bounds=(-10, 10)),
        {"tuning": [1.345]},
        tries=2,
        error_bound=20.0,
    ),
    inference.HeldOutSearch(
        inference.LogisticRegression(budget=RENYI, feature_bounds=(-5, 5)),
        {"classes": [(0, 1)]},
        tries=2,
    ),
    inference.CrossValidatedSearch(
        inference.LinearRegression(budget=RENYI, feature_bounds=(-5, 5), target_bounds=(-10, 10)),
        {"tuning": [1.345]},
        folds=2,
        tries=2,
        error_bound=20.0,
    ),
    inference.SparseRegression(LINE, n_features=1),
    inference.SparseRegression(LOGISTIC, n_features=1),
]

TRANSFORMERS = [
    inference.RobustScaler(budget=BUDGET, feature_bounds=(-100, 100)),
    inference.PCA(budget=BUDGET, feature_bounds=(-10, 10)),
]

ALWAYS = {
    "check_dtype_object": "Python objects would have to be converted one by one, and one that "
    "cannot be would raise an error that tells of it",
    "check_estimators_nan_inf": "a refusal would tell that somebody's number is missing; her row "
    "has weight 0 instead",
    "check_supervised_y_no_nan": "likewise",
}

OWN = {
    "PCA": {
        "check_pipeline_consistency": "two fits are compared to nine digits; each has its own noise"
    },
    "LogisticRegression": {
        "check_classifiers_classes": "the labels are public and named beforehand, not looked up",
        "check_classifiers_regression_target": "what the labels are is looked at by no refusal",
        "check_classifier_not_supporting_multiclass": "likewise; a third label has weight 0",
    },
}


WEIGHTS = {
    "check_all_zero_sample_weights_error": "an error would tell that everybody's weight is 0; "
    "intervals are infinite instead",
    "check_sample_weight_equivalence_on_dense_data": "two fits are compared to seven digits; each "
    "has its own noise, and weights above 1 count as 1",
}

OWN["LocalLogisticRegression"] = OWN["LogisticRegression"]

DEALT = {"LocalLinearRegression", "LocalLogisticRegression", "LocalMEstimator", "NoisySGD"}
"""These deal people out at random: of few people a fit may know nothing of a slope."""

TWO_FITS = {
    "check_fit_idempotent",
    "check_supervised_y_2d",
    "check_regressors_int",
    "check_regressor_data_not_an_array",
    "check_classifier_data_not_an_array",
}

TEN_PEOPLE = {"check_classifiers_one_label"}
"""Ten people: two or three answer in each round, and often nobody tells of a slope."""


def exceptions(estimator: Any) -> dict[str, str]:
    inner = getattr(estimator, "estimator", None)
    if inner is not None:
        return exceptions(inner)
    weights = WEIGHTS if has_fit_parameter(estimator, "sample_weight") else {}
    return ALWAYS | weights | OWN.get(type(estimator).__name__, {})


@pytest.mark.slow
@parametrize_with_checks([*ESTIMATORS, *WRAPPERS, *TRANSFORMERS], expected_failed_checks=exceptions)  # type: ignore[untyped-decorator]
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    name = check.func.__name__  # type: ignore[attr-defined]
    if name in TWO_FITS:
        pytest.skip("it compares two fits, each of which draws noise of its own")
    if name in TEN_PEOPLE and type(estimator).__name__ in DEALT:
        pytest.skip("it asks a fit of ten people, of whom few answer in each round")
    check(estimator)


@pytest.mark.long
@pytest.mark.parametrize("estimator", [*ESTIMATORS, *WRAPPERS, *TRANSFORMERS])
def test_a_seed_in_place_of_bits_is_named(estimator: Any) -> None:
    x = np.random.default_rng(1).normal(size=(400, 2))
    seeded = clone(estimator).set_params(bits=7)
    with pytest.raises(InvalidParameter, match=r"^bits=7 .*SeededBits\(7\)"):
        seeded.fit(x, (x[:, 0] > 0).astype(int))


@pytest.mark.long
@pytest.mark.parametrize("estimator", [*ESTIMATORS, *WRAPPERS, *TRANSFORMERS])
def test_arrays_of_the_caller_are_left_alone(estimator: Any) -> None:
    x = np.random.default_rng(1).normal(size=(400, 2))
    x[3, 1] = np.nan
    y = (x[:, 0] > 0).astype(np.float64)
    before = x.copy(), y.copy()
    x.flags.writeable = y.flags.writeable = False
    clone(estimator).fit(x, y)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])


@in_subtests("estimator", [*ESTIMATORS, *WRAPPERS, *TRANSFORMERS])
@pytest.mark.filterwarnings("ignore")
def test_a_fitted_model_is_stored_without_its_rows(estimator: Any) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3_000, 2))
    number = x[:, 0] - x[:, 1] + rng.normal(size=len(x))
    fitted = clone(estimator).fit(x, number if is_regressor(estimator) else number > 0)
    stored = pickle.dumps(fitted)
    assert len(stored) < x.nbytes / 2
    assert not any(value.tobytes() in stored for value in [*x.ravel(), *number])
    read = pickle.loads(stored)
    answer = "predict" if hasattr(estimator, "predict") else "transform"
    np.testing.assert_array_equal(getattr(read, answer)(x), getattr(fitted, answer)(x))


def test_each_exception_names_an_estimator_that_is_checked() -> None:
    assert set(OWN) <= {
        type(estimator).__name__ for estimator in [*ESTIMATORS, *WRAPPERS, *TRANSFORMERS]
    }
