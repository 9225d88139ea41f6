"""People by number of rows before bounding, on every engine: the integers of DuckDB."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import pytest
from tests.query.engines_alike import OTHERS, opened_on
from tests.query.test_person_values import FACTS, TABLE

import unacorda

pytestmark = [pytest.mark.service, pytest.mark.parametrize("engine", OTHERS)]


def test_the_histogram_is_the_same_for_public_and_found_keys(engine: str) -> None:
    budget = unacorda.ApproxDP(900_000, "1e-6")
    found: list[Any] = []
    for each in ("duckdb", engine):
        unit = unacorda.Person("who", max_rows=2)
        options: dict[str, Any] = {"budget": budget * 9, "columns": FACTS}
        with opened_on(each, TABLE, unit=unit, **options) as session:
            rows = session.table("t").where("at >= 1")
            count = {"n": unacorda.count()}
            queries = [
                rows.agg(**count),
                rows.group_by("text", keys=["a", None]).agg(**count),
                rows.group_by("text", keys=unacorda.private_keys()).agg(**count),
            ]
            counted = []
            for query in queries:
                kept = session.evaluate(query, budget=budget, kept=0.5).kept
                assert kept is not None
                counted.append([round(one) for one in kept.histogram.counts])
            found.append(counted)
    assert found[0] == found[1]
    assert sum(found[0][0]) > 10
