r"""Finding, on a public grid, the first point whose removal loss is about a target.

Losses fall along the grid; the last point is never judged, it is the answer where no other is. Let
m be the number of points, t the target, l_i the loss at point i. What is proved of an answer i,
with probabilities from the law of the noise (docs/proofs/adaptive_shifted_inverse.md):

- `overshoot(t)`: l_{i-1} = 0, so that f may be at most the point before, has at most this
  probability; otherwise the answer is at most f rounded up to the grid.
- `people(t, miss)`: l_i is at most this number but for probability `miss`; otherwise f of the
  data without so many people is at most the answer (unless it is the last point).

**Ascending.** AboveThreshold with questions -l_i, i = 0, 1, ...: point i is taken where
l_i <= L + nu_i - rho, rho and nu_i geometric of scales s_T and s_Q. With p = e^{-1/s_T} and
q = e^{-1/s_Q}: the first point of loss 0 is passed only where rho - nu > L there, which has
probability p^{L+1} (1 - q) / (1 - p q); and a point of loss L + c or more is taken only where
some nu_j - rho >= c, of probability at most sum over rho of (1 - p) p^rho min(1, m q^{rho + c}).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.sparse_vector.streams import first_above
from unacorda.mechanisms.sparse_vector.threshold import SparseVector
from unacorda.privacy import events

__all__ = ["MOST_PEOPLE", "Ascending", "Integers", "Solver", "least_whole"]

Integers: TypeAlias = NDArray[np.int64]
Real: TypeAlias = float | Fraction

MOST_PEOPLE: Final = 2**40
_STEEP: Final = Fraction(2000)
_UP: Final = 1 + 2.0**-30  # raises a probability by more than float64 has lost in it


class Solver(Protocol):
    """A way to find the point; epsilon or noise and the number of points are its fields."""

    @property
    def event(self) -> events.Event:
        """What one search costs."""
        ...

    def overshoot(self, target: int) -> float:
        """An upper bound on the probability that the answer is above f rounded up to the grid."""
        ...

    def people(self, target: int, *, miss: float) -> int:
        """How many people have to go, but for a probability, until f is at most the answer."""
        ...

    def choose(self, losses: Integers, *, target: int, bits: RandomBits) -> int:
        """The index of the answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascending:
    """AboveThreshold from the first point upwards.

    monotone: between two neighbours all losses move the same way; bounded_range: monotone losses
    with the noise of the general case, for the event of the exponential mechanism.
    Source: Lyu, Su, Li 2017, Algorithm 7; docs/proofs/sparse_vector.md, Theorems 1 and 2.
    """

    epsilon: Real
    points: int
    monotone: bool
    bounded_range: bool = False

    @property
    def event(self) -> events.Event:
        """What one search costs."""
        return self._search(0).event

    def overshoot(self, target: int) -> float:
        """P(rho - nu > L)."""
        level, a, b = self._law(target)
        if level >= 0:
            return min(1.0, _UP * _both(level + 1, a, b))
        return min(1.0, _UP * (1 - _both(-level, b, a)) + 2.0**-50)

    def people(self, target: int, *, miss: float) -> int:
        """The largest loss that is found but for the probability."""
        level, a, b = self._law(target)
        asked = math.log(self.points - 1)

        def covers(c: int) -> bool:
            # Of one more than `sure` steps of rho, some of the points may be found for certain.
            sure = max(0, math.ceil(asked / b) - c)
            rest = math.exp(max(asked - b * (c + sure), -700.0))
            return _UP * (-math.expm1(-a * sure) + rest * _both(sure, a, b, a)) <= miss

        return max(level + least_whole(covers) - 1, 0)

    def choose(self, losses: Integers, *, target: int, bits: RandomBits) -> int:
        """The index of the answer."""
        search = self._search(target)
        found = search.release(-losses[:-1], bits=bits)
        return int(found[0]) if found.size else losses.size - 1

    def choose_rows(self, losses: Integers, *, target: int, bits: RandomBits) -> Integers:
        """The indices of the answers to many questions, each a row."""
        comparison = self._search(target).comparison
        found = first_above(comparison, -losses[:, :-1], bits=bits)
        return np.where(found < 0, losses.shape[1] - 1, found)

    def _search(self, target: int) -> SparseVector:
        # On whole numbers, as losses are: a grid of step 1.
        return SparseVector(
            epsilon=self.epsilon,
            sensitivity=1,
            threshold=-target,
            monotone=self.monotone or self.bounded_range,
            refresh=self.bounded_range,
            grid_log2=0,
        )

    def _law(self, target: int) -> tuple[int, float, float]:
        """L, 1 / s_T and 1 / s_Q."""
        comparison = self._search(target).comparison
        a, b = 1 / comparison.threshold_scale, 1 / comparison.query_scale
        # e^-2000 is 0 among floats: a larger rate changes nothing, and may be too large for one
        return -comparison.level, float(min(Fraction(a), _STEEP)), float(min(Fraction(b), _STEEP))


def least_whole(holds: Callable[[int], bool]) -> int:
    """The least whole number, 0 or above, from which a condition holds."""
    high = 1
    while not holds(high):
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _both(k: int, a: float, b: float, numerator: float | None = None) -> float:
    """e^{-a k} (1 - e^{-n}) / (1 - e^{-a-b}); n = b: P(rho - nu >= k) for k >= 0."""
    other = b if numerator is None else numerator
    return math.exp(max(-a * k, -700.0)) * math.expm1(-other) / math.expm1(-a - b)
