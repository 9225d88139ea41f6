"""diffprivlib's tools, which are for tables whose number of rows is public.

Its neighbors differ in the value of one row and have as many rows; its mean, sum and variance need
the size. That is a weaker promise than the others', at the same epsilon. It has no rho.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from diffprivlib import tools
from errors_protocol import EPSILON, Answers, Question, serve

warnings.simplefilter("ignore")


def simple(name: str) -> Callable[[Question], Answers]:
    def method(question: Question) -> Answers:
        values = question.load().astype(float)
        bounds = (question.lower, question.upper)
        ask: Any = getattr(tools, name)
        return [
            [float(ask(values, epsilon=EPSILON, bounds=bounds))] for _ in range(question.groups)
        ]

    return method


def count(question: Question) -> Answers:
    # It cuts a count at the length of the array: half of these rows are to be counted.
    values = np.repeat([0.0, 1.0], len(question.load()))
    return [[float(tools.count_nonzero(values, epsilon=EPSILON))] for _ in range(question.groups)]


def quantiles(question: Question) -> Answers:
    values, bounds = question.load().astype(float), (question.lower, question.upper)
    return [
        np.atleast_1d(
            tools.quantile(values, question.wanted, epsilon=EPSILON, bounds=bounds)
        ).tolist()
        for _ in range(question.groups)
    ]


def histogram(question: Question) -> Answers:
    values = question.load().astype(float)
    return [
        tools.histogram(values, epsilon=EPSILON, bins=question.edges)[0].astype(float).tolist()
        for _ in range(question.groups)
    ]


if __name__ == "__main__":
    serve(
        version("diffprivlib"),
        {
            "count/tools, n public/pure": count,
            "sum/tools, n public/pure": simple("sum"),
            "mean/tools, n public/pure": simple("mean"),
            "variance/tools, n public/pure": simple("var"),
            "median/tools, n public/pure": quantiles,
            "quartiles/tools, n public/pure": quantiles,
            "deciles/tools, n public/pure": quantiles,
            "histogram/tools, n public/pure": histogram,
        },
    )
