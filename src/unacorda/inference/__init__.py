"""Inference: estimates, models and intervals that are valid under differential privacy.

One row is one person, the number of rows is public, and every guarantee speaks of the replacement
of one row. Each name is loaded when it is first used.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unacorda.inference.binomial import BinomialTest, binomial_power, binomial_test
    from unacorda.inference.clipping import ClippedMean, clipped_mean, find_bounds
    from unacorda.inference.components import PCA
    from unacorda.inference.count_tests import fit_test, independence_test, two_proportions_test
    from unacorda.inference.densities import Density, density
    from unacorda.inference.distributions import Distribution, Histogram, distribution, histogram
    from unacorda.inference.linear import LinearRegression, RidgeRegression
    from unacorda.inference.local_devices import vector_randomizer
    from unacorda.inference.local_means import local_mean, mean_randomizer
    from unacorda.inference.local_models import (
        LocalLinearRegression,
        LocalLogisticRegression,
        LocalMEstimator,
    )
    from unacorda.inference.local_shares import frequency_randomizer, local_frequencies
    from unacorda.inference.logistic import LogisticRegression
    from unacorda.inference.m_estimator import MEstimator
    from unacorda.inference.matrices import (
        MatrixEstimate,
        correlation_matrix,
        covariance_matrix,
    )
    from unacorda.inference.mean_tests import anova, t_test, two_sample_t_test
    from unacorda.inference.means import mean, proportion
    from unacorda.inference.noisy_sgd import NoisySGD
    from unacorda.inference.outcomes import Power, TestResult, power_curve
    from unacorda.inference.poisson import PoissonRegression
    from unacorda.inference.quantile_regression import QuantileRegression
    from unacorda.inference.quantiles import iqr, median, quantile
    from unacorda.inference.rank_tests import mann_whitney_test, signed_rank_test
    from unacorda.inference.scalers import RobustScaler
    from unacorda.inference.search import CrossValidatedSearch, HeldOutSearch
    from unacorda.inference.sparse import SparseRegression
    from unacorda.inference.variances import stdev, variance

__all__ = [
    "PCA",
    "BinomialTest",
    "ClippedMean",
    "CrossValidatedSearch",
    "Density",
    "Distribution",
    "HeldOutSearch",
    "Histogram",
    "LinearRegression",
    "LocalLinearRegression",
    "LocalLogisticRegression",
    "LocalMEstimator",
    "LogisticRegression",
    "MEstimator",
    "MatrixEstimate",
    "NoisySGD",
    "PoissonRegression",
    "Power",
    "QuantileRegression",
    "RidgeRegression",
    "RobustScaler",
    "SparseRegression",
    "TestResult",
    "anova",
    "binomial_power",
    "binomial_test",
    "clipped_mean",
    "correlation_matrix",
    "covariance_matrix",
    "density",
    "distribution",
    "find_bounds",
    "fit_test",
    "frequency_randomizer",
    "histogram",
    "independence_test",
    "iqr",
    "local_frequencies",
    "local_mean",
    "mann_whitney_test",
    "mean",
    "mean_randomizer",
    "median",
    "power_curve",
    "proportion",
    "quantile",
    "signed_rank_test",
    "stdev",
    "t_test",
    "two_proportions_test",
    "two_sample_t_test",
    "variance",
    "vector_randomizer",
]

_HOMES = {
    "unacorda.inference.search": ["CrossValidatedSearch", "HeldOutSearch"],
    "unacorda.inference.sparse": ["SparseRegression"],
    "unacorda.inference.components": ["PCA"],
    "unacorda.inference.quantile_regression": ["QuantileRegression"],
    "unacorda.inference.scalers": ["RobustScaler"],
    "unacorda.inference.m_estimator": ["MEstimator"],
    "unacorda.inference.poisson": ["PoissonRegression"],
    "unacorda.inference.logistic": ["LogisticRegression"],
    "unacorda.inference.linear": ["LinearRegression", "RidgeRegression"],
    "unacorda.inference.local_devices": ["vector_randomizer"],
    "unacorda.inference.local_models": [
        "LocalLinearRegression",
        "LocalLogisticRegression",
        "LocalMEstimator",
    ],
    "unacorda.inference.local_shares": ["frequency_randomizer", "local_frequencies"],
    "unacorda.inference.local_means": ["local_mean", "mean_randomizer"],
    "unacorda.inference.clipping": ["ClippedMean", "clipped_mean", "find_bounds"],
    "unacorda.inference.binomial": ["BinomialTest", "binomial_power", "binomial_test"],
    "unacorda.inference.count_tests": ["fit_test", "independence_test", "two_proportions_test"],
    "unacorda.inference.densities": ["Density", "density"],
    "unacorda.inference.distributions": ["Distribution", "Histogram", "distribution", "histogram"],
    "unacorda.inference.matrices": ["MatrixEstimate", "correlation_matrix", "covariance_matrix"],
    "unacorda.inference.mean_tests": ["anova", "t_test", "two_sample_t_test"],
    "unacorda.inference.means": ["mean", "proportion"],
    "unacorda.inference.noisy_sgd": ["NoisySGD"],
    "unacorda.inference.outcomes": ["Power", "TestResult", "power_curve"],
    "unacorda.inference.quantiles": ["iqr", "median", "quantile"],
    "unacorda.inference.rank_tests": ["mann_whitney_test", "signed_rank_test"],
    "unacorda.inference.variances": ["stdev", "variance"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'unacorda.inference' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
