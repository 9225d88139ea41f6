"""Inference: estimates, models and intervals that are valid under differential privacy.

One row is one person, the number of rows is public, and neighbors differ by one replaced row. Each
name is loaded when it is first used.

estimates            means, quantiles, distributions and matrices of columns
hypothesis_tests     proportions, counts, means and ranks
regression, losses   models, and the engine that fits them to arrays or to tables of a session
diagnostics          tables of scores and residuals that judge a model
search, validation   choice of hyper-parameters
transformers         scaling and principal components
local                estimates and models from reports that devices randomize
contract             scikit-learn's names, and how fits read arrays and frames
sums, records        noisy sums over rows, columns and public bounds
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unacorda.inference.diagnostics.cells import Diagnostic
    from unacorda.inference.diagnostics.classification import (
        ClassTables,
        class_tables,
        score_table,
    )
    from unacorda.inference.diagnostics.importances import Importance, importance
    from unacorda.inference.diagnostics.questions import TableDiagnosis, diagnosis
    from unacorda.inference.diagnostics.residual_sums import residual_table
    from unacorda.inference.diagnostics.residuals import ResidualTable
    from unacorda.inference.diagnostics.scores import ScoreTable
    from unacorda.inference.estimates.distributions import (
        Density,
        Distribution,
        Histogram,
        density,
        distribution,
        histogram,
    )
    from unacorda.inference.estimates.matrices import (
        MatrixEstimate,
        correlation_matrix,
        covariance_matrix,
    )
    from unacorda.inference.estimates.means import (
        ClippedMean,
        clipped_mean,
        find_bounds,
        mean,
        proportion,
        stdev,
        variance,
    )
    from unacorda.inference.estimates.quantiles import iqr, median, quantile
    from unacorda.inference.hypothesis_tests.counts import (
        BinomialTest,
        binomial_power,
        binomial_test,
        fit_test,
        independence_test,
        two_proportions_test,
    )
    from unacorda.inference.hypothesis_tests.means import (
        anova,
        mann_whitney_test,
        signed_rank_test,
        t_test,
        two_sample_t_test,
    )
    from unacorda.inference.hypothesis_tests.results import Power, TestResult, power_curve
    from unacorda.inference.local.estimates import (
        frequency_randomizer,
        local_frequencies,
        local_mean,
        mean_randomizer,
        vector_randomizer,
    )
    from unacorda.inference.local.regression import (
        LocalLinearRegression,
        LocalLogisticRegression,
        LocalMEstimator,
    )
    from unacorda.inference.regression.generalized_linear import (
        LogisticRegression,
        PoissonRegression,
    )
    from unacorda.inference.regression.linear import LinearRegression, RidgeRegression
    from unacorda.inference.regression.m_estimation import MEstimator, QuantileRegression
    from unacorda.inference.regression.noisy_sgd import NoisySGD
    from unacorda.inference.regression.sparse import SparseRegression
    from unacorda.inference.search import CrossValidatedSearch, HeldOutSearch
    from unacorda.inference.transformers import PCA, RobustScaler
    from unacorda.inference.validation import ValidationCurve

__all__ = [
    "PCA",
    "BinomialTest",
    "ClassTables",
    "ClippedMean",
    "CrossValidatedSearch",
    "Density",
    "Diagnostic",
    "Distribution",
    "HeldOutSearch",
    "Histogram",
    "Importance",
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
    "ResidualTable",
    "RidgeRegression",
    "RobustScaler",
    "ScoreTable",
    "SparseRegression",
    "TableDiagnosis",
    "TestResult",
    "ValidationCurve",
    "anova",
    "binomial_power",
    "binomial_test",
    "class_tables",
    "clipped_mean",
    "correlation_matrix",
    "covariance_matrix",
    "density",
    "diagnosis",
    "distribution",
    "find_bounds",
    "fit_test",
    "frequency_randomizer",
    "histogram",
    "importance",
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
    "residual_table",
    "score_table",
    "signed_rank_test",
    "stdev",
    "t_test",
    "two_proportions_test",
    "two_sample_t_test",
    "variance",
    "vector_randomizer",
]

_HOMES = {
    "diagnostics.cells": "Diagnostic",
    "diagnostics.classification": "ClassTables class_tables score_table",
    "diagnostics.importances": "Importance importance",
    "diagnostics.questions": "TableDiagnosis diagnosis",
    "diagnostics.residual_sums": "residual_table",
    "diagnostics.residuals": "ResidualTable",
    "diagnostics.scores": "ScoreTable",
    "estimates.distributions": "Density Distribution Histogram density distribution histogram",
    "estimates.matrices": "MatrixEstimate correlation_matrix covariance_matrix",
    "estimates.means": "ClippedMean clipped_mean find_bounds mean proportion stdev variance",
    "estimates.quantiles": "iqr median quantile",
    "hypothesis_tests.counts": "BinomialTest binomial_power binomial_test fit_test "
    "independence_test two_proportions_test",
    "hypothesis_tests.means": "anova mann_whitney_test signed_rank_test t_test two_sample_t_test",
    "hypothesis_tests.results": "Power TestResult power_curve",
    "local.estimates": "frequency_randomizer local_frequencies local_mean "
    "mean_randomizer vector_randomizer",
    "local.regression": "LocalLinearRegression LocalLogisticRegression LocalMEstimator",
    "regression.generalized_linear": "LogisticRegression PoissonRegression",
    "regression.linear": "LinearRegression RidgeRegression",
    "regression.m_estimation": "MEstimator QuantileRegression",
    "regression.noisy_sgd": "NoisySGD",
    "regression.sparse": "SparseRegression",
    "transformers": "PCA RobustScaler",
    "validation": "ValidationCurve",
    "search": "CrossValidatedSearch HeldOutSearch",
}
_HOME = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'unacorda.inference' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
