"""Searches of many rows at once have the law of a search of each."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from unacorda.bits import SeededBits
from unacorda.mechanisms.data_dependent.searches import AboveThresholdSearch

LOSSES = np.array([9, 7, 7, 4, 2, 1, 0, 0])
TARGET = 3
ROWS = 40_000


def solver(epsilon: Fraction, *, bounded_range: bool) -> AboveThresholdSearch:
    return AboveThresholdSearch(
        epsilon=epsilon, points=len(LOSSES), monotone=True, bounded_range=bounded_range
    )


def law(made: AboveThresholdSearch) -> NDArray[np.float64]:
    """By summing over the noise of the level: -loss + nu >= level + rho, nu and rho geometric."""
    comparison = made._search(TARGET).comparison
    a, b = (math.exp(-1 / s) for s in (comparison.threshold_scale, comparison.query_scale))
    chances = np.zeros(len(LOSSES))
    for rho in range(2_000):
        left = (1 - a) * a**rho
        for place, loss in enumerate(LOSSES[:-1].tolist()):
            above = b ** max(comparison.level + rho + loss, 0)
            chances[place] += left * above
            left *= 1 - above
        chances[-1] += left
    return chances


@pytest.mark.statistical
@pytest.mark.parametrize("bounded_range", [False, True])
def test_rows_are_searched_with_the_law_of_one(bounded_range: bool) -> None:
    epsilon = Fraction(1, 2)
    made = solver(epsilon, bounded_range=bounded_range)
    losses = np.tile(LOSSES, (ROWS, 1))
    found = made.choose_rows(losses, target=TARGET, bits=SeededBits(31))
    seen = np.bincount(found, minlength=len(LOSSES))
    expected, lie = law(made), law(solver(epsilon * Fraction(6, 5), bounded_range=bounded_range))
    assert expected.sum() == pytest.approx(1, abs=1e-9)
    assert stats.chisquare(seen, expected / expected.sum() * ROWS).pvalue > 1e-7
    assert stats.chisquare(seen, lie / lie.sum() * ROWS).pvalue < 1e-9
    # Neighboring rows have noise of their own: pairs are equal as often as chance has it.
    equal = int((found[0::2] == found[1::2]).sum())
    chance = float((expected**2).sum())
    assert stats.binomtest(equal, ROWS // 2, chance).pvalue > 1e-7


def test_rows_differ_and_the_last_point_is_taken_where_no_other_is() -> None:
    made = solver(Fraction(100), bounded_range=False)
    losses = np.array([[50, 40, 30, 20], [50, 0, 0, 0], [0, 0, 0, 0]])
    found = made.choose_rows(losses, target=3, bits=SeededBits(1))
    assert found.tolist() == [3, 1, 0]
    for row, index in zip(losses, found.tolist(), strict=True):
        assert made.choose(row, target=3, bits=SeededBits(2)) == index
    nothing = made.choose_rows(losses[:0], target=3, bits=SeededBits(1))
    assert nothing.tolist() == []
