"""Inference: estimates, models and intervals that are valid under differential privacy.

One row is one person, the number of rows is public, and every guarantee speaks of the replacement
of one row. Each name is loaded when it is first used.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacet.inference.distributions import (
        Density,
        Distribution,
        Histogram,
        density,
        distribution,
        histogram,
    )
    from tacet.inference.matrices import (
        MatrixEstimate,
        correlation_matrix,
        covariance_matrix,
    )
    from tacet.inference.means import mean, proportion
    from tacet.inference.quantiles import iqr, median, quantile
    from tacet.inference.variances import stdev, variance

__all__ = [
    "Density",
    "Distribution",
    "Histogram",
    "MatrixEstimate",
    "correlation_matrix",
    "covariance_matrix",
    "density",
    "distribution",
    "histogram",
    "iqr",
    "mean",
    "median",
    "proportion",
    "quantile",
    "stdev",
    "variance",
]

_HOMES = {
    "tacet.inference.distributions": [
        "Density",
        "Distribution",
        "Histogram",
        "density",
        "distribution",
        "histogram",
    ],
    "tacet.inference.matrices": ["MatrixEstimate", "correlation_matrix", "covariance_matrix"],
    "tacet.inference.means": ["mean", "proportion"],
    "tacet.inference.quantiles": ["iqr", "median", "quantile"],
    "tacet.inference.variances": ["stdev", "variance"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tacet.inference' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
