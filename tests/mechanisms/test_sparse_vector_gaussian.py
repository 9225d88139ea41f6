"""Sparse vector with normal noise: what it costs, exactly, and what it says."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.mechanisms.sparse_vector_laws import Answers, Noise, law, nothing, rounded_normal
from tests.mechanisms.test_sparse_vector_privacy import patterns
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.mechanisms.sparse_vector.gaussian import GaussianAboveThreshold, NormalComparison
from unacorda.mechanisms.sparse_vector.threshold import SparseVector
from unacorda.privacy import events
from unacorda.privacy.conversions import approx_dp_delta_from_gdp

WRITTEN: dict[str, Any] = {
    "epsilon": 1,
    "delta": 1e-6,
    "sensitivity": 1,
    "threshold": 100,
    "queries": 1000,
}
SHARP = WRITTEN | {"epsilon": 10**9}


def on_whole_numbers(**changed: Any) -> GaussianAboveThreshold:
    return GaussianAboveThreshold(**WRITTEN | {"threshold": 0, "grid_log2": 0} | changed)


# ---- the guarantee, exactly


def exact_law(
    comparison: NormalComparison,
    steps: Sequence[int],
    *,
    gaps: int = 0,
) -> dict[Answers, float]:
    return law(
        [comparison.level + step for step in steps],
        level=comparison.level,
        threshold=rounded_normal(comparison.threshold_sigma),
        question=rounded_normal(comparison.query_sigma),
        count=1,
        gaps=gaps,
    )


def distance(one: dict[Answers, float], other: dict[Answers, float], epsilon: float) -> float:
    """The hockey-stick divergence of two laws, the larger of both directions."""
    factor = math.exp(epsilon)
    return max(
        math.fsum(max(first[key] - factor * second[key], 0.0) for key in one)
        for first, second in ((one, other), (other, one))
    )


def farthest(
    mechanism: GaussianAboveThreshold,
    bases: Sequence[Sequence[int]],
    *,
    move: int = 1,
    noise: Fraction = Fraction(1),
    gaps: int = 0,
) -> float:
    """The largest distance of neighbours; noise: by how much that of the mechanism is changed."""
    made = mechanism.comparison
    comparison = NormalComparison(
        grid_log2=0,
        level=made.level,
        threshold_sigma=made.threshold_sigma * noise,
        query_sigma=made.query_sigma * noise,
    )
    found = 0.0
    for base in bases:
        here = exact_law(comparison, base, gaps=gaps)
        for moves in patterns(len(base), move, monotone=mechanism.monotone):
            moved = [a + b for a, b in zip(base, moves, strict=True)]
            there = exact_law(comparison, moved, gaps=gaps)
            found = max(found, distance(here, there, float(mechanism.epsilon)))
    return found


def around(deviation: float, questions: int) -> list[tuple[int, ...]]:
    """Streams whose questions lie at, below and far below the threshold."""
    places = [round(place * deviation) for place in (-3.0, -1.5, 0.0, 1.5)]
    return list(itertools.product(places, repeat=questions))


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("questions", [1, 2, 3])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    mostly_slow(
        [
            (1, 0.1),
            (0.25, 0.05),
            (3, 1e-4),
            (1, 1e-6),
        ]
    ),
)
def test_every_pattern_of_moves_keeps_the_guarantee(
    epsilon: float, delta: float, questions: int, monotone: bool
) -> None:
    mechanism = on_whole_numbers(epsilon=epsilon, delta=delta, queries=questions, monotone=monotone)
    bases = around(float(mechanism.comparison.query_sigma), questions)
    if questions == 3:
        bases = bases[::3]
    assert farthest(mechanism, bases) <= delta
    # So few questions do not reach it: noise of a quarter does too little, and that is seen.
    assert farthest(mechanism, bases, noise=Fraction(1, 4)) > delta


@pytest.mark.parametrize("sensitivity", [Fraction(5, 2), 3])
def test_a_sensitivity_of_some_steps(sensitivity: Any) -> None:
    mechanism = on_whole_numbers(epsilon=2, delta=0.01, queries=2, sensitivity=sensitivity)
    one = on_whole_numbers(epsilon=2, delta=0.01, queries=2)
    for sigma in ("threshold_sigma", "query_sigma"):
        ratio = getattr(mechanism.comparison, sigma) / getattr(one.comparison, sigma)
        assert float(ratio) == pytest.approx(3, rel=1e-12)
    bases = around(float(mechanism.comparison.query_sigma), 2)
    assert farthest(mechanism, bases, move=3) <= 0.01
    assert farthest(mechanism, bases, move=3, noise=Fraction(1, 4)) > 0.01


@pytest.mark.parametrize("monotone", [False, True])
def test_gaps_cost_nothing_more(monotone: bool) -> None:
    mechanism = on_whole_numbers(epsilon=2, delta=0.02, queries=2, monotone=monotone)
    reach = 10 * math.ceil(mechanism.comparison.query_sigma)
    bases = [(0, 0), (-3, -4), (-8, 2), (-6, -6)]
    plain, told = farthest(mechanism, bases), farthest(mechanism, bases, gaps=reach)
    assert plain <= told <= 0.02
    assert farthest(mechanism, bases, gaps=reach, noise=Fraction(1, 4)) > 0.02


def long_streams(
    mechanism: GaussianAboveThreshold,
    *,
    risers: int,
    place: float,
    fallers: int = 0,
    other: float = 0,
    threshold: Noise | None = None,
) -> float:
    """Questions that rise by one step, then questions that fall: the exact distance.

    place, other: where they lie, in deviations of the query noise. The answers above of those that
    rise are taken together.
    """
    comparison, sigma = mechanism.comparison, float(mechanism.comparison.query_sigma)
    noise = threshold or rounded_normal(comparison.threshold_sigma)
    question = rounded_normal(comparison.query_sigma)
    rho = np.arange(noise.low, noise.high + 1)
    first, later = round(place * sigma), round(other * sigma)
    laws = []
    for move in (0, 1):
        reached = noise.mass(rho) * question.below(rho - first - move) ** risers
        tail, below = question.tail(rho - later + move), question.below(rho - later + move)
        answers = [(reached * below**k * tail).sum() for k in range(fallers)]
        laws.append([*answers, 1 - reached.sum(), (reached * below**fallers).sum()])
    here, there = np.array(laws)
    factor = math.exp(mechanism.epsilon)
    return float(
        max(np.maximum(a - factor * b, 0).sum() for a, b in ((here, there), (there, here)))
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "right", "wrong"),
    [
        (0.5, 0.01, (-2, -3), (-3, -3)),
        (1, 0.01, (-2, -3), (-3, -3)),
        (1, 1e-4, (-1, -2.5), (-2, -2.5)),
    ],
)
def test_long_streams_keep_the_guarantee_and_each_question_is_paid(
    epsilon: float, delta: float, right: tuple[float, float], wrong: tuple[float, float]
) -> None:
    def lost(mechanism: GaussianAboveThreshold, places: tuple[float, float]) -> float:
        place, other = places
        return long_streams(mechanism, risers=500, place=place, fallers=500, other=other)

    mechanism = on_whole_numbers(epsilon=epsilon, delta=delta)
    for places in (right, wrong):
        assert lost(mechanism, places) <= delta
    # The factor `queries` is more than is needed here, but 1 in its place is too little ...
    assert 5 * delta / mechanism.queries < lost(mechanism, right) < delta / 50
    # ... and so is the noise for one question, where a thousand are heard.
    faulty = on_whole_numbers(epsilon=epsilon, delta=delta, queries=1)
    assert lost(faulty, wrong) > 1.5 * delta


def test_without_threshold_noise_more_is_lost() -> None:
    mechanism = on_whole_numbers()
    for place in (-3.0, -2.5, -2.0):
        assert long_streams(mechanism, risers=1000, place=place) <= 1e-6
    assert long_streams(mechanism, risers=1000, place=-2.5, threshold=nothing()) > 1e-4


# ---- what it says


@in_subtests("monotone", [False, True])
@in_subtests("queries", [1, 50, 10**6])
@in_subtests(("epsilon", "delta"), [(1, 1e-6), (0.01, 1e-9), (20, 0.3)])
def test_the_noise_is_the_least_of_its_kind(
    epsilon: float, delta: float, queries: int, monotone: bool
) -> None:
    mechanism = GaussianAboveThreshold(
        **WRITTEN | {"epsilon": epsilon, "delta": delta, "queries": queries}, monotone=monotone
    )
    comparison, moves = mechanism.comparison, 1 if monotone else 2
    steps = Fraction(1) / Fraction(2) ** mechanism.grid_log2
    squared = (steps / comparison.threshold_sigma) ** 2 + (
        moves * steps / comparison.query_sigma
    ) ** 2
    mu = math.sqrt(squared)
    assert queries * approx_dp_delta_from_gdp(mu * (1 - 1e-12), epsilon=epsilon) <= delta
    assert queries * approx_dp_delta_from_gdp(mu * (1 + 1e-9), epsilon=epsilon) > delta
    ratio = comparison.query_sigma / comparison.threshold_sigma
    assert float(ratio) == pytest.approx(math.sqrt(moves), rel=1e-12)
    assert mechanism.standard_deviation == pytest.approx((1 + moves) / mu, rel=1e-9)
    # No other split of the same mu has less.
    for share in np.linspace(0.05, 0.95, 19):
        other = math.sqrt(1 / (mu**2 * share) + moves**2 / (mu**2 * (1 - share)))
        assert other >= mechanism.standard_deviation * (1 - 1e-9)


def test_the_event_is_the_promise() -> None:
    mechanism = GaussianAboveThreshold(**WRITTEN)
    assert mechanism.event == events.Approximate(epsilon=1, delta=1e-6)
    assert accounting.epsilon(mechanism.event, delta=1e-6) == pytest.approx(1)
    assert mechanism == GaussianAboveThreshold(**WRITTEN, grid_log2=mechanism.grid_log2)


def test_the_words_about_the_better_mechanism_hold() -> None:
    here, there = (
        GaussianAboveThreshold(**WRITTEN),
        SparseVector(epsilon=1, sensitivity=1, threshold=100),
    )
    deviations = [round(m.standard_deviation, 1) for m in (there, here)]
    widths = [round(m.error_bound(0.95, queries=1000)) for m in (there, here)]
    assert (deviations, widths) == ([4.2, 16.5], [34, 64])
    # Normal noise has the smaller deviation only where delta > queries epsilon / 40.
    for epsilon, queries, monotone in itertools.product(
        (0.01, 0.1, 0.5, 1, 2), (1, 10), (False, True)
    ):
        rest: dict[str, Any] = {"sensitivity": 1, "threshold": 0, "monotone": monotone}
        pure = SparseVector(epsilon=epsilon, **rest).standard_deviation
        for factor, better in ((Fraction(1, 40), False), (Fraction(1, 14), True)):
            delta = queries * factor * Fraction(str(epsilon))
            if delta < 1:
                normal = GaussianAboveThreshold(
                    epsilon=epsilon, delta=delta, queries=queries, **rest
                ).standard_deviation
                assert (normal < pure) is better


@pytest.mark.parametrize(("queries", "share"), [(1, 600), (10, 100), (1000, 6)])
def test_the_words_about_the_half_width_hold(queries: int, share: int) -> None:
    rest: dict[str, Any] = {"epsilon": 0.1, "sensitivity": 1, "threshold": 0}
    pure = SparseVector(**rest).error_bound(0.95, queries=queries)
    for factor, better in ((0.8, False), (1.25, True)):
        delta = factor * 0.1 / share
        normal = GaussianAboveThreshold(delta=delta, queries=queries, **rest)
        assert (normal.error_bound(0.95) < pure) is better
