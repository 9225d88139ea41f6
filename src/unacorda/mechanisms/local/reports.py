"""Reports of local mechanisms: the values of devices, chances of 2^-64, and checks at the server.

Errors on a device depend only on shape and dtype, never on a value. Reports are public, so errors
at the server may depend on values.

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
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.refinement import exp_bounds
from unacorda.privacy import events
from unacorda.privacy.events import fields
from unacorda.privacy.events.fields import Real

Shape: TypeAlias = tuple[int, ...] | None
"""The shape of an array, or None for a bare number."""


def keep_epsilon(mechanism: Any) -> Fraction:
    """Check the epsilon of a mechanism that is being made; its value, exactly."""
    fields.keep(mechanism, epsilon=fields.positive("epsilon", mechanism.epsilon))
    return checks.exact("epsilon", mechanism.epsilon)


def checked_indices(values: ArrayLike, *, categories: int) -> tuple[NDArray[np.int64], Shape]:
    """Category indices, flat, and the shape; indices beyond 0 .. k - 1 count as the nearest.

    In a list, missing values count as 0. Raises InvalidParameter for a dtype that is not integer.
    """
    expected = "integers of at most 64 bits: indices of categories"
    array = elements.integers("values", values, dimensions=1, expected=expected)
    shape = None if elements.is_bare(values) else array.shape
    return np.clip(array.reshape(-1), 0, categories - 1), shape


def checked_reports(
    reports: ArrayLike, *, limit: int, width: int | None = None
) -> NDArray[np.int64]:
    """Reports of integers 0 .. limit - 1, flat, or in rows of `width` numbers each.

    Raises InvalidParameter for no reports, another dtype, another width or another number.
    """
    expected = "integers as `encode` returns them"
    array = elements.numbers("reports", reports, kinds="iu", expected=expected)
    if array.dtype.kind not in "iu":  # reports are public, so the elements of a list may refuse
        raise InvalidParameter("reports", array.dtype, expected=expected)
    if width is not None and (array.ndim == 0 or array.shape[-1] != width):
        raise InvalidParameter("reports", array.shape, expected=f"rows of {width} integers")
    checks.demand(array.size != 0, "reports", array.shape, expected="at least one report")
    if array.min() < 0 or array.max() >= limit:
        raise InvalidParameter(
            "reports", None, expected=f"integers from 0 to {limit - 1}, made by an equal mechanism"
        )
    return array.astype(np.int64).reshape(-1 if width is None else (-1, width))


def packed_reports(reports: ArrayLike, *, categories: int) -> NDArray[np.uint8]:
    """Reports of one bit a category, packed by eight, one row each.

    Raises InvalidParameter for no reports, another dtype or another width.
    """
    array = elements.numbers("reports", reports)
    width = -(-categories // 8)
    if array.dtype != np.uint8 or array.ndim == 0 or array.shape[-1] != width:
        raise InvalidParameter(
            "reports",
            (array.dtype, array.shape),
            expected=f"uint8 rows of {width} packed bytes, as `encode` returns them",
        )
    checks.demand(array.size != 0, "reports", array.shape, expected="at least one report")
    return array.reshape(-1, width)


def checked_tally(tally: ArrayLike, *, count: int, size: int) -> NDArray[np.int64]:
    """Check that a tally can be one of `count` reports; return it as int64.

    Raises InvalidParameter unless the tally has that size and counts from 0 to count.
    """
    array = elements.numbers("tally", tally)
    count = checks.positive_integer(count=count)
    if array.dtype.kind not in "iu" or array.shape != (size,):
        raise InvalidParameter(
            "tally", (array.dtype, array.shape), expected=f"{size} integers, as `tally` returns"
        )
    if array.min() < 0 or array.max() > count:
        raise InvalidParameter("tally", None, expected=f"integers from 0 to {count}, the reports")
    return array.astype(np.int64)


def checked_frequency(frequency: checks.Number) -> Fraction:
    """The share of people who hold a category, checked."""
    exact = checks.exact("frequency", frequency)
    checks.demand(0 <= exact <= 1, "frequency", frequency, expected="a number from 0 to 1")
    return exact


class ValueBounds(NamedTuple):
    """The ends of a public interval, exactly."""

    lower: Fraction
    upper: Fraction

    @property
    def width(self) -> Fraction:
        """Upper minus lower."""
        return self.upper - self.lower

    @property
    def half(self) -> Fraction:
        """From the center to either end."""
        return self.width / 2

    @property
    def center(self) -> Fraction:
        """The middle of the interval."""
        return (self.lower + self.upper) / 2


def value_bounds(lower: checks.Number, upper: checks.Number) -> ValueBounds:
    """The interval from lower to upper.

    Raises InvalidParameter unless lower < upper, both within +-2^400 and not too near.
    """
    ends = ValueBounds(checks.exact("lower", lower), checks.exact("upper", upper))
    checks.demand(ends.lower < ends.upper, "lower", lower, expected="below the upper bound")
    largest = max(abs(ends.lower), abs(ends.upper))
    for name, value in (("lower", lower), ("upper", upper)):
        checks.demand(largest <= 1 << 400, name, value, expected="at most 2^400 in size")
        if ends.width < max(largest / (1 << 20), Fraction(1, 1 << 400)):
            raise InvalidParameter(name, value, expected="bounds farther apart, or shifted values")
    return ends


def grid_places(x: ArrayLike, *, ends: ValueBounds, last: int) -> tuple[NDArray[np.int64], Shape]:
    """The nearest of `last` + 1 equidistant places from lower to upper, flat, and the shape.

    NaN counts as 0, and values beyond a bound are clamped. Raises InvalidParameter for a dtype that
    is neither integer nor a float of at most 64 bits.
    """
    array = elements.floats("x", x, dimensions=1)
    shape = None if elements.is_bare(x) else array.shape
    lower, upper = float(ends.lower), float(ends.upper)
    scaled = np.nan_to_num(array.reshape(-1), nan=0.0, posinf=upper, neginf=lower)
    np.clip(scaled, lower, upper, out=scaled)
    scaled -= lower
    scaled *= float(last / ends.width)
    return np.clip(np.rint(scaled), 0, last).astype(np.int64), shape


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
    shown = float(epsilon) if epsilon > Fraction(1, 10**300) else epsilon
    return InvalidParameter("epsilon", shown, expected=expected)


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
