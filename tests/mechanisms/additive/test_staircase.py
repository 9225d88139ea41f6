"""Staircase noise: the gridded law against its price, the bits against many digits, the edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy import integrate, stats
from tests.mechanisms.divergences import exceeds, farthest
from tests.mechanisms.laws import as_mpf
from tests.mechanisms.test_replay import Counting, agreed
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Laplace
from unacorda.mechanisms.noise.continuous import staircase_chunk
from unacorda.mechanisms.noise.refinement import coin
from unacorda.mechanisms.shaped.numbers import Staircase
from unacorda.privacy import events

EPSILONS = (0.0, 0.3, 0.7, 0.99, 1.0, 1.5)
SETTINGS = [(1.0, 0.3775), (1.0, 0.5), (0.25, 0.1), (3.0, 0.9), (2.0, 1.0), (1.0, 0.0)]


def cumulative(epsilon: float, split: float) -> Callable[[mpf], mpf]:
    """P(Z <= z) for steps of length 1, from the density of the source, equation (14)."""
    b, g = mp.exp(-mpf(epsilon)), as_mpf(Fraction(str(split)))
    height = (1 - b) / (2 * (g + b * (1 - g)))

    def above(z: mpf) -> mpf:  # P(Z > z) for z >= 0
        k = mp.floor(z)
        y = z - k
        inside = height * b**k * (min(y, g) + b * max(y - g, mpf(0)))
        return b**k / 2 - inside

    return lambda z: 1 - above(z) if z >= 0 else above(-z)


def law(x: Fraction, *, epsilon: float, split: float, reach: int = 40) -> dict[int, mpf]:
    """The law of floor(4 (x + Z) + 1/2), the grid being quarters; all of each tail in one cell."""
    below = cumulative(epsilon, split)
    place = [below(mpf(2 * k + 1) / 8 - as_mpf(x)) for k in range(-reach, reach)]
    masses = {k - reach: right - left for k, (left, right) in enumerate(pairwise(place), 1)}
    return {-reach: place[0], reach: 1 - place[-1], **masses}


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "split"), mostly_slow(SETTINGS))
def test_the_gridded_law_keeps_the_price(epsilon: float, split: float) -> None:
    with mp.workprec(200):
        event = Staircase(epsilon=epsilon, sensitivity=1, split=split, grid_log2=-2).event
        places = [Fraction(0), Fraction(1, 8), Fraction(1, 10), Fraction(1, 3)]
        moves = [Fraction(1), Fraction(1, 2), Fraction(3, 10), Fraction(9, 10)]
        pairs = [
            (law(x, epsilon=epsilon, split=split), law(x + move, epsilon=epsilon, split=split))
            for x in places
            for move in moves
        ]
        assert exceeds(event, pairs, epsilons=EPSILONS) == []
        if split in (0.0, 0.5, 1.0):  # steps end on the grid, so nothing is lost by rounding
            full = (law(Fraction(1, 8), epsilon=epsilon, split=split),)
            pair = [(full[0], law(Fraction(9, 8), epsilon=epsilon, split=split))]
            for at in (0.0, epsilon / 2):
                assert farthest(pair, at) == pytest.approx(accounting.delta(event, epsilon=at))
        # A staircase with the price of a lower epsilon is caught.
        less = events.Staircase(epsilon=epsilon * 0.97, split=split)
        assert exceeds(less, pairs, epsilons=(epsilon * 0.97, 0.0))


def test_a_wrong_share_of_the_low_parts_is_caught() -> None:
    # The low part of a step drawn with the factor e^-epsilon counted twice.
    with mp.workprec(200):
        event, b = events.Staircase(epsilon=1, split=0.5), mp.exp(-mpf(1))
        high = 1 / (1 + b * b)

        def wrong(shift: int) -> dict[int, mpf]:
            masses: dict[int, mpf] = {}
            for k in range(-160, 160):  # cells of half a step
                cell = k if k >= 0 else -k - 1
                share = high if cell % 2 == 0 else 1 - high
                masses[k + shift] = b ** (cell // 2) * (1 - b) / 2 * share
            return masses

        assert float(sum(wrong(0).values())) == pytest.approx(1)
        assert exceeds(event, [(wrong(0), wrong(2))], epsilons=(1.0, 1.5)) == [1.0, 1.5]


@pytest.mark.parametrize(
    "ratio",
    mostly_slow([Fraction(1, 7), Fraction(5, 3), Fraction(1 << 20), Fraction(1 << 38)], quick=2),
)
@pytest.mark.parametrize(("epsilon", "split"), [("1", "0.3775"), ("0.01", "0.5"), ("7", "0.03")])
def test_floors_replay_from_the_same_words(ratio: Fraction, epsilon: str, split: str) -> None:
    with mp.workprec(250):
        size = 600
        e, g = Fraction(epsilon), Fraction(split)
        offsets = [Fraction(i, size) for i in range(size)]
        source = Counting(71)
        floors = staircase_chunk(
            np.array([float(o) for o in offsets]),
            lambda i: offsets[i],
            ratio=ratio,
            bits=source,
            epsilon=e,
            split=g,
        ).tolist()
        words = source.given[: 3 * size].tolist()
        b = mp.exp(-as_mpf(e))
        low_share = (1 - as_mpf(g)) * b / (as_mpf(g) + (1 - as_mpf(g)) * b)
        refined = source.given.size - 3 * size
        for i, offset in enumerate(offsets):
            first = words[i] - (1 << 64 if words[i] >> 63 else 0)
            magnitude = first if first >= 0 else -1 - first
            ends = [-mp.log(mpf(m) / 2**63) / as_mpf(e) for m in (magnitude + 1, magnitude)]
            steps = agreed(ends[0], ends[1])
            low = mpf(words[size + i]) / 2**64 < low_share
            start, length = (g, 1 - g) if low else (Fraction(0), g)
            places = [
                as_mpf(offset)
                + (1 if first >= 0 else -1)
                * as_mpf(ratio)
                * (steps + as_mpf(start) + as_mpf(length) * mpf(words[2 * size + i] + d) / 2**64)
                for d in (0, 1)
            ]
            assert floors[i] == agreed(*sorted(places))
        assert refined <= 4


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "wanted"), [(1.0, None), (4.0, None), (0.2, 0.8)])
def test_noise_has_its_law(epsilon: float, wanted: float | None) -> None:
    fields: dict[str, Any] = {} if wanted is None else {"split": wanted}
    mechanism = Staircase(epsilon=epsilon, sensitivity=2, **fields)
    noise = mechanism.release(np.zeros(60_000), bits=SeededBits(8)) / 2
    split = float(mechanism.split)

    def below(z: NDArray[np.float64]) -> NDArray[np.float64]:
        b, size = math.exp(-epsilon), np.abs(z)
        inside = np.minimum(size % 1, split) + b * np.maximum(size % 1 - split, 0)
        above = b ** np.floor(size) / 2 * (1 - (1 - b) * inside / (split + b * (1 - split)))
        return np.where(z < 0, above, 1 - above)  # type: ignore[no-any-return]

    exact = cumulative(epsilon, split)
    for z in (-3.3, -0.2, 0.1, 0.7, 5.0):
        assert float(below(np.array(z))) == pytest.approx(float(exact(mpf(z))), rel=1e-9)
    assert stats.kstest(noise, below).pvalue > 1e-7
    for factor in (1.1, 1 / 1.1):
        assert stats.kstest(noise * factor, below).pvalue < 1e-9


@pytest.mark.long
@pytest.mark.parametrize(
    ("epsilon", "split"), mostly_slow([*SETTINGS, (0.5, 0.43), (10.0, 0.0067)], quick=3)
)
def test_moments_and_half_widths(epsilon: float, split: float) -> None:
    mechanism = Staircase(epsilon=epsilon, sensitivity=3, split=split, grid_log2=-30)
    below = cumulative(epsilon, split)
    last = math.ceil(60 / epsilon)
    cuts = np.unique([k + s for k in range(last) for s in (0.0, split, 1.0)])

    def tail(z: float) -> float:
        return float(2 * (1 - below(mpf(z))))

    first = sum(integrate.quad(tail, a, c)[0] for a, c in pairwise(cuts))
    second = sum(integrate.quad(lambda z: 2 * z * tail(z), a, c)[0] for a, c in pairwise(cuts))
    assert mechanism.mean_absolute_error == pytest.approx(3 * first, rel=1e-6)
    assert mechanism.standard_deviation == pytest.approx(3 * math.sqrt(second), rel=1e-6)
    for confidence in (0.01, 0.3, 0.5, 0.9, 0.999):
        width = mechanism.error_bound(confidence, on_grid=True)
        step = 2.0**-30
        assert 1 - tail((width + step / 2) / 3) >= confidence - 1e-12
        assert 1 - tail(max(width - step, 0) / 3) <= confidence + 1e-9


def test_the_default_split_has_the_least_error() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        best = Staircase(epsilon=epsilon, sensitivity=1)
        assert best.mean_absolute_error == pytest.approx(1 / (2 * math.sinh(epsilon / 2)))
        for off in (0.9, 1.1):
            worse = Staircase(epsilon=epsilon, sensitivity=1, split=float(best.split) * off)
            assert worse.mean_absolute_error > best.mean_absolute_error
        laplace = Laplace(scale=1 / Fraction(str(epsilon)), l1_sensitivity=1)
        assert best.mean_absolute_error < float(laplace.scale)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.5, 30.0, 100.0])
def test_outputs_lie_on_the_grid_whatever_the_input(epsilon: float) -> None:
    mechanism = Staircase(epsilon=epsilon, sensitivity=0.7)
    x = np.array([0.1, -0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324, 2.0**52 + 1])
    noisy = mechanism.release(x, bits=SeededBits(4))
    assert np.isfinite(noisy).all()
    steps = np.ldexp(noisy, -mechanism.grid_log2)
    small = np.abs(steps) < 2.0**53
    assert (steps[small] == np.rint(steps[small])).all()
    again = mechanism.release(np.array([math.nan, 0.0, -0.0]), bits=ScriptedBits([1 << 61] * 9))
    assert again[0] == again[1] == again[2]


def test_shapes_types_and_l0() -> None:
    mechanism = Staircase(epsilon=1, sensitivity=1, l0_sensitivity=3)
    assert mechanism.event == events.Staircase(epsilon=1, split=mechanism.split) * 3
    assert type(mechanism.release(1)) is float
    assert mechanism.release(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert mechanism.release([[1, 2], [3, 4]]).dtype == np.float64
    assert abs(mechanism.release(10**40, bits=SeededBits(1)) - 1e40) < 1e25
    with pytest.raises(InvalidParameter, match="x"):
        mechanism.release(np.array(["a"]), bits=ScriptedBits([]))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 101}, "epsilon"),
        ({"epsilon": 1e-13}, "epsilon"),
        ({"sensitivity": -1}, "sensitivity"),
        ({"split": 1.5}, "split"),
        ({"split": float("nan")}, "split"),
        ({"l0_sensitivity": 0}, "l0_sensitivity"),
        ({"grid_log2": -60}, "grid_log2"),
        ({"grid_log2": 0.5}, "grid_log2"),
    ],
)
def test_wrong_numbers_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        Staircase(**({"epsilon": 1, "sensitivity": 1} | fields))


def test_a_coin_reads_on_where_its_first_bits_agree() -> None:
    third = coin(lambda places: ((1 << places) // 3, (1 << places) // 3 + 1))
    first = (1 << 64) // 3
    for words, heads in (
        ([first - 1], True),
        ([first + 1], False),
        ([first, first - 1], True),
        ([first, first + 1], False),
        ([first, first, first + 1], False),
    ):
        bits = ScriptedBits(words)
        assert bool(third.toss(1, bits)[0]) is heads
        assert bits.left == 0
    sure = coin(lambda places: (1 << places, 1 << places))
    never = coin(lambda places: (0, 0))
    for word in (0, 2**64 - 1):
        assert sure.toss(1, ScriptedBits([word]))[0]
        assert not never.toss(1, ScriptedBits([word]))[0]
