"""When flights leave late: a regression over a table where every aircraft has many rows.

    python examples/flight_delays.py [--picture flight_delays.svg]

The data are public (336,776 flights from New York in 2013, bundled with the package); an aircraft
stands for a person, with up to 575 flights. The fit runs in the engine, step by step, and no row
leaves it: what is protected is an aircraft with all of its flights, of which it counts at most 40.
Most flights leave in time and some leave hours late, so that the line is fitted by Huber's loss;
beside it stands the same fit with next to no noise.
Needs `pip install 'unacorda[inference,plots]'`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import unacorda
from unacorda.bits import RandomBits, SecureBits
from unacorda.inference import LinearRegression

mpl.use("Agg")
from matplotlib import pyplot as plt

FEATURES = {
    "hour - 12": "an hour later in the day",
    "distance / 1000 - 1": "a thousand miles farther",
    "origin = 'JFK'": "from Kennedy, not Newark",
    "origin = 'LGA'": "from LaGuardia, not Newark",
}


def fitted(mu: float, *, bits: RandomBits) -> Any:
    """The private line: minutes of delay at departure."""
    with resources.as_file(resources.files("unacorda.cli") / "data" / "flights.parquet") as path:
        session = unacorda.Session(
            {"flights": str(path)},
            unit=unacorda.Person("tailnum", max_rows=40),
            budget=unacorda.GDP(mu),
            columns={"hour": unacorda.Bounds(5, 23), "distance": unacorda.Bounds(0, 3000)},
            bits=bits,
        )
        return session.fit(
            LinearRegression(budget=session.remaining, target_bounds=(-30, 60)),
            session.table("flights").where("dep_delay IS NOT NULL"),
            features=list(FEATURES),
            target="dep_delay",
        )


def picture(private: Any, clear: Any, path: Path) -> Any:
    """Both fits' coefficients with their intervals."""
    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    at = np.arange(len(FEATURES))
    for model, label, marker, shift in (
        (clear, "next to no noise", "o", -0.15),
        (private, "private", "s", 0.15),
    ):
        low, high = model.conf_int()[1:].T
        half = (high - low) / 2
        axes.errorbar(model.coef_, at + shift, xerr=half, fmt=marker, capsize=3, label=label)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_yticks(at, list(FEATURES.values()))
    axes.invert_yaxis()
    axes.set_xlabel("minutes later at departure, with 95 % intervals")
    axes.legend()
    figure.savefig(path)
    return figure


def main() -> None:
    """Fit, print the table and draw it."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("flight_delays.svg"))
    ask.add_argument("--mu", type=float, default=1.0, help="the budget, in Gaussian DP")
    options = ask.parse_args()
    private = fitted(options.mu, bits=SecureBits())
    print(private.summary())
    clear = fitted(1000.0, bits=SecureBits())
    for text, one, other in zip(FEATURES.values(), private.coef_, clear.coef_, strict=True):
        print(f"{text}: {one:+.2f} minutes; with next to no noise {other:+.2f}")
    picture(private, clear, options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
