"""Pairs of finite laws for enumeration: products, mixtures and the hockey-stick divergence."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pair", "largest_delta", "response"]

_Masses = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two laws on one finite set."""

    p: _Masses
    q: _Masses

    @classmethod
    def of(cls, p: Any, q: Any) -> Pair:
        """From lists of masses."""
        return cls(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))

    def __mul__(self, other: Pair) -> Pair:
        """Both, independently."""
        return Pair(np.outer(self.p, other.p).ravel(), np.outer(self.q, other.q).ravel())

    def __pow__(self, count: int) -> Pair:
        """As many independent copies; outcomes of one ratio are put together."""
        found = Pair.of([1.0], [1.0])
        for _ in range(count):
            found = (found * self).joined()
        return found

    def joined(self) -> Pair:
        """The same pair with outcomes of one likelihood ratio as one outcome."""
        shares = np.round(np.arctan2(self.p, self.q), 13)
        _, place = np.unique(shares, return_inverse=True)
        return Pair.of(np.bincount(place, self.p), np.bincount(place, self.q))

    def sampled(self, rate: float) -> Pair:
        """The unit is there with this probability, else the second law holds."""
        return Pair(rate * self.p + (1 - rate) * self.q, self.q)

    def turned(self) -> Pair:
        """The other way round."""
        return Pair(self.q, self.p)

    def delta(self, epsilon: float) -> float:
        """sup over A of P(A) - e^epsilon Q(A)."""
        gaps = self.p - math.exp(epsilon) * self.q
        return math.fsum(gaps[gaps > 0])


def largest_delta(pair: Pair, epsilon: float) -> float:
    """The larger delta of both orders."""
    return max(pair.delta(epsilon), pair.turned().delta(epsilon))


def response(epsilon: float, categories: int = 2) -> Pair:
    """Randomised response of two given categories."""
    whole = math.exp(epsilon) + categories - 1
    high, low = math.exp(epsilon) / whole, 1 / whole
    rest = [low] * (categories - 2)
    return Pair.of([high, low, *rest], [low, high, *rest])
