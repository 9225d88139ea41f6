"""Sensitivity, by how much one unit can move an exact answer; and the noise that hides it.

Every measured row adds a vector to the cell (group) it falls into; the cells are disjoint. A unit
brings at most r rows in all, at most p of them into one cell, into at most t cells. Write C for
what it adds to the whole answer. Under add/remove the answer moves by C, under replacement by
C - C', with C' what another unit adds. How far is worked out once, in `of_vectors`; what counts
units, not rows, is bounded by the cells that a unit touches.

A share is a guarantee of one of three kinds, and each kind has its noise: PureDP is spent by
Laplace noise in the l1 norm, ZCDP and GDP by normal noise in the l2 norm. Whole numbers under
PureDP and ZCDP get discrete noise; under GDP, which the discrete Gaussian does not keep, the
ideal normal rounded to whole numbers.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.display import counted
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP
from unacorda.privacy.rounding import exact_root, root_up
from unacorda.query.schema.units import Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How far one unit moves a vector of exact answers.

    l1: the most the sum of absolute changes can be; l2_squared: the most the sum of squared
    changes can be (kept squared, so that it is exact); reason: one sentence for people. Both are
    in units of the exact integers that the engine returns.
    """

    l1: Fraction
    l2_squared: Fraction
    reason: str


def of_vectors(
    reach: Reach, corners: Sequence[Sequence[int]], *, each: str | None = None
) -> Sensitivity:
    r"""Sums by cell of row vectors that lie in the convex hull H of zero and the corners.

    corners: what the extreme rows add, in units of the exact integers; zero need not be listed. It
    is always there, since a row may be filtered out or hold no value. each: what a single row can
    do, for the reason.

    Statement   Let k_j rows of the unit fall into cell j. Their sum lies in k_j H. Both norms of
        the whole change are the sum over cells of f(k_j, k'_j) = max ||k_j x - k'_j y||, over x
        and y in H (squared in the l2 norm; k' = 0 under add/remove). For every choice of x and y in
        every cell it is convex in (k, k'), and x and y may be taken at corners or zero. So the
        largest is found at vertices of {0 <= k_j <= p, sum of k_j <= r}, for k and k' alike: p rows
        in some cells, and the rest of r in one more. f rises with both arguments (zero is in H), so
        that all r rows are brought: p in each of q = floor(r / p) cells, and r - q p in another.
        These are at most t cells, as r <= t p, so that t says nothing more. Left is how the cells
        of k and k' meet. There are few ways for the two last, partial cells; given one, the change
        is linear in the number of full cells that meet full ones, and largest at an end of what the
        number of cells leaves room for. Every one of these is computed.
    Bound       exact, and attained where rows can be at the corners.
    Source      proof above.

    >>> reach = Reach.within(max_rows=5, max_rows_per_group=2, cells=9, replaced=False)
    >>> found = of_vectors(reach, [(1,)])
    >>> found.l1, found.l2_squared
    (Fraction(5, 1), Fraction(9, 1))
    """
    points = {tuple(map(int, corner)) for corner in corners}
    points |= {(0,) * len(corner) for corner in points}
    spreads = list(_spreads(reach))

    @functools.cache
    def largest(left: int, right: int, power: int) -> int:
        # What no rows are multiplied by is all the same.
        others = points if right else list(points)[:1]
        found: int = max(
            sum(abs(left * a - right * b) ** power for a, b in zip(x, y, strict=True))
            for x, y in itertools.product(points, others)
        )
        return found

    def norm(spread: _Spread, power: int) -> int:
        return sum(cells * largest(max(k), min(k), power) for k, cells in spread.items())

    return Sensitivity(
        l1=Fraction(max(norm(spread, 1) for spread in spreads)),
        l2_squared=Fraction(max(norm(spread, 2) for spread in spreads)),
        reason=_rows(reach) if each is None else f"{_rows(reach)}; {each}",
    )


def of_balls(reach: Reach, *, radius: int, size: int) -> Sensitivity:
    """Sums by cell of row vectors of `size` numbers, each within a ball (in the l2 norm).

    Two such vectors, k and k' rows of them, are at most (k + k') radius apart in the l2 norm, as
    numbers in [-radius, radius] are, and sqrt(size) times as far in the l1 norm: `of_vectors` in
    one dimension holds both. Attained by vectors along a diagonal.
    """
    line = of_vectors(reach, [(-1,), (1,)])
    return Sensitivity(
        l1=line.l1 * radius * Fraction(root_up(Fraction(size))),
        l2_squared=line.l2_squared * radius**2,
        reason=f"{line.reason}; each moves the {size} sums together by the length at most",
    )


def of_counts(reach: Reach) -> Sensitivity:
    """Rows counted by cell: a row adds 1 to one cell."""
    return of_vectors(reach, [(1,)])


def of_people(reach: Reach) -> Sensitivity:
    """Units counted once in every cell they appear in, `touched` at most, out of all of their rows.

    Replacement: the cells of the one and of the other, as far as they differ. Source:
    docs/proofs/people.md, Theorem 1.
    """
    most = reach.felt
    return _by_one(
        most, f"one unit changes the count of people by 1 in at most {counted(most, 'cell')}"
    )


def of_one_bin(reach: Reach) -> Sensitivity:
    """Units counted by bins of which each unit is in one, whatever groups its rows fall into."""
    most = 2 if reach.replaced else 1
    counts = "2 counts" if most > 1 else "1 count"
    return _by_one(most, f"one unit is in one bin: it changes {counts} by 1")


def of_sums(reach: Reach, *, lower: int, upper: int) -> Sensitivity:
    """Sums by cell of integers in [lower, upper] (both in grid units)."""
    return of_vectors(
        reach, [(lower,), (upper,)], each="each moves the sum by at most max(|lower|, |upper|)"
    )


def of_splits(reach: Reach, *, width: int) -> Sensitivity:
    """Pairs (sum of x - lower, sum of upper - x) by cell: a row adds (a, b), a + b = width."""
    return of_vectors(
        reach,
        [(width, 0), (0, width)],
        each="each adds (x - lower, upper - x), which together are upper - lower wherever x lies",
    )


def of_ranks(reach: Reach, *, quantile: Fraction) -> Sensitivity:
    """The rank loss of one quantile by cell: the largest change of any candidate's, in each.

    A row below, at or above a candidate moves #{x < e} - q n by -q or 1 - q, and q n - #{x <= e} by
    q or q - 1: every candidate's loss, the positive part of the greater one, moves by no more than
    a sum of numbers between q - 1 and q, one a row that goes or comes.
    """
    whole = quantile.denominator
    moved = of_vectors(
        reach,
        [(quantile.numerator,), (quantile.numerator - whole,)],
        each="each moves a rank by at most max(q, 1 - q), over all groups together",
    )
    return Sensitivity(
        l1=moved.l1 / whole, l2_squared=moved.l2_squared / whole**2, reason=moved.reason
    )


def of_totals(reach: Reach, *, signs: int = 1) -> Sensitivity:
    """In how many disjoint groups of people, by cell and sign, one unit's change is felt.

    A person's rows in a cell make one number with one sign. Replacement: the old and the new
    person, each in as many groups.
    """
    most = reach.touched
    if reach.replaced:
        most = min(2 * most, reach.cells * signs)
    return _by_one(
        most,
        f"one unit has one number in at most {counted(most, 'cell')}, whatever its rows are; in "
        "each it changes a count of people by 1 and a sum of cut numbers by the level at which it "
        "is cut",
    )


def _by_one(most: int, reason: str) -> Sensitivity:
    """The most numbers that one unit changes, each by 1."""
    return Sensitivity(l1=Fraction(most), l2_squared=Fraction(most), reason=reason)


_Spread = Counter[tuple[int, int]]
"""In how many cells so many rows of a unit meet so many of the one that it is replaced by."""


def _spreads(reach: Reach) -> Iterator[_Spread]:
    """The ways to spread rows over cells of which one moves the answer furthest."""
    most = reach.per_cell
    full, rest = divmod(reach.rows, most)
    if not reach.replaced:
        yield Counter({(most, 0): full, (rest, 0): 1})
        return
    partial: list[list[tuple[int, int]]] = [[]]
    if rest:
        partial = [
            [(rest, 0), (0, rest)],
            [(rest, most), (0, rest)],
            [(rest, most), (most, rest)],
            [(rest, rest)],
        ]
    for met in partial:
        left, right = (full - sum(pair[side] == most for pair in met) for side in (0, 1))
        fewest = max(0, len(met) + left + right - reach.cells)
        # No way to meet where the cells are too few for it, or full cells are.
        for both in {fewest, min(left, right)} if 0 <= fewest <= min(left, right) else ():
            yield Counter(met) + Counter(
                {(most, most): both, (most, 0): left - both, (0, most): right - both}
            )


def _rows(reach: Reach) -> str:
    rows = counted(reach.rows, "row")
    if 1 < reach.rows == reach.touched * reach.per_cell < reach.rows * reach.touched:
        rows += f", {reach.per_cell:,} in each of {reach.touched:,} groups"
    elif reach.per_cell < reach.rows:
        rows += f", {reach.per_cell:,} into one group"
    if reach.replaced:
        return f"replacing one unit takes out at most {rows}, and puts in as many"
    return f"one unit brings at most {rows}"


# ---- noise for what one unit can change ----------------------------------------------------------


CONFIDENCE = Fraction(95, 100)
"""Of every interval in a release."""

Share = PureDP | ZCDP | GDP
"""The part of a request that one aggregate may spend."""


class Noise(Protocol):
    """What an aggregate makes of its share."""

    @property
    def event(self) -> events.Event:
        """What it costs, in all cells together."""
        ...

    @property
    def log_scale(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
        ...


_LARGEST_DISCRETE = 2.0**30  # beyond it the grid of whole numbers is finer than anyone can use


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditiveNoise:
    """Noise for exact integers, each meaning integer times 2^unit_log2.

    mechanism: in absolute units; whole: whether answers are whole numbers.
    """

    mechanism: Laplace | Gaussian | DiscreteLaplace | DiscreteGaussian
    unit_log2: int
    whole: bool

    @property
    def event(self) -> events.Event:
        return self.mechanism.event

    @property
    def log_scale(self) -> float:
        # Discrete noise of a tiny scale is 0 but for chances below the least double.
        return math.log(max(self.standard_deviation, sys.float_info.min))

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of each noisy number, absolute, rounding included."""
        return self.mechanism.standard_deviation

    @property
    def scale(self) -> Fraction:
        """The mechanism's parameter: of Laplace noise the scale, of normal noise sigma."""
        match self.mechanism:
            case Laplace(scale=scale) | DiscreteLaplace(scale=scale):
                return Fraction(scale)
            case Gaussian(sigma=sigma) | DiscreteGaussian(sigma=sigma):
                return Fraction(sigma)

    @property
    def laplace(self) -> bool:
        """Whether the noise has the Laplace's tails (otherwise the normal's)."""
        return isinstance(self.mechanism, Laplace | DiscreteLaplace)

    def half_width(self, confidence: Fraction) -> float:
        """The least q with P(|noisy - exact| <= q) >= confidence, rounded up."""
        match self.mechanism:
            case Laplace() | Gaussian():
                return self.mechanism.error_bound(confidence, on_grid=self.whole)
            case DiscreteLaplace() | DiscreteGaussian():
                return float(self.mechanism.error_bound(confidence))

    def release(self, values: Sequence[int], *, bits: RandomBits) -> list[Fraction] | list[int]:
        """The noisy numbers, absolute: integers where `whole`, else multiples of a public grid."""
        match self.mechanism:
            case DiscreteLaplace() | DiscreteGaussian():
                return self.mechanism.release_exact(values, bits=bits)
            case Laplace() | Gaussian():
                noisy = self.mechanism.release_exact(values, unit_log2=self.unit_log2, bits=bits)
                return [int(value) for value in noisy] if self.whole else noisy

    def doubles(self, values: Sequence[int], *, bits: RandomBits) -> NDArray[np.float64]:
        """The same numbers, each rounded once."""
        match self.mechanism:
            case Laplace() | Gaussian() if not self.whole:
                return self.mechanism.release_doubles(values, unit_log2=self.unit_log2, bits=bits)
        return np.array([float(value) for value in self.release(values, bits=bits)])

    def __str__(self) -> str:
        discrete = isinstance(self.mechanism, DiscreteLaplace | DiscreteGaussian)
        kind = "Laplace noise of scale" if self.laplace else "normal noise of standard deviation"
        return f"{'discrete ' if discrete else ''}{kind} {float(self.scale):.6g}"


def additive_noise(
    share: Share, sensitivity: Sensitivity, *, unit_log2: int, counts: bool
) -> AdditiveNoise:
    """The least noise that keeps the share.

    sensitivity: in grid units of 2^unit_log2. counts: the numbers are counts, so that answers
    should be whole (unit_log2 is 0).
    """
    unit = Fraction(2) ** unit_log2
    if isinstance(share, PureDP):
        laplace = Laplace.for_guarantee(share, l1_sensitivity=sensitivity.l1 * unit)
        if counts and laplace.scale <= _LARGEST_DISCRETE:
            discrete = DiscreteLaplace(scale=laplace.scale, l1_sensitivity=laplace.l1_sensitivity)
            return AdditiveNoise(mechanism=discrete, unit_log2=0, whole=True)
        return AdditiveNoise(mechanism=laplace, unit_log2=unit_log2, whole=False)
    l2 = _root_up(sensitivity.l2_squared) * unit
    normal = Gaussian.for_guarantee(share, l2_sensitivity=l2)
    if counts and isinstance(share, ZCDP) and normal.sigma <= _LARGEST_DISCRETE:
        discrete_normal = DiscreteGaussian(sigma=normal.sigma, l2_sensitivity=l2)
        return AdditiveNoise(mechanism=discrete_normal, unit_log2=0, whole=True)
    if counts and 1 <= normal.sigma <= _LARGEST_DISCRETE:
        whole = Gaussian(sigma=normal.sigma, l2_sensitivity=l2, grid_log2=0)
        return AdditiveNoise(mechanism=whole, unit_log2=0, whole=True)
    return AdditiveNoise(mechanism=normal, unit_log2=unit_log2, whole=False)


def _root_up(square: Fraction) -> Fraction:
    """The square root, exact where it is rational, else rounded up."""
    root = exact_root(square)
    return Fraction(root_up(square)) if root is None else root


_ROUNDED_UP = 1 + 2.0**-18  # the grid's rounding is below 2^-19


def noise_quantile(beyond: float, *, laplace: bool) -> float:
    """z: any combination of noises is beyond z standard deviations with at most this chance.

    beyond: at most 0.05.
    """
    z = -math.log(beyond) / math.sqrt(2) if laplace else -NormalDist().inv_cdf(beyond / 2)
    return z * _ROUNDED_UP


def grid_unit(lower: Fraction, upper: Fraction, *, whole: bool) -> int:
    """The exponent of the public unit in which values between the bounds become integers.

    A function of the bounds alone. Values fill 52 bits, so that a double loses nothing that
    matters and the sum of any number of rows below 2^74 fits in 128; whole numbers between whole
    bounds keep the unit 1.

    >>> grid_unit(Fraction(0), Fraction(100), whole=False)
    -46
    """
    largest = max(abs(lower), abs(upper))
    if whole and lower.denominator == upper.denominator == 1 and largest <= 2**52:
        return 0
    return floor_log2(largest) - 52
