"""OpenDP's Polars API: identifiers as the unit, each truncated to a random choice of her rows.

The mean is asked as OpenDP offers it, ``dp.mean``, which releases a sum and a length of its own.
``max_length`` of the margin is the number of rows of the table: OpenDP's float sums need a public
bound on it, and a looser bound means more noise. OpenDP looks for the noise scale by rebuilding the
plan many times, about two seconds whatever the table's size; that is part of a question's time.
"""

# SPDX-License-Identifier: Apache-2.0

import opendp.prelude as dp
import polars as pl
from query_protocol import (
    CANDIDATES,
    EPSILON,
    LOWER,
    RHO,
    UPPER,
    Answers,
    Noise,
    Opened,
    Task,
    serve,
    stated,
)


def open_tool(task: Task) -> Opened:
    dp.enable_features("contrib")
    loss = (
        dp.loss_of(epsilon=EPSILON * task.calls)
        if task.guarantee == "pure"
        else dp.loss_of(rho=RHO * task.calls)
    )
    context = dp.Context.compositor(
        data=pl.scan_parquet(task.data),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("person_id")),
        privacy_loss=loss,
        split_evenly_over=task.calls,
        margins=[dp.polars.Margin(by=["grp"], max_length=task.rows, max_groups=task.groups)],
    )
    keys = pl.DataFrame({"grp": task.keys})
    x = pl.col("x").fill_nan(LOWER).fill_null(LOWER)  # the schema allows both
    step = (UPPER - LOWER) / (CANDIDATES - 1)
    candidates = [LOWER + step * number for number in range(CANDIDATES)]
    expressions = {
        "n": dp.len(signed=True).alias("n"),
        "s": x.dp.sum((LOWER, UPPER)).alias("s"),
        "m": x.dp.mean((LOWER, UPPER)).alias("m"),
        "p": x.dp.median(candidates).alias("p"),
    }
    question = [expressions[name] for name in task.answers]

    def plan() -> dp.polars.LazyFrameQuery:
        bounded = context.query().truncate_per_group(task.max_rows)
        return bounded.group_by("grp").agg(*question).with_keys(keys)

    # The context's budget is spent after the last question; what a question costs is said before.
    noise: Noise = {}
    for row in plan().summarize().to_dicts():
        name = f"m ({row['aggregate'].lower()})" if row["column"] == "m" else row["column"]
        noise[name] = stated(row["distribution"], row["scale"])

    def ask() -> Answers:
        rows = plan().release().collect().to_dicts()
        return {row["grp"]: {name: row[name] for name in task.answers} for row in rows}

    return Opened(version=dp.__version__, ask=ask, noise=lambda: noise)


if __name__ == "__main__":
    serve(open_tool)
