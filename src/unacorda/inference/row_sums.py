r"""Sums over records, at the speed of float64, with a round-off that the noise accounts for.

A sum of floats depends on the order of its terms, so that taking a record's place moves it by more
than the record's bound (Casacuberta, Shoemate, Vadhan, Wagaman 2022). Adding in exact integers
avoids this but is slow for matrices. Here records are added in blocks of public length by whatever
way NumPy and its BLAS like; each block's sum is put on a public grid and blocks are added exactly.
The error of a block is bounded a priori, whatever the order of its additions, and `slack` says by
how much all of it can move the sum of a neighbour: some 10^-6 of a record's bound for a million
records, which the sensitivity is raised by. Proof: docs/proofs/row_sums.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Gaussian, Laplace

__all__ = ["BLOCK", "ROUNDED", "RowSum", "row_sum", "slack"]

BLOCK: Final = 1 << 13
"""How many records are added in float64 before their sum is put on the grid."""

ROUNDED: Final = 1 + Fraction(1, 1 << 30)
"""A factor for the bound of records that are scaled to it in float64, of up to 2^20 numbers."""

_OPERATIONS: Final = 16
"""Roundings of one term beside the additions: products, weights, a factor of the whole sum."""

_REACH: Final = 900

_BLOCKS: Final = 1 << 9
"""So many blocks' sums, of 2^53 steps at most, add up within 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowSum:
    """A sum of records in exact steps of 2^unit_log2, one number a coordinate. Private."""

    steps: list[int]
    unit_log2: int

    def released(self, mechanism: Gaussian | Laplace, *, bits: RandomBits) -> NDArray[np.float64]:
        """The noisy sum, one float64 a coordinate."""
        noisy = mechanism.release_exact(self.steps, unit_log2=self.unit_log2, bits=bits)
        return np.array([float(value) for value in noisy])

    def __repr__(self) -> str:
        return "RowSum(...)"


def row_sum(
    part: Callable[[slice], NDArray[np.float64]], *, rows: int, size: int, row_bound: Fraction
) -> RowSum:
    """The sum over all records of a vector of `size` numbers.

    part: the float64 sum over the records of a slice of at most `BLOCK`, each coordinate a sum of
    products; row_bound: no record's vector is longer than this in the l2 norm. A coordinate beyond
    what such records can reach is cut there, so that a part that breaks its word moves a sum by no
    more than a whole block.
    Raises InvalidParameter for a bound that is not within 2^-900 and 2^900.

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
    r"""By how much round-off can raise the l2 distance of the sums of two neighbours.

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
