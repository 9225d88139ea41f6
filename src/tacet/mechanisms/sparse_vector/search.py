"""A stream heard at once: which of its questions are found above, and how far."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tacet.bits import RandomBits
from tacet.mechanisms.certified import CHUNK
from tacet.mechanisms.sparse_vector.grid import Integers, steps_of

__all__ = ["LEVELS_AHEAD", "NoisyComparison", "search"]

LEVELS_AHEAD: Final = 64
"""Threshold noises drawn at once where they are drawn afresh."""


class NoisyComparison(Protocol):
    """A question is above where its step and fresh noise reach the level with its own noise."""

    @property
    def grid_log2(self) -> int:
        """Values count as multiples of 2^grid_log2."""
        ...

    def draw_levels(self, count: int, bits: RandomBits) -> list[int]:
        """The level with noise, `count` times, in steps."""
        ...

    def draw_noise(self, count: int, bits: RandomBits) -> Integers:
        """Query noise for `count` questions, in steps."""
        ...


def search(
    comparison: NoisyComparison,
    values: NDArray[Any],
    *,
    count: int,
    refresh: bool,
    bits: RandomBits,
) -> tuple[Integers, Integers]:
    """The indices of the first `count` questions found above, and their gaps in steps.

    refresh: a new level is drawn after each. No question after the last found is looked at beyond
    its chunk, so the time taken says no more than the indices do.
    """
    levels = comparison.draw_levels(1, bits)
    found: list[int] = []
    gaps: list[int] = []
    for start in range(0, values.size, CHUNK):
        part = values[start : start + CHUNK]
        noisy = comparison.draw_noise(part.size, bits)
        noisy += steps_of(part, grid_log2=comparison.grid_log2)
        begin = 0
        while begin < part.size and len(found) < count:
            above = np.flatnonzero(noisy[begin:] >= levels[-1])[: count - len(found)]
            above = above[:1] if refresh else above
            found += (above + (start + begin)).tolist()
            gaps += (noisy[above + begin] - levels[-1]).tolist()
            if not refresh or above.size == 0:
                break
            # The noise behind the answer has met no level yet whose outcome was told.
            begin += int(above[0]) + 1
            levels.pop()
            if not levels:
                levels = comparison.draw_levels(LEVELS_AHEAD, bits)
        if len(found) == count:
            break
    return np.array(found, dtype=np.int64), np.array(gaps, dtype=np.int64)
