"""PipelineDP on its local back end: groups are public partitions, all from one call.

Several percentiles come from one noisy tree. It has no rho: its normal noise is priced in epsilon
and delta. The variance comes from three noisy numbers with a third of epsilon each: a count, and
sums of x less the middle of its range and of the square of that.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pipeline_dp
from errors_protocol import EPSILON, Answers, Question, serve

Rows = list[tuple[int, int, float]]


def aggregated(question: Question, rows: Rows, keys: list[int], metrics: list[Any]) -> list[Any]:
    """What is released of every partition, in the order of the keys."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0.0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=metrics,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=question.lower,
        max_value=question.upper,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    found = engine.aggregate(rows, parameters, extractors, keys)
    accountant.compute_budgets()
    released = dict(found)
    return [released[key] for key in keys]


def rows_of(parts: np.ndarray, values: np.ndarray) -> Rows:
    return list(zip(range(len(parts)), parts.tolist(), values.tolist(), strict=True))


def simple(name: str) -> Callable[[Question], Answers]:
    def method(question: Question) -> Answers:
        table = question.table()
        rows = rows_of(table["g"], table["x"])
        metrics = [getattr(pipeline_dp.Metrics, name)]
        found = aggregated(question, rows, list(range(question.groups)), metrics)
        return [[float(getattr(one, name.lower()))] for one in found]

    return method


def quantiles(question: Question) -> Answers:
    table = question.table()
    rows = rows_of(table["g"], table["x"])
    metrics = [pipeline_dp.Metrics.PERCENTILE(100 * q) for q in question.wanted]
    found = aggregated(question, rows, list(range(question.groups)), metrics)
    return [[float(value) for value in one] for one in found]


def counts(question: Question, parts: np.ndarray, nodes: int) -> np.ndarray:
    cells = question.table()["g"] * nodes + parts
    rows = rows_of(cells, np.zeros(len(cells)))
    keys = list(range(question.groups * nodes))
    found = aggregated(question, rows, keys, [pipeline_dp.Metrics.COUNT])
    return np.array([float(one.count) for one in found]).reshape(-1, nodes)


def histogram(question: Question) -> Answers:
    return counts(question, question.binned(), len(question.edges) - 1).tolist()


if __name__ == "__main__":
    methods = {
        "count/engine/pure": simple("COUNT"),
        "sum/engine/pure": simple("SUM"),
        "mean/engine/pure": simple("MEAN"),
        "variance/engine/pure": simple("VARIANCE"),
        "median/engine/pure": quantiles,
        "quartiles/engine/pure": quantiles,
        "deciles/engine/pure": quantiles,
        "histogram/engine/pure": histogram,
    }
    serve(version("pipeline-dp"), methods)
