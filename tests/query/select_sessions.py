"""A table that SELECTs are asked about, and a session over it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Collection

import polars as pl
from tests.query.exact_answers import opened
from tests.support.seams import (
    Query,
    Relation,
    Row,
    Select,
    Session,
    SourceTable,
    parse_select,
    scope_of,
)

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


def read(text: str, columns: Collection[str]) -> Select:
    """A SELECT over tables of any name with these columns of text without a declaration."""

    def start(table: str) -> Query:
        scope = scope_of(table, dict.fromkeys(columns, "VARCHAR"), Row(), {})
        return Query(
            rows=Relation(source=SourceTable(name=table, scope=scope), scope=scope), unit=Row()
        )

    return parse_select(text, start=start)


def steps_of(select: Select) -> list[str]:
    """The conditions and derived columns of a SELECT, in order."""
    return [
        step["where"] if "where" in step else f"{step['derive']} = {step['as']}"
        for step in select.rows.to_dict()["steps"]
    ]
