"""The public grid on which values are counted and answers are sought."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.rounding import floor_log2

__all__ = ["Grid"]

_EXACT_LOG2: Final = 52  # float64 holds all multiples of the grid up to that many steps
_REACH: Final = 1000


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of 2^log2 from first 2^log2 to last 2^log2; a step is one of them."""

    first: int
    last: int
    log2: int

    @staticmethod
    def within(
        lower: Fraction, upper: Fraction, log2: int | None, *, reach: Fraction = Fraction(0)
    ) -> Grid:
        """The grid of an interval, lower < upper; as fine as float64 holds where log2 is None.

        reach: of the largest number that has to be held too. Raises InvalidParameter for a log2
        that float64 does not hold, or of which no multiple needs to be in the interval.
        """
        coarsest = min(floor_log2(upper - lower), _REACH)
        finest = max(floor_log2(max(abs(lower), abs(upper), reach)) - _EXACT_LOG2, -_REACH)
        if log2 is None:
            log2 = min(finest, coarsest)
        elif isinstance(log2, bool) or not isinstance(log2, int | np.integer):
            raise InvalidParameter("grid_log2", log2, expected="a whole number")
        elif not finest <= log2 <= coarsest:
            raise InvalidParameter("grid_log2", log2, expected=f"from {finest} to {coarsest}")
        step = Fraction(2) ** int(log2)
        return Grid(ceil(lower / step), floor(upper / step), int(log2))

    @staticmethod
    def around(lower: Fraction, upper: Fraction, log2: int) -> Grid:
        """The grid of an interval, widened to the next multiples."""
        step = Fraction(2) ** log2
        return Grid(floor(lower / step), ceil(upper / step), log2)

    @property
    def size(self) -> int:
        """How many steps there are."""
        return self.last - self.first + 1

    def steps(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest step to each value; NaN counts as 0, what lies outside as the nearer end."""
        known = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.rint(np.ldexp(known, -self.log2))
        return np.clip(scaled, self.first, self.last).astype(np.int64)

    def point(self, step: int) -> float:
        """The number at a step, exactly."""
        return float(np.ldexp(float(step), self.log2))

    def nearest(self, value: Fraction) -> int:
        """The nearest step to an exact number, the upper of two; within the ends."""
        return min(
            max(floor(value / Fraction(2) ** self.log2 + Fraction(1, 2)), self.first), self.last
        )
