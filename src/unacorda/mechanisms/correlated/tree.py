r"""Prefix sums by a binary tree: each partial sum of 2^h steps in a row has noise of its own.

A step is in at most 1 + floor(log2 steps) of these sums, and a prefix is the sum of at most as
many of them. A stream never finishes a sum that reaches beyond its last step, and none is released.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated.grid import Grid, halves
from unacorda.mechanisms.correlated.prefix_sums import PrefixSums
from unacorda.mechanisms.parameters import quotient
from unacorda.privacy import events

__all__ = ["BinaryTree"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_END: Final = 1 << 60  # partial sums end here, which moves no two of them apart


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryTree(PrefixSums):
    r"""Release all prefix sums of a stream, each with an error that grows with log(steps) only.

    sigma: standard deviation of the noise on every partial sum, above 0; l2_sensitivity: the l2
    norm of what a unit gives at one step, above 0; steps: the most that will come; dimension:
    numbers at each step; a unit takes part at most `participations` times, at steps at least
    `separation` apart. honaker: estimate a partial sum from those below it too, which costs nothing
    and lessens the error. grid_log2: inputs count as the nearest multiples of 2^grid_log2, by
    default 2^-24 of sensitivity or noise; 0 keeps whole numbers whole, up to 2^56. Partial sums end
    at 2^60 grid steps. A stream of `start` keeps O(log steps) numbers.

    Later values may be chosen after seeing earlier answers.
    Source: Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011; Honaker 2015;
    docs/proofs/correlated.md.

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
        if not isinstance(self.honaker, bool):
            raise InvalidParameter("honaker", self.honaker, expected="True or False")

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
