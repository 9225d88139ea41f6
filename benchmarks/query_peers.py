"""Errors of single aggregates beside the peers themselves, at one guarantee.

    python benchmarks/query_peers.py [--venvs DIR] [--releases 200] [--rounds 2]
    python benchmarks/query_peers.py --columns age --statistics variance deciles --tools tumult

Every tool runs as it is published, in its own virtual environment (Tumult Analytics on a local
Spark, which needs Java; a tool that can not be installed is left out and said so). Each is asked
one aggregate of one column with the whole budget: epsilon = 1, or rho = 0.1 where the tool has it,
when one row, which is one person, is added or removed. The bounds are the same for all.

A table is made of as many groups as there are releases, each with the same rows, so that one
question answers all of them. What is shown is the root mean square of (released - exact), over
releases and over the numbers of an answer, in the unit of the column, and that of the peer over
unacorda's: above 1 unacorda is nearer. Tools take turns; every round is a new question.

Statistics: count, sum, mean, variance, median, quartiles, deciles, histogram (20 bins), and levels:
counts of all nodes of a hierarchy, for which the ratios level by level, coarse to fine, are in
parentheses.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import itertools
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from tables import Report, Rows, add_json
from tools import CACHE, Tool, environment

Floats = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
PEERS = ("opendp", "tumult", "smartnoise", "diffprivlib", "pipelinedp")
GUARANTEES = {"pure": "epsilon = 1", "zcdp": "rho = 0.1"}
WANTED = {
    "median": [0.5],
    "quartiles": [0.25, 0.5, 0.75],
    "deciles": [k / 10 for k in range(1, 10)],
}
STATISTICS = ("count", "sum", "mean", "variance", *WANTED, "histogram", "levels")
HIERARCHIES = ([3, 4], [5, 5], [10, 10], [2, 2, 2, 2], [50, 60])


class Column(NamedTuple):
    source: str
    name: str
    whole: bool
    lower: float
    upper: float
    every: int = 1  # of the rows one in so many is taken


COLUMNS = {
    "age": Column("pums.csv", "age", True, 0, 120),
    "income": Column("pums.csv", "income", False, 0, 500_000),
    "air time": Column("flights.parquet", "air_time", True, 0, 1_000, 66),
    "delay": Column("flights.parquet", "arr_delay", True, -120, 1_500, 66),
}


def values_of(column: Column) -> Floats:
    data = resources.files("unacorda.cli") / "data" / column.source
    rows = duckdb.sql(
        f"SELECT {column.name}::DOUBLE AS x FROM '{data}' WHERE {column.name} IS NOT NULL"
    ).fetchnumpy()["x"]
    return np.clip(np.asarray(rows)[:: column.every], column.lower, column.upper)


def exact(statistic: str, x: Floats, question: dict[str, Any]) -> Floats:
    match statistic:
        case "count":
            return np.array([len(x)])
        case "sum":
            return np.array([x.sum()])
        case "mean":
            return np.array([x.mean()])
        case "variance":
            return np.array([x.var(ddof=1)])
        case "histogram":
            return np.histogram(x, question["edges"])[0]
        case "levels":
            counts = np.bincount(x.astype(int), minlength=int(np.prod(question["sizes"])))
            return np.concatenate([counts.reshape(n, -1).sum(axis=1) for n in nodes(question)])
        case _:
            return np.quantile(x, question["wanted"], method="inverted_cdf")


def nodes(question: dict[str, Any]) -> list[int]:
    return [1, *np.cumprod(question["sizes"]).tolist()]


@dataclass(frozen=True)
class Run:
    """The tools that were started, what each can be asked, and for how many rounds it is."""

    tools: dict[str, Tool]
    rounds: int

    def methods(self, statistic: str, guarantee: str, sizes: list[int]) -> list[tuple[str, str]]:
        """Tools and their methods; OpenDP's trees have as many branches everywhere."""
        found = []
        for name, tool in self.tools.items():
            for method in tool.greeting["methods"]:
                asked, way, under = method.split("/")
                uneven = (asked, way) == ("levels", "tree") and len(set(sizes)) > 1
                if (asked, under) == (statistic, guarantee) and not uneven:
                    found.append((name, method))
        return found

    def squares(
        self, methods: list[tuple[str, str]], question: dict[str, Any], truth: Floats
    ) -> dict[tuple[str, str], Any]:
        """The squared errors of each number of an answer, or what went wrong."""
        found: dict[tuple[str, str], Any] = {}
        for turn in range(self.rounds):
            first = turn % len(methods)
            for name, method in methods[first:] + methods[:first]:
                if isinstance(found.get((name, method)), str):
                    continue
                answer = self.tools[name].ask({**question, "method": method})
                if isinstance(answer, dict):
                    found[name, method] = answer["failed"]
                    continue
                drawn = np.array(answer, dtype=float)
                if question["wanted"] and question["whole"]:
                    drawn = np.round(drawn)  # as whoever asks for them would
                square = ((drawn - truth) ** 2).mean(axis=0)
                found[name, method] = found.get((name, method), 0) + square / self.rounds
        return found

    def compare(
        self, row: Rows, label: str, x: Floats, statistic: str, question: dict[str, Any]
    ) -> None:
        """A line of the table for every method, under each guarantee."""
        truth = exact(statistic, x, question)
        for guarantee, told in GUARANTEES.items():
            methods = self.methods(statistic, guarantee, question["sizes"])
            found = self.squares(methods, question, truth)
            ours = next(square for (name, _), square in found.items() if name == "unacorda")
            if isinstance(ours, str):
                raise SystemExit(f"unacorda: {ours}")
            for (name, method), square in found.items():
                start = (label, len(x), told, statistic, name, method.split("/")[1])
                if isinstance(square, str):
                    row(*start, f"failed: {' '.join(square.split())}", None)
                    continue
                ratio = f"{root_ratio(square, ours):.2f}"
                if statistic == "levels":
                    ends = np.cumsum([0, *nodes(question)])
                    parts = [
                        root_ratio(square[a:b], ours[a:b]) for a, b in itertools.pairwise(ends)
                    ]
                    ratio += f" ({', '.join(f'{part:.2f}' for part in parts)})"
                row(*start, np.sqrt(square.mean()), ratio)


def root_ratio(square: Floats, ours: Floats) -> float:
    """Of root mean squares; of two that are 0 it is 1."""
    top, bottom = float(square.mean()), float(ours.mean())
    return 1.0 if top == bottom else math.sqrt(top / bottom) if bottom else math.inf


def started(options: argparse.Namespace) -> dict[str, Tool]:
    tools = {}
    for name in ("unacorda", *(peer for peer in PEERS if peer in options.tools)):
        try:
            ours = name == "unacorda"
            python = options.unacorda_python if ours else environment(name, options.venvs)
            tools[name] = Tool([python, HERE / "peers" / f"errors_{name}.py"], ours=ours)
        except (subprocess.CalledProcessError, ValueError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return tools


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--statistics", nargs="+", choices=STATISTICS, default=list(STATISTICS))
    parser.add_argument("--tools", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--unacorda-python", type=Path, default=Path(sys.executable))
    add_json(parser)
    options = parser.parse_args()
    run = Run(started(options), options.rounds)
    versions = {name: str(tool.greeting["version"]) for name, tool in run.tools.items()}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    columns = [(name, "") for name in ("table", "guarantee", "statistic", "tool", "method")]
    columns.insert(1, ("n", ",.0f"))
    columns += [("error", ".4g"), ("beside unacorda", ">")]
    groups = -(-options.releases // options.rounds)
    simple = [statistic for statistic in options.statistics if statistic != "levels"]
    with (
        tempfile.TemporaryDirectory() as place,
        Report(__file__, options.json, peers=versions) as report,
    ):
        row = report.table("releases", columns)
        for name in options.columns if simple else []:
            x, question = of_column(COLUMNS[name], Path(place), groups)
            for statistic in simple:
                question["wanted"] = WANTED.get(statistic, [])
                run.compare(row, name, x, statistic, question)
        for sizes in HIERARCHIES if "levels" in options.statistics else []:
            x, question = of_hierarchy(sizes, Path(place), groups)
            label = " > ".join(map(str, ["all", *sizes]))
            run.compare(row, label, x, "levels", question)
    for tool in run.tools.values():
        tool.stop()


def of_column(column: Column, place: Path, groups: int) -> tuple[Floats, dict[str, Any]]:
    """The values of a column, and what is asked of all of its statistics."""
    x, path = values_of(column), place / f"{column.name}.npy"
    np.save(path, x)
    steps = int(column.upper - column.lower) if column.whole else 1_000
    return x, {
        "values": str(path),
        "whole": column.whole,
        "lower": column.lower,
        "upper": column.upper,
        "groups": groups,
        "edges": np.linspace(column.lower, column.upper, 21).tolist(),
        "candidates": np.linspace(column.lower, column.upper, steps + 1).tolist(),
        "sizes": [],
    }


def of_hierarchy(sizes: list[int], place: Path, groups: int) -> tuple[Floats, dict[str, Any]]:
    """A thousand rows, spread over the leaves: of counts alone errors do not depend on them."""
    leaves = int(np.prod(sizes))
    x, path = np.arange(1_000.0) % leaves, place / "leaves.npy"
    np.save(path, x)
    return x, {
        "values": str(path),
        "whole": True,
        "lower": 0,
        "upper": leaves - 1,
        "groups": groups,
        "wanted": [],
        "edges": [],
        "candidates": [],
        "sizes": sizes,
    }


if __name__ == "__main__":
    main()
