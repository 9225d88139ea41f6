r"""Sums of totals without a bound by a race of clipping levels.

The totals are clipped at each of L public levels that double, each sum gets noise for its share of
epsilon and is lowered by so much that none is likely to be above the true sum; the greatest of
them is released. All L levels are paid for.
Source: Dong, Fang, Yi, Tao, Machanavajjhala 2022 (race to the top).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.adaptive.found_clipping import (
    STEPS,
    ClippedSum,
    check_levels,
    check_neighbors_of_sums,
    check_part,
    steps_at,
)
from unacorda.mechanisms.adaptive.records import clamped
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.mechanisms.intervals import confident
from unacorda.privacy import events
from unacorda.privacy.events import fields
from unacorda.privacy.neighbors import AddRemove, Neighbors

__all__ = ["RaceToTheTop"]

Real: TypeAlias = float | Fraction

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceToTheTop:
    """The sum of non-negative totals by a race of all clipping levels 1, 2, 4, ... of a unit.

    With probability `confidence` or more it is at most the true sum, rounded; and, where all totals
    are at most `largest`, with twice the miss it is below it by no more than
    4 L ln(L / (1 - confidence)) / epsilon times the largest total or the unit, L the number of
    levels. For comparison: `FoundClipping` errs less.

    epsilon: of everything, under pure privacy; largest: public, where the levels end, above unit;
    unit: the first level, above 0; neighbors: AddRemove or ReplaceOne.
    Source: Dong, Fang, Yi, Tao, Machanavajjhala 2022, Theorem 5.1.

    >>> from unacorda.bits import SeededBits
    >>> race = RaceToTheTop(epsilon=1, largest=10**9)
    >>> len(race.levels)
    31
    >>> race.release(range(2000), bits=SeededBits(1)).value < sum(range(2000))
    True
    """

    epsilon: Real
    largest: Number
    unit: Number = 1
    neighbors: Neighbors = AddRemove
    confidence: Number = Fraction(9, 10)

    def __post_init__(self) -> None:
        check_neighbors_of_sums(self.neighbors)
        fields.keep(self, epsilon=fields.positive("epsilon", self.epsilon))
        for name in ("unit", "largest"):
            fields.keep(self, **{name: checks.exact(name, getattr(self, name))})
        if self._first <= 0:
            raise InvalidParameter("unit", self.unit, expected="a number above 0")
        if checks.exact("largest", self.largest) <= self._first:
            raise InvalidParameter("largest", self.largest, expected=f"a number above {self.unit}")
        check_levels("largest", (self._first, checks.exact("largest", self.largest)))
        confident(self.confidence)
        check_part("epsilon", self.epsilon, Fraction(1, len(self.levels)))

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """The unit doubled until it is `largest` or more."""
        ratio = math.ceil(checks.exact("largest", self.largest) / self._first)
        return tuple(self._first * 2**k for k in range((ratio - 1).bit_length() + 1))

    @property
    def event(self) -> events.Event:
        """What one release costs: a noisy sum at every level."""
        return self._noise.event * len(self.levels)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> ClippedSum:
        """The noisy sum that came out highest, or 0. Values and refusals as `FoundClipping`."""
        totals = clamped(values, lower=0.0, upper=None)
        levels, noise = self.levels, self._noise
        noisy = noise.release_exact(
            [steps_at(totals, float(level)) for level in levels], bits=bits or _SECURE
        )
        fall = self._fall
        values_at = [
            (level * (steps - fall) / STEPS, level)
            for steps, level in zip(noisy, levels, strict=True)
        ]
        value, level = max(values_at)
        deviation = noise.standard_deviation * float(level / STEPS)
        return ClippedSum(
            value=max(float(value), 0.0),
            level=float(level),
            reached=level < levels[-1],
            standard_deviation=deviation,
        )

    @property
    def _first(self) -> Fraction:
        return checks.exact("unit", self.unit)

    @property
    def _noise(self) -> DiscreteLaplace:
        each = checks.exact("epsilon", self.epsilon) / len(self.levels)
        return DiscreteLaplace(scale=STEPS / each, l1_sensitivity=STEPS)

    @property
    def _fall(self) -> int:
        """What each noisy sum is lowered by: X is above it with probability miss / L or less."""
        odds = len(self.levels) / (1 - confident(self.confidence))
        log = math.log(odds.numerator) - math.log(odds.denominator)
        return math.ceil(float(self._noise.scale) * log * (1 + 2.0**-40))
