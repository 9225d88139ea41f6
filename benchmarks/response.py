"""How many local reports a second are made and aggregated, beside OpenDP's calls.

    python benchmarks/response.py [--venvs DIR] [--people 1000000] [--rounds 5]

OpenDP randomises one value a call; it runs in a process and virtual environment of its own, as in
noise.py, and takes turns with unacorda, round by round. The best round counts. Times are processor
times of one thread, so that other load on the machine does not count.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from tables import Report, add_json
from tools import CACHE, environment
from unacorda import mechanisms

HERE = Path(__file__).parent
ORACLES = {
    "RandomizedResponse": mechanisms.RandomizedResponse,
    "HadamardResponse": mechanisms.local.HadamardResponse,
    "LocalHashing": mechanisms.local.LocalHashing,
    "OUE": mechanisms.local.UnaryEncoding,
    "RAPPOR": partial(mechanisms.local.UnaryEncoding, variant="symmetric"),
    "SubsetSelection": mechanisms.local.SubsetSelection,
}
CATEGORIES = {"RandomizedResponse": (2, 4, 1000), "HadamardResponse": (1000,)}
SOME = 100_000  # people, where every report has a bit for each of 1000 categories
PEERS = {
    ("RandomizedResponse", 2): "binary",
    ("RandomizedResponse", 4): "k = 4",
    ("RAPPOR", 1000): "1000 bits",
}


def seconds(task: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        task()
        best = min(best, time.process_time() - began)
    return best


def ours(people: int) -> dict[tuple[str, int], tuple[float, float]]:
    """Nanoseconds a report, made and aggregated, of each mechanism and number of categories."""
    generator, found = np.random.default_rng(1), {}
    for name, kind in ORACLES.items():
        for categories in CATEGORIES.get(name, (4, 1000)):
            mechanism = kind(epsilon=1.0, categories=categories)
            few = name not in CATEGORIES and categories > 4
            values = generator.integers(0, categories, SOME if few else people)
            found[name, categories] = timed(mechanism, values)
    for name in ("Duchi", "Piecewise"):
        mechanism = getattr(mechanisms.local, name)(epsilon=1.0, lower=0, upper=1)
        found[name, 0] = timed(mechanism, generator.random(people))
    return found


def timed(mechanism: object, values: np.ndarray) -> tuple[float, float]:
    reports = mechanism.encode(values)
    both = (lambda: mechanism.encode(values)), (lambda: mechanism.aggregate(reports))
    made, read = (seconds(task, 1) * 1e9 / values.size for task in both)
    return made, read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    add_json(parser)
    options = parser.parse_args()
    python = environment("opendp", options.venvs)
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    best: dict[tuple[str, int], tuple[float, float]] = {}
    peer: dict[str, float] = {}
    for _ in range(options.rounds):
        for key, times in ours(options.people).items():
            before = best.get(key, (float("inf"),) * 2)
            best[key] = min(before[0], times[0]), min(before[1], times[1])
        command = [python, HERE / "peers" / "response_opendp.py"]
        said = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        for name, nanoseconds in json.loads(said.stdout).items():
            peer[name] = min(peer.get(name, float("inf")), nanoseconds)
    columns = [("mechanism", ""), ("k", ".0f"), ("made, M/s", ".3g"), ("aggregated, M/s", ".3g")]
    columns += [("OpenDP, µs a call", ".3g"), ("OpenDP : unacorda", ",.0f")]
    with Report(__file__, options.json) as report:
        row = report.table("speed", columns)
        for (name, categories), (made, read) in best.items():
            other = peer.get(PEERS.get((name, categories), ""))
            cells = [None, None] if other is None else [other / 1e3, other / made]
            row(name, categories or "-", 1e3 / made, 1e3 / read, *cells)


if __name__ == "__main__":
    main()
