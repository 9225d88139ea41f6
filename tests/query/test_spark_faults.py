"""What Spark loses is computed again; what fails tells nothing; a caller's session stays."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.query.engines_alike import (
    LOOSE,
    TABLE,
    counted,
    forged,
    grouped,
    local,
    opened_on,
    without_java,
)
from tests.support.seams import Person, SparkAsking, Statement, quietly, unlogged

import unacorda
from unacorda.errors import EngineFailed, InvalidParameter, SourceChanged

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
    pytest.mark.filterwarnings("ignore:keys. two keys look alike"),
]


@pytest.mark.slow
def test_what_is_lost_is_computed_again_to_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two reads the kept rows and what Spark wrote to disk for them are taken away."""
    spark, right, lost = local(), SparkAsking.fetch, []
    unit = Person("who", max_groups=1, max_rows_per_group=1)

    def forgetful(asking: SparkAsking, *given: Any, **named: Any) -> dict[str, list[Any]]:
        found = right(asking, *given, **named)
        lost.append(lose_everything(spark))
        return found

    with opened_on("spark", TABLE, unit=unit) as session:
        query = grouped(session.table("t")).agg(
            m=unacorda.median("whole", 0, 10), s=unacorda.sum("x", 0, 9)
        )
        whole = counted(session, query, salt=11)
        monkeypatch.setattr(SparkAsking, "fetch", forgetful)
        assert counted(session, query, salt=11) == whole
    assert len(lost) == 2
    assert lost[0] > 0
    assert sum(count for *_, count in whole["histograms"][0]) > 3


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


@pytest.mark.slow
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
            measures=1,
            keys=None,
            bounded="SELECT x + x AS y, 0::UTINYINT AS cell FROM source0",
            counts="SELECT cell, max(y)::VARCHAR AS a0 FROM bounded GROUP BY cell",
            rankings=(),
            ladders=(),
        )
        with pytest.raises(EngineFailed):
            session._engine.run(forged(session, broken))
        assert not logged
    logger.removeHandler(handler)


@pytest.mark.slow
def test_failures_tell_nothing_and_stay_spent(tmp_path: Path) -> None:
    path = tmp_path / "secret Smith.parquet"
    pyarrow.parquet.write_table(TABLE, path)
    with opened_on("spark", str(path), unit=LOOSE) as session:
        query = session.table("t").agg(s=unacorda.sum("x", 0, 1))
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[4:400] = b"\xff" * 396
        path.write_bytes(bytes(damaged))
        with pytest.raises(SourceChanged):
            session.evaluate(query, budget=unacorda.PureDP(1))
        assert session.spent == unacorda.ApproxDP(0, 0)
        session._engine.check_sources = lambda: None  # type: ignore[method-assign]
        with pytest.raises(EngineFailed) as failed:
            session.evaluate(query, budget=unacorda.PureDP(1))
        assert failed.value.__cause__ is None
        assert failed.value.__context__ is None
        assert session.spent == unacorda.ApproxDP(1, 0)


@pytest.mark.slow
def test_a_spark_that_is_gone_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_on("spark", TABLE, unit=LOOSE) as session:
        query = session.table("t").agg(n=unacorda.count())
        with monkeypatch.context() as changed:
            changed.setattr("unacorda.query.engines.spark.ended", lambda _: True)
            with pytest.raises(EngineFailed) as failed:
                session.evaluate(query, budget=unacorda.PureDP(1))
            assert not failed.value.asked
            with pytest.raises(InvalidParameter, match="a SparkSession that is running"):
                unacorda.Session(
                    {"t": TABLE}, unit=LOOSE, budget=unacorda.PureDP(1), engine=local()
                )
        assert session.spent == unacorda.ApproxDP(0, 0)
        session.evaluate(query, budget=unacorda.PureDP(1))
        session._engine.close()
        with pytest.raises(EngineFailed) as failed:
            session.evaluate(query, budget=unacorda.PureDP(1))
        assert not failed.value.asked
        assert session.spent == unacorda.ApproxDP(1, 0)


@pytest.mark.slow
def test_the_callers_session_is_left_alone() -> None:
    spark = local()
    with quietly():
        before = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        with opened_on("spark", TABLE, unit=LOOSE) as session:
            session.evaluate(
                session.table("t").agg(m=unacorda.median("x", 0, 1)), budget=unacorda.PureDP(1)
            )
            assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
            assert not spark.sql("SHOW TABLES LIKE 'source*'").collect()
        spark.conf.set("spark.sql.session.timeZone", before)
