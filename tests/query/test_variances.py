"""Variances and standard deviations: exact where nothing is added, and as far off as promised."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.many_cells import Floats, ask, repeated
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import InvalidParameter, MissingBound

pytestmark = pytest.mark.statistical

CELLS = 4_000
BUDGETS: dict[str, Any] = {"Laplace": unacorda.PureDP(4), "normal": unacorda.ZCDP(2)}
VALUES: dict[str, Sequence[float]] = {
    "in the middle": [float(x) for x in np.random.default_rng(3).normal(50, 12, 60)],
    "skewed": [float(x) for x in np.random.default_rng(4).exponential(15, 50)],
    "at one end": [0.0] * 40,
    "at both ends": [0.0, 100.0] * 20,
    "beyond the upper end": [250.0, 99.0, 1e300] * 12,
    "few": [20.0, 30.0, 80.0],
}
OFTEN = {("skewed", "Laplace"), ("in the middle", "normal"), ("few", "Laplace")}


def _exact(values: Sequence[float], *, ddof: int) -> float:
    held = [min(max(v, 0.0), 100.0) for v in values]
    if len(held) <= ddof:
        return 0.0
    return statistics.variance(held) if ddof else statistics.pvariance(held)


def _rms(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _one_answer(values: Sequence[float | None], aggregate: Any, **columns: Any) -> Any:
    table = pa.table({"x": pa.array(values, type=pa.float64()), **columns})
    budget = unacorda.ZCDP(10**6)
    bits = unacorda.SeededBits(9)
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=budget, bits=bits) as session:
        release = session.evaluate(session.table("t").agg(a=aggregate), budget=budget)
    return release.answers["a"]


def test_almost_without_noise_it_is_the_variance_of_the_clamped_values_that_are_present() -> None:
    values = [3.5, None, 99.0, math.nan, 140.0, -0.0, -math.inf, 61.25] * 50
    held = [3.5, 99.0, 100.0, 0.0, 0.0, 61.25] * 50
    for ddof, truth in ((1, statistics.variance(held)), (0, statistics.pvariance(held))):
        found = _one_answer(values, unacorda.variance("x", 0, 100, ddof=ddof))
        assert found.values[0] == pytest.approx(truth, rel=1e-4)
        assert found.lower[0] <= truth <= found.upper[0]
        root = _one_answer(values, unacorda.stdev("x", 0, 100, ddof=ddof))
        assert root.values[0] == pytest.approx(math.sqrt(truth), rel=1e-4)


@pytest.mark.parametrize(
    ("lower", "upper", "scale"),
    [(0, "1e-100", 1e-100), (-(10**100), 10**100, 1e100), (2**40, 2**40 + 1, 1.0)],
)
def test_extreme_ranges_are_answered(lower: Any, upper: Any, scale: float) -> None:
    start = float(lower) if lower else 0.0
    values = [start + part * scale for part in (0.0, 0.25, 1.0)] * 400
    found = _one_answer(values, unacorda.variance("x", lower, upper, ddof=0))
    assert found.values[0] == pytest.approx(np.var([0.0, 0.25, 1.0]) * scale**2, rel=1e-3)
    assert all(math.isfinite(v) for v in (found.lower[0], found.upper[0], *found.limits))


@pytest.mark.long
def test_no_rows_and_one_row_are_answered() -> None:
    for values in ([], [None, None], [7.0]):
        for ddof in (0, 1):
            found = _one_answer(values, unacorda.variance("x", 0, 100, ddof=ddof))
            assert found.lower[0] <= 0.0 <= found.upper[0]
            assert math.isfinite(found.values[0])
            assert math.isfinite(found.standard_errors[0])


def test_whole_numbers_are_summed_without_rounding() -> None:
    whole = pa.array([0, 1, 5, 2**30, 2**31 - 1] * 3, type=pa.int64())
    found = _one_answer([None] * 15, unacorda.variance("w", 0, 2**31 - 1), w=whole)
    assert found.values[0] == pytest.approx(statistics.variance(whole.to_pylist()), rel=0.01)


@pytest.mark.parametrize(
    ("kind", "name"),
    mostly_slow(
        [
            pytest.param(kind, name, marks=() if (kind, name) in OFTEN else pytest.mark.slow)
            for kind in VALUES
            for name in BUDGETS
        ]
    ),
)
def test_they_err_as_promised_and_their_intervals_cover(kind: str, name: str) -> None:
    """Within 10% for 4,000 draws: 5.7 standard deviations at a kurtosis of 6, the most there is."""
    values = VALUES[kind]
    aggregates = {
        "sample": unacorda.variance("x", 0, 100),
        "population": unacorda.variance("x", 0, 100, ddof=0),
        "deviation": unacorda.stdev("x", 0, 100),
    }
    asked = ask(
        repeated(values, cells=CELLS),
        aggregates,
        budget=BUDGETS[name] * 3,
        seed=11,
        cells=CELLS,
        assuming=unacorda.Assume(rows=len(values), values={"x": values}),
    )
    truths = {
        "sample": _exact(values, ddof=1),
        "population": _exact(values, ddof=0),
        "deviation": math.sqrt(_exact(values, ddof=1)),
    }
    for aggregate, truth in truths.items():
        # In a cell of three rows one draw in thousands divides by next to nothing.
        asked.check(aggregate, truth, within=None if kind == "few" else 0.1)


def test_standard_errors_and_intervals_are_no_larger_than_they_need_be() -> None:
    """A normal interval is 2.3% wider than +-1.96 standard errors, and no less than they are."""
    values = list(VALUES["in the middle"]) * 6
    asked = ask(
        repeated(values, cells=1_000),
        {"answer": unacorda.variance("x", 0, 100)},
        budget=unacorda.ZCDP(2),
        seed=12,
        cells=1_000,
    )
    answer = asked.release.answers["answer"]
    errors = np.array(answer.standard_errors, dtype=float)
    widths = np.array(answer.upper, dtype=float) - np.array(answer.lower, dtype=float)
    assert errors.mean() == pytest.approx(
        _rms(asked.errors("answer", _exact(values, ddof=1))), rel=0.1
    )
    assert (widths >= 2 * 1.96 * errors * 0.999).all()
    assert np.median(widths / errors) < 2 * 1.96 * 1.04


@pytest.mark.long
def test_the_table_of_errors_holds_for_values_spread_evenly() -> None:
    values = [float(x) for x in np.linspace(0, 100, 100)]
    for budget in BUDGETS.values():
        asked = ask(
            repeated(values, cells=2_000),
            {"v": unacorda.variance("x", 0, 100), "s": unacorda.stdev("x", 0, 100)},
            budget=budget * 16,
            seed=13,
            cells=2_000,
        )
        for name, truth in (
            ("v", _exact(values, ddof=1)),
            ("s", math.sqrt(_exact(values, ddof=1))),
        ):
            table = dict(asked.promise.forecasts[name].table)
            assert _rms(asked.errors(name, truth)) == pytest.approx(table[100], rel=0.15)


def _of_three_parts(values: Sequence[float], *, laplace: bool, centre: float) -> float:
    """The error of a noisy count, sum and sum of squares about a centre, a third of budget each.

    To first order, with noise of standard deviation 1 for the whole budget and sensitivity 1; the
    range is [0, 100], in units of 50.
    """
    u, spread = (np.array(values) - centre) / 50, max(centre, 100 - centre) / 50
    noise = 3.0 if laplace else math.sqrt(3.0)
    m, v = u.mean(), u.var()
    influence = np.array([m**2 - v, 2 * m * spread, spread**2])
    return float(noise * np.linalg.norm(influence)) * 50**2 / len(values)


@in_subtests("kind", ["in the middle", "skewed", "at one end"])
@in_subtests("laplace", [True, False])
def test_they_err_at_least_a_fifth_less_than_three_noisy_sums(kind: str, *, laplace: bool) -> None:
    values = np.clip(np.tile(VALUES[kind], 50), 0, 100).tolist()
    budget = unacorda.PureDP(math.sqrt(2)) if laplace else unacorda.ZCDP(0.5)  # deviation 1
    aggregate = unacorda.variance("x", 0, 100)
    with unacorda.Session(
        {"t": pa.table({"x": [0.0]})}, unit=unacorda.Row(), budget=budget
    ) as session:
        told = session.explain(
            session.table("t").agg(a=aggregate),
            budget=budget,
            assuming=unacorda.Assume(rows=len(values), values={"x": values}),
        )
    ours = told.standard_error("a")
    assert ours is not None
    about_zero = _of_three_parts(values, laplace=laplace, centre=0.0)
    if kind != "at one end":  # sums about the very value that all have are hard to beat
        assert ours < 0.8 * about_zero
    # Also where the others are taken about the middle; by less under normal noise near an end,
    # where noise for this variance alone could do no better than sqrt(16 / 18) of theirs.
    about_middle = _of_three_parts(values, laplace=laplace, centre=50.0)
    assert ours < (0.8 if laplace or kind == "in the middle" else 0.98) * about_middle


@in_subtests("ddof", [2, -1, 0.5, "1", None, True])
def test_other_divisors_are_refused(ddof: Any) -> None:
    with pytest.raises(InvalidParameter, match="ddof"):
        unacorda.variance("x", 0, 1, ddof=ddof)


def test_bounds_are_asked_for_by_name() -> None:
    table = pa.table({"x": [1.0]})
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        for make in (unacorda.variance, unacorda.stdev):
            with pytest.raises(MissingBound, match="'x'"):
                session.table("t").agg(a=make("x"))
            with pytest.raises(InvalidParameter, match="lower"):
                make("x", 5, 5)
