"""The smallest losses summed apart: exactly for finite laws, and on a plain grid for sampled steps.

docs/proofs/capped.md, Theorems 3 and 4.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from tests.tiers import mostly_slow

from unacorda.accounting.pld import capped_bases
from unacorda.accounting.pld.capped_bases import base_apart
from unacorda.accounting.pld.capped_masses import Grid
from unacorda.accounting.pld.capped_plans import Planner
from unacorda.accounting.pld.convolution import Side, Window, total
from unacorda.accounting.pld.sampled_cells import SampledGaussian

Law = dict[Fraction, Fraction]
"""Masses of e^loss."""
NOTHING: Law = {Fraction(1): Fraction(1)}


def convolved(one: Law, other: Law) -> Law:
    found: Law = {}
    for x, p in one.items():
        for y, q in other.items():
            found[x * y] = found.get(x * y, Fraction(0)) + p * q
    return found


def power(law: Law, count: int) -> Law:
    found = NOTHING
    for _ in range(count):
        found = convolved(found, law)
    return found


def scaled(law: Law, *, masses: Fraction, ratios: Fraction) -> Law:
    return {x * ratios: p * masses for x, p in law.items()}


def added(laws: list[Law]) -> Law:
    found: Law = {}
    for law in laws:
        for x, p in law.items():
            found[x] = found.get(x, Fraction(0)) + p
    return found


def profile(law: Law, at: Fraction) -> Fraction:
    """delta at epsilon = ln `at`."""
    return sum((p * (1 - at / x) for x, p in law.items() if x > at), Fraction(0))


def apart(base: Law, rest: Law, count: int, most: int) -> Law:
    """The law of Theorem 4, and with most = count and no factor that of Theorem 3."""
    mass, ratio = mean_of(base)
    moved = scaled(rest, masses=1 / mass, ratios=1 / ratio)
    several = [
        scaled(power(moved, k), masses=Fraction(math.comb(count, k)), ratios=Fraction(1))
        for k in range(most + 1)
    ]
    return convolved(power(base, count - most), added(several))


def mean_of(base: Law) -> tuple[Fraction, Fraction]:
    """Of the base: its mass, and the quotient of that and the mass under the other law."""
    mass = sum(base.values())
    return Fraction(mass), Fraction(mass) / sum((p / x for x, p in base.items()), Fraction(0))


def pairs(seed: int, *, add: bool) -> tuple[Law, Law]:
    """A random step: its smallest losses, others; some outcomes are left out, as above a cap."""
    draw = random.Random(seed)
    weights = [[draw.randint(1, 30) for _ in range(6)] for _ in range(2)]
    laws = [[Fraction(w, sum(row)) for w in row] for row in weights]
    own, other = reversed(laws) if add else laws
    places = sorted(zip(own, other, strict=True), key=lambda pair: pair[0] / pair[1])
    cut = draw.randint(1, 4)
    parts = places[:cut], places[cut:5]
    base, rest = ([{p / q: p} for p, q in part] for part in parts)
    return added(base), added(rest)


@pytest.mark.long
@pytest.mark.parametrize("add", mostly_slow([False, True]))
@pytest.mark.parametrize("count", [2, 3])
def test_finite_laws_lie_between_both_theorems(count: int, *, add: bool) -> None:
    """Exact fractions; and without what the theorems ask for, the bounds would not hold."""
    unlowered = unweighted = strictly = 0
    for seed in range(8):
        base, rest = pairs(seed, add=add)
        mass, ratio = mean_of(base)
        truth = power(added([base, rest]), count)
        moved = scaled(rest, masses=1 / mass, ratios=1 / ratio)
        above = convolved(power(base, count), power(added([NOTHING, moved]), count))
        kept = scaled(rest, masses=1 / mass, ratios=Fraction(1))
        wrong = convolved(power(base, count), power(added([NOTHING, kept]), count))
        below = [apart(base, rest, count, most) for most in range(count + 1)]
        ends = sorted(truth)
        places = [Fraction(1, 9), *((x + y) / 2 for x, y in pairwise(ends[:: 1 + len(ends) // 12]))]
        for at in places:
            known = profile(truth, at)
            assert known <= profile(above, at)
            unlowered += known > profile(wrong, at)
            strictly += known < profile(above, at)
            for most, law in enumerate(below):
                lower = profile(scaled(law, masses=mass**most, ratios=ratio**most), at)
                assert lower <= known
                strictly += lower < known
                unweighted += (
                    profile(scaled(law, masses=Fraction(1), ratios=ratio**most), at) > known
                )
    assert min(unlowered, unweighted, strictly) > 20


def plain(
    step: SampledGaussian, count: int, high: float, epsilon: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """delta of so many outputs below `high`, from below and above: losses rounded, one FFT."""
    h, edges = 4e-5, np.linspace(-9.0, high, 40_001)
    level = step.mean * edges - step.mean**2 / 2
    losses = np.log1p(step.rate * np.expm1(level))
    shares = (1 - step.rate) * ndtr(edges) + step.rate * ndtr(edges - step.mean)
    masses = np.append(shares[0], np.diff(shares))
    found = []
    for start, places in ((math.log1p(-step.rate), losses[:-1]), (losses[0], losses[1:])):
        up = start > math.log1p(-step.rate)
        at = np.append(start, places) / h
        nodes = (np.ceil(at) if up else np.floor(at)).astype(np.int64)
        first = int(nodes[0])
        size = 1 << math.ceil(math.log2(count * (int(nodes[-1]) - first) + 1))
        law = np.bincount(nodes - first, weights=masses, minlength=size)
        sums = np.maximum(np.fft.irfft(np.fft.rfft(law) ** count, size), 0.0)
        place = (np.arange(size) + count * first) * h
        found.append(np.array([sums @ np.maximum(-np.expm1(e - place), 0.0) for e in epsilon]))
    return found[0], found[1]


@pytest.mark.long
def test_sampled_steps_apart_against_plain_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of steps of which few lose more than the smallest: both sides hold plain sums."""
    monkeypatch.setattr(capped_bases, "MANY", 1)
    monkeypatch.setattr(capped_bases, "_RARE", 2.0)
    monkeypatch.setattr(capped_bases, "_FEWER", math.inf)
    step, count, high, h, tilt = SampledGaussian(0.1, 0.25), 200, 6.0, 0.002, 4.0
    epsilon = np.array([0.05, 0.3, 0.6, 1.0, 1.5])
    low, top = plain(step, count, high, epsilon)
    assert np.all(top < 1.15 * low)
    grid = Grid(step=h, tilt=tilt, remove=True, most=1 << 16)
    bottom = Planner.of_pieces(step, [((-math.inf, high), count)]).reach(tilt)[0]
    sides: tuple[Side, ...] = (1, -1)
    for side in sides:
        found = base_apart(step, count, grid, high=high, nodes=1 << 12, side=side)
        assert found is not None
        assert (found.exponent < -1.0) == (side < 0)
        first = math.floor((bottom - count * step.base - float(found.offset)) / h) - 1000
        window = Window(first=first, size=1 << 13, tilt=tilt, higher=6.0, lower=2.0)
        whole = total(found.laws, step=Fraction(h), window=window, side=side)
        whole = replace(whole, exponent=whole.exponent + found.exponent)
        places = epsilon - count * step.base - float(found.offset)
        if side > 0:
            above = np.array([whole.delta_above(float(at)) for at in places])
            assert np.all(low <= above)
            assert above[0] < 4 * top[0]
        else:
            below = np.array([whole.delta_below(float(at)) for at in places])
            assert np.all(below <= top)
            assert below[0] > 0.8 * low[0]
