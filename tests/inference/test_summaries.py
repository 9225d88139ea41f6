"""What a fit says in words: how values were read, why there are no errors, what its numbers are."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score

from unacorda import GDP, RenyiDP, SeededBits, inference
from unacorda.errors import InvalidParameter

N = 2000
DRAWN = np.random.default_rng(3)
X = DRAWN.normal(size=(N, 2))
TARGET = X[:, 0] + DRAWN.normal(size=N)
SECOND = TARGET > 0
WORDS = np.where(SECOND, "yes", "no")

LINE = inference.LinearRegression(
    budget=GDP(2), feature_bounds=(-4, 4), target_bounds=(-5, 5), bits=SeededBits(1)
)
LOGISTIC = inference.LogisticRegression(budget=GDP(2), feature_bounds=(-4, 4), bits=SeededBits(1))


def fresh(model: Any) -> Any:
    """A copy with noise of its own: copies share a source of noise, whatever the order of tests."""
    return clone(model).set_params(bits=SeededBits(1))


TEXTS: dict[str, Any] = {
    "an array": np.asarray,
    "bytes": lambda words: np.asarray(words).astype("S"),
    "a column of pandas": pd.Series,
    "categories": lambda words: pd.Series(words).astype("category"),
    "a frame": lambda words: pd.Series(words).to_frame(),
    "a column of polars": pl.Series,
    "a column of Arrow": lambda words: pa.array(words.tolist()),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.filterwarnings("ignore:A column-vector")
def test_labels_of_text_for_classes_that_are_numbers_are_refused_by_type(kind: str) -> None:
    for words in (WORDS, np.repeat("0", N)):  # whatever they are
        model = fresh(LOGISTIC)
        with pytest.raises(InvalidParameter, match=r"^y="):
            model.fit(X, TEXTS[kind](words))
        assert not hasattr(model, "event_")
        with pytest.raises(InvalidParameter, match=r"^y="):
            fresh(LINE).fit(X, TEXTS[kind](words))


def test_the_refusal_names_classes_and_shows_no_label() -> None:
    with pytest.raises(InvalidParameter, match=r"0 and 1 \(numbers\).*classes=\('no', 'yes'\)"):
        fresh(LOGISTIC).fit(X, np.repeat("secret", N))
    with pytest.raises(InvalidParameter) as raised:
        fresh(LOGISTIC).fit(X, np.repeat("secret", N))
    assert "secret" not in str(raised.value)
    assert "str192" not in str(raised.value)


def test_labels_that_are_numbers_are_refused_for_classes_of_text() -> None:
    named = fresh(LOGISTIC).set_params(classes=("no", "yes"))
    with pytest.raises(InvalidParameter, match=r"'no' and 'yes' \(text\)"):
        named.fit(X, SECOND.astype(int))
    assert named.fit(X, WORDS).conf_int().max() < math.inf
    assert named.summary().notes == ()


@pytest.mark.parametrize("search", ["held out", "curve", "sparse"])
def test_searches_refuse_them_before_anything_is_spent(search: str) -> None:
    inner = clone(LOGISTIC).set_params(budget=RenyiDP(2, 10**6), bits=None)
    made = {
        "held out": lambda: inference.HeldOutSearch(inner, {"classes": [(0, 1)]}, tries=1),
        "curve": lambda: inference.ValidationCurve(fresh(LOGISTIC), {"classes": [(0, 1)]}),
        "sparse": lambda: inference.SparseRegression(fresh(LOGISTIC), n_features=1),
    }
    for labels in (WORDS, pd.Series(WORDS)):
        model = made[search]()  # type: ignore[no-untyped-call]
        with pytest.raises(InvalidParameter, match=r"^y="):
            model.fit(X, labels)
        assert not hasattr(model, "event_")


def test_searches_take_labels_of_text_for_classes_of_text() -> None:
    grid = {"classes": [("no", "yes")]}
    for labels in (WORDS, pd.Series(WORDS), WORDS.astype(object)):
        curve = inference.ValidationCurve(fresh(LOGISTIC), grid, bits=SeededBits(1)).fit(X, labels)
        assert curve.scores_[0] > 0.6
        assert bool(curve.best_estimator_.summary().notes) == (labels.dtype == object)


def test_elements_of_any_type_are_noted_whatever_they_are() -> None:
    frame = pd.DataFrame({"age": X[:, 0], "sex": X[:, 1]}).astype({"sex": object})
    of_text = frame.copy()
    of_text["sex"] = pd.Series(WORDS).astype(object)
    notes = [fresh(LINE).fit(one, TARGET).summary().notes for one in (frame, of_text)]
    assert notes[0] == notes[1]
    assert "objects (sex)" in notes[0][0]
    given = [fresh(LOGISTIC).fit(X, y.astype(object)).summary() for y in (SECOND, WORDS)]
    assert given[0].notes == given[1].notes
    for one in given:
        assert "0 and 1 (numbers)" in " ".join(str(one).split())
    both = fresh(LINE).fit(X.tolist(), TARGET.tolist()).summary().notes
    assert [note.split()[0] for note in both] == ["X", "y"]
    assert fresh(LINE).fit(X, TARGET).summary().notes == ()


def test_a_weighted_fit_says_that_weights_are_clipped() -> None:
    for weights in (np.random.default_rng(4).random(N), np.full(N, 20.0), np.full(N, -2.0)):
        text = " ".join(str(fresh(LINE).fit(X, TARGET, sample_weight=weights).summary()).split())
        assert "weights are clipped to [0, 1]" in text
        assert "divide them" in text
    assert "weights" not in str(fresh(LINE).fit(X, TARGET).summary())


FULL = np.column_stack([X[:, 0], SECOND, ~SECOND]).astype(float)


@pytest.mark.parametrize("made", ["line", "classes", "counts", "median"])
@pytest.mark.parametrize("rows", ["a full set of dummies", "a constant"])
def test_each_reason_for_no_errors_says_what_helps(made: str, rows: str) -> None:
    model = {
        "line": LINE,
        "classes": LOGISTIC,
        "counts": inference.PoissonRegression(budget=GDP(2), feature_bounds=(-4, 4), largest=9),
        "median": inference.QuantileRegression(
            budget=GDP(2), feature_bounds=(-4, 4), target_bounds=(-5, 5)
        ),
    }[made]
    x = FULL if "dummies" in rows else np.column_stack([X[:, 0], np.ones(N)])
    y = {"classes": X[:, 1] < TARGET, "counts": np.random.default_rng(4).poisson(1.0, N)}.get(
        made, TARGET
    )
    fitted = fresh(model).set_params(bits=SeededBits(2)).fit(x, y)
    assert fitted.cannot_
    assert all("; " in reason for reason in fitted.cannot_)
    assert "that others determine" in " ".join(fitted.cannot_)
    lines = str(fitted.summary()).splitlines()
    assert max(map(len, lines)) <= 9 + 80


def test_bounds_of_the_target_that_hold_few_values_are_named_as_a_reason() -> None:
    prices = np.exp(8 + X[:, 0])
    tight = fresh(LINE).set_params(target_bounds=(0, 100), budget=GDP(1)).fit(X, prices)
    assert any("target_bounds" in reason for reason in tight.cannot_)


def test_nothing_is_said_of_intervals_that_are_infinite() -> None:
    table = fresh(LINE).fit(X, TARGET).summary()
    pulled = dataclasses.replace(table, diagnostics=table.diagnostics | {"pull": 0.8})
    assert "intervals allow" in str(pulled)
    assert "intervals allow" not in str(dataclasses.replace(pulled, cannot=("noise; more",)))


def test_numbers_of_rows_and_people_are_whole_and_not_negative() -> None:
    table = fresh(LOGISTIC).fit(X, SECOND).summary()
    shown = dataclasses.replace(table, diagnostics={"rows": 53_940.0, "people": -0.15})
    assert re.search(r"^rows +53,940$", str(shown), re.MULTILINE)
    assert re.search(r"^people behind the weakest direction +0$", str(shown), re.MULTILINE)


def test_the_page_defines_each_line_of_a_summary() -> None:
    page = (Path(__file__).parents[2] / "docs/regression-summary.md").read_text()
    defined = dict(re.findall(r"^\| ([^|]+?) \| `([^|]+?)` \|", page, re.MULTILINE))
    models = [
        fresh(LINE).fit(X, TARGET),
        fresh(LOGISTIC).fit(X, SECOND),
        inference.PoissonRegression(budget=GDP(2), feature_bounds=(-4, 4), largest=9).fit(
            X, np.random.default_rng(4).poisson(1.0, N)
        ),
        inference.QuantileRegression(
            budget=GDP(2), feature_bounds=(-4, 4), target_bounds=(-5, 5)
        ).fit(X, TARGET),
        inference.LocalLinearRegression(
            budget=GDP(50), feature_bounds=(-4, 4), residual_bound=5.0
        ).fit(X, TARGET),
    ]
    for model in models:
        assert set(model.diagnostics_) <= set(defined.values())
        lines = [re.split(r"  +", line)[0] for line in str(model.summary()).splitlines()]
        for name, key in defined.items():
            assert (name in lines) == (key in model.diagnostics_)


def test_of_a_row_with_a_missing_feature_numbers_are_nan_and_the_class_is_the_first() -> None:
    new = np.array([[np.nan, 1.0], [3.0, 0.0]])
    assert np.isnan(fresh(LINE).fit(X, TARGET).predict(new)).tolist() == [True, False]
    model = fresh(LOGISTIC).set_params(classes=("no", "yes")).fit(X, WORDS)
    assert np.isnan(model.predict_proba(new)).all(axis=1).tolist() == [True, False]
    assert np.isnan(model.decision_function(new)).tolist() == [True, False]
    assert model.predict(new).tolist() == ["no", "yes"]


def test_a_score_is_that_of_scikit_learn_on_rows_without_missing_numbers() -> None:
    weights = np.random.default_rng(4).random(N)
    line, classes = fresh(LINE).fit(X, TARGET), fresh(LOGISTIC).fit(X, SECOND)
    exact = r2_score(TARGET, line.predict(X), sample_weight=weights)
    right = accuracy_score(SECOND, classes.predict(X), sample_weight=weights)
    x = np.vstack([X, [[np.nan, 0.0]]])
    more = np.append(weights, 1.0)
    assert line.score(x, np.append(TARGET, 9.0), more) == pytest.approx(exact)
    assert classes.score(x, np.append(SECOND, True), more) == pytest.approx(right)
    assert math.isnan(line.score(x[-1:], [1.0]))
    assert math.isnan(classes.score(x[-1:], [True]))
    with pytest.raises(InvalidParameter, match=r"^y="):
        line.score(X, TARGET[1:])


def test_a_name_with_a_line_end_stays_on_its_line() -> None:
    frame = pd.DataFrame(X, columns=[f"a{k}\nb\x1b" for k in range(X.shape[1])])
    summary = fresh(LINE).fit(frame, TARGET).summary()
    assert sum(line.startswith("a0\\nb\\x1b ") for line in str(summary).splitlines()) == 1
    assert summary.to_dicts()[1]["name"] == "a0\nb\x1b"
