"""A running sparse vector mechanism, which takes one question at a time until it stops.

Only such an object has the threshold noise. Two holders of one noise would give more answers than
were paid for, so it cannot be copied, pickled or used after a fork.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import StreamStopped
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.noise.continuous import CHUNK
from unacorda.mechanisms.noise.rounding import float_multiples
from unacorda.mechanisms.protocol import NonCopyable
from unacorda.mechanisms.sparse_vector.comparison import (
    Comparison,
    Integers,
    Question,
    question,
    step_of,
    steps_of,
)

LEVELS_AHEAD: Final = 64
"""Threshold noises drawn at once where they are drawn afresh."""

_AHEAD: Final = 64  # noise is drawn for so many questions at once, whatever they are


def search(
    comparison: Comparison,
    values: NDArray[Any],
    *,
    count: int,
    refresh: bool,
    bits: RandomBits,
) -> tuple[Integers, Integers]:
    """The indices of the first `count` questions found above, and their gaps in steps.

    refresh: a new level is drawn after each. No question beyond the chunk of the last one found is
    read, so the time reveals no more than the indices.
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
            # The noise behind the answer has met no level yet whose outcome was released.
            begin += int(above[0]) + 1
            levels.pop()
            if not levels:
                levels = comparison.draw_levels(LEVELS_AHEAD, bits)
        if len(found) == count:
            break
    return np.array(found, dtype=np.int64), np.array(gaps, dtype=np.int64)


def first_above(comparison: Comparison, values: NDArray[Any], *, bits: RandomBits) -> Integers:
    """For many streams, one per row, the index of the first question above, or -1.

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


@final
class ThresholdStream(NonCopyable):
    """A stream of questions, each of which is found above a threshold or not.

    `SparseVector.start` makes it. It is safe to use from several threads.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.mechanisms import SparseVector
    >>> first = SparseVector(epsilon=1, sensitivity=1, threshold=1000)
    >>> stream = first.start(bits=unacorda.SeededBits(1))
    >>> stream.ask(10), stream.ask(2000), stream.stopped
    (False, True, True)
    """

    __slots__ = (
        "_bits",
        "_comparison",
        "_left",
        "_levels",
        "_lock",
        "_noise",
        "_owner",
        "_refresh",
    )

    def __init__(
        self,
        comparison: Comparison,
        *,
        count: int,
        refresh: bool,
        bits: RandomBits,
    ) -> None:
        self._comparison, self._bits, self._refresh = comparison, bits, refresh
        self._left = count
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._levels = comparison.draw_levels(LEVELS_AHEAD if refresh else 1, bits)
        self._noise: list[int] = []

    @property
    def left(self) -> int:
        """The number of answers above the threshold that it may still give."""
        return self._left

    @property
    def stopped(self) -> bool:
        """Whether it has given all answers above the threshold."""
        return self._left == 0

    def ask(self, value: Question) -> bool:
        """Test whether the next question is above the threshold, with noise.

        Parameters
        ----------
        value
            The exact answer, a number of any size. NaN and other values that are no number count as
            0. Values are clamped to 2^60 grid steps.

        Returns
        -------
        bool
            Whether it is found above the threshold.

        Raises
        ------
        StreamStopped
            After the last answer above the threshold, and in a forked process.
        InvalidParameter
            For several values at once.
        """
        return self._gap(value) is not None

    def ask_with_gap(self, value: Question) -> float | None:
        """Test the next question, and return its noisy distance above the threshold.

        It costs no more than `ask`. The noise has mean 0 over all questions. Over those found above
        the threshold it is positive on average, so a gap tends to be too large.

        Parameters
        ----------
        value
            As for `ask`.

        Returns
        -------
        float or None
            None if it is not found above the threshold.

        Raises
        ------
        StreamStopped, InvalidParameter
            As `ask`.
        """
        gap = self._gap(value)
        return None if gap is None else float(float_multiples([gap], self._comparison.grid_log2)[0])

    def _gap(self, value: Question) -> int | None:
        step = step_of(question(value), grid_log2=self._comparison.grid_log2)
        if self._owner != os.getpid():  # before the lock, which a fork may have left closed
            raise StreamStopped(reason="it was started in another process")
        with self._lock:
            if self._left == 0:
                raise StreamStopped(reason="it has given every answer above its threshold")
            if not self._noise:
                self._noise = self._comparison.draw_noise(_AHEAD, self._bits).tolist()
            if not self._levels:
                self._levels = self._comparison.draw_levels(LEVELS_AHEAD, self._bits)
            # Spent before it is used: what is interrupted here is not asked again with it.
            gap = step + self._noise.pop() - self._levels[-1]
            if gap < 0:
                return None
            # In this order: an interrupt between the two leaves one noise with two answers counted,
            # which costs less than two noises with one answer each.
            self._left -= 1
            if self._refresh:
                self._levels.pop()
            return gap

    def __repr__(self) -> str:
        return f"ThresholdStream(left={self._left})"


@final
class NumericStream(NonCopyable):
    """A stream of questions, of which those above a threshold are answered with a number.

    `NumericSparse.start` makes it. It is safe to use from several threads.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.mechanisms.sparse_vector import NumericSparse
    >>> search = NumericSparse(epsilon=1, count=4, sensitivity=1, threshold=1000)
    >>> stream = search.start(bits=unacorda.SeededBits(1))
    >>> stream.ask(10) is None, abs(stream.ask(5000) - 5000) < 500, stream.left
    (True, True, 3)
    """

    __slots__ = ("_answers", "_bits", "_search")

    def __init__(
        self, search: ThresholdStream, *, answers: Laplace | Gaussian, bits: RandomBits
    ) -> None:
        self._search, self._answers, self._bits = search, answers, bits

    @property
    def left(self) -> int:
        """The number of answers that it may still give."""
        return self._search.left

    @property
    def stopped(self) -> bool:
        """Whether it has given all of its answers."""
        return self._search.stopped

    def ask(self, value: Question) -> float | None:
        """Answer the next question with fresh noise if it is found above the threshold.

        Parameters
        ----------
        value
            As for `ThresholdStream.ask`.

        Returns
        -------
        float or None
            None if it is not found above the threshold.

        Raises
        ------
        StreamStopped, InvalidParameter
            As `ThresholdStream.ask`.
        """
        exact: Any = question(value)
        if not self._search.ask(exact):
            return None
        return float(self._answers.release(exact, bits=self._bits))

    def __repr__(self) -> str:
        return f"NumericStream(left={self.left})"
