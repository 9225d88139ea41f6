"""The aggregates that a SELECT may hold: of one or two columns one line each."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from unacorda.query.aggregates.base import Aggregate
from unacorda.query.aggregates.extremes import max as greatest
from unacorda.query.aggregates.extremes import min as least
from unacorda.query.aggregates.histograms import histogram
from unacorda.query.aggregates.linear import count, count_distinct, count_people
from unacorda.query.aggregates.linear import sum as total
from unacorda.query.aggregates.means import count_if, mean
from unacorda.query.aggregates.multi_quantiles import iqr, quantiles
from unacorda.query.aggregates.quantiles import quantile
from unacorda.query.aggregates.top_k import top
from unacorda.query.aggregates.variances import correlation, covariance, stdev, variance
from unacorda.query.plan.query import Query
from unacorda.query.schema.facts import Categories
from unacorda.query.schema.units import Person
from unacorda.query.sql.types import Item, SqlAggregate, plain

__all__ = [
    "COUNT",
    "COUNT_DISTINCT",
    "COUNT_IF",
    "COUNT_ROWS",
    "EQUAL_BINS",
    "HISTOGRAM",
    "OFFERED",
    "OF_ONE",
    "OF_TWO",
    "QUANTILE",
    "QUANTILES",
    "TOP",
]

_PERSON = "person"


def _one(name: str, function: Callable[..., Aggregate], **options: Any) -> SqlAggregate:
    return SqlAggregate(name, lambda item, _: function(item.column, **options))


def _two(name: str, function: Callable[..., Aggregate], **options: Any) -> SqlAggregate:
    return SqlAggregate(name, lambda item, _: function(item.column, plain(item.second), **options))


COUNT_IF = _one("count_if", count_if)
_MEAN, _VARIANCE = _one("avg", mean), _one("variance", variance, ddof=1)
_STDEV = _one("stddev", stdev, ddof=1)

OF_ONE: dict[type[object] | str, SqlAggregate] = {
    exp.Sum: _one("sum", total),
    exp.Avg: _MEAN,
    "MEAN": _MEAN,
    exp.Min: _one("min", least),
    exp.Max: _one("max", greatest),
    exp.Variance: _VARIANCE,
    "VAR": _VARIANCE,
    exp.VariancePop: _one("var_pop", variance, ddof=0),
    exp.Stddev: _STDEV,
    exp.StddevSamp: _STDEV,
    exp.StddevPop: _one("stddev_pop", stdev, ddof=0),
    exp.CountIf: COUNT_IF,
    "IQR": _one("iqr", iqr),
}
"""Of one expression, by how sqlglot holds them, or by their names where it does not know them."""

OF_TWO: dict[type[object] | str, SqlAggregate] = {
    exp.CovarSamp: _two("covar_samp", covariance, ddof=1),
    exp.CovarPop: _two("covar_pop", covariance, ddof=0),
    exp.Corr: _two("corr", correlation),
}
"""Of two expressions."""

COUNT_ROWS = SqlAggregate("count", lambda _, __: count())
"""COUNT(*): rows, NULLs included."""

COUNT = SqlAggregate("count", lambda item, _: count(item.argument))
"""COUNT(x): rows where x is not NULL."""


def _distinct(item: Item, query: Query) -> Aggregate:
    """People, where the column is the one that names them, or else different values."""
    named = item.argument or ""
    unit = query.unit
    ids = unit.id if isinstance(unit, Person) else ()
    bare = named.casefold()
    own = any(name.casefold() == _PERSON for name in query.scope.names)  # a column called so
    if (bare == _PERSON and not own) or (len(ids) == 1 and bare == ids[0].casefold()):
        return count_people(item.second)
    if item.second is None:
        return count_distinct(named)
    quoted = named.replace('"', '""')
    return count_distinct(f'CASE WHEN ({item.second}) IS NOT NULL THEN "{quoted}" END')


COUNT_DISTINCT = SqlAggregate("count distinct", _distinct)
"""COUNT(DISTINCT x): x is a column's plain name; of people where that is the id or `person`."""

QUANTILE = SqlAggregate("quantile", lambda item, _: quantile(item.column, item.quantiles[0]))
"""MEDIAN(x), QUANTILE(x, q), PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""

QUANTILES = SqlAggregate("quantiles", lambda item, _: quantiles(item.column, item.quantiles))
"""QUANTILE(x, [q, r]), PERCENTILE_CONT([q, r]) WITHIN GROUP (ORDER BY x)."""

HISTOGRAM = SqlAggregate("histogram", lambda item, _: histogram(item.column, item.edges))
"""HISTOGRAM(x, [0, 10, 20]): a line for each bin."""

EQUAL_BINS = SqlAggregate(
    "histogram_numeric", lambda item, _: histogram(item.column, bins=item.size)
)
"""HISTOGRAM_NUMERIC(x, 10): a line for each bin, whose edges are found."""


def _top(item: Item, query: Query) -> Aggregate:
    """The most frequent values; under a condition the column's declared ones are listed."""
    argument, column = item.column, item.second or ""
    fact = query.scope.facts.get(query.scope.resolve(column, argument="SELECT"))
    if argument == column or not isinstance(fact, Categories):
        return top(column, item.size)
    return top(argument, item.size, [value for value in fact.values if value is not None])


TOP = SqlAggregate("approx_top_k", _top)
"""APPROX_TOP_K(x, 10): a line for each of the most frequent values of a column."""

OFFERED = (
    "The aggregates are COUNT(*), COUNT(x), COUNT(DISTINCT person), COUNT(DISTINCT column), "
    + ", ".join(
        [
            *(f"{name}(x)" for name in dict.fromkeys(one.name.upper() for one in OF_ONE.values())),
            *(f"{one.name.upper()}(x, y)" for one in OF_TWO.values()),
        ]
    )
    + ", MEDIAN(x), QUANTILE(x, 0.9), QUANTILE(x, [0.1, 0.9]), PERCENTILE_CONT(0.9) WITHIN GROUP "
    "(ORDER BY x), HISTOGRAM(x, [0, 10, 20]), HISTOGRAM_NUMERIC(x, 10) and APPROX_TOP_K(column, "
    "10), each also with FILTER (WHERE condition)."
)
"""What a refusal says of them."""
