"""Public tables, and released ones, read by DuckDB."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import duckdb

from unacorda.query.engines.compile import KeyCountSql, KeyTable, Statement
from unacorda.query.engines.duckdb import DuckDB
from unacorda.query.engines.engine import KeyedRows, Tallies, find_keys, tallied
from unacorda.query.expressions.quoting import identifier
from unacorda.query.expressions.types import Column, Expression

__all__ = [
    "PublicTables",
    "evaluated",
    "read_public_table",
]


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
        parts.append(f"unnest($c{number}::{column.kind.sql_type}[]) AS {identifier(column.name)}")
    asked = ", ".join(expression.sql for expression in expressions)
    with _cursor() as cursor:
        found = cursor.execute(
            f"SELECT {asked} FROM (SELECT {', '.join(parts)}) ORDER BY {line}", lists
        ).fetchall()
    return [list(column) for column in zip(*found, strict=True)] or [[] for _ in expressions]


_opened: list[duckdb.DuckDBPyConnection] = []
_opening = threading.Lock()


def _cursor() -> duckdb.DuckDBPyConnection:
    """One of an empty database of the process, which takes longer to open than to ask."""
    with _opening:
        if not _opened:
            _opened.append(duckdb.connect(":memory:", config={"threads": 1}))
        return _opened[0].cursor()


def _close() -> None:
    while _opened:
        _opened.pop().close()


def _before_fork() -> None:
    _opening.acquire()
    _close()  # a child that inherits an open database ends in an abort


os.register_at_fork(
    before=_before_fork, after_in_parent=_opening.release, after_in_child=_opening.release
)
atexit.register(_close)


def read_public_table(
    source: object, choose: Callable[[Sequence[str]], Sequence[str]], *, most: int
) -> list[tuple[Any, ...]]:
    """Read the first rows of a public table; a `PublicTableReader`."""
    with closing(PublicTables({"keys": source})) as tables:
        listed = ", ".join(map(identifier, choose(list(tables.schema["keys"]))))
        return tables.rows(f"SELECT {listed} FROM {tables.scan('keys')} LIMIT {most}")


class PublicTables(DuckDB):
    """Tables of which everything is known to everybody: an engine that runs what it is given.

    sources: by name, as a session takes them. Raises InvalidParameter and SourceUnreadable, as
    opening a session does. Close it.
    """

    def tallies(self, statement: Statement) -> Tallies:
        """The exact integers of a question, begun wherever it was; as `run`."""
        return self._asked(lambda asking: tallied(asking, statement))

    def keyed(self, found: KeyCountSql) -> KeyedRows:
        """Rows and the people behind each key; as `find`."""
        return self._asked(lambda asking: find_keys(asking, found, engine=self))

    def rows(
        self, select: str, *, keys: KeyTable | None = None, held: str = "SELECT 1"
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over what `scan` gives; EngineFailed where none are to be had.

        held: a SELECT that it may read as `held`, and that may itself read `keys`.
        """
        numbered = f"SELECT row_number() OVER () - 1 AS place, 1 AS people, * FROM ({select})"
        with closing(self.keyed(KeyCountSql(keys=keys, held=held, counted=numbered))) as found:
            return [tuple(row) for row in found.keys(range(len(found.people)))]
