"""Draws every picture of the gallery anew, from numbers that are computed here.

    python docs/gallery.py [--folder docs/gallery] [NAME ...]

Needs matplotlib (`pip install 'unacorda[plots]'`). Writes NAME.svg. The bits of all noise come from
fixed seeds, so that the same numbers make the same picture.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import datetime as dt
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

import unacorda
from unacorda import ZCDP, ApproxDP, PureDP, SeededBits, accounting, events, plots
from unacorda.accounting.pld.distribution import PrivacyLossDistribution
from unacorda.attacks import error_region, membership
from unacorda.inference import (
    LinearRegression,
    RidgeRegression,
    ValidationCurve,
    importance,
    residual_table,
    score_table,
)
from unacorda.mechanisms import Gaussian
from unacorda.privacy.tradeoff import TradeoffCurve

HERE = Path(__file__).parent
STYLE = {"svg.hashsalt": "unacorda", "svg.fonttype": "none"}  # the same picture is the same file
DELTA = 1e-5


def tradeoff() -> Any:
    """Normal noise of multiplier 1, promised and audited by 4,000 runs; and a promise too good."""
    rates = np.union1d(np.linspace(0, 1, 101), np.geomspace(1e-5, 0.01, 20))  # steep near 0
    curves = {}
    for name, noise in (("promised: multiplier 1", 1.0), ("refuted: multiplier 2", 2.0)):
        curve = accounting.tradeoff(events.Gaussian(noise_multiplier=noise))
        curves[name] = rates, [curve.beta(alpha=float(rate)) for rate in rates]
    kind = np.arange(4_000) % 2 == 1
    runs = Gaussian(sigma=1.0, l2_sensitivity=1.0)
    scores = [float(runs.release(float(one), bits=BITS)) for one in kind]
    seen = error_region(scores, kind)
    return plots.tradeoff(
        curves, audited=(seen.false_alarms, seen.misses), confidence=seen.confidence
    )


def profile() -> Any:
    """A thousand steps on samples of one in a hundred, and the same loss in one step on all."""
    steps = {
        "1,000 steps, rate 0.01, multiplier 1": (
            events.Gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 1_000
        ),
        "one step on everybody, multiplier 1": events.Gaussian(noise_multiplier=1),
        "Laplace, multiplier 2, four times": events.Laplace(noise_multiplier=2) * 4,
    }
    curves = {}
    for name, event in steps.items():
        epsilons = np.linspace(0, 6, 61)
        ends = [accounting.delta_interval(event, epsilon=float(e)) for e in epsilons]
        lower, upper = [end.lower for end in ends], [end.upper for end in ends]
        curves[name] = epsilons, lower, upper
    axes = plots.profile(curves)
    axes.set_ylim(bottom=1e-12)
    return axes


def privacy_loss() -> Any:
    """Of a sampled mechanism the directions differ; right of epsilon is what delta pays for."""
    event = events.Gaussian(noise_multiplier=1).poisson_sampled(rate=0.05) * 200
    laws = {}
    for direction, name in (("remove", "one unit removed"), ("add", "one unit added")):
        law = PrivacyLossDistribution.from_event(
            event, direction="remove" if direction == "remove" else "add", grid=1 << 9
        ).pmf
        seen = law.masses > 1e-4 * law.masses.max()
        laws[name] = law.losses[seen], law.masses[seen] / (law.losses[1] - law.losses[0])
    return plots.privacy_loss(laws, epsilon=accounting.epsilon(event, delta=DELTA), delta=DELTA)


def amplification() -> Any:
    """When is subsampling free? A hundred steps with little, some and much noise."""
    rates = np.geomspace(0.01, 1, 9)
    ratios = {}
    for noise in (0.7, 2.0, 8.0):
        step = events.Gaussian(noise_multiplier=noise)
        whole = accounting.epsilon(step * 100, delta=DELTA)
        costs = [
            accounting.epsilon(step.poisson_sampled(rate=float(rate)) * 100, delta=DELTA)
            for rate in rates
        ]
        ratios[f"noise multiplier {noise:g}"] = np.array(costs) / rates / whole
    return plots.amplification(rates, ratios)


def budget() -> Any:
    """Twelve questions of a year, each chosen after the last, in zero-concentrated DP."""
    limit, spent = ZCDP(0.5), ZCDP(0)
    times, sums = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], [0.0]
    for month in range(1, 13):
        spent = spent + (limit * (0.15 if month in (3, 9) else 0.05))
        times.append(dt.datetime(2026, month, 20, tzinfo=dt.UTC))
        sums.append(float(spent.rho))
    times.append(dt.datetime(2026, 12, 31, tzinfo=dt.UTC))
    return plots.budget(times, {"rho": [*sums, sums[-1]]}, limit=float(limit.rho))


def errors() -> Any:
    """Visits of six towns, counted at epsilon 1, with the intervals of the release."""
    towns = ["Ash", "Birch", "Cedar", "Dogwood", "Elm", "Fir"]
    visits = pd.DataFrame(
        {"id": range(210), "town": [t for k, t in enumerate(towns, 1) for _ in range(10 * k)]}
    )
    unit = unacorda.Person("id", max_rows=1)
    with unacorda.Session({"visits": visits}, unit=unit, budget=PureDP(1), bits=BITS) as session:
        query = session.table("visits").group_by("town", keys=towns).agg(visits=unacorda.count())
        return session.evaluate(query, budget=PureDP("0.3")).plot()


def errors_over() -> Any:
    """Visits of two wards in twelve months, counted at epsilon 1, with their intervals."""
    drawn = np.random.default_rng(7)
    months = [dt.date(2026, month, 1) for month in range(1, 13)]
    visits = pd.DataFrame(
        {
            "id": range(9_000),
            "month": [months[k] for k in (12 * drawn.random(9_000) ** 0.7).astype(int)],
            "ward": np.where(drawn.random(9_000) < 0.3, "north", "south"),
        }
    )
    unit = unacorda.Person("id", max_rows=1)
    keys = {"month": months, "ward": ["north", "south"]}
    with unacorda.Session({"visits": visits}, unit=unit, budget=PureDP(1), bits=BITS) as session:
        query = session.table("visits").group_by("month", "ward", keys=keys)
        counted = query.agg(visits=unacorda.count())
        return session.evaluate(counted, budget=PureDP("0.05")).plot()


def answers_over_time() -> Any:
    """Visits of two wards so far, day by day over half a year, for one price of rho 0.005."""
    drawn = np.random.default_rng(11)
    visits = pd.DataFrame(
        {
            "id": drawn.integers(0, 4_000, 9_000),
            "seen": pd.to_datetime("2025-01-01")
            + pd.to_timedelta((181 * drawn.random(9_000) ** 0.7).astype(int), unit="D"),
            "ward": np.where(drawn.random(9_000) < 0.3, "north", "south"),
        }
    )
    unit = unacorda.Person("id", max_rows=1)
    with unacorda.Session({"visits": visits}, unit=unit, budget=ZCDP(1), bits=BITS) as session:
        query = session.table("visits").group_by("ward", keys=["north", "south"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a ledger in memory will do for a picture
            series = session.over_time(
                query.agg(visits=unacorda.count()),
                name="daily",
                by="seen",
                start="2025-01-01",
                steps=181,
                person=unacorda.OverTime(max_steps=5),
                budget=ZCDP("0.005"),
            )
        return series.answer_until("2025-06-30").plot()


def coverage() -> Any:
    """Intervals of a private mean, with and without the noise in them, 2,000 rounds a size."""
    drawn = np.random.default_rng(5)
    sizes, rounds, noise = (20, 50, 100, 200, 500, 1_000), 2_000, 0.15
    shares: dict[str, list[float]] = {"noise counted": [], "noise forgotten": []}
    for size in sizes:
        means = drawn.random((rounds, size)).mean(axis=1)
        private = means + noise * math.sqrt(20) / size * drawn.normal(size=rounds)
        sampling, added = math.sqrt(1 / 12 / size), noise * math.sqrt(20) / size
        for name, error in zip(shares, (math.hypot(sampling, added), sampling), strict=True):
            shares[name].append(float(np.mean(np.abs(private - 0.5) <= 1.96 * error)))
    return plots.coverage(sizes, shares)


def influence() -> Any:
    """Rows of growing residuals and two private lines, of least squares and of a robust one."""
    drawn = np.random.default_rng(6)
    x = drawn.normal(size=(20_000, 1))
    y = 1 + x[:, 0] + drawn.normal(size=20_000)
    grid = np.linspace(-8, 8, 161)
    curves, bounds = {}, {}
    for name, tuning in (("least squares", None), ("tuning=1.5", 1.5)):
        model = LinearRegression(
            budget=unacorda.GDP(1),
            feature_bounds=(-3, 3),
            target_bounds=(-10, 10),
            tuning=tuning,
            bits=BITS,
        ).fit(x, y)
        ones = np.ones((len(grid), 1))
        curves[name] = model.influence(ones, model.predict(ones) + grid)[:, 1]
        bounds[name] = float(model.gross_error_sensitivity_[1])
    return plots.influence(grid, curves, bounds=bounds, ylabel="n times what the slope moves")


def _scores(rho: str = "0.1") -> Any:
    """A classifier judged by 5,000 rows."""
    drawn = np.random.default_rng(8)
    y = drawn.random(5_000) < 0.3
    scores = 1 / (1 + np.exp(0.85 - drawn.normal(size=5_000) - 1.2 * (y - 0.5)))
    return score_table(None, scores, y, bins=32, budget=ZCDP(rho), bits=BITS)


def roc_curve() -> Any:
    """The classifier under two budgets."""
    curves = {}
    for rho in ("0.005", "0.1"):
        table = _scores(rho)
        curves[f"rho {rho}: area {table.auc().value:.2f}"] = table.roc()
    return plots.roc_curve(curves)


def precision_recall_curve() -> Any:
    """The classifier at all thresholds."""
    return plots.precision_recall_curve({"rho 0.1": _scores().precision_recall()})


def lift_curve() -> Any:
    """The classifier by the share of rows that is called positive."""
    return plots.lift_curve({"rho 0.1": _scores().lift()})


def calibration_curve() -> Any:
    """The probabilities of the classifier, against what was seen."""
    return plots.calibration_curve({"rho 0.1": _scores().calibration()})


def _residuals() -> Any:
    """A line where there is a bend, judged by 5,000 rows."""
    drawn = np.random.default_rng(9)
    x = drawn.uniform(0, 10, 5_000)
    y = x + 0.05 * (x - 5) ** 2 - 0.4 + (0.5 + x / 10) * drawn.normal(size=5_000)
    return residual_table(
        None, x, y, target_bounds=(0, 10), residual_bound=4, budget=ZCDP("0.1"), bits=BITS
    )


def residual_plot() -> Any:
    """The line by bins of its prediction."""
    return plots.residual_plot(_residuals().by_bins())


def residual_histogram() -> Any:
    """All residuals of the line."""
    return plots.residual_histogram(_residuals().histogram_of_residuals())


def normal_plot() -> Any:
    """The quantiles of these residuals."""
    return plots.normal_plot(_residuals().normal_plot())


class _Line:
    """A public model of three features, the last of which does nothing."""

    def predict(self, x: Any) -> Any:
        return 2 * x[:, 0] - x[:, 1]


def importance_plot() -> Any:
    """What the model loses without a feature."""
    drawn = np.random.default_rng(10)
    x = drawn.normal(size=(5_000, 3))
    found = importance(
        _Line(),
        x,
        _Line().predict(x) + drawn.normal(size=5_000),
        reference=drawn.normal(size=(1_000, 3)),
        residual_bound=10,
        names=["dose", "age", "weekday"],
        budget=ZCDP("0.01"),
        bits=BITS,
    )
    return plots.importance_plot(found.frame())


def validation_plot() -> Any:
    """Three penalties of a ridge regression."""
    drawn = np.random.default_rng(11)
    x = drawn.normal(size=(20_000, 3))
    ridge = RidgeRegression(
        budget=unacorda.GDP("0.5"), target_bounds=(-20, 20), feature_bounds=(-3, 3)
    )
    curve = ValidationCurve(
        ridge, {"penalty": [0.01, 0.3, 3.0]}, scoring="r2", error_bound=5.0, bits=BITS
    ).fit(x, x @ [1.0, -2.0, 0.0] + drawn.normal(size=20_000))
    return plots.validation_plot(curve.frame(), parameter="penalty")


def roc() -> Any:
    """Who was in the table? 1,000 people, averages of 4,000 traits, exact and for epsilon 1."""
    people, traits, promised = 1_000, 4_000, 1.0
    drawn = np.random.default_rng(7)
    frequency = np.clip(drawn.beta(0.5, 2.0, size=traits), 0.02, 0.5)
    rows = (drawn.random((people, traits)) < frequency).astype(float)
    noise = Gaussian.for_guarantee(ApproxDP(promised, DELTA), l2_sensitivity=math.sqrt(traits))

    def defended(inside: Any) -> Any:
        return np.asarray(noise.release(inside.sum(axis=0), bits=BITS)) / (people / 2)

    given: dict[str, Any] = {"population": frequency, "bits": BITS}
    found = {
        "exact averages": membership(rows, **given),
        "with noise for epsilon 1": membership(
            rows, defended=defended, promised=promised, delta=DELTA, **given
        ),
    }
    curve = TradeoffCurve.of_guarantee(ApproxDP(promised, DELTA))
    rates = np.geomspace(0.01, 1, 60)
    most = [curve.true_positive_rate(fpr=float(rate)) for rate in rates]
    return plots.roc(
        {name: attack.roc() for name, attack in found.items()},
        limits={"the most that epsilon 1 allows": (rates, most)},
        least=0.01,
    )


def utility() -> Any:
    """The error of a mean of 1,000 rows in 100 coordinates, and the error that none beats."""
    people, dimension = 1_000, 100
    epsilons = np.geomspace(0.01, 100, 25)
    moved = 2 * math.sqrt(dimension) / people
    errors, least = [], []
    for epsilon in epsilons.tolist():
        noise = Gaussian.for_guarantee(ApproxDP(epsilon, DELTA), l2_sensitivity=moved)
        errors.append(math.hypot(1 / math.sqrt(people), float(noise.sigma)))
        found = accounting.lower_bound(
            dimension=dimension, people=people, epsilon=epsilon, delta=DELTA
        )
        least.append(found.mean)
    return plots.utility(epsilons, {"Gaussian noise": errors}, least=least)


BITS = SeededBits(2026)
PICTURES: dict[str, Callable[[], Any]] = {
    one.__name__: one
    for one in (
        tradeoff,
        profile,
        privacy_loss,
        amplification,
        budget,
        errors,
        errors_over,
        answers_over_time,
        coverage,
        influence,
        roc_curve,
        precision_recall_curve,
        lift_curve,
        calibration_curve,
        residual_plot,
        residual_histogram,
        normal_plot,
        importance_plot,
        validation_plot,
        roc,
        utility,
    )
}


def draw(name: str, folder: Path) -> Path:
    """Draw one picture and return its file."""
    global BITS  # noqa: PLW0603  # anew for each, so that no picture depends on those before it
    BITS = SeededBits(2026)
    with mpl.rc_context(STYLE):
        figure = PICTURES[name]().figure
        path = folder / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
    return path


def main() -> None:
    """Draw the pictures of these names, or all."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    ask.add_argument("--folder", type=Path, default=HERE / "gallery")
    options = ask.parse_args()
    options.folder.mkdir(exist_ok=True)
    for name in options.names or PICTURES:
        print(f"drawn: {draw(name, options.folder)}")


if __name__ == "__main__":
    main()
