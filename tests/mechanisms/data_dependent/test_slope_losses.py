"""Losses of the slope through the origin against enumeration, and their sensitivity."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import InverseSensitivity
from unacorda.mechanisms.data_dependent import Median, Slope, check_sensitivity
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

BOX = {"x_lower": -1, "x_upper": 2, "y_lower": -2, "y_upper": 1}
DOMAIN = [(-1, 1), (-1, -2), (0, 1), (1, 0), (1, 1), (2, -2), (2, 1)]
STATISTIC = Slope(lower=-2, upper=1, **BOX)


def mechanism(**changed: Any) -> InverseSensitivity:
    given: dict[str, Any] = {"epsilon": 1, "statistic": STATISTIC, "grid_log2": -1}
    return InverseSensitivity(**(given | changed))


def tables(largest: int) -> list[tuple[Any, ...]]:
    return [
        table
        for size in range(largest + 1)
        for table in itertools.combinations_with_replacement(DOMAIN, size)
    ]


def rows(table: Any) -> Any:
    return np.array(table, dtype=np.float64).reshape(-1, 2)


def least_changes(table: Any, slope: Fraction, sign: int, neighbors: Neighbors) -> int:
    """Until sign times the sum of x (y - slope x) is 0 or above, all subsets tried."""
    psi = [sign * x * (y - slope * x) for x, y in table]
    best = Fraction(-100)
    for x, y in itertools.product((-1, 2), (-2, 1)):
        best = max(best, sign * x * (y - slope * x))
    if sign * slope > 0:
        for y in (-2, 1):
            top = Fraction(y) / (2 * slope)
            if -1 <= top <= 2:
                best = max(best, sign * top * (y - slope * top))
    for k in range(50):
        for gone in range(min(k, len(psi)) + 1):
            if neighbors is ReplaceOne and gone < min(k, len(psi)):
                continue
            added = gone if neighbors is ReplaceOne else k - gone
            for kept in itertools.combinations(psi, len(psi) - gone):
                if sum(kept) + added * best >= 0:
                    return k
    return 50


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_losses_are_those_of_all_subsets(neighbors: Neighbors) -> None:
    found = mechanism(neighbors=neighbors)
    step = Fraction(1, 2)
    for table in tables(3):
        runs = found.losses(rows(table))
        assert runs.starts[0] == -4
        assert runs.counts.sum() == 7
        for point in range(-4, 3):
            up = point > -4 and least_changes(table, (point - Fraction(1, 2)) * step, 1, neighbors)
            down = point < 2 and least_changes(
                table, (point + Fraction(1, 2)) * step, -1, neighbors
            )
            assert runs.loss(point) == max(up, down)
        # The slope itself, rounded.
        if any(x for x, _ in table):
            truth = STATISTIC.value(rows(table))
            assert runs.loss(math.floor(truth / step + Fraction(1, 2))) == 0
        else:
            assert runs.losses.tolist() == [0]


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_losses_move_by_one_at_most(neighbors: Neighbors) -> None:
    found = mechanism(neighbors=neighbors)

    def losses(table: list[Any]) -> list[int]:
        runs = found.losses(rows(table))
        return [runs.loss(point) for point in range(-4, 3)]

    check = check_sensitivity(losses, DOMAIN, 4, neighbors=neighbors)
    assert check
    assert check.largest == 1
    # The planted fault: changes counted twice, as if one were an addition and a removal.
    fault = check_sensitivity(
        lambda table: [2 * loss for loss in losses(table)], DOMAIN, 2, neighbors=neighbors
    )
    assert not fault


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_the_checker_agrees_on_the_median_too(neighbors: Neighbors) -> None:
    median = mechanism(statistic=Median(lower=0, upper=3), grid_log2=0, neighbors=neighbors)

    def losses(table: list[float]) -> list[int]:
        runs = median.losses(np.array(table, dtype=np.float64))
        return [runs.loss(point) for point in range(4)]

    assert check_sensitivity(losses, [0, 1, 3], 5, neighbors=neighbors)


@pytest.mark.slow
def test_slopes_are_close() -> None:
    generator = np.random.default_rng(8)
    x = generator.random(3000) * 10
    y = 3 * x + generator.normal(size=3000) * 5
    statistic = Slope(x_lower=0, x_upper=10, y_lower=-1000, y_upper=1000, lower=-50, upper=50)
    truth = float((x * y).sum() / (x * x).sum())
    assert float(statistic.value(np.c_[x, y])) == pytest.approx(truth)
    for selection in ("exponential", "permute and flip"):
        found = InverseSensitivity(epsilon=1, statistic=statistic, selection=selection)
        assert found.grid_log2 == 6 - 16
        errors = []
        for seed in range(8):
            told = found.release(np.c_[x, y], bits=SeededBits(seed))
            assert isinstance(told, float)
            errors.append(abs(told - truth))
        # One record may move the slope by 10 (1000 + 500) / sum of x^2, which is 0.15.
        assert float(np.median(errors)) < 0.5


def test_what_counts_as_what() -> None:
    sure = mechanism(epsilon=200)
    for table, answer in (
        ([(1, 1)] * 3, 1),
        ([(math.nan, 1), (1, 0.5), (1, 0.5)], 0.5),
        ([(math.inf, 1)], 0.5),  # (2, 1)
        ([(1, -math.inf)], -2),
        ([(0.5, -2.0)], -2),  # -4 ends at the lower bound
        ([(2, 0.3)], 0),
    ):
        assert sure.release(np.array(table), bits=SeededBits(1)) == answer
    assert STATISTIC.value([]) == 0
    assert Slope(lower=3, upper=4, **BOX).value([(0, 1)]) == 3
    assert mechanism().release([], bits=SeededBits(1)) in np.arange(-4, 3) / 2


@pytest.mark.parametrize(
    "values", [np.array([1.0]), np.array([[1.0]]), 1.0, np.array([["a", "b"]])]
)
def test_wrong_pairs_are_refused_before_a_bit_is_drawn(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="values"):
        mechanism().release(values, bits=ScriptedBits([]))


def test_wrong_bounds_are_refused() -> None:
    for name in ("x_upper", "y_upper", "upper"):
        with pytest.raises(InvalidParameter, match=name):
            Slope(**({"lower": -2, "upper": 1} | BOX | {name: -5}))
    wide = Slope(x_lower=0, x_upper=1, y_lower=-(10**7), y_upper=10**7, lower=-1, upper=1)
    with pytest.raises(InvalidParameter, match="grid_log2"):
        InverseSensitivity(epsilon=1, statistic=wide)
    assert InverseSensitivity(epsilon=1, statistic=wide, grid_log2=-2).grid_log2 == -2
