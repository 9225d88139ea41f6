"""Tests of means and of ranks: levels, power, sensitivities by brute force, bad input."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from unacorda import GDP, PureDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.privacy.guarantees import Guarantee

Ask = Callable[[np.random.Generator, Guarantee, float], float]


def chances(rng: np.random.Generator) -> dict[str, Any]:
    """What one test draws; with one null for all of them, all would be wrong alike."""
    noise, null = (int(word) for word in rng.integers(2**32, size=2))
    return {"draws": 199, "bits": SeededBits(noise), "seed": null}


def one(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    x = rng.normal(effect, 1, 300)
    return inference.t_test(x, 0, lower=-5, upper=5, budget=budget, **chances(rng)).p_value


def two(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    x, y = rng.normal(effect, 1, 200), rng.normal(0, 2, 500)
    return inference.two_sample_t_test(
        x, y, lower=-8, upper=8, budget=budget, **chances(rng)
    ).p_value


def several(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    groups = [rng.normal(shift, 1, 150) for shift in (0, 0, effect)]
    return inference.anova(groups, lower=-5, upper=5, budget=budget, **chances(rng)).p_value


def ranks(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    x, y = rng.standard_t(2, 120) + effect, rng.standard_t(2, 150)
    return inference.mann_whitney_test(x, y, budget=budget, **chances(rng)).p_value


def few_ranks(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    x, y = rng.standard_t(2, 30) + 2 * effect, rng.standard_t(2, 20)
    return inference.mann_whitney_test(x, y, budget=budget, **chances(rng)).p_value


def signs(rng: np.random.Generator, budget: Guarantee, effect: float) -> float:
    x = rng.standard_t(2, 250) + effect
    return inference.signed_rank_test(x, budget=budget, **chances(rng)).p_value


EVERY = [one, two, several, ranks, few_ranks, signs]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("ask", EVERY)
@pytest.mark.parametrize(
    "budget", [GDP(1), pytest.param(PureDP(1), marks=pytest.mark.slow)], ids=repr
)
def test_true_hypotheses_are_refused_as_often_as_is_said(ask: Ask, budget: Guarantee) -> None:
    # 300 tests at 10 %: more than 58, or fewer than 8, with p < 1e-6.
    rng = np.random.default_rng(5)
    refused = sum(ask(rng, budget, 0.0) <= 0.1 for _ in range(300))
    assert 8 <= refused <= 58


DESIGNS: dict[str, list[tuple[int, float]]] = {
    "the few vary most": [(50, 3.0), (100, 1.5), (400, 0.75)],
    "the few vary least": [(400, 3.0), (100, 1.5), (50, 0.75)],
    "one varies more": [(200, 1.0), (200, 1.0), (200, 1.0), (200, 4.0)],
    "two groups": [(60, 2.5), (600, 0.5)],
    "small groups": [(12, 3.0), (15, 1.0), (30, 0.5)],
    "all alike": [(100, 1.0), (100, 1.0), (100, 1.0)],
}


def _size(design: str, budget: Guarantee, *, runs: int) -> int:
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(runs):
        groups = [rng.normal(1.0, deviation, people) for people, deviation in DESIGNS[design]]
        told = inference.anova(groups, lower=-10, upper=10, budget=budget, **chances(rng))
        refused += told.p_value <= 0.05
    return refused


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("design", ["the few vary most", "one varies more"])
def test_unequal_variances_do_not_raise_the_size_of_an_analysis_of_variance(design: str) -> None:
    # 400 tests at 5 %: more than 42, or fewer than 3, with p < 1e-5.
    assert 3 <= _size(design, GDP(1), runs=400) <= 42


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("budget", [GDP(1), PureDP(1), GDP(100)], ids=repr)
@pytest.mark.parametrize("design", DESIGNS)
def test_the_size_of_an_analysis_of_variance(design: str, budget: Guarantee) -> None:
    # 2,000 tests at 5 %: more than 145 with p < 1e-5. Where noise is most of the error, fewer.
    assert 30 <= _size(design, budget, runs=2000) <= 145


@pytest.mark.statistical
@pytest.mark.parametrize("ask", EVERY)
def test_false_hypotheses_are_refused(ask: Ask) -> None:
    # Each has a power above 0.9 here: fewer than 14 of 30 with p < 1e-8.
    rng = np.random.default_rng(6)
    assert sum(ask(rng, GDP(1), 1.0) <= 0.05 for _ in range(30)) >= 14


values = st.lists(st.integers(-3, 3), min_size=2, max_size=7)


@pytest.mark.long
@settings(max_examples=300)
@given(values, st.data())
def test_a_replaced_person_moves_signed_ranks_by_2n_at_most(
    x: list[int], data: st.DataObject
) -> None:
    changed = list(x)
    changed[data.draw(st.integers(0, len(x) - 1))] = data.draw(st.integers(-9, 9))

    def signed(of: list[int]) -> float:
        return float(np.sign(of) @ rankdata(np.abs(of)))

    assert abs(signed(x) - signed(changed)) <= 2 * len(x)


def test_and_2n_is_reached() -> None:
    x = np.array([-1.0, 2.0, 3.0, 9.0])
    changed = np.array([-1.0, 2.0, 3.0, -9.0])
    moved = np.sign(x) @ rankdata(np.abs(x)) - np.sign(changed) @ rankdata(np.abs(changed))
    assert moved == 2 * 4


@pytest.mark.long
@settings(max_examples=300)
@given(values, values, st.data())
def test_a_replaced_person_moves_pairs_by_the_other_group_at_most(
    x: list[int], y: list[int], data: st.DataObject
) -> None:
    changed = list(x)
    changed[data.draw(st.integers(0, len(x) - 1))] = data.draw(st.integers(-9, 9))

    def pairs(of: list[int]) -> float:
        return sum((a > b) + (a == b) / 2 for a in of for b in y)

    assert abs(pairs(x) - pairs(changed)) <= len(y)
    loud = inference.mann_whitney_test(
        x, y, budget=PureDP(10**6), draws=99, bits=SeededBits(1)
    ).statistic
    assert loud * len(x) * len(y) == pytest.approx(pairs(x), abs=0.01)


def test_strange_values_raise_nothing() -> None:
    x = [math.nan, math.inf, -math.inf, 0.0, -0.0]
    assert 0 < inference.mann_whitney_test(x, x, budget=GDP(1), draws=99).p_value <= 1
    assert 0 < inference.signed_rank_test(x, budget=GDP(1), draws=99).p_value <= 1
    told = inference.t_test(x, 0, lower=-1, upper=1, budget=GDP(1), draws=99)
    assert 0 < told.p_value <= 1


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda: inference.t_test([1.0], 0, lower=-1, upper=1, budget=GDP(1)), "x"),
        (lambda: inference.t_test([1.0, 2], math.nan, lower=0, upper=1, budget=GDP(1)), "mean"),
        (lambda: inference.anova([[1.0, 2.0]], lower=0, upper=1, budget=GDP(1)), "groups"),
        (lambda: inference.anova([[1, 2], [1]], lower=0, upper=1, budget=GDP(1)), "y"),
        (lambda: inference.signed_rank_test([], budget=GDP(1)), "x"),
        (lambda: inference.mann_whitney_test([1], np.array(["a"]), budget=GDP(1)), "y"),
        (lambda: inference.signed_rank_test([1.0], budget=GDP(1), draws=1), "draws"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(ask: Callable[[], object], named: str) -> None:
    with pytest.raises(InvalidParameter, match=rf"^{named}="):
        ask()


def test_a_bound_that_is_left_out_is_asked_for() -> None:
    with pytest.raises(MissingBound, match="public bound"):
        inference.anova([[1, 2], [1, 2]], lower=0, upper=None, budget=GDP(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("test", [3, lambda effect, rng: 1.0])
def test_a_power_curve_names_what_is_no_test(test: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^test="):
        inference.power_curve(test, [0.0], repetitions=1)
