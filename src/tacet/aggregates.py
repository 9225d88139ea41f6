"""What `agg` takes, all of it in one place: ``from tacet import aggregates``."""

# SPDX-License-Identifier: Apache-2.0

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
from tacet.query.aggregates.sums import sum  # noqa: A004  # the public word
from tacet.query.aggregates.tops import top
from tacet.query.aggregates.variances import stdev, variance
from tacet.query.aggregates.weighted import weighted_mean

__all__ = [
    "correlation",
    "count",
    "count_distinct",
    "count_if",
    "count_people",
    "covariance",
    "find_bounds",
    "histogram",
    "iqr",
    "max",
    "mean",
    "median",
    "min",
    "proportion",
    "quantile",
    "quantiles",
    "ratio",
    "stdev",
    "sum",
    "top",
    "variance",
    "weighted_mean",
]
