"""Sparse vector: the law of what it releases, against exact sums over the noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.mechanisms.sparse_vector_laws import law, one_sided
from tests.tiers import mostly_slow

from unacorda.bits import SeededBits
from unacorda.mechanisms.additive.real import Laplace
from unacorda.mechanisms.noise.discrete import geometric
from unacorda.mechanisms.sparse_vector.comparison import Comparison, step_of
from unacorda.mechanisms.sparse_vector.threshold import NumericSparse, SparseVector
from unacorda.privacy import events

WRITTEN: dict[str, Any] = {"epsilon": 1, "sensitivity": 1, "threshold": 100}
ALL: list[Any] = [
    SparseVector(**WRITTEN),
    SparseVector(**WRITTEN, count=3),
    SparseVector(**WRITTEN, count=3, refresh=True),
]
NAMES = ["first", "once", "afresh"]


def accepted(observed: NDArray[Any], masses: NDArray[Any]) -> float:
    """The chi-square p-value of outcome numbers, outcomes of small mass lumped together."""
    seen = np.bincount(observed, minlength=masses.size).astype(float)
    expected = masses / masses.sum() * observed.size
    common = expected > 15
    seen = np.append(seen[common], seen[~common].sum())
    expected = np.append(expected[common], expected[~common].sum() + 1e-3)
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), seen.size - 1))


def waiting_law(comparison: Comparison, step: int, length: int) -> NDArray[np.float64]:
    """P(the first question above is number 1, ..., length, or later), all of one value."""
    noise = one_sided(comparison.threshold_scale)
    rho = np.arange(noise.low, noise.high + 1)
    needed = comparison.level + rho - step
    question = one_sided(comparison.query_scale)
    below, weight = question.below(needed), noise.mass(rho)
    first = [(weight * below**k * question.tail(needed)).sum() for k in range(length)]
    return np.array([*first, (weight * below**length).sum()])


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("grid", mostly_slow([None, 0]))
def test_refreshed_waits_are_independent_with_the_exact_law(grid: Any) -> None:
    # 40,000 answers; 40 cells. The law holds with p > 1e-8, one of 10% less noise is refused.
    sparse = SparseVector(
        epsilon=16_000, count=40_000, sensitivity=2, threshold=10, refresh=True, grid_log2=grid
    )
    found = sparse.release(np.full(3_000_000, 0.5), bits=SeededBits(5))
    assert found.size == 40_000
    waits = np.minimum(np.diff(found, prepend=-1) - 1, 40)
    comparison, step = sparse.comparison, step_of(0.5, grid_log2=sparse.comparison.grid_log2)
    coarse = 1 if grid == 0 else 512  # the law of the fine grid on one of fewer steps
    for factor in (Fraction(1), Fraction(10, 11)):
        scaled = Comparison(
            grid_log2=0,
            level=round(Fraction(comparison.level, coarse)),
            threshold_scale=comparison.threshold_scale * factor / coarse,
            query_scale=comparison.query_scale * factor / coarse,
        )
        p_value = accepted(waits, waiting_law(scaled, round(Fraction(step, coarse)), 40))
        assert p_value > 1e-8 if factor == 1 else p_value < 1e-9
    assert abs(stats.spearmanr(waits[1:], waits[:-1]).statistic) < 6 / 200


STEPS = [2, -4, 1, 3, 0]


def outcomes(comparison: Comparison, *, count: int) -> tuple[dict[Any, int], NDArray[np.float64]]:
    """Each sequence of answers of the five questions with its number, and their probabilities."""
    masses = law(
        [comparison.level + step for step in STEPS],
        level=comparison.level,
        threshold=one_sided(comparison.threshold_scale),
        question=one_sided(comparison.query_scale),
        count=count,
    )
    numbered = {
        tuple(i for i, told in enumerate(answers) if told is not None): k
        for k, answers in enumerate(masses)
    }
    return numbered, np.array(list(masses.values()))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("monotone", mostly_slow([False, True]))
@pytest.mark.parametrize("way", ["release", pytest.param("start", marks=pytest.mark.slow)])
def test_answers_under_one_threshold_noise_have_the_exact_law(way: str, monotone: bool) -> None:
    # 20,000 runs of five questions, two answers; every sequence of answers is a cell.
    sparse = SparseVector(
        epsilon=2, count=2, sensitivity=1, threshold=0, grid_log2=0, monotone=monotone
    )
    numbered, masses = outcomes(sparse.comparison, count=2)
    assert masses.sum() == pytest.approx(1)
    values = [sparse.comparison.level + step for step in STEPS]
    bits, drawn = SeededBits(11), []
    for _ in range(20_000):
        if way == "release":
            found = sparse.release(values, bits=bits).tolist()
        else:
            stream = sparse.start(bits=bits)
            found = [
                i for i, value in enumerate(values) if not stream.stopped and stream.ask(value)
            ]
        drawn.append(numbered[tuple(found)])
    assert accepted(np.array(drawn), masses) > 1e-8
    moved = Comparison(
        grid_log2=0,
        level=sparse.comparison.level,
        threshold_scale=sparse.comparison.threshold_scale * Fraction(9, 10),
        query_scale=sparse.comparison.query_scale * Fraction(9, 10),
    )
    assert accepted(np.array(drawn), outcomes(moved, count=2)[1]) < 1e-9


@pytest.mark.parametrize("refresh", [False, True])
@pytest.mark.parametrize("kind", [float, int])
def test_a_release_is_the_comparison_of_its_noise(refresh: bool, kind: Any) -> None:
    # The same words, decided one by one in Fractions.
    for seed in range(30):
        sparse = SparseVector(epsilon=1, count=4, sensitivity=0.3, threshold=-2.5, refresh=refresh)
        values = (np.random.default_rng(seed).normal(size=20) * 30).astype(kind)
        comparison, bits = sparse.comparison, SeededBits(seed)
        scales = comparison.threshold_scale, comparison.query_scale
        level = comparison.level + int(geometric(scale=scales[0], size=1, bits=bits)[0])
        noise = geometric(scale=scales[1], size=20, bits=bits).tolist()
        later = geometric(scale=scales[0], size=64, bits=bits).tolist()
        expected: list[tuple[int, Fraction]] = []
        step = Fraction(2) ** sparse.grid_log2
        for index, (value, more) in enumerate(zip(values.tolist(), noise, strict=True)):
            gap = Fraction(value) // step + more - level
            if gap >= 0 and len(expected) < 4:
                expected.append((index, gap * step))
                level = comparison.level + later.pop() if refresh else level
        found, gaps = sparse.release_with_gap(values, bits=SeededBits(seed))
        assert list(zip(found.tolist(), map(Fraction, gaps.tolist()), strict=True)) == expected


def test_a_comparison_errs_by_nothing_on_average() -> None:
    # Means of 200,000 geometric numbers within 6 standard deviations.
    for mechanism in ALL:
        comparison = mechanism.comparison
        bits = SeededBits(3)
        levels = np.array(comparison.draw_levels(200_000, bits)) * 2.0**mechanism.grid_log2
        error = comparison.draw_noise(200_000, bits) * 2.0**mechanism.grid_log2 - levels + 100
        assert abs(error.mean()) < 6 * mechanism.standard_deviation / math.sqrt(200_000)
        assert error.std() == pytest.approx(mechanism.standard_deviation, rel=0.02)


@pytest.mark.slow
@pytest.mark.statistical
def test_answers_have_fresh_noise_and_no_bias() -> None:
    # 60,000 answers to questions at the threshold, found above because their noise was high.
    mechanism = NumericSparse(
        epsilon=4 * 60_000, count=60_000, sensitivity=1, threshold=0, refresh=True
    )
    found, numbers = mechanism.release(np.zeros(600_000), bits=SeededBits(8))
    assert found.size == 60_000
    scale = float(mechanism.answer.scale) if isinstance(mechanism.answer, Laplace) else 0.0
    assert abs(numbers.mean()) < 6 * scale * math.sqrt(2 / 60_000)
    assert stats.kstest(numbers, stats.laplace(scale=scale).cdf).pvalue > 1e-7
    assert stats.kstest(numbers, stats.laplace(scale=1.1 * scale).cdf).pvalue < 1e-7
    _, gaps = mechanism.search.release_with_gap(np.zeros(600_000), bits=SeededBits(8))
    assert gaps.mean() > mechanism.search.standard_deviation / 2


@pytest.mark.parametrize("mechanism", ALL, ids=NAMES)
@pytest.mark.parametrize("queries", [1, 1000])
def test_the_half_width_covers(mechanism: Any, queries: int) -> None:
    # The exact law of the two ways to be wrong, on the grid coarsened by 2^9.
    comparison, runs = mechanism.comparison, 3 if mechanism.event != events.Pure(epsilon=1) else 1
    for confidence in (0.5, 0.95, 0.999):
        width = mechanism.error_bound(confidence, queries=queries)
        noise = one_sided(comparison.threshold_scale / 512)
        rho = np.arange(noise.low, noise.high + 1)
        question = one_sided(comparison.query_scale / 512)
        level = Fraction(comparison.level, 512)
        step = Fraction(2) ** mechanism.grid_log2 * 512
        up = np.ceil(float(level - Fraction(100 - width) / step) + rho)
        down = np.ceil(float(level - Fraction(100 + width) / step) + rho)
        right_below = (noise.mass(rho) * question.below(up) ** queries).sum()
        right_above = (noise.mass(rho) * question.tail(down)).sum()
        assert (1 - right_below) + runs * (1 - right_above) <= (1 - confidence) * 1.01
        assert width < (10 + 2 * math.log(queries)) * mechanism.standard_deviation
    assert mechanism.error_bound(0.9, queries=10) < mechanism.error_bound(0.99, queries=10)
