"""A stream heard at once: which of its questions are found above, and how far."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.certified import CHUNK
from unacorda.mechanisms.sparse_vector.grid import Integers, steps_of

__all__ = ["LEVELS_AHEAD", "NoisyComparison", "first_above", "search"]

LEVELS_AHEAD: Final = 64
"""Threshold noises drawn at once where they are drawn afresh."""


class NoisyComparison(Protocol):
    """A question is above where its step and fresh noise reach the level with its own noise."""

    @property
    def grid_log2(self) -> int:
        """Values count as multiples of 2^grid_log2."""
        ...

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in one comparison, in the unit of the questions."""
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


def first_above(comparison: NoisyComparison, values: NDArray[Any], *, bits: RandomBits) -> Integers:
    """Of many streams, one a row, each heard until one question is above: its index, or -1.

    Every row has a level of its own and fresh noise, as in `search` with a count of 1.
    """
    rows, asked = values.shape
    found = np.full(rows, -1, dtype=np.int64)
    many = max(1, CHUNK // max(asked, 1))
    for start in range(0, rows, many):
        part = values[start : start + many]
        levels = np.array(comparison.draw_levels(len(part), bits), dtype=np.int64)
        noisy = comparison.draw_noise(part.size, bits).reshape(part.shape)
        noisy += steps_of(part, grid_log2=comparison.grid_log2)
        above = noisy >= levels[:, None]
        some = np.flatnonzero(above.any(axis=1))
        found[start + some] = above[some].argmax(axis=1)
    return found
