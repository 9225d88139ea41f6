"""OpenDP: its data frames (Context, Polars), and its framework for what these can not answer.

Data frames count, add up, average and choose quantiles from candidates, each of several quantiles
by a mechanism of its own. There is no variance for a table whose size is private: the framework's
needs a known size, so that the table is resized first, to a noisy count with half of the budget, or
to the true size, which is then public. Several quantiles and hierarchies also come from a noisy
tree of counts.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import polars as pl
from errors_protocol import EPSILON, RHO, Answers, Question, serve

dp.enable_features("contrib")


def framed(question: Question, *asked: pl.Expr) -> Answers:
    """One question to all groups of a data frame."""
    loss = dp.loss_of(epsilon=EPSILON) if question.pure else dp.loss_of(rho=RHO)
    table = question.table()
    rows = len(table["x"]) // question.groups
    context = dp.Context.compositor(
        data=pl.LazyFrame(table),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["g"], max_length=rows, max_groups=question.groups)],
    )
    keys = pl.DataFrame({"g": np.arange(question.groups)})
    plan = context.query().group_by("g").agg(*asked).with_keys(keys)
    found = plan.release().collect().sort("g").drop("g")
    return [list(map(float, row)) for row in found.rows()]


def column(question: Question) -> pl.Expr:
    """The values, which the schema says may be missing."""
    x = pl.col("x")
    fill = question.lower if not question.whole else int(question.lower)
    return x.fill_null(fill) if question.whole else x.fill_nan(fill).fill_null(fill)


def bounds(question: Question) -> tuple[float, float]:
    low, high = question.lower, question.upper
    return (int(low), int(high)) if question.whole else (low, high)


def count(question: Question) -> Answers:
    return framed(question, dp.len(signed=True).alias("n"))


def total(question: Question) -> Answers:
    return framed(question, column(question).dp.sum(bounds(question)).alias("s"))


def mean(question: Question) -> Answers:
    return framed(question, column(question).dp.mean(bounds(question)).alias("m"))


def quantiles(question: Question) -> Answers:
    x, candidates = column(question), question.candidates
    if question.whole:
        candidates = [int(c) for c in candidates]
    asked = [
        x.dp.quantile(q, candidates).alias(f"q{place}") for place, q in enumerate(question.wanted)
    ]
    return framed(question, *asked)


def histogram(question: Question) -> Answers:
    loss = dp.loss_of(epsilon=EPSILON) if question.pure else dp.loss_of(rho=RHO)
    bins = len(question.edges) - 1
    table = {"g": question.table()["g"], "b": question.binned()}
    groups = question.groups * bins
    context = dp.Context.compositor(
        data=pl.LazyFrame(table),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["g", "b"], max_groups=groups)],
    )
    keys = pl.DataFrame({"g": np.arange(question.groups)}).join(
        pl.DataFrame({"b": np.arange(bins)}), how="cross"
    )
    plan = context.query().group_by("g", "b").agg(dp.len(signed=True).alias("n")).with_keys(keys)
    found = plan.release().collect().sort("g", "b")["n"].to_numpy().reshape(-1, bins)
    return found.astype(float).tolist()


def calibrated(
    transformation: dp.Transformation, question: Question, *, parts: int = 1
) -> dp.Measurement:
    """The transformation with the least noise that keeps its part of the budget."""
    if question.pure:
        return dp.binary_search_chain(
            lambda scale: transformation >> dp.m.then_laplace(scale), d_in=1, d_out=EPSILON / parts
        )
    return dp.binary_search_chain(
        lambda scale: transformation >> dp.m.then_gaussian(scale), d_in=1, d_out=RHO / parts
    )


def resized_variance(question: Question, size: int, *, parts: int) -> dp.Measurement:
    """The variance of a table that is brought to this public size first."""
    low, high = float(question.lower), float(question.upper)
    domain = dp.vector_domain(dp.atom_domain(bounds=(low, high), nan=False))
    resized = dp.t.make_resize(
        domain, dp.symmetric_distance(), size=size, constant=(low + high) / 2
    )
    return calibrated(resized >> dp.t.then_variance(ddof=1), question, parts=parts)


def variance_of_public_size(question: Question) -> Answers:
    values = [float(x) for x in question.load()]
    release = resized_variance(question, len(values), parts=1)
    return [[release(values)] for _ in range(question.groups)]


def variance_of_noisy_size(question: Question) -> Answers:
    """Half of the budget for the size, half for the variance."""
    values = [float(x) for x in question.load()]
    space = dp.vector_domain(dp.atom_domain(T=float)), dp.symmetric_distance()
    count = calibrated(dp.t.make_count(*space), question, parts=2)
    releases: dict[int, dp.Measurement] = {}
    found = []
    for _ in range(question.groups):
        size = max(count(values), 2)
        if size not in releases:
            releases[size] = resized_variance(question, size, parts=2)
        found.append([releases[size](values)])
    return found


def counts_of_tree(question: Question, leaves: int, branches: int) -> dp.Transformation:
    """From whole numbers below `leaves` to the counts of all nodes of a tree over them."""
    metric = "L1Distance<i64>" if question.pure else "L2Distance<i64>"
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    counted = dp.t.make_count_by_categories(
        *space, categories=list(range(leaves)), null_category=False, MO=metric, TOA="i64"
    )
    return counted >> dp.t.then_b_ary_tree(leaf_count=leaves, branching_factor=branches)


def quantiles_of_tree(question: Question) -> Answers:
    edges = question.candidates
    if question.whole:
        edges = [*edges, edges[-1] + 1]
    bins = np.clip(np.searchsorted(edges, question.load(), side="right") - 1, 0, len(edges) - 2)
    branches = dp.t.choose_branching_factor(size_guess=len(bins))
    tree = counts_of_tree(question, len(edges) - 1, branches)
    release = calibrated(tree, question)
    release = release >> dp.t.make_consistent_b_ary_tree(branches, TIA="i64")
    release = release >> dp.t.make_quantiles_from_counts(edges, question.wanted, F="f64")
    data = [int(b) for b in bins]
    found = np.array([release(data) for _ in range(question.groups)])
    return (np.floor(found) if question.whole else found).tolist()


def hierarchy_of_tree(question: Question) -> Answers:
    """All nodes of a tree with as many branches everywhere, which is what OpenDP has."""
    (branches,) = set(question.sizes)
    levels = question.levels()
    release = calibrated(counts_of_tree(question, levels[-1], branches), question)
    release = release >> dp.t.make_consistent_b_ary_tree(branches, TIA="i64")
    data = [int(x) for x in question.load()]
    found = []
    for _ in range(question.groups):
        # What is consistent are the leaves; the nodes above are their sums.
        leaves = np.array(release(data), dtype=float)
        found.append(
            np.concatenate([leaves.reshape(size, -1).sum(axis=1) for size in levels]).tolist()
        )
    return found


def hierarchy_apart(question: Question) -> Answers:
    """Counts at every level, each with its share of the budget."""
    levels = question.levels()
    table = question.table()
    parts = []
    loss = dp.loss_of(epsilon=EPSILON) if question.pure else dp.loss_of(rho=RHO)
    for nodes in levels:
        frame = {"g": table["g"], "b": table["x"] // (levels[-1] // nodes)}
        context = dp.Context.compositor(
            data=pl.LazyFrame(frame),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=loss,
            split_evenly_over=len(levels),
            margins=[dp.polars.Margin(by=["g", "b"], max_groups=question.groups * nodes)],
        )
        keys = pl.DataFrame({"g": np.arange(question.groups)}).join(
            pl.DataFrame({"b": np.arange(nodes)}), how="cross"
        )
        plan = context.query().group_by("g", "b").agg(dp.len(signed=True).alias("n"))
        found = plan.with_keys(keys).release().collect().sort("g", "b")["n"].to_numpy()
        parts.append(found.reshape(-1, nodes))
    return np.concatenate(parts, axis=1).astype(float).tolist()


if __name__ == "__main__":
    methods = {
        "count/data frame": count,
        "sum/data frame": total,
        "mean/data frame": mean,
        "variance/resized": variance_of_noisy_size,
        "variance/resized, n public": variance_of_public_size,
        "median/data frame": quantiles,
        "quartiles/data frame": quantiles,
        "deciles/data frame": quantiles,
        "median/tree": quantiles_of_tree,
        "quartiles/tree": quantiles_of_tree,
        "deciles/tree": quantiles_of_tree,
        "histogram/data frame": histogram,
        "levels/apart": hierarchy_apart,
        "levels/tree": hierarchy_of_tree,
    }
    serve(
        dp.__version__,
        {f"{name}/{g}": method for name, method in methods.items() for g in ("pure", "zcdp")},
    )
