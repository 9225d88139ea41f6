"""Fits from tables: the law of fits from arrays, persons with several rows, losses said as SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from tests.support.seams import Column, Kind, parse
from tests.tiers import mostly_slow

import unacorda
from unacorda import GDP, AddRemove, ReplaceOne, SeededBits, inference
from unacorda.errors import InvalidParameter
from unacorda.inference import losses
from unacorda.inference.expressions import EXPONENTIAL, exponential_columns, sql_of
from unacorda.inference.losses import Loss
from unacorda.privacy.neighbors import Neighbors

DRAWN = np.random.default_rng(1)
N = 3000
X = DRAWN.normal([40, 12], [10, 3], size=(N, 2))
WAGE = 5 + X @ [0.2, 1.5] + 4 * DRAWN.standard_t(4, size=N)
LATE = DRAWN.random(N) < 1 / (1 + np.exp(-(X[:, 0] - 40) / 10))
VISITS = DRAWN.poisson(np.exp(0.1 * X[:, 1] - 0.5))
TABLE = pa.table(
    {
        "who": np.arange(N),
        "age": X[:, 0],
        "school": X[:, 1],
        "wage": WAGE,
        "late": LATE,
        "visits": VISITS,
    }
)
TARGETS = {"wage": WAGE, "late": LATE.astype(float), "visits": VISITS.astype(float)}
BOUNDS = ([10, 0], [70, 24])
QUIET = GDP(10**6)

MODELS: dict[str, tuple[str, Callable[..., Any]]] = {
    "linear": (
        "wage",
        lambda **more: inference.LinearRegression(
            feature_bounds=BOUNDS, target_bounds=(0, 70), **more
        ),
    ),
    "logistic": (
        "late",
        lambda **more: inference.LogisticRegression(feature_bounds=BOUNDS, **more),
    ),
    "poisson": (
        "visits",
        lambda **more: inference.PoissonRegression(feature_bounds=BOUNDS, largest=20, **more),
    ),
    "ridge": (
        "wage",
        lambda **more: inference.RidgeRegression(
            feature_bounds=BOUNDS, target_bounds=(0, 70), penalty=0.5, **more
        ),
    ),
    "quantile": (
        "wage",
        lambda **more: inference.QuantileRegression(
            quantile=0.75, feature_bounds=BOUNDS, target_bounds=(0, 70), **more
        ),
    ),
    "log cosh": (
        "wage",
        lambda **more: inference.MEstimator(
            loss=losses.LogCosh(4.0), feature_bounds=BOUNDS, target_bounds=(0, 70), **more
        ),
    ),
}


def from_table(
    model: Any, target: str, *, unit: Any = None, table: Any = TABLE, seed: int = 1, **more: Any
) -> Any:
    with unacorda.Session(
        {"t": table},
        unit=unit or unacorda.Row(),
        budget=model.budget,
        bits=SeededBits(seed),
        **more,
    ) as session:
        return session.fit(model, "t", features=["age", "school"], target=target)


def parameters(model: Any) -> Any:
    return np.concatenate([np.ravel(model.intercept_), np.ravel(model.coef_)])


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "neighbors"),
    mostly_slow([*((name, AddRemove) for name in MODELS), ("linear", ReplaceOne)]),
)
def test_without_noise_a_table_gives_what_arrays_give(name: str, neighbors: Neighbors) -> None:
    target, made = MODELS[name]
    unit = unacorda.Person("who", max_rows=1, neighbors=neighbors)
    ours = from_table(made(budget=QUIET), target, unit=unit)
    theirs = made(budget=QUIET, bits=SeededBits(2)).fit(X, TARGETS[target])
    scale = np.abs(parameters(theirs)) + theirs.sampling_error_
    assert np.max(np.abs(parameters(ours) - parameters(theirs)) / scale) < 1e-3
    assert ours.sampling_error_ == pytest.approx(list(theirs.sampling_error_), rel=2e-2)
    assert ours.n_iter_ == theirs.n_iter_


@pytest.mark.long
@pytest.mark.parametrize("name", mostly_slow(MODELS))
def test_noise_is_as_large_as_it_is_said_to_be(name: str) -> None:
    target, made = MODELS[name]
    model = from_table(made(budget=GDP(2)), target)
    loose = from_table(made(budget=QUIET), target)
    errors = np.hypot(model.privacy_error_, model.sampling_error_)
    assert np.isfinite(errors).all()
    # Its noise alone: the sample is the same. 6 deviations.
    assert (np.abs(parameters(model) - parameters(loose)) < 6 * model.privacy_error_).all()
    assert (model.privacy_error_ < model.sampling_error_).all()


@pytest.mark.long
def test_ranges_that_nothing_declares_are_found() -> None:
    ours = from_table(inference.LinearRegression(budget=GDP(2)), "wage")
    assert np.isfinite(ours.conf_int()).all()
    lower, upper = ours.feature_bounds_
    assert (lower <= X.min(axis=0) + 20).all()
    assert (upper >= np.quantile(X, 0.99, axis=0)).all()
    exact = np.linalg.lstsq(np.c_[np.ones(N), X], WAGE, rcond=None)[0]
    assert (np.abs(parameters(ours) - exact) < 6 * ours.privacy_error_).all()


@pytest.mark.parametrize(
    "model",
    [
        inference.SparseRegression(MODELS["linear"][1](budget=QUIET), n_features=1),
        make_pipeline(
            inference.RobustScaler(budget=QUIET, feature_bounds=BOUNDS),
            MODELS["linear"][1](budget=QUIET),
        ),
    ],
    ids=["sparse", "pipeline"],
)
def test_what_looks_at_rows_one_by_one_is_refused(model: Any) -> None:
    with (
        unacorda.Session({"t": TABLE}, unit=unacorda.Row(), budget=QUIET) as session,
        pytest.raises(InvalidParameter, match=r"(?s)^model=.*rows one by one"),
    ):
        session.fit(model, "t", features=["age", "school"], target="wage")
    assert session.spent == GDP(0)


@pytest.mark.long
def test_missing_numbers_make_a_row_count_nowhere() -> None:
    drawn = np.random.default_rng(2)
    age, wage = X[:, 0].copy(), WAGE.copy()
    age[drawn.random(N) < 0.2] = np.nan
    wage[drawn.random(N) < 0.1] = np.inf
    table = pa.table({"who": np.arange(N), "age": age, "school": X[:, 1], "wage": wage})
    made = MODELS["linear"][1]
    ours = from_table(made(budget=QUIET), "wage", table=table)
    there = np.isfinite(age) & np.isfinite(wage)
    known = np.c_[age, X[:, 1]][there], wage[there]
    theirs = made(budget=QUIET, bits=SeededBits(1)).fit(*known)
    assert parameters(ours) == pytest.approx(list(parameters(theirs)), rel=1e-5)
    assert ours.diagnostics_["rows"] == pytest.approx(there.sum(), abs=1)


@pytest.mark.long
def test_declared_bounds_stand_in_for_those_of_the_model() -> None:
    columns = {
        "age": unacorda.Bounds(10, 70),
        "school": unacorda.Bounds(0, 24),
        "wage": unacorda.Bounds(-100, 200),
    }
    model = inference.LinearRegression(budget=QUIET)
    ours = from_table(model, "wage", columns=columns)
    x = np.clip(X, [10, 0], [70, 24])
    theirs = inference.LinearRegression(
        budget=QUIET, feature_bounds=BOUNDS, target_bounds=(-100, 200), bits=SeededBits(1)
    ).fit(x, np.clip(WAGE, -100, 200))
    assert parameters(ours) == pytest.approx(list(parameters(theirs)), rel=4e-5)


@pytest.mark.slow
def test_classes_may_be_any_two_numbers() -> None:
    made = MODELS["logistic"][1]
    plain = from_table(made(budget=QUIET), "late")
    moved = from_table(made(budget=QUIET, classes=(2, 5)), "CASE WHEN late THEN 5 ELSE 2 END")
    assert parameters(moved) == pytest.approx(list(parameters(plain)), rel=1e-6)
    new = pd.DataFrame(X[:50], columns=["age", "school"])
    assert set(moved.predict(new)) == {2, 5}


class Own:
    """A loss in plain NumPy, of which the SQL is written down by calling it."""

    score_bound, curvature_bound = 8.0, 1.0

    def score(self, prediction: Any, target: Any) -> Any:
        return -np.clip(target - prediction, -8, 8)

    def curvature(self, prediction: Any, target: Any) -> Any:
        return np.where(abs(prediction - target) <= 8, 1, 0)


class Unwritten(Own):
    """One whose score no engine has."""

    def score(self, prediction: Any, target: Any) -> Any:
        return np.clip(np.arctan(prediction - target), -8, 8)


@pytest.mark.long
def test_a_loss_of_ones_own_is_written_as_sql() -> None:
    given: dict[str, Any] = {
        "budget": QUIET,
        "feature_bounds": BOUNDS,
        "target_bounds": (0, 70),
    }
    own = from_table(inference.MEstimator(loss=Own(), **given), "wage")
    huber = from_table(inference.MEstimator(loss=losses.Huber(8.0), **given), "wage")
    assert parameters(own) == pytest.approx(list(parameters(huber)), rel=1e-6)
    with pytest.raises(InvalidParameter, match=r"^loss=.*to be fit from a table"):
        from_table(inference.MEstimator(loss=Unwritten(), **given), "wage")


LOSSES: list[Loss] = [
    losses.Huber(1.3),
    losses.SmoothedHuber(0.7),
    losses.LogCosh(2.0),
    losses.Tukey(4.7),
    losses.Logistic(),
    losses.Poisson(20.0),
    losses.Check(0.3, bandwidth=0.4),
    Own(),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_losses_are_the_same_as_sql(loss: Loss) -> None:
    drawn = np.random.default_rng(1)
    sizes = 10.0 ** drawn.integers(-3, 5, 400)
    p = np.concatenate([drawn.normal(size=400) * sizes, [0.0, 1e60, -1e60, 1e-30]])
    y = np.concatenate([drawn.normal(size=400) * sizes, [0.0, 1.0, -1e60, 1e60]])
    for function in (loss.score, loss.curvature):
        text = sql_of(function, "p", "t", argument="loss")
        found = answered(p, y, [*exponential_columns(), {"v": text}])
        with np.errstate(all="ignore"):
            expected = function(p, y)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def answered(p: Any, y: Any, columns: list[dict[str, str]]) -> Any:
    """The column v of each row."""
    known = {name: Column(name, Kind.NUMBER, -1e70, 1e70) for name in ("p", "t")}
    text = "frame"
    for mapping in columns:
        ((name, given),) = mapping.items()
        found = parse(given, columns=known, expect=Kind.NUMBER)
        known[name] = found.named(name)
        text = f"(SELECT *, {found.sql} AS {name} FROM {text})"
    frame = duckdb.connect().register("frame", pa.table({"p": p, "t": y}))
    return np.asarray(frame.execute(f"SELECT v FROM {text}").fetchnumpy()["v"])


def test_exponentials_have_twelve_digits() -> None:
    p = np.concatenate([np.linspace(-200, 200, 3001), np.geomspace(1e-20, 1, 100), [1e60]])
    found = answered(p, p, [*exponential_columns(), {"v": EXPONENTIAL}])
    np.testing.assert_allclose(found[:-1], np.exp(p[:-1]), rtol=2e-12)
    assert found[-1] == pytest.approx(np.exp(200), rel=1e-11)


def grouped(people: int, drawn: np.random.Generator, *, alike: bool) -> Any:
    """Three rows a person, their features and errors alike, or each row by itself."""
    rows = 3 * people
    shape = (people, 1) if alike else (people, 3)
    age = np.broadcast_to(drawn.normal(40, 10, shape), (people, 3)).ravel()
    school = np.broadcast_to(drawn.normal(12, 3, shape), (people, 3)).ravel()
    errors = np.broadcast_to(drawn.normal(0, 3, shape), (people, 3)).ravel()
    return pa.table(
        {
            "who": np.repeat(np.arange(people), 3),
            "age": age,
            "school": school,
            "wage": 5 + 0.2 * age + 1.5 * school + errors,
        }
    ).slice(0, rows)


def covered(tables: list[Any], unit: Any) -> tuple[float, float]:
    """The share of intervals of slopes that cover, and of those a root of 3 narrower."""
    wide, narrow = [], []
    for seed, table in enumerate(tables):
        model = from_table(
            MODELS["linear"][1](budget=GDP(1)), "wage", table=table, unit=unit, seed=seed
        )
        off = np.abs(model.coef_ - [0.2, 1.5])
        half = 1.96 * np.hypot(model.sampling_error_, model.privacy_error_)[1:]
        wide.append(np.mean(off <= half))
        narrow.append(np.mean(off <= half / np.sqrt(3)))
    return float(np.mean(wide)), float(np.mean(narrow))


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_from_a_table_cover() -> None:
    drawn = np.random.default_rng(5)
    tables = []
    for _ in range(150):
        x = drawn.normal([40, 12], [10, 3], size=(1500, 2))
        y = 5 + x @ [0.2, 1.5] + 4 * drawn.standard_t(4, size=1500)
        tables.append(pa.table({"age": x[:, 0], "school": x[:, 1], "wage": y}))
    wide, narrow = covered(tables, unacorda.Row())
    # 5 deviations of 150 fits with two slopes that hang together; a root of 3 less covers .74.
    assert wide >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / 150)
    assert narrow <= 0.74 + 5 * np.sqrt(0.74 * 0.26 / 150)


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_cover_when_the_rows_of_a_person_agree() -> None:
    drawn = np.random.default_rng(6)
    tables = [grouped(1500, drawn, alike=True) for _ in range(100)]
    wide, narrow = covered(tables, unacorda.Person("who", max_rows=3))
    assert wide >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / 100)
    # Errors that take rows for people would be a root of 3 narrower, but for the noise.
    assert narrow < 0.95
