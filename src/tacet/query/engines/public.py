"""Rows of public tables: the one place where what an engine holds is read as it stands."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from tacet.query.compile import Found, KeyTable
from tacet.query.engines.duckdb import DuckDB

__all__ = ["PublicTable"]

_NAME = "public"


class PublicTable:
    """A table of which everything is known to everybody, in an engine of its own.

    source: as a session takes one; name: what its table is called. Raises InvalidParameter and
    SourceUnreadable, as opening a session does. Close it.
    """

    def __init__(self, source: object, *, name: str = _NAME) -> None:
        self.engine = DuckDB({name: source})
        self.name = name

    @property
    def types(self) -> dict[str, str]:
        """The engine's type of each column."""
        return dict(self.engine.schema[self.name])

    @property
    def scan(self) -> str:
        """SQL of the relation."""
        return self.engine.scan(self.name)

    def rows(
        self, select: str, *, keys: KeyTable | None = None, held: str = "SELECT 1"
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over `scan`; EngineFailed where there are none to be had.

        held: a SELECT that it may read as `held`, and that may itself read `keys`.
        """
        numbered = f"SELECT row_number() OVER () - 1 AS place, 1 AS people, * FROM ({select})"
        found = self.engine.find(Found(keys=keys, held=held, counted=numbered))
        try:
            return [tuple(row) for row in found.keys(range(len(found.people)))]
        finally:
            found.close()

    def close(self) -> None:
        """Forget the table; a second call does nothing."""
        self.engine.close()
