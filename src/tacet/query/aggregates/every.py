"""All aggregates there are: the closed list."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from tacet.query.aggregates.aggregate import Aggregate
from tacet.query.aggregates.associations import Correlation, Covariance
from tacet.query.aggregates.counts import Count, CountPeople
from tacet.query.aggregates.distinct import CountDistinct
from tacet.query.aggregates.extremes import Extreme
from tacet.query.aggregates.found import FoundBounds, RowsPerPerson
from tacet.query.aggregates.histograms import EqualBins, Histogram
from tacet.query.aggregates.moments import Mean
from tacet.query.aggregates.quantiles import Quantile
from tacet.query.aggregates.ratios import Ratio
from tacet.query.aggregates.several import Quantiles, Spread
from tacet.query.aggregates.shares import CountIf, Proportion
from tacet.query.aggregates.sums import Sum
from tacet.query.aggregates.tops import Top
from tacet.query.aggregates.totals import Total
from tacet.query.aggregates.variances import Variance
from tacet.query.aggregates.vectors import VectorSum
from tacet.query.aggregates.weighted import WeightedMean

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
