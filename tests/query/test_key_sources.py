"""Keys from ranges, dates and columns of public tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.query.exact_answers import exact, opened
from tests.support.cases import in_subtests

import unacorda
from unacorda.errors import InvalidParameter, UnacordaError


def test_dates_are_those_that_date_trunc_gives() -> None:
    days = unacorda.dates("2023-12-27", "2025-02-03")
    table = pl.DataFrame({"day": days})
    for every in ("week", "month", "quarter", "year"):
        starts = unacorda.dates(days[0], days[-1], every=every)
        with opened(table) as session:
            query = session.table("t").derive(start=f"CAST(DATE_TRUNC('{every}', day) AS DATE)")
            grouped = query.group_by("start", keys=starts).agg(n=unacorda.count())
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
        unacorda.dates(*arguments)
    with pytest.raises(InvalidParameter, match="every"):
        unacorda.dates("2024-01-01", "2024-02-01", every="hour")  # type: ignore[arg-type]


@in_subtests(
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
        query = session.table("t").group_by("k", keys=keys).agg(n=unacorda.count())
        assert query.keys == ((0,), (1,), (2,))
        assert exact(session, query)["n"] == [1, 2, 3]


def test_keys_that_look_alike_warn() -> None:
    with opened(pl.DataFrame({"k": ["é"]})) as session:
        started = session.table("t")
        with pytest.warns(UserWarning, match="look alike"):
            query = started.group_by("k", keys=["é", "e\u0301"])
        assert exact(session, query.agg(n=unacorda.count()))["n"] == [1, 0]


@pytest.mark.long
def test_a_hundred_thousand_keys_are_joined() -> None:
    names = [f"key {n}" for n in range(100_000)]
    with opened(pl.DataFrame({"k": names + names[:7]})) as session:
        query = session.table("t").group_by("k", keys=names).agg(n=unacorda.count())
        assert exact(session, query)["n"] == [2] * 7 + [1] * 99_993


REGIONS = pd.DataFrame(
    {"County": ["a", "b", "c"], "region": ["N", "N", "S"], "people": [1.5, 2.5, 3.5]}
)
ROWS = pl.DataFrame({"region": ["N", "N", "S", "S"], "county": ["a", "b", "c", "a"]})


@pytest.fixture(params=["pandas", "polars", "lazy", "arrow", "csv", "path", "Csv", "parquet"])
def regions(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    arrow = pa.Table.from_pandas(REGIONS)
    match request.param:
        case "pandas":
            return REGIONS
        case "polars":
            return pl.from_pandas(REGIONS)
        case "lazy":
            return pl.from_pandas(REGIONS).lazy()
        case "arrow":
            return arrow
        case "Csv":
            REGIONS.to_csv(tmp_path / "r.csv", sep=";", index=False)
            return unacorda.Csv(tmp_path / "r.csv", delimiter=";")
        case "parquet":
            pl.from_pandas(REGIONS).write_parquet(tmp_path / "r.parquet")
            return tmp_path / "r.parquet"
        case _:
            pass
    REGIONS.to_csv(tmp_path / "r.csv", index=False)
    return tmp_path / "r.csv" if request.param == "path" else str(tmp_path / "r.csv")


@pytest.mark.long
def test_a_whole_public_table_gives_the_keys_of_several_columns(regions: Any) -> None:
    with opened(ROWS) as session:
        query = session.table("t").group_by("region", "county", keys=regions)
        assert query.keys == (("N", "a"), ("N", "b"), ("S", "c"))
        listed = session.table("t").group_by("region", "county", keys=list(query.keys))
        assert query.agg(n=unacorda.count()).digest() == listed.agg(n=unacorda.count()).digest()
        assert exact(session, query.agg(n=unacorda.count()))["n"] == [1, 1, 1]
        text = "SELECT region, county AS area, COUNT(*) AS n FROM t GROUP BY region, area"
        with pytest.raises(InvalidParameter, match="column 'area'"):
            session.read_sql(text, keys=regions)
        selected, _ = session.read_sql(text.replace("area", "COUNTY"), keys=regions)
        assert selected.keys == query.keys
        one = session.table("t").group_by(
            "county", "region", keys={"county": regions, "region": ["N"]}
        )
        assert one.keys == (("a", "N"), ("b", "N"), ("c", "N"))


def test_a_table_goes_to_each_select_of_a_batch_that_has_groups() -> None:
    with opened(ROWS) as session:
        batch = session.evaluate(
            ["SELECT county, COUNT(*) FROM t GROUP BY county", "SELECT COUNT(*) FROM t"],
            budget=unacorda.PureDP("0.5"),
            keys=REGIONS,
        )
    assert [len(release.keys) for release in batch] == [3, 1]


@in_subtests(
    ("table", "words"),
    [
        (REGIONS[["County"]], "'region'"),
        (REGIONS.iloc[:0], "without lines"),
        (pd.concat([REGIONS, REGIONS]), "('N', 'a').*each key in one line"),
        (REGIONS.assign(region=pd.Series(["N", None, "S"])), "without 'region'.*leave such"),
        (REGIONS.assign(region=[1.0, 2.0, 3.0]), "column 'region'.*cut numbers into classes"),
        (REGIONS.assign(region=[1, 2, 3]), "keys of the type of 'region'"),
        ("no such file.csv", "cannot be read"),
    ],
)
def test_tables_that_give_no_keys_are_refused(table: Any, words: str) -> None:
    with (
        opened(ROWS, columns={"region": unacorda.Text()}) as session,
        pytest.raises(UnacordaError, match=words.replace("(", r"\(").replace(")", r"\)")),
    ):
        session.table("t").group_by("region", "county", keys=table)


def test_too_long_tables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unacorda.query.schema.sources.MOST_KEYS", 2)
    with opened(ROWS) as session, pytest.raises(InvalidParameter, match="at most 2 lines"):
        session.table("t").group_by("county", keys=REGIONS)


def test_text_of_a_table_is_read_as_the_column_holds(tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text(
        "k,day,yes,code\n1,2024-01-31,TRUE,01\n2,2024-02-01,false,02\n"
    )
    table = tmp_path / "keys.csv"
    days = [dt.date(2024, 1, 31), dt.date(2024, 2, 1)]
    rows = pl.DataFrame({"k": [1, 2], "day": days, "yes": [True, False], "code": ["01", "02"]})
    with opened(rows) as session:
        query = session.table("t").group_by("k", "day", "yes", "code", keys=table)
        assert query.keys == ((1, days[0], True, "01"), (2, days[1], False, "02"))
        stamped = pd.DataFrame({"day": pd.to_datetime(days)})
        assert session.table("t").group_by("day", keys=stamped).keys == tuple((d,) for d in days)
        stamped["day"] += pd.Timedelta(hours=1)
        with pytest.raises(InvalidParameter, match="without a time of day"):
            session.table("t").group_by("day", keys=stamped)


def test_days_of_pandas_are_dates() -> None:
    days = pd.date_range("2024-01-01", "2024-01-03")
    with opened(pl.DataFrame({"day": [day.date() for day in days], "seen": days})) as session:
        table = session.table("t")
        query = table.group_by("day", keys=days).agg(n=unacorda.count())
        assert query.keys == tuple((day,) for day in unacorda.dates("2024-01-01", "2024-01-03"))
        assert exact(session, query)["n"] == [1, 1, 1]
        with pytest.raises(InvalidParameter, match=r"holds timestamps: group by the day, CAST"):
            table.group_by("seen", keys=days)
        for odd in (days + pd.Timedelta(nanoseconds=1), [pd.NaT]):
            with pytest.raises(InvalidParameter, match="without a time of day"):
                table.group_by("day", keys=odd)


def test_a_select_takes_lists_as_the_builder_does() -> None:
    rows = pl.DataFrame({"a": ["x", "y", "y"], "b": [1, 2, 3]})
    with opened(rows) as session:
        one, _ = session.read_sql("SELECT a, COUNT(*) FROM t GROUP BY a", keys=["y", "x"])
        assert one.keys == (("y",), ("x",))
        text = "SELECT b + 1 AS c, a, COUNT(*) FROM t GROUP BY c, a"
        pairs, _ = session.read_sql(text, keys=[(2, "x"), (3, "y")])
        assert pairs.keys == ((2, "x"), (3, "y"))
        with pytest.raises(InvalidParameter, match="a GROUP BY with keys="):
            session.read_sql("SELECT COUNT(*) FROM t", keys=["y"])
