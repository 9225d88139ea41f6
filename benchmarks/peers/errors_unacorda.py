"""unacorda's side of the errors benchmark, on the public contract alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import polars as pl
from errors_protocol import EPSILON, RHO, Answers, Question, serve

import unacorda


def budget(question: Question) -> Any:
    return unacorda.PureDP(str(EPSILON)) if question.pure else unacorda.ZCDP(str(RHO))


def opened(question: Question, table: dict[str, np.ndarray], calls: int) -> unacorda.Session:
    frame = pl.DataFrame({"id": np.arange(len(table["g"])), **table})
    unit = unacorda.Person("id", max_rows=1)
    return unacorda.Session({"t": frame}, unit=unit, budget=budget(question) * calls)


def grouped(ask: Callable[[Question], dict[str, Any]]) -> Callable[[Question], Answers]:
    def method(question: Question) -> Answers:
        with opened(question, question.table(), 1) as session:
            query = session.table("t").group_by("g", keys=range(question.groups))
            release = session.evaluate(query.agg(**ask(question)), budget=budget(question))
        columns = [answer.values for answer in release.answers.values()]
        found = np.array(columns, dtype=float)
        return found.T.reshape(question.groups, -1).tolist()

    return method


def of_range(name: str) -> Callable[[Question], Answers]:
    def ask(question: Question) -> dict[str, Any]:
        return {"v": getattr(unacorda, name)("x", question.lower, question.upper)}

    return grouped(ask)


def quantiles(question: Question) -> dict[str, Any]:
    return {"q": unacorda.quantiles("x", question.wanted, question.lower, question.upper)}


def histogram(question: Question) -> Answers:
    """The counts between the edges; below and beyond them there is nothing."""
    found = grouped(lambda asked: {"h": unacorda.histogram("x", asked.edges)})(question)
    return [counts[1:-1] for counts in found]


def hierarchy(question: Question) -> Answers:
    table, levels = question.table(), question.levels()
    rows = len(table["g"]) // question.groups
    columns = [f"l{place}" for place in range(1, len(levels))]
    one = {"g": table["g"][:rows]}
    for name, nodes in zip(columns, levels[1:], strict=True):
        one[name] = table["x"][:rows] // (levels[-1] // nodes)
    leaves = range(levels[-1])
    keys = [tuple(leaf // (levels[-1] // nodes) for nodes in levels[1:]) for leaf in leaves]
    with opened(question, one, question.groups) as session:
        start = session.table("t").group_by(*columns, keys=keys, margins="rollup")
        query = start.agg(n=unacorda.count())
        return [
            session.evaluate(query, budget=budget(question)).answers["n"].values
            for _ in range(question.groups)
        ]


def installed() -> str:
    try:
        return version("unacorda")
    except PackageNotFoundError:  # run from a checkout
        return "checkout"


if __name__ == "__main__":
    methods = {
        "count/session": grouped(lambda _: {"n": unacorda.count()}),
        "sum/session": of_range("sum"),
        "mean/session": of_range("mean"),
        "variance/session": of_range("variance"),
        "median/session": of_range("median"),
        "quartiles/session": grouped(quantiles),
        "deciles/session": grouped(quantiles),
        "histogram/session": histogram,
        "levels/rollup": hierarchy,
    }
    serve(
        installed(),
        {f"{name}/{g}": method for name, method in methods.items() for g in ("pure", "zcdp")},
    )
