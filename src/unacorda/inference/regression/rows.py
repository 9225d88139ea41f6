"""Noisy means of functions of a row: what a fit may ask, and of arrays how it is answered.

Rows have whitened features, a target and a weight of their own. Each release below has a bound that
is enforced row by row in the sum, so no loss and no step can exceed the sensitivity that the noise
is for. Arrays have one row a person, their number is public, and neighbors differ by a replaced
row; `tables` answers the same from a table. Fits that whiten features in other ways put them on the
scale of public bounds.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.inference.records import Floats, bounds_of
from unacorda.inference.sums import BLOCK, ROOT_TWO, BudgetShares, Moment, NoisySums
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


FAR: Final = 1e6
"""Features are clipped at this many half widths of their bounds, so that squares stay finite."""

SPREAD: Final = 2.5
"""Deviations in half the width of public bounds; more or less costs noise only."""

_FARTHEST: Final = 1e60
"""So are those on a public scale, where weights bound rows instead."""

OCTAVES: Final = (-22, 2)
"""Powers of two between which deviations of features are counted, two at a time."""


@dataclass(slots=True, kw_only=True, repr=False)
class ArrayRows(Rows):
    """Rows (1, features in half widths of their bounds), a target, and the weight of each row.

    own: within [0, 1], 0 where a number is missing; of weights that differ the mean is released
    beforehand (`NoisySums.weigh`).
    """

    sums: NoisySums
    target: Floats
    own: Floats
    rows: Floats
    _square: Floats | None = field(default=None, init=False)
    _predictions: tuple[Floats, Floats] | None = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        x: Floats,
        target: Floats,
        own: Floats,
        *,
        lower: Floats,
        upper: Floats,
        sums: NoisySums,
    ) -> ArrayRows:
        """Rows in half widths of public or released bounds."""
        centre, half, back = bounded_back(lower, upper)
        rows = np.empty((len(x), x.shape[1] + 1))
        missing = own <= 0
        rows[:, 0] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(x), BLOCK):  # no copy of all of it on the way
                block = slice(start, start + BLOCK)
                np.clip((x[block] - centre) / half, -FAR, FAR, out=rows[block, 1:])
        rows[missing] = 0.0
        return cls(target=np.where(missing, 0.0, target), own=own, sums=sums, back=back, rows=rows)

    def feature_means(self, share: Fraction) -> Released:
        """Means of the features, each clipped to [-1, 1]."""
        longest = _root(self.size - 1)

        def part(block: slice) -> Floats:
            total: Floats = self.own[block] @ np.clip(self.rows[block, 1:], -1.0, 1.0)
            return total

        return self._mean(part, size=self.size - 1, longest=longest, apart=2, share=share)

    def feature_octaves(self, means: Floats, share: Fraction) -> tuple[Floats, Floats, float]:
        """Counts of |u - mean| by octaves; a row is in one bin of each feature.

        Source: docs/proofs/regression.md, section 1.
        """
        least, most = OCTAVES
        edges = np.exp2(np.arange(least, most + 1, 2, dtype=np.float64))
        bins, p = len(edges) + 1, self.size - 1
        first = np.arange(p) * bins

        def part(block: slice) -> Floats:
            away = np.abs(self.rows[block, 1:] - means)
            _, octave = np.frexp(away)  # 2^(octave - 1) <= away < 2^octave
            place = np.clip((octave - least + 1) // 2, 0, bins - 1)
            place[away == 0] = 0
            return self._counted((place + first).ravel(), bins * p, block, repeated=p)

        found = self._mean(
            part, size=bins * p, longest=_root(p), apart=ROOT_TWO, share=share, counts=True
        )
        return found.values.reshape(p, bins), edges, found.deviation

    def transform(self, root: Floats) -> None:
        """The rows become a @ root."""
        for start in range(0, len(self.rows), BLOCK):
            block = slice(start, start + BLOCK)
            self.rows[block] = self.rows[block] @ root
        self.back = self.back @ root
        self._square, self._predictions = None, None

    def ask(self, *releases: Release, theta: Floats | None = None) -> list[Any]:
        """Answer in their order."""
        if self._square is None:
            self._square = np.empty(len(self.rows))
            for start in range(0, len(self.rows), BLOCK):
                block = slice(start, start + BLOCK)
                np.einsum("ij,ij->i", self.rows[block], self.rows[block], out=self._square[block])
        with np.errstate(all="ignore"):  # a warning would depend on the data
            return [self._answer(release, theta) for release in releases]

    def _answer(self, release: Release, theta: Floats | None) -> Any:
        match release:
            case OctaveCounts():
                return self._histogram(release, theta)
            case Total(of=of, bound=bound, share=share):
                found = self._mean(
                    lambda block: np.clip(_zeroed(self._of(of, block, theta)), 0.0, bound).sum(
                        keepdims=True
                    ),
                    size=1,
                    longest=Fraction(bound),
                    apart=1,
                    share=share,
                )
                return float(found.values[0]), found.deviation
            case Gradient():
                return self._gradient(release, theta)
            case Matrix():
                return self._matrix(release, theta)

    def _histogram(self, asked: OctaveCounts, theta: Floats | None) -> Counts:
        size = asked.bins + 1

        def part(block: slice) -> Floats:
            octave = np.log2(self._of(asked.of, block, theta)) - math.log2(asked.first)
            found = np.nan_to_num(np.floor(octave * asked.per_octave) + 1, nan=0.0)
            places: NDArray[np.intp] = np.clip(found, 0, asked.bins).astype(np.intp)
            return self._counted(places, size, block)

        found = self._mean(
            part, size=size, longest=Fraction(1), apart=ROOT_TWO, share=asked.share, counts=True
        )
        return Counts(edges=asked.edges, counts=found.values, deviation=found.deviation)

    def _gradient(self, asked: Gradient, theta: Floats | None) -> Released:
        assert self._square is not None
        square = self._square

        def part(block: slice) -> Floats:
            values = self._of(asked.of, block, theta)
            length = np.abs(values) * np.sqrt(square[block])
            values *= np.minimum(1.0, asked.bound / np.maximum(length, asked.bound))
            total: Floats = _zeroed(values) @ self.rows[block]
            return total

        longest = Fraction(asked.bound)
        return self._mean(part, size=self.size, longest=longest, apart=2, share=asked.share)

    def _matrix(self, asked: Matrix, theta: Floats | None) -> Moment:
        assert self._square is not None
        square = self._square

        def part(block: slice) -> Floats:
            values = self._of(asked.of, block, theta)
            if not asked.signed:
                values = np.maximum(values, 0.0)
            length = np.abs(values) * square[block]
            values *= asked.bound / np.maximum(length, asked.bound)
            values = _zeroed(values)
            rows = self.rows[block]
            if asked.signed:
                total: Floats = (rows * values[:, None]).T @ rows
                return total
            # Half the work, as NumPy sees a matrix times itself.
            scaled = rows * np.sqrt(values)[:, None]
            product: Floats = scaled.T @ scaled
            return product

        return self.sums.moment(
            part,
            size=self.size,
            trace_bound=Fraction(asked.bound),
            share=asked.share,
            signed=asked.signed,
        )

    def _of(self, value: Value, block: slice, theta: Floats | None) -> Floats:
        """A number of each row of a block, as a new array."""
        assert self._square is not None
        found = value(
            RowBlock(
                prediction=None if theta is None else self._predicted(theta)[block],
                target=self.target[block],
                square=self._square[block],
                own=self.own[block],
            )
        )
        return np.array(np.broadcast_to(found, self.target[block].shape), dtype=np.float64)

    def _predicted(self, theta: Floats) -> Floats:
        if self._predictions is None or self._predictions[0] is not theta:
            self._predictions = theta, self.rows @ theta
        return self._predictions[1]

    def _counted(
        self, places: NDArray[np.intp], size: int, block: slice, *, repeated: int = 1
    ) -> Floats:
        own = self.own[block] if repeated == 1 else np.repeat(self.own[block], repeated)
        return np.asarray(np.bincount(places, weights=own, minlength=size), dtype=np.float64)

    def _mean(
        self,
        part: Any,
        *,
        size: int,
        longest: Fraction,
        apart: Fraction | int,
        share: Fraction,
        counts: bool = False,
    ) -> Released:
        values, deviation = self.sums.mean(
            part, size=size, row_bound=longest, sensitivity=longest * apart, share=share
        )
        times = self.number if counts else 1.0
        return Released(values=values * times, deviation=deviation * times)


def _zeroed(values: Floats) -> Floats:
    """Replaces values that are no numbers by 0."""
    return np.nan_to_num(values, copy=False, nan=0.0, posinf=0.0, neginf=0.0)


def _root(size: int) -> Fraction:
    """sqrt(size), rounded up."""
    return Fraction(math.nextafter(math.sqrt(size), math.inf))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Public: a feature x becomes (x - center) * factor. Both have one number per feature."""

    centre: Floats
    factor: Floats

    @property
    def size(self) -> int:
        """The number of parameters: an intercept and one coefficient per feature."""
        return self.centre.size + 1

    def rows(self, x: Floats, present: Floats) -> Floats:
        """One row (1, scaled features) per person; zeros where `present` is 0."""
        rows = np.empty((len(x), self.size))
        rows[:, 0] = present
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(x), BLOCK):  # no copy of all of it on the way
                block = slice(start, start + BLOCK)
                scaled = (x[block] - self.centre) * self.factor
                np.clip(scaled, -_FARTHEST, _FARTHEST, out=rows[block, 1:])
        rows[present == 0] = 0.0
        return rows

    def back(self) -> Floats:
        """The matrix that takes coefficients of scaled features to those of the features."""
        matrix = np.diag(np.concatenate([[1.0], self.factor]))
        matrix[0, 1:] = -self.factor * self.centre
        return matrix


def scaling(feature_bounds: tuple[ArrayLike, ArrayLike] | None, *, features: int) -> Scaling:
    """The scaling of public bounds: a pair (lower, upper), each one number or one per feature."""
    lower, upper = bounds_of(feature_bounds, features=features)
    half = (upper - lower) / 2
    return Scaling(centre=lower + half, factor=SPREAD / half)
