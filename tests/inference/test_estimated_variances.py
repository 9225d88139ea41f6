"""Variances: how far the released pair moves, coverage, strange values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee


@pytest.mark.parametrize("centre", [-1.0, -0.3, 0.0, 0.7, 1.0])
def test_squares_around_a_mean_move_as_far_as_is_said_and_no_farther(centre: float) -> None:
    points = np.append(np.linspace(-1, 1, 1001), centre) - centre
    largest = (1 + abs(centre)) ** 2
    pairs = np.stack([points**2, points**4 / (2 * largest)], axis=1)
    moved = pairs[:, None, :] - pairs[None, :, :]
    l2, l1 = np.sqrt((moved**2).sum(axis=2)).max(), np.abs(moved).sum(axis=2).max()
    assert l2 == pytest.approx(math.sqrt(5 / 4) * largest, rel=1e-9)
    assert l1 == pytest.approx(1.5 * largest, rel=1e-9)
    assert math.sqrt(5 / 4) <= 559017 / 500000


def covered(estimates: list[Estimate], truth: float) -> int:
    return sum(lower <= truth <= upper for lower, upper in (e.interval() for e in estimates))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("budget", mostly_slow([PureDP(1), GDP(1)]), ids=repr)
def test_intervals_cover_the_variance_and_its_root(budget: Guarantee) -> None:
    # Fewer than 255 of 300 with p < 1e-9 at a coverage of 0.95; it may be more.
    drawn, bits = np.random.default_rng(1), SeededBits(2)
    squared = functools.partial(inference.variance, lower=0, upper=100, budget=budget, bits=bits)
    rooted = functools.partial(inference.stdev, lower=0, upper=100, budget=budget, bits=bits)
    truth = 1e4 * 16 / 100 / 11
    samples = [100 * drawn.beta(2, 8, 1000) for _ in range(300)]
    squares = [squared(x) for x in samples]
    assert covered(squares, truth) >= 255
    assert covered([rooted(x) for x in samples], math.sqrt(truth)) >= 255
    # The mean error is not far from what is told: a wrong term would show.
    off = math.sqrt(np.mean([(e.value - truth) ** 2 for e in squares]))
    assert 0.6 < off / np.mean([e.standard_error for e in squares]) < 1.2


@pytest.mark.parametrize(
    "budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), GDP(1), RenyiDP(8, 2)], ids=repr
)
def test_every_budget_buys_a_variance(budget: Guarantee) -> None:
    estimate = inference.variance(
        np.arange(10**5) % 11, lower=0, upper=10, budget=budget, bits=SeededBits(1)
    )
    assert abs(estimate.value - 10) < 10 * estimate.standard_error + 0.01


def test_strange_values_change_no_guarantee_and_raise_nothing() -> None:
    for x in ([math.nan, math.inf, -math.inf, -0.0], [1.0], [math.nan]):
        estimate = inference.stdev(x, lower=-1, upper=1, budget=GDP(1), bits=SeededBits(1))
        assert math.isfinite(estimate.standard_error)


def test_bounds_in_the_wrong_order_are_named() -> None:
    with pytest.raises(InvalidParameter, match=r"^upper="):
        inference.variance([1.0], lower=2, upper=1, budget=GDP(1))
