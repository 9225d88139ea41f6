"""The inverse sensitivity mechanism: its exact law, its privacy, its error, its refusals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.selection_laws import order_law
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

import unacorda
from unacorda import accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import InverseSensitivity
from unacorda.mechanisms.data_dependent import (
    DistinctCount,
    KthLargest,
    Maximum,
    Mean,
    Median,
    Mode,
    Quantile,
    Sum,
)
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne, ZeroOut

SELECTIONS = ["exponential", "permute and flip"]
TABLES = [
    (),
    (0,),
    (3,),
    (0, 3),
    (1, 1, 2),
    (0, 0, 3, 3),
    (2, 2, 2, 2, 2),
    (0, 1, 2, 3, 3, 3),
    (0, 0, 0, 0, 3, 3, 3, 3, 3),
]


def mechanism(**changed: Any) -> InverseSensitivity:
    given: dict[str, Any] = {"epsilon": 1, "statistic": Median(lower=0, upper=3), "grid_log2": 0}
    return InverseSensitivity(**(given | changed))


def point_losses(found: InverseSensitivity, table: Any) -> list[int]:
    runs = found.losses(np.array(table, dtype=np.int64))
    return [runs.loss(int(p)) for p in range(runs.starts[0], runs.starts[-1] + runs.counts[-1])]


def law(found: InverseSensitivity, table: Any, factor: float) -> np.ndarray[Any, Any]:
    """The probability of every point of the grid, each point a candidate of its own."""
    losses = point_losses(found, table)
    if found.selection == "exponential":
        weights = np.exp(-factor * np.array(losses))
        return np.asarray(weights / weights.sum())
    told = order_law([-factor * loss for loss in losses], "exponential")
    return np.array([told[(k,)] for k in range(len(losses))])


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("selection", mostly_slow(SELECTIONS))
@pytest.mark.parametrize(
    ("statistic", "table"),
    mostly_slow(
        [
            (Median(lower=0, upper=11), (2, 2, 5, 9, 9)),
            (Mean(lower=0, upper=5), (0, 2, 5, 5, 5)),
            (Maximum(lower=-3, upper=4), (-2, 0, 2)),
        ]
    ),
)
def test_answers_have_the_exact_law(statistic: Any, table: Any, selection: Any) -> None:
    found = mechanism(statistic=statistic, selection=selection)
    count, bits = 2000, SeededBits(31)
    drawn = [found.release(table, bits=bits) for _ in range(count)]
    seen = np.array([drawn.count(p) for p in range(int(statistic.lower), int(statistic.upper) + 1)])
    assert seen.sum() == count

    def accepted(factor: float) -> float:
        expected = law(found, table, factor) * count
        return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), seen.size - 1))

    assert accepted(0.5) > 1e-8
    assert accepted(0.75) < 1e-8


@pytest.mark.long
@pytest.mark.statistical
def test_a_run_of_many_points_wins_as_often_as_its_points_together() -> None:
    # Five records at 1 of [0, 3], 2^20 points a unit: 2^20 points of loss 5 below, 2^21 of loss 6
    # above. By permute and flip the one point of loss 0 wins against all of them.
    level = mechanism(epsilon=5, selection="permute and flip", grid_log2=-20)
    losses = level.losses([1] * 5)
    assert [losses.loss(k << 19) for k in (1, 2, 3)] == [5, 0, 6]
    x = np.linspace(0, 60, 60_001)
    below = np.exp(
        2**20 * np.log1p(-np.exp(-(x + 2.5 * 5))) + 2**21 * np.log1p(-np.exp(-(x + 2.5 * 6)))
    )
    chance = float(np.trapezoid(np.exp(-x) * below, x))
    assert 0.2 < chance < 0.8
    told = sum(level.release([1] * 5, bits=SeededBits(s)) == 1 for s in range(1500))
    assert stats.binomtest(told, 1500, chance).pvalue > 1e-6
    assert stats.binomtest(told, 1500, chance * 0.7).pvalue < 1e-6


def neighboring(neighbors: Any) -> list[tuple[Any, Any]]:
    if neighbors is AddRemove:
        return [(t, (*t, v)) for t in TABLES for v in (0, 1, 3)]
    return [(t, (*t[:k], v, *t[k + 1 :])) for t in TABLES for k in range(len(t)) for v in (0, 2, 3)]


@pytest.mark.long
@in_subtests("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("selection", mostly_slow(SELECTIONS))
@in_subtests(
    "statistic",
    [
        Median(lower=0, upper=3),
        Quantile(q=0.8, lower=0, upper=3),
        KthLargest(k=2, lower=0, upper=3),
        Mean(lower=0, upper=3),
        Sum(lower=0, upper=3),
        Mode(categories=(0, 1, 2, 3)),
    ],
    ids=lambda s: type(s).__name__,
)
def test_neighbors_are_as_close_as_the_event_says(
    statistic: Any, selection: Any, neighbors: Any
) -> None:
    epsilon = 1.5
    found = mechanism(
        epsilon=epsilon,
        statistic=statistic,
        selection=selection,
        neighbors=neighbors,
        answers=(0, 12) if isinstance(statistic, Sum) else None,
    )
    kind = events.Exponential if selection == "exponential" else events.Pure
    assert found.event == kind(epsilon=epsilon)
    curve = {t: accounting.delta(found.event, epsilon=t) for t in (0.0, 0.4, 1.0)}

    def widest(factor: float) -> float:
        most = 0.0
        for one, other in neighboring(neighbors):
            laws = law(found, one, factor), law(found, other, factor)
            ratios = np.log(laws[0] / laws[1])
            spread = ratios.max() - ratios.min()
            most = max(most, spread if selection == "exponential" else np.abs(ratios).max())
            if factor == float(found.factor):
                for t, delta in curve.items():
                    for p, q in (laws, laws[::-1]):
                        assert np.maximum(p - math.exp(t) * q, 0).sum() <= delta + 1e-9
        return float(most)

    assert widest(float(found.factor)) <= epsilon + 1e-9
    # The planted fault: the full exponent, as if losses were one-sided, or counts moved by half.
    assert widest(2 * float(found.factor)) > 1.05 * epsilon


@pytest.mark.long
@pytest.mark.parametrize("selection", mostly_slow(SELECTIONS))
def test_the_median_of_a_vast_range_is_close(selection: Any) -> None:
    # 10,000 lognormal values in a range of 10^9, epsilon 1: relative error below 3e-4.
    errors = []
    generator = np.random.default_rng(3)
    median = InverseSensitivity(
        epsilon=1, statistic=Median(lower=0, upper=10**9), selection=selection
    )
    for seed in range(150):
        values = np.exp(generator.normal(size=10_000))
        truth = float(np.partition(values, 4999)[4999])
        told = median.release(values, bits=SeededBits(seed))
        assert isinstance(told, float)
        errors.append(abs(told - truth) / truth)
    assert float(np.median(errors)) < 3e-4


def test_whole_numbers_that_many_share_are_told_exactly() -> None:
    whole = mechanism(statistic=Median(lower=0, upper=10**9))
    shared = [38] * 1900 + [39] * 200 + [40] * 1900
    assert {whole.release(shared, bits=SeededBits(s)) for s in range(50)} == {39.0}
    generator = np.random.default_rng(5)
    for seed in range(50):
        values = generator.integers(20, 60, 4000)
        truth = float(np.partition(values, 1999)[1999])
        told = whole.release(values, bits=SeededBits(seed))
        assert isinstance(told, float)
        assert abs(told - truth) <= 1


@pytest.mark.long
@pytest.mark.parametrize("selection", SELECTIONS)
def test_losses_of_ones_own_have_the_same_law(selection: Any) -> None:
    table = [2, 2, 5, 9, 9]
    own = mechanism(statistic=None, answers=(0, 11), selection=selection)
    asked = mechanism(statistic=Median(lower=0, upper=11), selection=selection)
    runs = asked.losses(table)
    for seed in range(60):
        told = own.release_losses(runs.starts[1:], losses=runs.losses, bits=SeededBits(seed))
        assert told == asked.release(table, bits=SeededBits(seed))
        # Below 0 counts as 0; exact numbers and floats are losses too.
        for losses in (
            runs.losses.astype(float),
            [Fraction(int(x)) for x in runs.losses],
            np.where(runs.losses == 0, -7, runs.losses),
            runs.losses.astype(np.uint64),
        ):
            other = own.release_losses(runs.starts[1:], losses=losses, bits=SeededBits(seed))
            assert other == told
    assert own.release_losses([], losses=[2**64 - 1], bits=SeededBits(1)) in range(12)
    # Pieces without points never win, however good.
    for seed in range(20):
        told = own.release_losses([3.2, 3.4], losses=[9, 0, 9], bits=SeededBits(seed))
        assert told == int(told)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_the_loss_bound_holds(selection: Any, neighbors: Any) -> None:
    found = mechanism(epsilon=4, selection=selection, neighbors=neighbors)
    for confidence in (0.5, 0.9, 0.99, 0.999):
        bound = found.error_bound(confidence)
        for table in TABLES:
            masses, losses = law(found, table, 2.0), np.array(point_losses(found, table))
            assert masses[losses > bound].sum() <= (1 - confidence) * (1 + 1e-9)
    bounds = [found.error_bound(c) for c in (0.1, 0.5, 0.9, 0.99)]
    assert bounds == sorted(bounds)
    assert found.error_bound("0.9999999999999") == math.floor(math.log(4e13) / 2)
    # Halving epsilon doubles it; a grid a thousand times as fine adds little.
    coarse = mechanism(statistic=Median(lower=0, upper=10**9)).error_bound(0.95)
    assert coarse == math.floor(2 * math.log((10**9 + 1) / 0.05))
    for nearly in (70, 5000):
        with pytest.raises(InvalidParameter, match="confidence"):
            found.error_bound(1 - Fraction(1, 2**nearly))
    with pytest.raises(InvalidParameter, match="confidence"):
        mechanism(epsilon=1e-9).error_bound(0.9)
    for wrong in (0, 1, -1, math.nan):
        with pytest.raises(InvalidParameter, match="confidence"):
            found.error_bound(wrong)


def test_what_is_released_is_a_point_of_the_grid_or_a_category() -> None:
    for table in ([], [math.nan] * 5, [math.inf, -math.inf], [1e300], [-0.0], [2.5, 2.5, 2.6]):
        for selection in SELECTIONS:
            told = mechanism(selection=selection).release(table, bits=SeededBits(2))
            assert told in (0.0, 1.0, 2.0, 3.0)
    # Empty data, one value, NaN, infinities: what the statistic says, where epsilon is large.
    sure = mechanism(epsilon=200)
    cases: list[tuple[list[float], float]] = [
        ([], 0),
        ([2], 2),
        ([math.nan], 0),
        ([math.inf], 3),
        ([-math.inf, 1.0, 1.0], 1),
        ([1, 1, 2, 2], 1),
        ([2.6, 2.7, 2.6], 3),
    ]
    for table, answer in cases:
        assert sure.release(table, bits=SeededBits(1)) == answer
    fine = mechanism(epsilon=200, statistic=Mean(lower=0, upper=3), grid_log2=-3)
    assert fine.release([0, 1, 1], bits=SeededBits(1)) == 0.625  # of 2/3
    assert fine.release([], bits=SeededBits(1)) == 1.5
    mode = mechanism(epsilon=100, statistic=Mode(categories=("a", "b")))
    assert mode.release(["b", "b", "c"], bits=SeededBits(1)) == "b"
    assert mode.release([], bits=SeededBits(1)) in {"a", "b"}
    one = mechanism(statistic=Mode(categories=(7,)))
    assert one.release([1, 2], bits=SeededBits(1)) == 7
    total = mechanism(epsilon=100, statistic=Sum(lower=0, upper=9), answers=(0, 100))
    assert total.release([3, 4, 5], bits=SeededBits(1)) == 12
    assert total.release([9] * 20, bits=SeededBits(1)) == 100


def test_the_default_grid_is_as_fine_as_float64_holds() -> None:
    assert mechanism(statistic=Median(lower=0, upper=10**9), grid_log2=None).grid_log2 == 29 - 52
    wide = mechanism(statistic=Sum(lower=0, upper=1), answers=(0, 2**30), grid_log2=None)
    assert wide.grid_log2 == 30 - 52
    assert mechanism(statistic=None, answers=(-8, 4), grid_log2=None).grid_log2 == 3 - 52


def test_the_budget_chooses_the_selection() -> None:
    median = Median(lower=0, upper=3)
    pure = InverseSensitivity.for_guarantee(PureDP(0.7), statistic=median, grid_log2=0)
    assert pure.event == events.Pure(epsilon=Fraction(7, 10))
    assert pure.grid_log2 == 0
    approximate = InverseSensitivity.for_guarantee(ApproxDP(0.7, 1e-6), statistic=median)
    assert approximate.event == events.Pure(epsilon=Fraction(7, 10))
    for rho in (0.01, 0.125, 2.0):
        concentrated = InverseSensitivity.for_guarantee(
            ZCDP(rho), statistic=median, neighbors=ReplaceOne
        )
        assert concentrated.selection == "exponential"
        assert accounting.rho(concentrated.event, neighbors=ReplaceOne) <= rho
        assert concentrated.epsilon**2 > 7.999999 * rho
    with pytest.raises(InvalidParameter, match="guarantee"):
        InverseSensitivity.for_guarantee(GDP(1.0), statistic=median)  # type: ignore[arg-type]


@in_subtests(
    ("name", "value"),
    [
        *(("epsilon", value) for value in (0, -1, math.nan, None)),
        *(("statistic", value) for value in ("median", DistinctCount(), Sum(lower=0, upper=None))),
        *(("neighbors", value) for value in (ZeroOut, "add_remove", None)),
        *(("selection", value) for value in ("gumbel", None)),
        ("answers", (0, 3)),
        *(("grid_log2", value) for value in (2, -60, 0.5, True)),
    ],
)
def test_wrong_arguments_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=name):
        mechanism(**{name: value})


@pytest.mark.parametrize("answers", [None, (1, 0), (1, 1), (0,), [0, 1], 5, (0, math.inf)])
def test_wrong_answers_are_refused(answers: Any) -> None:
    for statistic in (None, Sum(lower=0, upper=3)):
        with pytest.raises(InvalidParameter, match="answers"):
            mechanism(statistic=statistic, answers=answers)


@pytest.mark.parametrize("values", [np.array([[1.0]]), 1.0, np.array(["a"]), np.array([1j])])
def test_wrong_values_are_refused_before_a_bit_is_drawn(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="values"):
        mechanism().release(values, bits=ScriptedBits([]))


def test_wrong_uses_are_refused_before_a_bit_is_drawn() -> None:
    own = mechanism(statistic=None, answers=(0, 3))
    with pytest.raises(InvalidParameter, match="release_losses"):
        own.release([1.0], bits=ScriptedBits([]))
    with pytest.raises(InvalidParameter, match="statistic"):
        mechanism().release_losses([1.0], losses=[0, 1], bits=ScriptedBits([]))
    with pytest.raises(InvalidParameter, match="edges"):
        own.release_losses([1.0], losses=[0], bits=ScriptedBits([]))
    with pytest.raises(InvalidParameter, match="scores"):
        own.release_losses([], losses=[], bits=ScriptedBits([]))


def test_it_is_in_the_face_of_the_mechanisms() -> None:
    assert unacorda.mechanisms.InverseSensitivity is InverseSensitivity
    assert "InverseSensitivity" in dir(unacorda.mechanisms)
