"""Regressions: what their intervals cover, how near they come to the truth, and how long they take.

    python benchmarks/inference.py [--tables coverage errors seconds diagnostics] [--fits 200]
    python benchmarks/inference.py --tables coverage --sizes 1000 5000 --kinds linear median

coverage: 95 % intervals at mu = 1 on the designs that the tests use (dummies, categories, skewed,
correlated and loosely bounded features): the share of fits that have intervals, what these cover
(the mean over coefficients, and the least), their median width over that of the same fit without
privacy (of the intercept, and of the worst slope), and the error in errors of that fit; of lines
also the error of AdaSSP (Wang 2018, arXiv:1803.02596) at the same mu. errors: l2 error of all
parameters at n = 100,000 and p = 20, beside diffprivlib in its
own virtual environment and beside no privacy; tools take turns, every round is new data. unacorda's
guarantee is (epsilon, 1e-6), diffprivlib's pure, both for one row replaced. seconds: one fit of a
million rows and 20 features of each model. diagnostics: the error of areas under ROC curves, R^2
and other numbers of tables of scores and residuals, by their own formula and in `--fits` runs, what
their intervals cover, and the seconds of a table of a million rows.
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
from unacorda import GDP, ZCDP, inference

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.inference.designs import (
    DESIGNS,
    Design,
    logit_fit,
    ols,
    poisson_fit,
    quantile_errors,
)

Floats = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
KINDS = ("linear", "logistic", "median", "poisson")
SIZES = (5000,)
EPSILONS = (0.1, 0.3, 1.0)
Z = 1.959964


def likeliest(x: Floats, y: Floats) -> Floats:
    """Maximum likelihood of the logistic model, the intercept first."""
    rows = np.column_stack([np.ones(len(x)), x])

    def value(theta: Floats) -> tuple[float, Floats]:
        at = rows @ theta
        return float(np.mean(np.logaddexp(0, at) - y * at)), rows.T @ (expit(at) - y) / len(y)

    found: Floats = optimize.minimize(value, np.zeros(rows.shape[1]), jac=True, method="BFGS").x
    return found


def drawn_from(
    kind: str, design: Design, n: int, mean: float, drawn: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Features, targets and the true parameters."""
    theta = design.coefficients(0.3 if kind == "poisson" else 0.5)
    middle = design.draw(np.random.default_rng(0), 50_000).mean(axis=0)
    first = {"logistic": -0.4, "poisson": float(np.log(mean))}.get(kind, 1.0)
    truth = np.append(first - theta[1:] @ middle, theta[1:])
    x = design.draw(drawn, n)
    at = truth[0] + x @ truth[1:]
    if kind == "logistic":
        return x, (drawn.random(n) < expit(at)).astype(float), truth
    if kind == "poisson":
        return x, drawn.poisson(np.exp(np.minimum(at, 9))).astype(float), truth
    return x, at + drawn.normal(size=n), truth


def model_of(kind: str, design: Design, mean: float) -> Any:
    options: dict[str, Any] = {"budget": GDP(1), "feature_bounds": design.bounds}
    reach: dict[str, Any] = {"target_bounds": (-20, 20)}
    return {
        "linear": lambda: inference.LinearRegression(**options, **reach),
        "median": lambda: inference.QuantileRegression(**options, **reach),
        "logistic": lambda: inference.LogisticRegression(**options),
        "poisson": lambda: inference.PoissonRegression(largest=max(10, 10 * mean), **options),
    }[kind]()


def free_errors(kind: str, x: Floats, y: Floats) -> Floats:
    """Standard errors of the same fit without privacy."""
    if kind == "median":
        return quantile_errors(x, quantile=0.5, density=0.398942)
    return {"linear": ols, "logistic": logit_fit, "poisson": poisson_fit}[kind](x, y)[1]


def adassp(x: Floats, y: Floats, design: Design, drawn: np.random.Generator) -> Floats:
    """AdaSSP at mu = 1 for a replaced row, a third of mu^2 for each of its three releases."""
    lower, upper = np.array(design.lower), np.array(design.upper)
    half = (upper - lower) / 2
    a = np.column_stack([np.ones(len(x)), np.clip((x - lower - half) / half, -1, 1)])
    d, target, third = a.shape[1], np.clip(y / 20, -1, 1), 3**0.5
    square, noise = d, d * third
    least = np.linalg.eigvalsh(a.T @ a)[0] + noise * drawn.normal()
    least = max(least - noise * np.log(6 / 0.05) ** 0.5, 0.0)
    ridge = max((d * np.log(2 * d**2 / 0.05)) ** 0.5 * noise - least, 0.0)
    matrix = drawn.normal(size=(d, d)) * square * third
    matrix = np.triu(matrix, 1) / 1.0 + np.triu(matrix, 1).T + np.diag(np.diag(matrix) * 2**0.5)
    vector = a.T @ target + drawn.normal(size=d) * 2 * d**0.5 * third
    theta = 20 * np.linalg.solve(a.T @ a + matrix + ridge * np.eye(d), vector)
    return np.append(theta[0] - theta[1:] @ ((lower + half) / half), theta[1:] / half)


def coverage(kinds: list[str], sizes: list[int], fits: int, mean: float) -> None:
    print("| model | design | n | finite | coverage, least | width, worst slope | error | AdaSSP |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for kind in kinds:
        for n in sizes:
            for name, design in DESIGNS.items():
                drawn = np.random.default_rng(n)
                covered, widths, off, other = [], [], [], []
                for _ in range(fits):
                    x, y, truth = drawn_from(kind, design, n, mean, drawn)
                    free = free_errors(kind, x, y)
                    model = model_of(kind, design, mean).fit(x, y)
                    low, high = model.conf_int().T
                    if kind == "linear":
                        other.append((adassp(x, y, design, drawn) - truth) / free)
                    if np.isfinite(low).all():
                        covered.append((low <= truth) & (high >= truth))
                        widths.append((high - low) / (2 * Z * free))
                        off.append(((low + high) / 2 - truth) / free)
                line = f"| {kind} | {name} | {n:,} | {len(covered) / fits:.2f} "
                if covered:
                    each, wide = np.mean(covered, axis=0), np.median(widths, axis=0)
                    line += f"| {each.mean():.3f}, {each.min():.2f} "
                    line += f"| {wide[0]:.2f}, {wide[1:].max():.2f} "
                    line += f"| {np.mean(np.square(off)) ** 0.5:.2f} "
                else:
                    line += "| | | "
                line += f"| {np.mean(np.square(other)) ** 0.5:.1f} |" if other else "| |"
                print(line, flush=True)


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


SCORED = ("auc", "kolmogorov_smirnov", "accuracy", "precision", "recall", "f1", "brier", "log_loss")
RESIDUAL = ("r2", "rmse", "mae")
QUIET = GDP(10**9)


def scored(n: int, drawn: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """Calibrated scores and labels, 30 % positives, an area of 0.80."""
    y = drawn.random(n) < 0.3
    z = drawn.normal(size=n) + 1.19 * y
    return expit(1.19 * z - 1.19**2 / 2 + np.log(3 / 7)), y


def diagnostics(runs: int, rows: int) -> None:
    """Errors of the noise, by formula and simulated, and coverage of 95 % intervals."""
    print("| n | bins | rho | number | by formula | simulated | bias | coverage | both |")
    print("|---:|---:|---:|---|---:|---:|---:|---:|---:|")
    for n, bins, rho in (
        (500, 20, 0.1),
        (2000, 50, 0.01),
        (2000, 50, 0.1),
        (5000, 64, 0.1),
        (20_000, 100, 0.01),
        (20_000, 100, 0.1),
    ):
        drawn = np.random.default_rng(n)
        scores, y = scored(n, drawn)
        exact = inference.score_table(None, scores, y, budget=QUIET, bins=bins)
        fitted = drawn.uniform(0, 20, n)
        target = fitted + drawn.standard_t(5, n)
        named: dict[str, Any] = {"target_bounds": (0, 20), "residual_bound": 4, "bins": bins}
        right = inference.residual_table(None, fitted, target, budget=QUIET, **named)
        found: dict[str, list[tuple[float, float, bool]]] = {}
        both = 0
        for _ in range(runs):
            table = inference.score_table(None, scores, y, budget=ZCDP(rho), bins=bins)
            rest = inference.residual_table(None, fitted, target, budget=ZCDP(rho), **named)
            for own, other, names in ((table, exact, SCORED), (rest, right, RESIDUAL)):
                for name in names:
                    one, truth = getattr(own, name)(), getattr(other, name)().value
                    held = one.lower <= truth <= one.upper
                    found.setdefault(name, []).append((one.value - truth, one.noise_error, held))
            fresh = inference.score_table(None, *scored(n, drawn), budget=ZCDP(rho), bins=bins)
            area = fresh.auc(interval="both")
            both += area.lower <= 0.80 <= area.upper
        for name, lines in found.items():
            off, error, held = (
                np.array(column, dtype=float) for column in zip(*lines, strict=True)
            )
            seen = np.isfinite(off)
            line = f"| {n:,} | {bins} | {rho} | {name} | {np.median(error[seen]):.4f} "
            line += f"| {off[seen].std():.4f} | {off[seen].mean():.4f} | {held.mean():.3f} "
            print(line + (f"| {both / runs:.3f} |" if name == "auc" else "| |"), flush=True)
    drawn = np.random.default_rng(1)
    scores, y = scored(rows, drawn)
    start = time.process_time()
    inference.score_table(None, scores, y, budget=GDP(1))
    between = time.process_time()
    inference.residual_table(None, scores, y, budget=GDP(1), target_bounds=(0, 1), residual_bound=1)
    end = time.process_time()
    print(f"{rows:,} rows: scores {between - start:.2f} s, residuals {end - between:.2f} s")


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = ("coverage", "errors", "seconds", "diagnostics")
    ask.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    ask.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    ask.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    ask.add_argument("--fits", type=int, default=200, help="a design and size, for coverage")
    ask.add_argument("--mean", type=float, default=10.0, help="of counts, for coverage")
    ask.add_argument("--rounds", type=int, default=4, help="of errors and seconds")
    ask.add_argument("--rows", type=int, default=1_000_000, help="of the table of seconds")
    ask.add_argument("--length", type=float, default=1.0, help="of the true slopes, for errors")
    ask.add_argument("--venvs", type=Path, default=CACHE)
    options = ask.parse_args()
    if "coverage" in options.tables:
        coverage(options.kinds, options.sizes, options.fits, options.mean)
    if "errors" in options.tables:
        errors(options.rounds, options.venvs, 100_000, 20, options.length)
    if "seconds" in options.tables:
        seconds(options.rows, 20, options.rounds)
    if "diagnostics" in options.tables:
        diagnostics(options.fits, options.rows)


if __name__ == "__main__":
    main()
