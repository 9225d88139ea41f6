"""Regressions: what their intervals cover, how near they come to the truth, and how long they take.

    python benchmarks/inference.py [--tables coverage errors seconds] [--fits 200] [--venvs DIR]
    python benchmarks/inference.py --tables coverage --sizes 500 1000 --kinds "heavy tails"

coverage: 95 % intervals of the four slopes at mu = 1, features correlated by 0.5^|j - k|; widths
beside the same fit with (next to) no noise and beside least squares or maximum likelihood without
any privacy. errors: l2 error of all parameters at n = 100,000 and p = 20, beside diffprivlib in its
own virtual environment and beside no privacy; tools take turns, every round is new data. unacorda's
guarantee is (epsilon, 1e-6), diffprivlib's pure, both for one row replaced. seconds: one fit of a
million rows and 20 features of each model.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import expit

from tools import CACHE, Tool, environment
from unacorda import GDP, inference

Floats = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
SLOPES = np.array([1.0, -0.5, 0.25, 0.0])
KINDS = ("normal", "heavy tails", "unequal spread", "outliers", "logistic")
SIZES = (500, 1000, 2000, 5000, 20_000)
EPSILONS = (0.1, 0.3, 1.0)
Z = 1.959964


def people(n: int, kind: str, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    gaps = np.abs(np.subtract.outer(range(4), range(4)))
    x = drawn.normal(size=(n, 4)) @ np.linalg.cholesky(0.5**gaps).T
    if kind == "logistic":
        return x, (drawn.random(n) < expit(0.3 + x @ SLOPES)).astype(float)
    errors = drawn.standard_t(3, n) if kind == "heavy tails" else drawn.normal(size=n)
    if kind == "unequal spread":
        errors = errors * np.sqrt(0.5 + 0.5 * x[:, 0] ** 2)
    far = n * 3 // 100 if kind == "outliers" else 0
    x[:far] *= 5
    y = 1 + x @ SLOPES + errors
    y[:far] = 10.0
    return x, y


def interval(mu: float, x: Floats, y: Floats, kind: str) -> Floats:
    options: dict[str, Any] = {"budget": GDP(mu), "feature_bounds": (-3, 3)}
    model: Any = (
        inference.LogisticRegression(**options)
        if kind == "logistic"
        else inference.LinearRegression(target_bounds=(-8, 10), **options)
    )
    found: Floats = model.fit(x, y).conf_int()[1:]
    return found


def likeliest(x: Floats, y: Floats) -> Floats:
    """Maximum likelihood of the logistic model, the intercept first."""
    rows = np.column_stack([np.ones(len(x)), x])

    def value(theta: Floats) -> tuple[float, Floats]:
        at = rows @ theta
        return float(np.mean(np.logaddexp(0, at) - y * at)), rows.T @ (expit(at) - y) / len(y)

    found: Floats = optimize.minimize(value, np.zeros(rows.shape[1]), jac=True, method="BFGS").x
    return found


def classical_width(x: Floats, y: Floats, kind: str) -> float:
    """The mean width of the usual intervals of the slopes, without privacy."""
    rows = np.column_stack([np.ones(len(x)), x])
    if kind == "logistic":
        at = expit(rows @ likeliest(x, y))
        covariance = np.linalg.inv((rows * (at * (1 - at))[:, None]).T @ rows)
    else:
        residuals = y - rows @ np.linalg.lstsq(rows, y, rcond=None)[0]
        spread = float(residuals @ residuals) / (len(y) - rows.shape[1])
        covariance = np.linalg.inv(rows.T @ rows) * spread
    return float(np.mean(2 * Z * np.sqrt(np.diag(covariance)[1:])))


def coverage(kinds: list[str], sizes: list[int], fits: int) -> None:
    print("| design | n | coverage | width / no noise | width / classical | ms a fit |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in kinds:
        for n in sizes:
            drawn = np.random.default_rng(n)
            covered, widths, spent = [], [], 0.0
            for _ in range(fits):
                x, y = people(n, kind, drawn)
                began = time.perf_counter()
                low, high = interval(1, x, y, kind).T
                spent += time.perf_counter() - began
                free = interval(1000, x, y, kind)
                covered.append(np.mean((low <= SLOPES) & (high >= SLOPES)))
                private = float(np.mean(high - low))
                without = float(np.mean(free[:, 1] - free[:, 0]))
                widths.append((private / without, private / classical_width(x, y, kind)))
            ratios = np.median(widths, axis=0)
            print(
                f"| {kind} | {n:,} | {np.mean(covered):.3f} | {ratios[0]:.2f} | {ratios[1]:.2f} "
                f"| {1000 * spent / fits:.0f} |",
                flush=True,
            )


def started(venvs: Path) -> dict[str, Tool]:
    tools = {"unacorda": Tool([sys.executable, HERE / "peers" / "models_unacorda.py"], ours=True)}
    try:
        python = environment("diffprivlib", venvs)
        command = [python, HERE / "peers" / "models_diffprivlib.py"]
        tools["diffprivlib"] = Tool(command, ours=False)
    except (subprocess.CalledProcessError, ValueError) as error:
        print(f"diffprivlib is left out: {error}", file=sys.stderr)
    return tools


def errors(rounds: int, venvs: Path, rows: int, columns: int, length: float) -> None:
    tools = started(venvs)
    drawn = np.random.default_rng(20)
    fits: dict[str, Callable[[Floats, Floats], Floats]] = {
        "linear": lambda x, y: np.linalg.lstsq(
            np.column_stack([np.ones(len(x)), x]), y, rcond=None
        )[0],
        "logistic": likeliest,
    }
    names = list(tools)
    print(f"| model, n = {rows:,}, p = {columns} | epsilon | no privacy ", end="")
    print("".join(f"| {name} | / no privacy | s " for name in names) + "|")
    print("|---|---:|---:" + "|---:" * 3 * len(names) + "|")
    with tempfile.TemporaryDirectory() as folder:
        x_path, y_path = f"{folder}/x.npy", f"{folder}/y.npy"
        for model, classical in fits.items():
            for epsilon in EPSILONS:
                squares = dict.fromkeys(["free", *names], 0.0)
                seconds: dict[str, list[float]] = {name: [] for name in names}
                for _ in range(rounds):
                    slopes = drawn.normal(size=columns)
                    truth = np.append(0.3, length * slopes / np.linalg.norm(slopes))
                    x = drawn.normal(size=(rows, columns))
                    at = truth[0] + x @ truth[1:]
                    y = at + drawn.normal(size=rows)
                    if model == "logistic":
                        y = (drawn.random(rows) < expit(at)).astype(float)
                    np.save(x_path, x)
                    np.save(y_path, y)
                    squares["free"] += float(np.sum((classical(x, y) - truth) ** 2))
                    for name, tool in tools.items():
                        asked = {"model": model, "x": x_path, "y": y_path, "epsilon": epsilon}
                        told = tool.ask({**asked, "reach": 4.0, "span": 8.0})
                        squares[name] += float(np.sum((np.array(told["parameters"]) - truth) ** 2))
                        seconds[name].append(told["seconds"])
                size = {name: (total / rounds) ** 0.5 for name, total in squares.items()}
                line = f"| {model} | {epsilon:g} | {size['free']:.4f} "
                for name in names:
                    line += f"| {size[name]:.4f} | {size[name] / size['free']:.2f} "
                    line += f"| {np.median(seconds[name]):.2f} "
                print(line + "|", flush=True)
    for tool in tools.values():
        tool.stop()


def seconds(rows: int, columns: int, rounds: int) -> None:
    drawn = np.random.default_rng(7)
    x = drawn.normal(size=(rows, columns))
    at = 0.3 + x @ (drawn.normal(size=columns) / columns**0.5)
    options: dict[str, Any] = {"budget": GDP(1), "feature_bounds": (-3, 3)}
    reach: dict[str, Any] = {"target_bounds": (-8, 8)}
    asked: dict[str, tuple[Any, Floats]] = {
        "linear": (inference.LinearRegression(**options, **reach), at + drawn.normal(size=rows)),
        "logistic": (inference.LogisticRegression(**options), drawn.random(rows) < expit(at)),
        "Poisson": (
            inference.PoissonRegression(largest=20, **options),
            drawn.poisson(np.exp(at / 2)).astype(float),
        ),
        "quantile": (inference.QuantileRegression(quantile=0.5, **options, **reach), at),
    }
    print(f"| {rows:,} x {columns} | s, median of {rounds} | CPU s |")
    print("|---|---:|---:|")
    for name, (model, y) in asked.items():
        spent = []
        for _ in range(rounds):
            began, used = time.perf_counter(), time.process_time()
            model.fit(x, y)
            spent.append((time.perf_counter() - began, time.process_time() - used))
        clock, cpu = np.median(spent, axis=0)
        print(f"| {name} | {clock:.2f} | {cpu:.2f} |", flush=True)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = ("coverage", "errors", "seconds")
    ask.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    ask.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    ask.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    ask.add_argument("--fits", type=int, default=200, help="a design and size, for coverage")
    ask.add_argument("--rounds", type=int, default=4, help="of errors and seconds")
    ask.add_argument("--rows", type=int, default=1_000_000, help="of the table of seconds")
    ask.add_argument("--length", type=float, default=1.0, help="of the true slopes, for errors")
    ask.add_argument("--venvs", type=Path, default=CACHE)
    options = ask.parse_args()
    if "coverage" in options.tables:
        coverage(options.kinds, options.sizes, options.fits)
    if "errors" in options.tables:
        errors(options.rounds, options.venvs, 100_000, 20, options.length)
    if "seconds" in options.tables:
        seconds(options.rows, 20, options.rounds)


if __name__ == "__main__":
    main()
