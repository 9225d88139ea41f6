"""tacet: differential privacy that people can use and experts can trust.

The names below are the whole public face. They are loaded when they are first used, so that
``import tacet`` needs nothing outside the standard library.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacet import (
        accounting,
        attacks,
        audit,
        errors,
        events,
        inference,
        learning,
        ledger,
        mechanisms,
        plots,
    )
    from tacet.bits import SeededBits
    from tacet.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
    from tacet.privacy.neighbors import AddRemove, ReplaceOne, ZeroOut
    from tacet.query.aggregates.answers import Assume
    from tacet.query.aggregates.associations import correlation, covariance
    from tacet.query.aggregates.counts import count, count_people
    from tacet.query.aggregates.distinct import count_distinct
    from tacet.query.aggregates.extremes import max, min  # noqa: A004  # the public words
    from tacet.query.aggregates.found import find_bounds
    from tacet.query.aggregates.histograms import histogram
    from tacet.query.aggregates.moments import mean
    from tacet.query.aggregates.quantiles import median, quantile
    from tacet.query.aggregates.ratios import ratio
    from tacet.query.aggregates.several import iqr, quantiles
    from tacet.query.aggregates.shares import count_if, proportion
    from tacet.query.aggregates.sums import sum  # noqa: A004  # the public word is tacet.sum
    from tacet.query.aggregates.tops import top
    from tacet.query.aggregates.variances import stdev, variance
    from tacet.query.aggregates.vectors import vector_sum
    from tacet.query.aggregates.weighted import weighted_mean
    from tacet.query.columns import Bounds, Categories, Dates, Text
    from tacet.query.dates import dates
    from tacet.query.engines.sources import Csv
    from tacet.query.private_keys import private_keys
    from tacet.query.release import Release
    from tacet.query.session import Session
    from tacet.query.units import Person, Row, auto

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

__version__ = "0.1.0"

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
    "tacet.bits": ["SeededBits"],
    "tacet.privacy.guarantees": ["GDP", "ZCDP", "ApproxDP", "PureDP", "RenyiDP"],
    "tacet.privacy.neighbors": ["AddRemove", "ReplaceOne", "ZeroOut"],
    "tacet.query.aggregates.answers": ["Assume"],
    "tacet.query.aggregates.associations": ["correlation", "covariance"],
    "tacet.query.aggregates.counts": ["count", "count_people"],
    "tacet.query.aggregates.distinct": ["count_distinct"],
    "tacet.query.aggregates.extremes": ["max", "min"],
    "tacet.query.aggregates.found": ["find_bounds"],
    "tacet.query.aggregates.histograms": ["histogram"],
    "tacet.query.aggregates.moments": ["mean"],
    "tacet.query.aggregates.quantiles": ["median", "quantile"],
    "tacet.query.aggregates.ratios": ["ratio"],
    "tacet.query.aggregates.several": ["iqr", "quantiles"],
    "tacet.query.aggregates.shares": ["count_if", "proportion"],
    "tacet.query.aggregates.variances": ["stdev", "variance"],
    "tacet.query.aggregates.sums": ["sum"],
    "tacet.query.aggregates.tops": ["top"],
    "tacet.query.aggregates.vectors": ["vector_sum"],
    "tacet.query.aggregates.weighted": ["weighted_mean"],
    "tacet.query.columns": ["Bounds", "Categories", "Dates", "Text"],
    "tacet.query.dates": ["dates"],
    "tacet.query.engines.sources": ["Csv"],
    "tacet.query.private_keys": ["private_keys"],
    "tacet.query.release": ["Release"],
    "tacet.query.session": ["Session"],
    "tacet.query.units": ["Person", "Row", "auto"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"tacet.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tacet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
