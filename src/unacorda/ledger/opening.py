"""Opening a ledger by its address."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

from unacorda import checks
from unacorda.addresses import shown
from unacorda.errors import InvalidParameter
from unacorda.ledger.ledger import Ledger
from unacorda.ledger.memory import MemoryStore

__all__ = ["open_ledger"]

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgresql+psycopg://")


def open_ledger(url: str | None) -> Ledger:
    """The ledger at an address; None is a new one in memory, which nothing outlives.

    url: ``"sqlite:///budget.db"`` for a file in the current folder (four slashes for an absolute
    path), or ``"postgresql://user:password@host/database"``, which needs the extra `postgres`.
    Tables are made where there are none. Raises InvalidParameter for any other address,
    LedgerMismatch for another schema, LedgerFailed where the place cannot be used, and
    MissingExtra.

    >>> open_ledger(None).durable
    False
    """
    if url is None:
        return Ledger(MemoryStore())
    if checks.is_text(url) and url.startswith(_POSTGRES):
        from unacorda.ledger.postgres import PostgresStore

        return Ledger(PostgresStore(url))
    given = checks.is_text(url) and url.startswith(_SQLITE)
    path = url.removeprefix(_SQLITE) if given else ""
    if not path or Path(path).name == ":memory:" or "?" in path:
        raise InvalidParameter(
            "ledger",
            shown(url),
            expected=(
                'an address "sqlite:///FILE", such as sqlite:///budget.db, or '
                '"postgresql://user:password@host/database"'
            ),
            hint="or None for memory",
        )
    from unacorda.ledger.sqlite import SqliteStore

    return Ledger(SqliteStore(Path(path)))
