"""Toeplitz factors: the square root's coefficients, exact products, inverses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.mechanisms.correlated import toeplitz
from unacorda.mechanisms.correlated.grid import END, LARGEST_ROW


def exact_root(count: int) -> list[Fraction]:
    return [Fraction(math.comb(2 * k, k), 4**k) for k in range(count)]


def test_the_square_of_the_root_sums_up_prefixes() -> None:
    root = exact_root(60)
    for t in range(60):
        assert sum(root[k] * root[t - k] for k in range(t + 1)) == 1


@pytest.mark.parametrize("bands", [1, 2, 3, 100, 2000])
def test_coefficients_are_the_roots_to_half_a_step(bands: int) -> None:
    found = toeplitz.as_fractions(bands)
    step = Fraction(1, 2 ** toeplitz.scale_for(bands))
    assert len(found) == bands
    for one, true in zip(found, exact_root(bands), strict=True):
        assert abs(one - true) <= step / 2 + Fraction(1, 10**13)
    whole = toeplitz.square_root_coefficients(bands)
    assert [Fraction(m) * step for m in whole.tolist()] == list(found)


@pytest.mark.long
@in_subtests("log2", range(23))
def test_coefficients_do_not_increase_and_keep_sums_within_range(log2: int) -> None:
    for bands in (2**log2, min(2**log2 + 1, toeplitz.LARGEST_BANDS)):
        whole = toeplitz.square_root_coefficients(bands)
        assert whole[0] == 2 ** toeplitz.scale_for(bands)
        assert np.all(np.diff(whole) <= 0)
        assert whole[-1] > 100  # a hundredth of any of them at most is rounded away
        assert whole.sum() <= LARGEST_ROW
    assert not whole.flags.writeable


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**32))
def test_both_products_are_exact(bands: int, steps: int, dimension: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    coefficients = generator.integers(0, LARGEST_ROW // bands, bands, endpoint=True)
    values = generator.integers(-END, END, (steps, dimension), endpoint=True)
    values[generator.random(values.shape) < 0.3] = END
    values[generator.random(values.shape) < 0.3] = -END
    true = [
        [
            sum(int(coefficients[k]) * int(values[t - k, j]) for k in range(min(bands, t + 1)))
            for j in range(dimension)
        ]
        for t in range(steps)
    ]
    high, low = toeplitz.product_halves(coefficients, values)
    assert (high.astype(object) * 2**28 + low.astype(object)).tolist() == true
    for j in range(dimension):
        top, bottom = toeplitz._by_one_number(coefficients[:steps], values[:, j])
        assert (top.astype(object) * 2**28 + bottom).tolist() == [row[j] for row in true]


def test_the_long_product_is_the_direct_one() -> None:
    generator = np.random.default_rng(3)
    values = generator.integers(-END, END, (5000, 1))
    coefficients = toeplitz.square_root_coefficients(4000)
    high, low = toeplitz.product_halves(coefficients, values)  # by one number
    top, bottom = toeplitz._direct(coefficients, values[:, 0])
    assert np.array_equal(
        high[:, 0].astype(object) * 2**28 + low[:, 0], top.astype(object) * 2**28 + bottom
    )


def exact_inverse(column: tuple[Fraction, ...], steps: int) -> list[Fraction]:
    found: list[Fraction] = []
    for t in range(steps):
        rest = sum(column[k] * found[t - k] for k in range(1, min(t + 1, len(column))))
        found.append(((t == 0) - rest) / column[0])
    return found


@pytest.mark.parametrize(("bands", "steps"), [(1, 1), (1, 5), (2, 9), (7, 50), (50, 50)])
def test_inverses_are_right(bands: int, steps: int) -> None:
    column = toeplitz.as_fractions(bands)
    true = np.array([float(one) for one in exact_inverse(column, steps)])
    found = toeplitz.inverse(np.array([float(c) for c in column]), steps)
    assert found == pytest.approx(true, abs=1e-13)


@pytest.mark.parametrize("bands", [1, 5, 256, 257, 700])
def test_decoding_undoes_the_encoder(bands: int) -> None:
    generator = np.random.default_rng(bands)
    truth = generator.normal(size=(700, 2))
    whole = toeplitz.square_root_coefficients(bands)
    column = np.ldexp(whole.astype(np.float64), -toeplitz.scale_for(bands))
    encoded = np.array([np.convolve(column, truth[:, j])[:700] for j in range(2)]).T
    assert toeplitz.decoded(column, encoded) == pytest.approx(truth, abs=1e-11)
    assert toeplitz.decoded(column, encoded[:3]) == pytest.approx(truth[:3], abs=1e-11)
