"""The K-norm mechanism: the gridded law in the plane against epsilon, norms of the noise, edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Laplace
from unacorda.mechanisms.shaped.vectors import KNorm
from unacorda.privacy import events
from unacorda.privacy.guarantees import ApproxDP, PureDP

INF = math.inf
REACH = 5  # cells of side 1 from -5 to 5 in both directions
FINE = 64  # places a cell and direction


def masses(
    norm: float, *, shift: tuple[float, float], scale: float = 2.0, power: float = 0.0
) -> NDArray[np.float64]:
    """P(rounded x + Z = cell) in the plane by the midpoint rule; power: of |z|, for a fault."""
    side = (np.arange((2 * REACH + 1) * FINE) + 0.5) / FINE - REACH - 0.5
    one, two = np.abs(side - shift[0])[:, None], np.abs(side - shift[1])[None, :]
    size = np.maximum(one, two) if norm == INF else np.hypot(one, two)
    # The integral of e^(-|z|/scale) over the plane: the area of the unit ball, twice, by scale^2.
    whole = (8.0 if norm == INF else 2 * math.pi) * scale**2
    density = np.exp(-size / scale) * size**power / whole
    cells = 2 * REACH + 1
    sums: NDArray[np.float64] = density.reshape(cells, FINE, cells, FINE).sum(axis=(1, 3))
    return sums / FINE**2


@pytest.mark.parametrize("norm", [2, INF])
def test_the_gridded_law_keeps_epsilon(norm: float) -> None:
    # Scale 2 and moves of length 1: epsilon is 1/2. The rule is good to 1e-4 relative.
    moves = [(1.0, 0.0), (0.0, -1.0), (0.6, 0.8)] + (
        [(1.0, -1.0), (1.0, 0.3)] if norm == INF else []
    )
    losses = []
    for x in ((0.0, 0.0), (0.3, -0.2), (0.5, 0.5)):
        here = masses(norm, shift=x)
        for move in moves:
            there = masses(norm, shift=(x[0] + move[0], x[1] + move[1]))
            losses.append(np.abs(np.log(here / there)).max())
    assert max(losses) < 0.5 + 1e-3
    assert max(losses) > 0.49


@pytest.mark.parametrize("norm", [2, INF])
def test_a_radius_of_the_wrong_law_is_caught(norm: float) -> None:
    # One exponential number too few in the radius: the density gains a pole, |z|^-1.
    here = masses(norm, shift=(0.0, 0.0), power=-1.0)
    there = masses(norm, shift=(1.0, 0.0), power=-1.0)
    assert np.abs(np.log(here / there)).max() > 0.6


@pytest.mark.statistical
@pytest.mark.parametrize("norm", [2, INF])
def test_rounded_vectors_have_the_law(norm: float) -> None:
    mechanism = KNorm(norm=norm, epsilon=0.5, sensitivity=1, dimension=2, grid_log2=0)
    x = (0.3, -0.2)
    drawn = mechanism.release(np.tile(x, (150_000, 1)), bits=SeededBits(7)).astype(int)
    inside = (np.abs(drawn) <= REACH).all(axis=1)
    places = (drawn[inside] + REACH) @ np.array([2 * REACH + 1, 1])
    counts = np.append(np.bincount(places, minlength=(2 * REACH + 1) ** 2), (~inside).sum())

    def p_value(**law: float) -> float:
        expected = masses(norm, shift=x, **law).reshape(-1)
        expected = np.append(expected, 1 - expected.sum()) * len(drawn)
        return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))

    assert p_value() > 1e-7
    assert p_value(scale=2.2) < 1e-9
    assert p_value(scale=1.8) < 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("norm", [1, 2, INF])
@pytest.mark.parametrize("dimension", [1, 2, 7, 40])
def test_the_norm_of_the_noise_is_a_gamma_number(norm: float, dimension: int) -> None:
    mechanism = KNorm(norm=norm, epsilon=0.5, sensitivity=3, dimension=dimension)
    noise = mechanism.release(np.zeros((20_000, dimension)), bits=SeededBits(9))
    sizes = np.linalg.norm(noise, ord=norm, axis=1) / 6
    law = stats.gamma(dimension).cdf
    assert stats.kstest(sizes, law).pvalue > 1e-7
    assert stats.kstest(sizes * 1.1, law).pvalue < 1e-9
    # Every coordinate has the same spread, and as many values above as below zero.
    spreads = noise.std(axis=0)
    kurtosis = stats.kurtosis(noise.reshape(-1), fisher=False)
    assert np.abs(spreads / mechanism.standard_deviation - 1).max() < 6 * math.sqrt(
        max(kurtosis, 6) / 4 / 20_000
    )
    above = int((noise > 0).sum())
    assert abs(above / noise.size - 0.5) < 6 * 0.5 / math.sqrt(20_000)


def test_prices_and_spreads() -> None:
    for dimension in (1, 3):
        event = KNorm(norm=1, epsilon=0.3, sensitivity=2, dimension=dimension).event
        assert event == Laplace(scale="20/3", l1_sensitivity=2).event  # type: ignore[arg-type]
    assert KNorm(norm=INF, epsilon=0.3, sensitivity=2, dimension=1).event == event
    assert KNorm(norm=INF, epsilon=0.3, sensitivity=2, dimension=2).event == events.Pure(
        epsilon=0.3
    )
    assert KNorm(norm=2, epsilon=0.3, sensitivity=2, dimension=2).event == events.Pure(epsilon=0.3)
    made = KNorm.for_guarantee(PureDP("0.3"), norm=2, sensitivity="0.6", dimension=5)
    assert exact("scale", made.scale) == 2
    assert made.standard_deviation == pytest.approx(2 * math.sqrt(6), rel=1e-9)
    wrong: list[Any] = [PureDP(0), ApproxDP(1, 0.1), 1.0]
    for guarantee in wrong:
        with pytest.raises(InvalidParameter, match="guarantee"):
            KNorm.for_guarantee(guarantee, norm=2, sensitivity=1, dimension=2)


@pytest.mark.parametrize("norm", [1, 2, INF])
@pytest.mark.parametrize("scale", [1e-200, 0.7, 1e200])
def test_outputs_lie_on_the_grid_whatever_the_input(norm: float, scale: float) -> None:
    mechanism = KNorm(norm=norm, epsilon=1, sensitivity=scale, dimension=8)
    x = np.array([0.1, -0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324, 2.0**52 + 1])
    noisy = mechanism.release(x, bits=SeededBits(4))
    assert np.isfinite(noisy).all()
    steps = np.ldexp(noisy, -mechanism.grid_log2)
    small = np.abs(steps) < 2.0**53
    assert (steps[small] == np.rint(steps[small])).all()
    zeros = mechanism.release(np.array([-0.0] * 8), bits=SeededBits(4))
    blanks = mechanism.release(np.array([math.nan] * 8), bits=SeededBits(4))
    np.testing.assert_array_equal(zeros, blanks)


@pytest.mark.parametrize("norm", [1, 2, INF])
def test_shapes(norm: float) -> None:
    mechanism = KNorm(norm=norm, epsilon=1, sensitivity=1, dimension=3)
    assert mechanism.release([1, 2, 3]).shape == (3,)
    assert mechanism.release(np.zeros((4, 0, 3))).shape == (4, 0, 3)
    large = mechanism.release([[2**60, 1, 2]] * 2, bits=SeededBits(2))  # integers beyond 2^53
    assert large.shape == (2, 3)
    assert np.abs(large[:, 0] - 2.0**60).max() < 2**12
    wrong: list[Any] = [1.0, [1.0, 2.0], np.array([["a", "b", "c"]]), np.zeros((1, 4))]
    for x in wrong:
        with pytest.raises(InvalidParameter, match="x"):
            mechanism.release(x, bits=ScriptedBits([]))
    # More rows than fit in a chunk keep their own noise each.
    many = mechanism.release(np.zeros((12_000, 3)), bits=SeededBits(3))
    assert np.unique(many, axis=0).shape[0] > 11_990


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"norm": 3}, "norm"),
        ({"norm": "inf"}, "norm"),
        ({"norm": True}, "norm"),
        ({"epsilon": 0}, "epsilon"),
        ({"sensitivity": float("nan")}, "sensitivity"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": 2.0}, "dimension"),
        ({"dimension": 10**6}, "dimension"),
        ({"grid_log2": -60}, "grid_log2"),
    ],
)
def test_wrong_numbers_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        KNorm(**({"norm": 2, "epsilon": 1, "sensitivity": 1, "dimension": 2} | fields))
