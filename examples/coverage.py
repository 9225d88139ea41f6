"""How often 95 % intervals hold the truth, with the noise counted and without.

    python examples/coverage.py [--fits 200] [--picture coverage.svg]

Private coefficients have two errors: that of the sample and that of the noise. Intervals that count
the sample alone, which is what a package says that takes released coefficients for ordinary ones,
cover too seldom. Data are made up; each fit spends mu = 1. Needs
`pip install 'unacorda[inference,plots]'`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from scipy.special import expit

from unacorda import GDP
from unacorda.bits import RandomBits, SecureBits
from unacorda.inference import LinearRegression, LogisticRegression

mpl.use("Agg")
from matplotlib import pyplot as plt

Floats = NDArray[np.float64]

SLOPES = np.array([1.0, -0.5, 0.25, 0.0])
SIZES = (500, 1000, 2000, 5000)
Z = 1.959964


@dataclass(frozen=True)
class Covered:
    """The shares of slopes that intervals held: both errors counted, or the sample's alone."""

    both: float
    sampling: float


def people(n: int, model: str, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    """Four correlated features, and a target: a line with heavy tails, or two classes."""
    gaps = np.abs(np.subtract.outer(range(4), range(4)))
    x = drawn.normal(size=(n, 4)) @ np.linalg.cholesky(0.5**gaps).T
    at = x @ SLOPES
    if model == "linear":
        return x, at + drawn.standard_t(3, n)
    return x, (drawn.random(n) < expit(at)).astype(float)


def one_fit(n: int, model: str, drawn: np.random.Generator, *, bits: RandomBits) -> Covered:
    """New people, a private fit, and what its intervals held."""
    x, y = people(n, model, drawn)
    fitted: Any = (
        LinearRegression(budget=GDP(1), feature_bounds=(-3, 3), target_bounds=(-8, 8), bits=bits)
        if model == "linear"
        else LogisticRegression(budget=GDP(1), feature_bounds=(-3, 3), bits=bits)
    ).fit(x, y)
    off = np.abs(np.ravel(fitted.coef_) - SLOPES)
    sampling, privacy = fitted.sampling_error_[1:], fitted.privacy_error_[1:]
    return Covered(
        both=float(np.mean(off <= Z * np.hypot(sampling, privacy))),
        sampling=float(np.mean(off <= Z * sampling)),
    )


def study(model: str, fits: int, *, bits: RandomBits) -> list[Covered]:
    """One line of the picture: by size, the averages over the fits."""
    drawn = np.random.default_rng(1)
    found = []
    for n in SIZES:
        all_of_them = [
            one_fit(n, model, drawn, bits=bits)
            for _ in track(range(fits), description=f"{model}, n = {n:,}")
        ]
        found.append(
            Covered(
                both=float(np.mean([each.both for each in all_of_them])),
                sampling=float(np.mean([each.sampling for each in all_of_them])),
            )
        )
    return found


def picture(found: dict[str, list[Covered]], path: Path) -> Any:
    """Coverage against the number of people, a panel a model."""
    figure, panels = plt.subplots(1, len(found), figsize=(9, 4), sharey=True, layout="constrained")
    for axes, (model, line) in zip(np.atleast_1d(panels), found.items(), strict=True):
        axes.axhspan(0.93, 0.97, color="0.9", label="95 %, give or take 2")
        axes.axhline(0.95, color="0.6", linewidth=0.8)
        axes.plot(SIZES, [each.both for each in line], "o-", label="sample and noise")
        axes.plot(SIZES, [each.sampling for each in line], "s--", label="sample alone")
        axes.set(title=model, xscale="log", xlabel="people")
        axes.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
        axes.minorticks_off()
    np.atleast_1d(panels)[0].set_ylabel("share of 95 % intervals that hold the truth")
    np.atleast_1d(panels)[0].legend()
    figure.savefig(path)
    return figure


def main() -> None:
    """Fit, print the shares and draw them."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--fits", type=int, default=200, help="for each model and size")
    ask.add_argument("--picture", type=Path, default=Path("coverage.svg"))
    options = ask.parse_args()
    found = {
        model: study(model, options.fits, bits=SecureBits()) for model in ("linear", "logistic")
    }
    for model, line in found.items():
        for n, each in zip(SIZES, line, strict=True):
            print(f"{model}, n = {n}: {each.both:.3f}; sample alone {each.sampling:.3f}")
    picture(found, options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
