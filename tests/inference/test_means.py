"""Means and proportions: sensitivity by brute force, events within budgets, coverage."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.estimates.means import positive_part
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee

BUDGETS = [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), GDP(1), RenyiDP(8, 2)]


@pytest.mark.long
@pytest.mark.parametrize(("square", "power"), [(83 / 50, 2), (1 / 2, 1)])
def test_the_square_moves_a_pair_no_farther_than_its_first_number(
    square: float, power: int
) -> None:
    points = np.linspace(-1, 1, 2001)
    u, v = np.meshgrid(points, points)
    moved = (np.abs(u - v) ** power + np.abs(square * (u**2 - v**2)) ** power) ** (1 / power)
    assert moved.max() <= 2 * (1 + 1e-12)
    larger = square * 1.01
    moved = (np.abs(u - v) ** power + np.abs(larger * (u**2 - v**2)) ** power) ** (1 / power)
    assert moved.max() > 2  # no larger factor is free


@in_subtests("budget", BUDGETS, ids=repr)
@in_subtests("ask", [inference.mean, inference.proportion])
def test_a_mean_spends_no_more_than_its_budget_and_says_its_errors(
    budget: Guarantee, ask: object
) -> None:
    x = np.arange(1000) % 2
    estimate = (
        inference.mean(x, lower=0, upper=1, budget=budget, bits=SeededBits(3))
        if ask is inference.mean
        else inference.proportion(x, budget=budget, bits=SeededBits(3))
    )
    assert estimate.noise == (
        "laplace" if isinstance(budget, PureDP | ApproxDP | RenyiDP) else "normal"
    )
    # One replaced row moves the mean by 1/1000: the noise that each budget needs for that.
    least = {
        PureDP: math.sqrt(2) / 1000,
        ApproxDP: math.sqrt(2) / 1000,
        ZCDP: 1 / 1000,
        GDP: 1 / 1000,
        RenyiDP: math.sqrt(2) / 2.0178 / 1000,
    }
    assert estimate.privacy_error == pytest.approx(least[type(budget)], rel=0.02)
    assert estimate.sampling_error == pytest.approx(0.5 / math.sqrt(1000), rel=0.05)


def covered(estimates: list[Estimate], truth: float, confidence: float) -> int:
    return sum(
        lower <= truth <= upper
        for lower, upper in (estimate.interval(confidence) for estimate in estimates)
    )


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("budget", mostly_slow([PureDP(1), GDP(0.5)]), ids=repr)
@pytest.mark.parametrize("n", [200, 2000])
def test_intervals_cover_the_mean(budget: Guarantee, n: int) -> None:
    # 600 intervals of 95 %: fewer than 534 or more than 597 with p < 1e-7 at a coverage of 0.95.
    drawn, bits = np.random.default_rng(7), SeededBits(11)
    estimates = [
        inference.mean(drawn.beta(2, 5, n) * 100, lower=0, upper=100, budget=budget, bits=bits)
        for _ in range(600)
    ]
    assert 534 <= covered(estimates, 100 * 2 / 7, 0.95) <= 597


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_cover_a_proportion() -> None:
    # As above.
    drawn, bits = np.random.default_rng(8), SeededBits(12)
    estimates = [
        inference.proportion(drawn.random(1000) < 0.2, budget=GDP(0.5), bits=bits)
        for _ in range(600)
    ]
    assert 534 <= covered(estimates, 0.2, 0.95) <= 597


def test_values_that_are_no_numbers_change_no_guarantee_and_raise_nothing() -> None:
    strange = [math.nan, math.inf, -math.inf, -0.0, 1e308, -1e308]
    ends = [
        inference.mean(strange, lower=lower, upper=upper, budget=GDP(1), bits=SeededBits(1))
        for lower, upper in ((-1, 1), (-1e99, 1e99), (-1e-99, 1e-99), (1e15, 1e15 + 1))
    ]
    assert all(math.isfinite(estimate.standard_error) for estimate in ends)
    assert inference.proportion(strange, budget=GDP(1)).noise == "normal"


def test_one_person_of_one_gets_an_answer() -> None:
    estimate = inference.mean([3.0], lower=0, upper=10, budget=GDP(1), bits=SeededBits(1))
    assert estimate.sampling_error >= 0


@pytest.mark.parametrize(
    ("x", "lower", "upper", "named"),
    [
        (np.array([[1.0]]), 0, 1, "x"),
        ([], 0, 1, "x"),
        (np.array(["a"]), 0, 1, "x"),
        ([1.0], 1, 1, "upper"),
        ([1.0], 2, 1, "upper"),
        ([1.0], math.nan, 1, "lower"),
        ([1.0], -1e101, 1, "lower"),
        ([1.0], 0, 1e-101, "upper"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    x: object, lower: float, upper: float, named: str
) -> None:
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        inference.mean(x, lower=lower, upper=upper, budget=GDP(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [None, 1.0, GDP(0), PureDP(0)])
def test_budgets_that_cannot_be_used_are_named(budget: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^budget="):
        inference.mean([1.0], lower=0, upper=1, budget=budget)  # type: ignore[arg-type]


def test_a_bound_that_is_left_out_is_asked_for() -> None:
    with pytest.raises(MissingBound, match="public bound"):
        inference.mean([1.0], lower=None, upper=1, budget=GDP(1))  # type: ignore[arg-type]


def test_a_positive_part_is_the_mean_of_a_cut_normal() -> None:
    from scipy.stats import truncnorm

    for value, error in itertools.product([-30.0, -2.0, 0.0, 0.5, 40.0], [0.1, 1.0, 7.0]):
        truth = float(truncnorm.mean(-value / error, np.inf, loc=value, scale=error))
        assert positive_part(value, error) == pytest.approx(truth, rel=1e-4, abs=1e-9)
    assert positive_part(-2.0, 0.0) == 0
