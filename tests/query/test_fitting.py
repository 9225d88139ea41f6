"""Fits from a session: one reservation before anything is read, and nothing given back after."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.support.cases import in_subtests
from tests.support.seams import DuckDB, engines, ledger_of

import unacorda
from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, SeededBits, accounting, inference
from unacorda.errors import (
    BudgetExceeded,
    EngineFailed,
    InvalidParameter,
    UnacordaError,
    UnsafeExpression,
    WrongUnit,
)
from unacorda.inference.losses import LogCosh
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

DRAWN = np.random.default_rng(1)
TABLE = pd.DataFrame(
    {
        "who": np.arange(3000),
        "age": DRAWN.uniform(20, 60, 3000),
        "note": "some text",
        "day": pd.Timestamp("2024-01-01"),
        "late": DRAWN.random(3000) < 0.3,
    }
)
TABLE["wage"] = 5 + 0.5 * TABLE.age + DRAWN.normal(size=3000)
BOUNDS = {"age": unacorda.Bounds(20, 60), "wage": unacorda.Bounds(0, 60)}


def opened(budget: Guarantee, table: Any = None, **options: Any) -> unacorda.Session:
    given: dict[str, Any] = {"unit": unacorda.Person("who", max_rows=1), "columns": BOUNDS}
    given |= options
    source = TABLE if table is None else table
    if not options.get("ledger"):
        given["bits"] = SeededBits(1)
    return unacorda.Session({"t": source}, budget=budget, **given)


def line(budget: Guarantee, **options: Any) -> inference.LinearRegression:
    return inference.LinearRegression(budget=budget, **options)


def piped(session: unacorda.Session, *steps: Any) -> Any:
    return session.fit(make_pipeline(*steps), "t", features=["age"], target="wage")


BUDGETS = [GDP(1), ZCDP("0.5"), ApproxDP(1, 1e-6), RenyiDP(8, 2)]


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_the_whole_fit_is_charged_once_and_costs_no_more(
    budget: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[events.Event] = []
    real = Gaussian.release_exact

    def noting(self: Gaussian, *given: Any, **named: Any) -> Any:
        seen.append(self.event)
        return real(self, *given, **named)

    monkeypatch.setattr(Gaussian, "release_exact", noting)
    with opened(budget) as session:
        model = session.fit(line(budget), "t", features=["age"], target="wage")
        spent = session.spent
        assert all(
            mine <= limit and float(mine) >= 0.999 * float(limit)
            for mine, limit in zip(spent.additive, budget.additive, strict=True)
        )
        with pytest.raises(BudgetExceeded):
            session.fit(line(budget / 100), "t", features=["age"], target="wage")
        assert session.spent == spent
    # What was drawn is what the model says, and together within the budget.
    told = events.compose(seen)
    assert accounting.rho(told) == pytest.approx(accounting.rho(model.event_), rel=1e-12)
    whole = GDP.within(budget)
    assert accounting.rho(told) <= float(whole.mu_squared) / 2
    assert accounting.rho(told) >= 0.99 * float(whole.mu_squared) / 2


MODELS = {
    "linear": inference.LinearRegression(budget=GDP(10)),
    "ridge": inference.RidgeRegression(penalty=0.01, budget=GDP(10)),
    "logistic": inference.LogisticRegression(budget=GDP(10)),
    "counts": inference.PoissonRegression(largest=100, budget=GDP(10)),
    "median": inference.QuantileRegression(budget=GDP(10)),
    "loss": inference.MEstimator(loss=LogCosh(1.0), budget=GDP(10)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_a_table_outlives_the_session_and_holds_no_row(name: str) -> None:
    target = "late" if name == "logistic" else "wage"
    with opened(GDP(10)) as session:
        model = session.fit(MODELS[name], "t", features=["age"], target=target)
    stored = pickle.dumps(model)
    assert len(stored) < 8 * len(TABLE)
    assert not any(value.tobytes() in stored for value in TABLE[["age", "wage"]].to_numpy().ravel())
    read = pickle.loads(stored)
    grid, targets = pd.DataFrame({"age": [30.0, 50.0]}), [0, 1]
    np.testing.assert_array_equal(read.influence(grid, targets), model.influence(grid, targets))


class Died(Exception):
    """Something that an engine could raise."""


@pytest.mark.parametrize("scans", [0, 1, 5])
def test_a_fit_that_dies_stays_spent(
    scans: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, asked, closed = engines._counted, [], []

    def dying(*given: Any) -> Any:
        asked.append(session.spent)
        if len(asked) > scans:
            raise Died("a row")
        return real(*given)

    def closing(self: Any) -> None:
        closed.append(self)

    monkeypatch.setattr(engines, "_counted", dying)
    monkeypatch.setattr(engines.HeldRows, "close", closing)
    url = f"sqlite:///{tmp_path}/budget.db"
    with opened(GDP(1), ledger=url, dataset="d") as session:
        with pytest.raises(EngineFailed) as caught:
            session.fit(line(GDP(1)), "t", features=["age"], target="wage")
        assert "a row" not in str(caught.value)
        assert caught.value.__context__ is None
        # Reserved before the first scan, whole, and never again.
        assert asked == [GDP(1)] * (scans + 1)
        assert len(closed) == 1
        assert session.spent == GDP(1)
        states = [entry.state for entry in ledger_of(session).entries("d")]
        assert states == ["reserved", "committed"][: 1 + bool(scans)]


def test_an_engine_that_dies_when_rows_are_forgotten_tells_nothing() -> None:
    class Broken:
        def close(self) -> None:
            raise Died("a row")

    broken: Any = Broken()
    keyed = engines.KeyedRows(broken, np.zeros(1, np.int64), names=["k0"], engine=None)
    for rows in (engines.HeldRows(broken, lambda: None), keyed):
        with pytest.raises(EngineFailed) as caught:
            rows.close()
        assert "a row" not in str(caught.value)
        assert caught.value.__context__ is None


class Unsaid:
    """A loss that cannot be written as SQL."""

    score_bound = curvature_bound = 1.0

    def value(self, prediction: Any, target: Any) -> Any:
        return np.hypot(1, prediction - target)

    def score(self, prediction: Any, target: Any) -> Any:
        return (prediction - target) / self.value(prediction, target)

    def curvature(self, prediction: Any, target: Any) -> Any:
        return self.value(prediction, target) ** -3


REFUSED: dict[str, tuple[type[UnacordaError], str, Callable[[unacorda.Session], object]]] = {
    "an unknown feature": (
        InvalidParameter,
        "features='aeg'.*Did you mean 'age'",
        lambda s: s.fit(line(GDP(1)), "t", features=["aeg"], target="wage"),
    ),
    "an unknown target": (
        InvalidParameter,
        "target='pay'",
        lambda s: s.fit(line(GDP(1)), "t", features=["age"], target="pay"),
    ),
    "a feature that is a day": (
        InvalidParameter,
        "features='day'",
        lambda s: s.fit(line(GDP(1)), "t", features=["age", "day"], target="wage"),
    ),
    "no features": (
        InvalidParameter,
        "features=",
        lambda s: s.fit(line(GDP(1)), "t", features=[], target="wage"),
    ),
    "features as one text": (
        InvalidParameter,
        "features='age'",
        lambda s: s.fit(line(GDP(1)), "t", features="age", target="wage"),
    ),
    "a feature outside the language": (
        UnsafeExpression,
        "random",
        lambda s: s.fit(line(GDP(1)), "t", features=["random()"], target="wage"),
    ),
    "groups": (
        InvalidParameter,
        "table=",
        lambda s: s.fit(
            line(GDP(1)),
            s.table("t").group_by("late", keys=[True]),
            features=["age"],
            target="wage",
        ),
    ),
    "an unknown weight": (
        InvalidParameter,
        "weight='survey'",
        lambda s: s.fit(line(GDP(1)), "t", features=["age"], target="wage", weight="survey"),
    ),
    "a weight that is a day": (
        InvalidParameter,
        "weight='day'",
        lambda s: s.fit(line(GDP(1)), "t", features=["age"], target="wage", weight="day"),
    ),
    "a weight that is a number": (
        InvalidParameter,
        "weight=1",
        lambda s: s.fit(line(GDP(1)), "t", features=["age"], target="wage", weight=1),  # type: ignore[arg-type]
    ),
    "a weight that may be above 1": (
        InvalidParameter,
        r"weight='age / 2'.*up to 30.*least\(age / 2, 1\)",
        lambda s: s.fit(line(GDP(1)), "t", features=["age"], target="wage", weight="age / 2"),
    ),
    "a weight that is never above 0": (
        InvalidParameter,
        r"weight='-age'.*at most -\d",
        lambda s: s.fit(line(GDP(1)), "t", features=["age"], target="wage", weight="-age"),
    ),
    "a pure budget": (
        InvalidParameter,
        "budget=",
        lambda s: s.fit(line(PureDP(1)), "t", features=["age"], target="wage"),
    ),
    "a budget of another unit": (
        WrongUnit,
        "ZCDP",
        lambda s: s.fit(line(ZCDP(1)), "t", features=["age"], target="wage"),
    ),
    "no budget": (
        InvalidParameter,
        "budget=",
        lambda s: s.fit(line(None), "t", features=["age"], target="wage"),  # type: ignore[arg-type]
    ),
    "more than is left": (
        BudgetExceeded,
        "is left",
        lambda s: s.fit(line(GDP(3)), "t", features=["age"], target="wage"),
    ),
    "bits of the model's own": (
        InvalidParameter,
        "bits=",
        lambda s: s.fit(line(GDP(1), bits=SeededBits(1)), "t", features=["age"], target="wage"),
    ),
    "a model that is not fit by sums": (
        InvalidParameter,
        "model=.*QuantileRegression or MEstimator",
        lambda s: s.fit(
            inference.PCA(n_components=1, budget=GDP(1)), "t", features=["age"], target="wage"
        ),
    ),
    "a pipeline": (
        InvalidParameter,
        "(?s)model=.*the model inside alone",
        lambda s: piped(s, StandardScaler(), line(GDP("0.5"))),
    ),
    "a sparse regression": (
        InvalidParameter,
        "(?s)model=.*the model inside alone",
        lambda s: s.fit(
            inference.SparseRegression(line(GDP(1)), n_features=1),
            "t",
            features=["age"],
            target="wage",
        ),
    ),
    "a model that takes many steps": (
        InvalidParameter,
        "(?s)model=.*fit by sums",
        lambda s: s.fit(
            inference.NoisySGD(loss=Unsaid(), budget=GDP(1), sampling_rate=0.5, steps=3),
            "t",
            features=["age"],
            target="wage",
        ),
    ),
    "a model around a model": (
        InvalidParameter,
        "(?s)model=.*the model inside alone",
        lambda s: s.fit(
            inference.HeldOutSearch(line(GDP(1)), {"tuning": [1.0, 2.0]}, error_bound=2.0),
            "t",
            features=["age"],
            target="wage",
        ),
    ),
    "labels that are text": (
        InvalidParameter,
        "classes=",
        lambda s: s.fit(
            inference.LogisticRegression(budget=GDP(1), classes=("no", "yes")),
            "t",
            features=["age"],
            target="late",
        ),
    ),
    "a loss without SQL": (
        InvalidParameter,
        "loss=.*to be fit from a table",
        lambda s: s.fit(
            inference.MEstimator(loss=Unsaid(), budget=GDP(1)),
            "t",
            features=["age"],
            target="wage",
        ),
    ),
}


@in_subtests("name", REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_spent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, said, ask = REFUSED[name]

    def read(*_: Any) -> Any:
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(DuckDB, "hold", read)
    with opened(GDP(2)) as session:
        with pytest.raises(kind, match=said):
            ask(session)
        assert session.spent == GDP(0)


@pytest.mark.long
@pytest.mark.parametrize("rows", [0, 50])
def test_of_too_few_people_by_the_released_number_nothing_is_told(rows: int) -> None:
    with opened(GDP("0.5"), TABLE.head(rows)) as session:
        model = session.fit(line(GDP("0.5")), "t", features=["age"], target="wage")
        assert session.spent == GDP("0.5")
    assert np.isinf(model.conf_int()).all()
    assert np.isfinite(model.coef_).all()
    assert "cannot tell errors" in str(model.summary())


@pytest.mark.long
def test_a_question_with_steps_and_sub_sessions_pay_and_fit() -> None:
    with opened(GDP(2)) as session:
        query = session.table("t").where("age < 50").derive(years="age - 20")
        model = session.fit(line(GDP(1)), query, features=["years", "late"], target="wage")
        assert list(model.feature_names_in_) == ["years", "late"]
        assert model.coef_[0] == pytest.approx(0.5, abs=0.05)
        assert "years" in str(model.summary())
        said = " ".join(str(model.summary()).split())
        assert "a person (who) with at most 1 row" in said
        part = session.for_analyst("ana", GDP(1))
        part.fit(line(GDP(1)), "t", features=["age"], target="wage")
        assert part.remaining == GDP(0)
        assert session.spent == GDP.from_squared(2)


@pytest.mark.long
def test_the_same_rows_of_a_person_stay_in_every_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[str, bool]] = []
    scans: list[str] = []
    hold, run = DuckDB.hold, engines.HeldRows.run

    def holding(self: DuckDB, asked: Any, *, keep: bool, **named: Any) -> Any:
        held.append((asked.sql.bounded, keep))
        return hold(self, asked, keep=keep, **named)

    def running(self: Any, counts: str, **named: Any) -> Any:
        scans.append(counts)
        return run(self, counts, **named)

    monkeypatch.setattr(DuckDB, "hold", holding)
    monkeypatch.setattr(engines.HeldRows, "run", running)
    with opened(GDP(1), unit=unacorda.Person("who", max_rows=2)) as session:
        session.fit(line(GDP(1)), "t", features=["age"], target="wage")
    assert [keep for _, keep in held] == [True]  # bounded once, and kept
    # One counts rows, seven find the metric, eleven the line and one its errors.
    assert len(scans) == 20
    assert ["FROM bounded" in scan for scan in scans] == [True, *[False] * 19]


UNITS = [unacorda.Row(), unacorda.Person("who", max_rows=2)]


@pytest.mark.long
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_rows_that_are_kept_or_computed_again_give_the_same_fit(
    unit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = pd.concat([TABLE, TABLE, TABLE.head(1000)])
    found, kept = [], []
    keep = engines.HeldRows.keep

    def keeping(self: Any, name: str, sql: str) -> None:
        kept.append(name)
        keep(self, name, sql)

    monkeypatch.setattr(engines.HeldRows, "keep", keeping)
    for room in (0.0, 7000.0, math.inf):
        monkeypatch.setattr(DuckDB, "room", room)
        with opened(GDP(1), twice, unit=unit) as session:
            model = session.fit(line(GDP(1)), "t", features=["age"], target="wage")
            found.append((model.coef_.tolist(), model.conf_int().tolist()))
    assert found[0] == found[1] == found[2]
    # Seven thousand rows of two numbers or more have no room among seven thousand numbers.
    assert kept == ["rows1", "rows2"]


@pytest.mark.long
@pytest.mark.parametrize("seeded", [True, False])
def test_a_seeded_fit_can_be_repeated_and_another_not(*, seeded: bool) -> None:
    found = []
    for _ in range(2):
        bits = SeededBits(3) if seeded else None
        with unacorda.Session(
            {"t": TABLE}, unit=unacorda.Row(), budget=GDP(1), columns=BOUNDS, bits=bits
        ) as session:
            fit = session.fit(line(GDP(1)), "t", features=["age"], target="wage")
            found.append(float(fit.coef_[0]))
    assert (found[0] == found[1]) == seeded
