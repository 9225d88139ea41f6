"""Bit for bit: each sampler against 200-bit arithmetic on the same words."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from tests.mechanisms.laws import as_mpf, signed, standard_laplace
from tests.tiers import mostly_slow

from unacorda.bits import RandomBits, ScriptedBits, SeededBits
from unacorda.mechanisms.noise import continuous, discrete
from unacorda.mechanisms.noise.continuous import gaussian_chunk, laplace_chunk
from unacorda.mechanisms.noise.discrete import (
    acceptance_bounds,
    cumulative_bounds,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    table,
)
from unacorda.mechanisms.noise.refinement import (
    LazyUniform,
    exp_bounds,
    gaussian_floors_exact,
    laplace_floor_exact,
    log_ratio_bounds,
    magnitude_exact,
    minus_log_bounds,
)

SCALES = [Fraction(1, 3), Fraction(2, 3), Fraction(7, 3), Fraction(10), Fraction(10**6)]
RATIOS = [Fraction(1, 7), Fraction(5, 3), Fraction(1 << 20), Fraction(10**6, 7)]
VAST = Fraction(1 << 36)  # here one draw in eight is doubtful
SIZE = 1500


@pytest.fixture(autouse=True)
def _two_hundred_bits() -> Iterator[None]:
    with mp.workprec(200):
        yield


class Counting:
    """A source that remembers what it gave."""

    def __init__(self, seed: int) -> None:
        self._inner, self.given = SeededBits(seed), np.empty(0, dtype=np.uint64)

    @property
    def secure(self) -> bool:
        return False

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn = self._inner.words(count)
        self.given = np.concatenate([self.given, drawn])
        return drawn

    def below(self, bound: int) -> int:
        return self._inner.below(bound)


def fractions(bits: RandomBits, size: int) -> NDArray[np.float64]:
    """Offsets in [0, 1)."""
    return np.ldexp(bits.words(size).astype(np.float64), -64)


def agreed(low: mpf, high: mpf) -> int:
    """The floor of a bracketed number; the seeds are such that both ends agree."""
    assert mp.floor(low) == mp.floor(high)
    return int(mp.floor(low))


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_replays(scale: Fraction) -> None:
    source = Counting(31)
    draws = discrete_laplace(scale=scale, size=SIZE, bits=source)
    assert source.given.size == SIZE
    t = as_mpf(scale)
    shift = mp.log(2 / (1 + mp.exp(-1 / t)))
    for word, draw in zip(signed(source.given), draws.tolist(), strict=True):
        ends = sorted(abs(end) for end in standard_laplace(word))
        magnitude = agreed(t * (shift + ends[0]), t * (shift + ends[1]))
        assert draw == (magnitude if word >= 0 else -magnitude)


@pytest.mark.parametrize("scale", SCALES)
def test_geometric_replays(scale: Fraction) -> None:
    source = Counting(32)
    draws = geometric(scale=scale, size=SIZE, bits=source)
    t = as_mpf(scale)
    for word, draw in zip(signed(source.given), draws.tolist(), strict=True):
        ends = sorted(abs(end) for end in standard_laplace(word))
        assert draw == agreed(t * ends[0], t * ends[1])


@pytest.mark.parametrize("ratio", RATIOS)
def test_rounded_laplace_replays(ratio: Fraction) -> None:
    source, offsets = Counting(33), fractions(SeededBits(1), SIZE)
    floors = laplace_chunk(offsets, lambda i: Fraction(offsets[i]), ratio=ratio, bits=source)
    assert source.given.size == SIZE
    s = as_mpf(ratio)
    for word, offset, floor in zip(
        signed(source.given), offsets.tolist(), floors.tolist(), strict=True
    ):
        low, high = standard_laplace(word)
        assert floor == agreed(offset + s * low, offset + s * high)


@pytest.mark.long
@pytest.mark.parametrize("ratio", mostly_slow(RATIOS, quick=2))
@pytest.mark.parametrize("size", mostly_slow([SIZE, SIZE - 1]))
def test_rounded_gaussian_replays(ratio: Fraction, size: int) -> None:
    source, offsets = Counting(34), fractions(SeededBits(2), size)
    floors = gaussian_chunk(offsets, lambda i: Fraction(offsets[i]), ratio=ratio, bits=source)
    pairs = -(-size // 2)
    assert source.given.size == 2 * pairs
    s = as_mpf(ratio)
    angles = source.given[pairs:].tolist()
    for index in range(size):
        word, angle = signed(source.given)[index % pairs], angles[index % pairs]
        ends = sorted(abs(end) for end in standard_laplace(word))
        turn = 2 * mp.pi * mpf(angle) / 2**64
        wave = mp.cos(turn) if index < pairs else mp.sin(turn)
        values = [
            offsets[index] + s * mp.sqrt(2 * end) * (wave + slack)
            for end in ends
            for slack in (-mpf(7) / 2**64, mpf(7) / 2**64)
        ]
        assert floors[index] == agreed(min(values), max(values))


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(7, 3), Fraction(40)])
def test_discrete_gaussian_table_replays(sigma: Fraction) -> None:
    source = Counting(35)
    draws = discrete_gaussian(sigma=sigma, size=SIZE, bits=source)
    weights = [mp.exp(-mpf(k * k) / (2 * as_mpf(sigma) ** 2)) for k in range(int(15 * sigma) + 3)]
    total = 2 * mp.fsum(weights) - 1
    sums = [2 * mp.fsum(weights[: k + 1]) - 1 for k in range(len(weights))]
    for word, draw in zip(signed(source.given), draws.tolist(), strict=True):
        prefix = word if word >= 0 else -word - 1
        magnitude = sum(total * prefix / 2**63 >= partial for partial in sums[: abs(draw) + 2])
        assert draw == (magnitude if word >= 0 else -magnitude)


@pytest.mark.parametrize("sigma", [Fraction(1, 50), Fraction(1, 3), Fraction(9, 2), Fraction(200)])
def test_thresholds_are_floors_of_the_distribution_function(sigma: Fraction) -> None:
    thresholds = table(sigma * sigma).thresholds.tolist()
    weights = [mp.exp(-mpf(k * k) / (2 * as_mpf(sigma) ** 2)) for k in range(int(17 * sigma) + 3)]
    total = 2 * mp.fsum(weights) - 1
    partial = -weights[0]
    for k, threshold in enumerate(thresholds):
        partial += 2 * weights[k]
        assert threshold == min(int(mp.floor(partial / total * 2**63)), 2**63 - 1)
    assert thresholds[-1] == 2**63 - 1
    assert thresholds == sorted(thresholds)


def test_the_guide_and_the_search_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    guided = discrete_gaussian(sigma=150, size=3000, bits=SeededBits(36))
    monkeypatch.setattr(discrete, "_FEW", 10**9)
    assert (guided == discrete_gaussian(sigma=150, size=3000, bits=SeededBits(36))).all()


@pytest.mark.long
@pytest.mark.parametrize("ratio", mostly_slow([*RATIOS, VAST], quick=2))
def test_refining_every_draw_changes_none(ratio: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(seed: int) -> list[list[float]]:
        offsets = fractions(SeededBits(3), 3000)

        def exact(index: int) -> Fraction:
            return Fraction(offsets[index])

        return [
            laplace_chunk(offsets, exact, ratio=ratio, bits=SeededBits(seed)).tolist(),
            gaussian_chunk(offsets, exact, ratio=ratio, bits=SeededBits(seed)).tolist(),
            discrete_laplace(scale=ratio, size=3000, bits=SeededBits(seed)).tolist(),
            geometric(scale=ratio, size=3000, bits=SeededBits(seed)).tolist(),
        ]

    fast = everything(37)
    monkeypatch.setattr(continuous, "_TAIL", math.inf)
    assert everything(37) == fast


# ---- draws that need more bits than the first word


def lengthened(prefix: int, extra: list[int]) -> mpf:
    value = prefix
    for word in extra:
        value = value << 64 | word
    return (value + mpf("0.5")) / mpf(2) ** (63 + 64 * len(extra))


@pytest.mark.parametrize("extra", [[0, 5 << 60], [0, 0, 1 << 63], [2**64 - 1, 7]])
@pytest.mark.parametrize("word", [0, -1])
def test_words_that_read_as_zero_are_refined(word: int, extra: list[int]) -> None:
    with mp.workprec(500):
        scale = Fraction(1000, 3)
        value = -mp.log(lengthened(0, extra))
        expected = int(mp.floor(mpf("0.5") + as_mpf(scale) * (value if word == 0 else -value)))
        bits = ScriptedBits(extra, then=SeededBits(1))
        drawn = laplace_floor_exact(word, ratio=scale, offset=Fraction(1, 2), bits=bits)
        assert drawn == expected


def test_a_number_on_the_edge_of_a_cell_reads_on_until_it_is_off_it() -> None:
    # -2^40 ln U is close to an integer for this prefix, so one word cannot decide.
    scale = Fraction(1 << 40)
    with mp.workprec(500):
        prefix = int(mp.floor(mp.exp(-mpf(12345) / 2**40) * 2**63))
        for extra in ([0], [2**64 - 1]):
            bits = ScriptedBits(extra, then=SeededBits(2))
            uniform = LazyUniform(prefix, length=63, bits=bits)
            expected = int(mp.floor(-(2**40) * mp.log(lengthened(prefix, extra))))
            assert magnitude_exact(uniform, scale=scale, two_sided=False) == expected
            assert bits.left == 0


@pytest.mark.parametrize("word", [0, 2**63 - 1, -1, 1])
def test_extreme_pairs_are_refined_together(word: int) -> None:
    with mp.workprec(500):
        extra = [17 << 58, 2**63 + 9]
        ratio = Fraction(1 << 30)
        angle_word = 2**61 + 12345
        bits = ScriptedBits(extra, then=SeededBits(3))
        offsets = Fraction(1, 2), Fraction(1, 4)
        floors = gaussian_floors_exact(word, angle_word, ratio=ratio, offsets=offsets, bits=bits)
        used = 2 - bits.left
        prefix = word if word >= 0 else -word - 1
        radius = mp.sqrt(-2 * mp.log(lengthened(prefix, extra[:1] if used else [])))
        angle = (angle_word << 64 | extra[1]) / mpf(2) ** 128 if used else angle_word / mpf(2) ** 64
        waves = mp.cos(2 * mp.pi * angle), mp.sin(2 * mp.pi * angle)
        expected = [
            int(mp.floor(as_mpf(offset) + 2**30 * radius * wave))
            for offset, wave in zip(offsets, waves, strict=True)
        ]
        assert list(floors) == expected


def test_equality_with_a_threshold_reads_on() -> None:
    variance = Fraction(4)
    threshold = int(table(variance).thresholds[3])
    low, _ = cumulative_bounds(variance, 127)[3]
    rest = low - (threshold << 64)
    for extra, expected in ((rest - 1, 3), (rest + 2, 4)):
        source: RandomBits = ScriptedBits([threshold, extra])
        assert discrete_gaussian(sigma=2, size=1, bits=source).tolist() == [expected]


# ---- brackets, each from a formula that is not the one in the code

PLACES = 191


@pytest.mark.parametrize(
    "value", [1, 2, 2**32 - 1, 2**32, 2**63 + 5, 2**127 - 2**64, 2**127 - 2, 2**127 - 1]
)
def test_minus_log_is_bracketed_by_both_ends_of_the_unread_bits(value: int) -> None:
    uniform = LazyUniform(value, length=127, bits=SeededBits(1))
    low, high = minus_log_bounds(uniform, PLACES)
    assert high is not None
    with mp.workprec(400):
        least, most = (127 * mp.ln2 - mp.log(end) for end in (value + 1, value))
        assert 0 <= low <= least * 2**PLACES < low + 2
        assert high - 3 < most * 2**PLACES + mpf(2) ** PLACES / (2 * mpf(value) ** 2)
        assert most * 2**PLACES <= high


@pytest.mark.parametrize("scale", [*SCALES, Fraction(1, 10**30)])
def test_exponentials_and_their_logarithms_are_bracketed(scale: Fraction) -> None:
    with mp.workprec(400):
        half = mp.exp(-1 / (2 * as_mpf(scale)))
        for truth, (low, high) in (
            (half**2, exp_bounds(-1 / scale, PLACES)),
            (-mp.log((1 / half + half) / 2 * half), log_ratio_bounds(scale, PLACES)),
        ):
            assert 0 <= low <= truth * 2**PLACES <= high <= low + 2


@pytest.mark.parametrize("sigma", [Fraction(201), Fraction(10**6, 7), Fraction(1 << 40)])
@pytest.mark.parametrize("reach", [0, 1, 13])
def test_the_acceptance_of_a_rounded_normal_is_bracketed(sigma: Fraction, reach: int) -> None:
    k = max(1, int(reach * sigma))
    low, high = acceptance_bounds(k, sigma=sigma, places=PLACES)
    with mp.workprec(300):
        width = 2 * as_mpf(sigma) ** 2

        def mass(at: int) -> mpf:  # section 5 of docs/proofs/noise.md
            return mp.quad(
                lambda v: mp.exp(-v * v / width) * mp.cosh(2 * at * v / width), [0, mpf(1) / 2]
            )

        assert low <= mass(0) / mass(k) * 2**PLACES <= high <= low + 2
        assert low < 1 << PLACES
