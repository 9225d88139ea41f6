"""Tables of tests in a PostgreSQL server of theirs, as DuckDB holds them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any

import duckdb
import pyarrow as pa
from tests.postgres_server import server

__all__ = ["stored", "url"]

_numbers = itertools.count(1)
_TYPES = {
    "TINYINT": "smallint",
    "UTINYINT": "smallint",
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "HUGEINT": "numeric(38,0)",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "VARCHAR": "text",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "INTEGER[]": "integer[]",
    "BIGINT[]": "text",
}


def url() -> str:
    """The address of the server."""
    return server().url


def stored(table: pa.Table, *, name: str | None = None) -> str:
    """A table of the server with the same rows; gives its name with its schema's."""
    name = name or f"stored_{next(_numbers)}"
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("data", table)
        kinds = connection.execute("DESCRIBE data").fetchall()
        # Doubles are written by Python: DuckDB's text of 2^81 is that of 2^82.
        listed = ", ".join(
            f'"{column}"' if kind == "DOUBLE" else f'CAST("{column}" AS VARCHAR) AS "{column}"'
            for column, kind, *_ in kinds
        )
        rows = connection.execute(f"SELECT {listed} FROM data").fetchall()
    moments = [kind in ("DATE", "TIMESTAMP") for _, kind, *_ in kinds]
    columns = ", ".join(f'"{column}" {_TYPES.get(kind, kind)}' for column, kind, *_ in kinds)
    with contextlib.closing(server().connect()) as there:
        there.execute(f'CREATE TABLE public."{name}" ({columns})'.encode())
        with there.cursor().copy(f'COPY public."{name}" FROM STDIN'.encode()) as copy:
            for row in rows:
                copy.write_row(
                    [
                        _early(v) if early else _text(v)
                        for v, early in zip(row, moments, strict=True)
                    ]
                )
    return f"public.{name}"


def _text(value: Any) -> Any:
    """A double in as many digits as tell it from every other, anything else as it is."""
    return repr(value) if isinstance(value, float) else value


def _early(value: Any) -> Any:
    """A text of DuckDB; years before Christ are told apart at its end."""
    found = re.fullmatch(r"([0-9]+-[0-9]{2}-[0-9]{2}) [(]BC[)](.*)", value or "")
    return value if found is None else f"{found[1]}{found[2]} BC"
