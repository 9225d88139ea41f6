"""Spark and PostgreSQL sum for fits what DuckDB sums, and whole fits of lines are the same."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.engines_alike import OTHERS, TABLE, opened_on
from tests.query.fit_wishes import WISHES, Wished, exact
from tests.query.shared_hash import plant_shared_hash
from tests.support.seams import Person, Row, Unit
from tests.tiers import mostly_slow

from unacorda import GDP, inference

pytestmark = pytest.mark.parametrize("engine", OTHERS)

DRAWN = np.random.default_rng(1)
X = DRAWN.normal([40, 12], [10, 3], size=(400, 2))
ROWS = pa.table(
    {
        "who": np.arange(400) // 2,
        "age": X[:, 0],
        "school": X[:, 1],
        "wage": 5 + X @ [0.2, 1.5] + 4 * DRAWN.standard_t(4, size=400),
        "visits": DRAWN.poisson(np.exp(0.1 * X[:, 1] - 0.5)).astype(float),
    }
)
WHO = Person("who", max_rows=1)


EXTREME = [
    *(None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e49, 5e-324, -5e-324),
    *(1e-200, 1e49, 1e-49, 3.0, -4.0, 1.0),
]
PAIRS = list(itertools.product(EXTREME, EXTREME))


def test_extreme_values_give_the_same_integers_and_no_error(engine: str) -> None:
    x, y = zip(*PAIRS, strict=True)
    table = pa.table({"x": pa.array(x, pa.float64()), "y": pa.array(y, pa.float64())})
    found = []
    for each in ("duckdb", engine):
        with opened_on(each, table, unit=Row(), budget=GDP(1)) as session:
            found.append(exact(session, session.table("t"), WISHES[:-1]))
    assert found[0] == found[1]
    finite = [value for value in EXTREME if value is not None and abs(value) <= 1e50]
    assert found[0][0] == len(finite) ** 2


def test_extreme_weights_give_the_same_integers_and_no_error(engine: str) -> None:
    table = pa.table({"x": pa.array(EXTREME, pa.float64()), "one": [1.0] * len(EXTREME)})
    total = Wished(vector=["weight"], bound=Fraction(1))
    found = []
    for each in ("duckdb", engine):
        with opened_on(each, table, unit=Row(), budget=GDP(1)) as session:
            given: dict[str, Any] = {"features": ["one"], "target": "one", "weight": "x"}
            found.append(exact(session, session.table("t"), [total], [], **given))
    assert found[0] == found[1]
    # Infinity, 1e308, 1e49, 3 and 1 count as 1; all others as 0, or next to that.
    assert found[0] == [len(EXTREME), 5 * 2**39]


def test_every_wish_is_the_same_integers(engine: str) -> None:
    found = []
    # A logarithm may differ in its last bit: the last wish has one.
    plain = WISHES[:-1]
    for each in ("duckdb", engine):
        with opened_on(each, TABLE, unit=Person("who", max_rows=1_000)) as session:
            query = session.table("t").where("x > -2 OR whole IS NULL")
            given: dict[str, Any] = {"features": ["x"], "target": "whole * 1.5"}
            found.append(exact(session, query, plain, **given))
    assert found[0] == found[1]
    assert found[0][0] > 20


def fit(engine: str, model: Any, target: str, unit: Unit, **more: Any) -> Any:
    with opened_on(engine, ROWS, unit=unit, budget=model.budget) as session:
        return session.fit(model, "t", features=["age", "school"], target=target, **more)


FOUR = GDP(4)
BOUNDS: dict[str, Any] = {"feature_bounds": ([10, 0], [70, 24])}


FITS: dict[str, tuple[Callable[[], Any], str]] = {
    "line": (
        lambda: inference.LinearRegression(budget=FOUR, target_bounds=(0, 70), **BOUNDS),
        "wage",
    ),
    "counts": (
        lambda: inference.PoissonRegression(budget=FOUR, largest=20, **BOUNDS),
        "visits",
    ),
    "quantile": (
        lambda: inference.QuantileRegression(budget=FOUR, target_bounds=(0, 70), **BOUNDS),
        "wage",
    ),
    "classes": (lambda: inference.LogisticRegression(budget=FOUR, **BOUNDS), "wage > 30"),
}
WEIGHTS = {"line": "visits / 4 + 0.5", "counts": "wage / 50"}


@pytest.mark.parametrize("name", mostly_slow(FITS))
def test_a_fit_is_the_same_on_every_engine(
    engine: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_shared_hash(monkeypatch)
    made, target = FITS[name]
    given = {"weight": WEIGHTS.get(name)}
    ours, theirs = (fit(each, made(), target, WHO, **given) for each in ("duckdb", engine))
    assert ours.coef_.tolist() == theirs.coef_.tolist()
    assert ours.conf_int().tolist() == theirs.conf_int().tolist()
