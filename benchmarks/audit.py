"""How near audits come to the truth, and how long they take.

    python benchmarks/audit.py [--runs 21] [--sizes 1000 10000 100000]

The Gaussian mechanism at epsilon 1, 4 and 8 (delta 1e-5), one score a canary: the median of 95 %
bounds over runs, by method; beside one_run stands the bound of the published formula of Steinke,
Nasr and Jagielski (2023), computed here from its text with SciPy. Then the seconds of a p-value, of
a whole bound, and of the exact curve of a mechanism with 10,000 outputs.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tacet.audit import HockeyStick, anytime, many_runs, one_run, one_run_f_dp
from tacet.audit.guesses import p_value
from tacet.privacy.conversions import gdp_from_approx_dp

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DELTA = 1e-5
EPSILONS = (1.0, 4.0, 8.0)


def published(scores: Floats, coins: Bools, *, guesses: int) -> float:
    """The bound as its paper writes it, by bisection; every i up to the number of right guesses."""
    order = np.argsort(-scores, kind="stable")
    inside = (guesses + 1) // 2
    right = int(coins[order[:inside]].sum() + (~coins[order[inside - guesses :]]).sum())

    def rejects(epsilon: float) -> bool:
        q = 1 / (1 + np.exp(-epsilon))
        beta = stats.binom.sf(right - 1, guesses, q)
        below = np.arange(right - 1, -1, -1)
        alpha = np.max(np.cumsum(stats.binom.pmf(below, guesses, q)) / np.arange(1, right + 1))
        return bool(beta + 2 * scores.size * DELTA * alpha <= 0.05)

    if not rejects(0.0):
        return 0.0
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low


def tightness(sizes: list[int], runs: int) -> None:
    methods: dict[str, Callable[[Floats, Bools], float]] = {
        "one_run": lambda x, c: one_run(x, c, delta=DELTA).epsilon,
        "one_run, m/16": lambda x, c: one_run(x, c, delta=DELTA, guesses=len(x) // 16).epsilon,
        "published, m/16": lambda x, c: published(x, c, guesses=len(x) // 16),
        "one_run_f_dp": lambda x, c: one_run_f_dp(x, c, delta=DELTA).epsilon,
        "anytime (pure)": lambda x, c: anytime(x, c).epsilon,
        "many_runs": lambda x, c: many_runs(x, c, delta=DELTA).epsilon,
        "many_runs, Gaussian": lambda x, c: many_runs(x, c, delta=DELTA, gaussian=True).epsilon,
    }
    print("| epsilon | canaries | " + " | ".join(methods) + " |")
    print("|---:|---:|" + "---:|" * len(methods))
    for epsilon in EPSILONS:
        mu = gdp_from_approx_dp(epsilon, delta=DELTA)
        for size in sizes:
            found: dict[str, list[float]] = {name: [] for name in methods}
            for seed in range(runs):
                drawn = np.random.default_rng(seed)
                coins = drawn.random(size) < 0.5
                scores = mu * coins + drawn.normal(size=size)
                for name, method in methods.items():
                    found[name].append(method(scores, coins))
            medians = " | ".join(f"{np.median(values):.2f}" for values in found.values())
            print(f"| {epsilon:g} | {size:,} | {medians} |", flush=True)


def seconds(rounds: int) -> None:
    drawn = np.random.default_rng(1)
    coins = drawn.random(100_000) < 0.5
    scores = 0.925 * coins + drawn.normal(size=100_000)
    weights = drawn.random(10_000)
    other = weights * np.exp(drawn.uniform(-1, 1, size=10_000))
    p, q = weights / weights.sum(), other / other.sum()
    tasks: dict[str, Callable[[], object]] = {
        "p-value, 1e5 canaries and guesses": lambda: p_value(
            right=61_000, guesses=100_000, canaries=100_000, epsilon=0.42, delta=DELTA
        ),
        "one_run, 1e5 canaries": lambda: one_run(scores, coins, delta=DELTA),
        "one_run_f_dp, 1e5 canaries": lambda: one_run_f_dp(scores, coins, delta=DELTA),
        "anytime, 1e5 canaries": lambda: anytime(scores, coins),
        "exact epsilon, 1e4 outputs": lambda: HockeyStick(p, q).epsilon(DELTA),
        "exact delta, 1e4 outputs": lambda: HockeyStick(p, q).delta(0.5),
    }
    print("\n| task | ms, median |\n|---|---:|")
    for name, task in tasks.items():
        spent = []
        for _ in range(rounds):
            began = time.perf_counter()
            task()
            spent.append(1000 * (time.perf_counter() - began))
        print(f"| {name} | {np.median(spent):.2f} |", flush=True)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--runs", type=int, default=21)
    ask.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000])
    options = ask.parse_args()
    tightness(options.sizes, options.runs)
    seconds(options.runs)


if __name__ == "__main__":
    main()
