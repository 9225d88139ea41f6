"""The exponential mechanism over pieces of an interval: its law on the grid, its edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.exponential import PiecewiseConstantExponential, _evenly
from unacorda.privacy import events


def mechanism(**changed: Any) -> PiecewiseConstantExponential:
    given: dict[str, Any] = {"epsilon": 1, "sensitivity": 1, "lower": 0, "upper": 4}
    return PiecewiseConstantExponential(**(given | changed))


def law(
    edges: Any, scores: Any, *, factor: float, lower: float, upper: float, grid: int
) -> dict[float, float]:
    """The probability of every point of the grid, from the score at that point."""
    step = 2.0**grid
    points = [k * step for k in range(math.ceil(lower / step), math.floor(upper / step) + 1)]
    weights = [math.exp(factor * scores[np.searchsorted(edges, x, side="right")]) for x in points]
    total = math.fsum(weights)
    return {x: w / total for x, w in zip(points, weights, strict=True)}


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("monotone", mostly_slow([False, True]))
def test_points_have_the_exact_law(monotone: bool) -> None:
    edges, scores = [0.3, 1.25, 1.25, 1.5, 2.75], [0, 0.5, 7, 5, -1, 0.3]
    half = mechanism(grid_log2=-2, monotone=monotone)
    assert half.event == events.Exponential(epsilon=1)
    bits, count = SeededBits(111), 12_000
    drawn = [half.release(edges, scores=scores, bits=bits) for _ in range(count)]

    def accepted(factor: float) -> float:
        masses = law(edges, scores, factor=factor, lower=0, upper=4, grid=-2)
        assert set(drawn) <= set(masses)
        expected = np.array(list(masses.values())) * count
        found = np.array(drawn)
        seen = np.array([np.count_nonzero(found == x) for x in masses])
        return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), seen.size - 1))

    assert accepted(1.0 if monotone else 0.5) > 1e-8
    assert accepted(0.9 if monotone else 0.55) < 1e-9


def test_neighbors_have_bounded_range_whatever_the_edges() -> None:
    # Quantiles: edges are data points, the score of a piece the distance from the middle rank.
    given: dict[str, Any] = {"lower": 0.0, "upper": 4.0, "grid": -3}
    widest = 0.0
    generator = np.random.default_rng(5)
    for _ in range(200):
        points = np.sort(np.round(generator.random(6) * 4, 2))
        more = np.sort(np.append(points, generator.random() * 4))
        # P(x) by rank: |#{data <= x} - n / 2| moves by 1/2 where one point is added.
        laws = [
            law(data, -np.abs(np.arange(data.size + 1) - data.size / 2), factor=1.0, **given)
            for data in (points, more)
        ]
        ratios = [math.log(laws[0][x] / laws[1][x]) for x in laws[0]]
        widest = max(widest, max(ratios) - min(ratios))
    assert widest <= 1 + 1e-12  # 2 factor sensitivity
    assert widest > 0.99


def test_pieces_hold_the_points_from_their_edge_on() -> None:
    quarter = mechanism(grid_log2=-2)
    for edges, counts in (
        ([0.25, 0.26, 3.9], [1, 1, 14, 1]),
        ([-1.0, 0.0, 5.0], [0, 0, 17, 0]),
        ([-np.inf, np.inf, np.inf], [0, 17, 0, 0]),
        ([2.0, 1.0, 3.0], [8, 0, 4, 5]),  # an edge below an earlier one counts as that one
        ([np.nan, 1.0, 4.0], [0, 4, 12, 1]),
        ([5e-324, 1e-300, 1.0], [1, 0, 3, 13]),
        ([-5e-324, -1e-300, 1.0], [0, 0, 4, 13]),
    ):
        starts, found = quarter._pieces(np.array(edges), len(edges) + 1)
        assert found.tolist() == counts
        assert found.sum() == 17
        assert (np.diff(starts) >= 0).all()
    # Pieces that hold no point of the grid are never chosen, however good.
    for seed in range(20):
        told = quarter.release([1.01, 1.02], scores=[0, 1000, 0], bits=SeededBits(seed))
        assert told * 4 == int(told * 4)
        assert 0 <= told <= 4


@pytest.mark.parametrize(
    ("lower", "upper", "grid"),
    [
        (0, 1, None),
        (-1e6, 1e6, None),
        (1e6, 1e6 + 1, None),
        (-3, -1, 1),
        (0.1, 0.7, -1),
        (0, 1e300, None),
    ],
)
def test_answers_lie_on_the_grid_within_the_interval(lower: Any, upper: Any, grid: Any) -> None:
    found = mechanism(lower=lower, upper=upper, grid_log2=grid)
    step = 2.0**found.grid_log2
    middle = lower + (upper - lower) / 2
    for seed in range(30):
        for edges in ([lower, middle], [middle, middle], [-np.inf, np.nan]):
            told = found.release(edges, scores=[0, 1, 2], bits=SeededBits(seed))
            assert lower <= told <= upper
            assert math.fmod(told, step) == 0


def test_the_default_grid_is_fine_and_fits_float64() -> None:
    assert mechanism(lower=0, upper=1).grid_log2 == -40
    assert mechanism(lower=2**30, upper=2**30 + 1).grid_log2 == 30 - 52
    assert mechanism(lower=0, upper=Fraction(3, 2**10)).grid_log2 == -9 - 40


def test_many_pieces() -> None:
    # A hundred thousand data points; the middle ones win.
    edges = np.arange(100_000) / 100_000
    scores = -np.abs(np.arange(100_001) - 50_000.0)
    told = [
        mechanism(lower=0, upper=1).release(edges, scores=scores, bits=SeededBits(seed))
        for seed in range(5)
    ]
    assert max(abs(x - 0.5) for x in told) < 1e-3
    whole = mechanism(lower=0, upper=1).release(
        np.arange(5), scores=[Fraction(1, 3)] * 6, bits=SeededBits(1)
    )
    assert 0 <= whole <= 1


def test_no_edge_is_one_even_draw() -> None:
    told = [mechanism(grid_log2=0).release([], scores=[5], bits=SeededBits(s)) for s in range(60)]
    assert set(told) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("edges", "scores"),
    [
        ([1.0], [1.0]),
        ([1.0, 2.0], [1.0, 2.0]),
        (np.array([[1.0]]), [1.0, 2.0]),
        (1.0, [1.0, 2.0]),
        (np.array(["a"]), [1.0, 2.0]),
        (np.array([1j]), [1.0, 2.0]),
    ],
)
def test_wrong_edges_are_refused(edges: Any, scores: Any) -> None:
    with pytest.raises(InvalidParameter, match="edges"):
        mechanism().release(edges, scores=scores, bits=ScriptedBits([]))


@pytest.mark.parametrize("scores", [[], 1, np.ones((1, 2)), np.array(["a", "b"])])
def test_wrong_scores_are_refused(scores: Any) -> None:
    with pytest.raises(InvalidParameter, match="scores"):
        mechanism().release([1.0], scores=scores, bits=ScriptedBits([]))


@in_subtests(
    ("name", "value"),
    [
        *(("epsilon", value) for value in (0, -1, math.nan, None)),
        *(("sensitivity", value) for value in (0, math.inf, None)),
        *(("upper", value) for value in (0, -1, math.nan, None)),
        ("lower", math.inf),
        ("monotone", 1),
        *(("grid_log2", value) for value in (3, -51, 0.5, True)),
    ],
)
def test_wrong_numbers_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=name):
        mechanism(**{name: value})


def test_the_same_bits_are_drawn_wherever_the_edges_are() -> None:
    # Drawing again until a number fits would take longer, or not, by how many points a piece has.
    mechanism = PiecewiseConstantExponential(epsilon=1, sensitivity=1, lower=0, upper=1)
    for edge in (0.0, 1e-9, 0.25, 0.4999, 0.5, 0.75001, 1.0):
        bits = ScriptedBits([2**63 + 12345, 3**40])
        mechanism.release([edge], scores=[0, 0], bits=bits)
        assert bits.left == 0


def test_a_point_at_the_edge_of_two_reads_on() -> None:
    third, words = 2**64 // 3, 2**64
    for given, number in (
        ([third - 1], 0),
        ([third + 1], 1),
        ([third, words // 3 - 1], 0),
        ([third, words // 3 + 1], 1),
        ([words - 1], 2),
        ([0], 0),
    ):
        bits = ScriptedBits(given)
        assert _evenly(3, bits) == number
        assert bits.left == 0
    assert _evenly(1, ScriptedBits([7])) == 0
