"""Frequency oracles that report categories: one, a bit for each, or a subset."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.balls import ball, float_up
from unacorda.bits import RandomBits
from unacorda.mechanisms.local.frequencies import FrequencyOracle, PureOracle
from unacorda.mechanisms.local.reports import (
    CHUNK,
    MOST_ANSWERS,
    WHOLE,
    Kary,
    Support,
    below,
    biased_bytes,
    checked_reports,
    chunks,
    exp_down,
    halves,
    kary,
    packed_reports,
    pair_event,
    weak,
)
from unacorda.privacy import events

Variant: TypeAlias = Literal["optimized", "symmetric"]

_BYTES = 1 << 20  # of reports that are filled at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(PureOracle):
    r"""Report one of k categories: the true one with odds e^epsilon against each other one.

    A report is a category index. Up to about k = 3 e^epsilon + 2 it is more accurate than unary
    encodings and hashing.

    Source: Warner 1965 (k = 2); Kairouz, Bonawitz, Ramage 2016, arXiv:1602.07387 (any k).

    Parameters
    ----------
    epsilon
        Above 0; a float means the decimal it prints as.
    categories
        Their number k, from 2 to 2^24; 2 is the binary form.

    Examples
    --------
    >>> mechanism = RandomizedResponse(epsilon=1.0, categories=4)
    >>> mechanism.event
    RandomizedResponse(epsilon=1.0, categories=4)
    >>> reports = mechanism.encode([0, 0, 3, 2, 0])
    >>> len(mechanism.aggregate(reports))
    4
    """

    most_categories = MOST_ANSWERS

    @staticmethod
    def resampling(probability: checks.Number, *, categories: int = 2) -> RandomizedResponse:
        """Make the form "with this probability forget the truth and answer uniformly at random".

        Its epsilon is ln(1 + k (1 - p) / p), for two answers ln(2/p - 1), rounded up. Note that p =
        e^-epsilon does not give epsilon: for k = 2 that costs ln(2 e^epsilon - 1), which is more.

        Parameters
        ----------
        probability
            Above 0 and below 1.
        categories
            The number of answers.

        Returns
        -------
        RandomizedResponse
            With that epsilon.

        Raises
        ------
        InvalidParameter
            For another probability.

        Examples
        --------
        >>> round(float(RandomizedResponse.resampling("1/2").epsilon), 6)
        1.098612
        """
        share = checks.exact("probability", probability)
        checks.demand(
            0 < share < 1, "probability", probability, expected="a number strictly between 0 and 1"
        )
        answers = RandomizedResponse(epsilon=1, categories=categories).categories
        bound = float_up(ball(answers * (1 - share) / share).log1p())
        # One more float up, since a float means the decimal it prints as.
        epsilon = math.nextafter(bound, math.inf)
        return RandomizedResponse(epsilon=epsilon, categories=answers)

    @property
    def event(self) -> events.RandomizedResponse:
        """What one report costs."""
        return events.RandomizedResponse(epsilon=self.epsilon, categories=self.categories)

    @property
    def support(self) -> Support:
        """The probabilities of the true answer and of a given false one, exactly."""
        answer = self._design
        return Support(Fraction(answer.truth, WHOLE), Fraction(answer.lie, WHOLE))

    @property
    def _design(self) -> Kary:
        return kary(self._exact_epsilon, self.categories)

    def _randomize(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        reports, answer = np.empty_like(truths), self._design
        for part in chunks(truths.size):
            reports[part] = answer.answers(truths[part], bits)
        return reports

    def _read(self, reports: ArrayLike) -> NDArray[np.int64]:
        return checked_reports(reports, limit=self.categories)

    def _count(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(rows, minlength=self.categories).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryEncoding(PureOracle):
    r"""Send one bit for every category, 1 for the true one, each flipped independently.

    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), optimized unary encoding; Erlingsson,
    Pihur, Korolova 2014, arXiv:1407.6981 (basic one-time RAPPOR).

    Parameters
    ----------
    variant
        "optimized" (OUE) sends a fair bit at the true category and ones with odds 1 : e^epsilon
        at the others; of all unary encodings it has the least variance for rare categories, and
        the variance does not grow with k. "symmetric" (RAPPOR, the basic, one-time form) flips
        every bit with odds 1 : e^(epsilon/2), since two categories differ in two bits.
    epsilon
        Above 0, of the whole report; each further report of the same value spends it again.
    categories
        Their number k, from 2 to 2^30. A report is ceil(k/8) bytes, the bits packed as by
        `numpy.packbits`.

    Examples
    --------
    >>> optimized = UnaryEncoding(epsilon=1.0, categories=100)
    >>> optimized.event
    RandomizedResponse(epsilon=1.0, categories=5)
    >>> optimized.encode([7, 7, 99]).shape
    (3, 13)
    >>> symmetric = UnaryEncoding(epsilon=1.0, categories=100, variant="symmetric")
    >>> symmetric.event
    Repeated(event=RandomizedResponse(epsilon=Fraction(1, 2), categories=2), count=2)
    >>> [round(kind.variance(count=1000) ** 0.5, 4) for kind in (optimized, symmetric)]
    [0.0607, 0.0626]
    """

    variant: Variant = "optimized"

    def __post_init__(self) -> None:
        checks.choice(get_args(Variant), variant=self.variant)
        FrequencyOracle.__post_init__(self)

    @property
    def event(self) -> events.Event:
        """What one report costs.

        Optimized: it distinguishes two categories only in half of all cases. Symmetric: two binary
        answers, which compose without loss.
        """
        if self.variant == "optimized":
            return pair_event(self.epsilon, weight=Fraction(1, 2))
        return events.RandomizedResponse(epsilon=self._exact_epsilon / 2, categories=2) * 2

    @property
    def support(self) -> Support:
        """The probabilities of a 1 at the true category and at a given other one, exactly."""
        flip = Fraction(self._design, WHOLE)
        return Support(Fraction(1, 2) if self.variant == "optimized" else 1 - flip, flip)

    @property
    def _design(self) -> int:
        epsilon = self._exact_epsilon
        return _flips(epsilon if self.variant == "optimized" else epsilon / 2)

    def _randomize(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.uint8]:
        width = -(-self.categories // 8)
        noise = biased_bytes(self._design, size=truths.size * width, bits=bits)
        reports = noise.reshape(truths.size, width)
        reports[:, -1] &= np.uint8(256 - (1 << (8 * width - self.categories)))  # the padding is 0
        place, mask = own_bits(truths, width=width)
        if self.variant == "optimized":
            fair = (halves(truths.size, bits) >> np.uint32(24)).astype(np.uint8)
            noise[place] = (noise[place] & ~mask) | (fair & mask)
        else:
            noise[place] ^= mask
        return reports

    def _read(self, reports: ArrayLike) -> NDArray[np.uint8]:
        return packed_reports(reports, categories=self.categories)

    def _count(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        return bit_sums(rows, categories=self.categories)


def own_bits(
    truths: NDArray[np.int64], *, width: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The byte of each report, among all bytes, and the bit in it for its category."""
    place = np.arange(truths.size, dtype=np.int64) * width + (truths >> 3)
    return place, np.right_shift(np.uint8(128), (truths & 7).astype(np.uint8))


def bit_sums(rows: NDArray[np.uint8], *, categories: int) -> NDArray[np.int64]:
    """How many rows of packed bits have a 1 at each category."""
    sums = np.zeros(categories, dtype=np.int64)
    # 255 ones fit in a byte.
    for part in chunks(len(rows), min(255, max(1, (CHUNK << 4) // rows.shape[1]))):
        ones = np.unpackbits(rows[part], axis=1, count=categories)
        sums += ones.sum(axis=0, dtype=np.uint8)
    return sums


@functools.lru_cache(maxsize=1024)
def _flips(epsilon: Fraction) -> int:
    """The least chances t in 2^64 of a flip with (1 - t) <= e^epsilon t."""
    flips = math.ceil(WHOLE / (exp_down(epsilon) + 1))
    if 2 * flips >= WHOLE:
        raise weak(epsilon)
    return flips


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetSelection(PureOracle):
    r"""Send a uniform set of d categories, with the true one at odds e^epsilon.

    A given set with the true category is e^epsilon times as probable as a given set without it. d
    is the better of the two whole numbers about k / (e^epsilon + 1). A report is ceil(k/8) bytes,
    one bit a category, packed as by `numpy.packbits`. Its total error is the least of all
    mechanisms here, and for many people the least possible; for d = 1 it is k-ary randomized
    response.

    Source: Ye and Barg 2018, arXiv:1702.00610.

    Parameters
    ----------
    epsilon
        Above 0.
    categories
        k, from 2 to 2^30.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> mechanism = SubsetSelection(epsilon=1.0, categories=10)
    >>> mechanism.size
    3
    >>> int(mechanism.encode(4).view(np.uint8).size)
    2
    """

    @property
    def size(self) -> int:
        """How many categories a report names, d."""
        return self._design.size

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """The cost of one report: sets with both of two categories do not distinguish them."""
        size, own = self.size, self.support.own
        others = self.categories - 1
        first = own * (self.categories - size) / others  # holds the true one, not the other
        weight = first + (1 - own) * size / others
        return pair_event(self.epsilon, weight=weight)

    @property
    def support(self) -> Support:
        """The probabilities that a report names the true category and a given other, exactly."""
        return self._design.support(self.categories)

    def _randomize(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.uint8]:
        width = -(-self.categories // 8)
        reports = np.zeros((truths.size, width), dtype=np.uint8)
        for part in chunks(truths.size, max(1, min(CHUNK, _BYTES // width))):
            self._fill(reports[part], truths[part], bits)
        return reports

    def _read(self, reports: ArrayLike) -> NDArray[np.uint8]:
        return packed_reports(reports, categories=self.categories)

    def _count(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        return bit_sums(rows, categories=self.categories)

    def _fill(self, rows: NDArray[np.uint8], truths: NDArray[np.int64], bits: RandomBits) -> None:
        """Set the bits of one set a row, by Floyd's algorithm on the other categories.

        The others are numbered by how far they stand after the true one, in a circle. The true
        one is settled first; where it is left out, one more of the others is drawn.
        """
        k, size, flat = self.categories, self.size, rows.reshape(-1)
        named = bits.words(truths.size) < np.uint64(self._design.truth)
        place, mask = own_bits(truths, width=rows.shape[1])
        flat[place] |= mask * named
        first = np.arange(truths.size, dtype=np.int64) * rows.shape[1]
        # Rows that name the true one draw the first of the others too, so as to take no less time.
        wanted = np.where(named, 0, 128).astype(np.uint8)
        for last in range(k - 1 - size, k - 1):
            drawn = (truths + below(last + 1, size=truths.size, bits=bits) + 1) % k
            taken = flat[first + (drawn >> 3)] << (drawn & 7).astype(np.uint8) & 128
            drawn = np.where(taken, (truths + last + 1) % k, drawn)
            flat[first + (drawn >> 3)] |= wanted >> (drawn & 7).astype(np.uint8)
            wanted = np.full(truths.size, 128, dtype=np.uint8)

    @property
    def _design(self) -> _SubsetDesign:
        return _design(self._exact_epsilon, self.categories)


class _SubsetDesign(NamedTuple):
    """How many categories a set has, and in how many of 2^64 cases the true one is among them."""

    size: int
    truth: int

    def support(self, categories: int) -> Support:
        own = Fraction(self.truth, WHOLE)
        return Support(own, (self.size - own) / (categories - 1))


@functools.lru_cache(maxsize=1024)
def _design(epsilon: Fraction, categories: int) -> _SubsetDesign:
    """Of the two sizes about k / (e^epsilon + 1) the one with the smaller total error."""
    odds = exp_down(epsilon)
    ideal = math.floor(categories / (odds + 1))
    found = []
    for size in {max(ideal, 1), min(ideal + 1, categories - 1)}:
        truth = math.floor(WHOLE * size * odds / (size * odds + categories - size))
        if truth * (categories - size) > (WHOLE - truth) * size:
            found.append(_SubsetDesign(size, truth))
    if not found:
        raise weak(epsilon)
    share = Fraction(1, categories)
    return min(found, key=lambda one: (float(one.support(categories).variance(share)), one.size))
