"""Standard noise known as closely as is asked: its law, its brackets, its exact rounding."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy import stats
from tests.support.cases import in_subtests

from unacorda.bits import RandomBits, SeededBits
from unacorda.mechanisms.data_dependent.standard_noise import (
    StandardLaplace,
    StandardNoise,
    StandardNormal,
    StandardStudent,
    rounded_sum,
)

Make = Callable[[RandomBits], StandardNoise]


LAWS: dict[str, tuple[Make, Callable[[float], float]]] = {
    "laplace": (lambda bits: StandardLaplace(bits=bits), lambda z: float(np.exp(-z))),
    "normal": (lambda bits: StandardNormal(bits=bits), lambda z: 2 * float(stats.norm.sf(z))),
    "student": (
        lambda bits: StandardStudent(degrees=Fraction(5, 2), bits=bits),
        lambda z: 2 * float(stats.t(2.5).sf(z)),
    ),
    "flat student": (
        lambda bits: StandardStudent(degrees=Fraction(1), bits=bits),
        lambda z: 2 * float(stats.cauchy.sf(z)),
    ),
}


def bracket(noise: StandardNoise) -> tuple[Fraction, Fraction]:
    found = noise.ends()
    assert found is not None
    low, high, places = found
    return Fraction(low, 1 << places), Fraction(high, 1 << places)


def middle(noise: StandardNoise) -> float:
    return float(sum(bracket(noise)) / 2)


def magnitudes_p(draws: NDArray[np.float64], tail: Callable[[float], float], scale: float) -> float:
    """The p-value of |draws| under scale times the law, in 12 cells."""
    edges = np.quantile(np.abs(draws), np.linspace(0, 1, 13)[1:-1]).round(2)
    chances = -np.diff([1.0, *(tail(edge / scale) for edge in edges), 0.0]) * draws.size
    seen = np.histogram(np.abs(draws), bins=[0, *edges, np.inf])[0]
    return float(stats.chi2.sf(((seen - chances) ** 2 / chances).sum(), edges.size))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.slow if one == "flat student" else ()) for one in LAWS],
)
def test_each_has_its_law_and_no_other(name: str) -> None:
    make, tail = LAWS[name]
    bits = SeededBits(71)
    draws = np.array([middle(make(bits)) for _ in range(10_000)])
    assert magnitudes_p(draws, tail, 1.0) > 1e-6
    # The law with one degree of freedom knows its own scale least.
    assert magnitudes_p(draws, tail, 1.2 if name == "flat student" else 1.1) < 1e-8
    assert stats.binomtest(int((draws > 0).sum()), draws.size).pvalue > 1e-7


@pytest.mark.parametrize("name", LAWS)
def test_brackets_are_nested_and_close_in(name: str) -> None:
    noise = LAWS[name][0](SeededBits(72))
    found = bracket(noise)
    for _ in range(3):
        noise.extend()
        inner = bracket(noise)
        assert found[0] <= inner[0] <= inner[1] <= found[1]
        assert (inner[1] - inner[0]) * 2**50 <= found[1] - found[0]
        found = inner


class FixedBits:
    """Words that are given, then zeros."""

    secure = False

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken = [self._words.pop(0) if self._words else 0 for _ in range(count)]
        return np.array(taken, dtype=np.uint64)

    def below(self, bound: int) -> int:
        return int(self.words(1)[0]) % bound


@in_subtests("seed", range(20))
def test_students_bracket_holds_what_mpmath_makes_of_the_same_bits(seed: int) -> None:
    generator = np.random.Generator(np.random.PCG64(seed))
    radius, angle = (int(w) for w in generator.integers(0, 2**63, 2, dtype=np.uint64))
    radius >>= int(generator.integers(0, 60))  # far tails too
    noise = StandardStudent(degrees=Fraction(3), bits=FixedBits(radius, 0, angle, 0))
    for _ in range(4):
        noise.extend()  # zeros
    with mp.workdps(150):
        uniform, turn = mpf(radius) / 2**63, mpf(angle) / 2**64
        truth = mp.sqrt(3 * (uniform ** (mpf(-2) / 3) - 1)) * mp.cospi(2 * turn)
        low, high = (mpf(end.numerator) / end.denominator for end in bracket(noise))
        assert low <= truth * (1 + mpf(10) ** -100 * mp.sign(truth)) + mpf(10) ** -100
        assert truth <= high + abs(truth) * mpf(10) ** -80 + mpf(10) ** -80
        assert high - low < mpf(10) ** -60


def test_an_unread_zero_has_no_bound_until_it_is_read() -> None:
    for noise in (
        StandardLaplace(bits=FixedBits()),
        StandardNormal(bits=FixedBits()),
        StandardStudent(degrees=Fraction(3), bits=FixedBits()),
    ):
        assert noise.ends() is None


@in_subtests("name", LAWS)
@in_subtests("grid_log2", [-40, 0, 30])
def test_a_rounded_sum_is_the_nearest_step(name: str, grid_log2: int) -> None:
    make = LAWS[name][0]
    for seed in range(20):
        value, scale = Fraction(2 * seed + 1, 3) * 10**seed, Fraction(10) ** (seed - 8)
        step = rounded_sum(value, make(SeededBits(seed)), scale=scale, grid_log2=grid_log2)
        noise = make(SeededBits(seed))
        noise.extend()
        found = bracket(noise)
        unit = Fraction(2) ** grid_log2
        assert (step - Fraction(1, 2)) * unit <= value + scale * found[1]
        assert value + scale * found[0] <= (step + Fraction(1, 2)) * unit


def test_no_noise_leaves_the_value_rounded() -> None:
    noise = StandardLaplace(bits=SeededBits(1))
    assert rounded_sum(Fraction(7, 4), noise, scale=Fraction(0), grid_log2=-1) == 4
