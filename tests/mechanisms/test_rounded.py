"""Rounded ideal noise: the grid, the law, exact arguments of any size."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.mechanisms.rounded_noise import (
    rounded_gaussian,
    rounded_gaussian_floats,
    rounded_laplace,
    rounded_laplace_floats,
)
from tests.tiers import mostly_slow

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.rounding import (
    default_grid_log2,
    floor_log2,
    grid_ratio,
)

INTEGERS: list[tuple[Callable[..., list[int]], str, Any]] = [
    (rounded_laplace, "scale", stats.laplace),
    (rounded_gaussian, "sigma", stats.norm),
]
FLOATS: list[tuple[Callable[..., Any], str]] = [
    (rounded_laplace_floats, "scale"),
    (rounded_gaussian_floats, "sigma"),
]
BIG = 2**126 + 2**70 + 12345


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("scale", mostly_slow([Fraction(1, 3), Fraction(10), Fraction(10**6)]))
@pytest.mark.parametrize(("release", "name", "law"), INTEGERS)
def test_the_noise_has_its_law(
    release: Callable[..., list[int]], name: str, law: Any, scale: Fraction
) -> None:
    # Kolmogorov's test with 60,000 draws; p-values below 1e-8 are false alarms of that chance.
    size = 60_000
    steps = release([BIG] * size, unit_log2=-100, **{name: scale}, bits=SeededBits(41))
    step = Fraction(2) ** default_grid_log2(scale)
    exact = Fraction(BIG, 2**100)
    noise = np.array([float(m * step - exact) for m in steps]) / float(scale)
    assert stats.kstest(noise, law.cdf).pvalue > 1e-8
    assert stats.kstest(noise * 1.1, law.cdf).pvalue < 1e-9
    assert stats.kstest(noise / 1.1, law.cdf).pvalue < 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("offset", mostly_slow([0, 3, 4, 7]))
@pytest.mark.parametrize(("release", "name", "law"), INTEGERS)
def test_a_grid_coarser_than_the_noise_keeps_the_exact_masses(
    release: Callable[..., list[int]], name: str, law: Any, offset: int
) -> None:
    # Units of 1/8 on the grid of whole numbers, noise of scale 3/10: chi-square over five cells.
    size = 100_000
    steps = np.array(
        release(
            [8 * 10**30 + offset] * size,
            unit_log2=-3,
            **{name: Fraction(3, 10)},
            grid_log2=0,
            bits=SeededBits(42),
        ),
        dtype=object,
    )
    cells = (steps - 10**30).astype(np.int64)
    edges = np.array([-np.inf, -0.5, 0.5, 1.5, np.inf])
    masses = np.diff(law.cdf((edges - offset / 8) / 0.3)) * size
    seen = np.histogram(cells, bins=[-(10**9), 0, 1, 2, 10**9])[0]
    assert stats.chi2.sf(((seen - masses) ** 2 / masses).sum(), 3) > 1e-8


@given(
    values=st.lists(st.integers(-(2**127), 2**127), min_size=1, max_size=5),
    unit=st.integers(-130, 130),
    grid=st.integers(-130, 130),
)
def test_tiny_noise_rounds_to_the_nearest_step(values: list[int], unit: int, grid: int) -> None:
    sigma = Fraction(2) ** (grid - 300)
    for release, name, _ in INTEGERS:
        steps = release(
            values, unit_log2=unit, **{name: sigma}, grid_log2=grid, bits=SeededBits(43)
        )
        for value, step in zip(values, steps, strict=True):
            exact = value * Fraction(2) ** (unit - grid)
            assert abs(exact - step) <= Fraction(1, 2)
            assert type(step) is int


@pytest.mark.parametrize(("release", "name"), FLOATS)
def test_floats_and_integers_are_released_alike(release: Callable[..., Any], name: str) -> None:
    whole = next(integers for integers, other, _ in INTEGERS if other == name)
    numbers = [3, -7, 2**40 + 1, 0, -(2**45)]
    floats = np.array(numbers) * 2.0**-10
    for scale in (0.3, 1e3):
        steps = whole(numbers, unit_log2=-10, **{name: scale}, bits=SeededBits(44))
        released = release(floats, **{name: scale}, bits=SeededBits(44))
        assert released.tolist() == [m * 2.0 ** default_grid_log2(scale) for m in steps]


@pytest.mark.parametrize(("release", "name"), FLOATS)
@pytest.mark.parametrize("scale", [0.7, 3.0, 1e-5])
def test_the_low_bits_say_nothing(release: Callable[..., Any], name: str, scale: float) -> None:
    # Mironov 2012: outputs of neighboring inputs lie on one announced grid, whatever the inputs.
    grid = 2.0 ** default_grid_log2(scale)
    for x in (0.0, 0.1, 1 / 3, np.nextafter(0.1, 1), 5e-324, -1e-9):
        released = release(np.full(2000, x), **{name: scale}, bits=SeededBits(45))
        assert (np.remainder(released, grid) == 0).all()
        # Both parities occur: the grid is not coarser than announced either.
        assert set(np.remainder(released / grid, 2).tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(("release", "name"), FLOATS)
def test_strange_floats_have_a_documented_meaning(release: Callable[..., Any], name: str) -> None:
    strange = np.array([np.nan, -0.0, 5e-324, -1e-310, np.inf, -np.inf, 1.7e308, 1e300])
    plain = np.array([0.0, 0.0, 0.0, 0.0, 1.5e305, -1.5e305, 1.5e305, 1e300])
    for scale in (1e-200, 0.3, 1e200):
        released = release(strange, **{name: scale}, bits=SeededBits(46))
        assert np.isfinite(released).all()
        assert (released == release(plain, **{name: scale}, bits=SeededBits(46))).all()
    assert not np.signbit(release(-np.zeros(1), **{name: 1e-9}, grid_log2=0, bits=SeededBits(1)))


def test_shapes_are_kept() -> None:
    for shape in ((), (0,), (3,), (2, 5), (2, 0, 3)):
        assert rounded_laplace_floats(np.ones(shape), scale=1, bits=SeededBits(1)).shape == shape
    view = np.arange(24.0).reshape(4, 6)[::2, ::-1]
    released = rounded_gaussian_floats(view, sigma=1e-9, grid_log2=0, bits=SeededBits(1))
    assert (released == view).all()
    assert rounded_laplace([], unit_log2=0, scale=1, bits=SeededBits(1)) == []


@pytest.mark.long
@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_floor_log2(value: Fraction) -> None:
    exponent = floor_log2(value)
    assert Fraction(2) ** exponent <= value < Fraction(2) ** (exponent + 1)


def test_a_grid_too_fine_or_too_far_is_refused() -> None:
    assert grid_ratio("scale", 1, -40) == (-40, Fraction(2**40))
    with pytest.raises(InvalidParameter, match="grid_log2"):
        grid_ratio("scale", 1, -41)
    with pytest.raises(InvalidParameter, match="scale"):
        grid_ratio("scale", 1e300, None)
    with pytest.raises(InvalidParameter, match="grid_log2"):
        rounded_laplace([1], unit_log2=0, scale=1, grid_log2=1000, bits=SeededBits(1))


def test_what_is_no_integer_counts_as_the_nearest() -> None:
    odd: Any = [123456.5, "a", None, Decimal("-0.5"), np.int64(7)]
    even = [123457, 0, 0, 0, 7]
    one, other = (
        rounded_laplace(values, unit_log2=0, scale=1, bits=SeededBits(1)) for values in (odd, even)
    )
    assert one == other
