"""What a step of schooling is worth: a private regression of incomes, and one in the clear.

    python examples/wages.py [--picture wages.svg]

The data are public (1,000 Californians of the US Census' Public Use Microdata Sample, bundled with
the package), so that ordinary least squares can stand beside the private fit. Who has no income has
no logarithm of one: her row stays, with weight 0, since leaving it out would tell how many such
there are. Needs `pip install 'unacorda[inference,plots,frames]'`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import csv
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unacorda import GDP
from unacorda.bits import RandomBits, SecureBits
from unacorda.inference import LinearRegression

mpl.use("Agg")
from matplotlib import pyplot as plt

Floats = NDArray[np.float64]

NAMES = ["decades of age - 4", "its square", "steps of schooling - 10", "married", "woman"]


def people() -> tuple[Floats, Floats]:
    """One row a person, and the logarithm to base 10 of her income, NaN where there is none."""
    file = resources.files("unacorda.cli") / "data" / "pums.csv"
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    column = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    decades = (column["age"] - 40) / 10
    x = np.column_stack(
        [decades, decades**2, column["educ"] - 10, column["married"], column["sex"]]
    )
    with np.errstate(divide="ignore"):
        y = np.log10(column["income"])
    return x, np.where(np.isfinite(y), y, np.nan)


def fitted(mu: float, *, bits: RandomBits) -> LinearRegression:
    """The private fit. Bounds are guesses of where most people are, made without the data."""
    x, y = people()
    named = pd.DataFrame(x, columns=NAMES)
    return LinearRegression(
        budget=GDP(mu),
        feature_bounds=([-3, 0, -6, 0, 0], [4, 12, 6, 1, 1]),
        target_bounds=(3, 6),
        bits=bits,
    ).fit(named, y)


def in_the_clear() -> tuple[Floats, Floats]:
    """Ordinary least squares of those with an income: coefficients and their standard errors."""
    x, y = people()
    earn = np.isfinite(y)
    rows, target = np.column_stack([np.ones(earn.sum()), x[earn]]), y[earn]
    theta = np.linalg.lstsq(rows, target, rcond=None)[0]
    residuals = target - rows @ theta
    bread = np.linalg.inv(rows.T @ rows)
    meat = (rows * residuals[:, None]).T @ (rows * residuals[:, None])
    return theta, np.sqrt(np.diag(bread @ meat @ bread))


def picture(model: LinearRegression, clear: tuple[Floats, Floats], path: Path) -> Any:
    """Both fits' coefficients but the intercept, with intervals; the private one's in two parts."""
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    at = np.arange(len(NAMES))
    axes.errorbar(
        clear[0][1:], at - 0.15, xerr=1.96 * clear[1][1:], fmt="o", capsize=3, label="in the clear"
    )
    whole = np.hypot(model.sampling_error_, model.privacy_error_)[1:]
    private = axes.errorbar(
        model.coef_, at + 0.15, xerr=1.96 * whole, fmt="s", capsize=3, label="private"
    )
    axes.errorbar(
        model.coef_,
        at + 0.15,
        xerr=1.96 * model.sampling_error_[1:],
        fmt="none",
        elinewidth=4,
        alpha=0.4,
        ecolor=private.lines[0].get_color(),
        label="of which sampling",
    )
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_yticks(at, NAMES)
    axes.invert_yaxis()
    axes.set_xlabel("change of the logarithm (base 10) of income, with 95 % intervals")
    axes.legend()
    figure.savefig(path)
    return figure


def main() -> None:
    """Print the table of a new fit and draw it."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("wages.svg"))
    ask.add_argument("--mu", type=float, default=1.0, help="the budget, in Gaussian DP")
    options = ask.parse_args()
    model = fitted(options.mu, bits=SecureBits())
    print(model.summary())
    clear = in_the_clear()
    school = 2 + NAMES.index("steps of schooling - 10")
    theta = np.append(model.intercept_, model.coef_)
    print(
        f"a step of schooling (of 16): {10 ** theta[school - 1] - 1:+.1%} of income, privately; "
        f"{10 ** clear[0][school - 1] - 1:+.1%} in the clear"
    )
    picture(model, clear, options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
