"""Mechanisms whose error follows the data that is there, not the worst that could be.

What is asked is a statistic, such as ``Median(lower=0, upper=120)``; loaded when first named.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unacorda.mechanisms.data_dependent.statistics.base import Statistic
    from unacorda.mechanisms.data_dependent.statistics.counts import DistinctCount, Mode
    from unacorda.mechanisms.data_dependent.statistics.ranks import (
        InterquartileRange,
        KthLargest,
        Maximum,
        Median,
        Minimum,
        OrderStatistic,
        Quantile,
    )
    from unacorda.mechanisms.data_dependent.statistics.slopes import Slope
    from unacorda.mechanisms.data_dependent.statistics.sums import Mean, Sum
    from unacorda.mechanisms.data_dependent.statistics.variances import Variance

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


_HOMES = {
    "DistinctCount": "counts",
    "InterquartileRange": "ranks",
    "KthLargest": "ranks",
    "Maximum": "ranks",
    "Mean": "sums",
    "Median": "ranks",
    "Minimum": "ranks",
    "Mode": "counts",
    "OrderStatistic": "ranks",
    "Quantile": "ranks",
    "Slope": "slopes",
    "Statistic": "base",
    "Sum": "sums",
    "Variance": "variances",
}


def __getattr__(name: str) -> Any:
    here = "unacorda.mechanisms.data_dependent"
    if name not in _HOMES:
        raise AttributeError(f"module {here!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{here}.statistics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
