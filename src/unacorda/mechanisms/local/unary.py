"""Unary encodings: one bit for every category, each flipped by itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local import arguments
from unacorda.mechanisms.local.draws import CHUNK, biased_bytes, chunks, halves
from unacorda.mechanisms.local.frequencies import FrequencyOracle, PureOracle
from unacorda.mechanisms.local.thresholds import WHOLE, Support, exp_down, pair_event, weak
from unacorda.privacy import events

__all__ = ["UnaryEncoding", "bit_sums", "own_bits"]

Variant: TypeAlias = Literal["optimized", "symmetric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryEncoding(PureOracle):
    r"""Send one bit for every category, 1 for the true one, each flipped by itself.

    variant: "optimized" (OUE) sends a fair bit at the true category and ones with odds
    1 : e^epsilon at the others; of all unary encodings it has the least variance for rare
    categories, and the variance does not grow with k. "symmetric" (RAPPOR, the basic, one-time
    form) flips every bit with odds 1 : e^(epsilon/2), since two categories differ in two bits.
    epsilon: above 0, of the whole report; whoever reports the same value again spends it again.
    categories: k, from 2 to 2^30. A report is ceil(k/8) bytes, the bits packed as by
    `numpy.packbits`.
    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), optimized unary encoding; Erlingsson,
    Pihur, Korolova 2014, arXiv:1407.6981 (basic one-time RAPPOR).

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
        if self.variant not in get_args(Variant):
            expected = "'optimized' or 'symmetric'"
            raise InvalidParameter("variant", self.variant, expected=expected)
        FrequencyOracle.__post_init__(self)

    @property
    def event(self) -> events.Event:
        """What one report costs.

        Optimized: it tells two categories apart in half of all cases only. Symmetric: two binary
        answers, of which nothing is lost in composition.
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
        return arguments.packed(reports, categories=self.categories)

    def _count(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        return bit_sums(rows, categories=self.categories)


def own_bits(
    truths: NDArray[np.int64], *, width: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The byte of each report, among all bytes, and the bit in it, that stand for its category."""
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
