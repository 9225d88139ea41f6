"""Who counts over time, on every engine: the integers of DuckDB."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.query.engines_alike import OTHERS, opened_on

import unacorda
from unacorda import ZCDP, OverTime

pytestmark = [
    pytest.mark.service,
    pytest.mark.parametrize("engine", OTHERS),
    pytest.mark.filterwarnings("ignore:The ledger is in memory"),
]

_drawn = random.Random(9)
_START = dt.datetime(2025, 1, 1)  # noqa: DTZ001
_DAYS = [None, *range(-2, 13)]
_SEEN = [_drawn.choice(_DAYS) for _ in range(300)]
TABLE = pa.table(
    {
        "who": pa.array([_drawn.choice([None, *range(12)]) for _ in _SEEN], pa.int64()),
        "seen": pa.array(
            [None if day is None else _START + dt.timedelta(hours=24 * day + 5) for day in _SEEN],
            pa.timestamp("us"),
        ),
        "on": pa.array(
            [None if day is None else (_START + dt.timedelta(days=day)).date() for day in _SEEN],
            pa.date32(),
        ),
        "part": [_drawn.choice("ab") for _ in _SEEN],
        "x": pa.array([float(_drawn.randint(-9, 9)) for _ in _SEEN]),
    }
)
LOOSE = OverTime(max_steps=20, max_rows_per_step=100)


def integers(engine: str, query: Any, person: OverTime | None, **asked: Any) -> Any:
    """By aggregate the integers of ten steps."""
    unit = unacorda.Person("who", max_rows=1)
    given = {"by": "seen", "start": "2025-01-01", "steps": 10, **asked}
    with opened_on(engine, TABLE, unit=unit, budget=ZCDP(2)) as session:
        series = session.over_time(
            query(session.table("t")), name="all", person=person, budget=ZCDP(1), **given
        )
        exact, kept = series._exact(0, 9)
        return exact | kept


@pytest.mark.parametrize(
    "person",
    [
        OverTime(max_steps=3),
        OverTime(max_steps=2, max_rows_per_step=2),
        OverTime(max_steps=1, within=3),
        OverTime(max_rows=4),
        OverTime(max_rows=5, max_rows_per_step=2),
    ],
    ids=str,
)
def test_rows_that_count_are_as_many(engine: str, person: OverTime) -> None:
    def query(rows: Any) -> Any:
        return rows.agg(n=unacorda.count(), people=unacorda.count_people())

    found, expected = (integers(one, query, person, kept="0.1") for one in (engine, "duckdb"))
    assert found == expected
    assert found["kept"] == found["n"]
    assert 0 < sum(map(sum, found["n"])) < sum(map(sum, found["rows"])) < len(_SEEN)


@pytest.mark.parametrize("by", ["seen", "on"])
def test_groups_and_sums_are_the_same_where_no_bound_binds(engine: str, by: str) -> None:
    def query(rows: Any) -> Any:
        groups = rows.where("x <> 0").group_by("part", keys=["a", "b", "c"])
        return groups.agg(n=unacorda.count_if("x > 2"), s=unacorda.sum("x", -4, 7))

    found, expected = (integers(one, query, LOOSE, by=by) for one in (engine, "duckdb"))
    assert found == expected
    assert any(map(any, found["s"]))


@pytest.mark.parametrize("every", ["hour", "week", "month"])
def test_steps_of_other_lengths_are_the_same(engine: str, every: str) -> None:
    def query(rows: Any) -> Any:
        return rows.agg(n=unacorda.count())

    start = "2025-01-01 03:00" if every == "hour" else "2025-01-01"
    found, expected = (
        integers(one, query, LOOSE, every=every, start=start) for one in (engine, "duckdb")
    )
    assert found == expected
    assert any(map(any, found["n"]))
