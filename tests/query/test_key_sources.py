"""Keys from ranges, dates and columns of public tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.query.exact_answers import exact, opened

import tacet
from tacet.errors import InvalidParameter


def test_dates_are_those_that_date_trunc_gives() -> None:
    days = tacet.dates("2023-12-27", "2025-02-03")
    table = pl.DataFrame({"day": days})
    for every in ("week", "month", "quarter", "year"):
        starts = tacet.dates(days[0], days[-1], every=every)
        with opened(table) as session:
            query = session.table("t").derive(start=f"CAST(DATE_TRUNC('{every}', day) AS DATE)")
            grouped = query.group_by("start", keys=starts).agg(n=tacet.count())
            found = exact(session, grouped)["n"]
        assert sum(found) == len(days)  # each day has its start among them
        assert min(found) > 0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("2024-02-30", "2024-03-01"), "first"),
        (("2024-02-01", 3), "last"),
        (("2024-02-02", "2024-02-01"), "last"),
        ((dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "2024-02-01"), "first"),
        (("0001-01-01", "9999-12-31"), "last"),
    ],
)
def test_what_is_no_range_of_dates_is_refused(arguments: Any, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        tacet.dates(*arguments)
    with pytest.raises(InvalidParameter, match="every"):
        tacet.dates("2024-01-01", "2024-02-01", every="hour")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "keys",
    [
        range(3),
        np.arange(3),
        pd.Series([0, 1, 2]),
        pl.Series([0, 1, 2]),
        pa.array([0, 1, 2]),
        pa.chunked_array([[0], [1, 2]]),
        pd.DataFrame({"k": [0, 1, 2]})["k"],
        (number for number in range(3)),
    ],
    ids=lambda keys: type(keys).__module__ + type(keys).__name__,
)
def test_any_column_of_a_public_table_gives_keys(keys: Any) -> None:
    with opened(pl.DataFrame({"k": [0, 1, 1, 2, 2, 2, 9]})) as session:
        query = session.table("t").group_by("k", keys=keys).agg(n=tacet.count())
        assert query.keys == ((0,), (1,), (2,))
        assert exact(session, query)["n"] == [1, 2, 3]


def test_keys_that_look_alike_warn() -> None:
    with opened(pl.DataFrame({"k": ["é"]})) as session:
        started = session.table("t")
        with pytest.warns(UserWarning, match="look alike"):
            query = started.group_by("k", keys=["é", "e\u0301"])
        assert exact(session, query.agg(n=tacet.count()))["n"] == [1, 0]


def test_a_hundred_thousand_keys_are_joined() -> None:
    names = [f"key {n}" for n in range(100_000)]
    with opened(pl.DataFrame({"k": names + names[:7]})) as session:
        query = session.table("t").group_by("k", keys=names).agg(n=tacet.count())
        assert exact(session, query)["n"] == [2] * 7 + [1] * 99_993
