"""How near audits come to the truth, beside published formulas, and how long they take.

    python benchmarks/audit.py [--runs 21] [--sizes 1000 10000 100000] [--peers jax_privacy]

The Gaussian mechanism at epsilon 1, 4 and 8 (delta 1e-5), one score a canary. First the median of
95 % bounds over runs, by method. Then ratios ours : published at the same canaries, guesses and
confidence, for the formulas of Steinke, Nasr and Jagielski (2023, Theorem 5.2) and of Mahloujifar,
Melis and Chaudhuri (2024, Algorithm 3), computed here from their texts, and for jax_privacy. Then
how often bounds lie above the truth where canaries share one loss. Last the seconds of processor
time of a p-value, of a whole bound, and of the exact curve of a mechanism with 10,000 outputs.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tables import Report, add_json
from tools import CACHE, HERE, Tool, environment
from unacorda.audit import HockeyStick, anytime, many_runs, one_run, one_run_f_dp
from unacorda.audit.guesses import p_value
from unacorda.privacy.conversions import approx_dp_from_gdp, gdp_from_approx_dp

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DELTA = 1e-5
EPSILONS = (1.0, 4.0, 8.0)
FEW = 10_000  # with more canaries there are fewer runs beside the published ones, which take long
NOTHING = 1e-3
NORMAL = statistics.NormalDist()


def steinke(*, right: int, guesses: int, canaries: int) -> float:
    """Theorem 5.2 as its paper writes it; every i up to the number of right guesses."""

    def rejects(epsilon: float) -> bool:
        q = 1 / (1 + np.exp(-epsilon))
        beta = stats.binom.sf(right - 1, guesses, q)
        below = np.arange(right - 1, -1, -1)
        alpha = np.max(np.cumsum(stats.binom.pmf(below, guesses, q)) / np.arange(1, right + 1))
        return bool(beta + 2 * canaries * DELTA * alpha <= 0.05)

    return largest(rejects)


def mahloujifar(*, right: int, guesses: int, canaries: int) -> float:
    """Algorithm 3 as its paper writes it, every step taken; epsilon of the largest mu refused."""

    def rejects(mu: float) -> bool:
        r, h = 0.05 * right / canaries, 0.05 * (guesses - right) / canaries
        for i in range(right - 1, -1, -1):
            further = max(h, NORMAL.cdf(NORMAL.inv_cdf(r) - mu))
            r, h = r + i / (guesses - i) * (further - h), further
            if r + h > guesses / canaries:
                return True
        return False

    mu = largest(rejects)
    return approx_dp_from_gdp(mu, delta=DELTA) if mu else 0.0


def largest(rejects: Callable[[float], bool]) -> float:
    """The largest number that is refused, by bisection."""
    if not rejects(0.0):
        return 0.0
    low, high = 0.0, 20.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low


def seen(scores: Floats, coins: Bools, *, guesses: int) -> int:
    """How many guesses are right, half of them in and half of them out."""
    order = np.argsort(-scores, kind="stable")
    inside = (guesses + 1) // 2
    return int(coins[order[:inside]].sum() + (~coins[order[inside - guesses :]]).sum())


def drawn(size: int, mu: float, seed: int) -> tuple[Floats, Bools]:
    """Coins, and scores with normal noise."""
    generator = np.random.default_rng(seed)
    coins = generator.random(size) < 0.5
    return mu * coins + generator.normal(size=size), coins


def tightness(report: Report, sizes: list[int], runs: int) -> None:
    methods: dict[str, Callable[[Floats, Bools], float]] = {
        "one_run": lambda x, c: one_run(x, c, delta=DELTA).epsilon,
        "one_run_f_dp": lambda x, c: one_run_f_dp(x, c, delta=DELTA).epsilon,
        "anytime (pure)": lambda x, c: anytime(x, c).epsilon,
        "many_runs": lambda x, c: many_runs(x, c, delta=DELTA).epsilon,
        "many_runs, Gaussian": lambda x, c: many_runs(x, c, delta=DELTA, gaussian=True).epsilon,
    }
    heads = [(name, ".2f") for name in methods]
    row = report.table("bounds", [("epsilon", "g"), ("canaries", ",.0f"), *heads])
    for epsilon in EPSILONS:
        mu = gdp_from_approx_dp(epsilon, delta=DELTA)
        for size in sizes:
            found: dict[str, list[float]] = {name: [] for name in methods}
            for seed in range(runs):
                scores, coins = drawn(size, mu, seed)
                for name, method in methods.items():
                    found[name].append(method(scores, coins))
            row(epsilon, size, *map(np.median, found.values()))


def beside(report: Report, sizes: list[int], runs: int, peers: dict[str, Tool]) -> None:
    """Ratios of bounds, run by run: the median and the smallest, where the published one is not 0.

    A peer guesses "in" alone, at the highest scores, and so does ours beside it.
    """
    heads = ["one_run : Steinke", "one_run_f_dp : Mahloujifar"]
    heads += [f"{ours} : {peer}" for peer in peers for ours in ("one_run", "one_run_f_dp")]
    columns = [("epsilon", "g"), ("canaries", ",.0f"), ("guesses", ">")]
    row = report.table("ratios", columns + [(head, ">") for head in heads])
    for epsilon in EPSILONS:
        mu = gdp_from_approx_dp(epsilon, delta=DELTA)
        for size in sizes:
            few = runs if size <= FEW else max(3, runs // 7)
            for part in (32, 6, 2):
                cells = ratios(size, mu, size // part, few, peers)
                row(epsilon, size, f"m/{part}", *map(cell, cells))


def ratios(
    size: int, mu: float, guesses: int, runs: int, peers: dict[str, Tool]
) -> list[list[tuple[float, float]]]:
    """By column, pairs of our bound and the published one."""
    columns: list[list[tuple[float, float]]] = [[] for _ in range(2 + 2 * len(peers))]
    for seed in range(runs):
        scores, coins = drawn(size, mu, seed)
        given: dict[str, Any] = {"delta": DELTA, "guesses": guesses}
        told = {"right": seen(scores, coins, guesses=guesses), "guesses": guesses}
        found = [
            (one_run(scores, coins, **given).epsilon, steinke(**told, canaries=size)),
            (one_run_f_dp(scores, coins, **given).epsilon, mahloujifar(**told, canaries=size)),
        ]
        asked = {"seed": seed, "canaries": size, "mu": mu, "delta": DELTA}
        for peer in peers.values():
            for f_dp, ours in ((False, one_run), (True, one_run_f_dp)):
                theirs, _ = peer.ask({**asked, "guesses": guesses, "f_dp": f_dp})
                found.append((ours(scores, coins, sides="in", **given).epsilon, theirs))
        for column, pair in zip(columns, found, strict=True):
            column.append(pair)
    return columns


def by_itself(report: Report, sizes: list[int], runs: int, peers: dict[str, Tool]) -> None:
    """Medians of bounds where each tool chooses the guesses; jax_privacy by half of the runs."""
    heads = [(name, ".2f") for name in ("one_run_f_dp", *peers)]
    row = report.table("own-guesses", [("epsilon", "g"), ("canaries", ",.0f"), *heads])
    for epsilon in EPSILONS:
        mu = gdp_from_approx_dp(epsilon, delta=DELTA)
        for size in (size for size in sizes if size <= FEW):
            found: list[list[float]] = []
            for seed in range(runs):
                asked = {"seed": seed, "canaries": size, "mu": mu, "delta": DELTA}
                asked |= {"guesses": None, "f_dp": True}
                ours = one_run_f_dp(*drawn(size, mu, seed), delta=DELTA).epsilon
                found.append([ours, *(peer.ask(asked)[0] for peer in peers.values())])
            row(epsilon, size, *np.median(found, axis=0))


def cell(pairs: list[tuple[float, float]]) -> str:
    """The median ratio and the smallest one."""
    told = [ours / theirs for ours, theirs in pairs if theirs > NOTHING]
    return f"{np.median(told):.4f} (least {min(told):.4f})" if told else "both 0"


def shared(report: Report, runs: int) -> None:
    """All canaries have the loss of one draw: mu-GDP for each of them, and as far from apart as can
    be. Bounds that take losses to be independent, as those by order statistics do, are not bounds.
    """
    size, mu = 1000, 1.0
    above = {"one_run_f_dp": 0, "losses taken to be independent": 0}
    for seed in range(runs):
        generator = np.random.default_rng(seed)
        coins = generator.random(size) < 0.5
        loss = mu * abs(mu / 2 + generator.normal())
        kept = generator.random(size) < 1 / (1 + np.exp(-loss))
        scores = np.where(kept, coins, ~coins).astype(float)
        bound = one_run_f_dp(scores, coins, delta=DELTA, guesses=size).mu
        above["one_run_f_dp"] += bound is not None and bound > mu
        # Chernoff's bound on as few wrong guesses, each wrong with probability Phi(-mu / 2).
        wrong, rate = 1 - kept.mean(), NORMAL.cdf(-mu / 2)
        away = stats.entropy([wrong, 1 - wrong], [rate, 1 - rate])
        above["losses taken to be independent"] += wrong < rate and np.exp(-size * away) <= 0.05
    head = f"95 % bound, {size:,} canaries that share a loss, mu 1"
    row = report.table("shared-loss", [(head, ""), ("above the truth", ".1%")])
    for name, count in above.items():
        row(name, count / runs)


def seconds(report: Report, rounds: int) -> None:
    scores, coins = drawn(100_000, 0.925, 1)
    generator = np.random.default_rng(1)
    weights = generator.random(10_000)
    other = weights * np.exp(generator.uniform(-1, 1, size=10_000))
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
    row = report.table("times", [("task", ""), ("ms of processor time, median", ".2f")])
    for name, task in tasks.items():
        spent = []
        for _ in range(rounds):
            began = time.process_time()
            task()
            spent.append(1000 * (time.process_time() - began))
        row(name, np.median(spent))


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--runs", type=int, default=21)
    ask.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000])
    ask.add_argument("--peers", nargs="*", default=[], choices=["jax_privacy"])
    ask.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    add_json(ask)
    options = ask.parse_args()
    peers = {
        name: Tool(
            [environment(name, options.venvs), HERE / "peers" / f"audit_{name}.py"], ours=False
        )
        for name in options.peers
    }
    with Report(__file__, options.json) as report:
        tightness(report, options.sizes, options.runs)
        beside(report, options.sizes, options.runs, peers)
        if peers:
            by_itself(report, options.sizes, options.runs, peers)
        shared(report, 40 * options.runs)
        seconds(report, options.runs)
    for peer in peers.values():
        peer.stop()


if __name__ == "__main__":
    main()
