"""Draws behind reports: thresholds, uniform integers and biased bits, to the last chance."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats
from tests.mechanisms.local.report_laws import WHOLE, Counting, at_most_exp
from tests.support.cases import in_subtests

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local import reports
from unacorda.mechanisms.local.reports import Kary, below, biased_bytes, exp_down, kary

EPSILONS = ["1e-3", "0.01", "0.1", "1/3", "1", "1.0986122886681098", "2.5", "8", "20", "40", "60"]
ONES = WHOLE - 1


@in_subtests("epsilon", [*EPSILONS, "1e-40", "100", "1e300"])
def test_the_rational_exponential_is_just_below(epsilon: str) -> None:
    value = Fraction(epsilon)
    found, capped = exp_down(value), min(value, Fraction(64))
    with mp.workprec(600):
        exact = mp.exp(mpf(capped.numerator) / capped.denominator)
        ratio = mpf(found.numerator) / found.denominator / exact
        assert 1 - mpf(2) ** -90 < ratio <= 1
    assert found >= 1


@in_subtests("categories", [2, 3, 4, 7, 1000, 2**24])
@in_subtests("epsilon", EPSILONS)
def test_k_ary_answers_own_exactly_their_chances(epsilon: str, categories: int) -> None:
    answer = kary(Fraction(epsilon), categories)
    assert answer.truth + (categories - 1) * answer.lie == WHOLE
    # The answer is monotone in the word, so its edges give the number of words of each answer.
    shown = sorted({0, min(1, categories - 2), (categories - 1) // 2, categories - 2})
    edges = [(one * answer.lie, one) for one in shown]
    edges += [((one + 1) * answer.lie - 1, one) for one in shown]
    edges += [((categories - 1) * answer.lie, categories - 1), (ONES, categories - 1)]
    words, told = zip(*edges, strict=True)
    assert answer.steps(len(words), ScriptedBits(words)).tolist() == list(told)


@pytest.mark.long
@given(
    epsilon=st.fractions(min_value=Fraction(1, 1000), max_value=100, max_denominator=10**6),
    categories=st.integers(2, 1000),
)
def test_no_answer_is_too_truthful(epsilon: Fraction, categories: int) -> None:
    answer = kary(epsilon, categories)
    assert at_most_exp(Fraction(answer.truth, answer.lie), epsilon)
    assert answer.truth > answer.lie > 0


@pytest.mark.parametrize("categories", [2, 5, 10**6])
def test_lies_are_as_rare_as_they_may_be(categories: int) -> None:
    for epsilon in map(Fraction, EPSILONS):
        answer = kary(epsilon, categories)
        with mp.workprec(300):
            odds = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
            assert answer.truth <= odds * answer.lie
            fewer = answer.lie - 1
            assert WHOLE - (categories - 1) * fewer > odds * fewer


def test_an_epsilon_that_64_bits_cannot_show_is_refused() -> None:
    for epsilon in (Fraction(1, 2**70), Fraction(1, 10**300)):
        with pytest.raises(InvalidParameter, match="epsilon"):
            kary(epsilon, 4)


@in_subtests("bound", [1, 2, 3, 5, 6, 1000, 2**31 - 1, 2**31, 2**32 - 1, 2**32])
def test_every_integer_below_a_bound_has_equally_many_numbers(bound: int) -> None:
    refused, each = (1 << 32) % bound, (1 << 32) // bound
    for value in sorted({0, min(1, bound - 1), bound // 3, bound // 2, bound - 1}):
        # The numbers u with u bound in [value 2^32 + refused, (value + 1) 2^32) are kept.
        first = -(-((value << 32) + refused) // bound)
        last = -(-(value + 1 << 32) // bound) - 1
        assert last - first + 1 == each
        for number in (first, last):
            script = ScriptedBits([number | number << 32])
            assert below(bound, size=2, bits=script).tolist() == [value, value]
        if refused and first * bound >> 32 == value and (first - 1) * bound >> 32 == value:
            script = ScriptedBits([(first - 1) | last << 32, first])
            assert below(bound, size=2, bits=script).tolist() == [value, value]
            assert script.left == 0  # the number under the first was drawn again


@pytest.mark.statistical
def test_integers_below_a_bound_are_uniform() -> None:
    drawn = below(7, size=200_000, bits=SeededBits(1))
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > 1e-6
    drawn = below(3 << 30, size=200_000, bits=SeededBits(2))  # a quarter is drawn again
    assert stats.chisquare(np.bincount(drawn >> 26, minlength=48)).pvalue > 1e-6


def test_a_remainder_would_not_be_uniform() -> None:
    """What the comparison above looks for: eight bits, all of them, in three answers."""
    modulo = Counter(word % 3 for word in range(256))
    assert len(set(modulo.values())) == 2
    kept = [word * 3 for word in range(256) if word * 3 % 256 >= 256 % 3]
    assert set(Counter(product // 256 for product in kept).values()) == {256 // 3}


@in_subtests("threshold", [1, 2, 3, 1 << 63, (1 << 63) + 1, ONES, 0x123456789ABCDEF0, WHOLE // 3])
@in_subtests("size", [8, 8 * 1000])
def test_a_lane_is_1_exactly_below_the_threshold(threshold: int, size: int) -> None:
    for number in (threshold - 1, threshold, threshold + 1, 0, ONES):
        if number < WHOLE:
            script = []
            for place in range(63, -1, -1):
                script += [ONES * (number >> place & 1)] * (size // 8)
            drawn = biased_bytes(threshold, size=size, bits=ScriptedBits(script))
            assert set(drawn.tolist()) == {255 * (number < threshold)}


@pytest.mark.parametrize("threshold", [0x5A5A5A5A5A5A5A5A, 1, ONES, 0xF0F0000000000001])
def test_lanes_replay_one_by_one(threshold: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits that mostly agree with the threshold, so that lanes are decided early and late."""
    monkeypatch.setattr(reports, "_FEW", 0)
    size, script, generator = 40, [], np.random.default_rng(3)
    for place in [*range(63, -1, -1)] * 2:
        for _ in range(size):
            differs = int(np.packbits(generator.random(64) < 0.05).view(np.uint64)[0])
            script.append(ONES * (threshold >> place & 1) ^ differs)
    source = Counting(ScriptedBits(script))
    drawn = biased_bytes(threshold, size=8 * size, bits=source).view(np.uint64).tolist()
    words = iter(source.given.tolist())
    undecided = [set(range(64)) for _ in range(size)]
    found = [0] * size
    last = (threshold & -threshold).bit_length() - 1  # below it no lane can become smaller
    for place in range(63, last - 1, -1):
        goal = threshold >> place & 1
        for index, lanes in enumerate(undecided):
            # Words without undecided lanes take no more bits, after the first few.
            if lanes or 63 - place <= reports._TOGETHER:
                word = next(words)
                differing = {lane for lane in lanes if word >> lane & 1 != goal}
                lanes.difference_update(differing)
                found[index] |= sum(goal << lane for lane in differing)
    assert drawn == found
    assert next(words, None) is None


@pytest.mark.statistical
@pytest.mark.parametrize("few", [0, 1 << 40])
def test_biased_bits_have_their_rate_and_are_independent(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_FEW", few)
    chance = Fraction(1, 5)
    drawn = biased_bytes(math.ceil(WHOLE * chance), size=250_000, bits=SeededBits(4))
    ones = np.unpackbits(drawn).reshape(-1, 8)
    assert stats.binomtest(int(ones.sum()), ones.size, 0.2).pvalue > 1e-6
    assert stats.binomtest(int(ones.sum()), ones.size, 0.202).pvalue < 1e-6
    patterns = np.bincount(drawn, minlength=256)
    law = [0.2 ** (n := byte.bit_count()) * 0.8 ** (8 - n) for byte in range(256)]
    expected = np.array(law) * drawn.size
    common = expected > 10
    statistic = ((patterns - expected) ** 2 / expected)[common].sum()
    assert stats.chi2.sf(statistic, int(common.sum()) - 1) > 1e-6
    assert abs(np.corrcoef(ones[1:, 0], ones[:-1, 0])[0, 1]) < 6 / math.sqrt(len(ones))


def test_k_ary_laws_are_values() -> None:
    assert Kary(3, 5) == Kary(3, 5)
    assert Kary(3, 5).truth == WHOLE - 10
