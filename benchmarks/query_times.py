"""Seconds of batches beside one aggregate, of many groups, and of private keys.

    python benchmarks/query_times.py
    python benchmarks/query_times.py --tables groups --groups 1000 10000 --only median top

Rounds are interleaved: in every round each question is asked once; medians over rounds, after one
question of each to warm up (of ``groups`` one in all). "s" is time on the clock, "CPU s" that of
all threads of this process, which other work on the machine changes less.

- ``batches``: twenty aggregates of 1,000,000 rows in 50 groups, each person cut from 3 rows to 2,
  beside one sum of the same table.
- ``groups``: every aggregate by itself, 300,000 rows in more and more groups with public keys.
  "Fine" ones are on the default grid of 2^20 steps. Ends with the largest memory of the process.
- ``keys``: a count of each of more and more groups, whose keys are found privately.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb

import unacorda
from tables import Report, add_json

COLUMNS = 20  # beside x and y
BUDGET = unacorda.ZCDP(1, delta="1e-6")
Ask = Callable[[], Any]
Seconds = tuple[float, float]


def people(rows: int, groups: int, where: Path, *, columns: int = 0) -> str:
    """A Parquet file of people with three rows each, in groups at random."""
    path = where / f"rows{rows}groups{groups}.parquet"
    more = "".join(f", (hash(i, {k + 3}) % 1000) / 10 AS c{k}" for k in range(columns))
    duckdb.sql(
        f"COPY (SELECT i // 3 AS id, (hash(i) % {groups})::VARCHAR AS g, "
        f"(hash(i, 1) % 1000) / 10 AS x, (hash(i, 2) % 1000) / 10 AS y, "
        f"chr(97 + (hash(i, 3) % 20)::INTEGER) AS letter{more} FROM range({rows}) t(i)) TO '{path}'"
    )
    return str(path)


def timed(asks: Mapping[str, Ask], rounds: int, *, warm: bool = True) -> dict[str, Seconds]:
    """Medians of seconds on the clock and of CPU, over interleaved rounds; warm: after one more."""
    found: dict[str, list[Seconds]] = {name: [] for name in asks}
    for number in range(rounds + warm):
        for name, ask in asks.items():
            clock, cpu = time.perf_counter(), time.process_time()
            ask()
            if number or not warm:
                found[name].append((time.perf_counter() - clock, time.process_time() - cpu))
    return {
        name: (statistics.median(a for a, _ in seen), statistics.median(b for _, b in seen))
        for name, seen in found.items()
    }


# ---- batches


def twenties() -> dict[str, dict[str, Any]]:
    """Twenty aggregates each, by what they are called."""
    mixed: dict[str, Any] = {}
    medians: dict[str, Any] = {}
    several: dict[str, Any] = {}
    sums: dict[str, Any] = {}
    for tag, column in enumerate(("x", "y", "x * y", "x - y")):
        low, high = (-100, 100) if "-" in column else (0, 10_000 if "*" in column else 100)
        mixed |= {
            f"s{tag}": unacorda.sum(column, low, high),
            f"m{tag}": unacorda.mean(column, low, high),
            f"v{tag}": unacorda.variance(column, low, high),
            f"c{tag}": unacorda.count(column),
        }
        sums[f"i{tag}"] = unacorda.count_if(f"{column} > 50")
        medians[f"q{tag}"] = unacorda.median(column, low, high)
        several[f"q{tag}"] = unacorda.quantiles(column, [0.25, 0.5, 0.75], low, high)
    return {
        "twenty sums and counts": mixed | sums,
        "sixteen and four medians": mixed | medians,
        "sixteen and four times three quantiles": mixed | several,
        "twenty sums of twenty columns": {
            f"s{k}": unacorda.sum(f"c{k}", 0, 100) for k in range(COLUMNS)
        },
    }


def batches(report: Report, rounds: int, threads: int | None) -> None:
    columns = [("asked", ""), ("s", ".3f"), ("CPU s", ".3f")]
    columns += [("times one", ".2f"), ("CPU times one", ".2f")]
    title = "### Twenty aggregates of 1,000,000 rows in 50 groups"
    row = report.table("batches", columns, title=title)
    with (
        tempfile.TemporaryDirectory() as place,
        unacorda.Session(
            {"t": people(10**6, 50, Path(place), columns=COLUMNS)},
            unit=unacorda.Person("id", max_rows=2),
            budget=BUDGET * 1_000_000,
            threads=threads,
        ) as session,
    ):
        start = session.table("t").group_by("g", keys=[str(k) for k in range(50)])
        queries = {"one sum": start.agg(s=unacorda.sum("x", 0, 100))}
        queries["one median"] = start.agg(s=unacorda.median("x", 0, 100))
        queries |= {name: start.agg(**given) for name, given in twenties().items()}
        asks: dict[str, Ask] = {name: asked(session, query) for name, query in queries.items()}
        single = [start.agg(**{n: a}) for n, a in twenties()["twenty sums and counts"].items()]
        asks["twenty sums and counts, a batch"] = asked(session, single)
        found = timed(asks, rounds)
        one = found["one sum"]
        for name, (clock, cpu) in found.items():
            row(name, clock, cpu, clock / one[0], cpu / one[1])


def asked(session: unacorda.Session, query: Any) -> Ask:
    return lambda: session.evaluate(query, budget=BUDGET)


# ---- groups


def every() -> dict[str, Any]:
    """Every aggregate, with bounds where it takes them."""
    ends, letters = (0, 100), list("abcdefghijklmnopqrst")
    return {
        "count": unacorda.count(),
        "people": unacorda.count_people(),
        "sum": unacorda.sum("x", *ends),
        "sum-found": unacorda.sum("x"),
        "mean": unacorda.mean("x", *ends),
        "weighted": unacorda.weighted_mean("x", "y", ends, ends),
        "proportion": unacorda.proportion("x > 50"),
        "ratio": unacorda.ratio("x", "y", ends, ends),
        "variance": unacorda.variance("x", *ends),
        "stdev": unacorda.stdev("x", *ends),
        "covariance": unacorda.covariance("x", "y", ends, ends),
        "correlation": unacorda.correlation("x", "y", ends, ends),
        "median": unacorda.median("x", *ends, resolution=0.2),
        "fine-median": unacorda.median("x", *ends),
        "interval": unacorda.median("x", *ends, resolution=0.2, interval=0.5),
        "quantiles": unacorda.quantiles("x", [0.25, 0.5, 0.75], *ends, resolution=0.2),
        "fine-quantiles": unacorda.quantiles("x", [0.25, 0.5, 0.75], *ends),
        "iqr": unacorda.iqr("x", *ends, resolution=0.2),
        "min": unacorda.min("x", *ends, resolution=0.2),
        "max": unacorda.max("x", *ends, resolution=0.2),
        "histogram": unacorda.histogram("x", range(0, 101, 10)),
        "equal-bins": unacorda.histogram("x", bins=4, lower=0, upper=100, resolution=0.2),
        "distinct": unacorda.count_distinct("letter"),
        "top": unacorda.top("letter", 3, letters),
        "find-bounds": unacorda.find_bounds("x"),
    }


def groups(
    report: Report, rounds: int, threads: int | None, sizes: list[int], only: list[str]
) -> None:
    """Seconds of every aggregate by the number of groups, and those that a group adds."""
    chosen = {name: one for name, one in every().items() if not only or name in only}
    found: dict[str, dict[int, Seconds]] = {name: {} for name in chosen}
    for size in sizes:
        with (
            tempfile.TemporaryDirectory() as place,
            unacorda.Session(
                {"t": people(300_000, size, Path(place))},
                unit=unacorda.Person("id", max_rows=3),
                budget=BUDGET * 1_000_000,
                threads=threads,
            ) as session,
        ):
            start = session.table("t").group_by("g", keys=[str(k) for k in range(size)])
            asks = {name: asked(session, start.agg(a=one)) for name, one in chosen.items()}
            asked(session, start.agg(n=unacorda.count()))()
            for name, seconds in timed(asks, rounds, warm=False).items():
                found[name][size] = seconds
    heads = [("aggregate", ""), *((f"{size:,}", ".3f") for size in sizes)]
    heads += [("us a group", ".1f"), ("times, per times groups", ".2f")]
    title = "### 300,000 rows in many groups: CPU s, and microseconds that a group adds"
    row = report.table("groups", heads, title=title)
    for name, seen in found.items():
        cpu = [seen[size][1] for size in sizes]
        grown = (cpu[-1] - cpu[0]) / max(sizes[-1] - sizes[0], 1) * 1e6
        ratio = cpu[-1] / cpu[0] / (sizes[-1] / sizes[0])
        row(name, *cpu, grown, ratio)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nThe process never had more than {most:,.0f} MB.", flush=True)


# ---- private keys


def keys(report: Report, rounds: int, threads: int | None, sizes: list[int]) -> None:
    columns = [("groups", ",.0f"), ("s with private keys", ".3f"), ("CPU s", ".3f")]
    columns += [("s with public keys", ".3f"), ("CPU s", ".3f"), ("keys found", ",.0f")]
    title = "### Private keys: 2,000,000 rows, a count of each group that is found"
    row = report.table("private-keys", columns, title=title)
    for size in sizes:
        with (
            tempfile.TemporaryDirectory() as place,
            unacorda.Session(
                {"t": people(2 * 10**6, size, Path(place))},
                unit=unacorda.Person("id", max_rows=3),
                budget=BUDGET * 10_000,
                threads=threads,
            ) as session,
        ):
            start = session.table("t")
            private = start.group_by("g", keys=unacorda.private_keys()).agg(n=unacorda.count())
            listed = [str(k) for k in range(size)]
            public = start.group_by("g", keys=listed).agg(n=unacorda.count())
            asks = {"private": asked(session, private), "public": asked(session, public)}
            seconds = timed(asks, rounds)
            times = [one for both in seconds.values() for one in both]
            found = len(session.evaluate(private, budget=BUDGET).keys)
        row(size, *times, found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tables = ["batches", "groups", "keys"]
    parser.add_argument("--tables", nargs="+", choices=tables, default=tables)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None, help="of the engine; all by default")
    parser.add_argument("--groups", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--only", nargs="+", choices=every(), default=[], help="aggregates")
    add_json(parser)
    options = parser.parse_args()
    with Report(__file__, options.json) as report:
        if "batches" in options.tables:
            batches(report, options.rounds, options.threads)
        if "groups" in options.tables:
            groups(report, options.rounds, options.threads, options.groups, options.only)
        if "keys" in options.tables:
            keys(report, options.rounds, options.threads, options.groups)


if __name__ == "__main__":
    main()
