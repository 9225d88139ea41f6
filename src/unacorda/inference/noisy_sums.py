r"""Noisy means over the same people, each paid from its own share of one budget.

Sums are exact up to a round-off that their sensitivity holds (`row_sums`), get normal noise, and
are divided by the public number of people. Shares are of mu^2, so that they add up to the budget.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.inference.records import Floats
from unacorda.inference.row_sums import ROUNDED, row_sum, slack
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP
from unacorda.privacy.rounding import root_up

__all__ = [
    "LEVEL",
    "ROOT_TWO",
    "Moment",
    "NoisySums",
    "level_of",
    "packed",
    "unpacked",
]

ROOT_TWO: Final = Fraction(root_up(Fraction(2)))
"""sqrt 2, rounded up: how far two positive semidefinite matrices of Frobenius norm 1 can be."""

LEVEL: Final = Fraction(1, 100)
"""Of mu^2, what the mean weight costs where people have weights of their own."""

_ABOVE: Final = 4
"""A level of so many deviations of its noise, or more, is off by a quarter or so."""

_LEAST: Final = 2.0**-10


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
        """About what the noise alone does to an eigenvalue, at the most."""
        return self.deviation * math.sqrt(2 * len(self.matrix))

    def floored(self, least: float) -> Floats:
        """The matrix with its eigenvalues raised to `least` at least."""
        values, vectors = np.linalg.eigh(self.matrix)
        raised: Floats = (vectors * np.maximum(values, least)) @ vectors.T
        return raised


@dataclass(slots=True, kw_only=True)
class NoisySums:
    """Means over `rows` people; what they cost together is `event`, never more than the budget.

    level: what a person counts on average, released, with the deviation of its noise: what stands
    for the number of people is `level` times as many.
    """

    rows: int
    budget: GDP
    bits: RandomBits
    left: Fraction = Fraction(1)
    level: float = 1.0
    level_error: float = 0.0
    _said: list[events.Event] = field(default_factory=list)

    @property
    def event(self) -> events.Event:
        """What has been released so far, without numbers from the data."""
        return events.compose(self._said)

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
        noise = self._reserve(
            share, sensitivity * ROUNDED + slack(rows=self.rows, size=size, row_bound=bound)
        )
        exact = row_sum(part, rows=self.rows, size=size, row_bound=bound)
        people = self.rows * self.level
        released = exact.released(noise, bits=self.bits) / people
        return released, noise.standard_deviation / people

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
        """Release what a person counts on average, of numbers within [0, 1]: the level from now on.

        It is kept above its noise, so that no step is far too long.
        Source: docs/proofs/regression.md, section 10.
        """
        found, noise = self.mean(
            lambda rows: counts[rows].sum(keepdims=True),
            size=1,
            row_bound=Fraction(1),
            sensitivity=Fraction(1),
            share=share,
        )
        self.level = min(level_of(float(found[0]), noise), 1.0)
        self.level_error = noise

    def _reserve(self, share: Fraction, sensitivity: Fraction) -> Gaussian:
        if not 0 < share <= self.left:
            raise AssertionError("a share of the budget that is not there")
        self.left -= share
        noise = Gaussian.for_guarantee(self.budget * share, l2_sensitivity=sensitivity)
        self._said.append(noise.event)
        return noise


def level_of(found: float, noise: float) -> float:
    """What stands for the mean weight that was released: it is kept above its noise."""
    return max(found, _ABOVE * noise, _LEAST)


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
    """Places in the upper triangle, and what their numbers count: 1, or sqrt 2."""
    lines, columns = np.triu_indices(size)
    return lines, columns, np.where(lines == columns, 1.0, math.sqrt(2))
