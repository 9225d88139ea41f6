"""Vectorised draws for reports: uniform integers and biased bits, exact to the last chance."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits

__all__ = ["CHUNK", "below", "biased_bytes", "chunks", "halves"]

CHUNK: Final = 1 << 15
"""Values handled at once: what a few arrays of them need fits in the cache."""

_TOGETHER: Final = 6  # bits compared in all lanes before the decided words are set aside
_FEW: Final = 512  # words that are compared to the last bit, so that time tells nothing
_LOW_HALF: Final = np.uint64((1 << 32) - 1)


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
