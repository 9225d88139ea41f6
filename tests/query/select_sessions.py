"""A table that SELECTs are asked about, and a session over it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import polars as pl
from tests.query.exact_answers import opened
from tests.support.seams import Session

import unacorda
from unacorda.privacy.guarantees import PureDP

FRAME = pl.DataFrame(
    {
        "id": [i // 2 for i in range(400)],
        "age": [i % 90 for i in range(400)],
        "pay": [float(i) for i in range(400)],
        "county": ["A", "B", "C", None] * 100,
        "Group by": ["x", "y"] * 200,
    }
)
FACTS = {"age": unacorda.Bounds(0, 120), "county": unacorda.Categories(["A", "B", "C"])}
BUDGET = PureDP(0.5)


def session() -> Session:
    return opened(FRAME, unit=unacorda.Person("id", max_rows=2), columns=FACTS)
