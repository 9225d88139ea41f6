"""Tables of residuals: sensitivities by brute force, numbers against NumPy, bends and spreads."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.linear_model import LinearRegression

from unacorda import (
    GDP,
    ZCDP,
    AddRemove,
    ApproxDP,
    PureDP,
    RenyiDP,
    ReplaceOne,
    SeededBits,
    inference,
)
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.diagnostics.residuals import BY_BINS, TOTALS, ResidualSums
from unacorda.inference.diagnostics.scoring import RowNorms, RowOwners
from unacorda.privacy.neighbors import Neighbors

Floats = NDArray[np.float64]

QUIET = GDP(10**9)
"""A budget whose noise is far below one row."""

BOUNDS: dict[str, Any] = {"target_bounds": (0.0, 20.0), "residual_bound": 4.0}


def drawn(n: int, *, seed: int = 1, noise: Any = None) -> tuple[Floats, Floats]:
    """Predictions and targets around them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 20, n)
    return x, x + (rng.normal(size=n) if noise is None else noise(rng, x))


ROWS = [
    (0, 1.0, 1.0),
    (0, -1.0, -1.0),
    (1, 1.0, -1.0),
    (1, 0.0, 1.0),
    (0, 3.0, 1.0),
    (1, 0.0, -1.0),
    (2, 0.0, 0.0),
]
"""Bins, residuals and targets; both bounds are 1, and bin 2 is that of rows without a number."""


def parts(rows: tuple[tuple[int, float, float], ...]) -> list[list[Fraction]]:
    places = np.array([row[0] for row in rows])
    residuals, targets = (np.array([row[one] for row in rows]) for one in (1, 2))
    exact = ResidualSums.of(
        places, residuals, targets, bins=2, residual_bound=1.0, target_bounds=(-1.0, 1.0)
    )
    return [[one * Fraction(2) ** unit for one in part] for part, unit in exact.parts()]


@pytest.mark.parametrize("relation", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("k", [1, 2])
def test_sensitivities_are_the_largest_of_all_tables_of_three_rows(
    relation: Neighbors, k: int
) -> None:
    """The sums of rows are those of each, so that the rows that stay cancel: the others decide."""
    alone = {one: parts((one, *ROWS[:1], *ROWS[1:2])) for one in ROWS}
    rest = parts((*ROWS[:1], *ROWS[1:2]))
    for place, norms in enumerate((BY_BINS, RowNorms.of_counts(), TOTALS)):
        vectors = {
            one: np.array([float(a - b) for a, b in zip(whole[place], rest[place], strict=True)])
            for one, whole in alone.items()
        }
        nothing = np.zeros_like(next(iter(vectors.values())))
        sets = [
            sum((vectors[one] for one in chosen), nothing)
            for size in range(k + 1)
            for chosen in itertools.combinations_with_replacement(ROWS, size)
        ]
        apart = [one - other for one in sets for other in sets] if relation is ReplaceOne else sets
        owners = RowOwners(rows=k, neighbors=relation)
        normal, laplace = owners.noise(GDP(1), norms), owners.noise(PureDP(1), norms)
        l2, l1 = (max(np.linalg.norm(one, order) for one in apart) for order in (2, 1))
        assert l2 <= float(getattr(normal, "l2_sensitivity")) * (1 + 1e-12)  # noqa: B009
        assert float(getattr(normal, "l2_sensitivity")) <= l2 * (1 + 1e-12)  # noqa: B009
        assert float(getattr(laplace, "l1_sensitivity")) == pytest.approx(l1, rel=1e-12)  # noqa: B009


def test_no_pair_of_rows_is_farther_apart_than_is_stated() -> None:
    """Over a grid of u and v, in the same bin and in two."""
    grid = np.linspace(-1, 1, 41)
    u, w = np.meshgrid(grid, grid)
    same = 1.5**2 * ((u - w) ** 2 + (u**2 - w**2) ** 2)
    other = 2 + 1.5**2 * (u**2 + w**2 + u**4 + w**4)
    assert max(same.max(), other.max()) == float(BY_BINS.apart_l2_squared)
    targets = (u - w) ** 2 + (u**2 - w**2) ** 2
    squares = (u**2 - w**2) ** 2 + (np.abs(u) - np.abs(w)) ** 2
    cut = ((np.abs(u) == 1) ^ (np.abs(w) == 1)).astype(float)
    assert targets.max() + (squares + cut).max() == float(TOTALS.apart_l2_squared)
    l1 = (np.abs(u - w) + np.abs(u**2 - w**2)).max()
    l1 += (np.abs(u**2 - w**2) + np.abs(np.abs(u) - np.abs(w)) + cut).max()
    assert l1 <= TOTALS.apart_l1


def test_numbers_are_those_of_scikit_learn() -> None:
    fitted, y = drawn(5000)
    table = inference.residual_table(None, fitted, y, budget=QUIET, bins=10, **BOUNDS)
    cut = np.clip(y - fitted, -4, 4)
    inside = np.clip(y, 0, 20)
    r2 = 1 - (cut**2).sum() / ((inside - inside.mean()) ** 2).sum()
    assert table.r2().value == pytest.approx(r2, abs=1e-5)
    assert table.r2().value == pytest.approx(metrics.r2_score(y, fitted), abs=0.002)
    assert table.rmse().value == pytest.approx(math.sqrt((cut**2).mean()), abs=1e-5)
    assert table.mae().value == pytest.approx(np.abs(cut).mean(), abs=1e-5)
    assert table.cut().value == pytest.approx((np.abs(y - fitted) > 4).mean(), abs=1e-5)
    assert table.beyond(1.0).value == pytest.approx(0.317, abs=0.02)
    lines = table.by_bins()
    for place, (low, high) in enumerate(zip(lines["low"], lines["high"], strict=True)):
        own = cut[(fitted >= low) & (fitted < high)]
        assert lines["mean"][place] == pytest.approx(own.mean(), abs=1e-4)
        assert lines["spread"][place] == pytest.approx(own.std(), abs=1e-4)
    counts, _ = np.histogram(cut, bins=40, range=(-4, 4))
    assert np.rint(table.histogram).tolist() == counts.tolist()
    normal = table.normal_plot()
    slope = np.polyfit(normal["normal"][8:31], normal["residual"][8:31], 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)


def test_a_bend_and_unequal_spreads_are_seen() -> None:
    fitted, y = drawn(
        20_000, noise=lambda rng, x: 0.01 * (x - 10) ** 2 - 0.3 + rng.normal(size=len(x))
    )
    lines = inference.residual_table(
        None, fitted, y, budget=ZCDP(0.1), bits=SeededBits(1), **BOUNDS
    ).by_bins()
    assert lines["lower"].iloc[0] > 0
    assert lines["lower"].iloc[-1] > 0
    assert lines["upper"].iloc[9] < 0
    fitted, y = drawn(20_000, noise=lambda rng, x: rng.normal(size=len(x)) * (0.3 + x / 20))
    lines = inference.residual_table(
        None, fitted, y, budget=ZCDP(0.1), bits=SeededBits(2), **BOUNDS
    ).by_bins()
    assert lines["spread_lower"].iloc[-1] > 2 * lines["spread_upper"].iloc[0]
    straight = inference.residual_table(
        None, *drawn(20_000), budget=ZCDP(0.1), bits=SeededBits(3), **BOUNDS
    ).by_bins(interval="both", confidence=0.99999)
    assert ((straight["lower"] <= 0) & (straight["upper"] >= 0)).all()


def test_residuals_may_be_shown_by_a_feature() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 1, (20_000, 2))
    y = 10 + 4 * X[:, 0] + 8 * (X[:, 1] - 0.5) ** 2 + 0.1 * rng.normal(size=20_000)
    model = LinearRegression().fit(X, y)
    table = inference.residual_table(
        model, X, y, by=X[:, 1], by_bounds=(0, 1), bins=5, budget=ZCDP(0.1), **BOUNDS
    )
    means = table.by_bins()["mean"]
    assert means[0] > 0.2
    assert means[2] < -0.2
    assert table.edges.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_the_bound_of_residuals_is_found_without_a_look_at_any_one() -> None:
    fitted, y = drawn(5000)
    named: dict[str, Any] = {"target_bounds": (0, 20), "budget": GDP(1)}
    table = inference.residual_table(None, fitted, y, bits=SeededBits(1), **named)
    assert table.residual_bound == 4.0
    y[0] = math.inf
    assert inference.residual_table(None, fitted, y, **named).residual_bound == 4.0
    nothing = inference.residual_table(None, fitted[:2], y[1:3], bits=SeededBits(2), **named)
    assert nothing.residual_bound == 10.0  # half of the target's range


def test_rows_without_a_number_are_counted_apart() -> None:
    fitted, y = drawn(1000)
    clean = inference.residual_table(None, fitted[3:], y[3:], budget=QUIET, **BOUNDS)
    fitted[0], y[1], y[2], fitted[2] = math.nan, math.nan, math.inf, math.inf
    table = inference.residual_table(None, fitted, y, budget=QUIET, **BOUNDS)
    assert round(table.missing) == 3
    assert table.totals == pytest.approx(clean.totals, abs=1e-4)
    assert table.sums == pytest.approx(clean.sums, abs=1e-4)


def test_sums_are_exact_whatever_their_order() -> None:
    fitted, y = drawn(3000)
    order = np.random.default_rng(1).permutation(3000)
    places = np.zeros(3000, dtype=np.int64)
    named: dict[str, Any] = {"bins": 1, "residual_bound": 4.0, "target_bounds": (0.0, 20.0)}
    one = ResidualSums.of(places, y - fitted, y, **named)
    other = ResidualSums.of(places, (y - fitted)[order], y[order], **named)
    assert one == other


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), GDP(1), RenyiDP(8, 2)])
def test_every_budget_is_kept(budget: Any) -> None:
    table = inference.residual_table(None, *drawn(3000), budget=budget, target_bounds=(0, 20))
    assert table.guarantee == budget
    assert 0.5 < table.r2().value <= 1
    assert "<table" in table._repr_html_()
    assert "20 bins" in repr(table)


def test_where_noise_hides_the_variance_there_is_a_sentence() -> None:
    table = inference.residual_table(
        None, *drawn(20), budget=ZCDP(1e-4), bits=SeededBits(1), **BOUNDS
    )
    assert "Noise hides the variance" in table.r2().cannot
    assert len(table.by_bins()) >= 1
    assert len(table.summary(interval="both")) == 5
    bits = SeededBits(2)
    for _ in range(20):  # of which some have fewer than no rows by their noise
        table = inference.residual_table(
            None, [1.0], [2.0], budget=ZCDP(1e-4), target_bounds=(0, 20), bits=bits
        )
        assert len(table.summary(interval="both")) == 5
        assert len(table.by_bins(interval="both")) >= 1
        assert len(table.normal_plot()) == 39


@pytest.mark.parametrize(
    ("named", "argument"),
    [
        ({"target_bounds": None}, "target_bounds"),
        ({"target_bounds": (1, 0)}, "target_bounds"),
        ({"residual_bound": 0}, "residual_bound"),
        ({"bins": 0}, "bins"),
        ({"by": [1.0, 2.0]}, "by_bounds"),
        ({"by": [1.0], "by_bounds": (0, 1)}, "by"),
        ({"y": [1.0]}, "y"),
        ({"budget": GDP(0)}, "budget"),
        ({"person": [1]}, "person"),
    ],
)
def test_bad_arguments_are_named(named: dict[str, Any], argument: str) -> None:
    asked: dict[str, Any] = {"model": None, "X": [1.0, 2.0], "y": [1.0, 2.0], "budget": GDP(1)}
    with pytest.raises((InvalidParameter, MissingBound)) as caught:
        inference.residual_table(**{**asked, **BOUNDS, **named})
    assert caught.value.argument == argument


def test_fitted_regressions_and_classifiers_diagnose_other_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=6000)
    bounds: dict[str, Any] = {"budget": GDP(2), "feature_bounds": (-3, 3)}
    line = inference.LinearRegression(**bounds, target_bounds=(-10, 10), bits=SeededBits(1))
    table = line.fit(X[:4000], y[:4000]).diagnose(X[4000:], y[4000:], budget=GDP(1))
    assert table.r2().value == pytest.approx(2 / 3, abs=0.1)
    assert table.target_bounds == (-10, 10)
    logistic = inference.LogisticRegression(**bounds, bits=SeededBits(1))
    scores = logistic.fit(X[:4000], y[:4000] > 0).diagnose(
        X[4000:], y[4000:] > 0, budget=GDP(1), bins=20
    )
    assert scores.auc().value > 0.8
    counts = rng.poisson(np.exp(0.3 * X[:, 0]))
    poisson = inference.PoissonRegression(**bounds, largest=10, bits=SeededBits(1))
    found = poisson.fit(X[:4000], counts[:4000]).diagnose(
        X[4000:], counts[4000:], budget=GDP(1), residual_bound=8
    )
    assert 0 < found.mae().value < 2


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("n", "rho"), [(500, 0.3), (5000, 0.1)])
def test_intervals_of_the_noise_cover_the_table_itself(n: int, rho: float) -> None:
    """1,000 runs: a coverage of 95 % is within 2 % by more than three deviations."""
    fitted, y = drawn(n, seed=5)
    exact = inference.residual_table(None, fitted, y, budget=QUIET, bins=4, **BOUNDS)
    truth = {name: getattr(exact, name)().value for name in ("r2", "rmse", "mae", "cut")}
    lines, bits = exact.by_bins(), SeededBits(6)
    covered = dict.fromkeys([*truth, "mean", "spread"], 0.0)
    for _ in range(1000):
        table = inference.residual_table(
            None, fitted, y, budget=ZCDP(rho), bins=4, bits=bits, **BOUNDS
        )
        for name, value in truth.items():
            found = getattr(table, name)()
            covered[name] += found.lower <= value <= found.upper
        own = table.by_bins()
        covered["mean"] += (
            (own["lower"] <= lines["mean"]) & (own["upper"] >= lines["mean"])
        ).mean()
        low, high = own["spread_lower"], own["spread_upper"]
        covered["spread"] += ((low <= lines["spread"]) & (high >= lines["spread"])).mean()
    shares = {name: count / 1000 for name, count in covered.items()}
    assert shares.pop("cut") >= 0.93  # a share next to 0, where half of an interval is certain
    assert all(0.93 <= share <= 0.98 for share in shares.values()), shares


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_of_both_errors_cover_the_population() -> None:
    bits, covered = SeededBits(8), dict.fromkeys(["rmse", "mae"], 0)
    whole = np.clip(np.random.default_rng(9).standard_t(5, 2_000_000), -4, 4)
    truth = {"rmse": math.sqrt((whole**2).mean()), "mae": float(np.abs(whole).mean())}
    for run in range(1000):
        fitted, y = drawn(2000, seed=100 + run, noise=lambda rng, x: rng.standard_t(5, len(x)))
        table = inference.residual_table(None, fitted, y, budget=ZCDP(0.1), bits=bits, **BOUNDS)
        for name, value in truth.items():
            found = getattr(table, name)(interval="both")
            covered[name] += found.lower <= value <= found.upper
    assert all(0.93 <= count / 1000 <= 0.98 for count in covered.values()), covered
