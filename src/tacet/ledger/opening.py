"""Opening a ledger by its address."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

from tacet.errors import InvalidParameter
from tacet.ledger.memory import MemoryLedger
from tacet.ledger.protocol import Ledger

__all__ = ["open_ledger"]

_PREFIX = "sqlite:///"


def open_ledger(url: str | None) -> Ledger:
    """The ledger at an address; None is a new one in memory, which nothing outlives.

    url: ``"sqlite:///budget.db"`` for a file in the current folder (four slashes for an absolute
    path). Raises InvalidParameter for any other address.

    >>> open_ledger(None).durable
    False
    """
    if url is None:
        return MemoryLedger()
    path = url.removeprefix(_PREFIX) if str(url).startswith(_PREFIX) else ""
    if not path or Path(path).name == ":memory:" or "?" in path:
        raise InvalidParameter(
            "ledger",
            url,
            expected='an address "sqlite:///FILE", such as sqlite:///budget.db, or None for memory',
        )
    from tacet.ledger.sqlite import SqliteLedger

    return SqliteLedger(Path(path))
