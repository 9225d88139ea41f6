"""Where noisy descent and noisy Newton steps go: ten fits of each, drawn over the loss.

    python examples/iterates.py [--picture iterates.svg]

A logistic model with two correlated features has a long narrow valley. Descent with steps as long
as the steepest direction allows creeps along it, and needs many steps, which share one budget:
each has more noise. A Newton step divides by the curvature, which has to be released too, and is
there after four. Both spend mu = 1 on 2,000 made-up people. A simulation, with NumPy's generator:
for a private fit take `unacorda.inference.LogisticRegression`.
Needs `pip install 'unacorda[plots]'`.
Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

mpl.use("Agg")
from matplotlib import pyplot as plt

Floats = NDArray[np.float64]

TRUTH = np.array([1.5, -1.0])
PEOPLE, RADIUS, MU, FITS = 2000, 2.0, 1.0, 10
DESCENT_STEPS, NEWTON_STEPS = 60, 4


def people() -> tuple[Floats, Floats]:
    """Two features with a correlation of 0.9, in a ball of the radius, and two classes."""
    drawn = np.random.default_rng(5)
    x = drawn.normal(size=(PEOPLE, 2)) @ np.linalg.cholesky([[1, 0.9], [0.9, 1]]).T
    x *= np.minimum(1, RADIUS / np.linalg.norm(x, axis=1))[:, None]
    return x, (drawn.random(PEOPLE) < expit(x @ TRUTH)).astype(float)


def gradient(x: Floats, y: Floats, theta: Floats) -> Floats:
    """Of the mean loss; no one person's part is longer than the radius."""
    found: Floats = x.T @ (expit(x @ theta) - y) / len(y)
    return found


def curvature(x: Floats, theta: Floats) -> Floats:
    """Of the mean loss; no one person's part has a norm above a quarter of the squared radius."""
    chance = expit(x @ theta)
    return (x * (chance * (1 - chance))[:, None]).T @ x / len(x)


def descent(x: Floats, y: Floats, drawn: np.random.Generator) -> Floats:
    """The places that noisy descent comes by, from 0: steps + 1 rows."""
    noise = 2 * RADIUS * math.sqrt(DESCENT_STEPS) / (len(y) * MU)
    step = 4 / RADIUS**2  # the loss is nowhere more curved than its inverse
    places = [np.zeros(2)]
    for _ in range(DESCENT_STEPS):
        now = places[-1]
        places.append(now - step * (gradient(x, y, now) + noise * drawn.normal(size=2)))
    return np.array(places)


def newton(x: Floats, y: Floats, drawn: np.random.Generator) -> Floats:
    """The places that noisy Newton steps come by; a quarter of the budget is for curvatures."""
    n = len(y)
    gradient_noise = 2 * RADIUS * math.sqrt(NEWTON_STEPS / 0.75) / (n * MU)
    matrix_noise = math.sqrt(2) * RADIUS**2 / 4 * math.sqrt(NEWTON_STEPS / 0.25) / (n * MU)
    places = [np.zeros(2)]
    for _ in range(NEWTON_STEPS):
        now = places[-1]
        upper = np.triu(matrix_noise * drawn.normal(size=(2, 2)))
        noisy = curvature(x, now) + upper + np.triu(upper, 1).T
        values, vectors = np.linalg.eigh(noisy)
        bent = (vectors * np.maximum(values, 2 * matrix_noise)) @ vectors.T
        slope = gradient(x, y, now) + gradient_noise * drawn.normal(size=2)
        places.append(now - np.linalg.solve(bent, slope))
    return np.array(places)


def minimum(x: Floats, y: Floats) -> Floats:
    """The estimate without noise."""
    theta = np.zeros(2)
    for _ in range(30):
        theta = theta - np.linalg.solve(curvature(x, theta), gradient(x, y, theta))
    return theta


def picture(paths: dict[str, list[Floats]], path: Path) -> Any:
    """Every fit's way over the contours of the loss, a panel a method."""
    x, y = people()
    best = minimum(x, y)
    first, second = np.meshgrid(np.linspace(-0.4, 3.2, 80), np.linspace(-2.6, 0.8, 80))
    places = np.stack([first.ravel(), second.ravel()])
    at = x @ places
    loss = np.mean(np.logaddexp(0, at) - y[:, None] * at, axis=0).reshape(first.shape)
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
    levels = loss.min() + 0.2 * np.linspace(0.01, 1, 12) ** 2
    for axes, (name, ways) in zip(panels, paths.items(), strict=True):
        axes.contour(first, second, loss, levels, colors="0.8", linewidths=0.8)
        for number, way in enumerate(ways):
            first_of = "" if number == 0 else "_"  # one of a kind stands in the legend
            axes.plot(
                *way.T,
                marker=".",
                markersize=4,
                linewidth=0.8,
                alpha=0.6,
                label=f"{first_of}a private fit, step by step",
            )
            axes.plot(*way[-1], "ko", markersize=4, label=f"{first_of}its last step")
        axes.plot(*best, "r*", markersize=14, label="without noise")
        axes.set(title=name, xlabel="first coefficient", xlim=(-0.4, 3.2), ylim=(-2.6, 0.8))
    panels[0].set_ylabel("second coefficient")
    panels[0].legend(loc="lower left")
    figure.savefig(path)
    return figure


def main() -> None:
    """Walk, print how far from the noiseless estimate the ends lie, and draw."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("iterates.svg"))
    options = ask.parse_args()
    x, y = people()
    best, drawn = minimum(x, y), np.random.default_rng(8)
    methods: dict[str, Callable[[Floats, Floats, np.random.Generator], Floats]] = {
        f"descent, {DESCENT_STEPS} steps": descent,
        f"Newton, {NEWTON_STEPS} steps": newton,
    }
    paths = {name: [walk(x, y, drawn) for _ in range(FITS)] for name, walk in methods.items()}
    for name, ways in paths.items():
        ends = np.array([way[-1] for way in ways])
        off = float(np.sqrt(np.mean(np.sum((ends - best) ** 2, axis=1))))
        print(f"{name}: the ends are {off:.3f} from the estimate without noise (root mean square)")
    picture(paths, options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
