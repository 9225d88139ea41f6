r"""Sums over rows with noise: means within one budget, and counts that show a column's range.

A sum of floats depends on the order of its terms, so replacing a record can change it by more than
the record's bound (Casacuberta, Shoemate, Vadhan, Wagaman 2022). Exact integer sums avoid this but
are slow for matrices. Here records are added in blocks of public length, in any order that NumPy
and its BLAS choose. Each block's sum is rounded to a public grid, and blocks are added exactly. The
error of a block is bounded a priori for every order of additions. `slack` bounds the total effect
on the difference between neighbors, some 10^-6 of a record's bound for a million records, and is
added to the sensitivity. Proof: docs/proofs/row_sums.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats, check_budget, gdp_budget, takes_normal_noise
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, Guarantee, PureDP
from unacorda.privacy.rounding import root_up

BLOCK: Final = 1 << 13
"""Records that are added in float64 before their sum is put on the grid."""

ROUNDED: Final = 1 + Fraction(1, 1 << 30)
"""A factor for the bound of records that are scaled to it in float64, of up to 2^20 numbers."""

_OPERATIONS: Final = 16
"""Roundings of one term, apart from the additions: products, weights, a factor of the whole sum."""

_REACH: Final = 900

_BLOCKS: Final = 1 << 9
"""So many blocks' sums, of 2^53 steps at most, add up within 64 bits."""

ROOT_TWO: Final = Fraction(root_up(Fraction(2)))
"""sqrt 2, rounded up: how far two positive semidefinite matrices of Frobenius norm 1 can be."""

LEVEL: Final = Fraction(1, 100)
"""Of mu^2, the cost of the mean weight where rows have weights of their own."""

_ABOVE: Final = 4
"""A level of so many deviations of its noise, or more, is off by a quarter or so."""

_LEAST_LEVEL: Final = 2.0**-10

BOUNDS_SHARE: Final = 0.05
"""The share of the budget that finds bounds, by default."""

_MOST_SHARE: Final = 0.25
_POWERS: Final = (-40, 60)
_DEVIATIONS: Final = 4.0
"""Standard deviations of normal noise from which on a bin stands out."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowSum:
    """A sum of records in exact steps of 2^unit_log2, one number per coordinate. Private."""

    steps: list[int]
    unit_log2: int

    def released(self, mechanism: Gaussian | Laplace, *, bits: RandomBits) -> NDArray[np.float64]:
        """The noisy sum, one float64 a coordinate."""
        return release_numbers(mechanism, self.steps, unit_log2=self.unit_log2, bits=bits)

    def __repr__(self) -> str:
        return "RowSum(...)"


def release_numbers(
    noise: Gaussian | Laplace, steps: Sequence[int], *, unit_log2: int = 0, bits: RandomBits
) -> Floats:
    """Release noisy values of exact integers, each meaning value 2^unit_log2, as float64."""
    return np.array(
        [float(one) for one in noise.release_exact(steps, unit_log2=unit_log2, bits=bits)]
    )


def row_sum(
    part: Callable[[slice], NDArray[np.float64]], *, rows: int, size: int, row_bound: Fraction
) -> RowSum:
    """Sums a vector of `size` numbers over all records.

    part: the float64 sum over the records of a slice of at most `BLOCK`, each coordinate a sum of
    products; row_bound: the largest l2 norm of a record's vector. A coordinate beyond the possible
    range is clamped, so a wrong part changes a sum by no more than a whole block. Raises
    InvalidParameter for a bound that is not within 2^-900 and 2^900.

    >>> x = np.arange(10.0)
    >>> whole = row_sum(lambda rows: x[rows].sum(keepdims=True), rows=10, size=1, row_bound=9)
    >>> whole.steps[0] * 2.0**whole.unit_log2
    45.0
    """
    unit_log2 = _unit_log2(row_bound)
    totals, some = [0] * size, np.zeros(size, dtype=np.int64)
    most = float(1 << 53)
    for number, start in enumerate(range(0, rows, BLOCK), start=1):
        scaled = np.ldexp(part(slice(start, min(start + BLOCK, rows))).reshape(-1), -unit_log2)
        some += np.clip(np.rint(np.nan_to_num(scaled, nan=0.0)), -most, most).astype(np.int64)
        if number % _BLOCKS == 0 or start + BLOCK >= rows:
            totals = [total + step for total, step in zip(totals, some.tolist(), strict=True)]
            some[:] = 0
    return RowSum(steps=totals, unit_log2=unit_log2)


def slack(*, rows: int, size: int, row_bound: Fraction) -> Fraction:
    r"""Bounds what round-off adds to the l2 distance of the sums of two neighbors.

    Statement   Let every record's exact vector have an l2 norm of at most row_bound, and the
                floats that stand for it be off by at most 16 roundings. Then `row_sum` differs
                from the exact sum by at most half of this, whatever the order of the additions.
    Bound       upper.
    Source      Higham 2002, Accuracy and Stability of Numerical Algorithms, section 4.2;
                docs/proofs/row_sums.md.

    >>> 1e-7 < float(slack(rows=10**6, size=20, row_bound=Fraction(1))) < 1e-5
    True
    """
    n = min(BLOCK, rows) + _OPERATIONS
    # gamma_n = n u / (1 - n u), u = 2^-53: the relative error of n roundings one after another.
    gamma = Fraction(n, (1 << 53) - n)
    blocks = -(-rows // BLOCK)
    root = math.isqrt(size - 1) + 1
    rounding = blocks * root * Fraction(2) ** (_unit_log2(row_bound) - 1)
    # Underflow loses at most 2^-1074 a rounding; the grid is coarser by 2^100 at least.
    return 2 * (rows * gamma * Fraction(row_bound) + rounding * (1 + Fraction(1, 1 << 60)))


def _unit_log2(row_bound: Fraction) -> int:
    """The grid on which a block's sum has at most 2^53 steps."""
    bound = Fraction(row_bound)
    if not Fraction(2) ** -_REACH <= bound <= Fraction(2) ** _REACH:
        raise InvalidParameter("row_bound", float(bound), expected="within 2^-900 and 2^900")
    over = bound * BLOCK
    return over.numerator.bit_length() - over.denominator.bit_length() + 1 - 53


def additive_noise(budget: Guarantee, *, l1: Fraction, l2: Fraction) -> Gaussian | Laplace:
    """Chooses Laplace or normal noise, whichever keeps the budget with the smaller deviation.

    Under ApproxDP Laplace noise, which needs no delta, is better for a few numbers.
    """
    laplace = Laplace.for_guarantee(PureDP.within(budget), l1_sensitivity=l1)
    if not takes_normal_noise(budget):
        return laplace
    normal = Gaussian.for_guarantee(gdp_budget(budget), l2_sensitivity=l2)
    return normal if normal.standard_deviation <= laplace.standard_deviation else laplace


def law_of(noise: Gaussian | Laplace) -> Literal["normal", "laplace"]:
    """The name of the noise's law, as an `Estimate` takes it."""
    return "laplace" if isinstance(noise, Laplace) else "normal"


def sum_noise(
    budget: Guarantee,
    *,
    rows: int,
    size: int,
    row_bound: Fraction,
    l1: Fraction,
    l2: Fraction,
    ratio: Fraction | int,
) -> Gaussian | Laplace:
    """Chooses noise for a `row_sum` of these exact sensitivities, round-off added to both.

    ratio: at least that of the l1 and the l2 norm of a vector of `size` numbers.
    """
    off = slack(rows=rows, size=size, row_bound=row_bound)
    return additive_noise(budget, l1=l1 + ratio * off, l2=l2 + off)


def noisy_mean(
    part: Callable[[slice], Floats],
    noise: Gaussian | Laplace,
    *,
    rows: int,
    size: int,
    row_bound: Fraction,
    bits: RandomBits,
) -> tuple[Floats, float]:
    """Releases a `row_sum` over the number of rows, with the deviation of its noise."""
    exact = row_sum(part, rows=rows, size=size, row_bound=row_bound)
    return exact.released(noise, bits=bits) / rows, noise.standard_deviation / rows


def noisy_counts(
    counts: NDArray[np.int64], *, budget: Guarantee, bits: RandomBits, moved: int = 2
) -> tuple[Floats, Gaussian | Laplace]:
    """Releases counts, with their noise; a replaced person moves `moved` of them by one."""
    l2 = Fraction(root_up(Fraction(moved)))
    noise = additive_noise(check_budget(budget), l1=Fraction(moved), l2=l2)
    return release_numbers(noise, counts.tolist(), bits=bits), noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A released symmetric matrix: a mean of v a a^T over people, with its noise.

    matrix: d x d; deviation: of the noise of a diagonal number, sqrt 2 times that of the others;
    norm: the size of the noise as an operator, deviation sqrt(2 d), about its mean.
    """

    matrix: Floats
    deviation: float

    @property
    def norm(self) -> float:
        """About how far the noise alone moves an eigenvalue, at the most."""
        return norm_of(self.deviation, len(self.matrix))


def norm_of(deviation: float, size: int) -> float:
    """About the operator norm of the noise of a matrix, of this deviation on the diagonal."""
    return deviation * math.sqrt(2 * size)


def floored(matrix: Floats, least: float) -> Floats:
    """The matrix with its eigenvalues raised to `least` at least."""
    values, vectors = np.linalg.eigh(matrix)
    raised: Floats = (vectors * np.maximum(values, least)) @ vectors.T
    return raised


def inverse_root(matrix: Floats, least: float = 0.0) -> Floats:
    """The symmetric inverse root of a matrix whose eigenvalues are raised to `least` at least."""
    values, vectors = np.linalg.eigh(matrix)
    root: Floats = (vectors / np.sqrt(np.maximum(values, least))) @ vectors.T
    return root


@dataclass(slots=True, kw_only=True)
class BudgetShares:
    """Releases paid from shares of mu^2; together they cost `event`, within the budget.

    number: of rows, or the sum of their weights, public or released; number_error: the deviation
    of the noise in it.
    """

    budget: GDP
    number: float = field(init=False)
    number_error: float = field(init=False, default=0.0)
    left: Fraction = Fraction(1)
    released: list[events.Event] = field(default_factory=list)

    @property
    def event(self) -> events.Event:
        """The event of all releases so far, without numbers from the data."""
        return events.compose(self.released)

    def take(self, share: Fraction, *, sensitivity: Fraction | int = 1) -> Gaussian:
        """Takes a share of mu^2 out of the rest; returns the noise of a release with it."""
        if not 0 < share <= self.left:
            raise AssertionError("a share of the budget that is not there")
        self.left -= share
        noise = Gaussian.for_guarantee(self.budget * share, l2_sensitivity=sensitivity)
        self.released.append(noise.event)
        return noise


@dataclass(slots=True, kw_only=True)
class NoisySums(BudgetShares):
    """Means over so many rows of arrays."""

    rows: int
    bits: RandomBits

    def __post_init__(self) -> None:
        self.number = float(self.rows)

    def mean(
        self,
        part: Callable[[slice], Floats],
        *,
        size: int,
        row_bound: Fraction,
        sensitivity: Fraction,
        share: Fraction,
    ) -> tuple[Floats, float]:
        """The noisy mean of a vector, and the deviation of the noise of each of its numbers.

        part, row_bound: as for `row_sum`; sensitivity: l2, of the exact sum.
        """
        bound = row_bound * ROUNDED
        off = slack(rows=self.rows, size=size, row_bound=bound)
        noise = self.take(share, sensitivity=sensitivity * ROUNDED + off)
        exact = row_sum(part, rows=self.rows, size=size, row_bound=bound)
        released = exact.released(noise, bits=self.bits) / self.number
        return released, noise.standard_deviation / self.number

    def moment(
        self,
        part: Callable[[slice], Floats],
        *,
        size: int,
        trace_bound: Fraction,
        share: Fraction,
        signed: bool = False,
    ) -> Moment:
        """The noisy mean of v a a^T, 0 <= v, v |a|^2 <= trace_bound; signed: v of either sign.

        part: the d x d sum over a slice, of which the upper triangle is read.
        Source: docs/proofs/regression.md, section 1.
        """
        numbers, deviation = self.mean(
            lambda rows: packed(part(rows)),
            size=size * (size + 1) // 2,
            row_bound=trace_bound,
            sensitivity=trace_bound * (2 if signed else ROOT_TWO),
            share=share,
        )
        return Moment(matrix=unpacked(numbers, size), deviation=deviation)

    def weigh(self, counts: Floats, *, share: Fraction) -> None:
        """Releases the mean weight, of weights within [0, 1]; later means are weighted.

        It is kept above its noise, so that no step is much too long. Source:
        docs/proofs/regression.md, section 10.
        """
        found, noise = self.mean(
            lambda rows: counts[rows].sum(keepdims=True),
            size=1,
            row_bound=Fraction(1),
            sensitivity=Fraction(1),
            share=share,
        )
        self.number = self.rows * min(level_of(float(found[0]), noise), 1.0)
        self.number_error = self.rows * noise


def level_of(found: float, noise: float) -> float:
    """The released mean weight, kept above its noise."""
    return max(found, _ABOVE * noise, _LEAST_LEVEL)


def packed(matrix: Floats) -> Floats:
    """The upper triangle as a vector whose l2 norm is the Frobenius norm of the whole.

    >>> packed(np.array([[3.0, 4.0], [4.0, 0.0]])).round(3).tolist()
    [3.0, 5.657, 0.0]
    """
    *upper, factors = _upper(len(matrix))
    numbers: Floats = matrix[*upper] * factors
    return numbers


def unpacked(numbers: Floats, size: int) -> Floats:
    """The symmetric matrix of a packed vector."""
    *upper, factors = _upper(size)
    matrix = np.zeros((size, size))
    matrix[*upper] = numbers / factors
    whole: Floats = matrix + np.triu(matrix, 1).T
    return whole


@lru_cache(maxsize=64)
def _upper(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Places in the upper triangle, and the weights of their numbers: 1, or sqrt 2."""
    lines, columns = np.triu_indices(size)
    return lines, columns, np.where(lines == columns, 1.0, math.sqrt(2))


def check_share(bounds_share: float) -> Fraction:
    """Returns the share of the budget that finds bounds, as a short fraction, rounded down.

    InvalidParameter unless it is from 1e-6 to 1/4.

    >>> check_share(0.1)
    Fraction(1, 10)
    """
    share = checks.finite(bounds_share=bounds_share)
    if not 1e-6 <= share <= _MOST_SHARE:
        raise InvalidParameter(
            "bounds_share",
            bounds_share,
            expected=f"a share of the budget, from 1e-6 to {_MOST_SHARE}",
        )
    return Fraction(math.floor(share * 10**9), 10**9)


def edges() -> Floats:
    """The edges of the bins, rising, negative ones first; 0 is one of them."""
    sizes = 2.0 ** np.arange(_POWERS[0], _POWERS[1] + 1, 2)
    return np.concatenate([-sizes[::-1], [0.0], sizes])


def range_of(counts: Floats, deviation: float) -> tuple[float, float]:
    """The range of the bins that exceed their noise; (-1, 1) if none does, or only that of 0.

    If most rows are 0, noise may hide the others. A count at 0 does not show their size, and dummy
    variables are the most common case.

    >>> counts = np.zeros(len(edges()) + 1)
    >>> counts[np.searchsorted(edges(), [20.0, 70.0], side="right")] = 1.0
    >>> range_of(counts, 0.01)
    (16.0, 256.0)
    """
    ends = edges()
    seen = np.nonzero(counts > _DEVIATIONS * deviation)[0]
    if not len(seen):
        return -1.0, 1.0
    lower = float(ends[max(int(seen[0]) - 1, 0)])
    upper = float(ends[min(int(seen[-1]), len(ends) - 1)])
    if -(2.0 ** _POWERS[0]) <= lower and upper <= 2.0 ** _POWERS[0]:
        return -1.0, 1.0
    return (lower, upper) if lower < upper else (lower - 1, upper + 1)


def column_ranges(
    x: Floats, *, budget: Guarantee, bits: RandomBits
) -> tuple[Floats, Floats, events.Event]:
    """Finds the ranges of all columns of a matrix within the whole budget; returns the event too.

    They come from noisy histograms by signs and powers of four, whose bins are public, so that no
    bound is needed. A range may be up to four times too wide, and a few rows may lie beyond it. A
    replaced row changes two counts of each column by one. NaN is not counted.
    """
    columns = x.shape[1]
    ends = edges()
    size = len(ends) + 1
    counts = np.zeros((columns, size), dtype=np.int64)
    for place, column in enumerate(x.T):
        known = column[~np.isnan(column)]
        counts[place] = np.bincount(np.searchsorted(ends, known, side="right"), minlength=size)
    found, noise = noisy_counts(counts.reshape(-1), budget=budget, bits=bits, moved=2 * columns)
    deviation = noise.standard_deviation
    if isinstance(noise, Laplace):  # exceeded as rarely as _DEVIATIONS of normal noise
        tail = -math.log(2 * NormalDist().cdf(-_DEVIATIONS)) / math.sqrt(2)
        deviation *= tail / _DEVIATIONS
    ranges = [range_of(one, deviation) for one in found.reshape(columns, size)]
    lower, upper = np.array(ranges).T
    return lower, upper, noise.event
