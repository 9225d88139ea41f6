"""The smallest losses summed apart, and powers with the largest mass set aside."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.test_capped_sums import by_hits, relative_width, steps

from unacorda.accounting import accountant
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.pld import capped
from unacorda.accounting.pld.capped_bases import base_apart
from unacorda.accounting.pld.capped_laws import piece_above, piece_below
from unacorda.accounting.pld.capped_masses import Grid
from unacorda.accounting.pld.capped_plans import Planner
from unacorda.accounting.pld.convolution import Side, Sum, Tilted, Window, cumulant_of, total
from unacorda.accounting.pld.powers import raised
from unacorda.accounting.pld.sampled_cells import SampledGaussian
from unacorda.privacy.events import Gaussian

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


@pytest.mark.long
@pytest.mark.parametrize(("rate", "noise", "h"), [(0.1, 2.0, 0.2), (0.2, 1.5, 0.4)])
def test_smallest_losses_apart_lie_above(rate: float, noise: float, h: float) -> None:
    step, count, tilt, high = SampledGaussian(rate, 1 / noise), 3, 2.0, 4.5
    grid = Grid(step=h, tilt=tilt, remove=True, most=1 << 16)
    assert base_apart(step, count, grid, high=high, nodes=1 << 12, side=-1) is None
    apart = base_apart(step, count, grid, high=high, nodes=1 << 12, side=1)
    assert apart is not None
    window = Window(first=-64, size=1 << 10, tilt=tilt, higher=5.0, lower=0.5)
    found = total(apart.laws, step=Fraction(h), window=window, side=1)
    for epsilon in (-0.3, 0.0, 0.05, 0.2, 0.7, 1.5):
        below = gathered(step, high, count, epsilon)
        above = found.delta_above(epsilon - float(apart.offset) - count * step.base)
        assert below <= above * (1 + 1e-9)
        assert above < 1.7 * below + 0.01  # three steps on a coarse grid


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "h", "tilt"),
    [
        (1e-5, 1.0, 2_000_000, 2e-4, 3.0),
        (1e-6, 1.5, 5_000_001, 1e-5, 200.0),
    ],
)
def test_two_stages_meet_one(rate: float, noise: float, count: int, h: float, tilt: float) -> None:
    """All outputs below a place: in two stages, with rare ones beside, and on one fine grid."""
    step, high = SampledGaussian(rate, 1 / noise), 5.5
    grid = Grid(step=h, tilt=tilt, remove=True, most=1 << 20)
    bottom, top, higher, lower = Planner.of_pieces(step, [((-math.inf, high), count)]).reach(tilt)
    nodes = 1 << 19
    fine = Grid(step=(top - bottom) / (nodes - 256), tilt=tilt, remove=True, most=1 << 22)
    one_below = piece_below(step, fine, low=-math.inf, high=high)
    one_above = piece_above(step, fine, low=-math.inf, high=high)
    assert one_below is not None
    assert one_above is not None

    def summed(laws: list[tuple[Tilted, int]], lack: float, width: float, side: Side) -> Sum:
        first = math.floor((bottom - count * step.base - lack) / width) - 128
        size = 1 << math.ceil(math.log2((top - bottom) / width + 256))
        window = Window(first=first, size=size, tilt=tilt, higher=higher, lower=lower)
        return total(laws, step=Fraction(width), window=window, side=side)

    lacks = {1: 0.0, -1: count * one_below[1]}
    known = {
        1: summed([(one_above, count)], 0.0, fine.step, 1),
        -1: summed([(one_below[0], count)], lacks[-1], fine.step, -1),
    }
    for epsilon in (0.0, math.sqrt(count) * rate, 3 * math.sqrt(count) * rate):
        ends = {}
        for side in (1, -1):
            sign: Side = 1 if side > 0 else -1
            apart = base_apart(step, count, grid, high=high, nodes=1 << 18, side=sign)
            assert apart is not None
            found = summed(apart.laws, float(apart.offset), h, sign)
            start = epsilon - count * step.base
            for name, one, lack in (
                ("apart", found, float(apart.offset)),
                ("fine", known[side], lacks[side]),
            ):
                at = one.delta_above if side > 0 else one.delta_below
                ends[name, side] = at(start - lack)
            ends["apart", side] *= math.exp(apart.exponent)
        assert ends["fine", -1] <= ends["apart", 1]
        assert ends["apart", -1] <= ends["fine", 1]
        assert ends["apart", 1] - ends["apart", -1] <= 0.05 * ends["fine", 1]


@pytest.mark.long
@pytest.mark.parametrize("count", [5_000, 10**6, 10**10])
def test_powers_about_their_middle(count: int) -> None:
    """Low frequencies of a smooth law: the exact power, far more narrowly than by squaring."""
    size = 1 << 11
    places = np.arange(size)
    law = np.exp(-0.5 * ((places - 300.3) / 7) ** 2) + 1e-9 * np.exp(-places / 300)
    law /= law.sum()
    found = raised(law, count, rounding=8 * 2.0**-53 * 12, height=0.0)
    plain = 8 * 2.0**-53 * 12 * count
    for k in (0, 1, 3, 40, size // 2):
        z = mp.expjpi(-mp.mpf(2 * k) / size)
        value = mp.fsum(mp.mpf(float(law[j])) * z**j for j in range(size)) / z**found.place
        truth = value**count * mp.exp(-count * mp.mpf(found.height))
        assert abs(mp.mpc(complex(found.power[k])) - truth) <= found.errors[k]
        assert found.errors[k] < 0.2 * plain


@pytest.mark.long
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


@pytest.mark.slow
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
    assert relative_width(found) < 5e-4  # its work ends at a count of nodes
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count
    told = accountant.epsilon_interval(event, delta=delta, tolerance=1e-10)
    assert relative_width(told) < 1e-4
    assert found.lower <= told.upper
    assert told.lower <= found.upper
    known = contour.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert known.lower <= found.upper
    assert found.lower <= known.upper


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    [(1.1e-8, 1.81, 77_000_000, 1.5e-135), (2.9e-8, 1.45, 240_000_000, 2.2e-144)],
)
def test_rare_large_losses_of_very_many_steps(
    rate: float, noise: float, count: int, delta: float
) -> None:
    """Where contours tell little: narrow, and within what they tell of a removed unit."""
    found = capped.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert relative_width(found) < 1e-4
    known = contour.epsilon_interval(steps(rate, noise, count), delta=delta, directions="remove")
    assert known.lower <= found.lower
    assert found.upper <= known.upper


@pytest.mark.slow
def test_where_the_sum_serves_no_upper_end_the_lower_one_is_kept() -> None:
    rate, noise, count = 0.008932, 0.1041, 3_686_797
    found = capped.epsilon_interval(steps(rate, noise, count), delta=3.651e-241)
    one = 0.5 / noise**2 + math.log(rate)  # of a hit
    assert found.lower > 0.9 * count * rate * one
