"""A public table that changes while a session is open makes no claim smaller than the truth.

How many public rows a private one meets, and between what its numbers lie, is read when a question
is put together; the noise rests on it. Local files are watched, tables of a catalogue are not: so
the statement keeps to both by itself. Here nothing is watched.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.query.engines_alike import counted, opened_on, without_java
from tests.support.seams import Query, Session, Unit
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import SourceChanged

with_spark = [
    pytest.mark.service,
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
]
ENGINES = ["duckdb", pytest.param("spark", marks=with_spark)]
JOINS = [(on, how) for on in ("zip", "at") for how in ("inner", "left")]
CASES = [
    *(("duckdb", on, how) for on, how in JOINS),
    *mostly_slow(pytest.param("spark", on, how, marks=with_spark) for on, how in JOINS),
]
PEOPLE = pa.table({"id": [1, 1, 2, 3], "zip": ["a", "b", "a", "c"], "at": [0.0, -0.0, 1.0, 2.0]})
LABS = pa.table({"id": [1, 2, 3], "lab": [7, 8, 9]})
BEFORE = {"zip": ["a", "b", "c", "c"], "at": [0.0, 1.0, 2.0, 2.0], "size": [1.0, 2.0, 3.0, 4.0]}
AFTER = {
    "zip": ["a"] * 6 + ["b"] * 5 + ["c"] * 4 + [None] * 3,
    "at": [0.0, -0.0] * 3 + [1.0] * 5 + [2.0] * 4 + [math.nan] * 3,
    "size": [2.0, 900.0, -900.0] * 6,
}


def opened(engine: str, unit: Unit, path: Path) -> Session:
    pyarrow.parquet.write_table(pa.table(BEFORE), path)
    tables = {"t": PEOPLE, "labs": LABS}
    return opened_on(engine, tables, unit=unit, public={"zips": str(path)})


def changed(session: Session, path: Path) -> None:
    """Write other rows into the public file, and look away."""
    pyarrow.parquet.write_table(pa.table(AFTER), path)
    session._engine.check_sources = lambda: None  # type: ignore[method-assign]


def sizes(session: Session, query: Query) -> Counter[float]:
    """How many joined rows have which size."""
    query = query.agg(h=unacorda.histogram("size", [0, 1, 2, 3, 4, 5, 1_000]))
    (bins,) = counted(session, query)["histograms"]
    return Counter({float(at - 1): count for _, at, count in bins})


@pytest.mark.parametrize(("engine", "on", "how"), mostly_slow(CASES))
def test_a_row_meets_no_more_than_were_counted(
    engine: str, on: str, how: Any, tmp_path: Path
) -> None:
    path = tmp_path / "zips.parquet"
    with opened(engine, unacorda.Row(), path) as session:
        query = session.table("t").join("zips", on, how=how, columns=["size"])
        assert query.rows.most == 2
        assert sizes(session, query).total() == 5
        changed(session, path)
        # Each of the four rows meets two of the four to six that there are now: those that come
        # first by their size, which is clamped to what it was before, 1 to 4.
        found = sizes(session, query)
        assert found.total() == 8
        assert set(found) == {1.0, 2.0}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_person_of_several_tables_has_no_more_rows_than_follow(
    engine: str, tmp_path: Path
) -> None:
    """Her own limits are wide here: what a join leaves of her, times what was counted, is less."""
    path = tmp_path / "zips.parquet"
    with opened(engine, unacorda.Person("id", max_rows=1_000), path) as session:
        both = session.table("t").join(session.table("labs"), max_rows=(1, 1), columns=["lab"])
        query = both.join("zips", "zip", columns=["size"])
        assert query.rows.most == 2
        changed(session, path)
        by_person = query.group_by("lab", keys=[7, 8, 9]).agg(n=unacorda.count())
        assert set(counted(session, by_person)["sums"].values()) == {(2,)}


def test_keys_of_a_public_table_are_those_that_were_read(tmp_path: Path) -> None:
    path, keys = tmp_path / "zips.parquet", tmp_path / "keys.csv"
    keys.write_text("zip\na\nb\n", encoding="utf-8")
    with opened("duckdb", unacorda.Row(), path) as session:
        t = session.table("t")
        of_column = t.join("zips", "zip", columns={"town": "zip"}).group_by("town")
        of_file = t.group_by("zip", keys=str(keys))
        changed(session, path)
        keys.write_text("zip\nc\n", encoding="utf-8")
        assert set(of_column.keys) == {("a",), ("b",), ("c",)}
        assert of_file.keys == (("a",), ("b",))
        found = counted(session, of_file.agg(n=unacorda.count()))
        assert found["sums"] == {0: (2,), 1: (1,)}


def test_a_file_that_this_machine_sees_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "zips.parquet"
    with opened("duckdb", unacorda.Row(), path) as session:
        query = session.table("t").join("zips", "zip", columns=["size"]).agg(n=unacorda.count())
        pyarrow.parquet.write_table(pa.table(AFTER), path)
        with pytest.raises(SourceChanged, match="zips"):
            session.evaluate(query, budget=unacorda.PureDP(1))
