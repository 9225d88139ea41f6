"""Quantiles: the loss moves by one at most, ties are met exactly, intervals cover."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.estimates import quantiles
from unacorda.inference.records import selection_epsilon
from unacorda.mechanisms.selection.exponential import PiecewiseConstantExponential
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee

BOUNDS = {"lower": 0.0, "upper": 8.0}
values = st.lists(st.integers(-1, 9), min_size=1, max_size=6)


def losses_on_the_grid(monkeypatch: pytest.MonkeyPatch, x: list[int], rank: float) -> list[float]:
    """The loss of each whole number from 0 to 8, as the mechanism is handed it."""
    handed: list[tuple[np.ndarray, np.ndarray]] = []

    def release(_: object, edges: np.ndarray, *, scores: np.ndarray, bits: object) -> float:
        handed.append((edges, scores))
        return 0.0

    monkeypatch.setattr(PiecewiseConstantExponential, "release", release)
    quantiles.ranked_points(
        np.array(x, dtype=np.float64),
        [rank],
        epsilon=Fraction(1),
        grid_log2=0,
        bits=SeededBits(1),
        **BOUNDS,
    )
    ((edges, scores),) = handed
    pieces = np.searchsorted(edges, np.arange(9), side="right")
    return [-float(score) for score in scores[pieces]]


@pytest.mark.long
@settings(max_examples=200)
@given(values, st.data())
def test_replacing_one_person_moves_no_loss_by_more_than_one(
    x: list[int], data: st.DataObject
) -> None:
    changed = list(x)
    changed[data.draw(st.integers(0, len(x) - 1))] = data.draw(st.integers(-1, 9))
    rank = data.draw(st.floats(0, len(x)))
    with pytest.MonkeyPatch.context() as patch:
        first = losses_on_the_grid(patch, x, rank)
        second = losses_on_the_grid(patch, changed, rank)
        inside = [min(max(value, 0), 8) for value in x]
        truth = [
            max(
                0.0,
                sum(value < point for value in inside) - rank,
                rank - sum(value <= point for value in inside),
            )
            for point in range(9)
        ]
    assert first == pytest.approx(truth, abs=1e-12)
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) <= 1 + 1e-12


@in_subtests("budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), GDP(1), RenyiDP(8, 2)], ids=repr)
@in_subtests("releases", [1, 3, 6])
def test_releases_fit_into_the_budget(budget: Guarantee, releases: int) -> None:
    from unacorda import accounting, events

    event = events.Exponential(epsilon=selection_epsilon(budget, releases=releases)) * releases
    spent = {
        PureDP: lambda: accounting.epsilon(event, delta=0) <= 1,
        ApproxDP: lambda: accounting.delta(event, epsilon=1) <= 1e-6,
        ZCDP: lambda: accounting.rho(event) <= 0.5,
        GDP: lambda: accounting.delta(event, epsilon=1) <= 0.12693673750664397,
        RenyiDP: lambda: accounting.renyi(event, alpha=8) <= 2 * (1 + 1e-9),
    }
    assert spent[type(budget)]()


def covered(estimates: list[Estimate], truth: float) -> int:
    return sum(lower <= truth <= upper for lower, upper in (e.interval() for e in estimates))


DESIGNS: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], Callable[[float], float]]] = {
    "uniform": (lambda drawn: drawn.uniform(0, 100, 500), lambda q: 100 * q),
    "exponential": (lambda drawn: drawn.exponential(10, 500), lambda q: -10 * math.log(1 - q)),
}


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("design", "q", "budget"),
    mostly_slow(list(itertools.product(DESIGNS, [0.25, 0.5, 0.8], [PureDP(2), GDP(1)])), quick=2),
    ids=str,
)
def test_intervals_cover_the_quantile(design: str, q: float, budget: Guarantee) -> None:
    # Fewer than 170 of 200 with p < 1e-7 at a coverage of 0.95; it may be more.
    drawn, bits = np.random.default_rng(3), SeededBits(4)
    draw, truth = DESIGNS[design]
    estimates = [
        inference.quantile(draw(drawn), q, lower=0, upper=200, budget=budget, bits=bits)
        for _ in range(200)
    ]
    assert covered(estimates, truth(q)) >= 170


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_cover_where_the_budget_is_far_too_small() -> None:
    # As above: the mechanism picks an empty stretch there, and the errors must say so.
    drawn, bits = np.random.default_rng(3), SeededBits(4)
    estimates = [
        inference.quantile(
            drawn.exponential(1, 100), 0.9, lower=0, upper=1000, budget=PureDP(0.5), bits=bits
        )
        for _ in range(200)
    ]
    assert covered(estimates, math.log(10)) >= 170


@pytest.mark.long
@pytest.mark.statistical
def test_interquartile_ranges_cover_theirs() -> None:
    # As above.
    drawn, bits = np.random.default_rng(5), SeededBits(6)
    estimates = [
        inference.iqr(drawn.normal(50, 10, 1000), lower=0, upper=100, budget=GDP(1), bits=bits)
        for _ in range(200)
    ]
    assert covered(estimates, 20 * 0.6744897501960817) >= 170


@pytest.mark.statistical
def test_a_value_that_many_share_is_met_exactly() -> None:
    # 300 of 1,000 people at the median: any other point is 100 ranks off, at epsilon 2/3.
    x = [3] * 350 + [5] * 300 + [9] * 350
    estimate = inference.median(
        x, lower=0, upper=100, budget=PureDP(2), resolution=1, bits=SeededBits(1)
    )
    assert estimate.value == 5


def test_answers_lie_on_the_grid_and_within_the_bounds() -> None:
    strange = [math.nan, math.inf, -math.inf, -0.0, 1e308]
    for lower, upper in ((-1, 1), (-1e99, 1e99), (1e15, 1e15 + 4), (-1e-99, 1e-99)):
        estimate = inference.median(strange, lower=lower, upper=upper, budget=GDP(1))
        assert lower <= estimate.value <= upper
        assert math.isfinite(estimate.standard_error)
    whole = inference.quantile([0.3], 1, lower=0, upper=9, budget=GDP(1), resolution=1.5)
    assert whole.value == int(whole.value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"q": 1.5}, "q"),
        ({"q": math.nan}, "q"),
        ({"x": np.array([[1.0]])}, "x"),
        ({"lower": 9}, "upper"),
        ({"resolution": 0}, "resolution"),
        ({"resolution": 5}, "resolution"),
        ({"budget": 1}, "budget"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(given: dict[str, object], named: str) -> None:
    right: dict[str, object] = {"x": [1.0], "q": 0.5, "lower": 0, "upper": 8, "budget": GDP(1)}
    with pytest.raises(InvalidParameter, match=rf"^{named}="):
        inference.quantile(**{**right, **given})  # type: ignore[arg-type]


def test_a_bound_that_is_left_out_is_asked_for() -> None:
    with pytest.raises(MissingBound, match="public bound"):
        inference.iqr([1.0], lower=0, upper=None, budget=GDP(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [PureDP(1e-300), GDP(1e-200), ZCDP(1e-200)], ids=repr)
def test_a_budget_that_no_choice_can_use_is_named(budget: Guarantee) -> None:
    with pytest.raises(InvalidParameter, match=r"^budget="):
        inference.median([1.0, 2.0], lower=0, upper=10, budget=budget)


def _counts(mean: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda drawn, n: drawn.poisson(mean, n)


WHOLE: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], stats.rv_discrete]] = {
    "few counts": (_counts(3), stats.poisson(3)),
    "counts": (_counts(20), stats.poisson(20)),
    "dice": (lambda drawn, n: drawn.integers(1, 7, n), stats.randint(1, 7)),
    "a long tail": (lambda drawn, n: drawn.geometric(0.1, n), stats.geom(0.1)),
}


def _held(name: str, share: float | None, *, people: int, budget: Guarantee, runs: int) -> int:
    """How many 95 % intervals hold the law's quantile; of None, the interquartile range."""
    draw, law = WHOLE[name]
    drawn, bits = np.random.default_rng(12), SeededBits(13)
    held = 0
    for _ in range(runs):
        x = draw(drawn, people)
        if share is None:
            estimate = inference.iqr(x, lower=0, upper=100, budget=budget, bits=bits)
            truth = law.ppf(0.75) - law.ppf(0.25)
        else:
            estimate = inference.quantile(x, share, lower=0, upper=100, budget=budget, bits=bits)
            truth = law.ppf(share)
        low, high = estimate.interval()
        held += low <= truth <= high
    return held


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.75, None])
def test_intervals_of_whole_numbers_hold(share: float | None) -> None:
    # 95 % intervals: fewer than 128 of 150 with p < 1e-5.
    assert _held("counts", share, people=300, budget=GDP(1), runs=150) >= 128


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 0.9, None])
@pytest.mark.parametrize("people", [300, 3000])
@pytest.mark.parametrize("budget", [GDP(1), PureDP(2)], ids=repr)
@pytest.mark.parametrize("name", WHOLE)
def test_intervals_of_every_law_of_whole_numbers_hold(
    name: str, budget: Guarantee, people: int, share: float | None
) -> None:
    # 95 % intervals: fewer than 255 of 300 with p < 1e-9, and 80 times as many are asked.
    assert _held(name, share, people=people, budget=budget, runs=300) >= 255


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        (lambda x: np.array(x, dtype=np.int64), True),
        (lambda x: np.array(x, dtype=np.uint8), True),
        (lambda x: np.array(x) > 4, True),
        (pd.Series, True),
        (lambda x: pd.Series(x, dtype="Int32"), True),
        (pl.Series, True),
        (pa.array, True),
        (lambda x: range(len(x)), True),
        (lambda x: np.array(x, dtype=np.float64), False),
        (lambda x: pd.Series(x, dtype="float64"), False),
        (lambda x: pl.Series(x, dtype=pl.Float64), False),
        (lambda x: pa.array(x, type=pa.float64()), False),
        (list, False),
        (tuple, False),
        (lambda x: np.array(x, dtype=object), False),
    ],
)
def test_the_default_resolution_is_that_of_the_type(
    kind: Callable[[list[int]], Any], whole: bool
) -> None:
    # Of ten people at a faint budget the answer is nearly any point of the grid.
    x = kind([1, 2, 3, 4, 5, 6, 7, 8, 9, 9])
    found = [
        inference.median(x, lower=0, upper=64, budget=PureDP("0.01"), bits=SeededBits(seed)).value
        for seed in range(5)
    ]
    assert all(value == round(value) for value in found) == whole


def test_no_value_of_a_list_changes_the_grid() -> None:
    # Were the grid that of the values, whole numbers would give whole answers until one is not.
    for x in ([1] * 9 + [2], [1] * 9 + [2.5], [1.5] * 10):
        answers = [
            inference.median(x, lower=0, upper=64, budget=PureDP("0.01"), bits=SeededBits(k)).value
            for k in range(5)
        ]
        assert any(answer != round(answer) for answer in answers)


@pytest.mark.long
def test_the_share_of_the_interval_is_the_callers() -> None:
    x = np.random.default_rng(14).normal(50, 10, 2000)

    def spread(interval: float) -> float:
        bits = SeededBits(15)
        told = [
            inference.quantile(
                x, 0.5, lower=0, upper=100, budget=GDP(0.3), interval=interval, bits=bits
            ).value
            for _ in range(150)
        ]
        return float(np.std(told))

    # Deviations of noise go as one over the root of what is left: 0.95 / 0.1 is a factor of 3.
    assert spread(0.9) > 2 * spread(0.05)
    for wrong in (0, 1, -0.1, 2, math.nan):
        with pytest.raises(InvalidParameter, match="interval"):
            inference.median(x, lower=0, upper=100, budget=GDP(1), interval=wrong)


@pytest.mark.parametrize("of", [inference.median, inference.iqr])
def test_the_point_alone_has_the_whole_budget_and_no_errors(of: Any) -> None:
    """`interval=False`: infinite errors, and a third of the rank error or less."""
    values = np.random.default_rng(1).normal(size=400)
    bounds: dict[str, Any] = {"lower": -10, "upper": 10, "budget": GDP("0.3")}
    alone = of(values, **bounds, interval=False, bits=SeededBits(1))
    assert alone.interval().width == math.inf
    found = {False: list[float](), Fraction(2, 3): list[float]()}
    bits = SeededBits(2)
    for interval, points in found.items():
        points.extend(of(values, **bounds, interval=interval, bits=bits).value for _ in range(60))
    # Deviations of 60 are known to 9 %, and one is some three times the other.
    assert np.std(found[False]) < np.std(found[Fraction(2, 3)])
