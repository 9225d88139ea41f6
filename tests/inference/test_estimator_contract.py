"""scikit-learn's own checks of an estimator, and each one that is not meant to pass, and why."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, RenyiDP, SeededBits, inference
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

BARE = [
    inference.LinearRegression(budget=BUDGET),
    inference.LogisticRegression(budget=BUDGET),
    inference.PoissonRegression(budget=BUDGET),
    inference.QuantileRegression(budget=BUDGET),
    inference.RobustScaler(budget=BUDGET),
    inference.PCA(budget=BUDGET),
]
"""They find bounds."""

ALWAYS = {
    "check_dtype_object": "an element that is no number is missing, and raises nothing: an error "
    "would reveal it",
    "check_supervised_y_no_nan": "an error would reveal that a number is missing; its row has "
    "weight 0",
}

LABELS = {
    "check_classifiers_classes": "labels are public, named by `classes=` and not read",
    "check_classifiers_regression_target": "which labels occur is private; one that is not in "
    "`classes=` has weight 0",
    "check_classifier_not_supporting_multiclass": "likewise",
}

WEIGHTS = {
    "check_all_zero_sample_weights_error": "an error would reveal that all weights are 0; "
    "intervals are infinite",
    "check_sample_weight_equivalence_on_dense_data": "it compares two fits to seven digits; each "
    "has its own noise, and weights above 1 count as 1",
}

TWO_FITS = dict.fromkeys(
    (
        "check_fit_idempotent",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_regressor_data_not_an_array",
        "check_classifier_data_not_an_array",
    ),
    "it compares two fits; each has its own noise",
)
"""Some pass by chance, with enough budget."""

TEN_ROWS = {
    "check_classifiers_one_label": "it fits ten rows, of which two or three answer in each round"
}
"""Of estimators that deal rows out at random: of few rows a fit may know nothing of a slope."""

OF_TEN_ROWS = {"LocalLinearRegression", "LocalLogisticRegression", "LocalMEstimator", "NoisySGD"}


def exceptions(estimator: Any) -> dict[str, str]:
    inner = getattr(estimator, "estimator", None)
    if inner is not None:
        return exceptions(inner)
    weights = WEIGHTS if has_fit_parameter(estimator, "sample_weight") else {}
    return ALWAYS | weights | (LABELS if is_classifier(estimator) else {})


@pytest.mark.slow
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [*ESTIMATORS, *WRAPPERS, *TRANSFORMERS, *BARE], expected_failed_checks=exceptions
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    name = check.func.__name__  # type: ignore[attr-defined]
    if name in TWO_FITS:
        pytest.skip(TWO_FITS[name])
    if name in TEN_ROWS and type(estimator).__name__ in OF_TEN_ROWS:
        pytest.skip(TEN_ROWS[name])
    check(estimator)


def test_the_page_lists_each_check_that_is_not_met_with_its_reason() -> None:
    page = (Path(__file__).parents[2] / "docs/scikit-learn.md").read_text()
    listed = dict(re.findall(r"^\| `(check_\w+)` \| (.*?) \|$", page, re.MULTILINE))
    assert listed == ALWAYS | LABELS | WEIGHTS | TWO_FITS | TEN_ROWS


def frames() -> dict[str, Callable[[pd.DataFrame], Any]]:
    return {
        "nullable": lambda frame: frame.astype("Float64"),
        "objects": lambda frame: frame.astype(object),
        "Arrow's": lambda frame: frame.astype("double[pyarrow]"),
        "polars": lambda frame: pl.DataFrame({name: frame[name].to_numpy() for name in frame}),
    }


@pytest.mark.parametrize("estimator", mostly_slow([*ESTIMATORS, *TRANSFORMERS, *WRAPPERS], quick=2))
@pytest.mark.filterwarnings("ignore")
def test_frames_of_every_kind_fit_alike(estimator: Any) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 2))
    x[3, 1] = np.nan
    y = x[:, 0] + rng.normal(size=len(x))
    target = y if is_regressor(estimator) else (y > 0).astype(float)
    frame = pd.DataFrame(x, columns=["age", "dose"])
    answers = []
    for change in (lambda frame: frame, *frames().values()):
        fitted = clone(estimator).set_params(bits=SeededBits(4)).fit(change(frame), target)
        assert list(fitted.feature_names_in_) == ["age", "dose"]
        answer = fitted.predict if hasattr(fitted, "predict") else fitted.transform
        answers.append(answer(change(frame.fillna(0.0))))
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])


WORDS = ["yes", "no"] * 200


@pytest.mark.parametrize("kind", ["text", "categories of text", "dates"])
def test_a_column_that_holds_no_numbers_is_refused_by_its_dtype(kind: str) -> None:
    days = pd.date_range("2026-01-01", periods=400)
    frame = pd.DataFrame({"age": range(400), "smokes": days if kind == "dates" else WORDS})
    if kind == "categories of text":
        frame["smokes"] = frame["smokes"].astype("category")
    for given in (frame, pl.from_pandas(frame)):
        with pytest.raises(InvalidParameter, match=r"column 'smokes' of .* X\['smokes'\]"):
            clone(LINE).fit(given, np.zeros(400))
    numbered = frame.assign(smokes=pd.Series([1, 0] * 200).astype("category"))
    assert np.isfinite(clone(LINE).fit(numbered, np.zeros(400)).coef_).all()


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


@pytest.mark.long
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
