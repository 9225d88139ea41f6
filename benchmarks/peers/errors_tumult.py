"""Tumult Analytics on a local Spark: one question for all groups, whose keys are public.

Several quantiles are as many questions, each with its share of the budget; a hierarchy is one
question a level. The variance comes from three noisy numbers with a third of the budget each: a
count, the sum of x less the middle of its range, the sum of x^2 less the middle of its range.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from errors_protocol import EPSILON, RHO, Answers, Question, serve
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    KeySet,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

warnings.simplefilter("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable  # of Spark's workers
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    .config("spark.driver.memory", "4g")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def budget(question: Question, parts: int = 1) -> Any:
    kind, whole = (PureDPBudget, EPSILON) if question.pure else (RhoZCDPBudget, RHO)
    return kind(whole / parts)


def opened(question: Question, table: dict[str, np.ndarray]) -> Session:
    frame = spark.createDataFrame(pd.DataFrame(table))
    return Session.from_dataframe(
        privacy_budget=budget(question),
        source_id="t",
        dataframe=frame,
        protected_change=AddOneRow(),
    )


def asked(
    session: Session,
    question: Question,
    keys: dict[str, int],
    ask: Callable[[Any], Any],
    parts: int,
) -> np.ndarray:
    """One number for every combination of keys, in their order."""
    names = list(keys)
    listed = KeySet.from_dict({name: list(range(count)) for name, count in keys.items()})
    query = ask(QueryBuilder("t").groupby(listed))
    found = session.evaluate(query, budget(question, parts)).toPandas().sort_values(names)
    (value,) = [name for name in found.columns if name not in names]
    return found[value].to_numpy(dtype=float).reshape(-1, found.shape[0] // question.groups)


def bounds(question: Question) -> tuple[float, float]:
    low, high = question.lower, question.upper
    return (int(low), int(high)) if question.whole else (low, high)


def simple(name: str) -> Callable[[Question], Answers]:
    def method(question: Question) -> Answers:
        arguments = [] if name == "count" else ["x", *bounds(question)]
        session = opened(question, question.table())
        keys = {"g": question.groups}
        return asked(session, question, keys, lambda q: getattr(q, name)(*arguments), 1).tolist()

    return method


def quantiles(question: Question) -> Answers:
    session, wanted = opened(question, question.table()), question.wanted
    found = [
        asked(
            session,
            question,
            {"g": question.groups},
            lambda query, q=q: query.quantile("x", q, *bounds(question)),
            len(wanted),
        )
        for q in wanted
    ]
    return np.concatenate(found, axis=1).tolist()


def histogram(question: Question) -> Answers:
    session = opened(question, {"g": question.table()["g"], "b": question.binned()})
    keys = {"g": question.groups, "b": len(question.edges) - 1}
    return asked(session, question, keys, lambda q: q.count(), 1).tolist()


def hierarchy(question: Question) -> Answers:
    table, levels = question.table(), question.levels()
    table |= {f"b{n}": table["x"] // (levels[-1] // n) for n in levels}
    session = opened(question, table)
    found = [
        asked(
            session, question, {"g": question.groups, f"b{n}": n}, lambda q: q.count(), len(levels)
        )
        for n in levels
    ]
    return np.concatenate(found, axis=1).tolist()


if __name__ == "__main__":
    methods = {
        "count/session": simple("count"),
        "sum/session": simple("sum"),
        "mean/session": simple("average"),
        "variance/session": simple("variance"),
        "median/session": quantiles,
        "quartiles/session": quantiles,
        "deciles/session": quantiles,
        "histogram/session": histogram,
        "levels/apart": hierarchy,
    }
    serve(
        version("tmlt.analytics"),
        {f"{name}/{g}": method for name, method in methods.items() for g in ("pure", "zcdp")},
    )
