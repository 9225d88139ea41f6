"""Sums over records: exact within the stated round-off, whatever the order and the sizes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.inference.sums import BLOCK, ROUNDED, RowSum, row_sum, slack
from unacorda.mechanisms.additive.real import Gaussian


def summed(x: np.ndarray, weights: np.ndarray, bound: Fraction) -> RowSum:
    return row_sum(
        lambda rows: x[rows].T @ weights[rows], rows=len(x), size=x.shape[1], row_bound=bound
    )


def exact_sum(x: np.ndarray, weights: np.ndarray) -> list[Fraction]:
    return [
        sum((Fraction(v) * Fraction(w) for v, w in zip(column, weights, strict=True)), Fraction())
        for column in x.T.tolist()
    ]


def distance(sums: RowSum, exact: list[Fraction]) -> float:
    unit = Fraction(2) ** sums.unit_log2
    off = [float(step * unit - value) for step, value in zip(sums.steps, exact, strict=True)]
    return float(np.linalg.norm(off))


@pytest.mark.parametrize("rows", [1, 100, BLOCK + 1])
@pytest.mark.parametrize("exponent", [-300, 0, 300])
def test_round_off_is_within_half_of_what_is_stated(rows: int, exponent: int) -> None:
    drawn = np.random.default_rng(rows)
    # Values of very different sizes with both signs cancel, which is where floats err most.
    x = np.ldexp(drawn.normal(size=(rows, 3)) * 10.0 ** drawn.integers(-9, 1, (rows, 3)), exponent)
    weights = drawn.uniform(-1, 1, rows)
    norms = np.linalg.norm(x * weights[:, None], axis=1)
    bound = Fraction(float(norms.max())) * ROUNDED
    off = distance(summed(x, weights, bound), exact_sum(x, weights))
    assert off <= slack(rows=rows, size=3, row_bound=bound) / 2


def test_sums_in_floats_do_err() -> None:
    """So that the test above has something to bound."""
    rows = 4 * BLOCK
    x = np.full((rows, 1), 0.1)
    exact = exact_sum(x, np.ones(rows))
    off = distance(summed(x, np.ones(rows), Fraction(1, 10) * ROUNDED), exact)
    assert off > 0


@settings(max_examples=50)
@given(
    st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=40),
    st.integers(-40, 40),
)
def test_sums_of_whole_numbers_are_exact(values: list[int], exponent: int) -> None:
    x = np.ldexp(np.array(values, dtype=np.float64), exponent)[:, None]
    bound = Fraction(2) ** (20 + exponent)
    sums = summed(x, np.ones(len(values)), bound)
    assert sums.steps[0] * Fraction(2) ** sums.unit_log2 == sum(values) * Fraction(2) ** exponent


def test_a_part_that_breaks_its_word_moves_the_sum_by_a_block_at_most() -> None:
    sums = row_sum(
        lambda rows: np.array([np.inf if rows.start == 0 else 1.0, np.nan]),
        rows=2 * BLOCK,
        size=2,
        row_bound=Fraction(1),
    )
    unit = Fraction(2) ** sums.unit_log2
    assert BLOCK <= sums.steps[0] * unit <= 4 * BLOCK + 1
    assert sums.steps[1] == 0


def test_slack_stays_small_beside_a_record() -> None:
    assert slack(rows=10**6, size=400, row_bound=Fraction(1)) < Fraction(1, 10**5)
    assert slack(rows=10**9, size=400, row_bound=Fraction(1)) < Fraction(1, 100)


@pytest.mark.parametrize("bound", [Fraction(0), Fraction(2) ** 901, Fraction(1, 2**901)])
def test_bounds_beyond_the_range_are_refused(bound: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="row_bound"):
        slack(rows=1, size=1, row_bound=bound)


@pytest.mark.statistical
def test_released_sums_have_the_noise_of_their_mechanism() -> None:
    # 4,000 sums of squares of normals: beyond 7 deviations of a chi-square with p < 1e-11.
    sums = RowSum(steps=[0] * 4000, unit_log2=-10)
    noise = Gaussian(sigma=3.0, l2_sensitivity=1)
    drawn = sums.released(noise, bits=SeededBits(5)) / 3.0
    assert abs(float(drawn @ drawn) - 4000) < 7 * np.sqrt(8000)


def test_repr_shows_no_sum() -> None:
    assert "7" not in repr(RowSum(steps=[7], unit_log2=0))
