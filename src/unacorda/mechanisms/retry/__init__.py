"""Repeated runs: mechanisms that never fail, and the best of a random number of runs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.retry.best import BestOf
    from unacorda.mechanisms.retry.success import AbsorbFailure, ConditionOnSuccess

__all__ = ["AbsorbFailure", "BestOf", "ConditionOnSuccess"]

__getattr__, __dir__ = lazy(
    __name__, {"best": "BestOf", "success": "AbsorbFailure ConditionOnSuccess"}
)
