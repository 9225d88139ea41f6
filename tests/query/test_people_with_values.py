"""People with a value: each counts once in a cell, however many of her rows have one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pandas as pd
import pytest
from tests.query.exact_answers import exact

import unacorda

ROWS = [
    (1, "a", None),
    (1, "a", 2.0),
    (1, "b", None),
    (2, "a", 3.0),
    (2, "a", 4.0),
    (3, "b", None),
    (None, "b", 5.0),
    (4, "b", float("nan")),
]


@pytest.mark.parametrize("unit", [unacorda.Person("id", max_rows=5), unacorda.Row()], ids=str)
def test_people_with_a_value_by_group(unit: unacorda.Person | unacorda.Row) -> None:
    frame = pd.DataFrame(ROWS, columns=["id", "g", "x"]).astype({"id": "Int64"})
    with unacorda.Session({"t": frame}, unit=unit, budget=unacorda.PureDP(1)) as session:
        query = (
            session.table("t")
            .group_by("g", keys=["a", "b", "c"])
            .agg(
                everyone=unacorda.count_people(),
                present=unacorda.count_people("x"),
                large=unacorda.count_people("CASE WHEN x > 2 THEN x END"),
            )
        )
        found = exact(session, query, salt=1)
    person = isinstance(unit, unacorda.Person)
    assert found["everyone"] == ([2, 3, 0] if person else [4, 4, 0])
    assert found["present"] == ([2, 0, 0] if person else [3, 1, 0])
    assert found["large"] == ([1, 0, 0] if person else [2, 1, 0])
