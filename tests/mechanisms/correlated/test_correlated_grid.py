"""The grid of correlated noise: exact inputs, exact division, clamps that move nothing apart."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from tests.support.cases import in_subtests

from unacorda import elements
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated.grid import (
    END,
    Grid,
    _divided,
    grid_for,
    halves,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def plain_grid(input_log2: int, *, release_log2: int = 0, sigma: Fraction = Fraction(1)) -> Grid:
    return Grid(input_log2=input_log2, release_log2=release_log2, moved=Fraction(1), sigma=sigma)


def nearest(value: Fraction, log2: int) -> int:
    exact = math.floor(value / Fraction(2) ** log2 + Fraction(1, 2))
    return max(-END, min(exact, END))


# ---- inputs


@given(st.lists(FINITE, min_size=1, max_size=20), st.integers(-900, 900))
@example([0.49999999999999994, -0.5, 0.5, 1.5, -1.5, -0.0, 5e-324, -5e-324, 1e308], 0)
@example([2.0**52 + 0.5, 2.0**56 - 4, -(2.0**57)], 0)
def test_floats_go_to_the_nearest_step_upwards_where_two_are_near(
    values: list[float], log2: int
) -> None:
    found = plain_grid(log2).steps(np.array(values))
    assert found.tolist() == [nearest(Fraction(value), log2) for value in values]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.integers(-70, 70))
@example([2**63 - 1, -(2**63), 1, -1, 0, 2**62, -(2**62)], 63)
@example([2**63 - 1, -(2**63)], 64)
def test_integers_do_too(values: list[int], log2: int) -> None:
    found = plain_grid(log2).steps(np.array(values, np.int64))
    assert found.tolist() == [nearest(Fraction(value), log2) for value in values]


def test_strange_values_have_a_documented_meaning() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0])
    assert plain_grid(-3).steps(values).tolist() == [0, END, -END, 0]


@given(FINITE, FINITE, st.integers(-60, 60))
@example(0.5, 1.5, 0)
@example(2.0**56, 2.0**56 + 1024, 0)
def test_two_values_are_no_more_steps_apart_than_their_distance_takes(
    one: float, other: float, log2: int
) -> None:
    moved = math.ceil(abs(Fraction(one) - Fraction(other)) / Fraction(2) ** log2)
    first, second = plain_grid(log2).steps(np.array([one, other])).tolist()
    assert abs(first - second) <= moved


@in_subtests("dtype", ["b1", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_dtypes_mean_the_same_number(dtype: str) -> None:
    assert plain_grid(-2).steps(elements.numbers("x", np.array([0, 1], dtype))).tolist() == [0, 4]


def test_integers_of_any_size_have_ends() -> None:
    for value in (10**30, np.array([2**64 - 1], np.uint64)):
        assert plain_grid(0).steps(elements.numbers("x", value)).tolist() in (END, [END])
    assert plain_grid(0).steps(elements.numbers("x", -(10**30))) == -END


@pytest.mark.parametrize("values", [np.array([1j]), np.array([b"1"]), np.array([1], np.longdouble)])
def test_other_dtypes_are_refused_by_name(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="expected integers or floats") as caught:
        elements.numbers("x", values)
    assert "dtype" in str(caught.value)


# ---- division


@pytest.mark.long
@given(
    st.lists(
        st.tuples(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62)),
        min_size=1,
        max_size=10,
    ),
    st.integers(0, 62),
)
@example([(2**33, 2**28 - 1), (2**33, -1), (-(2**33), 0), (-(2**33) - 1, 2**28 - 1)], 0)
def test_division_is_exact_and_clamps_the_whole_number(
    pairs: list[tuple[int, int]], shift: int
) -> None:
    high, low = (np.array(part, np.int64) for part in zip(*pairs, strict=True))
    wholes, rests = _divided(high, low, shift)
    end = 2 ** (61 + shift) if shift <= 28 else 2**200
    for index, (top, bottom) in enumerate(pairs):
        value = max(-end, min(top * 2**28 + bottom, end))
        expected = divmod(value + (2**shift // 2), 2**shift)
        assert (int(wholes[index]), int(rests[index])) == expected


@pytest.mark.statistical
@pytest.mark.parametrize("scale_log2", [0, 7, 40])
@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(5, 2)])
def test_the_released_steps_have_their_exact_masses(sigma: Fraction, scale_log2: int) -> None:
    # A grid coarser than the noise shows what becomes of the exact fraction of a step: v is
    # 7 + 0.3 steps, to the last of its digits. False alarms: 1e-8 each.
    size = 100_000
    own = plain_grid(-5, release_log2=-3, sigma=sigma * Fraction(1, 8))
    value = math.floor(Fraction(73, 10) * 2 ** (scale_log2 + 2))
    high, low = halves(np.full(size, value, np.int64))
    found = own.release(high, low, scale_log2=scale_log2, bits=SeededBits(5)) * 8
    assert np.array_equal(found, np.rint(found))
    assert masses_p(found, value / 2.0 ** (scale_log2 + 2), float(sigma)) > 1e-8
    assert masses_p(found, value / 2.0 ** (scale_log2 + 2), 1.1 * float(sigma)) < 1e-9
    assert masses_p(found, value / 2.0 ** (scale_log2 + 2) + 0.15, float(sigma)) < 1e-9


def masses_p(found: Any, centre: float, sigma: float) -> float:
    points = np.arange(math.floor(centre) - 40, math.floor(centre) + 42)
    masses = np.diff(stats.norm.cdf(np.append(points, points[-1] + 1) - 0.5, centre, sigma))
    expected = masses * found.size
    observed = np.array([(found == point).sum() for point in points])
    large = expected > 20
    rest = max(expected[~large].sum(), 1e-9)
    statistic = ((observed - expected)[large] ** 2 / expected[large]).sum()
    statistic += (observed[~large].sum() - rest) ** 2 / rest if rest > 5 else 0.0
    return float(stats.chi2.sf(statistic, int(large.sum()) - (rest <= 5)))


# ---- the grid itself


def test_the_default_grid_divides_sensitivity_and_noise_and_knows_no_data() -> None:
    for sigma, sensitivity, input_log2, release_log2 in (
        (10, 1, -24, -17),
        (1, 1, -24, -20),
        (Fraction(1, 100), 1, -31, -27),
        (10**5, 8, -21, -4),
    ):
        found = grid_for(
            sigma=Fraction(sigma),
            sensitivity=Fraction(sensitivity),
            dimension=1,
            grid_log2=None,
            scale_log2=28,
        )
        assert (found.input_log2, found.release_log2) == (input_log2, release_log2)
        assert found.moved == sensitivity


def test_what_lies_on_the_grid_moves_by_whole_steps_or_a_little_more() -> None:
    third = grid_for(
        sigma=Fraction(3), sensitivity=Fraction(1, 3), dimension=1, grid_log2=-1, scale_log2=0
    )
    assert third.moved == Fraction(1, 2)
    assert third.release_log2 == -1
    many = grid_for(
        sigma=Fraction(3), sensitivity=Fraction(1), dimension=10, grid_log2=-10, scale_log2=0
    )
    assert many.moved == 1 + Fraction(4, 1024)
    fine = grid_for(
        sigma=Fraction(3), sensitivity=Fraction(1), dimension=10**6, grid_log2=None, scale_log2=0
    )
    assert 1 < fine.moved < 1 + Fraction(1, 10**7)


@given(st.integers(2, 6), st.integers(0, 2**32))
def test_vectors_move_no_farther_than_is_said(dimension: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    one = generator.normal(size=dimension)
    move = generator.normal(size=dimension)
    other = one + 0.999 * move / np.linalg.norm(move)
    own = grid_for(
        sigma=Fraction(3), sensitivity=Fraction(1), dimension=dimension, grid_log2=-2, scale_log2=0
    )
    apart = (own.steps(one) - own.steps(other)) / 4.0
    assert np.linalg.norm(apart) <= float(own.moved)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sigma": Fraction(10) ** 300}, "sigma=.*a grid from"),
        ({"sigma": Fraction(2) ** 40}, "a million times the sensitivity"),
        ({"grid_log2": -50, "sigma": Fraction(2**20)}, r"grid_log2=-50 .* at least 2\^-34"),
    ],
)
def test_numbers_out_of_reach_are_refused(change: dict[str, Any], match: str) -> None:
    good: dict[str, Any] = {
        "sigma": Fraction(1),
        "sensitivity": Fraction(1),
        "dimension": 1,
        "grid_log2": None,
        "scale_log2": 28,
    }
    grid_for(**good)
    with pytest.raises(InvalidParameter, match=match):
        grid_for(**good | change)


def test_a_grid_of_the_least_size_that_is_named_is_taken() -> None:
    grid_for(
        sigma=Fraction(2**20),
        sensitivity=Fraction(1),
        dimension=1,
        grid_log2=-34,
        scale_log2=28,
    )
