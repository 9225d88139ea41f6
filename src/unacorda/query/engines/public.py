"""Rows of public tables: the one place where what an engine holds is read as it stands."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unacorda.query.compile import Found, KeyTable
from unacorda.query.engines.duckdb import DuckDB

__all__ = ["PublicTables"]


class PublicTables:
    """Tables of which everything is known to everybody, in an engine of their own.

    sources: by name, as a session takes them. Raises InvalidParameter and SourceUnreadable, as
    opening a session does. Close it.
    """

    def __init__(self, sources: Mapping[str, object]) -> None:
        self.engine = DuckDB(sources)

    def types(self, name: str) -> dict[str, str]:
        """The engine's type of each column of a table."""
        return dict(self.engine.schema[name])

    def scan(self, name: str) -> str:
        """SQL of the relation that a table is."""
        return self.engine.scan(name)

    def rows(
        self, select: str, *, keys: KeyTable | None = None, held: str = "SELECT 1"
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over what `scan` gives; EngineFailed where none are to be had.

        held: a SELECT that it may read as `held`, and that may itself read `keys`.
        """
        numbered = f"SELECT row_number() OVER () - 1 AS place, 1 AS people, * FROM ({select})"
        found = self.engine.find(Found(keys=keys, held=held, counted=numbered))
        try:
            return [tuple(row) for row in found.keys(range(len(found.people)))]
        finally:
            found.close()

    def close(self) -> None:
        """Forget the tables; a second call does nothing."""
        self.engine.close()
