"""Unary encodings: one bit for every category, each flipped by itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms.response import arguments, frequencies
from unacorda.mechanisms.response.draws import CHUNK, biased_bytes, halves
from unacorda.mechanisms.response.thresholds import WHOLE, Support, exp_down, pair_event, weak
from unacorda.privacy import events
from unacorda.privacy.events.fields import Real

__all__ = ["OUE", "RAPPOR", "bit_sums", "own_bits"]

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RAPPOR:
    r"""Send one bit for every category, 1 for the true one, each flipped by itself.

    epsilon: above 0, of the whole report; bits are flipped with odds 1 : e^(epsilon/2), since two
    categories differ in two bits. categories: k, from 2 to 2^30. A report is ceil(k/8) bytes,
    the bits packed as by `numpy.packbits`. This is the basic, one-time form: whoever reports
    the same value again spends epsilon again.
    Source: Erlingsson, Pihur, Korolova 2014, arXiv:1407.6981 (basic one-time RAPPOR).

    >>> mechanism = RAPPOR(epsilon=1.0, categories=100)
    >>> mechanism.event
    Repeated(event=RandomizedResponse(epsilon=Fraction(1, 2), categories=2), count=2)
    >>> mechanism.encode([7, 7, 99]).shape
    (3, 13)
    """

    epsilon: Real
    categories: int

    def __post_init__(self) -> None:
        _flips(arguments.set_up(self) / 2)

    @property
    def event(self) -> events.Event:
        """What one report costs: two binary answers, of which nothing is lost in composition."""
        half = checks.exact("epsilon", self.epsilon) / 2
        return events.RandomizedResponse(epsilon=half, categories=2) * 2

    @property
    def support(self) -> Support:
        """The probabilities of a 1 at the true category and at a given other one, exactly."""
        flip = Fraction(self._flips, WHOLE)
        return Support(1 - flip, flip)

    def encode(self, values: ArrayLike, *, bits: RandomBits | None = None) -> NDArray[np.uint8]:
        """The reports of devices that hold these categories, in rows along the last axis.

        values: integers; those beyond 0 .. k - 1 count as the nearest category.
        Raises InvalidParameter for a dtype that is not integer.
        """
        truths, shape = arguments.indices(values, categories=self.categories)
        reports = _noise(self._flips, truths.size, self.categories, bits or _SECURE)
        place, mask = own_bits(truths, width=reports.shape[1])
        reports.reshape(-1)[place] ^= mask
        return reports.reshape(*(shape or ()), reports.shape[1])

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> NDArray[np.uint8]:
        """The same as `encode`."""
        return self.encode(values, bits=bits)

    def tally(self, reports: ArrayLike) -> NDArray[np.int64]:
        """How many reports have a 1 at each category; tallies of batches add up."""
        return bit_sums(reports, categories=self.categories)

    def estimate(self, tally: ArrayLike, *, count: int) -> frequencies.Frequencies:
        """The shares of all categories, from the tally of `count` reports."""
        return frequencies.frequencies(
            tally, count=count, support=self.support, size=self.categories
        )

    def aggregate(self, reports: ArrayLike) -> frequencies.Frequencies:
        """The shares of all categories, from rows of packed bits."""
        rows = arguments.packed(reports, categories=self.categories)
        return self.estimate(self.tally(rows), count=len(rows))

    def variance(self, *, count: int, frequency: checks.Number = 0) -> float:
        """Variance of the estimated share of a category, given its share among `count` people."""
        share = frequencies.frequency(frequency)
        return frequencies.variance(self.support, count=count, frequency=share)

    @property
    def _flips(self) -> int:
        return _flips(checks.exact("epsilon", self.epsilon) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class OUE:
    r"""Optimised unary encoding: a fair bit at the true category, few ones at the others.

    epsilon: above 0, of the whole report; the bits of other categories are 1 with odds
    1 : e^epsilon. categories: k, from 2 to 2^30. A report is ceil(k/8) bytes, the bits packed as
    by `numpy.packbits`. Of all unary encodings it has the least variance for rare categories, and
    the variance does not grow with k.
    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), optimised unary encoding.

    >>> mechanism = OUE(epsilon=1.0, categories=100)
    >>> mechanism.event
    RandomizedResponse(epsilon=1.0, categories=5)
    >>> round(mechanism.variance(count=1000) ** 0.5, 4)  # RAPPOR(epsilon=1, ...) has 0.0626
    0.0607
    """

    epsilon: Real
    categories: int

    def __post_init__(self) -> None:
        _flips(arguments.set_up(self))

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """What one report costs: it tells two categories apart in half of all cases only."""
        least = exp_down(checks.exact("epsilon", self.epsilon))
        return pair_event(self.epsilon, least_exp=least, weight=Fraction(1, 2))

    @property
    def support(self) -> Support:
        """The probabilities of a 1 at the true category and at a given other one, exactly."""
        return Support(Fraction(1, 2), Fraction(self._flips, WHOLE))

    def encode(self, values: ArrayLike, *, bits: RandomBits | None = None) -> NDArray[np.uint8]:
        """The reports of devices that hold these categories, in rows along the last axis.

        values: integers; those beyond 0 .. k - 1 count as the nearest category.
        Raises InvalidParameter for a dtype that is not integer.
        """
        truths, shape = arguments.indices(values, categories=self.categories)
        source = bits or _SECURE
        reports = _noise(self._flips, truths.size, self.categories, source)
        place, mask = own_bits(truths, width=reports.shape[1])
        fair = (halves(truths.size, source) >> np.uint32(24)).astype(np.uint8)
        flat = reports.reshape(-1)
        flat[place] = (flat[place] & ~mask) | (fair & mask)
        return reports.reshape(*(shape or ()), reports.shape[1])

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> NDArray[np.uint8]:
        """The same as `encode`."""
        return self.encode(values, bits=bits)

    def tally(self, reports: ArrayLike) -> NDArray[np.int64]:
        """How many reports have a 1 at each category; tallies of batches add up."""
        return bit_sums(reports, categories=self.categories)

    def estimate(self, tally: ArrayLike, *, count: int) -> frequencies.Frequencies:
        """The shares of all categories, from the tally of `count` reports."""
        return frequencies.frequencies(
            tally, count=count, support=self.support, size=self.categories
        )

    def aggregate(self, reports: ArrayLike) -> frequencies.Frequencies:
        """The shares of all categories, from rows of packed bits."""
        rows = arguments.packed(reports, categories=self.categories)
        return self.estimate(self.tally(rows), count=len(rows))

    def variance(self, *, count: int, frequency: checks.Number = 0) -> float:
        """Variance of the estimated share of a category, given its share among `count` people."""
        share = frequencies.frequency(frequency)
        return frequencies.variance(self.support, count=count, frequency=share)

    @property
    def _flips(self) -> int:
        return _flips(checks.exact("epsilon", self.epsilon))


def own_bits(
    truths: NDArray[np.int64], *, width: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The byte of each report, among all bytes, and the bit in it, that stand for its category."""
    place = np.arange(truths.size, dtype=np.int64) * width + (truths >> 3)
    return place, np.right_shift(np.uint8(128), (truths & 7).astype(np.uint8))


def bit_sums(reports: ArrayLike, *, categories: int) -> NDArray[np.int64]:
    """How many rows of packed bits have a 1 at each category."""
    rows = arguments.packed(reports, categories=categories)
    sums = np.zeros(categories, dtype=np.int64)
    step = min(255, max(1, (CHUNK << 4) // rows.shape[1]))  # 255 ones fit in a byte
    for start in range(0, len(rows), step):
        ones = np.unpackbits(rows[start : start + step], axis=1, count=categories)
        sums += ones.sum(axis=0, dtype=np.uint8)
    return sums


@functools.lru_cache(maxsize=1024)
def _flips(epsilon: Fraction) -> int:
    """The least chances t in 2^64 of a flip with (1 - t) <= e^epsilon t."""
    flips = math.ceil(WHOLE / (exp_down(epsilon) + 1))
    if 2 * flips >= WHOLE:
        raise weak(epsilon)
    return flips


def _noise(threshold: int, rows: int, categories: int, bits: RandomBits) -> NDArray[np.uint8]:
    """Rows of packed bits, each 1 with `threshold` chances in 2^64; the padding is 0."""
    width = -(-categories // 8)
    noise = biased_bytes(threshold, size=rows * width, bits=bits).reshape(rows, width)
    noise[:, -1] &= np.uint8(256 - (1 << (8 * width - categories)))
    return noise
