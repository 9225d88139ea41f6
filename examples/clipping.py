"""Why weights, and not clipped gradients, where coefficients are to be believed.

    python examples/clipping.py [--people 20000] [--picture clipping.svg]

Made-up people say yes or no, with log odds -1 + x0 - x1 / 2; features are skewed. Noisy stochastic
gradient descent with clipped gradients fits them at several clips. `LogisticRegression`, which
gives less weight to people with extreme features, fits them at the same budget. A small clip biases
the coefficients for any number of people; a large one adds noise. A harmless clip is not known
beforehand, and choosing one from the data costs budget. Weights that depend only on the features
cause no bias. Needs `pip install 'unacorda[inference,plots]'`.
Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003 (weights under privacy).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

mpl.use("Agg")
from matplotlib import pyplot as plt

from unacorda import ApproxDP
from unacorda.bits import RandomBits, SecureBits
from unacorda.inference import LogisticRegression, NoisySGD
from unacorda.inference.losses import Logistic

Floats = NDArray[np.float64]

TRUTH = np.array([-1.0, 1.0, -0.5])
CLIPS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
BUDGET = ApproxDP(2, 1e-6)
BOUNDS = (0, 4)


def people(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    """Two skewed features, and 0 or 1."""
    x = drawn.exponential(size=(n, 2))
    odds = np.exp(TRUTH[0] + x @ TRUTH[1:])
    return x, (drawn.random(n) < odds / (1 + odds)).astype(np.float64)


def by_clips(x: Floats, y: Floats, *, bits: RandomBits) -> Floats:
    """The coefficients, one row a clip."""
    rows = []
    for clip in CLIPS:
        model = NoisySGD(
            loss=Logistic(),
            budget=BUDGET,
            clip=clip,
            learning_rate=0.5 / min(clip, 1.0),
            steps=400,
            feature_bounds=BOUNDS,
            bits=bits,
        ).fit(x, y)
        rows.append([model.intercept_, *model.coef_])
    return np.array(rows)


def by_weights(x: Floats, y: Floats, *, bits: RandomBits) -> tuple[Floats, Floats]:
    """The coefficients and their intervals."""
    model = LogisticRegression(budget=BUDGET, feature_bounds=BOUNDS, bits=bits).fit(x, y)
    return np.append(model.intercept_, model.coef_), model.conf_int()


def picture(clipped: Floats, weighted: Floats, intervals: Floats, path: Path) -> Any:
    """Both slopes against the clip, beside the weighted ones with their intervals."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for place, colour in ((1, "C0"), (2, "C3")):
        truth = "truth" if place == 1 else None
        axes.axhline(TRUTH[place], color="0.6", linewidth=0.8, label=truth)
        name = f"x{place - 1}"
        axes.plot(CLIPS, clipped[:, place], "o-", color=colour, label=f"{name}, clipped")
        low, high = intervals[place]
        axes.axhspan(low, high, color=colour, alpha=0.2)
        axes.axhline(weighted[place], color=colour, linestyle="--", label=f"{name}, weighted")
    axes.set(xscale="log", xlabel="length to which gradients are clipped", ylabel="slope")
    axes.set_xticks(CLIPS, [f"{clip:g}" for clip in CLIPS])
    axes.minorticks_off()
    axes.legend()
    figure.savefig(path)
    return figure


def main() -> None:
    """Fit, print the coefficients and draw them."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--people", type=int, default=20_000)
    ask.add_argument("--picture", type=Path, default=Path("clipping.svg"))
    options = ask.parse_args()
    x, y = people(options.people, np.random.default_rng(1))
    bits = SecureBits()
    clipped = by_clips(x, y, bits=bits)
    weighted, intervals = by_weights(x, y, bits=bits)
    print("truth: " + _told(TRUTH))
    for clip, row in zip(CLIPS, clipped, strict=True):
        print(f"clipped at {clip:g}: " + _told(row))
    ends = ", ".join(f"{low:.2f} to {high:.2f}" for low, high in intervals)
    print(f"weighted: {_told(weighted)}; 95 % intervals {ends}")
    picture(clipped, weighted, intervals, options.picture)
    print(f"drawn: {options.picture}")


def _told(row: Floats) -> str:
    return ", ".join(f"{number:.2f}" for number in row)


if __name__ == "__main__":
    main()
