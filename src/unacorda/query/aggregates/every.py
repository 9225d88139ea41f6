"""All aggregates there are: the closed list."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.query.aggregates.automatic import FoundBounds, RowsPerPerson, Total
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.aggregates.extremes import Extreme
from unacorda.query.aggregates.histograms import EqualBins, Histogram
from unacorda.query.aggregates.linear import Count, CountDistinct, CountPeople, Sum, VectorSum
from unacorda.query.aggregates.means import CountIf, Mean, Proportion, WeightedMean
from unacorda.query.aggregates.multi_quantiles import Quantiles, QuartileRange
from unacorda.query.aggregates.quantiles import Quantile
from unacorda.query.aggregates.ratios import Ratio
from unacorda.query.aggregates.top_k import Top
from unacorda.query.aggregates.variances import Correlation, Covariance, Variance

__all__ = ["EVERY"]

EVERY: tuple[type[Aggregate], ...] = (
    Count,
    CountPeople,
    CountIf,
    Sum,
    Total,
    Mean,
    Proportion,
    Variance,
    Covariance,
    Correlation,
    WeightedMean,
    VectorSum,
    Ratio,
    Quantile,
    Quantiles,
    QuartileRange,
    Histogram,
    EqualBins,
    CountDistinct,
    Top,
    Extreme,
    FoundBounds,
    RowsPerPerson,
)
"""The classes of what `agg` takes."""
