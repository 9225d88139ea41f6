"""Coins whose probability is any real number, exactly, many at once.

64 bits of a uniform number are compared with the first 64 of the probability; where they are
equal, one time in 2^64, more bits of both decide.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.refine import LazyUniform

__all__ = ["Coin", "coin"]

Bounds: TypeAlias = Callable[[int], tuple[int, int]]
"""For a number of places integers with low <= probability 2^places <= high."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coin:
    """A coin that shows heads with one probability, which `coin` makes from brackets of it.

    first: the first 64 bits of the probability, 2^64 where it is 1.
    """

    first: int
    bounds: Bounds

    def toss(self, count: int, bits: RandomBits) -> NDArray[np.bool_]:
        """``count`` independent tosses, True for heads; each takes one word."""
        words = bits.words(count)
        if self.first >> 64:
            return np.ones(count, dtype=np.bool_)
        heads: NDArray[np.bool_] = words < np.uint64(self.first)
        for place in np.flatnonzero(words == np.uint64(self.first)).tolist():
            heads[place] = self._decide(LazyUniform(self.first, length=64, bits=bits))
        return heads

    def _decide(self, uniform: LazyUniform) -> bool:
        while True:
            low, high = self.bounds(uniform.length)
            if uniform.value + 1 <= low:
                return True
            if uniform.value >= high:
                return False
            uniform.extend()


def coin(bounds: Bounds) -> Coin:
    """The coin of a probability in [0, 1] that can be bracketed as closely as is asked."""
    places = 128
    while True:
        low, high = (end >> places - 64 for end in bounds(places))
        if low == high:
            return Coin(first=low, bounds=bounds)
        places *= 2
