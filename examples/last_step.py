"""Why counting the noise of the last step alone gives intervals that lie.

    python examples/last_step.py [--fits 300] [--picture last_step.svg]

Noisy gradient descent adds noise at every step, and what it added early is carried on: the errors
of the steps obey S <- A S A' + step^2 noise^2, A = I - step M. A formula in the literature counts
the last one of them. Here a line is fitted by Huber's loss to made-up people, by plain descent with
noise worth mu = 1, and the slopes are held against three intervals. Feature correlations make some
directions slow, and it is there that old noise stays. A simulation, with NumPy's generator: for a
private fit take `unacorda.inference.LinearRegression`. Needs `pip install 'unacorda[plots]'`.
Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003 (noisy descent).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from rich.progress import track

mpl.use("Agg")
from matplotlib import pyplot as plt

Floats = NDArray[np.float64]

SLOPES = np.array([1.0, -0.5, 0.25, 0.0])
SIZES = (500, 1000, 2000, 5000, 20_000)
WAYS = ("none", "the last step's", "every step's")
HUBER, RADIUS, STEP, STEPS, MU = 1.345, 2.5, 0.5, 60, 1.0


def people(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    """Four correlated features, in a ball of the radius, and a target."""
    gaps = np.abs(np.subtract.outer(range(4), range(4)))
    x = drawn.normal(size=(n, 4)) @ np.linalg.cholesky(0.6**gaps).T
    x *= np.minimum(1, RADIUS / np.linalg.norm(x, axis=1))[:, None]
    return x, x @ SLOPES + drawn.normal(size=n)


def errors(x: Floats, y: Floats, theta: Floats, noise: float) -> list[Floats]:
    """Standard errors of the slopes, one list a way of counting."""
    n, size = x.shape
    residuals = y - x @ theta
    curvature = (x * (np.abs(residuals) <= HUBER)[:, None]).T @ x / n
    scores = x * np.clip(residuals, -HUBER, HUBER)[:, None]
    inverse = np.linalg.inv(curvature)
    sample = inverse @ (scores.T @ scores / n) @ inverse / n
    one = (STEP * noise) ** 2 * np.eye(size)
    carried, left = np.zeros((size, size)), np.eye(size) - STEP * curvature
    for _ in range(STEPS):
        carried = left @ carried @ left.T + one
    return [np.sqrt(np.diag(sample + extra)) for extra in (0 * one, one, carried)]


def one_fit(n: int, drawn: np.random.Generator) -> list[float]:
    """For each way of counting, the share of slopes that 95 % intervals hold."""
    x, y = people(n, drawn)
    noise = 2 * RADIUS * HUBER * math.sqrt(STEPS) / (n * MU)
    theta = np.zeros(4)
    for _ in range(STEPS):
        gradient = -x.T @ np.clip(y - x @ theta, -HUBER, HUBER) / n
        theta = theta - STEP * (gradient + noise * drawn.normal(size=4))
    off = np.abs(theta - SLOPES)
    return [float(np.mean(off <= 1.959964 * error)) for error in errors(x, y, theta, noise)]


def study(fits: int) -> Floats:
    """Coverage, one row a size, one column a way of counting."""
    drawn = np.random.default_rng(3)
    return np.array(
        [
            np.mean(
                [one_fit(n, drawn) for _ in track(range(fits), description=f"n = {n:,}")], axis=0
            )
            for n in SIZES
        ]
    )


def picture(found: Floats, path: Path) -> Any:
    """Coverage against the number of people, a line a way of counting."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.axhline(0.95, color="0.6", linewidth=0.8)
    for way, line, marker in zip(WAYS, found.T, "^sD", strict=True):
        axes.plot(SIZES, line, marker=marker, label=way)
    axes.set(xscale="log", xlabel="people", ylabel="share of 95 % intervals that hold the truth")
    axes.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
    axes.minorticks_off()
    axes.legend(title="noise counted")
    figure.savefig(path)
    return figure


def main() -> None:
    """Simulate, print the shares and draw them."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--fits", type=int, default=300, help="for each size")
    ask.add_argument("--picture", type=Path, default=Path("last_step.svg"))
    options = ask.parse_args()
    found = study(options.fits)
    for n, shares in zip(SIZES, found, strict=True):
        told = ", ".join(f"{way}: {share:.3f}" for way, share in zip(WAYS, shares, strict=True))
        print(f"n = {n}, noise counted {told}")
    picture(found, options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
