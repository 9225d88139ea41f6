"""DuckDB and a local Spark on the same Parquet files, joins included: seconds and memory.

    python benchmarks/engines.py --data 1m 10m
    python benchmarks/engines.py --data 10m --query totals lookup --rounds 3 --memory 6GB

The tables are those of ``query_data.py``: visits of people, 10 rows a person on average; their
laboratory results, half as many rows, of the same people; and a public table of 50 towns. Each
person keeps at most five rows. The questions:

- ``totals``: by group (50 public keys) count, sum and mean of x;
- ``median``: by group the median of x;
- ``lookup``: joined with the public table by a column, by region count and sum of the towns' size;
- ``people``: each person's visits joined with her own results, up to three rows of each: count, and
  the sum of the results.

Engines take turns: a fresh process for each engine, table and round, which opens a session, asks
every question once to warm up and then some more times. A time is that of one question, from the
call to the release. Peak memory is that of the process and, with Spark, of the Java machine beside
it, which takes up to ``--memory`` before it clears up.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from query import machine
from tables import Report, add_json
from tools import CACHE

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent)]  # the checkout and its tests

ENGINES = ("duckdb", "spark")
QUERIES = ("totals", "median", "lookup", "people")


def work(options: argparse.Namespace) -> None:
    """One process: a line of JSON with the seconds of opening, of each question, and the memory."""
    import unacorda

    begun = time.perf_counter()
    engine = options.engine
    if engine == "spark":
        from tests.support.local_spark import local_spark

        gigabytes = options.memory.upper().rstrip("B").removesuffix("G")
        engine = local_spark(memory=f"{int(float(gigabytes) * 1000)}m", threads=options.threads)
    files = {name: options.tables / f"{name}.parquet" for name in ("visits", "results")}
    session = unacorda.Session(
        files,
        unit=unacorda.Person("person_id", max_rows=5),
        public={"towns": options.tables / "towns.parquet"},
        budget=unacorda.PureDP(10_000),
        engine=engine,
        memory_limit=options.memory,
        threads=options.threads,
    )
    opened = time.perf_counter() - begun
    visits = session.table("visits")
    x = {"s": unacorda.sum("x", 0, 100), "m": unacorda.mean("x", 0, 100)}
    groups = visits.group_by("grp", keys=[f"g{number:02d}" for number in range(50)])
    both = visits.join(session.table("results"), columns=["result"], max_rows=(3, 3))
    questions = {
        "totals": lambda: groups.agg(n=unacorda.count(), **x),
        "median": lambda: groups.agg(p=unacorda.median("x", 0, 100)),
        "lookup": lambda: (
            visits.join("towns", "grp")
            .group_by("region")
            .agg(n=unacorda.count(), s=unacorda.sum("size"))
        ),
        "people": lambda: both.agg(n=unacorda.count(), s=unacorda.sum("result", 0, 10)),
    }
    seconds = {}
    for name in options.query:
        seconds[name] = []
        for _ in range(1 + options.repetitions):
            begun = time.perf_counter()
            session.evaluate(questions[name](), budget=unacorda.PureDP(1))
            seconds[name].append(time.perf_counter() - begun)
    # Before the session closes, while Java runs.
    peak = sum(peak_of(process) for process in family(os.getpid())) / 1024
    print(json.dumps({"opened": opened, "seconds": seconds, "peak_mib": peak}))


def family(process: int) -> Iterator[int]:
    """A process and all that it has started, by Linux's own account."""
    yield process
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def peak_of(process: int) -> int:
    """The most memory that a process has had, in KiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure(options: argparse.Namespace, tables: Path) -> dict[str, list[dict]]:
    found = defaultdict(list)
    for turn in range(options.rounds):
        for engine in (ENGINES, ENGINES[::-1])[turn % 2]:
            command = [sys.executable, __file__, "--engine", engine, "--tables", tables]
            command += ["--memory", options.memory, "--repetitions", str(options.repetitions)]
            command += ["--threads", str(options.threads), "--query", *options.query]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["no message"])[-1]
                print(f"{engine} failed: {said}", file=sys.stderr)
                continue
            found[engine].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def report_data(
    report: Report, data: str, found: dict[str, list[dict]], queries: list[str]
) -> None:
    seconds = [("DuckDB", ".2f"), ("its first", ".2f"), ("Spark", ".2f"), ("its first", ".2f")]
    row = report.table(f"seconds-{data}", [(data, ""), *seconds, ("Spark : DuckDB", ".1f")])
    for query in queries:
        cells: list[str | float] = []
        medians: list[float] = []
        for engine in ENGINES:
            rounds = [one["seconds"][query] for one in found.get(engine, [])]
            if not rounds:
                cells += ["-", "-"]
                continue
            medians.append(statistics.median(s for times in rounds for s in times[1:]))
            first = statistics.median(times[0] for times in rounds)
            cells += [medians[-1], first]
        row(query, *cells, medians[1] / medians[0] if len(medians) == 2 else "-")
    for engine, rounds in found.items():
        opened = statistics.median(one["opened"] for one in rounds)
        peak = max(one["peak_mib"] for one in rounds)
        print(f"\n{engine}: opened in {opened:.1f} s, peak {peak:,.0f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=["1m"], choices=["1m", "10m", "100m"])
    parser.add_argument("--query", nargs="+", default=list(QUERIES), choices=QUERIES)
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each engine")
    parser.add_argument("--repetitions", type=int, default=3, help="questions timed in a process")
    parser.add_argument("--memory", default="3GB", help="memory_limit of the sessions")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tables", type=Path, default=CACHE / "data", help="where tables are kept")
    add_json(parser)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)  # one process's work
    options = parser.parse_args()
    if options.engine:
        work(options)
        return
    maker = [sys.executable, HERE / "query_data.py", "--cache", options.tables, "--joined"]
    subprocess.run([*maker, *options.data], check=True)
    print(
        f"{machine()}; {options.threads} threads, memory_limit {options.memory}; "
        f"{options.rounds} processes, {options.repetitions} questions each after a first"
    )
    with Report(__file__, options.json) as report:
        for data in options.data:
            tables = options.tables / f"joined-{data}"
            rows = json.loads((tables / "rows.json").read_text())
            print(f"\n### {data}: {', '.join(f'{n:,} {name}' for name, n in rows.items())}\n")
            report_data(report, data, measure(options, tables), options.query)


if __name__ == "__main__":
    main()
