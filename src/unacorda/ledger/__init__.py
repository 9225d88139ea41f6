"""Ledgers of budgets in memory, SQLite or PostgreSQL, loaded when first used.

``open_ledger`` opens one. ``reprice`` and ``odometer`` compute the cost of its history.
``export_account`` writes an account as text, and ``verify_export`` checks the text.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
