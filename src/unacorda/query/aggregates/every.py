"""All aggregates there are: the closed list."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.aggregates.associations import Correlation, Covariance
from unacorda.query.aggregates.counts import Count, CountPeople
from unacorda.query.aggregates.distinct import CountDistinct
from unacorda.query.aggregates.extremes import Extreme
from unacorda.query.aggregates.found import FoundBounds, RowsPerPerson
from unacorda.query.aggregates.histograms import EqualBins, Histogram
from unacorda.query.aggregates.moments import Mean
from unacorda.query.aggregates.quantiles import Quantile
from unacorda.query.aggregates.ratios import Ratio
from unacorda.query.aggregates.several import Quantiles, Spread
from unacorda.query.aggregates.shares import CountIf, Proportion
from unacorda.query.aggregates.sums import Sum
from unacorda.query.aggregates.tops import Top
from unacorda.query.aggregates.totals import Total
from unacorda.query.aggregates.variances import Variance
from unacorda.query.aggregates.vectors import VectorSum
from unacorda.query.aggregates.weighted import WeightedMean

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
    Spread,
    Histogram,
    EqualBins,
    CountDistinct,
    Top,
    Extreme,
    FoundBounds,
    RowsPerPerson,
)
"""The classes of what `agg` takes."""
