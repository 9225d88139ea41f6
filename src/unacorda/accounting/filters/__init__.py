"""Filters: whether the next charge still fits, when every charge may depend on all answers so far.

Each filter is a value: `admits(cost)` decides, `spend(cost)` gives the filter after it, in constant
time and memory, in exact arithmetic. `Account` shares one among threads and hands out sub-accounts.
Proofs: docs/proofs/filters.md.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.accounting.filters.account import Account, AdaptiveFilter
from unacorda.accounting.filters.additive import Filter
from unacorda.accounting.filters.approximate import ApproximateFilter
from unacorda.accounting.filters.orders import RenyiFilter

__all__ = ["Account", "AdaptiveFilter", "ApproximateFilter", "Filter", "RenyiFilter"]
