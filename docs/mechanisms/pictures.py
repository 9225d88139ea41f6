"""Draws the pictures of these pages anew, from the formulas of the mechanisms; no noise is drawn.

    python docs/mechanisms/pictures.py [NAME ...]

Needs matplotlib (`pip install 'unacorda[plots]'`). Writes NAME.svg beside this file.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unacorda import ApproxDP, PureDP, accounting, mechanisms
from unacorda.mechanisms.data_dependent import Median

HERE = Path(__file__).parent
STYLE = {
    "svg.hashsalt": "unacorda",  # the same picture is the same file
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "white",
    # As in unacorda.plots: told apart by all, and by their strokes where they lie on each other.
    "axes.prop_cycle": mpl.cycler(
        color=["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"],
        linestyle=["-", "-", "--", "-", "-.", ":"],
    ),
}
DELTA = 1e-6


def numbers(left: Axes, right: Axes) -> None:
    """The standard deviation of one number, and of each of many that one person moves."""
    epsilons = np.geomspace(0.1, 10, 41)
    laws: dict[str, Callable[[float], float]] = {
        "Laplace": lambda e: math.sqrt(2) / e,
        "discrete Laplace (integers)": _integers,
        "Staircase": lambda e: (
            mechanisms.shaped.Staircase(epsilon=e, sensitivity=1).standard_deviation
        ),
        "Gaussian, delta = 1e-6": lambda e: _gaussian(e, 1.0),
    }
    for name, law in laws.items():
        left.loglog(epsilons, [law(float(f"{e:.4g}")) for e in epsilons], label=name)
    left.set(xlabel="epsilon", ylabel="standard deviation", title="one number of sensitivity 1")
    left.legend()
    moved = np.unique(np.geomspace(1, 1000, 40).astype(int))
    right.loglog(moved, [math.sqrt(2) * m for m in moved], label="Laplace")
    right.loglog(
        moved, [_gaussian(1.0, math.sqrt(m)) for m in moved], label="Gaussian, delta = 1e-6"
    )
    right.set(
        xlabel="numbers that one person moves by 1 each",
        ylabel="standard deviation of each",
        title="many numbers, epsilon = 1",
    )
    right.legend()


def _integers(epsilon: float) -> float:
    noise = mechanisms.DiscreteLaplace.for_guarantee(PureDP(epsilon), l1_sensitivity=1)
    return noise.standard_deviation


def _gaussian(epsilon: float, sensitivity: float) -> float:
    noise = mechanisms.Gaussian.for_guarantee(ApproxDP(epsilon, DELTA), l2_sensitivity=sensitivity)
    return noise.standard_deviation


def local(left: Axes, right: Axes) -> None:
    """The standard error of a rare category, and that of a mean."""
    sizes = np.unique(np.geomspace(2, 1000, 40).astype(int))
    kinds = {
        "RandomizedResponse": mechanisms.RandomizedResponse,
        "OUE": mechanisms.local.UnaryEncoding,
        "RAPPOR": partial(mechanisms.local.UnaryEncoding, variant="symmetric"),
        "SubsetSelection": mechanisms.local.SubsetSelection,
        "HadamardResponse": mechanisms.local.HadamardResponse,
        "LocalHashing": mechanisms.local.LocalHashing,
    }
    people = 100_000
    for name, kind in kinds.items():
        errors = [
            math.sqrt(kind(epsilon=1.0, categories=int(k)).variance(count=people)) for k in sizes
        ]
        left.loglog(sizes, errors, label=name)
    left.set(
        xlabel="categories",
        ylabel="standard error of a rare share",
        title="100,000 reports, epsilon = 1",
    )
    left.legend()
    epsilons = np.geomspace(0.1, 10, 41)
    for name, number in (
        ("Duchi", mechanisms.local.Duchi),
        ("Piecewise", mechanisms.local.Piecewise),
    ):
        errors = [
            math.sqrt(number(epsilon=float(f"{e:.4g}"), lower=-1, upper=1).variance(count=people))
            for e in epsilons
        ]
        right.loglog(epsilons, errors, label=name)
    right.set(
        xlabel="epsilon",
        ylabel="standard error of the mean, worst values",
        title="100,000 numbers in [-1, 1]",
    )
    right.legend()


def keys(left: Axes, right: Axes) -> None:
    """How likely a key is kept, by how many people have it."""
    counts = range(1, 61)
    for epsilon in (0.5, 1.0, 2.0):
        rule = mechanisms.PartitionSelection(epsilon=epsilon, delta=DELTA)
        left.plot(counts, [float(rule.probability(n)) for n in counts], label=f"epsilon {epsilon}")
    left.set(
        xlabel="people who have the key",
        ylabel="probability that it is named",
        title="PartitionSelection, delta = 1e-6",
    )
    left.legend()
    moved = range(1, 33)
    for name, kind in (
        ("ThresholdedLaplace", mechanisms.ThresholdedLaplace),
        ("ThresholdedGaussian", mechanisms.ThresholdedGaussian),
    ):
        guarantee = ApproxDP(1, DELTA)
        right.plot(
            moved,
            [kind.for_guarantee(guarantee, l0_sensitivity=m).threshold for m in moved],
            label=name,
        )
    right.set(
        xlabel="keys that one person may have",
        ylabel="threshold",
        title="noisy counts of keys, (1, 1e-6)",
    )
    right.legend()


def streams(left: Axes, right: Axes) -> None:
    """How far from the threshold a question must lie, by how many are asked and answered."""
    asked = np.unique(np.geomspace(1, 1e6, 30).astype(int))
    for name, monotone in (("general questions", False), ("monotone questions", True)):
        first = mechanisms.SparseVector(epsilon=1, sensitivity=1, threshold=0, monotone=monotone)
        widths = [first.error_bound(0.95, queries=int(n)) for n in asked]
        left.semilogx(asked, widths, label=name)
    left.set(
        xlabel="questions",
        ylabel="distance that is told apart, 95 %",
        title="the first answer, epsilon = 1",
    )
    left.legend()
    answers = np.unique(np.geomspace(1, 100, 25).astype(int))
    for name, refresh in (("one threshold for all", False), ("a fresh one each", True)):
        deviations = [
            mechanisms.SparseVector(
                epsilon=1, count=int(c), sensitivity=1, threshold=0, refresh=refresh
            ).standard_deviation
            for c in answers
        ]
        right.loglog(answers, deviations, label=name)
    right.set(
        xlabel="answers above",
        ylabel="standard deviation of a comparison",
        title="several answers, epsilon = 1 in all",
    )
    right.legend()


def selection(left: Axes, right: Axes) -> None:
    """What a choice loses on average, and how often a leader is told."""
    scores = np.linspace(0, 100, 21)
    epsilons = np.geomspace(0.1, 10, 41)
    drawn = []
    for epsilon in epsilons:
        law = mechanisms.Exponential(epsilon=float(f"{epsilon:.4g}"), sensitivity=1)
        drawn.append(float(np.exp(law.log_probabilities(scores)) @ (100 - scores)))
    left.loglog(epsilons, drawn, label="Exponential")
    flipped = [_regret_of_flips(scores, 2 / epsilon) for epsilon in epsilons]
    left.loglog(epsilons, flipped, label="PermuteAndFlip")
    left.set(
        xlabel="epsilon",
        ylabel="expected distance from the best score",
        title="scores 0, 5, ..., 100 of sensitivity 1",
    )
    left.legend()
    leads = np.linspace(0, 120, 241)
    for epsilon in (0.5, 1.0, 2.0):
        leader = mechanisms.selection.StableSelection(epsilon=epsilon, delta=DELTA, sensitivity=1)
        told = [float(leader.probability(float(lead))) for lead in leads]
        right.plot(leads, told, label=f"epsilon {epsilon}")
    right.set(
        xlabel="lead of the best score over the second",
        ylabel="probability that it is told",
        title="StableSelection, delta = 1e-6, sensitivity 1",
    )
    right.legend()


def _regret_of_flips(scores: np.ndarray, mean: float) -> float:
    """By the law of the largest of scores with exponential noise, integrated beyond the best."""
    best = float(scores.max())
    x = np.geomspace(1e-9, 60, 4001) * mean
    gone = np.exp(-(x[:, None] + best - scores) / mean)  # P(noise of a candidate beyond best + x)
    below = np.exp(np.log1p(-gone).sum(axis=1))
    winning = gone / mean / (1 - gone) * below[:, None]
    return float(np.trapezoid(winning @ (best - scores), x))


def totals(left: Axes, right: Axes) -> None:
    """Standard errors of running totals, over one stream and by its length, at rho = 1/2."""
    kinds: dict[str, Callable[[int, float], Any]] = {
        "BinaryTree": lambda steps, sigma: mechanisms.BinaryTree(
            sigma=sigma, l2_sensitivity=1, steps=steps, honaker=False
        ),
        "BinaryTree, honaker": lambda steps, sigma: mechanisms.BinaryTree(
            sigma=sigma, l2_sensitivity=1, steps=steps, honaker=True
        ),
        "SquareRootToeplitz": lambda steps, sigma: mechanisms.correlated.SquareRootToeplitz(
            sigma=sigma, l2_sensitivity=1, steps=steps
        ),
    }

    def errors(make: Callable[[int, float], Any], steps: int) -> np.ndarray:
        sigma = math.sqrt(2 * accounting.rho(make(steps, 1.0).event))
        found: np.ndarray = make(steps, float(f"{sigma:.6g}")).standard_errors()
        return found

    lengths = [2**k for k in range(1, 15)]
    for name, make in kinds.items():
        left.plot(range(1, 1025), errors(make, 1024), label=name, linewidth=1)
        right.semilogx(lengths, [errors(make, n).max() for n in lengths], label=name)
    right.semilogx(lengths, [math.sqrt(n) for n in lengths], "k:", label="noise on every value")
    right.set_ylim(0, 12)
    left.set(xlabel="step", ylabel="standard error of the total", title="1,024 steps, rho = 1/2")
    right.set(xlabel="steps", ylabel="largest standard error", title="rho = 1/2")
    left.set_ylim(top=13.5)  # room for the legend
    left.legend(loc="upper left")
    right.legend()


def tries(left: Axes, right: Axes) -> None:
    """How good the best of several runs is, and what running until success costs."""
    means, top = np.geomspace(1.1, 1000, 60), 0.02
    stops = 1 / means
    left.semilogx(
        means, 1 - stops * (1 - top) / (1 - (1 - stops) * (1 - top)), label="geometric, 3 epsilon"
    )
    stops = np.array([_logarithmic_stop(mean) for mean in means])
    left.semilogx(
        means,
        1 - np.log(1 - (1 - stops) * (1 - top)) / np.log(stops),
        label="logarithmic, 2 epsilon",
    )
    left.semilogx(means, -np.expm1(-means * top), label="Poisson, by its curve")
    left.set(
        xlabel="runs on average",
        ylabel="chance that the best is in the top 2 %",
        title="BestOf",
    )
    left.legend()
    failures = np.geomspace(0.001, 0.5, 30)
    for rounds in (2, 5, 20):
        costs = [
            mechanisms.retry.ConditionOnSuccess(
                guarantee=PureDP(1),
                test=ApproxDP(0.5, 1e-7),
                sensitivity=1,
                limit=3,
                failure=float(f"{failure:.4g}"),
                rounds=rounds,
            ).event
            for failure in failures
        ]
        right.loglog(failures, [float(cost.delta) for cost in costs], label=f"{rounds} rounds")
    right.set(
        xlabel="proved bound of a run's failure",
        ylabel="delta",
        title="ConditionOnSuccess, epsilon 1 and 0.5",
    )
    right.legend()


def data_dependent(left: Axes, right: Axes) -> None:
    """How far a private median is off, by the budget and by the range that is allowed for."""
    count = 1000
    shares = (np.arange(count) + 0.5) / count
    values = np.exp([NormalDist().inv_cdf(share) for share in shares])
    epsilons = np.geomspace(0.02, 5, 31)
    for selection, line in (("exponential", "-"), ("permute and flip", "--")):
        errors = [_median_error(values, 10**9, float(f"{e:.3g}"), selection) for e in epsilons]
        left.loglog(epsilons, errors, line, label=selection)
    left.loglog(epsilons, 1e9 / epsilons, label="Laplace, for the worst data")
    left.set(
        xlabel="epsilon",
        ylabel="expected error of the median, over the median",
        title="1,000 lognormal values, bounds 0 and 10^9",
    )
    left.legend()
    uppers = [10**k for k in range(1, 13)]
    for size, line in ((100, ":"), (1000, "-")):
        few = np.exp([NormalDist().inv_cdf((k + 0.5) / size) for k in range(size)])
        for epsilon in (0.5, 1.0):
            errors = [_median_error(few, upper, epsilon, "exponential") for upper in uppers]
            right.loglog(uppers, errors, line, label=f"{size:,} values, epsilon {epsilon}")
    right.loglog(uppers, [float(upper) for upper in uppers], "k--", label="Laplace, epsilon 1")
    right.set(
        xlabel="upper bound of the values",
        ylabel="expected error of the median, over the median",
        title="by the bound, exponential selection",
    )
    right.legend()


def _median_error(values: np.ndarray, upper: int, epsilon: float, selection: str) -> float:
    """The expected distance from the median over it, by the law of the answers."""
    mechanism = mechanisms.InverseSensitivity(
        epsilon=epsilon, statistic=Median(lower=0, upper=upper)
    )
    runs = mechanism.losses(values)
    truth = float(np.sort(values)[(values.size - 1) // 2])
    step = 2.0**mechanism.grid_log2
    ends = runs.starts * step - truth, (runs.starts + runs.counts - 1) * step - truth
    # The mean of |x| between two ends of one sign.
    away = np.abs(ends[0] + ends[1]) / 2
    levels = float(mechanism.factor) * runs.losses
    if selection == "exponential":
        weights = np.log(runs.counts) - levels
        chances = np.exp(weights - weights.max())
    else:
        top = float((np.log(runs.counts) - levels).max())
        x = np.linspace(0, top + 40, 4001)
        tails = np.exp(-(x[:, None] + levels))  # P(noise of one point beyond x + its level)
        with np.errstate(divide="ignore"):
            below = np.log1p(-np.minimum(tails, 1 - 1e-16))
        others = np.exp((below * runs.counts).sum(axis=1))[:, None]
        chances = np.trapezoid(runs.counts * tails / np.exp(below) * others, x, axis=0)
    return float((chances * away).sum() / chances.sum() / truth)


def _logarithmic_stop(mean: float) -> float:
    """The stop at which the logarithmic law has this mean, (1 / stop - 1) / ln(1 / stop)."""
    low, high = 1e-9, 1.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        found = (1 / middle - 1) / -math.log(middle)
        low, high = (middle, high) if found > mean else (low, middle)
    return high


PICTURES: dict[str, Callable[[Axes, Axes], None]] = {
    "numbers": numbers,
    "selection": selection,
    "local": local,
    "keys": keys,
    "streams": streams,
    "totals": totals,
    "tries": tries,
    "data_dependent": data_dependent,
}


def draw(name: str, folder: Path) -> Path:
    """Write the picture of this name; where it went."""
    place = folder / f"{name}.svg"
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 4), layout="constrained")
        PICTURES[name](*figure.subplots(1, 2))
        figure.savefig(place, metadata={"Date": None})
    return place


def main(names: list[str]) -> None:
    """Draw the pictures of these names, or all."""
    for name in names or list(PICTURES):
        draw(name, HERE)


if __name__ == "__main__":
    main(sys.argv[1:])
