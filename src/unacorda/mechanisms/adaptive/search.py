r"""Noisy searches of a grid by halving: few losses are asked for, each with noise of its own.

The first point whose loss is at most a target lies in (low, high], at first low = -1 and high =
m - 1, the last point, which is the answer where no other is and is never asked. A question halves
this, so with m points there are at most ceil(log2 m) questions, and this number is what the event
counts. (To begin at low = 0, as published, never answers with the first point, and the count
log2 m, unrounded, is less than what is asked: 3 questions for m = 6, not 2.585.)

With k questions and P(|X| <= w for all of them) >= 1 - miss: a point that is judged above the
target has loss > t - w, one that is judged at most the target has loss <= t + w. So with t >= w the
answer is at most f rounded up to the grid, and t + w people are enough.

Questions are chosen after earlier answers; each is noise added to an integer of sensitivity 1,
under every neighbouring relation, so their composition is the event.
Source: Fang, Dong, Yi 2022; docs/proofs/adaptive_shifted_inverse.md (the correction).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from unacorda.bits import RandomBits
from unacorda.mechanisms.adaptive.solvers import Integers
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.privacy import events

__all__ = ["BinarySearch", "questions_of"]


def questions_of(points: int) -> int:
    """How many questions find one of so many points at worst: ceil(log2 points), at least 1."""
    return max((points - 1).bit_length(), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinarySearch:
    """Halve the interval with one question at a time; noise: of one question."""

    noise: DiscreteLaplace | DiscreteGaussian
    points: int

    @property
    def queries(self) -> int:
        """How many questions are paid for."""
        return questions_of(self.points)

    @property
    def event(self) -> events.Event:
        """What one search costs."""
        return self.noise.event * self.queries

    def overshoot(self, target: int) -> float:
        """Some noise is above the target."""
        return min(1.0, self.queries * _tail(self.noise, target + 1))

    def people(self, target: int, *, miss: float) -> int:
        """The largest loss that is judged at most the target but for the probability."""
        # Both tails of each question together miss twice what one of them does.
        each = 1 - 2 * Fraction(miss) / self.queries
        return target + (self.noise.interval(each) if each > 0 else 0)

    def choose(self, losses: Integers, *, target: int, bits: RandomBits) -> int:
        """The index of the answer."""
        low, high = -1, losses.size - 1
        noise = self.noise.release_exact([0] * self.queries, bits=bits)
        while high - low > 1:
            middle = (low + high) // 2
            noisy = int(losses[middle]) + noise.pop()
            low, high = (low, middle) if noisy <= target else (middle, high)
        return high


def _tail(noise: DiscreteLaplace | DiscreteGaussian, reach: int) -> float:
    """P(X >= reach) for reach >= 1, or an upper bound on it."""
    if isinstance(noise, DiscreteLaplace):
        # e^{-reach/s} / (1 + e^{-1/s}).
        rate = float(1 / Fraction(noise.scale))
        return (1 + 2.0**-30) * math.exp(max(-rate * reach, -700.0)) / (1 + math.exp(-rate))
    # Its moment generating function is below that of the normal of this sigma.
    ratio = reach / float(noise.sigma)
    return (1 + 2.0**-30) * math.exp(max(-ratio * ratio / 2, -700.0))
