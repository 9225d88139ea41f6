"""Mechanisms whose error follows the data that is there, not the worst that could be.

What is asked is a statistic, such as ``Median(lower=0, upper=120)``; loaded when first named.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unacorda.mechanisms.adaptive.propose_test_release import InterquartileRange
    from unacorda.mechanisms.adaptive.slope import Slope
    from unacorda.mechanisms.adaptive.statistics import (
        DistinctCount,
        KthLargest,
        Maximum,
        Mean,
        Median,
        Minimum,
        Mode,
        OrderStatistic,
        Quantile,
        Statistic,
        Sum,
        Variance,
    )

__all__ = [
    "DistinctCount",
    "InterquartileRange",
    "KthLargest",
    "Maximum",
    "Mean",
    "Median",
    "Minimum",
    "Mode",
    "OrderStatistic",
    "Quantile",
    "Slope",
    "Statistic",
    "Sum",
    "Variance",
]


_HOMES = {"InterquartileRange": "propose_test_release", "Slope": "slope"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'unacorda.mechanisms.adaptive' has no attribute {name!r}")
    home = _HOMES.get(name, "statistics")
    return getattr(importlib.import_module(f"unacorda.mechanisms.adaptive.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
