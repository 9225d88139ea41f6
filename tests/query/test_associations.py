"""Covariances and correlations: exact where nothing is added, and as far off as promised."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.many_cells import Floats, ask, values_of
from tests.query.two_columns import RAGGED, one_answer, two_columns, typical_first
from tests.tiers import mostly_slow

import unacorda
from unacorda import correlation, covariance
from unacorda.errors import InvalidParameter, MissingBound

pytestmark = pytest.mark.statistical

CELLS = 2_000
SOURCE = np.random.default_rng(8)
_X = SOURCE.normal(45, 15, 200)
PAIRS: dict[str, tuple[Floats, Floats]] = {
    "dependent": (_X, 40 + 0.8 * _X + SOURCE.normal(0, 10, 200)),
    "skewed": (SOURCE.exponential(20, 200), SOURCE.exponential(20, 200)),
    "on a line": (np.linspace(0, 100, 150), np.linspace(120, -20, 150)),
    "one is constant": (np.full(60, 30.0), np.linspace(0, 120, 60)),
    "two rows": (np.array([0.0, 100.0]), np.array([120.0, 0.0])),
}
BUDGETS: dict[str, Any] = {"Laplace": unacorda.PureDP(8), "normal": unacorda.ZCDP(4)}
X_BOUNDS, Y_BOUNDS = (0, 100), (0, 120)


def _clamped(kind: str) -> tuple[Floats, Floats]:
    x, y = PAIRS[kind]
    return np.clip(x, *X_BOUNDS), np.clip(y, *Y_BOUNDS)


@pytest.mark.long
def test_almost_without_noise_they_are_those_of_rows_where_both_are_present() -> None:
    x, y = RAGGED
    held = np.array([[30.0, 2.0], [50.0, 119.0], [100.0, 60.0], [20.0, 0.0]] * 50).T
    for ddof in (0, 1):
        found = one_answer(x, y, covariance("x", "y", X_BOUNDS, Y_BOUNDS, ddof=ddof))
        truth = np.cov(held, ddof=ddof)[0, 1]
        assert found.values[0] == pytest.approx(truth, rel=1e-3)
        assert found.lower[0] <= truth <= found.upper[0]
    found = one_answer(x, y, correlation("x", "y", X_BOUNDS, Y_BOUNDS))
    assert found.values[0] == pytest.approx(np.corrcoef(held)[0, 1], rel=1e-3)


def test_a_column_with_itself_has_its_variance_and_correlation_one() -> None:
    x = [5.0, 60.0, 80.0] * 60
    found = one_answer(x, x, covariance("x", "x", X_BOUNDS, X_BOUNDS))
    assert found.values[0] == pytest.approx(np.var(x, ddof=1), rel=1e-3)
    found = one_answer(x, x, correlation("x", "x", X_BOUNDS, X_BOUNDS))
    assert found.values[0] == pytest.approx(1.0, abs=1e-3)
    assert found.upper[0] == 1.0


@pytest.mark.long
def test_extreme_ranges_and_no_rows_are_answered() -> None:
    huge, tiny = (-(10**100), 10**100), (0, "1e-100")
    for x in ([], [None], [7.0], [1e-100, 0.0, 1e300] * 40):
        for aggregate in (covariance("x", "y", huge, tiny), correlation("x", "y", huge, tiny)):
            found = one_answer(x, x, aggregate)
            numbers = (found.values[0], found.standard_errors[0], found.lower[0], found.upper[0])
            assert all(math.isfinite(v) for v in numbers)
            assert found.lower[0] <= found.upper[0]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name"), mostly_slow(typical_first(PAIRS, BUDGETS)))
def test_they_err_as_promised_and_their_intervals_cover(kind: str, name: str) -> None:
    """Within 14% for 2,000 draws: 5.7 standard deviations at a kurtosis of 6, the most there is."""
    x, y = PAIRS[kind]
    asked = ask(
        two_columns(x, y, cells=CELLS),
        {
            "covariance": covariance("x", "y", X_BOUNDS, Y_BOUNDS),
            "correlation": correlation("x", "y", X_BOUNDS, Y_BOUNDS),
        },
        budget=BUDGETS[name] * 2,
        seed=21,
        cells=CELLS,
        assuming=unacorda.Assume(rows=len(x), values={"x": x.tolist(), "y": y.tolist()}),
    )
    held = np.stack(_clamped(kind))
    truths = {"covariance": float(np.cov(*held)[0, 1])}
    if kind != "one is constant":
        truths["correlation"] = float(np.clip(np.corrcoef(*held)[0, 1], -1, 1))
    for aggregate, truth in truths.items():
        # Of two rows one draw in thousands divides by next to nothing.
        asked.check(aggregate, truth, within=None if kind == "two rows" else 0.14)
    low, high = asked.ends("correlation")
    assert np.abs(values_of(asked.release, "correlation")).max() <= 1
    if kind == "one is constant":  # then any correlation is as right as any other
        assert np.mean(high - low == 2) > 0.9


def test_intervals_are_hardly_wider_than_their_errors_say() -> None:
    x, y = (np.tile(values, 10) for values in PAIRS["dependent"])
    asked = ask(
        two_columns(x, y, cells=100),
        {
            "covariance": covariance("x", "y", X_BOUNDS, Y_BOUNDS),
            "correlation": correlation("x", "y", X_BOUNDS, Y_BOUNDS),
        },
        budget=unacorda.ZCDP(8),
        seed=22,
        cells=100,
    )
    for answer in asked.release.answers.values():
        widths = np.array(answer.upper, dtype=float) - np.array(answer.lower, dtype=float)
        ratio = widths / (2 * 1.96 * np.array(answer.standard_errors, dtype=float))
        assert ratio.min() > 0.999
        assert np.median(ratio) < 1.1


@pytest.mark.long
@pytest.mark.parametrize("laplace", mostly_slow([True, False]))
def test_they_err_much_less_than_noisy_moments_with_a_share_each(*, laplace: bool) -> None:
    """Against sums of 1, u, v, u v (and squares) about the middle, to first order."""
    x, y = _clamped("dependent")
    u, v = np.tile(x / 50 - 1, 50), np.tile(y / 60 - 1, 50)
    a, b, rows = u.mean(), v.mean(), len(u)
    kappa, first, second = np.mean((u - a) * (v - b)), u.std(), v.std()
    rho = kappa / (first * second)
    g_covariance = np.array([a * b - kappa, -b, -a, 1.0])
    p, q = rho / 2 / first**2, rho / 2 / second**2
    r = 1 / (first * second)
    g_correlation = np.array(
        [a * b * r - p * a**2 - q * b**2, 2 * p * a - b * r, 2 * q * b - a * r, -p, -q, r]
    )
    parts = {"covariance": (4, g_covariance), "correlation": (6, g_correlation)}
    budget = unacorda.PureDP(math.sqrt(2)) if laplace else unacorda.ZCDP(0.5)  # deviation 1
    for name, (count, weights) in parts.items():
        make = covariance if name == "covariance" else correlation
        table = pa.table({"x": [0.0], "y": [0.0]})
        with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=budget) as session:
            told = session.explain(
                session.table("t").agg(a=make("x", "y", X_BOUNDS, Y_BOUNDS)),
                budget=budget,
                assuming=unacorda.Assume(
                    rows=rows,
                    values={"x": (50 * (u + 1)).tolist(), "y": (60 * (v + 1)).tolist()},
                ),
            )
        ours = told.standard_error("a")
        assert ours is not None
        noise = float(count) if laplace else math.sqrt(count)
        theirs = noise * float(np.linalg.norm(weights)) / rows
        less = 0.8 if laplace or name == "covariance" else 0.88
        assert ours < less * theirs * (50 * 60 if name == "covariance" else 1)


def test_bounds_that_are_none_are_refused_by_name() -> None:
    table = pa.table({"x": [1.0], "y": [2.0]})
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        for make in (covariance, correlation):
            with pytest.raises(MissingBound, match="'y'"):
                session.table("t").agg(a=make("x", "y", (0, 1)))
    for bounds in (3, "01", (0,), (0, 1, 2), (2, 1), (0, math.nan), {0: 1}):
        with pytest.raises(InvalidParameter):
            covariance("x", "y", (0, 1), bounds)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="ddof"):
        covariance("x", "y", (0, 1), (0, 1), ddof=2)


def test_values_are_assumed_in_pairs() -> None:
    table = pa.table({"x": [1.0], "y": [2.0]})
    budget = unacorda.PureDP(1)
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=budget) as session:
        query = session.table("t").agg(a=correlation("x", "y", (0, 1), (0, 1)))
        for values in ({"x": [1.0]}, {"x": [1.0], "y": [0.0, 1.0]}):
            with pytest.raises(InvalidParameter, match="as many values"):
                session.explain(
                    query, budget=budget, assuming=unacorda.Assume(rows=9, values=values)
                )
        told = session.explain(query, budget=budget, assuming=unacorda.Assume(rows=10**4))
        table_of_errors = dict(session.explain(query, budget=budget).forecasts["a"].table)
        assert told.standard_error("a") == pytest.approx(table_of_errors[10**4], rel=0.05)
