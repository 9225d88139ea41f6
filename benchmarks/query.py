"""Grouped queries under differential privacy: seconds, memory and errors of unacorda and its peers.

    python benchmarks/query.py --data 1m 10m --query totals median
    python benchmarks/query.py --data 100m --tools unacorda --rounds 1 --repetitions 1 --limit 3600
    python benchmarks/query.py --data narrow --query totals sums median --repetitions 20 --rounds 1

Every tool answers the same question on the same Parquet file: each person keeps at most five rows
in all, then by group (public keys)

- ``totals``: count, sum(x), mean(x), with x in [0, 100];
- ``sums``: count and sum(x), from whose quotient a mean follows for nothing;
- ``median``: median(x).

``--guarantee pure`` (the default) gives one question epsilon = 1, pure, add/remove of a person, for
all its answers together; it is what all tools support. ``zcdp`` gives it rho = 1/2, which
SmartNoise has not. Plain DuckDB is the floor: the same GROUP BY, no bounding, no noise.

A time is that of one question on open data, calibration of noise included, import and opening not.
Rounds are interleaved: a fresh process for each tool and round, one question to warm up. Peak
memory is that of the process. Errors are against the exact answer, and are shown for ``narrow``,
where bounding changes nothing. "rows kept" is the noisy number of rows left after bounding over the
true one, a check that every tool bounded persons alike.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tables import Report, Rows, add_json
from tools import CACHE, environment

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """name: also of its script and requirements; what it can not answer, so that it is left out."""

    name: str
    private: bool = True
    queries: tuple[str, ...] = ("totals", "sums", "median")
    guarantees: tuple[str, ...] = ("pure", "zcdp")


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(name="unacorda"),
        Tool(name="opendp"),
        Tool(name="smartnoise", queries=("totals", "sums"), guarantees=("pure",)),
        Tool(name="duckdb", private=False),
    )
}


@dataclass(slots=True)
class Record:
    """What one tool did on one table and question, over all rounds."""

    version: str = ""
    seconds: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)
    answers: list[dict] = field(default_factory=list)
    noise: dict = field(default_factory=dict)
    failure: str = ""


def run(python: Path, tool: Tool, task: list[str], record: Record, *, limit: float) -> None:
    """One fresh process of a tool; its lines go into the record."""
    # Not imported here: a child's peak memory counts from what its parent held when it was started,
    # so this process stays small and the tables are made by another one.
    command = [python, HERE / "peers" / f"query_{tool.name}.py", *task]
    settings = dict(os.environ)
    if tool.name != "unacorda":
        settings.pop("PYTHONPATH", None)  # it may point at a checkout of unacorda
    try:
        done = subprocess.run(
            command, env=settings, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        record.failure = f"not done after {limit:.0f} s"
        return
    if done.returncode:
        record.failure = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return
    said = [line for line in done.stdout.splitlines() if line.startswith("{")]  # not its remarks
    for line in map(json.loads, said):
        match line["kind"]:
            case "opened":
                record.version = line["version"]
            case "repetition":
                (record.first if line["warm_up"] else record.seconds).append(line["seconds"])
                record.answers.append(line["answers"])
            case "end":
                record.peak_mib.append(line["peak_mib"])
                record.noise = line["noise"]


def measure(options: argparse.Namespace, data: str, query: str) -> tuple[dict, dict[str, Record]]:
    facts = json.loads((options.tables / f"{file_stem(options.tables, data)}.json").read_text())
    task = ["--data", str(options.tables / f"{file_stem(options.tables, data)}.parquet")]
    task += ["--query", query, "--guarantee", options.guarantee]
    task += ["--repetitions", str(options.repetitions), "--groups", str(facts["groups"])]
    task += ["--rows", str(facts["rows"]), "--max-rows", str(facts["max_rows"])]
    chosen = [
        TOOLS[name]
        for name in options.tools
        if query in TOOLS[name].queries and options.guarantee in TOOLS[name].guarantees
    ]
    records = {tool.name: Record() for tool in chosen}
    for turn in range(options.rounds):
        for tool in chosen[turn % len(chosen) :] + chosen[: turn % len(chosen)]:
            if not records[tool.name].failure:
                python = options.pythons[tool.name]
                run(python, tool, task, records[tool.name], limit=options.limit)
    return facts, records


def file_stem(tables: Path, data: str) -> str:
    """The newest recipe's files of that table."""
    return max(path.stem for path in tables.glob(f"visits-{data}-v*.json"))


def errors(record: Record, exact: dict[str, dict[str, float]]) -> dict[str, float]:
    """Root mean square error of each answer over all groups and questions; m* is s / n."""
    squares: defaultdict[str, list[float]] = defaultdict(list)
    for answers in record.answers:
        for group, truth in exact.items():
            given = dict(answers[group])
            if "s" in given:
                given["m*"] = given["s"] / max(given["n"], 1)
            for name, value in given.items():
                squares[name].append((value - truth[name[0]]) ** 2)
    return {name: math.sqrt(statistics.fmean(values)) for name, values in squares.items()}


def kept(record: Record, facts: dict) -> str | float:
    """Noisy rows left after bounding, over the true number."""
    totals = [sum(a["n"] for a in answers.values() if "n" in a) for answers in record.answers]
    return statistics.fmean(totals) / facts["rows_kept"] if any(totals) else "-"


def report_times(row: Rows, records: dict[str, Record], facts: dict) -> None:
    unacorda = records.get("unacorda", Record())
    ours = statistics.median(unacorda.seconds) if unacorda.seconds else None
    for name, record in records.items():
        if record.failure:
            row(name, record.version, f"failed: {record.failure}", *[None] * 6)
            continue
        median = statistics.median(record.seconds)
        row(
            name,
            record.version,
            median,
            min(record.seconds),
            max(record.seconds),
            statistics.median(record.first),
            max(record.peak_mib),
            ours / median if ours is not None else "-",
            kept(record, facts) if TOOLS[name].private else "-",
        )


def report_errors(row: Rows, records: dict[str, Record], facts: dict) -> None:
    for name, record in records.items():
        if record.failure or not TOOLS[name].private:
            continue
        found = ", ".join(f"{k} {v:.4g}" for k, v in errors(record, facts["exact"]).items())
        row(name, found, "; ".join(map(described, record.noise.items())))


def described(item: tuple[str, dict]) -> str:
    answer, noise = item
    law = f" {noise['law']} {noise['scale']:.4g}" if "law" in noise else ""
    return f"{answer}:{law}" + (f" (sd {noise['sd']:.4g})" if "sd" in noise else "")


TIMES = (
    *(("tool", ""), ("version", "")),
    *((f"{which} s", ".3f") for which in ("median", "fastest", "slowest", "first")),
    *(("peak MiB", ".0f"), ("unacorda : tool", ".2f"), ("rows kept", ".4f")),
)
ERRORS = (("tool", ""), ("RMSE against the exact answer", ""), ("noise that the tool states", ""))


def machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", nargs="+", default=["1m"], choices=["1m", "10m", "100m", "narrow"]
    )
    parser.add_argument("--query", nargs="+", default=["totals", "median"])
    parser.add_argument("--guarantee", choices=["pure", "zcdp"], default="pure")
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each tool")
    parser.add_argument("--repetitions", type=int, default=3, help="questions timed in a process")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a process may take")
    parser.add_argument("--tables", type=Path, default=CACHE / "data", help="where tables are kept")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--unacorda-python", type=Path, default=Path(sys.executable))
    add_json(parser)
    options = parser.parse_args()

    maker = [
        options.unacorda_python,
        HERE / "query_data.py",
        "--cache",
        options.tables,
        *options.data,
    ]
    subprocess.run(maker, check=True)
    options.pythons = {
        name: options.unacorda_python if name == "unacorda" else environment(name, options.venvs)
        for name in options.tools
    }
    budget = {"pure": "epsilon = 1, pure", "zcdp": "rho = 0.5, zCDP"}[options.guarantee]
    print(
        f"{machine()}; {options.rounds} processes, {options.repetitions} questions each; {budget}"
    )
    with Report(__file__, options.json) as report:
        for data, query in itertools.product(options.data, options.query):
            facts, records = measure(options, data, query)
            rows = facts["rows_of_a_person"]
            print(
                f"\n### {query}, {data}: {facts['rows']:,} rows, {facts['people']:,} people, "
                f"{facts['groups']} groups\n\nRows of a person: median {rows['median']:.0f}, 90 % "
                f"{rows['p90']:.0f}, 99 % {rows['p99']:.0f}, most {rows['most']}; "
                f"{facts['rows_kept']:,} rows are left at {facts['max_rows']} a person. "
                f"Arrays' SHA-256 {facts['sha256_of_arrays'][:16]}.\n"
            )
            report_times(report.table(f"{query}-{data}", TIMES), records, facts)
            if data == "narrow":
                print()
                report_errors(report.table(f"{query}-{data}-errors", ERRORS), records, facts)


if __name__ == "__main__":
    main()
