"""Expressions over the released table: what was published is computed with, never the data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from unacorda.query.expressions.types import Column, Expression, Kind
from unacorda.query.schema.quoting import identifier

__all__ = ["evaluated"]

_TYPES = {
    Kind.NUMBER: "DOUBLE",
    Kind.INTEGER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}


def evaluated(
    columns: Mapping[str, tuple[Column, Sequence[Any]]], expressions: Sequence[Expression]
) -> list[list[Any]]:
    """The values of expressions over columns of equal length, one list for each expression."""
    if not expressions:
        return []
    rows = max((len(values) for _, values in columns.values()), default=0)
    line = "line" + "_" * max((len(column.name) for column, _ in columns.values()), default=0)
    lists = {"lines": list(range(rows))}
    parts = [f"unnest($lines::BIGINT[]) AS {line}"]  # longer than the name of any column
    for number, (column, values) in enumerate(columns.values()):
        lists[f"c{number}"] = list(values)
        parts.append(f"unnest($c{number}::{_TYPES[column.kind]}[]) AS {identifier(column.name)}")
    asked = ", ".join(expression.sql for expression in expressions)
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        found = connection.execute(
            f"SELECT {asked} FROM (SELECT {', '.join(parts)}) ORDER BY {line}", lists
        ).fetchall()
    return [list(column) for column in zip(*found, strict=True)] or [[] for _ in expressions]
