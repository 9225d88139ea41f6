"""`unacorda serve`: answers to many analysts over HTTP, each within a limit of the curator's.

It is a thin layer: every answer comes from `Session.evaluate`, and every price from the ledger.
This package knows who asks, what is stored and what is shown.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations
