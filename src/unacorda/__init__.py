"""unacorda: differential privacy that people can use and experts can trust.

The names below are the whole public face. They are loaded when they are first used, so that
``import unacorda`` needs nothing outside the standard library.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import Any

from unacorda._version import __version__ as __version__

__all__ = [
    "GDP",
    "ZCDP",
    "AddRemove",
    "ApproxDP",
    "Assume",
    "Bounds",
    "Categories",
    "Csv",
    "Dates",
    "Person",
    "PureDP",
    "Release",
    "RenyiDP",
    "ReplaceOne",
    "Row",
    "SeededBits",
    "Session",
    "Text",
    "ZeroOut",
    "accounting",
    "attacks",
    "audit",
    "auto",
    "correlation",
    "count",
    "count_distinct",
    "count_if",
    "count_people",
    "covariance",
    "dates",
    "errors",
    "events",
    "find_bounds",
    "histogram",
    "inference",
    "iqr",
    "learning",
    "ledger",
    "max",
    "mean",
    "mechanisms",
    "median",
    "min",
    "plots",
    "private_keys",
    "proportion",
    "quantile",
    "quantiles",
    "ratio",
    "stdev",
    "sum",
    "top",
    "variance",
    "vector_sum",
    "weighted_mean",
]

_ROOMS = {
    "accounting",
    "attacks",
    "audit",
    "errors",
    "events",
    "inference",
    "learning",
    "ledger",
    "mechanisms",
    "plots",
}
_HOMES = {
    "unacorda.bits": ["SeededBits"],
    "unacorda.privacy.guarantees": ["GDP", "ZCDP", "ApproxDP", "PureDP", "RenyiDP"],
    "unacorda.privacy.neighbors": ["AddRemove", "ReplaceOne", "ZeroOut"],
    "unacorda.query.results.assumptions": ["Assume"],
    "unacorda.query.aggregates.variances": ["correlation", "covariance", "stdev", "variance"],
    "unacorda.query.aggregates.linear": [
        "count",
        "count_distinct",
        "count_people",
        "sum",
        "vector_sum",
    ],
    "unacorda.query.aggregates.extremes": ["max", "min"],
    "unacorda.query.aggregates.automatic": ["find_bounds"],
    "unacorda.query.aggregates.histograms": ["histogram"],
    "unacorda.query.aggregates.means": ["count_if", "mean", "proportion", "weighted_mean"],
    "unacorda.query.aggregates.quantiles": ["median", "quantile"],
    "unacorda.query.aggregates.ratios": ["ratio"],
    "unacorda.query.aggregates.multi_quantiles": ["iqr", "quantiles"],
    "unacorda.query.aggregates.top_k": ["top"],
    "unacorda.query.schema.facts": ["Bounds", "Categories", "Dates", "Text", "dates"],
    "unacorda.query.schema.sources": ["Csv"],
    "unacorda.query.noise.key_selection": ["private_keys"],
    "unacorda.query.results.release": ["Release"],
    "unacorda.query.session": ["Session"],
    "unacorda.query.schema.units": ["Person", "Row", "auto"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"unacorda.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'unacorda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
