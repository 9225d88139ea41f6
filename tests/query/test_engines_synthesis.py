"""Synthetic tables are the same on every engine, bit for bit, where no bound drops a row."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.engines_alike import LOOSE, OTHERS, opened_on

import unacorda
from unacorda.synthesis.release import SyntheticTable

pytestmark = pytest.mark.parametrize("engine", OTHERS)

ROWS = 400
BINS: dict[str, Any] = {"x": [-10, 0, 2, 10], "whole": [0, 2, 4, 10]}
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 2, 1)]


def table() -> pa.Table:
    """Hostile numbers, texts with odd signs, NULLs everywhere."""
    drawn = np.random.default_rng(3)

    def any_of(values: list[Any], kind: Any = None) -> pa.Array:
        return pa.array([values[i] for i in drawn.integers(0, len(values), ROWS)], kind)

    return pa.table(
        {
            "who": pa.array(drawn.integers(0, 60, ROWS)),
            "region": any_of(["a", "b", "it's", "é", None]),
            "x": any_of([0.5, -0.0, None, math.nan, math.inf, -7.25, 1e308, 3.0], pa.float64()),
            "whole": any_of([1, 2, None, -(2**62), 9, 2**53 + 1], pa.int64()),
            "yes": any_of([True, False, None], pa.bool_()),
            "day": any_of([*DAYS, None], pa.date32()),
        }
    )


def synthesized(
    engine: str, source: pa.Table, unit: unacorda.Person, pairs: list[list[str]]
) -> SyntheticTable:
    """columns: those of the pairs, which are the workload."""
    facts = {
        "region": unacorda.Categories(["a", "b", "it's", "é"]),
        "day": unacorda.Categories(DAYS),
    }
    with opened_on(engine, source, unit=unit, budget=unacorda.ZCDP(9), columns=facts) as session:
        asked = session.table("t").synthesize(
            [name for pair in pairs for name in pair],
            bins={name: bins for name, bins in BINS.items() if [name] in [p[:1] for p in pairs]},
            workload=pairs,
        )
        return session.evaluate(asked, budget=unacorda.ZCDP(4))


def test_every_engine_makes_the_same_synthetic_table(engine: str) -> None:
    """Counts, choices, rows and errors: all noise comes from one seed, and the salts are equal."""
    source = table()
    pairs = [["x", "region"], ["whole", "yes"], ["x > 1", "day"]]
    ours, theirs = (synthesized(one, source, LOOSE, pairs) for one in ("duckdb", engine))
    assert theirs.to_json() == ours.to_json()
    assert theirs.errors is not None
    assert len(ours.codes) > 0


def test_every_engine_binds_the_rows_of_a_person(engine: str) -> None:
    """Which rows are kept may differ; how many there are may not, up to the same noise."""
    source, unit = table(), unacorda.Person("who", max_rows=2)
    ours, theirs = (synthesized(one, source, unit, [["region"]]) for one in ("duckdb", engine))
    people = len(set(source["who"].to_pylist()))
    for one in (ours, theirs):
        count = one.measured.count()
        assert count.lower <= 2 * people <= count.upper
