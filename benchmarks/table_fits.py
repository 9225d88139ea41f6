"""Regressions over Parquet in DuckDB: seconds (by the clock, of processors), peak memory, errors.

    python benchmarks/table_fits.py --cache DIR [--rows 10000000] [--features 5] [--models line]

The table (person BIGINT, x1, x2, ..., y, late DOUBLE; one row a person, correlated features) is
made once. Each fit runs in a process of its own, under GDP(1): from a session over the file, whose
unit is a row, or a person with at most one row, and from arrays that were read beforehand.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import unacorda
from tables import Report, add_json
from unacorda import inference

SEED = 20_241_101
WAYS = ("rows", "people", "arrays")
TARGETS = {"line": "y", "classes": "late"}


def slopes(features: int) -> Any:
    return np.linspace(1, -1, features)


def made(cache: Path, *, rows: int, features: int) -> Path:
    """The Parquet file, written in parts of a million rows."""
    path = cache / f"regression-{rows}-{features}.parquet"
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    drawn = np.random.default_rng(SEED)
    gaps = np.abs(np.subtract.outer(range(features), range(features)))
    root = np.linalg.cholesky(0.5**gaps).T
    names = [f"x{place + 1}" for place in range(features)]
    unfinished, writer = path.with_suffix(".part"), None
    for start in range(0, rows, 1_000_000):
        size = min(1_000_000, rows - start)
        x = drawn.normal(size=(size, features)) @ root
        linear = x @ slopes(features)
        part = {"person": np.arange(start, start + size)}
        part |= {name: x[:, place] for place, name in enumerate(names)}
        part["y"] = 1 + linear + drawn.standard_t(5, size)
        part["late"] = (drawn.random(size) < 1 / (1 + np.exp(-linear))).astype(float)
        table = pa.table(part)
        writer = writer or pq.ParquetWriter(unfinished, table.schema)
        writer.write_table(table, row_group_size=100_000)
    if writer:
        writer.close()
    unfinished.rename(path)
    return path


def fit(path: Path, way: str, kind: str, features: int, memory: str) -> dict[str, float]:
    """One fit, in this process."""
    names, target = [f"x{place + 1}" for place in range(features)], TARGETS[kind]
    given: dict[str, Any] = {"budget": unacorda.GDP(1), "feature_bounds": (-3, 3)}
    model = (
        inference.LinearRegression(target_bounds=(-10, 10), **given)
        if kind == "line"
        else inference.LogisticRegression(**given)
    )
    if way == "arrays":
        query = f"SELECT {', '.join([*names, target])} FROM '{path}'"
        columns = duckdb.connect().execute(query).fetchnumpy()
        x = np.stack([columns[name] for name in names], axis=1)
        start = time.perf_counter(), time.process_time()
        model.fit(x, columns[target])
    else:
        unit = unacorda.Row() if way == "rows" else unacorda.Person("person", max_rows=1)
        start = time.perf_counter(), time.process_time()
        given = {"unit": unit, "budget": unacorda.GDP(1), "memory_limit": memory}
        with unacorda.Session({"t": str(path)}, **given) as session:
            session.fit(model, "t", features=names, target=target)
    clock, busy = time.perf_counter() - start[0], time.process_time() - start[1]
    errors = (np.ravel(model.coef_) - slopes(features)) / np.ptp(model.conf_int()[1:], axis=1)
    return {
        "seconds": clock,
        "of processors": busy,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "largest error in interval widths": float(np.abs(errors).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=5)
    parser.add_argument("--models", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--memory", default="1.5GB", help="what the engine may hold")
    add_json(parser)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    path = made(given.cache, rows=given.rows, features=given.features)
    if given.one:
        way, kind = given.one
        print(json.dumps(fit(path, way, kind, given.features, given.memory)))
        return
    columns = [("rows x features", ">"), ("model", ""), ("unit", ""), ("s", ".3g")]
    columns += [("CPU s", ".3g"), ("peak MiB", ",.0f"), ("largest error in widths", ".3g")]
    shape = f"{given.rows:,} x {given.features}"
    with Report(__file__, given.json) as report:
        row = report.table("fits", columns)
        for kind, way in itertools.product(given.models, given.ways):
            command = [sys.executable, __file__, "--cache", str(given.cache), "--one", way, kind]
            command += ["--rows", str(given.rows), "--features", str(given.features)]
            command += ["--memory", given.memory]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            row(shape, kind, way, *json.loads(run.stdout).values())


if __name__ == "__main__":
    main()
