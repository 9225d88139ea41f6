"""Errors of answers at one guarantee, beside estimators as the peers write them.

    python benchmarks/query_errors.py
    python benchmarks/query_errors.py --tables errors --releases 400

Errors: root mean square of (released - exact) / exact over many releases on real columns (a
thousand people of a census, and flights), each row one person. Every method gets the same guarantee
for its whole answer. The peers' estimators are written here, from their published descriptions,
with the same exact noise, so that a difference is one of method:

- ``three sums``: variance from a noisy count, sum and sum of squares, a third of the budget each
  (SmartNoise SQL, and the textbook);
- ``two means``: the same with values shifted to the middle of the range first (Tumult Analytics);
- ``one by one``: each quantile by its own exponential mechanism with its share of the budget
  (OpenDP, Tumult Analytics, diffprivlib);
- ``levels apart``: each level of a hierarchy as a question of its own, with an equal share of the
  budget (Tumult Analytics, SmartNoise SQL, OpenDP's data frames).

`query_peers.py` runs the peers themselves.

`query_times.py` has the times.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from fractions import Fraction
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

import unacorda
from tables import Report, Rows, add_json
from unacorda import mechanisms

Floats = NDArray[np.float64]
Guarantee = unacorda.PureDP | unacorda.ZCDP

BUDGETS: dict[str, Guarantee] = {
    "epsilon = 1": unacorda.PureDP(1),
    "rho = 0.1": unacorda.ZCDP("0.1"),
}
DECILES = [Fraction(k, 10) for k in range(1, 10)]
COLUMNS = ("age", "income", "air time", "delay")
QUARTILES = [Fraction(k, 4) for k in range(1, 4)]


# ---- columns


def table(name: str, where: Path) -> tuple[str, str, float, float]:
    """A Parquet file of one column x with a row a person; its public range."""
    data = resources.files("unacorda.cli") / "data"
    sources = {
        "age": (f"read_csv('{data / 'pums.csv'}')", "age", 0, 120),
        "income": (f"read_csv('{data / 'pums.csv'}')", "income", 0, 500_000),
        "air time": (f"'{data / 'flights.parquet'}'", "air_time", 0, 1_000),
        "delay": (f"'{data / 'flights.parquet'}'", "arr_delay", -120, 1_500),
    }
    source, column, low, high = sources[name]
    path = where / f"{column}.parquet"
    duckdb.sql(
        f"COPY (SELECT row_number() OVER () AS id, {column}::DOUBLE AS x FROM {source} "
        f"WHERE {column} IS NOT NULL) TO '{path}'"
    )
    return str(path), column, low, high


# ---- the peers' estimators, on the exact values


def noisy(values: list[float], budget: Guarantee, sensitivities: list[float]) -> list[float]:
    """Each sum with an even share of the budget."""
    share = budget * Fraction(1, len(values))
    found = []
    for value, sensitivity in zip(values, sensitivities, strict=True):
        if isinstance(share, unacorda.PureDP):
            laplace = mechanisms.Laplace.for_guarantee(share, l1_sensitivity=sensitivity)
            found.append(float(laplace.release(value)))
        else:
            normal = mechanisms.Gaussian.for_guarantee(share, l2_sensitivity=sensitivity)
            found.append(float(normal.release(value)))
    return found


def variance_of_sums(x: Floats, low: float, high: float, budget: Guarantee, *, at: float) -> float:
    """From count, sum and sum of squares of x - at."""
    far = max(abs(low - at), abs(high - at))
    sums = [float(len(x)), float(np.sum(x - at)), float(np.sum((x - at) ** 2))]
    count, total, squares = noisy(sums, budget, [1.0, far, far**2])
    count = max(count, 2.0)
    return max((squares - total**2 / count) / (count - 1), 0.0)


# ---- what is compared

Method = Callable[[], list[float]]


def methods(
    session: unacorda.Session, x: Floats, low: float, high: float, budget: Guarantee
) -> dict[str, tuple[list[float], dict[str, Method]]]:
    """By statistic: the exact values, and each method's release."""
    start = session.table("t")

    def asked(**aggregates: Any) -> Method:
        query = start.agg(**aggregates)

        def release() -> list[float]:
            answers = session.evaluate(query, budget=budget).answers
            return [float(answer.values[0]) for answer in answers.values()]

        return release

    middle = (low + high) / 2
    found: dict[str, tuple[list[float], dict[str, Method]]] = {
        "variance": (
            [float(np.var(x, ddof=1))],
            {
                "unacorda": asked(v=unacorda.variance("x", low, high)),
                "three sums": lambda: [variance_of_sums(x, low, high, budget, at=0.0)],
                "two means": lambda: [variance_of_sums(x, low, high, budget, at=middle)],
            },
        )
    }
    for name, wanted in (("quartiles", QUARTILES), ("deciles", DECILES)):
        single = {f"q{k}": unacorda.quantile("x", q, low, high) for k, q in enumerate(wanted)}
        found[name] = (
            [float(np.quantile(x, float(q), method="inverted_cdf")) for q in wanted],
            {
                "unacorda": asked(q=unacorda.quantiles("x", wanted, low, high)),
                "one by one": asked(**single),
            },
        )
    return found


def errors(report: Report, columns: list[str], releases: int) -> None:
    heads = [("column", ""), ("n", ",.0f"), ("guarantee", ""), ("statistic", ""), ("method", "")]
    heads += [("error", ".3g"), ("beside unacorda", ".2f")]
    title = "### Errors, relative to the exact answer (quantiles: to the spread of the column)"
    row = report.table("errors", heads, title=title)
    with tempfile.TemporaryDirectory() as place:
        for name in columns:
            path, _, low, high = table(name, Path(place))
            x = duckdb.sql(f"SELECT x FROM '{path}'").fetchnumpy()["x"]
            x = np.clip(np.asarray(x, dtype=np.float64), low, high)
            for label, budget in BUDGETS.items():
                with unacorda.Session(
                    {"t": path},
                    unit=unacorda.Person("id", max_rows=1),
                    budget=budget * (releases * 8),
                ) as session:
                    found = methods(session, x, low, high, budget)
                    compare(row, name, label, found, x=x, releases=releases)


def compare(
    row: Rows, name: str, label: str, found: dict[str, Any], *, x: Floats, releases: int
) -> None:
    for statistic, (exact, ways) in found.items():
        truth = np.array(exact)
        scale = truth if statistic == "variance" else np.full(len(truth), float(np.std(x)))
        told = {}
        for method, release in ways.items():
            drawn = np.array([release() for _ in range(releases)])
            told[method] = float(np.sqrt(np.mean(((drawn - truth) / scale) ** 2)))
        for method, error in told.items():
            row(name, len(x), label, statistic, method, error, error / told["unacorda"])


# ---- tables that add up

SHAPES: dict[str, tuple[Literal["rollup", "cube"], tuple[int, ...]]] = {
    "rollup of 4, 5": ("rollup", (4, 5)),
    "rollup of 10, 10": ("rollup", (10, 10)),
    "rollup of 50, 60": ("rollup", (50, 60)),
    "cube of 2 by 6": ("cube", (2, 6)),
    "cube of 2 by 10 by 5": ("cube", (2, 10, 5)),
    "cube of 10 by 10": ("cube", (10, 10)),
}


def levels(report: Report, releases: int) -> None:
    heads = [("levels", ""), ("guarantee", ""), ("unacorda", ".3g"), ("as promised", ".3g")]
    heads += [("levels apart", ".3g"), ("beside unacorda, by level", ">")]
    title = "### Counts at all levels, of 10,000 people: root mean square errors"
    row = report.table("levels", heads, title=title)
    for name, (kind, sizes) in SHAPES.items():
        frame = pl.DataFrame(
            {f"c{place}": np.arange(10_000) % size for place, size in enumerate(sizes)}
        )
        for label, budget in BUDGETS.items():
            together, promised, apart = errors_of_levels(frame, kind, sizes, budget, releases)
            nodes = np.array([len(level) for level in together])
            means = [np.array([level.mean() for level in part]) for part in (together, apart)]
            whole = [float(np.sqrt(mean @ nodes / nodes.sum())) for mean in means]
            ratios = ", ".join(f"{ratio:.2f}" for ratio in np.sqrt(means[1] / means[0]))
            beside = f"{whole[1] / whole[0]:.2f} ({ratios})"
            row(name, label, whole[0], promised, whole[1], beside)


def errors_of_levels(
    frame: pl.DataFrame,
    kind: Literal["rollup", "cube"],
    sizes: tuple[int, ...],
    budget: Guarantee,
    releases: int,
) -> tuple[list[Floats], float, list[Floats]]:
    """By level the squared errors of all nodes: fitted; promised in all; and of levels apart."""
    width = range(len(sizes))
    subsets: list[tuple[int, ...]] = [tuple(width[:count]) for count in range(len(sizes) + 1)]
    if kind == "cube":
        subsets = [s for count in (*width, len(sizes)) for s in combinations(width, count)]
    with unacorda.Session(
        {"t": frame}, unit=unacorda.Row(), budget=budget * (4 * releases)
    ) as session:
        start = session.table("t")
        names = frame.columns
        keys = {name: range(size) for name, size in zip(names, sizes, strict=True)}
        queries, exact = [], []
        for subset in subsets:
            own = [names[place] for place in subset]
            given = {name: keys[name] for name in own}
            grouped = start.group_by(*own, keys=given) if own else start
            queries.append(grouped.agg(n=unacorda.count()))
            counts = np.zeros([sizes[place] for place in subset])
            np.add.at(counts, tuple(frame[name].to_numpy() for name in own), 1)
            exact.append(counts.ravel() if own else np.array([float(len(frame))]))
        ends = np.cumsum([len(level) for level in exact])[:-1]
        fit = start.group_by(*names, keys=keys, margins=kind).agg(n=unacorda.count())
        drawn, apart, promised = [], [], 0.0
        for _ in range(releases):
            answer = session.evaluate(fit, budget=budget).answers["n"]
            drawn.append((np.array(answer.values) - np.concatenate(exact)) ** 2)
            promised = float(np.sqrt(np.mean(np.square(answer.standard_errors))))
            share = budget * Fraction(1, len(queries))
            found = [session.evaluate(query, budget=share).answers["n"].values for query in queries]
            apart.append((np.concatenate(found) - np.concatenate(exact)) ** 2)
    both = [np.split(np.mean(part, axis=0), ends) for part in (drawn, apart)]
    return both[0], promised, both[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=["errors", "levels"])
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--releases", type=int, default=200)
    add_json(parser)
    options = parser.parse_args()
    with Report(__file__, options.json) as report:
        if "errors" in options.tables:
            errors(report, options.columns, options.releases)
        if "levels" in options.tables:
            levels(report, options.releases)


if __name__ == "__main__":
    main()
