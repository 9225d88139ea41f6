"""Local privacy: every device randomises its own value, and the server learns shares or a mean.

A report is drawn by comparing random 64-bit words with integer thresholds, so its law is exactly
the one that is stated: all its probabilities are rational, the ratio of any two of them for two
inputs is at most e^epsilon, and the server's estimators are unbiased for these very numbers.
The proofs stand in docs/proofs/local.md.

`encode` is what a device does, from one value to millions. At the server `tally` counts reports
(tallies of batches add up), `estimate` turns a tally into `Frequencies`, and `aggregate` is both.
`variance` tells the error before any value is seen.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.local.categories import (
        RandomizedResponse,
        SubsetSelection,
        UnaryEncoding,
    )
    from unacorda.mechanisms.local.directions import Directions
    from unacorda.mechanisms.local.hashing import HadamardResponse, LocalHashing
    from unacorda.mechanisms.local.means import Duchi, Hybrid, Piecewise

__all__ = [
    "Directions",
    "Duchi",
    "HadamardResponse",
    "Hybrid",
    "LocalHashing",
    "Piecewise",
    "RandomizedResponse",
    "SubsetSelection",
    "UnaryEncoding",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "categories": "RandomizedResponse SubsetSelection UnaryEncoding",
        "directions": "Directions",
        "hashing": "HadamardResponse LocalHashing",
        "means": "Duchi Hybrid Piecewise",
    },
)
