# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.inference.diagnostics.cells import Diagnostic as Diagnostic
from unacorda.inference.diagnostics.classification import ClassTables as ClassTables
from unacorda.inference.diagnostics.classification import class_tables as class_tables
from unacorda.inference.diagnostics.classification import score_table as score_table
from unacorda.inference.diagnostics.importances import Importance as Importance
from unacorda.inference.diagnostics.importances import importance as importance
from unacorda.inference.diagnostics.questions import TableDiagnosis as TableDiagnosis
from unacorda.inference.diagnostics.questions import diagnosis as diagnosis
from unacorda.inference.diagnostics.residuals import ResidualTable as ResidualTable
from unacorda.inference.diagnostics.residuals import residual_table as residual_table
from unacorda.inference.diagnostics.scores import ScoreTable as ScoreTable
from unacorda.inference.estimates.distributions import Density as Density
from unacorda.inference.estimates.distributions import Distribution as Distribution
from unacorda.inference.estimates.distributions import Histogram as Histogram
from unacorda.inference.estimates.distributions import density as density
from unacorda.inference.estimates.distributions import distribution as distribution
from unacorda.inference.estimates.distributions import histogram as histogram
from unacorda.inference.estimates.local import frequency_randomizer as frequency_randomizer
from unacorda.inference.estimates.local import local_frequencies as local_frequencies
from unacorda.inference.estimates.local import local_mean as local_mean
from unacorda.inference.estimates.local import mean_randomizer as mean_randomizer
from unacorda.inference.estimates.local import vector_randomizer as vector_randomizer
from unacorda.inference.estimates.matrices import MatrixEstimate as MatrixEstimate
from unacorda.inference.estimates.matrices import correlation_matrix as correlation_matrix
from unacorda.inference.estimates.matrices import covariance_matrix as covariance_matrix
from unacorda.inference.estimates.means import ClippedMean as ClippedMean
from unacorda.inference.estimates.means import clipped_mean as clipped_mean
from unacorda.inference.estimates.means import find_bounds as find_bounds
from unacorda.inference.estimates.means import mean as mean
from unacorda.inference.estimates.means import proportion as proportion
from unacorda.inference.estimates.means import stdev as stdev
from unacorda.inference.estimates.means import variance as variance
from unacorda.inference.estimates.quantiles import iqr as iqr
from unacorda.inference.estimates.quantiles import median as median
from unacorda.inference.estimates.quantiles import quantile as quantile
from unacorda.inference.hypothesis_tests.counts import BinomialTest as BinomialTest
from unacorda.inference.hypothesis_tests.counts import binomial_power as binomial_power
from unacorda.inference.hypothesis_tests.counts import binomial_test as binomial_test
from unacorda.inference.hypothesis_tests.counts import fit_test as fit_test
from unacorda.inference.hypothesis_tests.counts import independence_test as independence_test
from unacorda.inference.hypothesis_tests.counts import two_proportions_test as two_proportions_test
from unacorda.inference.hypothesis_tests.means import anova as anova
from unacorda.inference.hypothesis_tests.means import mann_whitney_test as mann_whitney_test
from unacorda.inference.hypothesis_tests.means import signed_rank_test as signed_rank_test
from unacorda.inference.hypothesis_tests.means import t_test as t_test
from unacorda.inference.hypothesis_tests.means import two_sample_t_test as two_sample_t_test
from unacorda.inference.hypothesis_tests.results import Power as Power
from unacorda.inference.hypothesis_tests.results import TestResult as TestResult
from unacorda.inference.hypothesis_tests.results import power_curve as power_curve
from unacorda.inference.regression.generalized_linear import (
    LogisticRegression as LogisticRegression,
)
from unacorda.inference.regression.generalized_linear import PoissonRegression as PoissonRegression
from unacorda.inference.regression.linear import LinearRegression as LinearRegression
from unacorda.inference.regression.linear import RidgeRegression as RidgeRegression
from unacorda.inference.regression.local import LocalLinearRegression as LocalLinearRegression
from unacorda.inference.regression.local import LocalLogisticRegression as LocalLogisticRegression
from unacorda.inference.regression.local import LocalMEstimator as LocalMEstimator
from unacorda.inference.regression.m_estimation import MEstimator as MEstimator
from unacorda.inference.regression.m_estimation import QuantileRegression as QuantileRegression
from unacorda.inference.regression.noisy_sgd import NoisySGD as NoisySGD
from unacorda.inference.regression.sparse import SparseRegression as SparseRegression
from unacorda.inference.search import CrossValidatedSearch as CrossValidatedSearch
from unacorda.inference.search import HeldOutSearch as HeldOutSearch
from unacorda.inference.search import ValidationCurve as ValidationCurve
from unacorda.inference.transformers import PCA as PCA
from unacorda.inference.transformers import RobustScaler as RobustScaler
