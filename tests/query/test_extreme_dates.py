"""Every function of dates and instants, at both ends of every type: an answer, never a failure."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.query.exact_answers import opened
from tests.support.extremes import (
    DATE_TEXTS,
    DAYS,
    INSTANTS,
    TEXTS,
    failing,
    of_dates,
    of_instants,
)
from tests.tiers import mostly_slow

import unacorda


def ticks(values: tuple[int, ...], kind: Any) -> Any:
    """Raw numbers as an Arrow column of a type that nothing checks."""
    width = "int32" if kind == pa.date32() else "int64"
    data = pa.py_buffer(np.array(values, dtype=width).tobytes())
    return pa.Array.from_buffers(kind, len(values), [None, data])


COLUMNS: dict[str, tuple[Any, bool]] = {
    "us": (ticks(INSTANTS["us"], pa.timestamp("us")), True),
    "date32": (ticks(DAYS, pa.date32()), False),
    "us, zoned": (ticks(INSTANTS["us"], pa.timestamp("us", "Asia/Tokyo")), True),
    "ns": (ticks(INSTANTS["ns"], pa.timestamp("ns")), True),
    "ns, zoned": (ticks(INSTANTS["ns"], pa.timestamp("ns", "UTC")), True),
    "ms": (ticks(INSTANTS["ms"], pa.timestamp("ms")), True),
    "s": (ticks(INSTANTS["s"], pa.timestamp("s")), True),
    "date64": (ticks(tuple(86_400_000 * day for day in DAYS), pa.date64()), False),
    "ms, zoned": (ticks(INSTANTS["ms"], pa.timestamp("ms", "UTC")), True),
    "s, zoned": (ticks(INSTANTS["s"], pa.timestamp("s", "UTC")), True),
    "text": (pa.array(TEXTS), True),
    "text of dates": (pa.array(DATE_TEXTS), False),
}


def asked(source: Any, name: str, *, instants: bool) -> list[str]:
    """The expressions at which the engine fails; the session is alive afterwards."""
    with opened(source, budget=unacorda.PureDP(10**4)) as session:
        failures = failing(session, of_instants(name) if instants else of_dates(name))
        query = session.table("t").agg(n=unacorda.count())
        session.evaluate(query, budget=unacorda.PureDP(1))
    return failures


@pytest.mark.long
@pytest.mark.parametrize("case", mostly_slow(COLUMNS, quick=2))
def test_every_function_answers_at_both_ends_of_a_column_of_a_frame(case: str) -> None:
    values, instants = COLUMNS[case]
    name = "w"
    if pa.types.is_string(values.type):
        name = "CAST(w AS TIMESTAMP)" if instants else "CAST(w AS DATE)"
    assert asked(pa.table({"w": values}), name, instants=instants) == []


@pytest.mark.slow
@pytest.mark.parametrize("column", ["us", "us, zoned", "s", "ms", "ns", "ns, zoned", "date32"])
def test_every_function_answers_at_both_ends_of_a_column_of_a_database(
    column: str, tmp_path: Path
) -> None:
    values, instants = COLUMNS[column]
    with duckdb.connect(str(tmp_path / "f.duckdb")) as connection:
        connection.register("ends", pa.table({"w": values}))
        connection.execute("CREATE TABLE t AS SELECT w FROM ends")
    assert asked(f"{tmp_path / 'f.duckdb'}::t", "w", instants=instants) == []


@pytest.mark.slow
@pytest.mark.parametrize("column", ["us", "ns", "date32"])
def test_every_function_answers_at_both_ends_of_a_column_of_a_file(
    column: str, tmp_path: Path
) -> None:
    values, instants = COLUMNS[column]
    pq.write_table(pa.table({"w": values}), tmp_path / "t.parquet")
    assert asked(str(tmp_path / "t.parquet"), "w", instants=instants) == []
