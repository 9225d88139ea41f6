"""Weights of rows in fits from tables: the law of arrays, odd weights, coverage."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.inference.test_table_fits import BOUNDS, MODELS, QUIET, TABLE, TARGETS, X, parameters
from tests.tiers import mostly_slow

import unacorda
from unacorda import GDP, ReplaceOne, SeededBits, inference

DRAWN = np.random.default_rng(11)
N = len(X)
WEIGHTS = DRAWN.random(N) * np.where(X[:, 0] > 40, 1.0, 0.3)


def from_table(model: Any, target: str, weights: Any, *, table: Any = TABLE, **more: Any) -> Any:
    given: dict[str, Any] = {"unit": unacorda.Person("who", max_rows=1), "bits": SeededBits(1)}
    weighed = table.append_column("survey", pa.array(weights, pa.float64()))
    with unacorda.Session({"t": weighed}, budget=model.budget, **given | more) as session:
        return session.fit(
            model, "t", features=["age", "school"], target=target, weight="survey * 1"
        )


@pytest.mark.long
@pytest.mark.parametrize("name", mostly_slow(MODELS))
def test_without_noise_a_table_gives_what_weighted_arrays_give(name: str) -> None:
    target, made = MODELS[name]
    ours = from_table(made(budget=QUIET), target, WEIGHTS)
    theirs = made(budget=QUIET, bits=SeededBits(2))
    theirs.fit(X, TARGETS[target], sample_weight=WEIGHTS)
    scale = np.abs(parameters(theirs)) + theirs.sampling_error_
    assert np.max(np.abs(parameters(ours) - parameters(theirs)) / scale) < 1e-3
    assert ours.sampling_error_ == pytest.approx(list(theirs.sampling_error_), rel=2e-2)
    assert ours.n_iter_ == theirs.n_iter_
    for model in (ours, theirs):
        assert model.diagnostics_["rows"] == pytest.approx(WEIGHTS.sum(), rel=1e-6)


@pytest.mark.long
def test_odd_weights_count_as_those_of_arrays_do() -> None:
    odd = [math.nan, math.inf, -math.inf, -1.0, 7.0, 1e308, 5e-324, 1e-200]
    weights = WEIGHTS.copy()
    weights[: 100 * len(odd)] = np.repeat(odd, 100)
    target, made = MODELS["linear"]
    unknown = [None if math.isnan(weight) else weight for weight in weights]
    theirs = made(budget=QUIET, bits=SeededBits(2)).fit(X, TARGETS[target], sample_weight=weights)
    for given in (weights, unknown):
        ours = from_table(made(budget=QUIET), target, given)
        assert parameters(ours) == pytest.approx(list(parameters(theirs)), rel=1e-4)
        assert ours.diagnostics_["rows"] == pytest.approx(theirs.diagnostics_["rows"], rel=1e-6)


@pytest.mark.long
def test_a_condition_is_a_weight_that_leaves_rows_out() -> None:
    target, made = MODELS["linear"]
    fits = []
    for query, weight in (("true", "age < 40"), ("age < 40", None)):
        with unacorda.Session({"t": TABLE}, unit=unacorda.Row(), budget=QUIET) as session:
            fits.append(
                session.fit(
                    made(budget=QUIET),
                    session.table("t").where(query),
                    features=["age", "school"],
                    target=target,
                    weight=weight,
                )
            )
    assert parameters(fits[0]) == pytest.approx(list(parameters(fits[1])), rel=1e-3)
    assert fits[0].diagnostics_["rows"] == pytest.approx(fits[1].diagnostics_["rows"], rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("name", mostly_slow(MODELS))
def test_without_any_weight_intervals_are_infinite(name: str) -> None:
    target, made = MODELS[name]
    model = from_table(made(budget=GDP(2)), target, np.zeros(N))
    assert np.isfinite(parameters(model)).all()
    assert np.isinf(model.conf_int()).all() or name == "ridge"


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, ReplaceOne])
def test_weighted_intervals_from_a_table_cover(neighbors: Any) -> None:
    drawn, covered = np.random.default_rng(12), []
    truth = np.array([0.2, 1.5])
    for seed in range(100):
        x = drawn.normal([40, 12], [10, 3], size=(3000, 2))
        table = pa.table(
            {
                "age": x[:, 0],
                "school": x[:, 1],
                "wage": 5 + x @ truth + 4 * drawn.standard_t(4, size=3000),
            }
        )
        weights = drawn.random(3000) * np.where(x[:, 0] > 40, 1.0, 0.4)
        model = inference.LinearRegression(
            budget=GDP(2), feature_bounds=BOUNDS, target_bounds=(0, 70)
        )
        unit = unacorda.Row(neighbors=neighbors)
        fit = from_table(model, "wage", weights, table=table, unit=unit, bits=SeededBits(seed))
        low, high = fit.conf_int()[1:].T
        covered.append(np.mean((low <= truth) & (high >= truth)))
    # 5 deviations of 100 fits with two slopes that hang together.
    assert np.mean(covered) >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / 100)
