r"""Prefix sums: the base of their mechanisms, a stream of steps, and the binary tree.

In a binary tree each partial sum of 2^h steps in a row has noise of its own. A step is in at most 1
+ floor(log2 steps) of these sums, and a prefix is the sum of at most as many of them. A stream
never finishes a sum that reaches beyond its last step, and none is released.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter, StreamStopped
from unacorda.mechanisms.correlated.grid import Grid, grid_for, halves
from unacorda.mechanisms.parameters import Real, exponent, positive, quotient, whole
from unacorda.mechanisms.protocol import NonCopyable
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_LARGEST_STEPS: Final = 1 << 40
_LARGEST_DIMENSION: Final = 1 << 30

_END: Final = 1 << 60  # partial sums end here, which moves no two of them apart


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
            grid_log2=exponent(self.grid_log2),
            scale_log2=self._scale_log2,
        )

    @abstractmethod
    def standard_errors(self, steps: int | None = None) -> Floats:
        """Return the standard deviation of the noise in each prefix sum.

        Parameters
        ----------
        steps
            Of the first so many, or of all.

        Returns
        -------
        ndarray
            One number per step.
        """

    def start(self, *, bits: RandomBits | None = None) -> PrefixStream:
        """Start a stream that takes one step at a time.

        Parameters
        ----------
        bits
            By default a secure source.
        """
        return PrefixStream(self, self._counter(source_of(bits)))

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """Release all noisy prefix sums of a stream together, with the distribution of `start`.

        Parameters
        ----------
        values
            Shape (n,), or (n, dimension), n at most `steps`; integers or floats of at most 64 bits.
            NaN counts as 0, values end at 2^56 grid steps.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        alone = self.dimension == 1
        array = elements.numbers(
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
        return self._sums(steps, source_of(bits)).reshape(array.shape)

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
    """A stream of noisy sums of all values so far.

    The method `start` of `BinaryTree` and `SquareRootToeplitz` makes it. It is safe to use from
    several threads.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.mechanisms import BinaryTree
    >>> tree = BinaryTree(sigma=10, l2_sensitivity=1, steps=4)
    >>> stream = tree.start(bits=unacorda.SeededBits(1))
    >>> first = stream.add(120)
    >>> abs(stream.add(80) - 200) < 100, stream.left, stream.stopped
    (True, 2, False)
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
        """The number of values that it still takes."""
        return self._mechanism.steps - self._time

    @property
    def stopped(self) -> bool:
        """Whether it has taken all of its values."""
        return self.left == 0

    def add(self, value: ArrayLike) -> Any:
        """Add the value of the next step, and return the noisy sum of all values so far.

        Parameters
        ----------
        value
            A number, or an array of shape (dimension,). NaN counts as 0. Values are clamped to 2^56
            grid steps.

        Returns
        -------
        float or array
            The noisy sum.

        Raises
        ------
        StreamStopped
            After the last step, in a forked process, and after an interrupt within a step.
        InvalidParameter
            For another shape or dtype.
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
    array = elements.numbers("value", value)
    if array.shape != (() if dimension == 1 else (dimension,)):
        expected = "one number" if dimension == 1 else f"{dimension} numbers, flat"
        raise InvalidParameter("value", array.shape, expected=expected)
    return array.reshape(dimension)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryTree(PrefixSums):
    r"""Release all prefix sums of a stream, each with an error that grows with log(steps) only.

    A stream of `start` keeps O(log steps) numbers.

    Later values may be chosen adaptively.

    Source: Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011; Honaker 2015;
    docs/proofs/correlated.md.

    Parameters
    ----------
    sigma
        Standard deviation of the noise on every partial sum, above 0.
    l2_sensitivity
        The largest l2 norm of a unit's contribution at one step, above 0.
    steps
        The largest number of steps.
    dimension
        Numbers at each step.
    participations, separation
        A unit takes part at most `participations` times, at steps at least `separation` apart.
    honaker
        Estimate a partial sum also from those below it, which costs nothing and reduces the error.
    grid_log2
        Inputs count as the nearest multiples of 2^grid_log2, by default 2^-24 of sensitivity or
        noise; 0 keeps whole numbers whole, up to 2^56. Partial sums end at 2^60 grid steps.

    Examples
    --------
    >>> tree = BinaryTree(sigma=10, l2_sensitivity=1, steps=1000)
    >>> tree.event
    TreeAggregation(noise_multiplier=10, steps=512, participations=1, separation=1)
    >>> tree.release([1, 0, 1, 1]).shape
    (4,)
    """

    honaker: bool = True

    @property
    def event(self) -> events.TreeAggregation:
        """What the whole stream costs.

        A unit that takes part once is in as many finished partial sums as in a tree of the
        largest power of two within `steps`; else the unfinished ones of the top count too.
        """
        once = self.participations == 1 or self.separation >= self.steps
        return events.TreeAggregation(
            noise_multiplier=quotient(self.sigma, self.grid.moved),
            steps=1 << (self.steps.bit_length() - 1) if once else self.steps,
            participations=1 if once else self.participations,
            separation=1 if once else self.separation,
        )

    @property
    def weights(self) -> Floats:
        """How much the noisy sum of 2^h steps counts beside its two halves, for each height h."""
        return _shares(self.honaker, self.steps.bit_length())[0]

    def standard_errors(self, steps: int | None = None) -> Floats:
        """Standard deviation of the noise in each of the first `steps` prefix sums, by default all.

        sigma^2 times the sum of s_h over the binary digits 2^h of the number of steps; s_h = 1,
        or with Honaker's estimate s_0 = 1, s_h = 2 s_{h-1} / (2 s_{h-1} + 1).

        >>> tree = BinaryTree(sigma=10, l2_sensitivity=1, steps=1000, honaker=False)
        >>> tree.standard_errors(4).round(4).tolist()
        [10.0, 10.0, 14.1421, 10.0]
        """
        times = np.arange(1, 1 + self._first(steps))
        variances = np.zeros(times.size)
        for height, share in enumerate(_shares(self.honaker, self.steps.bit_length())[1]):
            variances += np.where((times >> height) & 1, share, 0.0)
        return self.grid.deviation * np.sqrt(variances)

    def _settle(self) -> None:
        checks.boolean(honaker=self.honaker)

    @property
    def _scale_log2(self) -> int:
        return 0

    def _counter(self, bits: RandomBits) -> _Subtrees:
        return _Subtrees(self, bits)

    def _sums(self, steps: Integers, bits: RandomBits) -> Floats:
        grid, sums = self.grid, steps
        times = np.arange(1, 1 + len(sums))
        released = np.zeros(sums.shape)
        best = np.zeros(sums.shape)
        for height, weight in enumerate(self.weights):
            count = len(times) >> height
            if count == 0:
                break
            if height:
                sums = np.clip(sums[0 : 2 * count : 2] + sums[1 : 2 * count : 2], -_END, _END)
                below = best[0 : 2 * count : 2] + best[1 : 2 * count : 2]
                best = _combined(_noisy(sums, grid, bits), below, weight)
            else:
                best = _noisy(sums, grid, bits)
            whole = np.flatnonzero((times >> height) & 1)
            released[whole] += best[(times[whole] >> height) - 1]
        return released


class _Subtrees:
    """One step after the other: sums and estimates of whole subtrees that wait for a sibling."""

    __slots__ = ("_best", "_bits", "_grid", "_sums", "_weights")

    def __init__(self, tree: BinaryTree, bits: RandomBits) -> None:
        self._bits, self._grid, self._weights = bits, tree.grid, tree.weights
        heights = len(self._weights)
        self._sums: list[Integers] = [np.zeros(tree.dimension, np.int64)] * heights
        self._best: list[Floats] = [np.zeros(tree.dimension)] * heights

    def advance(self, time: int, steps: Integers) -> Floats:
        top = (time & -time).bit_length() - 1
        finished = [steps]
        for height in range(top):
            finished.append(np.clip(self._sums[height] + finished[-1], -_END, _END))
        noisy = _noisy(np.array(finished), self._grid, self._bits)
        best = noisy[0]
        for height in range(1, top + 1):
            below = self._best[height - 1] + best
            best = _combined(noisy[height], below, self._weights[height])
        self._sums[top], self._best[top] = finished[-1], best
        released = np.zeros(steps.shape)
        for height in range(time.bit_length()):
            if time >> height & 1:
                released += self._best[height]
        return released


def _noisy(sums: Integers, grid: Grid, bits: RandomBits) -> Floats:
    high, low = halves(sums.reshape(-1))
    return grid.release(high, low, bits=bits).reshape(sums.shape)


def _combined(noisy: Floats, below: Floats, weight: float) -> Floats:
    return noisy if weight == 1 else weight * noisy + (1 - weight) * below


def _shares(honaker: bool, heights: int) -> tuple[Floats, Floats]:  # noqa: FBT001
    """The weights of the heights, and the variances of their estimates in units of sigma^2."""
    weights, shares = [1.0], [1.0]
    for _ in range(heights - 1):
        weight = 2 * shares[-1] / (2 * shares[-1] + 1) if honaker else 1.0
        weights.append(weight)
        shares.append(weight)  # (w, 1 - w) is inverse to the variances 1 and 2 s; the best is w
    return np.array(weights), np.array(shares)
