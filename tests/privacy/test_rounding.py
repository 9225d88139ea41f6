"""Rounding goes outward, by less than one step of the grid or one float."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.numerics import boundary, near
from unacorda.privacy.rounding import (
    grid_down,
    grid_sum_up,
    grid_up,
    root_down,
    root_near,
    root_up,
)

STEP = Fraction(1, 2**80)
NUMBERS = st.fractions(min_value=0, max_value=10**6)


@pytest.mark.long
@given(NUMBERS)
def test_grid(value: Fraction) -> None:
    assert grid_down(value) <= value <= grid_up(value)
    assert grid_up(value) - value < STEP
    assert value - grid_down(value) < STEP
    assert grid_up(grid_down(value)) == grid_down(value)


@pytest.mark.long
@given(st.lists(NUMBERS, max_size=9))
def test_sums_on_the_grid(values: list[Fraction]) -> None:
    assert grid_sum_up(values) == sum(map(grid_up, values))
    assert sum(values) <= grid_sum_up(values) <= sum(values) + len(values) * STEP


@pytest.mark.parametrize("exponent", [-640, -400, -300, 0, 300, 500])
def test_roots_of_squares_that_are_no_floats(exponent: int) -> None:
    square = 2 * Fraction(10) ** exponent
    above, below = root_up(square), root_down(square)
    assert Fraction(below) ** 2 < square < Fraction(above) ** 2
    assert above == math.nextafter(below, math.inf)
    assert root_near(square) in (above, below)


@pytest.mark.long
@given(NUMBERS)
def test_roots(square: Fraction) -> None:
    above, below = root_up(square), root_down(square)
    assert Fraction(below) ** 2 <= square <= Fraction(above) ** 2
    assert above in (below, math.nextafter(below, math.inf))


@in_subtests("guess", [1e-300, 0.5, 1.0, 1e300])
@in_subtests("threshold", [5e-324, 1e-200, 1.0, math.pi, 1e200])
def test_boundary_finds_neighboring_floats(threshold: float, guess: float) -> None:
    low, high = boundary(lambda x: x >= threshold, guess=guess)
    assert high == threshold
    assert low == math.nextafter(threshold, 0.0)


def test_boundary_of_constant_predicates() -> None:
    assert boundary(lambda _: True, guess=1.0) == (0.0, 5e-324)
    assert boundary(lambda _: False, guess=1.0) == (1.7976931348623157e308, math.inf)


def test_near_solves_monotone_equations() -> None:
    assert near(math.sqrt, target=3.0, guess=1.0) == pytest.approx(9.0)
    assert near(lambda x: math.exp(-x), target=1e-5, guess=1.0) == pytest.approx(math.log(1e5))
    assert near(lambda _: 1.0, target=2.0, guess=3.0) == pytest.approx(3.0, rel=0.02)
