"""Spark counts what DuckDB counts: one contract over both engines, and what Spark refuses.

The tests of this file share one Spark, started at the first of them; only the whole tour and what
needs a Spark of its own are slow.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import hashlib
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.query import expressions_alike, neighbor_tables
from tests.query.engines_alike import counted, local, opened_on, plain, without_java

import tacet
from tacet.errors import (
    EngineFailed,
    InvalidParameter,
    SourceChanged,
    SourceUnreadable,
    UnsupportedConstruct,
)
from tacet.query.aggregates.aggregate import Aggregate
from tacet.query.compile import Statement
from tacet.query.counting import first_statement
from tacet.query.engines.spark_local import quietly, unlogged
from tacet.query.plan import Query
from tacet.query.units import Person, Unit

pytestmark = [
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
    pytest.mark.filterwarnings("ignore:keys. two keys look alike"),
]

_drawn = random.Random(5)
_NUMBERS = (0.5, -0.0, None, math.nan, math.inf, -math.inf, 1e308, -7.25, 3.0, 0.1, 5e-324, 2.5)
_WHOLES = (1, 2, None, 3, -(2**62), 2**53 + 1, 0, 9)
_NOTES = ("3", "z", None, "-1e999", "nan", "", "abc", " 2 ", "1_0", "é", "e\u0301", "-2", "0x1")
_REGIONS = ("a", "b", None, "c", "é", "e\u0301")
TABLE = pa.table(
    {
        "who": pa.array([_drawn.choice([None, *range(1, 9)]) for _ in range(80)], pa.int64()),
        "org": [_drawn.choice(["x", "y", "", "ß", None]) for _ in range(80)],
        "region": [_drawn.choice(_REGIONS) for _ in range(80)],
        "x": pa.array([_drawn.choice(_NUMBERS) for _ in range(80)], pa.float64()),
        "whole": pa.array([_drawn.choice(_WHOLES) for _ in range(80)], pa.int64()),
        "note": [_drawn.choice(_NOTES) for _ in range(80)],
    }
)
EVERY = {
    name: make for makers in neighbor_tables.AGGREGATES.values() for name, make in makers.items()
}
FIRST = [next(iter(makers)) for makers in neighbor_tables.AGGREGATES.values()]
LOOSE = Person("who", max_rows=1_000)
TIGHT = Person("who", max_rows=3)
UNITS: Mapping[str, Unit] = {
    "rows": tacet.Row(),
    "people": LOOSE,
    "two columns": Person(("who", "org"), max_rows=1_000),
    "an expression": Person("lower(org) || 'x'", max_rows=1_000),
}


WIDE = pa.decimal128(38, 0)


def grouped(query: Query) -> Query:
    return query.group_by("region", keys=["a", "b", None, "é", "e\u0301", "none"])


def both(
    source: Any, ask: Callable[[Query], Query], *, unit: Unit | None = None, **options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All integers of a question, from DuckDB and from Spark."""
    found = []
    for engine in ("duckdb", "spark"):
        with opened_on(engine, source, unit=unit, **options) as session:
            found.append(counted(session, ask(session.table("t"))))
    return found[0], found[1]


def asked(makers: Mapping[str, Callable[[], Aggregate]]) -> list[dict[str, Aggregate]]:
    """As few questions as there can be: an aggregate with several lines is alone."""
    scope = neighbor_tables.empty_scope()
    made = {name: make() for name, make in makers.items()}
    alone = [name for name, one in made.items() if one.bound_to(scope).lines != 1]
    together = {name: one for name, one in made.items() if name not in alone}
    return [together, *({name: made[name]} for name in alone)]


def pipeline(query: Query) -> Query:
    return query.where("x > -2 OR whole IS NULL OR note = 'z'").derive(z="x * 2 - whole")


def assert_alike(aggregates: Mapping[str, Aggregate], unit: Unit) -> None:
    ours, theirs = both(TABLE, lambda q: grouped(pipeline(q)).agg(**aggregates), unit=unit)
    assert ours == theirs


# ---- values ------------------------------------------------------------------------------------


def test_every_expression_has_the_same_value() -> None:
    """Bit for bit, over NULL, NaN, signed zeros, infinities, ends of time and strange texts."""
    data = expressions_alike.table(220, seed=9)
    with quietly():
        frame = local().newSession().createDataFrame(data)
        spark = frame.sparkSession
        frame.createOrReplaceTempView("data")
        for name, value in settings().items():
            spark.conf.set(name, value)
        assert not expressions_alike.differences(spark, "data", data, expressions_alike.ALIKE)


def settings() -> Mapping[str, str]:
    from tacet.query.engines.spark import SETTINGS

    return SETTINGS


def test_a_wrong_value_would_be_found() -> None:
    data = expressions_alike.table(40, seed=1)
    with quietly():
        frame = local().newSession().createDataFrame(data.set_column(1, "a", data["b"]))
        frame.createOrReplaceTempView("data")
        assert expressions_alike.differences(frame.sparkSession, "data", data, ["a + 1"])


def test_what_differs_is_refused_by_name_before_anything_is_spent() -> None:
    with opened_on("spark", TABLE, unit=LOOSE) as session:
        table = session.table("t")
        for condition, name in {
            "ln(x) > 1": "LN",
            "power(x, 2) > 1": "POWER",
            "sin(whole) > 0": "SIN",
            "reverse(note) = 'z'": "REVERSE",
            "CAST(x AS VARCHAR) = '0.5'": "VARCHAR",
        }.items():
            query = table.where(condition).agg(n=tacet.count())
            with pytest.raises(UnsupportedConstruct, match=name):
                session.evaluate(query, budget=tacet.PureDP(1))
        with pytest.raises(UnsupportedConstruct, match="EXP"):
            session.evaluate(
                table.group_by("region", keys=tacet.private_keys()).agg(
                    n=tacet.sum("exp(x)", 0, 1)
                ),
                budget=tacet.ApproxDP(1, "1e-6"),
            )
        assert session.spent == tacet.ApproxDP(0, 0)


# ---- counts ------------------------------------------------------------------------------------


def test_every_aggregate_counts_the_same() -> None:
    for aggregates in asked({name: EVERY[name] for name in FIRST}):
        assert_alike(aggregates, LOOSE)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_every_aggregate_counts_the_same_for_every_unit(unit: Unit) -> None:
    for aggregates in asked(EVERY):
        assert_alike(aggregates, unit)


def test_a_whole_release_is_the_same() -> None:
    """With the same seed: keys that are found, two reads of a quantile, noise, order, prices."""
    rows = 400
    drawn = random.Random(3)
    people = [drawn.randrange(150) for _ in range(rows)]
    table = pa.table(
        {
            "who": people,
            "town": [drawn.choice(["Ä", "Ö", "ß", "few", None]) for _ in range(rows)],
            "kind": [drawn.choice(["one", "two"]) for _ in range(rows)],
            "age": pa.array([drawn.choice([None, *range(100)]) for _ in range(rows)], pa.int32()),
        }
    )
    found = []
    for engine in ("duckdb", "spark"):
        with opened_on(engine, table, unit=Person("who", max_rows=50)) as session:
            query = (
                session.table("t")
                .where("age IS NULL OR age < 90")
                .group_by(
                    "town", "kind", keys={"town": tacet.private_keys(), "kind": ["one", "two"]}
                )
                .agg(n=tacet.count(), middle=tacet.median("age", 0, 120, steps=100_000))
            )
            releases = [session.evaluate(query, budget=tacet.ApproxDP(60, "1e-4"))]
            margins = (
                session.table("t")
                .group_by("kind", keys=["one", "two", "none"], margins="rollup")
                .agg(n=tacet.count(), s=tacet.sum("age", 0, 100))
            )
            mean = session.table("t").agg(a=tacet.mean("age", 0, 100))
            batch = session.evaluate({"m": margins, "s": mean}, budget=tacet.PureDP(2))
            found.append([r.to_dicts() for r in [*releases, *batch.releases]])
            assert session.remaining < session.budget
    assert found[0] == found[1]
    assert len(found[0][0]) > 4


# ---- bounds ------------------------------------------------------------------------------------


def kept(engine: str, unit: Person, salt: int) -> list[dict[str, Any]]:
    """Rows and people by region, and rows by person, under bounds that bind."""
    with opened_on(engine, TABLE, unit=unit) as session:
        by_region = grouped(session.table("t")).agg(
            n=tacet.count(), s=tacet.sum("whole", 0, 9), p=tacet.count_people()
        )
        by_person = session.table("t").group_by("who", keys=list(range(1, 9))).agg(n=tacet.count())
        return [counted(session, query, salt=salt) for query in (by_region, by_person)]


def test_a_person_keeps_the_same_number_of_rows() -> None:
    rows = Counter(who for who in TABLE["who"].to_pylist() if who is not None)
    with opened_on("spark", TABLE, unit=TIGHT) as session:
        query = session.table("t").group_by("who", keys=list(range(1, 9))).agg(n=tacet.count())
        for salt in (7, 2**127 + 2**63 + 1):
            found = counted(session, query, salt=salt)["sums"]
            assert found == {k: (min(rows[k + 1], 3),) for k in range(8)}


def test_another_salt_keeps_other_rows() -> None:
    with opened_on("spark", TABLE, unit=TIGHT) as session:
        query = grouped(session.table("t")).agg(n=tacet.count(), s=tacet.sum("whole", 0, 9))
        found = [counted(session, query, salt=salt) for salt in (1, 2, 3)]
        assert any(one != found[0] for one in found)
        assert counted(session, query, salt=1) == found[0]


MD5: Mapping[str, Person] = {
    "rows": Person("who", max_rows=3, hash="md5"),
    "groups": Person(("who", "org"), max_groups=1, max_rows_per_group=2, hash="md5"),
    "all": Person("who", max_rows=4, max_groups=2, max_rows_per_group=3, hash="md5"),
}


@pytest.mark.parametrize("unit", MD5.values(), ids=MD5)
def test_md5_keeps_the_same_rows_on_every_engine(unit: Person) -> None:
    """Of numbers, texts and NULLs, whole rows: what is counted of them is the same."""
    found: dict[str, list[dict[str, Any]]] = {}
    for engine in ("duckdb", "spark"):
        with opened_on(engine, TABLE, unit=unit) as session:
            query = grouped(pipeline(session.table("t"))).agg(
                n=tacet.count(),
                whole=tacet.sum("whole", -4, 9),
                z=tacet.sum("z", -9, 9),
                notes=tacet.count_if("note > '2'"),
            )
            found[engine] = [counted(session, query, salt=salt) for salt in (1, 2**127 + 5)]
    assert found["duckdb"] == found["spark"]
    assert found["spark"][0] != found["spark"][1]


def test_md5_is_that_of_the_standard() -> None:
    """A person's first 20 bits are those of the hash of her id's text under the salt's."""
    table = pa.table({"who": [12] * 5, "x": [0.0, 1.0, 2.0, 3.0, 4.0]})
    salt = 3
    digest = hashlib.md5(f"{salt:032x}2:12".encode(), usedforsecurity=False).hexdigest()
    u = (int(digest[:5], 16) + 0.5) / 2**20
    kept = [at for at in range(5) if math.floor((at + 1) / 5 + u) > math.floor(at / 5 + u)]
    for engine in ("duckdb", "spark"):
        with opened_on(engine, table, unit=Person("who", max_rows=1, hash="md5")) as session:
            query = session.table("t").agg(n=tacet.histogram("x", [0, 1, 2, 3, 4, 5]))
            (bins,) = counted(session, query, salt=salt)["histograms"]
            assert bins == [(0, kept[0] + 1, 1)]


# ---- faults ------------------------------------------------------------------------------------


def test_what_is_lost_is_computed_again_to_the_same_rows() -> None:
    """Between two reads the kept rows and what Spark wrote to disk for them are taken away."""
    spark = local()
    unit = Person("who", max_groups=1, max_rows_per_group=1)
    with opened_on("spark", TABLE, unit=unit) as session:
        query = grouped(session.table("t")).agg(
            m=tacet.median("whole", 0, 10, steps=100_000), s=tacet.sum("x", 0, 9)
        )
        first = first_statement(session._engine, query, salt=11)
        tallies = session._engine.run(first, measures=len(query.measures))  # type: ignore[arg-type]
        assert tallies.deeper is not None
        whole = refined(tallies.deeper, len(query.keys))
        lost = lose_everything(spark)
        again = refined(tallies.deeper, len(query.keys))
        tallies.deeper.close()
        assert lost > 0
        assert whole == again
        assert sum(count for _, count in whole) > 3
        assert counted(session, query, salt=11) == plain(tallies)


def refined(deeper: Any, cells: int) -> list[tuple[int, int]]:
    from tacet.query.ranking import Asked

    found = deeper.count(
        0,
        Asked(
            cells=range(cells),
            lows=[0] * cells,
            highs=[100_000] * cells,
            shifts=[0] * cells,
            points=[5] * cells,
        ),
    )
    lines = zip(found.lines.tolist(), found.children.tolist(), found.counts.tolist(), strict=True)
    return sorted((line * 1_000_000 + child, count) for line, child, count in lines)


def lose_everything(spark: Any) -> int:
    """Drop every cached block and every file of a shuffle; gives how many there were."""
    context = spark.sparkContext
    cached = list(context._jsc.getPersistentRDDs().values())
    for kept_rows in cached:
        kept_rows.unpersist()
    folder = Path(context.getConf().get("spark.local.dir"))
    files = [path for path in folder.glob("blockmgr-*/*/shuffle_*") if path.is_file()]
    for path in files:
        path.unlink()
    return min(len(cached), len(files))


def test_what_spark_says_of_a_row_is_told_to_nobody() -> None:
    """PySpark itself logs the message of a failed conversion, value and all."""
    from pyspark.logger import PySparkLogger

    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(handler)
    table = pa.table({"who": [1], "x": [9_000_000_000_000_000_777]})
    with opened_on("spark", table) as session, quietly():
        frame = session._engine._spark.sql("SELECT CAST(x AS DECIMAL(3, 0)) AS y FROM source0")  # type: ignore[attr-defined]
        for silence, told in ((contextlib.nullcontext(), True), (unlogged(), False)):
            logged.clear()
            with silence, pytest.raises(Exception, match="777"):
                frame.collect()
            assert any("777" in message for message in logged) is told
        broken = Statement(
            keys=None,
            bounded="SELECT x + x AS y, 0::UTINYINT AS cell FROM source0",
            counts="SELECT cell, max(y)::VARCHAR AS a0 FROM bounded GROUP BY cell",
            rankings=(),
            finer=(),
            histograms=(),
            ladders=(),
        )
        with pytest.raises(EngineFailed):
            session._engine.run(broken, measures=1)
        assert not logged
    logger.removeHandler(handler)


def test_failures_tell_nothing_and_stay_spent(tmp_path: Path) -> None:
    path = tmp_path / "secret Smith.parquet"
    pyarrow.parquet.write_table(TABLE, path)
    with opened_on("spark", str(path), unit=LOOSE) as session:
        query = session.table("t").agg(s=tacet.sum("x", 0, 1))
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[4:400] = b"\xff" * 396
        path.write_bytes(bytes(damaged))
        with pytest.raises(SourceChanged):
            session.evaluate(query, budget=tacet.PureDP(1))
        assert session.spent == tacet.ApproxDP(0, 0)
        session._engine.check_sources = lambda: None  # type: ignore[method-assign]
        with pytest.raises(EngineFailed) as failed:
            session.evaluate(query, budget=tacet.PureDP(1))
        assert failed.value.__cause__ is None
        assert failed.value.__context__ is None
        assert session.spent == tacet.ApproxDP(1, 0)


# ---- several tables ---------------------------------------------------------------------------


def test_joined_and_split_rows_count_the_same() -> None:
    other = pa.table({"who": [1, 2, 2, 5, None], "lab": ["a", "b", "c", None, "d"]})
    towns = pa.table({"region": ["a", "b", "é", None], "size": [10, 20, None, 5]})
    tags = pa.table({"who": [1, 2, 3, 4], "tag": ["a.*b", "", None, "..x."]})
    unit = Person("who", max_rows=1_000)
    found: dict[str, list[dict[str, Any]]] = {"duckdb": [], "spark": []}
    for engine, answers in found.items():
        tables = {"t": TABLE, "other": other, "tags": tags}
        with opened_on(engine, tables, unit=unit, public={"towns": towns}) as session:
            t = session.table("t")
            for query in (
                t.join("towns", "region").agg(s=tacet.sum("size", 0, 30), n=tacet.count()),
                t.join("towns", "region", how="left").agg(s=tacet.sum("size"), n=tacet.count()),
                t.join(session.table("other"), max_rows=100)
                .group_by("lab", keys=["a", "b", "c", None])
                .agg(n=tacet.count(), s=tacet.sum("whole", 0, 9)),
                t.join(session.table("other"), how="left", max_rows=100).agg(n=tacet.count("lab")),
                t.union(session.table("other")).agg(n=tacet.count(), p=tacet.count_people()),
                session.table("tags")
                .explode("tag", separator=".", most=3)
                .group_by("tag", keys=["", "a", "*b", "x"])
                .agg(n=tacet.count()),
            ):
                answers.append(counted(session, query))
    assert found["duckdb"] == found["spark"]
    assert found["spark"][-1]["sums"] == {0: (3,), 1: (1,), 2: (1,), 3: (1,)}


# ---- sources -----------------------------------------------------------------------------------


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
                cost=tacet.sum("cost", -(10**6), 10**6),
                hours=tacet.sum("hour", 0, 24),
                wide=tacet.sum("wide", -(10**38), 0),
                wides=tacet.count_distinct("CAST(wide AS DOUBLE)"),
                small=tacet.mean("small", -200, 200),
                single=tacet.variance("single", 0, 1),
                days=tacet.count_distinct("day"),
                keys=tacet.count_distinct("key"),
                true=tacet.count_if("flag"),
            )
        )

    pyarrow.parquet.write_table(table, tmp_path / "one [1].parquet")
    for source in (table, str(tmp_path / "one [1].parquet")):
        ours, theirs = both(source, ask, unit=Person("cost", max_rows=50))
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
            n=tacet.count(),
            x=tacet.sum("x", 0, 10_000),
            notes=tacet.count("note"),
            odd=tacet.count_if("note IN ('a, b', 'say \"no\"') OR note LIKE 'two%'"),
            days=tacet.count_if("CAST(day AS DATE) >= '2024-01-01'"),
        )

    ours, theirs = both(str(path), ask)
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
                query = session.table("t").agg(n=tacet.count(), s=tacet.sum("x", 0, 1))
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


def test_the_callers_session_is_left_alone() -> None:
    spark = local()
    with quietly():
        before = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        with opened_on("spark", TABLE, unit=LOOSE) as session:
            session.evaluate(
                session.table("t").agg(m=tacet.median("x", 0, 1)), budget=tacet.PureDP(1)
            )
            assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
            assert not spark.sql("SHOW TABLES LIKE 'source*'").collect()
        spark.conf.set("spark.sql.session.timeZone", before)
