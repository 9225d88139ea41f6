"""The scaler: its price, its quartiles, pipelines with a model, and what cannot be used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from unacorda import GDP, ZCDP, ApproxDP, PureDP, ReplaceOne, SeededBits, accounting, inference
from unacorda.errors import InvalidParameter
from unacorda.inference.regression.results import Summary
from unacorda.inference.transformers import RobustScaler
from unacorda.privacy.guarantees import Guarantee


def normals(n: int, *, seed: int) -> Any:
    return np.random.default_rng(seed).normal([50.0, -3.0], [3.0, 0.2], size=(n, 2))


def scaler(**options: Any) -> RobustScaler:
    chosen: dict[str, Any] = {"budget": GDP(1), "feature_bounds": (-100, 1000)}
    return RobustScaler(**(chosen | options))


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.1), GDP(0.5)], ids=repr)
def test_the_event_is_within_the_budget(budget: Guarantee) -> None:
    event = scaler(budget=budget).fit(normals(500, seed=1)).event_
    if isinstance(budget, PureDP | ApproxDP):
        delta = 0.0 if isinstance(budget, PureDP) else 1e-6
        epsilon = accounting.epsilon(event, delta=delta, neighbors=ReplaceOne)
        assert 0.5 < epsilon <= 1 + 1e-9
    else:
        rho = 0.1 if isinstance(budget, ZCDP) else 0.125
        assert 0.3 * rho < accounting.rho(event, neighbors=ReplaceOne) <= rho * (1 + 1e-9)


@pytest.mark.statistical
def test_quartiles_become_those_of_a_standard_normal() -> None:
    x = normals(20_000, seed=2)
    fitted = scaler(bits=SeededBits(2)).fit(x)
    np.testing.assert_allclose(fitted.center_, [50.0, -3.0], atol=0.15)
    np.testing.assert_allclose(fitted.scale_, [3.0, 1.1], rtol=0.1)  # 1.1: the least for a range
    moved = fitted.transform(x)
    assert abs(np.quantile(moved[:, 0], 0.75) - 0.674) < 0.1
    np.testing.assert_allclose(fitted.inverse_transform(moved), x)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, 7.0])
def test_data_of_any_kind_raise_nothing(value: float) -> None:
    fitted = scaler(bits=SeededBits(3)).fit(np.full((100, 2), value))
    assert np.isfinite(fitted.center_).all()
    assert (fitted.scale_ >= 1.1).all()
    assert fitted.transform(np.full((3, 2), value)).shape == (3, 2)


def test_a_pipeline_spends_the_sum_and_its_model_is_the_same() -> None:
    x = normals(20_000, seed=4)
    y = 2 + x @ [0.1, 1.0] + np.random.default_rng(4).normal(size=len(x))
    whole = GDP(1)
    model = inference.LinearRegression(
        budget=whole - whole / 10, feature_bounds=(-3, 3), target_bounds=(-10, 30)
    )
    pipeline = make_pipeline(scaler(budget=whole / 10, feature_bounds=([0, -10], [100, 10])), model)
    pipeline.set_params(robustscaler__bits=SeededBits(4), linearregression__bits=SeededBits(5))
    fitted = clone(pipeline).fit(x, y)
    found = fitted[-1].coef_ / fitted[0].scale_
    np.testing.assert_allclose(found, [0.1, 1.0], atol=0.25)
    spent = fitted[0].event_ + fitted[1].event_
    assert accounting.rho(spent, neighbors=ReplaceOne) <= 0.5


def test_a_frame_keeps_its_names_down_to_the_summary() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(normals(5000, seed=6), columns=["height", "log dose"])
    frame["y"] = frame["height"] - 50
    model = inference.LinearRegression(
        budget=GDP(1), feature_bounds=([40, -4], [60, -2]), target_bounds=(-10, 10)
    )
    fitted = model.fit(frame[["height", "log dose"]], frame["y"])
    table = fitted.summary(0.9)
    assert isinstance(table, Summary)
    text = str(table)
    for word in ("height", "log dose", "intercept", "mu 1,", "sampling", "privacy", "[90%"):
        assert word in text
    numbers = table.to_pandas()
    assert list(numbers.index) == ["intercept", "height", "log dose"]
    height = numbers.loc["height"]
    assert height["std err"] == pytest.approx(math.hypot(height["sampling"], height["privacy"]))
    assert height["z"] == pytest.approx(height["coef"] / height["std err"])
    half = 1.6448536269514722 * height["std err"]
    assert height["upper"] == pytest.approx(height["coef"] + half)


def test_infinite_errors_make_a_table_without_a_claim() -> None:
    model = inference.LinearRegression(
        budget=GDP(1), feature_bounds=(-3, 3), target_bounds=(-1, 1), bits=SeededBits(7)
    ).fit(np.zeros((500, 2)), np.zeros(500))
    table = model.summary()
    assert np.isnan(table.p_values).all()
    assert "inf" in str(table)


def test_arguments_that_cannot_be_used_are_named() -> None:
    x = normals(50, seed=8)
    with pytest.raises(InvalidParameter, match=r"^feature_bounds="):
        scaler(feature_bounds=(1, 0)).fit(x)
    with pytest.raises(InvalidParameter, match=r"^budget="):
        scaler(budget=1.0).fit(x)
