"""Ledgers of budgets in memory, SQLite or PostgreSQL, loaded when first used.

``open_ledger`` opens one. ``reprice`` and ``odometer`` compute the cost of its history.
``export_account`` writes an account as text, and ``verify_export`` checks the text.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.ledger.export import export_account, verify_export
    from unacorda.ledger.ledger import open_ledger
    from unacorda.ledger.pricing import odometer, reprice

__all__ = ["export_account", "odometer", "open_ledger", "reprice", "verify_export"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "export": "export_account verify_export",
        "ledger": "open_ledger",
        "pricing": "odometer reprice",
    },
)
