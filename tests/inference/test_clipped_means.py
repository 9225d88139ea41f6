"""Bounds found privately, and means around private quartiles."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, PureDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.privacy.guarantees import Guarantee

LOUD = PureDP(10**6)


@pytest.mark.parametrize(
    ("x", "lower", "upper"),
    [
        ([1.0, 1.5, 3.0], 1.0, 4.0),
        ([-1.0, -3.0], -4.0, -1.0),
        ([0.0, 5.0], 0.0, 8.0),
        ([0.0, -5.0], -8.0, 0.0),
        ([-0.3, 0.3], -0.5, 0.5),
        ([0.0, -0.0, math.nan], -1.0, 1.0),
        ([math.inf, -math.inf], -(2.0**64), 2.0**64),
        ([1e-300], 2.0**-64, 2.0**-63),
    ],
)
def test_bounds_without_much_noise_are_the_powers_of_two_around(
    x: list[float], lower: float, upper: float
) -> None:
    assert inference.find_bounds(x, budget=LOUD, bits=SeededBits(1)) == (lower, upper)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    "budget", mostly_slow([GDP(1), PureDP(1), ApproxDP(1, 1e-6)], quick=2), ids=repr
)
def test_noise_alone_seldom_widens_the_bounds(budget: Guarantee) -> None:
    # At most 1 in 100 by the choice of the threshold: more than 17 of 300 with p < 1e-7.
    bits = SeededBits(3)
    found = [inference.find_bounds([10.0] * 500, budget=budget, bits=bits) for _ in range(300)]
    assert sum(bounds != (8.0, 16.0) for bounds in found) <= 17


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("bounds", [(None, None), (-1e9, 1e9)])
def test_means_in_wide_bounds_are_nearly_as_good_as_in_narrow_ones(
    bounds: tuple[float | None, float | None],
) -> None:
    # 95 % intervals: fewer than 170 of 200 with p < 1e-7.
    drawn, bits = np.random.default_rng(4), SeededBits(5)
    lower, upper = bounds
    estimates = [
        inference.clipped_mean(
            drawn.normal(1000, 3, 1000), lower=lower, upper=upper, budget=GDP(1), bits=bits
        )
        for _ in range(200)
    ]
    held = [low <= 1000 <= high for low, high in (e.interval() for e in estimates)]
    assert sum(held) >= 170
    assert np.median([e.privacy_error for e in estimates]) < 0.05  # of a deviation of 3


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("people", "budget", "runs"),
    [
        (300, GDP(1), 200),
        (5000, GDP(1), 100),
        pytest.param(5000, PureDP(1), 200, marks=pytest.mark.slow),
        pytest.param(50_000, GDP(1), 200, marks=pytest.mark.slow),
    ],
)
def test_intervals_of_a_skewed_law_hold_its_clipped_mean(
    people: int, budget: Guarantee, runs: int
) -> None:
    # The mean of the lognormal clipped to [a, b] by its partial expectation. 95 % intervals: fewer
    # than 85 % with p < 1e-4 at 100, 1e-7 at 200.
    def clipped(low: float, high: float) -> float:
        def below(c: float) -> float:  # E[X; X <= c]
            return math.exp(0.5) * stats.norm.cdf(math.log(c) - 1) if c > 0 else 0.0

        inner = below(high) - below(low)
        return float(inner + max(low, 0) * law.cdf(low) + high * law.sf(high))

    law, drawn, bits = stats.lognorm(s=1), np.random.default_rng(10), SeededBits(11)
    held = 0
    for _ in range(runs):
        estimate = inference.clipped_mean(drawn.lognormal(size=people), budget=budget, bits=bits)
        low, high = estimate.interval()
        held += low <= clipped(*estimate.bounds) <= high
    assert held >= 0.85 * runs


def test_the_bounds_that_values_were_clipped_to_are_told() -> None:
    x = [*range(1000), 10**9]
    estimate = inference.clipped_mean(x, budget=LOUD, bits=SeededBits(1))
    low, high = estimate.bounds
    assert abs(estimate.value - np.clip(x, low, high).mean()) < 1e-3
    assert low < 0
    assert 1000 < high < 10_000
    whole = inference.clipped_mean([1.0] * 9, lower=0, upper=4, budget=LOUD, bits=SeededBits(1))
    assert whole.bounds == (0, 4)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("people", "budget"), [(40, GDP(1)), (100, PureDP(1)), (500, PureDP(1)), (1000, PureDP(1))]
)
def test_intervals_hold_where_noise_hides_many_or_all(people: int, budget: Guarantee) -> None:
    # 95 % intervals: fewer than 76 of 100 with p < 1e-9. A third of these people are in cells
    # that no count tells from noise; of 40 or 100 nearly all are.
    drawn, bits = np.random.default_rng(6), SeededBits(7)
    estimates = [
        inference.clipped_mean(drawn.normal(50, 30, people), budget=budget, bits=bits)
        for _ in range(100)
    ]
    held = [low <= 50 <= high for low, high in (e.interval() for e in estimates)]
    assert sum(held) >= 76
    if people == 1000:  # and they are not wide
        assert np.median([e.standard_error for e in estimates]) < 1.3  # 0.95 by sampling


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_hold_where_quartiles_miss_a_third_of_the_people() -> None:
    # Of zeros and ones both quartiles may be zeros, and a clip to there would keep no one.
    drawn, bits = np.random.default_rng(8), SeededBits(9)
    estimates = [
        inference.clipped_mean(drawn.random(500) < 0.3, budget=GDP(1), bits=bits)
        for _ in range(100)
    ]
    held = [low <= 0.3 <= high for low, high in (e.interval() for e in estimates)]
    assert sum(held) >= 76


def test_bounds_that_too_few_people_tell_are_the_widest() -> None:
    few = [10.0] * 5
    for seed in range(5):
        found = inference.find_bounds(few, budget=PureDP("0.1"), bits=SeededBits(seed))
        assert found == (-(2.0**64), 2.0**64)


def test_a_value_that_all_share_keeps_the_bounds() -> None:
    estimate = inference.clipped_mean(
        [1.0] * 100, lower=0, upper=1, budget=GDP(10), bits=SeededBits(1)
    )
    assert abs(estimate.value - 1) < 0.1


def test_one_bound_alone_is_not_enough() -> None:
    with pytest.raises(MissingBound, match="public bound"):
        inference.clipped_mean([1.0], lower=0, budget=GDP(1))
    with pytest.raises(InvalidParameter, match=r"^x="):
        inference.find_bounds(np.array([[1.0]]), budget=GDP(1))
