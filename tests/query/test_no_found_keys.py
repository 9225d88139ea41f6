"""Where no private key is found every aggregate has an empty answer: what was paid for is told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Aggregate, Session

import unacorda
from unacorda import ApproxDP, Bounds, Release

TABLE = pa.table({"id": [1], "key": ["a"], "x": [1.0], "y": [2.0], "wide": [3.0], "word": ["b"]})
COLUMNS: dict[str, Any] = {
    "x": Bounds(0, 100),
    "y": Bounds(0, 100),
    "word": unacorda.Categories(["a", "b"]),
}
AGGREGATES: Mapping[str, Callable[[], Aggregate]] = {
    "count": unacorda.count,
    "count_people": unacorda.count_people,
    "count_distinct": lambda: unacorda.count_distinct("word"),
    "count_if": lambda: unacorda.count_if("x > 3"),
    "proportion": lambda: unacorda.proportion("x > 3"),
    "sum": lambda: unacorda.sum("x"),
    "sum without bounds": lambda: unacorda.sum("wide"),
    "mean": lambda: unacorda.mean("x"),
    "variance": lambda: unacorda.variance("x"),
    "stdev": lambda: unacorda.stdev("x"),
    "weighted_mean": lambda: unacorda.weighted_mean("x", "y"),
    "covariance": lambda: unacorda.covariance("x", "y"),
    "correlation": lambda: unacorda.correlation("x", "y"),
    "ratio": lambda: unacorda.ratio("x", "y"),
    "median": lambda: unacorda.median("x"),
    "median of many points": lambda: unacorda.median("wide", 0, 1e12),
    "quantile": lambda: unacorda.quantile("x", 0.9),
    "quantiles": lambda: unacorda.quantiles("wide", [0.1, 0.5], 0, 1e12),
    "iqr": lambda: unacorda.iqr("x"),
    "min": lambda: unacorda.min("x"),
    "max": lambda: unacorda.max("x"),
    "find_bounds": lambda: unacorda.find_bounds("wide"),
    "histogram": lambda: unacorda.histogram("x", bins=4),
    "top": lambda: unacorda.top("word", 1),
    "vector_sum": lambda: unacorda.vector_sum(["x", "y"], norm=10),
    "rows_kept": unacorda.rows_kept,
}
BUDGETS = [ApproxDP(1, "1e-9"), unacorda.ZCDP(1, delta="1e-9")]


@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(BUDGETS[0], id="epsilon", marks=pytest.mark.long),
        pytest.param(BUDGETS[1], id="rho", marks=pytest.mark.long),
    ],
)
@in_subtests("name", AGGREGATES)
def test_it_is_an_empty_answer(name: str, budget: Any) -> None:
    account = ApproxDP(9, "1e-6") if isinstance(budget, ApproxDP) else budget * 9
    unit = unacorda.Person("id", max_rows=2)
    with Session({"t": TABLE}, unit=unit, budget=account, columns=COLUMNS) as session:
        grouped = session.table("t").group_by("key", keys=unacorda.private_keys())
        release = session.evaluate(grouped.agg(n=AGGREGATES[name]()), budget=budget)
    assert release.keys == ()
    assert all(answer.values == [] for answer in release.answers.values())
    for shown in (release, release.clamped()):
        assert str(shown)
    assert Release.verify(release.to_json()).holds


def test_no_aggregate_is_left_out() -> None:
    made = {
        name
        for name in vars(unacorda)["__all__"]
        if getattr(getattr(unacorda, name), "__module__", "").startswith(
            "unacorda.query.aggregates"
        )
        and name.islower()
    }
    assert made == {name.partition(" ")[0] for name in AGGREGATES}
