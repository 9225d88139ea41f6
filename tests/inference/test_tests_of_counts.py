"""Tests of counts: levels under the null, power, what counts cannot be used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unacorda import GDP, PureDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee

SHARES = [0.1, 0.2, 0.3, 0.4]


def chances(rng: np.random.Generator) -> dict[str, Any]:
    """What one test draws; with one null for all of them, all would be wrong alike."""
    noise, null = (int(word) for word in rng.integers(2**32, size=2))
    return {"draws": 199, "bits": SeededBits(noise), "seed": null}


def fit(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    shares = np.array(SHARES) + effect * np.array([1, 1, -1, -1])
    x = rng.choice(4, 400, p=shares)
    return inference.fit_test(x, shares=SHARES, budget=budget, **chances(rng)).p_value


def independence(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    x = rng.integers(0, 3, 600)
    y = np.where(rng.random(600) < 4 * effect, x, rng.integers(0, 3, 600))
    return inference.independence_test(
        x, y, categories=(3, 3), budget=budget, **chances(rng)
    ).p_value


def proportions(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    x, y = rng.random(300) < 0.3 + 2 * effect, rng.random(500) < 0.3
    return inference.two_proportions_test(x, y, budget=budget, **chances(rng)).p_value


Ask = Callable[[np.random.Generator, Guarantee, float], float]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("ask", [fit, independence, proportions])
@pytest.mark.parametrize(
    "budget", [GDP(1), pytest.param(PureDP(1), marks=pytest.mark.slow)], ids=repr
)
def test_true_hypotheses_are_refused_as_often_as_is_said(ask: Ask, budget: Guarantee) -> None:
    # 300 tests at 10 %: more than 58, or fewer than 8, with p < 1e-6.
    rng = np.random.default_rng(5)
    refused = sum(ask(rng, budget, 0.0) <= 0.1 for _ in range(300))
    assert 8 <= refused <= 58


@pytest.mark.statistical
@pytest.mark.parametrize("ask", [fit, independence, proportions])
def test_false_hypotheses_are_refused(ask: Ask) -> None:
    # Each has a power above 0.9 here: fewer than 14 of 30 with p < 1e-8.
    rng = np.random.default_rng(6)
    assert sum(ask(rng, GDP(1), 0.07) <= 0.05 for _ in range(30)) >= 14


@pytest.mark.statistical
def test_without_the_noise_in_the_null_the_level_would_be_wrong() -> None:
    """The reason for simulating: the usual chi-square law refuses far too often."""
    from scipy.stats import chi2

    # The rate is above 0.5 here: fewer than 20 of 100 with p < 1e-9.
    rng = np.random.default_rng(8)
    naive = 0
    for _ in range(100):
        x = rng.choice(4, 400, p=SHARES)
        told = inference.fit_test(x, shares=SHARES, budget=GDP("0.15"), **chances(rng))
        naive += bool(chi2.sf(told.statistic, 3) <= 0.05)
    assert naive >= 20


def test_categories_beyond_the_stated_ones_raise_nothing() -> None:
    x = np.array([-1, 0, 5, 2**40])
    assert 0 < inference.fit_test(x, shares=[1, 1], budget=GDP(1), draws=99).p_value <= 1
    told = inference.independence_test(x, x, categories=(2, 2), budget=GDP(1), draws=99)
    assert 0 < told.p_value <= 1
    both = inference.two_proportions_test([math.nan], [True], budget=GDP(1), draws=99)
    assert 0 < both.p_value <= 1


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda: inference.fit_test([0], shares=[1], budget=GDP(1)), "shares"),
        (lambda: inference.fit_test([0], shares=[1, 0], budget=GDP(1)), "shares"),
        (lambda: inference.fit_test(np.array([0.5]), shares=[1, 1], budget=GDP(1)), "x"),
        (lambda: inference.fit_test([], shares=[1, 1], budget=GDP(1)), "x"),
        (lambda: inference.fit_test([0], shares=[1, 1], budget=GDP(1), draws=9), "draws"),
        (
            lambda: inference.independence_test([0], [0, 1], categories=(2, 2), budget=GDP(1)),
            "y",
        ),
        (
            lambda: inference.independence_test([0], [0], categories=(2, 1), budget=GDP(1)),
            "categories",
        ),
        (
            lambda: inference.two_proportions_test(
                [0],
                [0],
                budget=GDP(1),
                alternative="other",  # type: ignore[arg-type]
            ),
            "alternative",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_named(ask: Callable[[], object], named: str) -> None:
    with pytest.raises(InvalidParameter, match=rf"^{named}="):
        ask()
