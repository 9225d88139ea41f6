"""Coins of Poisson samples: their exact law by enumeration, samples of it, few random bits."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from unacorda.bits import RandomBits, ScriptedBits, SeededBits
from unacorda.learning import sampling
from unacorda.learning.sampling import Batches, CyclicSampling, PoissonSampling, _below

LOW = 1 << 56
THRESHOLDS = [1, 255, LOW - 1, LOW, LOW + 1, 5 * LOW, 7 * LOW + 12345, 255 * LOW, (1 << 64) - 1]


class CountedBits:
    """Bits that count the words that are drawn."""

    secure = False

    def __init__(self, bits: RandomBits) -> None:
        self.bits, self.count = bits, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.count += count
        return self.bits.words(count)

    def below(self, bound: int) -> int:
        return self.bits.below(bound)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_a_unit_is_in_with_exactly_the_chance_of_the_event(threshold: int) -> None:
    """All first bytes, and of the one that does not decide the last other bits that are in."""
    top, rest = divmod(threshold, LOW)
    bytes_ = np.arange(256, dtype=np.uint8).view(np.uint64).tolist()
    for other, inside in ((0, rest > 0), (rest - 1, True), (rest, False), (LOW - 1, False)):
        if other < 0:
            continue
        for last in (0, 255):  # the byte that is not read
            bits = ScriptedBits([*bytes_, other << 8 | last])
            found = _below(threshold, 256, bits).tolist()
            assert bits.left == 0
            assert found == [*range(top), *([top] if inside else [])]
    # so `top` first bytes of 256 are in, and of one more as many as `rest` of 2^56
    assert Fraction(top, 256) + Fraction(1, 256) * Fraction(rest, LOW) == Fraction(threshold, 2**64)


def test_everybody_is_in_at_a_rate_of_one_without_a_coin() -> None:
    assert _below(1 << 64, 5, ScriptedBits([])).tolist() == [0, 1, 2, 3, 4]
    assert _below(1 << 63, 0, ScriptedBits([])).tolist() == []


@pytest.mark.parametrize("rate", [0.3, 0.01, 1e-3, 1e-5])
def test_samples_have_the_rate_in_every_place_and_are_independent(rate: float) -> None:
    count, bits = 2_000_000, SeededBits(5)
    inside = np.zeros(count, dtype=bool)
    inside[_below(int(rate * 2**64), count, bits)] = True
    # 14 exact tests: one falls below 1e-8 with a chance of 1.4e-7.
    for place in range(12):  # of a word and of the one after it, in no common piece of bits
        own = inside[place::12]
        assert binomtest(int(own.sum()), own.size, rate).pvalue > 1e-8
    both = int((inside[::2] & inside[1::2]).sum())
    assert binomtest(both, count // 2, rate**2).pvalue > 1e-8
    assert binomtest(int(inside.sum()), count, rate).pvalue > 1e-8


def test_a_rate_of_whole_bytes_is_found() -> None:
    """A planted fault: the first byte alone."""
    rate, count = 0.01, 2_000_000
    first = SeededBits(5).words(count // 8).view(np.uint8)
    for top in (2, 3):  # 0.01 is 2.56 of 256
        assert binomtest(int((first < top).sum()), count, rate).pvalue < 1e-12


@pytest.mark.parametrize("piece", [8, 1000, 1 << 20])
def test_pieces_cover_every_unit(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_PIECE", piece)
    found = _below((1 << 64) - 1, 3001, SeededBits(2))  # all but a chance of 2e-16
    assert found.tolist() == list(range(3001))


def test_a_step_draws_a_byte_for_each_unit_that_may_take_part() -> None:
    of = Batches(units=80_000, batch_size=400, steps=9)
    schemes: list[Any] = [PoissonSampling(), CyclicSampling(bands=8)]
    for scheme, share in zip(schemes, (1, 8), strict=True):
        drawn: dict[int, CountedBits] = {}

        def bits(step: int, drawn: dict[int, CountedBits] = drawn) -> CountedBits:
            return drawn.setdefault(step, CountedBits(SeededBits(step + 2)))

        members = scheme.draws(80_000, of, bits)(3)
        assert 300 < len(members) < 500
        assert np.all(np.diff(members) > 0)
        # a byte each, and a word where the first byte does not decide: one in 256
        most = 80_000 / share * (1 / 8 + 1 / 256) * 1.1
        assert drawn[3].count < most
