"""The binomial test: the law of its noise, exact levels, power, intervals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.inference.hypothesis_tests.counts import BinomialTest, tulap_cdf
from unacorda.privacy.guarantees import Guarantee


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_tulap_noise_is_discrete_laplace_plus_uniform(epsilon: float) -> None:
    points = np.linspace(-9, 9, 401)
    k = np.arange(-2000, 2001)
    b = math.exp(-epsilon)
    weights = (1 - b) / (1 + b) * b ** np.abs(k)
    truth = (weights * np.clip(points[:, None] - k + 0.5, 0, 1)).sum(axis=1)
    assert tulap_cdf(points, epsilon=epsilon) == pytest.approx(truth, abs=1e-12)


def best_power(n: int, null: float, truth: float, epsilon: float, alpha: float) -> float:
    """The most that any epsilon-private test of one side can have: a linear programme."""
    counts = np.arange(n + 1)
    rows, grow = [], math.exp(epsilon)
    for x, y in [*itertools.pairwise(counts), *itertools.pairwise(counts[::-1])]:
        for sign in (1, -1):  # of refusing and of not refusing
            row = np.zeros(n + 1)
            row[x], row[y] = sign, -sign * grow
            rows.append((row, 0.0 if sign == 1 else grow - 1))
    table = np.array([row for row, _ in rows] + [binom.pmf(counts, n, null)])
    limits = [limit for _, limit in rows] + [alpha]
    found = linprog(-binom.pmf(counts, n, truth), A_ub=table, b_ub=limits, bounds=(0, 1))
    return float(-found.fun)


@pytest.mark.parametrize(("n", "epsilon"), [(5, 0.5), (20, 1.0), (30, 2.0)])
@pytest.mark.parametrize("truth", [0.6, 0.8])
def test_no_private_test_has_more_power(n: int, epsilon: float, truth: float) -> None:
    ours = inference.binomial_power(truth, null=0.5, n=n, budget=PureDP(epsilon))
    assert ours == pytest.approx(best_power(n, 0.5, truth, epsilon, 0.05), abs=1e-6)


def test_p_values_are_exact() -> None:
    tested = BinomialTest(count=13.2, n=20, sigma=2.0)
    counts = np.arange(21)
    truth = float(binom.pmf(counts, 20, 0.4) @ norm.sf(13.2, counts, 2.0))
    assert tested.p_value(0.4, alternative="greater") == pytest.approx(truth, rel=1e-9)
    assert tested.p_value(0.4, alternative="less") == pytest.approx(1 - truth, rel=1e-9)
    assert tested.p_value(0.4) == pytest.approx(2 * truth, rel=1e-9)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("budget", "share"),
    mostly_slow(
        [
            (PureDP(1), 0.02),
            (GDP("0.5"), 0.5),
            pytest.param(ApproxDP(1, 1e-6), 0.5, marks=pytest.mark.slow),
            pytest.param(ZCDP(0.1), 0.02, marks=pytest.mark.slow),
        ]
    ),
    ids=repr,
)
def test_levels_and_intervals_hold(budget: Guarantee, share: float) -> None:
    # 800 tests at an exact level of 5 %: outside of [9, 79] with p < 1e-7.
    drawn, bits = np.random.default_rng(1), SeededBits(2)
    tests = [
        inference.binomial_test(drawn.random(100) < share, budget=budget, bits=bits)
        for _ in range(800)
    ]
    for alternative in ("less", "greater", "two-sided"):
        refused = sum(t.p_value(share, alternative=alternative) <= 0.05 for t in tests)
        assert 9 <= refused <= 79
    # At least 95 %: fewer than 165 of 200 with p < 1e-9.
    intervals = [tested.interval(0.95) for tested in tests[:200]]
    assert sum(low <= share <= high for low, high in intervals) >= 165


@pytest.mark.long
@pytest.mark.statistical
def test_promised_power_is_measured_power() -> None:
    # 1,000 tests: a rate off by 0.08 from its probability has p < 1e-6.
    drawn, bits = np.random.default_rng(3), SeededBits(4)
    promised = inference.binomial_power(0.6, null=0.5, n=100, budget=PureDP("0.5"))
    refused = sum(
        inference.binomial_test(drawn.random(100) < 0.6, budget=PureDP("0.5"), bits=bits).p_value(
            0.5, alternative="greater"
        )
        <= 0.05
        for _ in range(1000)
    )
    assert refused / 1000 == pytest.approx(promised, abs=0.08)


def test_ends_of_the_range_are_met() -> None:
    tested = inference.binomial_test([True] * 50, budget=PureDP(5), bits=SeededBits(2))
    assert tested.interval().upper == 1.0
    assert tested.p_value(0.0) < 1e-6
    assert inference.binomial_test([math.nan], budget=GDP(1)).n == 1


@pytest.mark.parametrize(
    ("share", "alternative", "named"),
    [(1.5, "less", "share"), (math.nan, "less", "share"), (0.5, "more", "alternative")],
)
def test_arguments_that_cannot_be_used_are_named(
    share: float, alternative: str, named: str
) -> None:
    tested = BinomialTest(count=1.0, n=2, epsilon=1.0)
    with pytest.raises(InvalidParameter, match=rf"^{named}="):
        tested.p_value(share, alternative=alternative)  # type: ignore[arg-type]
