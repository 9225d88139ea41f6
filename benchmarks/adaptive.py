"""Mechanisms that follow the data, beside noise for the worst case and beside two libraries.

    python benchmarks/adaptive.py [--flights FILE.parquet] [--venvs DIR] [--peers NAMES] [--quick]

One column of totals, one a person, of which nothing is known but that each is between 0 and 10^9.
Three questions: its total, its median, its largest value. Columns: log-normal, Pareto and Zipf
totals, made up; the incomes of 1,000 Californians (US Census, bundled with the package); with
--flights (a Parquet table of the flights that left New York in 2013, columns tailnum and
dep_delay), the minutes that each plane left late in all. Told are the median and the 95 % quantile
of the relative error over many releases, and the milliseconds of the quickest of a few.

"global bound" is noise for 10^9; "known level" cuts totals off at the level that is best for these
very data and epsilon, which nobody knows: what a found level is to be held against. "automatic
bounds" spends half of epsilon on noisy counts of totals between powers of two and takes the highest
power whose count stands out (Wilson et al. 2019), as several systems do, with noise from here.
"race to the top" adds noise to the totals clipped at each power of two, lowers each sum by what
noise may reach, and takes the greatest (Dong, Fang, Yi, Tao, Machanavajjhala 2022).
The peers, in virtual environments of their own, have bounds given to them, or candidates.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from peers.adaptive_protocol import measured
from tables import Report, add_json
from tools import CACHE, Tool, environment
from unacorda import mechanisms
from unacorda.mechanisms.data_dependent import Maximum, Median, Sum, geometric_grid

HERE = Path(__file__).parent
TASKS = ("total", "median", "largest")
TABLES = ("errors", "sizes", "times")
LARGEST = 10**9
ALL = 10**13  # no total of everybody is beyond it
POINTS = geometric_grid(1, ALL)
LEVELS = geometric_grid(1, LARGEST, ratio=1.2)

Floats = NDArray[np.float64]
Release = Callable[[], Any]
Facts = dict[str, float]
Method = Callable[[Floats, float, Facts], Release]


# ---- columns


def column(name: str, size: int, flights: Path | None) -> Floats:
    source = np.random.default_rng([len(name), size])
    match name:
        case "log-normal":
            return np.minimum(source.lognormal(10, 1.5, size), LARGEST)
        case "Pareto":
            return np.minimum(1000 * (1 + source.pareto(1.5, size)), LARGEST)
        case "Zipf":
            return np.minimum(source.zipf(2.0, size), LARGEST).astype(np.float64)
        case "incomes":
            file = resources.files("unacorda.cli") / "data" / "pums.csv"
            with file.open() as lines:
                return np.array([max(float(row["income"]), 0) for row in csv.DictReader(lines)])
        case _:
            question = "select sum(greatest(dep_delay, 0)) from read_parquet(?) group by tailnum"
            rows = duckdb.execute(question, [str(flights)]).fetchall()
            return np.array([late or 0.0 for (late,) in rows])


def truth(task: str, values: Floats) -> float:
    ordered = np.sort(values)
    return {"total": math.fsum(values), "median": ordered[(values.size - 1) // 2]}.get(
        task, ordered[-1]
    )


def best_level(values: Floats, epsilon: float) -> float:
    """Of 500 levels that with the least root mean square error of a clipped noisy sum."""
    levels = np.geomspace(1, max(values.max(), 2), 500)
    lost = [np.maximum(values - level, 0).sum() for level in levels]
    return float(levels[np.argmin(np.square(lost) + 2 * (levels / epsilon) ** 2)])


# ---- methods


def released(mechanism: Any) -> Callable[[Floats], Release]:
    def of(values: Floats) -> Release:
        def once() -> float:
            answer = mechanism.release(values)
            return float(getattr(answer, "value", answer))

        return once

    return of


def shifted(statistic: Any, **options: Any) -> Method:
    grid = POINTS if isinstance(statistic, Sum) else geometric_grid(1, LARGEST)

    def method(values: Floats, epsilon: float, _: Facts) -> Release:
        mechanism = mechanisms.data_dependent.ShiftedInverse(
            statistic=statistic, epsilon=epsilon, grid=grid, **options
        )
        return released(mechanism)(values)

    return method


def found(values: Floats, epsilon: float, _: Facts) -> Release:
    return released(mechanisms.data_dependent.FoundClipping(epsilon=epsilon, levels=LEVELS))(values)


def race(values: Floats, epsilon: float, _: Facts) -> Release:
    levels = 2.0 ** np.arange((LARGEST - 1).bit_length() + 1)
    scale = Fraction(levels.size) / Fraction(str(epsilon))
    noise = mechanisms.Laplace(scale=scale, l1_sensitivity=1)
    fall = float(scale) * math.log(levels.size / 0.1)

    def once() -> float:
        shares = [np.minimum(values / level, 1.0).sum() for level in levels]
        return float(max(((noise.release(shares) - fall) * levels).max(), 0.0))

    return once


def clipped(bound: str) -> Method:
    def method(values: Floats, epsilon: float, facts: Facts) -> Release:
        level = facts[bound]
        noise = mechanisms.Laplace(scale=level / epsilon, l1_sensitivity=level)
        return lambda: noise.release(float(np.minimum(values, level).sum()))

    return method


def automatic(values: Floats, epsilon: float, _: Facts) -> Release:
    powers = 2.0 ** np.arange(math.ceil(math.log2(LARGEST)) + 1)
    histogram = mechanisms.DiscreteLaplace(scale=2 / epsilon, l1_sensitivity=1)
    # A count of 0 stands out anywhere with probability 1e-9.
    threshold = 2 / epsilon * math.log(powers.size / 2e-9)

    def once() -> float:
        places = np.minimum(np.searchsorted(powers, values), powers.size - 1)
        noisy = histogram.release(np.bincount(places, minlength=powers.size))
        above = np.flatnonzero(noisy >= threshold)
        level = powers[above[-1]] if above.size else powers[-1]
        noise = mechanisms.Laplace(scale=2 * level / epsilon, l1_sensitivity=level)
        return float(noise.release(float(np.minimum(values, level).sum())))

    return once


def inverse(statistic: Any, selection: Any) -> Method:
    def method(values: Floats, epsilon: float, _: Facts) -> Release:
        mechanism = mechanisms.InverseSensitivity(
            statistic=statistic, epsilon=epsilon, selection=selection, grid_log2=0
        )
        return released(mechanism)(values)

    return method


def smooth(statistic: Any) -> Method:
    def method(values: Floats, epsilon: float, _: Facts) -> Release:
        mechanism = mechanisms.SmoothSensitivity(statistic=statistic, epsilon=epsilon)
        return released(mechanism)(values)

    return method


def worst(statistic: Any) -> Method:
    def method(values: Floats, epsilon: float, _: Facts) -> Release:
        noise = mechanisms.Laplace(scale=LARGEST / epsilon, l1_sensitivity=LARGEST)
        return lambda: noise.release(float(statistic.value(values)))

    return method


TOTAL = Sum(lower=0, upper=None)
MIDDLE = Median(lower=0, upper=LARGEST)
TOP = Maximum(lower=0, upper=LARGEST)
METHODS: dict[str, Method] = {
    "total/clipped at a found level": found,
    "total/shifted inverse, ascending": shifted(TOTAL),
    "total/race to the top": race,
    "total/automatic bounds": automatic,
    "total/Laplace, known level": clipped("level"),
    "total/Laplace, global bound": clipped("largest"),
    "median/inverse, permute and flip": inverse(MIDDLE, "permute and flip"),
    "median/inverse, exponential": inverse(MIDDLE, "exponential"),
    "median/smooth sensitivity": smooth(MIDDLE),
    "median/Laplace, global bound": worst(MIDDLE),
    "largest/shifted inverse, ascending": shifted(TOP),
    "largest/inverse, exponential": inverse(TOP, "exponential"),
    "largest/smooth sensitivity": smooth(TOP),
    "largest/Laplace, global bound": worst(TOP),
}


# ---- tables


class Benchmark:
    """Asks unacorda's methods and the peers' about columns, and keeps what a row needs."""

    def __init__(self, peers: dict[str, Tool], place: Path) -> None:
        self.peers, self.place = peers, place

    def methods(self, task: str) -> list[tuple[str, str]]:
        names = [("unacorda", name) for name in METHODS]
        names += [(peer, name) for peer, running in self.peers.items() for name in running.greeting]
        return [(tool, name) for tool, name in names if name.split("/")[0] == task]

    def ask(
        self, tool: str, name: str, values: Floats, *, epsilon: float, releases: int
    ) -> tuple[float, float, float]:
        """Median and 95 % quantile of the relative error, and the least seconds of a release."""
        facts = {"largest": float(LARGEST), "level": best_level(values, epsilon)}
        if tool == "unacorda":
            answer = measured(METHODS[name](values, epsilon, facts), releases)
        else:
            file = self.place / "values.npy"
            np.save(file, values)
            asked = {"method": name, "values": str(file), "epsilon": epsilon, "facts": facts}
            answer = self.peers[tool].ask({**asked, "releases": releases})
        true = truth(name.partition("/")[0], values)
        errors = np.abs(np.array(answer["answers"]) / true - 1)
        return float(np.median(errors)), float(np.quantile(errors, 0.95)), answer["seconds"]


def shown(error: float) -> str:
    return f"{error:.2g}" if error < 10 else f"{error:.1e}"


def by_method(
    report: Report,
    run: Benchmark,
    task: str,
    columns: dict[str, Floats],
    *,
    epsilon: float,
    releases: int,
) -> None:
    heads = [(f"{name}, n = {values.size:,}", ">") for name, values in columns.items()]
    title = f"### {task}, epsilon {epsilon:g}: median / 95 % of the relative error"
    row = report.table(f"errors-{task}", [("tool", ""), ("method", ""), *heads], title=title)
    for tool, name in run.methods(task):
        cells = []
        for values in columns.values():
            middle, high, _ = run.ask(tool, name, values, epsilon=epsilon, releases=releases)
            cells.append(f"{shown(middle)} / {shown(high)}")
        row(tool, name.split("/")[1], *cells)


def by_size(
    report: Report,
    run: Benchmark,
    task: str,
    names: Iterable[str],
    columns: list[Floats],
    *,
    releases: list[int],
) -> None:
    epsilons = (0.1, 0.3, 1.0, 3.0)
    heads = [(f"{values.size:,}, {epsilon:g}", ">") for values in columns for epsilon in epsilons]
    title = f"### {task} of log-normal values: median of the relative error"
    row = report.table(f"by-size-{task}", [("method, by n and epsilon", ""), *heads], title=title)
    for name in names:
        cells = [
            shown(run.ask("unacorda", name, values, epsilon=epsilon, releases=asked)[0])
            for values, asked in zip(columns, releases, strict=True)
            for epsilon in epsilons
        ]
        row(name.split("/")[1], *cells)


def times(report: Report, run: Benchmark, values: Floats) -> None:
    sorting = []
    for _ in range(7):
        began = time.perf_counter()
        np.sort(values)
        sorting.append(time.perf_counter() - began)
    sort = min(sorting)
    title = f"### Time of one release, n = {values.size:,}; a sort takes {1000 * sort:.3g} ms"
    columns = [("tool", ""), ("task", ""), ("method", ""), ("ms", ".3g"), ("sorts", ".2g")]
    row = report.table("times", columns, title=title)
    for task in TASKS:
        for tool, name in run.methods(task):
            seconds = run.ask(tool, name, values, epsilon=1.0, releases=5)[2]
            row(tool, task, name.split("/")[1], 1000 * seconds, seconds / sort)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flights", type=Path, help="the table of flights, else left out")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--peers", nargs="*", default=["opendp", "diffprivlib"])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--quick", action="store_true", help="fewer releases, n up to 10^5")
    add_json(parser)
    options = parser.parse_args()
    peers = {
        name: Tool(
            [environment(name, options.venvs), HERE / "peers" / f"adaptive_{name}.py"], ours=False
        )
        for name in options.peers
    }
    releases = 40 if options.quick else 200
    sizes = (10**3, 10**4, 10**5) if options.quick else (10**3, 10**4, 10**5, 10**6)
    names = ["log-normal", "Pareto", "Zipf", "incomes"] + ["flights"] * bool(options.flights)
    columns = {name: column(name, 10_000, options.flights) for name in names}
    with tempfile.TemporaryDirectory() as place, Report(__file__, options.json) as report:
        run = Benchmark(peers, Path(place))
        for task in TASKS if "errors" in options.tables else ():
            by_method(report, run, task, columns, epsilon=1.0, releases=releases)
        few = [min(releases, max(15, 4 * 10**6 // size)) for size in sizes]
        grown = [column("log-normal", size, None) for size in sizes]
        for task in TASKS[:2] if "sizes" in options.tables else ():
            ours = [name for name in METHODS if name.split("/")[0] == task]
            by_size(report, run, task, ours, grown, releases=few)
        if "times" in options.tables:
            times(report, run, grown[-1])
    for peer in peers.values():
        peer.stop()


if __name__ == "__main__":
    sys.exit(main())
