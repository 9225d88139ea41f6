"""Prefix sums: what mechanisms for them share, and a stream that is fed one step at a time."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter, StreamStopped
from unacorda.mechanisms.correlated.grid import Grid, grid_for, numbers_of
from unacorda.mechanisms.parameters import Real, keep, positive, whole
from unacorda.mechanisms.protocol import NonCopyable
from unacorda.privacy import events

__all__ = ["Counter", "PrefixStream", "PrefixSums"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_SECURE = SecureBits()
_LARGEST_STEPS: Final = 1 << 40
_LARGEST_DIMENSION: Final = 1 << 30
_GRID_REACH: Final = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixSums(ABC):
    """A mechanism for all prefix sums of a stream.

    sigma: standard deviation of the noise, above 0; l2_sensitivity: the l2 norm of what a unit
    gives at one step, above 0; steps: the most that will come; dimension: numbers at each step; a
    unit takes part at most `participations` times, at steps at least `separation` apart;
    grid_log2: inputs count as the nearest multiples of 2^grid_log2.
    """

    sigma: Real
    l2_sensitivity: Real
    steps: int
    dimension: int = 1
    participations: int = 1
    separation: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        keep(
            self,
            sigma=positive("sigma", self.sigma),
            l2_sensitivity=positive("l2_sensitivity", self.l2_sensitivity),
            steps=whole("steps", self.steps, least=1, most=_LARGEST_STEPS),
            dimension=whole("dimension", self.dimension, least=1, most=_LARGEST_DIMENSION),
            participations=whole(
                "participations", self.participations, least=1, most=_LARGEST_STEPS
            ),
            separation=whole("separation", self.separation, least=1, most=_LARGEST_STEPS),
        )
        if self.grid_log2 is not None:
            reach = {"least": -_GRID_REACH, "most": _GRID_REACH}
            keep(self, grid_log2=whole("grid_log2", self.grid_log2, **reach))
        self._settle()
        keep(self, grid_log2=self.grid.input_log2)

    @property
    @abstractmethod
    def event(self) -> events.Event:
        """What the whole stream costs."""

    @property
    def grid(self) -> Grid:
        """The public numbers of the release."""
        return grid_for(
            sigma=checks.exact("sigma", self.sigma),
            sensitivity=checks.exact("l2_sensitivity", self.l2_sensitivity),
            dimension=self.dimension,
            grid_log2=self.grid_log2,
            scale_log2=self._scale_log2,
        )

    @abstractmethod
    def standard_errors(self, steps: int | None = None) -> Floats:
        """Standard deviation of the noise in each of the first `steps` prefix sums, or all."""

    def start(self, *, bits: RandomBits | None = None) -> PrefixStream:
        """A stream that is fed one step at a time."""
        return PrefixStream(self, self._counter(bits or _SECURE))

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """The noisy prefix sums of a whole stream, in one go; the law is that of `start`.

        values: shape (n,), or (n, dimension), n at most `steps`; integers or floats of at most 64
        bits. NaN counts as 0, values end at 2^56 grid steps. Raises InvalidParameter for another
        shape or dtype.
        """
        alone = self.dimension == 1
        array = numbers_of(
            "values",
            values,
            dimensions=1 if alone else 2,
            width=None if alone else self.dimension,
        )
        expected = "at most `steps` values" + ("" if alone else " of `dimension` numbers each")
        inner = () if alone else (self.dimension,)
        if array.ndim == 0 or array.shape[1:] != inner or array.shape[0] > self.steps:
            raise InvalidParameter("values", array.shape, expected=f"the shape of {expected}")
        steps = self.grid.steps(array.reshape(array.shape[0], self.dimension))
        return self._sums(steps, bits or _SECURE).reshape(array.shape)

    def _first(self, steps: int | None) -> int:
        """How many prefix sums are meant, by default all; InvalidParameter beyond them."""
        return whole("steps", self.steps if steps is None else steps, least=0, most=self.steps)

    @abstractmethod
    def _settle(self) -> None:
        """Check and fix the fields that this mechanism alone has."""

    @property
    @abstractmethod
    def _scale_log2(self) -> int:
        """Released combinations have coefficients that are multiples of 2^-_scale_log2."""

    @abstractmethod
    def _counter(self, bits: RandomBits) -> Counter:
        """What runs in a stream."""

    @abstractmethod
    def _sums(self, steps: Integers, bits: RandomBits) -> Floats:
        """The noisy prefix sums of rows on the grid."""


class Counter(Protocol):
    """What a mechanism does at one step."""

    def advance(self, time: int, steps: Integers) -> Floats:
        """The noisy prefix sum at this time, 1 or later; called once for each, in order."""
        ...


@final
class PrefixStream(NonCopyable):
    """Says the noisy sum of all values so far, after each of them.

    Made by the `start` of `BinaryTree` and `SquareRootToeplitz`; safe to use from several threads.
    """

    __slots__ = ("_between", "_counter", "_grid", "_lock", "_mechanism", "_owner", "_time")

    def __init__(self, mechanism: PrefixSums, counter: Counter) -> None:
        self._mechanism, self._counter, self._time = mechanism, counter, 0
        self._grid = mechanism.grid
        self._between = True  # False within a step
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def left(self) -> int:
        """How many values it still takes."""
        return self._mechanism.steps - self._time

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
        steps = self._grid.steps(_one_step(value, dimension=self._mechanism.dimension))
        if self._owner != os.getpid():  # before the lock, which a fork may have left closed
            raise StreamStopped(reason="it was started in another process")
        with self._lock:
            if not self._between:  # its sums may hold a value twice
                raise StreamStopped(reason="it was interrupted within a step")
            if self.stopped:
                raise StreamStopped(reason="it has taken all of its steps")
            self._between = False
            self._time += 1
            released = self._counter.advance(self._time, steps)
            self._between = True
        return released if self._mechanism.dimension > 1 else float(released[0])

    def __repr__(self) -> str:
        return f"PrefixStream(left={self.left})"


def _one_step(value: ArrayLike, *, dimension: int) -> NDArray[Any]:
    """The value of one step, of shape (dimension,); InvalidParameter for another shape or dtype."""
    array = numbers_of("value", value)
    if array.shape != (() if dimension == 1 else (dimension,)):
        expected = "one number" if dimension == 1 else f"{dimension} numbers, flat"
        raise InvalidParameter("value", array.shape, expected=expected)
    return array.reshape(dimension)
