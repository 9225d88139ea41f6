"""Tables of every source and type count on Spark what they count on DuckDB."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.query.engines_alike import LOOSE, TABLE, both, counted, local, opened_on, without_java
from tests.support.seams import Person, Query, quietly

import unacorda
from unacorda.errors import InvalidParameter, SourceUnreadable

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
]


WIDE = pa.decimal128(38, 0)


def test_sources_of_every_type_count_the_same(tmp_path: Path) -> None:
    rows = 60
    drawn = random.Random(8)
    days = [dt.date(1969, 12, 30) + dt.timedelta(days=drawn.randrange(9)) for _ in range(rows)]
    numbers = [decimal.Decimal(drawn.randrange(-(10**9), 10**9)) / 1000 for _ in range(rows)]
    leap_day = 1_709_164_800_000_000  # 2024-02-29
    moments = [leap_day + drawn.randrange(24) * 3_600_000_000 + 7 for _ in range(rows)]
    table = pa.table(
        {
            "key": pa.array([drawn.choice(["01", "1", "é", None]) for _ in range(rows)]),
            "day": pa.array(days, pa.date32()),
            "cost": pa.array(numbers, pa.decimal128(18, 3)),
            "wide": pa.array(
                [decimal.Decimal(drawn.randrange(-(10**37), 10**19)) for _ in range(rows)], WIDE
            ),
            "at": pa.array(moments, pa.timestamp("us")),
            "zoned": pa.array(moments, pa.timestamp("us", tz="America/New_York")),
            "small": pa.array([drawn.choice([None, -128, 127]) for _ in range(rows)], pa.int8()),
            "single": pa.array([drawn.random() for _ in range(rows)], pa.float32()),
            "flag": pa.array([drawn.choice([None, True, False]) for _ in range(rows)]),
            "list": pa.array([[1]] * rows),
        }
    )

    def ask(query: Query) -> Query:
        return (
            query.where("at > '2024-02-29 01:00' OR flag")
            .derive(hour="extract(hour from zoned)", month="date_trunc('month', day)")
            .group_by("month", keys=[dt.date(1969, 12, 1), dt.date(1970, 1, 1)])
            .agg(
                cost=unacorda.sum("cost", -(10**6), 10**6),
                hours=unacorda.sum("hour", 0, 24),
                wide=unacorda.sum("wide", -(10**38), 0),
                wides=unacorda.count_distinct("CAST(wide AS DOUBLE)"),
                small=unacorda.mean("small", -200, 200),
                single=unacorda.variance("single", 0, 1),
                days=unacorda.count_distinct("day"),
                keys=unacorda.count_distinct("key"),
                true=unacorda.count_if("flag"),
            )
        )

    pyarrow.parquet.write_table(table, tmp_path / "one [1].parquet")
    for source in (table, str(tmp_path / "one [1].parquet")):
        ours, theirs = both("spark", source, ask, unit=Person("cost", max_rows=50))
        assert ours == theirs
        assert len(ours["sums"]) == 2


def test_text_files_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        'who,day,x,note\n1,2024-01-31,1.5,"a, b"\n2,2024/02/01, 2 ,"say ""no"""\n3,,,\n'
        '4,2024-13-01,nan,"two\nlines"\n5,2024-02-01 10:00,1e3,é\n6,x,1d,""\n',
        encoding="utf-8",
    )

    def ask(query: Query) -> Query:
        return query.agg(
            n=unacorda.count(),
            x=unacorda.sum("x", 0, 10_000),
            notes=unacorda.count("note"),
            odd=unacorda.count_if("note IN ('a, b', 'say \"no\"') OR note LIKE 'two%'"),
            days=unacorda.count_if("CAST(day AS DATE) >= '2024-01-01'"),
        )

    ours, theirs = both("spark", str(path), ask)
    assert ours == theirs == {**ours, "sums": {0: (6, *ours["sums"][0][1:])}}


def test_tables_of_spark_are_sources(tmp_path: Path) -> None:
    spark = local()
    with quietly():
        path = str(tmp_path / "stored")
        spark.createDataFrame(TABLE).write.parquet(path)
        stored = spark.read.parquet(path)
        spark.sql("DROP TABLE IF EXISTS visits")
        stored.write.saveAsTable("visits")
        spark.sql("CREATE OR REPLACE TEMP VIEW noisy AS SELECT *, rand() AS r FROM visits")
        frames = [stored, stored.select("who", "x"), stored.localCheckpoint(), "visits"]
        for source in frames:
            with opened_on("spark", source, unit=LOOSE) as session:
                query = session.table("t").agg(n=unacorda.count(), s=unacorda.sum("x", 0, 1))
                known = TABLE["who"].to_pylist()
                assert counted(session, query)["sums"][0][0] == sum(w is not None for w in known)
        lazy = [stored.sample(0.5), stored.limit(9), stored.selectExpr("rand() AS who"), "noisy"]
        for source in lazy:
            with pytest.raises(InvalidParameter, match="materialise"):
                opened_on("spark", source)
        with pytest.raises(InvalidParameter, match="catalogue"):
            opened_on("spark", "no_such_table")
        with pytest.raises(InvalidParameter, match="duckdb"):
            opened_on("spark", _database(tmp_path))
        with pytest.raises(SourceUnreadable):
            opened_on("spark", str(tmp_path / "none.parquet"))
        spark.sql("DROP TABLE visits")


def _database(folder: Path) -> str:
    import duckdb

    path = str(folder / "file.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    return f"{path}::t"
