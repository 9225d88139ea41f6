"""Correlated normal noise: the price against exact inverses, the law, edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy import stats
from tests.mechanisms.laws import as_mpf
from tests.support.cases import in_subtests

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.shaped.vectors import MultivariateGaussian
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP


def covariance(size: int, seed: int, *, ridge: float = 0.1) -> NDArray[np.float64]:
    full = np.random.default_rng(seed).normal(size=(size, size))
    product = full @ full.T / size + ridge * np.eye(size)
    return (product + product.T) / 2


def square_of_move(mechanism: MultivariateGaussian, move: Any) -> Fraction:
    """v' C^-1 v in fractions, C the covariance of the noise as it is drawn."""
    solved: list[Fraction] = []
    for i, line in enumerate(mechanism.factor.tolist()):
        known = sum((Fraction(line[j]) * solved[j] for j in range(i)), Fraction(0))
        solved.append((exact("move", move[i]) - known) / Fraction(line[i]))
    return sum((one * one for one in solved), Fraction(0))


@pytest.mark.long
@given(
    size=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    moves=st.lists(
        st.lists(st.decimals("-5", "5", places=2), min_size=4, max_size=4), min_size=1, max_size=3
    ),
)
def test_moves_cost_what_the_exact_inverse_says(size: int, seed: int, moves: Any) -> None:
    rows = [[float(entry) for entry in row[:size]] for row in moves]
    if not any(entry for row in rows for entry in row):
        return
    mechanism = MultivariateGaussian(covariance=covariance(size, seed), moves=rows)
    largest = max(square_of_move(mechanism, row) for row in rows)
    claimed = exact("noise_multiplier", mechanism.noise_multiplier) ** 2 * largest
    assert 1 - Fraction(1, 10**9) < claimed <= 1


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_ball_costs_its_worst_direction(size: int, seed: int) -> None:
    mechanism = MultivariateGaussian(covariance=covariance(size, seed), l2_sensitivity=0.7)
    with mp.workprec(200):
        factor = mp.matrix([[mpf(entry) for entry in row] for row in mechanism.factor.tolist()])
        least = min(mp.eigsy(factor * factor.T, eigvals_only=True))
        truth = mp.sqrt(least) / mpf("0.7")
        claimed = as_mpf(exact("noise_multiplier", mechanism.noise_multiplier))
        assert claimed <= truth
        assert claimed > truth * (1 - mpf("1e-8"))
    # The least variance of a single number is a wrong answer where numbers are correlated.
    assert (
        math.sqrt(np.diagonal(mechanism.factor @ mechanism.factor.T).min()) / 0.7 > claimed * 1.01
    )


@pytest.mark.parametrize("size", [2, 4])
def test_a_box_costs_its_farthest_corner(size: int) -> None:
    box = [0.5, 2, 0, 1.25][:size]
    mechanism = MultivariateGaussian(covariance=covariance(size, 5), box=box)
    corners = itertools.product(*((side, -side) for side in box))
    largest = max(square_of_move(mechanism, corner) for corner in corners)
    claimed = exact("noise_multiplier", mechanism.noise_multiplier) ** 2 * largest
    assert 1 - Fraction(1, 10**9) < claimed <= 1


def test_independent_noise_is_priced_exactly() -> None:
    for scale in (Fraction(1, 2), Fraction(3)):
        square = float(scale**2)
        noise = MultivariateGaussian(covariance=np.eye(3) * square, l2_sensitivity=0.1)
        assert noise.event == Gaussian(sigma=scale, l2_sensitivity=0.1).event
    assert MultivariateGaussian(covariance=[[9, 0], [0, 16]], box=[3, 0]).event == events.Gaussian(
        noise_multiplier=1
    )
    many = np.diag(np.arange(1.0, 41) ** 2)
    wide = MultivariateGaussian(covariance=many, box=np.arange(1, 41) / 2)
    assert exact("noise_multiplier", wide.noise_multiplier) ** 2 * 10 <= 1
    assert float(wide.noise_multiplier) == pytest.approx(1 / math.sqrt(10), rel=1e-12)


@pytest.mark.parametrize("guarantee", [GDP(0.5), ZCDP(0.2), ApproxDP(1, 1e-6)])
@pytest.mark.parametrize(
    "bound", [{"l2_sensitivity": 2}, {"box": [1, 0.1, 3]}, {"moves": [[1, 1, 0]]}]
)
def test_a_guarantee_is_kept_and_used_up(guarantee: Any, bound: Any) -> None:
    shape = covariance(3, 8)
    noise = MultivariateGaussian.for_guarantee(guarantee, covariance=shape, **bound)
    plain = Gaussian.for_guarantee(guarantee, l2_sensitivity=1)
    got, needed = (exact("noise_multiplier", one.event.noise_multiplier) for one in (noise, plain))
    assert needed <= got < needed * Fraction("1.000000001")
    ratio = np.array(noise.covariance) / shape
    assert ratio == pytest.approx(ratio[0, 0], rel=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2, 6])
def test_the_noise_has_its_covariance(size: int) -> None:
    shape = covariance(size, 11)
    mechanism = MultivariateGaussian(covariance=shape, l2_sensitivity=1)
    x = np.linspace(-5, 5, size)
    noise = mechanism.release(np.tile(x, (30_000, 1)), bits=SeededBits(12)) - x
    white = np.linalg.solve(np.linalg.cholesky(shape), noise.T)
    for row in white:
        assert stats.kstest(row, stats.norm.cdf).pvalue > 1e-8
        assert stats.kstest(row * 1.1, stats.norm.cdf).pvalue < 1e-9
    # Squared lengths and products: independent standard normals, all of them together.
    assert stats.kstest((white**2).sum(axis=0), stats.chi2(size).cdf).pvalue > 1e-8
    for one, two in itertools.combinations(white, 2):
        assert abs((one * two).mean()) < 6 / math.sqrt(30_000)
    deviations = np.array(mechanism.standard_deviations)
    assert np.abs(noise.std(axis=0) / deviations - 1).max() < 6 / math.sqrt(60_000)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_outputs_lie_on_the_grid_whatever_the_input(scale: float) -> None:
    shape = covariance(8, 3) * scale
    mechanism = MultivariateGaussian(covariance=(shape + shape.T) / 2, l2_sensitivity=1)
    x = np.array([0.1, -0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324, 2.0**52 + 1])
    noisy = mechanism.release(x, bits=SeededBits(4))
    assert np.isfinite(noisy).all()
    steps = np.ldexp(noisy, -mechanism.grid_log2)
    small = np.abs(steps) < 2.0**53
    assert (steps[small] == np.rint(steps[small])).all()
    zeros = mechanism.release(np.array([-0.0] * 8), bits=SeededBits(4))
    blanks = mechanism.release(np.array([math.nan] * 8), bits=SeededBits(4))
    np.testing.assert_array_equal(zeros, blanks)


def test_shapes_and_values() -> None:
    mechanism = MultivariateGaussian(covariance=[[2, 1], [1, 2]], l2_sensitivity=1)
    same = MultivariateGaussian(covariance=np.array([[2, 1], [1, 2]]), l2_sensitivity=1.0)
    assert mechanism == same
    assert hash(mechanism) == hash(same)
    assert mechanism.release([1, 2]).shape == (2,)
    assert mechanism.release(np.zeros((4, 0, 2))).shape == (4, 0, 2)
    assert not mechanism.factor.flags.writeable
    wrong: list[Any] = [1.0, [1.0], np.array([["a", "b"]]), np.zeros((2, 3))]
    for x in wrong:
        with pytest.raises(InvalidParameter, match="x"):
            mechanism.release(x, bits=ScriptedBits([]))


@in_subtests(
    ("fields", "name"),
    [
        ({"covariance": 1.0}, "covariance"),
        ({"covariance": [[1, 2, 3]]}, "covariance"),
        ({"covariance": [[1, 2], [2, 1]]}, "covariance"),
        ({"covariance": [[1, 1], [1, 1]]}, "covariance"),
        ({"covariance": [[1, 0.1], [0.2, 1]]}, "covariance"),
        ({"covariance": [[1, float("nan")], [float("nan"), 1]]}, "covariance"),
        ({"covariance": [[1, 1 - 1e-14], [1 - 1e-14, 1]]}, "covariance"),
        ({"covariance": [["a", 0], [0, 1]]}, "covariance"),
        ({"covariance": [[0, 0], [0, 1]]}, "covariance"),
        ({"l2_sensitivity": 0}, "l2_sensitivity"),
        ({"l2_sensitivity": None}, "l2_sensitivity"),
        ({"moves": [[1, 2]]}, "l2_sensitivity"),
        ({"l2_sensitivity": None, "moves": [[1, 2, 3]]}, "moves"),
        ({"l2_sensitivity": None, "moves": []}, "moves"),
        ({"l2_sensitivity": None, "moves": [[0, 0]]}, "moves"),
        ({"l2_sensitivity": None, "moves": [1, 2]}, "moves"),
        ({"l2_sensitivity": None, "box": [1]}, "box"),
        ({"l2_sensitivity": None, "box": [float("inf"), 1]}, "box"),
        ({"grid_log2": -80}, "grid_log2"),
    ],
)
def test_wrong_numbers_are_refused(fields: dict[str, Any], name: str) -> None:
    usual: dict[str, Any] = {"covariance": [[2, 1], [1, 2]], "l2_sensitivity": 1}
    with pytest.raises(InvalidParameter, match=name):
        MultivariateGaussian(**(usual | fields))


def test_wrong_guarantees_and_large_boxes_are_refused() -> None:
    wrong: list[Any] = [PureDP(1), GDP(0), 1.0]
    for guarantee in wrong:
        with pytest.raises(InvalidParameter, match="guarantee"):
            MultivariateGaussian.for_guarantee(guarantee, covariance=np.eye(2), l2_sensitivity=1)
    with pytest.raises(InvalidParameter, match="box"):
        MultivariateGaussian(covariance=covariance(17, 1), box=[1] * 17)
