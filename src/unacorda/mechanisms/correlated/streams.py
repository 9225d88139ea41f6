"""Prefix sums at work: fed one step at a time, each answered, as many as were paid for."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.errors import StreamStopped
from unacorda.mechanisms.alone import Alone

__all__ = ["Counter", "PrefixStream"]


class Counter(Protocol):
    """What a mechanism does at one step."""

    def read(self, value: ArrayLike) -> NDArray[np.int64]:
        """The value on the grid; InvalidParameter where it has another shape or dtype."""
        ...

    def advance(self, time: int, steps: NDArray[np.int64]) -> Any:
        """The noisy prefix sum at this time, 1 or later; called once for each, in order."""
        ...


@final
class PrefixStream(Alone):
    """Says the noisy sum of all values so far, after each of them.

    Made by the `start` of `BinaryTree` and `SquareRootToeplitz`; safe to use from several threads.
    """

    __slots__ = ("_between", "_counter", "_lock", "_owner", "_steps", "_time")

    def __init__(self, counter: Counter, *, steps: int) -> None:
        self._counter, self._steps, self._time = counter, steps, 0
        self._between = True  # False within a step
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def left(self) -> int:
        """How many values it still takes."""
        return self._steps - self._time

    @property
    def stopped(self) -> bool:
        """Whether it has taken all of its values."""
        return self.left == 0

    def add(self, value: ArrayLike) -> Any:
        """Take the value of the next step, and give the noisy sum of all so far.

        value: a number, or an array of shape (dimension,); NaN counts as 0, values end at 2^56 grid
        steps. Raises StreamStopped after the last step, in a forked process and after an interrupt
        within a step; InvalidParameter for another shape or dtype.
        """
        steps = self._counter.read(value)
        if self._owner != os.getpid():  # before the lock, which a fork may have left closed
            raise StreamStopped(reason="it was started in another process")
        with self._lock:
            if not self._between:  # its sums may hold a value twice
                raise StreamStopped(reason="it was interrupted within a step")
            if self._time == self._steps:
                raise StreamStopped(reason="it has taken all of its steps")
            self._between = False
            self._time += 1
            released = self._counter.advance(self._time, steps)
            self._between = True
            return released

    def __repr__(self) -> str:
        return f"PrefixStream(left={self.left})"
