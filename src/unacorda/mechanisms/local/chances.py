"""Chances of 2^-64, and draws of reports by them.

Every probability is a whole number of chances in 2^64. Truths are rounded down and lies up, so
their ratio is at most e^epsilon also after rounding; docs/proofs/local.md, section 1.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.refinement import exp_bounds
from unacorda.privacy import events
from unacorda.privacy.events.fields import Real

WHOLE: Final = 1 << 64
"""The chances in one random word."""

MOST_CATEGORIES: Final = 1 << 30
MOST_ANSWERS: Final = 1 << 24
"""Beyond it a lie's share of 2^64 would be too small a number to be set finely."""

_LARGEST_EXPONENT: Final = 64  # lies of fewer than one chance in 2^64 have none
_PLACES: Final = 192
_CLAIMED_CATEGORIES: Final = 10**15

CHUNK: Final = 1 << 15
"""Values handled at once: what a few arrays of them need fits in the cache."""

_TOGETHER: Final = 6  # bits compared in all lanes before the decided words are set aside
_FEW: Final = 512  # words that are compared to the last bit, so that time tells nothing
_LOW_HALF: Final = np.uint64((1 << 32) - 1)


class Support(NamedTuple):
    """How probably a report supports a category.

    own: the category that it was made of; other: any other one.
    """

    own: Fraction
    other: Fraction

    def variance(self, share: Fraction) -> Fraction:
        """Variance of one report's estimate of this share."""
        own, other = self
        noise = share * own * (1 - own) + (1 - share) * other * (1 - other)
        return noise / (own - other) ** 2


def exp_down(epsilon: Fraction) -> Fraction:
    """A rational number that is at most e^epsilon, and 1 or more.

    It is within 2^-90, relative, of e^epsilon or of e^64, whichever is less.

    >>> float(exp_down(Fraction(1)))
    2.718281828459045
    """
    _, high = exp_bounds(-min(epsilon, Fraction(_LARGEST_EXPONENT)), _PLACES)
    return max(Fraction(1 << _PLACES, high), Fraction(1))


@dataclass(frozen=True, slots=True)
class Kary:
    """A k-ary answer: each false one has `lie` chances in 2^64, the true one the rest.

    >>> Kary(4, 1 << 61).truth == 5 << 61
    True
    """

    categories: int
    lie: int

    @property
    def truth(self) -> int:
        """The chances of the true answer in 2^64."""
        return WHOLE - (self.categories - 1) * self.lie

    def steps(self, size: int, bits: RandomBits) -> NDArray[np.int64]:
        """Which answers to give: k - 1 means the true one, 0 to k - 2 the false ones."""
        words = bits.words(size)
        # Each false answer owns `lie` consecutive words, the true one all that are left.
        np.floor_divide(words, np.uint64(self.lie), out=words)
        np.minimum(words, np.uint64(self.categories - 1), out=words)
        return words.view(np.int64)

    def answers(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        """One answer for each truth; the false ones count from it in a circle."""
        answers = self.steps(truths.size, bits)
        answers += truths
        answers += 1
        answers -= self.categories * (answers >= self.categories)
        return answers


@functools.lru_cache(maxsize=1024)
def kary(epsilon: Fraction, categories: int) -> Kary:
    """The most truthful k-ary answer whose odds of truth to a given lie are at most e^epsilon.

    Raises InvalidParameter where epsilon is too small for 64 bits to tell truth from lies.

    >>> answer = kary(Fraction(1), 4)
    >>> Fraction(answer.truth, answer.lie) <= exp_down(Fraction(1))
    True
    """
    answer = Kary(categories, math.ceil(WHOLE / (exp_down(epsilon) + categories - 1)))
    if answer.truth <= answer.lie:
        raise weak(epsilon)
    return answer


def weak(epsilon: Fraction) -> InvalidParameter:
    """The refusal of an epsilon so small that reports would say nothing."""
    expected = "large enough for probabilities in steps of 2^-64 to tell two values apart"
    return InvalidParameter("epsilon", _shown(epsilon), expected=expected)


def pair_event(epsilon: Real, *, weight: Fraction) -> events.RandomizedResponse | events.Pure:
    """What a report costs whose two laws differ on two events only, by e^epsilon either way.

    weight: at least the probability of the two events together, for every two inputs. The others
    have equal probability under both laws. Priced as k-ary randomised response with the largest k
    that is certainly no more private, and as pure where k would be 2, for the binary answer
    promises more about the reports of others when shuffled;
    docs/proofs/local.md, section 7.
    """
    least_exp = exp_down(checks.exact("epsilon", epsilon))
    categories = math.floor(1 + (least_exp + 1) / weight - least_exp)
    if categories < 3:
        return events.Pure(epsilon=epsilon)
    return events.RandomizedResponse(
        epsilon=epsilon, categories=min(categories, _CLAIMED_CATEGORIES)
    )


def _shown(epsilon: Fraction) -> Fraction | float:
    return float(epsilon) if epsilon > Fraction(1, 10**300) else epsilon


def chunks(size: int, step: int = CHUNK) -> Iterator[slice]:
    """The parts of `size` values, of `step` values each, that are handled one after another."""
    return (slice(start, start + step) for start in range(0, size, step))


def halves(size: int, bits: RandomBits) -> NDArray[np.uint32]:
    """As many numbers of 32 fair bits."""
    return bits.words(-(-size // 2)).view(np.uint32)[:size]


def below(bound: int, *, size: int, bits: RandomBits) -> NDArray[np.int64]:
    """As many integers, exactly uniform on {0, ..., bound - 1}; bound is 1 to 2^32.

    Source: Lemire 2019, arXiv:1805.10941, Lemma 4.1: of the products u bound, u of 32 bits, those
    are kept whose lower half is at least 2^32 mod bound; each upper half is then left
    floor(2^32 / bound) times.
    """
    drawn = np.empty(size, dtype=np.int64)
    least = np.uint64((1 << 32) % bound)
    for start in range(0, size, CHUNK):
        part = drawn[start : start + CHUNK]
        open_ = None
        while open_ is None or open_.size:
            fresh = part.size if open_ is None else open_.size
            products = halves(fresh, bits).astype(np.uint64)
            np.multiply(products, np.uint64(bound), out=products)
            refused = np.flatnonzero((products & _LOW_HALF) < least)
            products >>= np.uint64(32)
            if open_ is None:
                part[:] = products
                open_ = refused
            else:
                part[open_] = products
                open_ = open_[refused]
    return drawn


def biased_bytes(threshold: int, *, size: int, bits: RandomBits) -> NDArray[np.uint8]:
    """As many bytes, each bit of which is 1 with `threshold` chances in 2^64, 0 <= it < 2^64.

    Every lane compares 64 fair bits with the threshold, from the highest; a lane whose bit
    differs is decided. Words whose lanes are all decided take no further bits, where there are
    many of them; few words take as long whatever their bits become.
    """
    drawn = np.empty(-(-size // 8), dtype=np.uint64)
    for start in range(0, drawn.size, CHUNK):
        part = drawn[start : start + CHUNK]
        part[:] = 0
        left = None  # indices of the words with open lanes, once some have none
        lanes = np.full(part.size, -1, dtype=np.int64).view(np.uint64)
        for place in range(63, -1, -1):
            if threshold & ((2 << place) - 1) == 0:
                break  # open lanes are not below the threshold: they stay 0
            coins = bits.words(lanes.size)
            if threshold >> place & 1:
                found = lanes & ~coins  # a 0 under a 1 is below
                if left is None:
                    part |= found
                else:
                    part[left] |= found
                lanes &= coins
            else:
                lanes &= ~coins  # a 1 over a 0 is above
            if 63 - place >= _TOGETHER and part.size > _FEW:
                still = np.flatnonzero(lanes)
                left = still if left is None else left[still]
                lanes = lanes[still]
                if not lanes.size:
                    break
    return drawn.view(np.uint8)[:size]
