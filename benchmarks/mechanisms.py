"""Mechanisms beside OpenDP, diffprivlib and PyDP: how many answers a second, and how far off.

    python benchmarks/mechanisms.py [--venvs DIR] [--rounds 5] [--tools NAMES] [--tasks NAMES]

Every tool is a process of its own, in its own virtual environment, made from
benchmarks/peers/NAME.txt and kept under --venvs; all live through the whole run and take turns.
What is timed is one release through the public interface, data and mechanism made before; the
best round counts. Tools that release one value a call are timed on as many values as three
seconds hold (marked with a star). Errors are of small data and many releases, at epsilon = 1
everywhere (and delta = 1e-6 for keys).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import NamedTuple

from tables import Cell, Report, Rows, add_json
from tools import CACHE, Tool, environment

HERE = Path(__file__).parent
TOOLS = ("unacorda", "opendp", "diffprivlib", "pydp")


class Task(NamedTuple):
    """sizes to time; size and releases of the error, what it is, and whether less is better."""

    sizes: tuple[int, ...]
    error_size: int
    releases: int
    measure: str
    less: bool = True


TASKS = {
    "selection": Task((10**3, 10**4, 10**5, 10**6), 1000, 3000, "mean regret"),
    "threshold": Task((10**5,), 0, 0, ""),
    "response": Task((10**6,), 2000, 40, "RMSE of a share"),
    "binary response": Task((10**6,), 2000, 40, "RMSE of a share"),
    "quantile": Task((10**6,), 2000, 100, "mean rank error"),
    "keys": Task((10**6,), 4000, 20, "share of keys kept", less=False),
    "noise": Task((10**6,), 1000, 20, "RMSE"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--unacorda-python", type=Path, default=Path(sys.executable))
    add_json(parser)
    options = parser.parse_args()
    tools = {
        name: Tool(
            [
                options.unacorda_python if name == "unacorda" else environment(name, options.venvs),
                HERE / "peers" / f"mechanisms_{name}.py",
            ],
            ours=name == "unacorda",
        )
        for name in options.tools
    }
    with Report(__file__, options.json) as report:
        sizes = sorted({size for task in options.tasks for size in TASKS[task].sizes})
        columns = [("task", ""), ("tool", ""), ("method", "")]
        columns += [(f"n = {size:,}", ",.3g") for size in sizes]
        row = report.table("releases", [*columns, ("beside", ">"), ("error", ">")])
        for task in options.tasks:
            compare(row, task, tools, sizes, options.rounds)
    for tool in tools.values():
        tool.stop()


def compare(row: Rows, task: str, tools: dict[str, Tool], sizes: list[int], rounds: int) -> None:
    """Time a task in turns, take errors, and report its table."""
    asked = TASKS[task]
    methods = [
        (name, method)
        for name, tool in tools.items()
        for method in tool.greeting
        if method.split("/")[0] == task
    ]
    best: dict[tuple[str, str, int], tuple[float, bool]] = {}
    for _ in range(rounds):
        for size in asked.sizes:
            for name, method in methods:
                found = tools[name].ask({"method": method, "size": size, "releases": 0})
                key = (name, method, size)
                pace = found["seconds"] / found["size"]
                if key not in best or pace < best[key][0]:
                    best[key] = pace, found["size"] < size
    largest = asked.sizes[-1]
    ours = min(
        (best[name, method, largest][0] for name, method in methods if name == "unacorda"),
        default=float("nan"),
    )
    for name, method in methods:
        cells: list[Cell] = []
        for size in sizes:
            pace, fewer = best.get((name, method, size), (math.nan, False))
            took = None if math.isnan(pace) else 1000 * pace * size
            cells.append(f"{took:.3g}*" if fewer else took)
        cells.append(f"{best[name, method, largest][0] / ours:.3g}x")
        if asked.measure:
            found = tools[name].ask(
                {"method": method, "size": asked.error_size, "releases": asked.releases}
            )
            cells.append(f"{asked.measure} {found['error']:.4g}")
        else:
            cells.append(None)
        row(task, name, method.split("/")[1], *cells)


if __name__ == "__main__":
    main()
