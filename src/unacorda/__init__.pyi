# SPDX-License-Identifier: Apache-2.0

from unacorda import accounting as accounting
from unacorda import attacks as attacks
from unacorda import audit as audit
from unacorda import errors as errors
from unacorda import events as events
from unacorda import inference as inference
from unacorda import learning as learning
from unacorda import ledger as ledger
from unacorda import mechanisms as mechanisms
from unacorda import plots as plots
from unacorda._version import __version__ as __version__
from unacorda.bits import SeededBits as SeededBits
from unacorda.privacy.guarantees import GDP as GDP
from unacorda.privacy.guarantees import ZCDP as ZCDP
from unacorda.privacy.guarantees import ApproxDP as ApproxDP
from unacorda.privacy.guarantees import PureDP as PureDP
from unacorda.privacy.guarantees import RenyiDP as RenyiDP
from unacorda.privacy.neighbors import AddRemove as AddRemove
from unacorda.privacy.neighbors import ReplaceOne as ReplaceOne
from unacorda.privacy.neighbors import ZeroOut as ZeroOut
from unacorda.query.aggregates.automatic import find_bounds as find_bounds
from unacorda.query.aggregates.extremes import max as max
from unacorda.query.aggregates.extremes import min as min
from unacorda.query.aggregates.histograms import histogram as histogram
from unacorda.query.aggregates.linear import count as count
from unacorda.query.aggregates.linear import count_distinct as count_distinct
from unacorda.query.aggregates.linear import count_people as count_people
from unacorda.query.aggregates.linear import sum as sum
from unacorda.query.aggregates.linear import vector_sum as vector_sum
from unacorda.query.aggregates.means import count_if as count_if
from unacorda.query.aggregates.means import mean as mean
from unacorda.query.aggregates.means import proportion as proportion
from unacorda.query.aggregates.means import weighted_mean as weighted_mean
from unacorda.query.aggregates.multi_quantiles import iqr as iqr
from unacorda.query.aggregates.multi_quantiles import quantiles as quantiles
from unacorda.query.aggregates.quantiles import median as median
from unacorda.query.aggregates.quantiles import quantile as quantile
from unacorda.query.aggregates.ratios import ratio as ratio
from unacorda.query.aggregates.top_k import top as top
from unacorda.query.aggregates.variances import correlation as correlation
from unacorda.query.aggregates.variances import covariance as covariance
from unacorda.query.aggregates.variances import stdev as stdev
from unacorda.query.aggregates.variances import variance as variance
from unacorda.query.noise.key_selection import private_keys as private_keys
from unacorda.query.results.assumptions import Assume as Assume
from unacorda.query.results.release import Release as Release
from unacorda.query.schema.facts import Bounds as Bounds
from unacorda.query.schema.facts import Categories as Categories
from unacorda.query.schema.facts import Dates as Dates
from unacorda.query.schema.facts import Text as Text
from unacorda.query.schema.facts import dates as dates
from unacorda.query.schema.sources import Csv as Csv
from unacorda.query.schema.units import Person as Person
from unacorda.query.schema.units import Row as Row
from unacorda.query.schema.units import auto as auto
from unacorda.query.session import Session as Session

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
