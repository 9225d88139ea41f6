"""Random decisions of many lines at once: even numbers below bounds, and biased coins, exactly."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.refine import LazyUniform, exp_bounds

__all__ = ["accepts", "below_each"]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SLACK = 2.0**-46  # far above the error of an exponential in float64


def below_each(bounds: Integers, bits: RandomBits) -> Integers:
    """Whole numbers that are uniform on {0, ..., bound - 1}, one for each bound."""
    limits = bounds.astype(np.uint64)
    spare = (np.uint64(0) - limits) % limits  # 2^64 modulo the bound: so many words are left over
    found, open_ = np.zeros(len(limits), np.uint64), np.flatnonzero(limits > 1)
    while len(open_):
        words = bits.words(len(open_))
        taken = words >= spare[open_]
        found[open_[taken]] = words[taken] % limits[open_[taken]]
        open_ = open_[~taken]
    return found.astype(np.int64)


def accepts(excess: Any, factor: Fraction, bits: RandomBits) -> Flags:
    """Coins that show heads with probability e^(-factor excess), exactly, one for each excess."""
    heads: Flags = np.asarray(excess == 0, dtype=np.bool_)
    tossed = np.flatnonzero(~heads)
    words = bits.words(len(tossed))
    with np.errstate(under="ignore", over="ignore"):
        chances = np.exp(-float(factor) * np.asarray(excess[tossed], dtype=np.float64))
    uniform = words * 2.0**-64
    heads[tossed] = uniform < chances
    for place in np.flatnonzero(np.abs(uniform - chances) < _SLACK).tolist():
        number = LazyUniform(int(words[place]), length=64, bits=bits)
        heads[tossed[place]] = _decided(number, -factor * int(excess[tossed[place]]))
    return heads


def _decided(uniform: LazyUniform, exponent: Fraction) -> bool:
    """Whether a uniform number is below e^exponent."""
    while True:
        low, high = exp_bounds(exponent, uniform.places)
        spare = uniform.places - uniform.length
        if uniform.value + 1 << spare <= low:
            return True
        if uniform.value << spare >= high:
            return False
        uniform.extend()
