"""Sparse vector with normal noise: the law of what is released, when it stops, what it refuses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr
from tests.mechanisms.sparse_vector_laws import rounded_normal
from tests.mechanisms.test_sparse_vector import Counted, NoBits
from tests.mechanisms.test_sparse_vector_gaussian import SHARP, WRITTEN, exact_law, on_whole_numbers
from tests.mechanisms.test_sparse_vector_law import accepted
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter, StreamStopped
from unacorda.mechanisms.noise.continuous import gaussian_chunk
from unacorda.mechanisms.sparse_vector.gaussian import GaussianAboveThreshold, NormalComparison

# ---- the law of what is released


STEPS = [-8, -3, 0, -5, 4]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("monotone", mostly_slow([False, True]))
@pytest.mark.parametrize("way", ["release", pytest.param("start", marks=pytest.mark.slow)])
def test_answers_have_the_exact_law(way: str, monotone: bool) -> None:
    # 8,000 runs of five questions; the law holds with p > 1e-8, 10% less noise is refused.
    mechanism = on_whole_numbers(epsilon=2, delta=0.05, queries=5, monotone=monotone)
    comparison, bits = mechanism.comparison, SeededBits(12)
    drawn = []
    for _ in range(8_000):
        if way == "release":
            found = next(iter(mechanism.release(STEPS, bits=bits).tolist()), None)
        else:
            stream = mechanism.start(bits=bits)
            found = next((i for i, step in enumerate(STEPS) if stream.ask(step)), None)
        drawn.append(len(STEPS) if found is None else found)
    for factor in (Fraction(1), Fraction(9, 10)):
        scaled = NormalComparison(
            grid_log2=0,
            level=0,
            threshold_sigma=comparison.threshold_sigma * factor,
            query_sigma=comparison.query_sigma * factor,
        )
        masses = np.zeros(len(STEPS) + 1)
        for answers, mass in exact_law(scaled, STEPS).items():
            last = len(answers) - 1
            masses[last if answers[last] is not None else len(STEPS)] = mass
        assert masses.sum() == pytest.approx(1)
        p_value = accepted(np.array(drawn), masses)
        assert p_value > 1e-8 if factor == 1 else p_value < 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("grid", [None, -3])
def test_both_noises_are_normal_on_the_grid(grid: Any) -> None:
    mechanism = on_whole_numbers(grid_log2=grid, delta=0.5, queries=1, epsilon=3)
    comparison, bits = mechanism.comparison, SeededBits(7)
    levels = np.array(comparison.draw_levels(100_000, bits))
    noise = comparison.draw_noise(100_000, bits)
    assert noise.dtype == np.int64
    for drawn, sigma in ((levels, comparison.threshold_sigma), (noise, comparison.query_sigma)):
        for factor in (1.0, 0.9):
            edges = np.arange(-40, 41) * max(1, round(float(sigma) / 10))
            chances = np.diff(ndtr((edges - 0.5) / (float(sigma) * factor)), prepend=0, append=1)
            p_value = accepted(np.digitize(drawn, edges), chances)
            assert p_value > 1e-8 if factor == 1 else p_value < 1e-9
    assert abs(stats.spearmanr(levels, noise).statistic) < 6 / math.sqrt(100_000)


@pytest.mark.parametrize("kind", [float, int])
def test_a_release_is_the_comparison_of_its_noise(kind: Any) -> None:
    # The same words, decided one by one in Fractions; an array and a stream of its own bits.
    for seed in range(30):
        mechanism = GaussianAboveThreshold(
            epsilon=1, delta=1e-3, sensitivity=0.3, threshold=2.5, queries=20
        )
        values = (np.random.default_rng(seed).normal(size=20) * 3).astype(kind)
        comparison, bits = mechanism.comparison, SeededBits(seed)

        def rounded(sigma: Fraction, size: int, bits: SeededBits = bits) -> list[float]:
            half = np.full(size, 0.5)
            drawn = gaussian_chunk(half, lambda _: Fraction(1, 2), ratio=sigma, bits=bits)
            return list(drawn.tolist())

        level = comparison.level + int(rounded(comparison.threshold_sigma, 1)[0])
        noise = rounded(comparison.query_sigma, 20)
        step = Fraction(2) ** mechanism.grid_log2
        gaps = [
            (Fraction(value) // step + int(more) - level) * step
            for value, more in zip(values.tolist(), noise, strict=True)
        ]
        expected = [(i, float(gap)) for i, gap in enumerate(gaps) if gap >= 0][:1]
        found, above = mechanism.release_with_gap(values, bits=SeededBits(seed))
        assert list(zip(found.tolist(), above.tolist(), strict=True)) == expected
        assert (mechanism.release(values, bits=SeededBits(seed)) == found).all()


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("queries", [1, 1000])
def test_the_half_width_covers(monotone: bool, queries: int) -> None:
    # The exact law of the two ways to be wrong, on a grid of a hundredth of the noise.
    mechanism = GaussianAboveThreshold(
        **WRITTEN | {"threshold": 0, "queries": queries}, monotone=monotone, grid_log2=-3
    )
    comparison = mechanism.comparison
    for confidence in (0.3, 0.5, 0.95, 0.999):
        width = mechanism.error_bound(confidence)
        noise = rounded_normal(comparison.threshold_sigma)
        question = rounded_normal(comparison.query_sigma)
        rho = np.arange(noise.low, noise.high + 1)
        steps = math.floor(width * 8)
        below = (noise.mass(rho) * question.below(rho + steps) ** queries).sum()
        above = (noise.mass(rho) * question.tail(rho - steps + 1)).sum()
        last_above = (
            noise.mass(rho)
            * question.below(rho + steps) ** (queries - 1)
            * question.tail(rho - steps + 1)
        ).sum()
        assert min(below, above, last_above) >= confidence
        if confidence >= 0.95:  # and four fifths of it do not
            short = math.floor(0.8 * width * 8)
            assert (noise.mass(rho) * question.below(rho + short) ** queries).sum() < confidence
        assert mechanism.error_bound(confidence, queries=1) <= width


# ---- values, the stream and what it refuses


def test_clear_cases_are_decided_clearly() -> None:
    mechanism = GaussianAboveThreshold(**SHARP)
    values = [0, 99, 101, 5]
    assert mechanism.release(values).tolist() == [2]
    assert mechanism.release(values[:2]).size == 0
    found, gaps = mechanism.release_with_gap(values)
    assert found.tolist() == [2]
    assert gaps == pytest.approx([1], abs=0.01)


def test_strange_values_have_a_documented_meaning() -> None:
    mechanism = GaussianAboveThreshold(**SHARP)
    assert mechanism.release([np.nan, -np.inf, -0.0, -1e300, np.inf]).tolist() == [4]
    below = GaussianAboveThreshold(**SHARP | {"threshold": -5})
    assert below.release([-np.inf, -1e300, np.nan]).tolist() == [2]
    stream = mechanism.start()
    values: list[Any] = [np.nan, -np.inf, -(10**400), np.uint8(3), np.array(200.0)]
    assert [stream.ask(value) for value in values] == [False, False, False, False, True]


def test_the_same_bits_are_drawn_whatever_lies_below() -> None:
    mechanism = GaussianAboveThreshold(**WRITTEN | {"queries": 50_000})
    drawn = set()
    for values in (np.full(50_000, -1e4), np.full(50_000, -1e9), np.linspace(-1e6, -1e4, 50_000)):
        bits = Counted()
        mechanism.release(values, bits=bits)
        drawn.add(bits.drawn)
    assert len(drawn) == 1


def test_a_stream_stops_after_its_answer_or_its_last_question() -> None:
    mechanism = GaussianAboveThreshold(**SHARP | {"queries": 3})
    stream = mechanism.start()
    assert stream.ask_with_gap(3) is None
    assert stream.ask_with_gap(150.5) == pytest.approx(50.5, abs=0.01)
    assert (stream.left, stream.stopped) == (0, True)
    with pytest.raises(StreamStopped, match="every answer"):
        stream.ask(0)
    quiet = mechanism.start()
    assert [quiet.ask(value) for value in (1, 2, 3)] == [False] * 3
    assert (quiet.left, quiet.stopped) == (1, True)
    for ask in (quiet.ask, quiet.ask_with_gap):
        with pytest.raises(StreamStopped, match="as many questions"):
            ask(200)
    last = mechanism.start()
    assert [last.ask(value) for value in (1, 2, 300)] == [False, False, True]
    refused = mechanism.start()
    with pytest.raises(InvalidParameter):
        refused.ask([3])  # type: ignore[arg-type]  # it is no number, and it was not heard
    assert [refused.ask(1) for _ in range(3)] == [False] * 3


@pytest.mark.parametrize(
    "values", [3.0, np.ones((1, 1)), np.array(["a"]), np.array([1j]), np.zeros(1001)]
)
def test_other_values_are_refused_before_a_bit_is_drawn(values: Any) -> None:
    mechanism = GaussianAboveThreshold(**WRITTEN)
    for release in (mechanism.release, mechanism.release_with_gap):
        with pytest.raises(InvalidParameter, match="values"):
            release(values, bits=NoBits())


@in_subtests(
    ("argument", "wrong"),
    [
        *itertools.product(
            ["epsilon", "sensitivity"], [0, -1, math.nan, math.inf, None, "1", True]
        ),
        *itertools.product(["delta"], [0, 1, -0.1, 2, math.nan, None, "1", True, 1e-299]),
        *itertools.product(["queries"], [0, -1, 1.0, True, None, 1 << 41, "7"]),
        *itertools.product(["threshold"], [math.nan, math.inf, None, "1", 10**40]),
        *itertools.product(["monotone"], [None, 1, "no"]),
        *itertools.product(["grid_log2"], [0.5, True, "1", 10**4, -39]),
        ("sensitivity", Fraction(1, 1 << 1000)),
    ],
)
def test_wrong_numbers_are_named(argument: str, wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match=argument):
        GaussianAboveThreshold(**WRITTEN | {argument: wrong})


def test_too_much_noise_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        GaussianAboveThreshold(**WRITTEN | {"epsilon": 1e-13, "delta": 1e-14})


@pytest.mark.parametrize("confidence", [0, 1, -1, math.nan, "x"])
def test_an_interval_needs_a_confidence(confidence: Any) -> None:
    with pytest.raises(InvalidParameter, match="confidence"):
        GaussianAboveThreshold(**WRITTEN).error_bound(confidence)
    with pytest.raises(InvalidParameter, match="queries"):
        GaussianAboveThreshold(**WRITTEN).error_bound(0.9, queries=0)


def test_extreme_numbers_work() -> None:
    for changed in (
        {"epsilon": 1e-6, "delta": 1e-3},
        {"epsilon": 1e300},
        {"epsilon": Fraction(10) ** 400},
        {"delta": 1e-290},
        {"delta": 1 - 1e-12, "queries": 1},
        {"queries": 1 << 40},
        {"sensitivity": 1e-200},
        {"sensitivity": 1e200},
    ):
        mechanism: Any = GaussianAboveThreshold(**WRITTEN | {"threshold": 0} | changed)
        top = 1e30 * float(Fraction(mechanism.sensitivity))
        for values in ([-top, top], [-np.inf, np.inf]):
            assert mechanism.queries == 1 or mechanism.release(values).tolist() == [1]
            assert mechanism.release(values[1:]).tolist() == [0]
        assert mechanism.standard_deviation > 0
        assert mechanism.error_bound(0.9, queries=2) > 0


def test_two_runs_draw_different_noise() -> None:
    runs: set[Any] = {
        float(GaussianAboveThreshold(**WRITTEN).release_with_gap([10**6])[1][0]) for _ in range(20)
    }
    assert len(runs) == 20
