"""The smallest losses summed apart, and powers with the largest mass set aside."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.test_capped_sums import by_hits, relative_width, steps

from tacet.accounting.contour import engine as contour
from tacet.accounting.pld import capped
from tacet.accounting.pld.capped_bases import base_apart
from tacet.accounting.pld.capped_masses import Grid
from tacet.accounting.pld.convolution import Side, Sum, Tilted, Window, cumulant_of, total
from tacet.accounting.pld.sampled_cells import SampledGaussian

mp.mp.dps = 30


def coins(chance: float, count: int, side: Side) -> Sum:
    """The number of heads, each a loss of 1, under the tilt 1."""
    own = np.array([1 - chance, chance * math.e])
    law = Tilted(
        first=0,
        values=own,
        height=0.0,
        cumulant=cumulant_of(0, own, height=0.0, step=Fraction(1), tilt=1.0),
        infinity=0.0,
    )
    window = Window(first=-128, size=256, tilt=1.0, higher=3.0, lower=0.5)
    return total([(law, count)], step=Fraction(1), window=window, side=side)


@pytest.mark.parametrize("count", [10**3, 10**7, 10**9, 10**12])
def test_heads_of_many_coins_against_their_law(count: int) -> None:
    chance = 3.0 / count
    stay, head = mp.mpf(1 - chance), mp.mpf(chance * math.e) / mp.e  # what the floats mean
    for epsilon in (2.5, 6.0, 20.25):
        truth = mp.fsum(
            mp.binomial(count, k) * stay ** (count - k) * head**k * -mp.expm1(epsilon - k)
            for k in range(math.ceil(epsilon), 120)
        )
        above = coins(chance, count, 1).delta_above(epsilon)
        below = coins(chance, count, -1).delta_below(epsilon)
        assert below <= truth <= above
        assert above - below <= 1e-8 * truth


def gathered(step: SampledGaussian, high: float, count: int, epsilon: float) -> float:
    """A lower bound of a profile: outputs below `high` in cells, their sums one by one."""
    cells = step.grouped(np.linspace(-9.0, high, 120))
    lump = step.below(-9.0)
    null = np.append(lump.log_null, cells.log_null)
    losses = step.base + np.append(lump.offset, cells.offset)
    masses, sums = np.ones(1), np.zeros(1)
    for _ in range(count):
        masses = np.multiply.outer(masses, np.exp(null + losses)).ravel()
        sums = np.add.outer(sums, losses).ravel()
    return float(masses @ np.maximum(-np.expm1(epsilon - sums), 0.0))


@pytest.mark.parametrize(("rate", "noise", "h"), [(0.1, 2.0, 0.2), (0.2, 1.5, 0.4)])
def test_smallest_losses_apart_lie_above(rate: float, noise: float, h: float) -> None:
    step, count, high = SampledGaussian(rate, 1 / noise), 3, 4.5
    low = float(step.places(np.array([h]))[0])
    grid = Grid(step=h, tilt=2.0, remove=True, most=1 << 16)
    assert base_apart(step, 1, grid, low=low, high=high, nodes=1 << 12) is None
    laws = base_apart(step, count, grid, low=low, high=high, nodes=1 << 12)
    assert laws is not None
    window = Window(first=-64, size=1 << 10, tilt=2.0, higher=5.0, lower=0.5)
    found = total(laws, step=Fraction(h), window=window, side=1)
    for epsilon in (-0.3, 0.0, 0.05, 0.2, 0.7, 1.5):
        below = gathered(step, high, count, epsilon)
        above = found.delta_above(epsilon - count * step.base)
        assert below <= above * (1 + 1e-9)
        assert above < 1.7 * below + 0.01  # three steps on a coarse grid


@pytest.mark.parametrize(
    ("rate", "noise", "count", "epsilon"),
    [(1e-9, 0.05, 10**9, 230.0), (3e-9, 0.05, 10**8, 230.0), (1e-6, 0.04, 10**6, 400.0)],
)
def test_many_steps_against_their_numbers_of_hits(
    rate: float, noise: float, count: int, epsilon: float
) -> None:
    truth = by_hits(rate, noise, count, epsilon)
    found = capped.delta_interval(steps(rate, noise, count), epsilon=epsilon)
    assert found.lower <= truth <= found.upper
    assert relative_width(found) < 1e-5
    back = capped.epsilon_interval(steps(rate, noise, count), delta=float(truth))
    assert back.lower <= epsilon * (1 + 1e-12)
    assert back.upper >= epsilon * (1 - 1e-12)
    assert relative_width(back) < 1e-4


@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    [
        (1.9e-5, 0.93, 62_248, 8e-228),
        pytest.param(1.03e-9, 0.75, 332_127, 5.5e-8, marks=pytest.mark.slow),
        pytest.param(2.1e-8, 0.31, 54_000_000, 8.8e-4, marks=pytest.mark.slow),
    ],
)
def test_small_losses_of_many_steps_beside_large_ones(
    rate: float, noise: float, count: int, delta: float
) -> None:
    found = capped.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert relative_width(found) < 5e-5
    known = contour.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert known.lower <= found.upper
    assert found.lower <= known.upper
