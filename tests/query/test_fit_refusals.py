"""What a fit to a table refuses is public and costs nothing; what rows decide is told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Session, ledger_of
from tests.tiers import mostly_slow

import unacorda
from unacorda import GDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.inference.losses import Huber

NAMES = np.array(["Ann", "Bo"])


def people(rows: int) -> pd.DataFrame:
    drawn = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "name": NAMES[np.arange(rows) % 2],
            "x": drawn.uniform(0, 1, rows),
            "w": drawn.uniform(0, 1, rows),
            "y": drawn.integers(0, 2, rows).astype(float),
        }
    )


def opened(source: Any, *, seed: int = 3) -> Session:
    unit = unacorda.Person("id", max_rows=1)
    return Session({"t": source}, unit=unit, budget=GDP(1_000), bits=SeededBits(seed))


def line(budget: GDP) -> inference.LinearRegression:
    return inference.LinearRegression(budget=budget, feature_bounds=(0, 1), target_bounds=(0, 1))


MODELS: Mapping[str, Callable[[GDP], Any]] = {
    "linear": line,
    "ridge": lambda budget: inference.RidgeRegression(
        budget=budget, target_bounds=(0, 1), feature_bounds=(0, 1)
    ),
    "logistic": lambda budget: inference.LogisticRegression(
        budget=budget, classes=(0, 1), feature_bounds=(0, 1)
    ),
    "poisson": lambda budget: inference.PoissonRegression(
        budget=budget, largest=10, feature_bounds=(0, 1)
    ),
    "quantile": lambda budget: inference.QuantileRegression(
        budget=budget, quantile=0.5, feature_bounds=(0, 1), target_bounds=(0, 1)
    ),
    "m": lambda budget: inference.MEstimator(
        budget=budget, loss=Huber(1.0), feature_bounds=(0, 1), target_bounds=(0, 1)
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "mu"),
    mostly_slow(
        [
            *((rows, mu) for mu in ("0.5", "1e-6", "1e-3") for rows in (0, 1, 3, 20)),
            *((rows, "5") for rows in (0, 1, 3)),
        ],
        quick=3,
    ),
)
@pytest.mark.parametrize("made", mostly_slow(MODELS, quick=2))
def test_of_too_few_people_a_fit_says_that_it_cannot_tell(made: str, rows: int, mu: str) -> None:
    """One person more never turns an answer into an error: both are the same infinite intervals."""
    with opened(people(rows)) as session:
        model = session.fit(MODELS[made](GDP(mu)), "t", features=["x"], target="y")
        assert session.spent.additive >= GDP(mu).additive
    assert np.isfinite(model.coef_).all()
    assert np.isinf(model.conf_int()).all()


@pytest.mark.long
@pytest.mark.parametrize("made", ["linear", "logistic", "poisson"])
def test_so_it_is_with_weights(made: str) -> None:
    with opened(people(3)) as session:
        model = session.fit(MODELS[made](GDP(1)), "t", features=["x"], target="y", weight="w")
    assert np.isinf(model.conf_int()).all()
    assert "inf" in str(model.summary())


@in_subtests("made", MODELS)
def test_a_budget_that_no_number_of_rows_suits_is_refused_for_nothing(made: str) -> None:
    with opened(people(20)) as session:
        with pytest.raises(InvalidParameter, match=r"^budget=") as refused:
            session.fit(MODELS[made](GDP("1e-13")), "t", features=["x"], target="y")
        assert "n_samples" not in str(refused.value)
        assert "1,000,000,000,000 rows" in str(refused.value)
        assert session.spent == GDP(0)


@pytest.mark.long
@in_subtests("made", MODELS)
@in_subtests(
    ("argument", "given"),
    [
        ("features", {"features": ["x", "name"], "target": "y"}),
        ("features", {"features": ["name * 2"], "target": "y"}),
        ("target", {"features": ["x"], "target": "name"}),
        ("weight", {"features": ["x"], "target": "y", "weight": "name"}),
        ("features", {"features": ["made"], "target": "y"}),
    ],
    ids=repr,
)
def test_columns_of_text_are_refused_for_nothing(
    made: str, argument: str, given: dict[str, Any]
) -> None:
    with opened(people(20)) as session:
        query = session.table("t").derive(made="name + 1")
        with pytest.raises(InvalidParameter, match=f"^{argument}=.*'name' holds text"):
            session.fit(MODELS[made](GDP(1)), query, **given)
        assert session.spent == GDP(0)
        assert not list(ledger_of(session).entries("session"))


def test_columns_of_text_on_either_side_of_tables_put_together_are_refused() -> None:
    tables = {"t": people(20), "u": people(20)}
    unit = unacorda.Person("id", max_rows=2)
    with Session(tables, unit=unit, budget=GDP(1)) as session:
        both = session.table("t").union(session.table("u"))
        beside = session.table("t").join(session.table("u"), columns={"theirs": "name"}, max_rows=1)
        for query, column in ((both, "name"), (beside, "name"), (beside, "theirs")):
            with pytest.raises(InvalidParameter, match="'name' holds text"):
                session.fit(line(GDP(1)), query, features=[column], target="y")
        assert session.spent == GDP(0)


@pytest.mark.long
def test_text_that_is_said_to_hold_numbers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    people(2_000).to_csv(path, index=False)
    unit = unacorda.Person("id", max_rows=1)
    facts = {"x": unacorda.Bounds(0, 1), "y": unacorda.Bounds(0, 1)}
    with Session({"t": path}, unit=unit, budget=GDP(5), columns=facts) as session:
        session.fit(line(GDP(1)), "t", features=["x"], target="y")
        session.fit(line(GDP(1)), "t", features=["x", "TRY_CAST(w AS DOUBLE)"], target="y * 2")
        session.fit(line(GDP(1)), "t", features=["name = 'Ann'"], target="y")
        spent = session.spent
        with pytest.raises(InvalidParameter, match="declare columns="):
            session.fit(line(GDP(1)), "t", features=["w"], target="y")
        assert session.spent == spent
