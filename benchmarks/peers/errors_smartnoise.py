"""SmartNoise SQL over a data frame: Laplace noise on each column that its rewriting asks for.

Its epsilon is that of one such column; its own account says how many there are, and the budget is
divided by them. It has no quantiles and no rho, and takes the groups from the data.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from importlib.metadata import version

import numpy as np
import pandas as pd
import snsql
from errors_protocol import EPSILON, Answers, Question, serve

warnings.simplefilter("ignore")


def answered(question: Question, select: str, table: dict[str, np.ndarray], by: str) -> np.ndarray:
    frame = pd.DataFrame({"pid": np.arange(len(table["g"])), **table})
    columns = {
        "pid": {"type": "int", "private_id": True},
        "x": {
            "type": "int" if question.whole else "float",
            "lower": int(question.lower) if question.whole else question.lower,
            "upper": int(question.upper) if question.whole else question.upper,
            "nullable": False,
        },
        "g": {"type": "int"},
        "b": {"type": "int"},
    }
    settings = {
        "max_ids": 1,
        "row_privacy": False,
        "sample_max_ids": False,  # each has one row
        "clamp_columns": True,
        "clamp_counts": False,
        "censor_dims": False,  # the groups are public
        "rows": len(frame),
    }
    metadata = {"": {"main": {"t": settings | columns}}}
    text = f"SELECT {by}, {select} AS v FROM main.t GROUP BY {by}"

    def reader(epsilon: float) -> snsql.sql.private_reader.PrivateReader:
        privacy = snsql.Privacy(epsilon=epsilon, delta=0.0)
        return snsql.from_df(frame, privacy=privacy, metadata=metadata)

    charged = round(reader(1.0).get_privacy_cost(text)[0])
    names, *rows = reader(EPSILON / charged).execute(text)
    found = pd.DataFrame(rows, columns=names).sort_values(by.split(", "))
    return found["v"].to_numpy(dtype=float)


def simple(select: str) -> object:
    def method(question: Question) -> Answers:
        return answered(question, select, question.table(), "g").reshape(-1, 1).tolist()

    return method


def histogram(question: Question) -> Answers:
    """Empty bins are not in the data, and are left out by it: their answer is 0."""
    bins, b = len(question.edges) - 1, question.binned()
    seen = np.unique(b)
    table = {**question.table(), "b": b}
    found = np.zeros((question.groups, bins))
    found[:, seen] = answered(question, "COUNT(*)", table, "g, b").reshape(-1, len(seen))
    return found.tolist()


if __name__ == "__main__":
    methods = {
        "count/SQL/pure": simple("COUNT(*)"),
        "sum/SQL/pure": simple("SUM(x)"),
        "mean/SQL/pure": simple("AVG(x)"),
        "variance/SQL/pure": simple("VARIANCE(x)"),
        "histogram/SQL/pure": histogram,
    }
    serve(version("smartnoise-sql"), methods)
