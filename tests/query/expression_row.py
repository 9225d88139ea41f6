"""One row of every kind of column, and what an expression says of it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import duckdb
from tests.support.seams import Column, Kind, parse

__all__ = ["COLUMNS", "value"]

_ROW = {
    "age": (Kind.INTEGER, "37e0"),
    "zero": (Kind.INTEGER, "0e0"),
    "price": (Kind.NUMBER, "2.5e0"),
    "debt": (Kind.NUMBER, "-1.5e0"),
    "endless": (Kind.NUMBER, "1e100"),
    "gone": (Kind.NUMBER, "CAST(NULL AS DOUBLE)"),
    "City": (Kind.TEXT, "'Århus'"),
    "blank": (Kind.TEXT, "CAST(NULL AS VARCHAR)"),
    "digits": (Kind.TEXT, "' 12.5'"),
    "yes": (Kind.BOOLEAN, "TRUE"),
    "maybe": (Kind.BOOLEAN, "CAST(NULL AS BOOLEAN)"),
    "day": (Kind.DATE, "DATE '2024-02-29'"),
    "born": (Kind.DATE, "DATE '1986-12-31'"),
    "seen": (Kind.TIMESTAMP, "TIMESTAMP '2024-02-29 13:45:10'"),
}
COLUMNS = {name: Column(name, kind) for name, (kind, _) in _ROW.items()}
_FROM = ", ".join(f'{sql} AS "{name}"' for name, (_, sql) in _ROW.items())


def value(text: str) -> object:
    """What the engine makes of an expression over the row."""
    found = parse(text, columns=COLUMNS)
    with duckdb.connect() as connection:
        ((result,),) = connection.execute(f"SELECT {found.sql} FROM (SELECT {_FROM})").fetchall()
    return result
