"""DuckDB and a local Spark on one Parquet file: the time of the same questions, warm.

python benchmarks/engines.py --rows 1_000_000 --people 100_000 --threads 2
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tacet
from tacet.query.plan import Query

KEYS = [f"k{index}" for index in range(20)]


def table(rows: int, people: int) -> pa.Table:
    drawn = np.random.default_rng(1)
    return pa.table(
        {
            "who": drawn.integers(0, people, rows),
            "key": np.array(KEYS)[drawn.integers(0, len(KEYS), rows)],
            "x": drawn.normal(50, 20, rows),
        }
    )


def questions(session: tacet.Session) -> dict[str, Query]:
    grouped = session.table("t").where("x > -20").group_by("key", keys=KEYS)
    return {
        "count, sum, mean": grouped.agg(
            n=tacet.count(), s=tacet.sum("x", 0, 100), m=tacet.mean("x", 0, 100)
        ),
        "median": grouped.agg(m=tacet.median("x", 0, 100)),
    }


def seconds(session: tacet.Session, query: Query) -> float:
    begun = time.perf_counter()
    session.evaluate(query, budget=tacet.PureDP("0.1"))
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        pq.write_table(table(asked.rows, asked.people), path)
        for engine in ("duckdb", "spark"):
            begun = time.perf_counter()
            session = tacet.Session(
                {"t": path},
                unit=tacet.Person("who", max_rows=8),
                budget=tacet.PureDP(100),
                engine=engine,
                threads=asked.threads,
            )
            print(f"{engine}: opened in {time.perf_counter() - begun:.2f} s")
            with session:
                for name, query in questions(session).items():
                    first, *rest = (seconds(session, query) for _ in range(3))
                    print(f"{engine}: {name}: {first:.2f} s, then {min(rest):.2f} s")


if __name__ == "__main__":
    main()
