"""Inference: estimates, models and intervals that are valid under differential privacy.

One row is one person, the number of rows is public, and every guarantee speaks of the replacement
of one row. Each name is loaded when it is first used.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacet.inference.binomial import BinomialTest, binomial_power, binomial_test
    from tacet.inference.centered import centered_mean, find_bounds
    from tacet.inference.components import PCA
    from tacet.inference.count_tests import fit_test, independence_test, two_proportions_test
    from tacet.inference.cross_validated import CrossValidatedSearch
    from tacet.inference.densities import Density, density
    from tacet.inference.distributions import Distribution, Histogram, distribution, histogram
    from tacet.inference.held_out import HeldOutSearch
    from tacet.inference.linear import LinearRegression
    from tacet.inference.local_devices import vector_randomizer
    from tacet.inference.local_means import local_mean, mean_randomizer
    from tacet.inference.local_models import (
        LocalLinearRegression,
        LocalLogisticRegression,
        LocalMEstimator,
    )
    from tacet.inference.local_shares import frequency_randomizer, local_frequencies
    from tacet.inference.logistic import LogisticRegression
    from tacet.inference.m_estimator import MEstimator, RidgeRegression
    from tacet.inference.matrices import (
        MatrixEstimate,
        correlation_matrix,
        covariance_matrix,
    )
    from tacet.inference.mean_tests import anova, t_test, two_sample_t_test
    from tacet.inference.means import mean, proportion
    from tacet.inference.noisy_sgd import NoisySGD
    from tacet.inference.outcomes import Power, TestResult, power_curve
    from tacet.inference.poisson import PoissonRegression
    from tacet.inference.quantile_regression import QuantileRegression
    from tacet.inference.quantiles import iqr, median, quantile
    from tacet.inference.rank_tests import mann_whitney_test, signed_rank_test
    from tacet.inference.scalers import RobustScaler
    from tacet.inference.sparse import SparseRegression
    from tacet.inference.variances import stdev, variance

__all__ = [
    "PCA",
    "BinomialTest",
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
    "centered_mean",
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
    "tacet.inference.cross_validated": ["CrossValidatedSearch"],
    "tacet.inference.held_out": ["HeldOutSearch"],
    "tacet.inference.sparse": ["SparseRegression"],
    "tacet.inference.components": ["PCA"],
    "tacet.inference.quantile_regression": ["QuantileRegression"],
    "tacet.inference.scalers": ["RobustScaler"],
    "tacet.inference.m_estimator": ["MEstimator", "RidgeRegression"],
    "tacet.inference.poisson": ["PoissonRegression"],
    "tacet.inference.logistic": ["LogisticRegression"],
    "tacet.inference.linear": ["LinearRegression"],
    "tacet.inference.local_devices": ["vector_randomizer"],
    "tacet.inference.local_models": [
        "LocalLinearRegression",
        "LocalLogisticRegression",
        "LocalMEstimator",
    ],
    "tacet.inference.local_shares": ["frequency_randomizer", "local_frequencies"],
    "tacet.inference.local_means": ["local_mean", "mean_randomizer"],
    "tacet.inference.centered": ["centered_mean", "find_bounds"],
    "tacet.inference.binomial": ["BinomialTest", "binomial_power", "binomial_test"],
    "tacet.inference.count_tests": ["fit_test", "independence_test", "two_proportions_test"],
    "tacet.inference.densities": ["Density", "density"],
    "tacet.inference.distributions": ["Distribution", "Histogram", "distribution", "histogram"],
    "tacet.inference.matrices": ["MatrixEstimate", "correlation_matrix", "covariance_matrix"],
    "tacet.inference.mean_tests": ["anova", "t_test", "two_sample_t_test"],
    "tacet.inference.means": ["mean", "proportion"],
    "tacet.inference.noisy_sgd": ["NoisySGD"],
    "tacet.inference.outcomes": ["Power", "TestResult", "power_curve"],
    "tacet.inference.quantiles": ["iqr", "median", "quantile"],
    "tacet.inference.rank_tests": ["mann_whitney_test", "signed_rank_test"],
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
