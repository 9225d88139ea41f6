"""Diagnostics asked of a session: integers of arrays, noise of both relations, one charge."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unacorda
from unacorda import GDP, PureDP, SeededBits, inference
from unacorda.errors import BudgetExceeded, InvalidParameter, MissingBound

RNG = np.random.default_rng(1)
ROWS = 4000
TABLE = pd.DataFrame(
    {"who": np.arange(ROWS), "a": RNG.normal(size=ROWS), "b": RNG.normal(size=ROWS)}
)
LINE = 1.0 * TABLE.a - 1.0 * TABLE.b
TABLE["wage"] = LINE + RNG.normal(size=ROWS)
TABLE["ill"] = (RNG.random(ROWS) < 1 / (1 + np.exp(-LINE))).astype(float)
X = TABLE[["a", "b"]].to_numpy()
BOUNDS: dict[str, Any] = {"feature_bounds": (-3, 3), "bits": SeededBits(1)}
LOGISTIC = inference.LogisticRegression(budget=GDP(1), **BOUNDS).fit(X, TABLE.ill)
LEAST = inference.LinearRegression(budget=GDP(1), target_bounds=(-6, 6), **BOUNDS).fit(
    X, TABLE.wage
)

TABLE["visits"] = RNG.poisson(np.exp(0.5 + 0.3 * LINE)).astype(float)
COUNTS = inference.PoissonRegression(budget=GDP(1), largest=12, **BOUNDS).fit(X, TABLE.visits)

QUIET = GDP(10**6)


def opened(budget: Any = QUIET, table: pd.DataFrame = TABLE, **options: Any) -> unacorda.Session:
    given: dict[str, Any] = {"unit": unacorda.Person("who", max_rows=1), "bits": SeededBits(1)}
    return unacorda.Session({"t": table}, budget=budget, **{**given, **options})


def asked(session: unacorda.Session, question: Any, target: str, **named: Any) -> Any:
    rest: dict[str, Any] = {"features": ["a", "b"], **named}
    return session.fit(question, "t", target=target, **rest).table_


def test_the_table_of_scores_has_the_integers_of_arrays() -> None:
    with opened() as session:
        found = asked(session, inference.diagnosis(LOGISTIC, budget=QUIET), "ill")
    arrays = inference.score_table(LOGISTIC, X, TABLE.ill, budget=QUIET)
    assert np.rint(found.positives).tolist() == np.rint(arrays.positives).tolist()
    assert np.rint(found.negatives).tolist() == np.rint(arrays.negatives).tolist()
    assert found.auc().value == pytest.approx(arrays.auc().value, abs=1e-4)


def test_the_table_of_residuals_has_the_numbers_of_arrays() -> None:
    with opened() as session:
        question = inference.diagnosis(LEAST, budget=QUIET, residual_bound=3)
        found = asked(session, question, "wage")
    arrays = inference.residual_table(LEAST, X, TABLE.wage, budget=QUIET, residual_bound=3)
    assert np.rint(found.histogram).tolist() == np.rint(arrays.histogram).tolist()
    assert found.edges.tolist() == arrays.edges.tolist()
    assert found.sums == pytest.approx(arrays.sums, abs=0.01)
    assert found.totals == pytest.approx(arrays.totals, abs=0.01)
    assert found.r2().value == pytest.approx(arrays.r2().value, abs=1e-4)


def test_the_residuals_of_counts_have_the_numbers_of_arrays() -> None:
    with opened() as session:
        question = inference.diagnosis(COUNTS, budget=QUIET, residual_bound=4, bins=10)
        found = asked(session, question, "visits")
    arrays = inference.residual_table(
        COUNTS, X, TABLE.visits, budget=QUIET, residual_bound=4, bins=10
    )
    assert found.target_bounds == (0, 12)
    assert np.rint(found.histogram).tolist() == np.rint(arrays.histogram).tolist()
    assert found.sums == pytest.approx(arrays.sums, abs=0.01)
    assert found.totals == pytest.approx(arrays.totals, abs=0.01)
    assert found.r2().value == pytest.approx(arrays.r2().value, abs=1e-4)
    assert found.r2().value > 0.1


class Altered:
    """A model whose coefficients are not what it predicts by."""

    def __init__(self, model: Any, **changes: Any) -> None:
        self._model, self._changes = model, changes

    def __getattr__(self, name: str) -> Any:
        return self._changes.get(name) or getattr(self._model, name)


@pytest.mark.parametrize(
    "model",
    [
        Altered(LEAST, predict=lambda x: x[:, 0] ** 2),
        Altered(COUNTS, predict=lambda x: 1 / COUNTS.predict(x)),
        Altered(LOGISTIC, predict_proba=lambda x: LOGISTIC.predict_proba(x) ** 2),
        Altered(LOGISTIC, predict_proba=lambda x: np.full((len(x), 3), 1 / 3)),
        Altered(LEAST, predict=lambda x: np.zeros((len(x), 2))),
        inference.QuantileRegression(budget=GDP(1), quantile=0.5, target_bounds=(-6, 6), **BOUNDS),
    ],
)
def test_models_that_predict_in_another_way_are_refused(model: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        inference.diagnosis(model, budget=GDP(1), residual_bound=3)
    assert caught.value.argument == "model"


def test_one_bin_holds_every_residual() -> None:
    with opened() as session:
        question = inference.diagnosis(LEAST, budget=QUIET, residual_bound=3, bins=1)
        found = asked(session, question, "wage")
    assert found.sums[0, 0] == pytest.approx(ROWS, abs=0.01)
    assert len(found.by_bins()) == 1


@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_noise_is_that_of_the_rows_of_a_person(neighbors: Any) -> None:
    unit = unacorda.Person("who", max_rows=3, neighbors=neighbors)
    with opened(GDP(1), unit=unit) as session:
        found = asked(session, inference.diagnosis(LOGISTIC, budget=GDP(1)), "ill")
    replaced = neighbors is unacorda.ReplaceOne
    assert found.deviation == pytest.approx(3 * (math.sqrt(2) if replaced else 1), rel=1e-6)
    assert found.protects.endswith("replaced" if replaced else "added or removed")


def test_it_is_charged_once_and_refused_where_too_little_is_left() -> None:
    with opened(GDP(1)) as session:
        asked(session, inference.diagnosis(LOGISTIC, budget=GDP(1)), "ill")
        with pytest.raises(BudgetExceeded):
            asked(session, inference.diagnosis(LOGISTIC, budget=GDP(0.1)), "ill")


def test_rows_that_lack_a_number_or_have_another_label_count_nowhere() -> None:
    table = TABLE.copy()
    table.loc[0, "a"], table.loc[1, "ill"], table.loc[2, "ill"] = math.nan, math.nan, 7.0
    with opened(table=table) as session:
        found = asked(session, inference.diagnosis(LOGISTIC, budget=QUIET), "ill")
    assert round(found.positives.sum() + found.negatives.sum()) == ROWS - 3


def test_names_of_features_are_those_of_the_model() -> None:
    frame = TABLE[["a", "b"]]
    named = inference.LogisticRegression(budget=GDP(1), **BOUNDS).fit(frame, TABLE.ill)
    with opened() as session:
        question = inference.diagnosis(named, budget=QUIET)
        for features in (["b", "a"], ["a"]):
            with pytest.raises(InvalidParameter) as caught:
                asked(session, question, "ill", features=features)
            assert caught.value.argument == "features"
        assert session.spent.additive[0] == 0


@pytest.mark.parametrize(
    ("model", "named", "argument"),
    [
        (LEAST, {}, "residual_bound"),
        (LEAST, {"residual_bound": -1}, "residual_bound"),
        (LEAST, {"residual_bound": 1, "bins": 0}, "bins"),
        (LEAST, {"residual_bound": 1, "target_bounds": (1, 0)}, "target_bounds"),
        (LOGISTIC, {"bins": 1}, "bins"),
        (LOGISTIC, {"budget": PureDP(1)}, "budget"),
        ("model", {}, "model"),
    ],
)
def test_bad_arguments_are_named(model: Any, named: dict[str, Any], argument: str) -> None:
    with pytest.raises((InvalidParameter, MissingBound)) as caught:
        inference.diagnosis(model, **{"budget": GDP(1), **named})
    assert caught.value.argument == argument
