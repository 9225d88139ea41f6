"""Noisy means of functions of a row, over arrays or a table.

Rows have whitened features, a target and a weight of their own. Each release below has a bound that
is enforced row by row in the sum, so no loss and no step can exceed the sensitivity that the noise
is for.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

from unacorda.inference.records import Floats
from unacorda.inference.sums import BudgetShares
from unacorda.privacy import events


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """The arguments of a function of a row: arrays of a block of rows, or symbols.

    prediction: a theta, where a theta is given; square: |a|^2 of the whitened row; own: the weight
    that the caller gave, 1 by default, and 0 where a number is missing.
    """

    prediction: Any
    target: Any
    square: Any
    own: Any

    def weight(self, square_radius: float) -> Any:
        """The own weight times min(1, R^2 / |a|^2); the own weight alone for an infinite R^2."""
        if math.isinf(square_radius):
            return self.own
        return self.own * (square_radius / np.maximum(self.square, square_radius))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Of the target: y becomes (y - middle) / half."""

    middle: float
    half: float

    def of(self, target: Any) -> Any:
        """The target in this unit."""
        return (target - self.middle) / self.half


Value: TypeAlias = Callable[[RowBlock], Any]
"""A number of each row. NaN counts as 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OctaveCounts:
    """Counts of a number in bins below `first`, between edges per_octave an octave, and above.

    Rows count their own weight. There are `bins` edges.
    """

    of: Value
    first: float
    per_octave: int
    bins: int
    share: Fraction

    @property
    def edges(self) -> Floats:
        """The edges, rising."""
        return self.first * 2.0 ** (np.arange(self.bins) / self.per_octave)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The mean of a number within [0, bound]."""

    of: Value
    bound: float
    share: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """The mean of v a, where |v a| > bound shortened to it."""

    of: Value
    bound: float
    share: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The mean of v a a^T, |v| |a|^2 at most bound; a negative v counts as 0 unless signed."""

    of: Value
    bound: float
    share: Fraction
    signed: bool = False


Release: TypeAlias = OctaveCounts | Total | Gradient | Matrix

GRADIENT: Final = 2.0
MATRIX: Final = 2**0.5
"""Distances of two records of bound 1, one of which replaces the other; for plans alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Released counts, one more than edges, and the deviation of the noise of each."""

    edges: Floats
    counts: Floats
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A released vector of means, and the deviation of the noise of each number."""

    values: Floats
    deviation: float


@dataclass(slots=True, kw_only=True, repr=False)
class Rows(ABC):
    """Private rows of people; each mean that is released is paid from its share of mu^2.

    back: coefficients of (1, features) are back @ coefficients of the whitened rows; repeated: how
    many rows a unit may have; replaced: whether neighbors differ by a replaced unit, not by an
    added or removed one; protects: the privacy unit, in words.
    """

    sums: BudgetShares
    back: Floats
    repeated: int = 1
    replaced: bool = True
    protects: str = "one row replaced"

    @property
    def size(self) -> int:
        """The number of parameters: an intercept and one per feature."""
        return len(self.back)

    @property
    def number(self) -> float:
        """The number of rows, or the sum of their weights; public or released."""
        return self.sums.number

    @property
    def number_error(self) -> float:
        """The deviation of the noise in that."""
        return self.sums.number_error

    @property
    def left(self) -> float:
        """The share of mu^2 that is left."""
        return float(self.sums.left)

    @property
    def event(self) -> events.Event:
        """The event of all releases so far."""
        return self.sums.event

    def noise(self, distance: float, bound: float, share: float) -> float:
        """About the deviation of each number of a mean, before its release.

        distance: `GRADIENT` or `MATRIX`, of two records of bound 1.
        """
        mu = math.sqrt(float(self.sums.budget.mu_squared) * share)
        apart = distance if self.replaced else 1.0
        return self.repeated * apart * bound / (self.number * mu)

    def standardize(self, means: Floats, spread: Floats) -> None:
        """Turn the rows into (1, (u - mean) / spread)."""
        root = np.diag(np.concatenate([[1.0], 1 / spread]))
        root[0, 1:] = -means / spread
        self.transform(root)

    @abstractmethod
    def feature_means(self, share: Fraction) -> Released:
        """Means of the features in half widths of their bounds, each clipped to [-1, 1]."""

    @abstractmethod
    def feature_octaves(self, means: Floats, share: Fraction) -> tuple[Floats, Floats, float]:
        """Counts of |u - mean| by octaves, p x bins, with their edges and the noise of each."""

    @abstractmethod
    def transform(self, root: Floats) -> None:
        """Turn the rows into a @ root."""

    @abstractmethod
    def ask(self, *releases: Release, theta: Floats | None = None) -> list[Any]:
        """Answer in one scan: Counts, (mean, deviation), Released or Moment, in their order."""


def bounded_back(lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
    """Centres and half widths of bounds, and `Rows.back` of features in half widths of them."""
    half = (upper - lower) / 2
    centre = lower + half
    back = np.diag(np.concatenate([[1.0], 1 / half]))
    back[0, 1:] = -centre / half
    return centre, half, back


def share_of(share: float) -> Fraction:
    """A share of mu^2 as a short fraction, rounded down."""
    return Fraction(math.floor(share * 10**9), 10**9)


def power(rows: Rows) -> float:
    """N mu of an equivalent fit with one row per person and replaced rows."""
    return 2 / rows.noise(GRADIENT, 1.0, 1.0)
