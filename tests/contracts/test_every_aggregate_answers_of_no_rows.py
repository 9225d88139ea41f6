"""Of no rows, of one row without values and of one of zeros every aggregate answers in numbers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from tests.query import neighbor_tables

import unacorda
from unacorda.bits import SeededBits

COLUMNS: dict[str, Any] = {
    "who": pa.int64(),
    "region": pa.string(),
    "x": pa.float64(),
    "whole": pa.int64(),
    "note": pa.string(),
}


@pytest.mark.long
@pytest.mark.parametrize("row", [None, (7, "a", None, None, None), (7, "a", 0.0, 0, "0")])
def test_it_answers_in_finite_numbers_within_its_limits(row: tuple[object, ...] | None) -> None:
    rows = [] if row is None else [dict(zip(COLUMNS, row, strict=True))]
    table = pa.Table.from_pylist(rows, schema=pa.schema(COLUMNS))
    budget, unit = unacorda.PureDP(1), unacorda.Person("who", max_rows=2)
    makers = {
        name: make for made in neighbor_tables.AGGREGATES.values() for name, make in made.items()
    }
    with unacorda.Session(
        {"t": table}, unit=unit, budget=budget * len(makers), bits=SeededBits(1)
    ) as session:
        for name, make in makers.items():
            query = session.table("t").group_by("region", keys=["b", "a"]).agg(answer=make())
            release = session.evaluate(query, budget=budget)
            assert len(release.to_dicts()) == 2 * query.lines
            for answer in release.clamped().answers.values():
                for at, value in enumerate(answer.values):
                    assert math.isfinite(value), name
                    assert answer.limits[0] <= value <= answer.limits[1], name
                    low, high = answer.lower[at], answer.upper[at]
                    assert low is None or low <= value, name
                    assert high is None or value <= high, name
                    error = answer.standard_errors[at]
                    assert error is None or math.isfinite(error), name
