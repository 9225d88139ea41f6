"""Sparse vector: the claimed price against the exact law of the answers, and planted faults."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.mechanisms.sparse_vector_laws import (
    Noise,
    law,
    losses,
    nothing,
    one_sided,
    stretch,
    two_sided,
)
from tests.tiers import mostly_slow

from unacorda.mechanisms.sparse_vector.comparison import Comparison, step_of, steps_of
from unacorda.mechanisms.sparse_vector.threshold import SparseVector
from unacorda.privacy import events

SLACK = 1e-9  # sums of 1e3 positive float64 terms


def loss_range(
    comparison: Comparison,
    steps: Sequence[int],
    moves: Sequence[int],
    *,
    count: int,
    gaps: int = 0,
    threshold: Noise | None = None,
    question: Noise | None = None,
    noisy_values: bool = False,
) -> tuple[float, float]:
    """The least and the greatest log-likelihood ratio between a stream and the moved one."""
    laws = [
        law(
            values,
            level=comparison.level,
            threshold=threshold or one_sided(comparison.threshold_scale),
            question=question or one_sided(comparison.query_scale),
            count=count,
            gaps=gaps,
            noisy_values=noisy_values,
        )
        for values in (steps, [a + b for a, b in zip(steps, moves, strict=True)])
    ]
    found = losses(laws[0], laws[1])
    return float(found.min()), float(found.max())


def patterns(length: int, distance: int, *, monotone: bool) -> list[tuple[int, ...]]:
    """All moves of each question by 0 or by the whole distance, up, down, or both."""
    if monotone:
        up = list(itertools.product((0, distance), repeat=length))
        return up + [tuple(-move for move in moves) for moves in up]
    return list(itertools.product((-distance, 0, distance), repeat=length))


BASES = [(0, 0, 0, 0), (3, -2, 4, 0), (-9, 9, -9, 9), (30, 30, -30, 1)]


# ---- the guarantee, exactly


@pytest.mark.long
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("sensitivity", mostly_slow([1, 3, Fraction(5, 2)]))
def test_every_pattern_of_moves_costs_at_most_epsilon(
    sensitivity: Any, count: int, monotone: bool
) -> None:
    for epsilon in (Fraction(1), Fraction(4)):
        mechanism = SparseVector(
            epsilon=epsilon,
            count=count,
            sensitivity=sensitivity,
            threshold=0,
            monotone=monotone,
            grid_log2=0,
        )
        assert mechanism.event == events.Pure(epsilon=epsilon)
        distance = -(-sensitivity // 1)
        worst = 0.0
        for base in BASES:
            steps = [mechanism.comparison.level + value for value in base]
            for moves in patterns(4, distance, monotone=monotone):
                low, high = loss_range(mechanism.comparison, steps, moves, count=count)
                worst = max(worst, -low, high)
        assert worst <= epsilon + SLACK
        assert worst > 0.55 * float(epsilon)  # four questions do not reach it, but go far


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("count", mostly_slow([1, 2]))
def test_gaps_cost_nothing_more(count: int, monotone: bool) -> None:
    mechanism = SparseVector(
        epsilon=3, count=count, sensitivity=2, threshold=5, monotone=monotone, grid_log2=0
    )
    for base in ((0, 0, 0), (6, -5, 2)):
        steps = [mechanism.comparison.level + value for value in base]
        for moves in patterns(3, 2, monotone=monotone):
            low, high = loss_range(mechanism.comparison, steps, moves, count=count, gaps=12)
            assert max(-low, high) <= 3 + SLACK


@pytest.mark.long
def test_moves_shorter_than_the_sensitivity_cost_no_more() -> None:
    mechanism = SparseVector(epsilon=2, count=2, sensitivity=3, threshold=0, grid_log2=0)
    steps = [mechanism.comparison.level + value for value in (2, -4, 1, 0)]
    for moves in itertools.product((-3, -1, 2, 3), repeat=4):
        low, high = loss_range(mechanism.comparison, steps, moves, count=2)
        assert max(-low, high) <= 2 + SLACK


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("monotone", [False, True])
def test_long_streams_touch_epsilon_and_never_pass_it(count: int, monotone: bool) -> None:
    # Ten thousand questions of one value found below, then `count` found above: 40 digits.
    mechanism = SparseVector(
        epsilon=1, count=count, sensitivity=1, threshold=0, monotone=monotone, grid_log2=0
    )
    comparison = mechanism.comparison
    numbers: dict[str, Any] = {
        "level": comparison.level,
        "threshold_scale": comparison.threshold_scale,
        "query_scale": comparison.query_scale,
        "reach": 60 * int(comparison.query_scale + 2),
    }
    fall = 0 if monotone else -1
    with mp.workdps(40):
        here = stretch([(0, 10_000)], [0] * count, **numbers)
        there = stretch([(1, 10_000)], [fall] * count, **numbers)
        loss = mp.log(here / there)
        assert loss <= 1 + mpf("1e-30")
        assert loss > mpf("0.999")


@pytest.mark.long
def test_a_monotone_run_with_general_noise_has_bounded_range() -> None:
    run = SparseVector(
        epsilon=2, count=1, sensitivity=1, threshold=0, monotone=True, refresh=True, grid_log2=0
    )
    assert run.event == events.Exponential(epsilon=2)
    widest = 0.0
    for base in BASES:
        steps = [run.comparison.level + value for value in base]
        for moves in patterns(4, 1, monotone=True):
            for gaps in (0, 4):
                low, high = loss_range(run.comparison, steps, moves, count=1, gaps=gaps)
                assert high - low <= 2 + SLACK
                widest = max(widest, high - low)
    assert widest > 1.2
    # All rise: stopping at once speaks for the moved stream, stopping late for the other.
    comparison = run.comparison
    numbers: dict[str, Any] = {
        "level": comparison.level,
        "threshold_scale": comparison.threshold_scale,
        "query_scale": comparison.query_scale,
        "reach": 400,
    }
    with mp.workdps(40):
        sooner = mp.log(stretch([], [-400], **numbers) / stretch([], [-399], **numbers))
        later = mp.log(
            stretch([(0, 10_000)], [0], **numbers) / stretch([(1, 10_000)], [0], **numbers)
        )
        assert mpf("1.999") < later - sooner < 2 + mpf("1e-30")


def test_moves_of_both_signs_leave_no_smaller_range() -> None:
    # Many fall and one rises; later many more rise and one falls: one pair of neighbors.
    comparison = sparse(epsilon=2)
    numbers: dict[str, Any] = {
        "level": comparison.level,
        "threshold_scale": comparison.threshold_scale,
        "query_scale": comparison.query_scale,
        "reach": 500,
    }
    many = 10_000
    with mp.workdps(40):
        sooner = mp.log(
            stretch([(0, many)], [0], **numbers) / stretch([(-1, many)], [1], **numbers)
        )
        here = stretch([(0, many), (0, 1), (100, many)], [0], **numbers)
        there = stretch([(-1, many), (1, 1), (101, many)], [-1], **numbers)
        assert sooner < mpf("-1.999")
        assert mp.log(here / there) > mpf("1.999")


# ---- the checker catches what is wrong


def sparse(**changed: Any) -> Comparison:
    written: dict[str, Any] = {
        "epsilon": 1,
        "count": 1,
        "sensitivity": 1,
        "threshold": 0,
        "grid_log2": 0,
    }
    return SparseVector(**(written | changed)).comparison


@pytest.mark.parametrize("questions", [2, 4, 8])
def test_without_threshold_noise_every_question_is_paid(questions: int) -> None:
    # Laplace noise 4 / epsilon on every question: 0.25 each where the threshold has none.
    comparison = sparse()
    steps = [comparison.level + 60] * questions + [comparison.level - 60]
    fair: dict[str, Any] = {"threshold": two_sided(Fraction(2)), "question": two_sided(Fraction(4))}
    moves = [1] * questions + [-1]
    sound = loss_range(comparison, steps, moves, count=1, **fair)
    assert max(-sound[0], sound[1]) <= 1 + SLACK
    faulty = fair | {"threshold": nothing()}
    low, high = loss_range(comparison, steps, moves, count=1, **faulty)
    assert max(-low, high) > 0.25 * questions + 0.2
    # One-sided noise has then no other side at all.
    low, high = loss_range(comparison, [comparison.level - 1], [1], count=1, threshold=nothing())
    assert max(-low, high) == np.inf


def test_monotone_noise_does_not_bear_moves_of_both_signs() -> None:
    # Laplace noise 2 / epsilon on threshold and questions loses 1.5 at epsilon = 1, where the
    # many rise and the last falls; the noise of this package for monotone questions likewise.
    with mp.workdps(30):
        monotone = sparse(monotone=True)
        numbers: dict[str, Any] = {
            "level": monotone.level,
            "threshold_scale": monotone.threshold_scale,
            "query_scale": monotone.query_scale,
            "reach": 300,
        }
        loss = mp.log(
            stretch([(0, 10_000)], [0], **numbers) / stretch([(1, 10_000)], [-1], **numbers)
        )
        assert mpf("1.499") < loss < mpf("1.5") + mpf("1e-20")
    both = [1] * 6 + [-1]
    laplace: dict[str, Any] = {
        "threshold": two_sided(Fraction(2)),
        "question": two_sided(Fraction(2)),
    }
    level = sparse().level
    _, faulty = loss_range(sparse(), [level + 12] * 6 + [level - 60], both, count=1, **laplace)
    assert 1.45 < faulty <= 1.5 + SLACK
    one_way = [1] * 6 + [0]
    _, sound = loss_range(sparse(), [level + 12] * 6 + [level - 60], one_way, count=1, **laplace)
    assert sound <= 1 + SLACK


def test_answers_beyond_the_count_are_not_paid_for() -> None:
    comparison = sparse(count=2, epsilon=2)
    steps = [comparison.level + 20] + [comparison.level - 60] * 4
    moves = [1, -1, -1, -1, -1]
    low, high = loss_range(comparison, steps, moves, count=2)
    assert max(-low, high) <= 2 + SLACK
    low, high = loss_range(comparison, steps, moves, count=4)
    assert max(-low, high) > 2.4


def test_the_compared_value_is_no_gap() -> None:
    comparison = sparse(epsilon=2)
    steps, moves = [comparison.level + 2] * 8, [1] * 7 + [-1]
    low, high = loss_range(comparison, steps, moves, count=1, gaps=6)
    assert max(-low, high) <= 2 + SLACK
    low, high = loss_range(comparison, steps, moves, count=1, gaps=6, noisy_values=True)
    assert max(-low, high) > 3


def test_too_small_a_distance_is_seen() -> None:
    # Rounding half to even lets a move of 1 become 2 steps: charged as 1, it costs too much.
    comparison = sparse(epsilon=2)
    steps = [comparison.level] * 6 + [comparison.level - 40]
    low, high = loss_range(comparison, steps, [2] * 6 + [-2], count=1)
    assert max(-low, high) > 2.4


# ---- from real values to steps


@pytest.mark.long
def test_steps_move_no_farther_than_the_distance() -> None:
    rng = np.random.default_rng(3)
    for sensitivity, grid in [(0.1, -3), (0.3, -10), (1, 0), (2.5, 0), (1, 3), (7, 2), (1e-3, -30)]:
        mechanism = SparseVector(epsilon=1, sensitivity=sensitivity, threshold=0, grid_log2=grid)
        comparison = mechanism.comparison
        step = Fraction(2) ** grid
        exact = Fraction(str(sensitivity))
        distance = -(-exact // step)
        values = np.concatenate([rng.normal(size=200) * 10.0**k for k in range(-6, 7)])
        moved = values + rng.uniform(-1, 1, values.size) * sensitivity
        kept = [
            (a, b)
            for a, b in zip(values.tolist(), moved.tolist(), strict=True)
            if abs(Fraction(a) - Fraction(b)) <= exact
        ]
        assert len(kept) > 2000
        for a, b in kept:
            one, other = (
                step_of(a, grid_log2=comparison.grid_log2),
                step_of(b, grid_log2=comparison.grid_log2),
            )
            assert one == Fraction(a) // step
            assert abs(one - other) <= distance
            assert (one - other) * (a - b) >= 0  # monotone questions stay monotone
        both = steps_of(np.array(kept)[:, 1], grid_log2=comparison.grid_log2)
        assert both.tolist() == [step_of(b, grid_log2=comparison.grid_log2) for _, b in kept]
        # The scales are those of the rounded distance, not of the sensitivity.
        parts = distance / comparison.threshold_scale + 2 * distance / comparison.query_scale
        assert parts == 1


@pytest.mark.parametrize("grid", [-60, -3, 0, 5, 70])
def test_steps_are_exact_floors_that_end(grid: int) -> None:
    mechanism = SparseVector(
        epsilon=1, sensitivity=Fraction(2) ** grid, threshold=0, grid_log2=grid
    )
    comparison, end = mechanism.comparison, 1 << 60

    def floor(value: Any) -> int:
        return max(-end, min(int(Fraction(value) // Fraction(2) ** grid), end))

    whole = [0, 1, -1, 2**31, -(2**31), 2**53 + 1, 2**60 - 1, -(2**60), 2**63 - 1, -(2**63)]
    assert steps_of(np.array(whole), grid_log2=comparison.grid_log2).tolist() == [
        floor(v) for v in whole
    ]
    assert [step_of(v, grid_log2=comparison.grid_log2) for v in [*whole, 10**40, -(10**40)]] == [
        floor(v) for v in [*whole, 10**40, -(10**40)]
    ]
    real = [0.0, -0.0, 0.3, -0.3, 5e-324, -5e-324, 1e18, -1e18, 1e300, -1e300, 1.5, -(2.0**60)]
    assert steps_of(np.array(real), grid_log2=comparison.grid_log2).tolist() == [
        floor(v) for v in real
    ]
    assert [step_of(v, grid_log2=comparison.grid_log2) for v in real] == [floor(v) for v in real]
    strange = [float("nan"), float("inf"), float("-inf")]
    assert steps_of(np.array(strange), grid_log2=comparison.grid_log2).tolist() == [0, end, -end]
    assert [step_of(v, grid_log2=comparison.grid_log2) for v in strange] == [0, end, -end]
