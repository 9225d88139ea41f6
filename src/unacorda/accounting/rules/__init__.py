"""What the accountant knows of each kind of event: its theorem, its costs, its laws.

One class of rules for a kind, in the file named as that of its event under `privacy/events`; what
is asked of an event is asked of `rules_of(event)`.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.accounting.rules import (
    allocation,
    composition,
    matrices,
    noise,
    promises,
    sampling,
    selection,
)

__all__ = [
    "allocation",
    "composition",
    "matrices",
    "noise",
    "promises",
    "sampling",
    "selection",
]
