"""Subset selection: a set of categories that holds the true one more often than not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.local import arguments
from unacorda.mechanisms.local.draws import CHUNK, below, chunks
from unacorda.mechanisms.local.frequencies import PureOracle
from unacorda.mechanisms.local.thresholds import WHOLE, Support, exp_down, pair_event, weak
from unacorda.mechanisms.local.unary import bit_sums, own_bits
from unacorda.privacy import events

__all__ = ["SubsetSelection"]

_BYTES = 1 << 20  # of reports that are filled at once


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetSelection(PureOracle):
    r"""Send a uniform set of d categories with the true one, or one without it, at odds e^epsilon.

    A given set with the true category is e^epsilon times as probable as a given set without it.
    epsilon: above 0; categories: k, from 2 to 2^30. d is the better of the two whole numbers
    about k / (e^epsilon + 1). A report is ceil(k/8) bytes, one bit a category, packed as by
    `numpy.packbits`. Its total error is the least of all mechanisms here, and for many people the
    least possible; for d = 1 it is k-ary randomised response.
    Source: Ye and Barg 2018, arXiv:1702.00610.

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
        """What one report costs: sets that hold both of two categories do not tell them apart."""
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
        return arguments.packed(reports, categories=self.categories)

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
    def _design(self) -> _Design:
        return _design(self._exact_epsilon, self.categories)


class _Design(NamedTuple):
    """How many categories a set has, and in how many of 2^64 cases the true one is among them."""

    size: int
    truth: int

    def support(self, categories: int) -> Support:
        own = Fraction(self.truth, WHOLE)
        return Support(own, (self.size - own) / (categories - 1))


@functools.lru_cache(maxsize=1024)
def _design(epsilon: Fraction, categories: int) -> _Design:
    """Of the two sizes about k / (e^epsilon + 1) the one with the smaller total error."""
    odds = exp_down(epsilon)
    ideal = math.floor(categories / (odds + 1))
    found = []
    for size in {max(ideal, 1), min(ideal + 1, categories - 1)}:
        truth = math.floor(WHOLE * size * odds / (size * odds + categories - size))
        if truth * (categories - size) > (WHOLE - truth) * size:
            found.append(_Design(size, truth))
    if not found:
        raise weak(epsilon)
    share = Fraction(1, categories)
    return min(found, key=lambda one: (float(one.support(categories).variance(share)), one.size))
