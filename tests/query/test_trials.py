"""Coins, places and choices that are drawn as arrays: each exactly as likely as it should be."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from tests.support.seams import accepts, below_each

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.mechanisms.selection.exponential import choose


@pytest.mark.statistical
def test_places_are_even_whatever_the_bound() -> None:
    """Chi-square over the values of small bounds: false alarm 1e-8 each; large ones by halves."""
    for bound in (2, 3, 7, 10):
        drawn = below_each(np.full(40_000, bound), SeededBits(bound))
        assert stats.chisquare(np.bincount(drawn, minlength=bound)).pvalue > 1e-8
    for bound in (2**40 + 1, 2**62 + 2**61):
        drawn = below_each(np.full(40_000, bound), SeededBits(5))
        assert drawn.min() >= 0
        assert drawn.max() < bound
        assert stats.kstest(drawn / bound, "uniform").pvalue > 1e-8
    assert below_each(np.array([1, 1]), SeededBits(1)).tolist() == [0, 0]


def test_words_that_would_favour_small_places_are_drawn_anew() -> None:
    """2^64 is 1 modulo 3: one word of all is too many."""
    assert below_each(np.array([3]), ScriptedBits([0, 5])).tolist() == [2]
    assert below_each(np.array([3]), ScriptedBits([1])).tolist() == [1]
    assert below_each(np.array([3]), ScriptedBits([2**64 - 1])).tolist() == [0]


def test_a_coin_is_decided_by_all_its_bits() -> None:
    """Against e^-x with 60 digits: words on both sides of its first 64 bits, and those bits."""
    mp.dps = 60
    for factor, excess in ((Fraction(1, 3), 2), (Fraction(7, 5), 9), (Fraction(1, 10**6), 1)):
        chance = mp.exp(-mpf(factor.numerator) * excess / factor.denominator)
        first, rest = int(chance * 2**64), int(chance * 2**128) % 2**64
        one = np.array([excess])
        assert accepts(one, factor, ScriptedBits([first - 1])).tolist() == [True]
        assert accepts(one, factor, ScriptedBits([first + 1])).tolist() == [False]
        assert accepts(one, factor, ScriptedBits([first, rest - 1])).tolist() == [True]
        assert accepts(one, factor, ScriptedBits([first, rest + 1])).tolist() == [False]
    assert accepts(np.array([0, 10**9]), Fraction(1), ScriptedBits([1])).tolist() == [True, False]


@pytest.mark.statistical
def test_rows_may_have_weights_of_their_own() -> None:
    """Three laws, 10,000 draws each: a weight of 2^40 far from the best, and of 0. 1e-8 each."""
    scores = np.array([[0, -3, -28], [0, -1, -2], [5, 5, 4]])
    weights = np.array([[1, 0, 2**40], [3, 2, 1], [2**40, 1, 2**41]])
    many = [np.repeat(part, 10_000, axis=0) for part in (scores, weights)]
    drawn = choose(many[0], many[1], factor=Fraction(1), bits=SeededBits(3)).reshape(3, -1)
    for row, score, weight in zip(drawn, scores, weights, strict=True):
        law = weight * np.exp(score - score.max().astype(float))
        seen = np.bincount(row, minlength=3)
        likely = law > 0
        assert not seen[~likely].any()
        expected = law[likely] / math.fsum(law) * len(row)
        keep = expected > 1
        assert (
            stats.chisquare(
                seen[likely][keep], expected[keep] * seen[likely][keep].sum() / expected[keep].sum()
            ).pvalue
            > 1e-8
        )
        wrong = np.roll(expected[keep], 1)
        assert (
            stats.chisquare(
                seen[likely][keep], wrong * seen[likely][keep].sum() / wrong.sum()
            ).pvalue
            < 1e-8
        )
