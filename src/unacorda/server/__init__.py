"""`unacorda serve`: answers to many analysts over HTTP, each within a limit of the curator's.

A thin layer: every answer is `Session.evaluate`, every price the ledger's. Here stands who asks,
what is kept and what is shown.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations
