"""Who is in front: float64 and exact arithmetic give the order of the ideal values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import RandomBits, ScriptedBits, SeededBits
from unacorda.mechanisms.selection import contest
from unacorda.mechanisms.selection.contest import difference_in_steps, noisy_argmax
from unacorda.mechanisms.selection.scores import Noise, one_row

FACTOR = Fraction(3, 7)
NOISES: tuple[Noise, ...] = get_args(Noise)
SCORES: dict[str, Any] = {
    "integers": [3, 0, -5, 3, 7, 6, 6, 6],
    "floats": [0.5, -2.25, 1 / 3, 0.0, 4.0, 5e-324, 1e-300, -0.0],
    "fractions": [Fraction(k, 3) for k in (1, -7, 10, 0, 3, 11, 12, 2)],
    "equal": [2.5] * 8,
    "far": [1e300, 1e300, 1e17, 1e17, 0.0, 0.0, -1e300, -1e300],
    "signed ends": [2**63 - 1, -(2**63), 2**63 - 3, 2**63 - 2, 0, 1, -1, 2],
    "unsigned": np.array([2**64 - 1, 0, 2**64 - 2, 2**64 - 3, 7, 8, 9, 10], np.uint64),
    "beyond": [10**400, 10**400 - 1, 10**400 + 1, 0, 10**40, 1, 2, 3],
    "infinite": [np.inf, -np.inf, np.nan, 0.0, 1.0, -np.inf, -np.inf, np.inf],
}
WEIGHTS: dict[str, Any] = {
    "none": None,
    "integers": np.array([1, 2, 3, 4, 5, 2**62, 7, 1]),
    "floats": np.array([1, 2.5, 1e-300, 4, 1e300, 5e-324, 0.1, 1]),
    "fractions": np.array([Fraction(1, 3)] * 4 + [Fraction(10) ** 400, Fraction(2, 10**400), 1, 2]),
}


def indices(
    scores: Any, noise: Noise, count: int, bits: RandomBits, weights: Any = None
) -> list[int]:
    found = noisy_argmax(
        one_row(scores), factor=FACTOR, noise=noise, count=count, bits=bits, weights=weights
    )
    return [entrant.index for entrant in found]


def ideal(noise: Noise, word: int, more: int = 0) -> mpf:
    """The noise of a word of 64 bits and the word after it."""
    magnitude = word if word >= 0 else ~word
    level = -mp.log((mpf((magnitude << 64) + more) + mpf("0.5")) / mpf(2) ** 127)
    return level if noise == "exponential" else -mp.log(level)


def values(scores: Any, noise: Noise, words: Any, weights: Any = None) -> list[mpf]:
    found = []
    for k, score in enumerate(one_row(scores).tolist()):
        exact = FACTOR * Fraction(score)
        value = mpf(exact.numerator) / exact.denominator + ideal(noise, int(words[k]))
        if weights is not None:
            weight = Fraction(weights.tolist()[k])
            value += mp.log(mpf(weight.numerator) / weight.denominator)
        found.append(value)
    return found


CASES = [(noise, kind, "none") for noise in NOISES for kind in SCORES]
CASES += [("gumbel", kind, one) for kind in ("floats", "far", "beyond") for one in WEIGHTS][1:]


@pytest.mark.long
@in_subtests(("noise", "kind", "weighting"), CASES)
def test_the_order_is_that_of_the_ideal_values(noise: Noise, kind: str, weighting: str) -> None:
    weights = WEIGHTS[weighting]
    with mp.workprec(3000 if kind in {"beyond", "far", "infinite"} else 300):
        for seed in range(5):
            words = SeededBits(seed).words(8).view(np.int64)
            found = values(SCORES[kind], noise, words, weights)
            order = sorted(range(8), key=lambda k: -found[k])
            for count in (1, 3, 8):
                told = indices(SCORES[kind], noise, count, SeededBits(seed), weights)
                assert told == order[:count]


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES)
def test_refining_everything_changes_nothing(noise: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = SeededBits(5).words(60) * 2.0**-60
    runs = range(30)
    fast = [indices(scores, noise, 7, SeededBits(seed)) for seed in runs]
    monkeypatch.setattr(contest, "_SLACK", 1e9)
    assert [indices(scores, noise, 7, SeededBits(seed)) for seed in runs] == fast
    monkeypatch.undo()
    monkeypatch.setattr(contest, "_TAIL", 0.0)  # no float64 noise is trusted
    assert [indices(scores, noise, 7, SeededBits(seed)) for seed in runs] == fast


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [1, 3])
def test_chunks_are_one_field(noise: Noise, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.arange(500) % 17
    weights = np.arange(1, 501)
    whole = [indices(scores, noise, count, SeededBits(s), weights) for s in range(40)]
    monkeypatch.setattr(contest, "CHUNK", 16)
    assert [indices(scores, noise, count, SeededBits(s), weights) for s in range(40)] == whole


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_the_largest_scores_are_counted_from(count: int) -> None:
    generator = np.random.default_rng(count)
    for size in (100, 5000, 60_001):
        for scores in (
            generator.normal(size=size),
            generator.integers(0, 9, size),
            np.arange(size, dtype=np.uint64),
            np.zeros(size),
        ):
            assert contest._largest(scores, count)[()] == np.sort(scores)[-count]


@pytest.mark.long
@pytest.mark.parametrize("noise", mostly_slow(NOISES, quick=2))
def test_the_float_noise_is_as_exact_as_the_cut_assumes(noise: Noise) -> None:
    words = np.concatenate([SeededBits(8).words(1500), SeededBits(9).words(1500) >> np.uint64(20)])
    edges = [k << s for s in range(0, 63, 3) for k in (1, 3)] + [
        2**64 - 1 - (1 << s) for s in (0, 9)
    ]
    drawn = np.concatenate([words, np.array(edges, np.uint64)]).view(np.int64)
    found, wild = contest._standard(noise, drawn)
    sure = np.setdiff1d(np.arange(drawn.size), wild)
    assert sure.size > 2950
    with mp.workprec(200):
        for k in sure.tolist():
            for more in (0, 2**64 - 1):  # whatever the unread bits are
                error = abs(mpf(float(found[k])) - ideal(noise, int(drawn[k]), more))
                assert error < contest._SLACK / 4


@pytest.mark.parametrize("weighting", ["integers", "floats", "fractions"])
def test_logarithms_of_weights(weighting: str) -> None:
    weights = WEIGHTS[weighting]
    with mp.workprec(200):
        for weight, found in zip(weights.tolist(), contest._logarithms(weights), strict=True):
            exact = Fraction(weight)
            truth = mp.log(mpf(exact.numerator) / exact.denominator)
            assert abs(mpf(float(found)) - truth) < 2.0**-45 * (1 + abs(truth))


# ---- bits that float64 cannot tell apart


@pytest.mark.parametrize("noise", NOISES)
def test_equal_words_are_told_apart_by_later_bits(noise: Noise) -> None:
    word = 2**62 + 12345
    for low, high in ((1, 5), (5, 1)):
        # Both are read on once, the one with the smaller number wins by its larger noise, except
        # for Gumbel noise, which falls as -ln U rises.
        bits = ScriptedBits([word, word, low, high])
        smaller = 0 if low < high else 1
        assert indices([7, 7], noise, 1, bits) == [1 - smaller if noise == "gumbel" else smaller]
        assert bits.left == 0
    bits = ScriptedBits([word, word, 9, 9, 1, 5])
    assert len(indices([7, 7], noise, 2, bits)) == 2
    assert bits.left == 0


@pytest.mark.parametrize("noise", NOISES)
def test_numbers_beside_each_other_are_decided_rightly(noise: Noise) -> None:
    # Scores chosen so that the two values differ by 2^-80 of the noise's unit.
    words = [2**61 + 99, 2**60 + 7]
    with mp.workprec(400):
        gap = ideal(noise, words[0], 2**63) - ideal(noise, words[1], 2**63)
        for side in (-1, 1):
            wanted = gap + side * mpf(2) ** -80
            exact = Fraction(int(mp.floor(wanted * mpf(2) ** 200)), 1 << 200) / FACTOR
            bits = ScriptedBits([*words, 2**63, 2**63], then=SeededBits(1))
            assert indices([Fraction(0), exact], noise, 1, bits) == [1 if side > 0 else 0]


@in_subtests("noise", NOISES)
@in_subtests("word", [0, 2**64 - 1, 2**63, 2**63 - 1, 1])
def test_extreme_words(noise: Noise, word: int) -> None:
    bits = ScriptedBits([word] * 9, then=SeededBits(2))
    told = indices(np.arange(5), noise, 5, bits)
    assert sorted(told) == [0, 1, 2, 3, 4]


def test_far_noise_reaches_far_scores() -> None:
    # Thirty words of zeros are a noise of about 1330: enough for 3000 3 / 7 = 1286.
    # Both candidates read on in turn; the one in front has its first word anyhow.
    start = [2**62, 0]
    bits = ScriptedBits([*start, *[0] * 60], then=SeededBits(1))
    assert indices([3000, 0], "exponential", 1, bits) == [1]
    bits = ScriptedBits([*start, *[0] * 54, 2**63, 2**63], then=SeededBits(1))
    assert indices([3000, 0], "exponential", 1, bits) == [0]


# ---- differences


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("steps", [Fraction(1), Fraction(7, 3), Fraction(2**20)])
def test_differences_are_rounded_exactly(noise: Noise, steps: Fraction) -> None:
    scores = np.array([0.1, 2.5, -3.0, 1e6, 1e6 + 0.25])
    with mp.workprec(400):
        for seed in range(40):
            words = SeededBits(seed).words(5).view(np.int64)
            found = sorted(values(scores, noise, words), reverse=True)
            first = noisy_argmax(
                one_row(scores), factor=FACTOR, noise=noise, count=5, bits=SeededBits(seed)
            )
            for k in range(4):
                exact = (found[k] - found[k + 1]) * steps.numerator / steps.denominator
                told = difference_in_steps(first[k], first[k + 1], steps=steps)
                assert told == int(mp.floor(exact + mpf("0.5")))


def test_a_difference_beside_an_edge_reads_on() -> None:
    words = [2**61, 2**60]  # a gap of ln 2 in the noise, but for the unread bits
    with mp.workprec(400):
        gap = ideal("exponential", words[1], 2**63) - ideal("exponential", words[0], 2**63)
        exact = Fraction(int(mp.floor(gap * mpf(2) ** 300)), 1 << 300)
    for side in (-1, 1):
        score = (Fraction(7, 2) - exact + side * Fraction(1, 1 << 80)) / FACTOR
        bits = ScriptedBits([*words, 2**63, 2**63], then=SeededBits(1))
        row = one_row([Fraction(0), score])
        first = noisy_argmax(row, factor=FACTOR, noise="exponential", count=2, bits=bits)
        told = difference_in_steps(first[0], first[1], steps=Fraction(1))
        assert told == (4 if side > 0 else 3)


COPIES = np.array([1, 2, 7, 2**20, 2**53, 3, 10**15, 1])


def largest_of(copies: int, level: mpf) -> mpf:
    return -mp.log(-mp.expm1(-level / copies))


def test_one_that_stands_for_many_has_the_largest_of_their_noises() -> None:
    with mp.workprec(300):
        for kind in ("integers", "floats", "fractions", "equal"):
            row = one_row(SCORES[kind])
            for seed in range(10):
                words = SeededBits(seed).words(8).view(np.int64)
                found = [
                    mpf((FACTOR * Fraction(score)).numerator)
                    / (FACTOR * Fraction(score)).denominator
                    + largest_of(int(copies), ideal("exponential", int(word)))
                    for score, word, copies in zip(row.tolist(), words, COPIES, strict=True)
                ]
                told = noisy_argmax(
                    row,
                    factor=FACTOR,
                    noise="exponential",
                    count=8,
                    bits=SeededBits(seed),
                    copies=COPIES,
                )
                assert [e.index for e in told] == sorted(range(8), key=lambda k: -found[k])


@pytest.mark.long
def test_refining_those_that_stand_for_many_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = one_row(SeededBits(5).words(40) * 2.0**-60)
    copies = (SeededBits(6).words(40) >> np.uint64(20)).astype(np.int64) + 1

    def told(seed: int) -> list[int]:
        found = noisy_argmax(
            row,
            factor=FACTOR,
            noise="exponential",
            count=5,
            bits=SeededBits(seed),
            copies=copies,
        )
        return [entrant.index for entrant in found]

    fast = [told(seed) for seed in range(30)]
    monkeypatch.setattr(contest, "_SLACK", 1e9)
    assert [told(seed) for seed in range(30)] == fast
    monkeypatch.undo()
    monkeypatch.setattr(contest, "_TAIL", 0.0)
    assert [told(seed) for seed in range(30)] == fast
    monkeypatch.undo()
    monkeypatch.setattr(contest, "CHUNK", 7)
    assert [told(seed) for seed in range(30)] == fast


@pytest.mark.long
@pytest.mark.parametrize("copies", mostly_slow([1, 2, 1000, 2**40, 2**53], quick=2))
def test_the_float_of_the_largest_is_as_exact_as_the_cut_assumes(copies: int) -> None:
    drawn = np.concatenate(
        [
            SeededBits(8).words(400),
            SeededBits(9).words(400) >> np.uint64(20),
            2**63 - 1 - (SeededBits(10).words(100) >> np.uint64(22)),  # U near 1
        ]
    ).view(np.int64)
    found, wild = contest._standard("exponential", drawn, np.full(drawn.size, copies))
    sure = np.setdiff1d(np.arange(drawn.size), wild)
    assert sure.size > 840
    with mp.workprec(300):
        for k in sure.tolist():
            for more in (0, 2**64 - 1):
                truth = largest_of(copies, ideal("exponential", int(drawn[k]), more))
                assert abs(mpf(float(found[k])) - truth) < contest._SLACK / 4


def test_the_largest_of_many_where_no_end_is_known_yet() -> None:
    for places in (64, 200):
        assert contest._largest_bounds(0, None, places, 5) == (0, None)
        low, high = contest._largest_bounds(0, 4, places, 5)
        assert high is None
        assert low is not None
        assert low > 0
