"""Ledgers of budgets in memory, SQLite or PostgreSQL, loaded when first used.

``open_ledger`` opens one. ``reprice`` and ``odometer`` compute the cost of its history.
``export_account`` writes an account as text, and ``verify_export`` checks the text.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unacorda.ledger.export import export_account, verify_export
    from unacorda.ledger.ledger import open_ledger
    from unacorda.ledger.pricing import odometer, reprice

__all__ = ["export_account", "odometer", "open_ledger", "reprice", "verify_export"]

_HOME = {
    "export_account": "export",
    "odometer": "pricing",
    "open_ledger": "ledger",
    "reprice": "pricing",
    "verify_export": "export",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'unacorda.ledger' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"unacorda.ledger.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
