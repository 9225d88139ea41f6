r"""Prefix sums by a matrix factorisation whose factors are Toeplitz matrices.

What is released is C x + noise, C the lower triangular Toeplitz matrix with the coefficients of
(1 - x)^(-1/2), whose square sums up prefixes; the first `bands` of them or all. The estimate of a
prefix sum is A C^-1 of it, A the matrix of ones on and below the diagonal.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated import toeplitz
from unacorda.mechanisms.correlated.grid import halves
from unacorda.mechanisms.correlated.prefix_sums import PrefixSums
from unacorda.mechanisms.parameters import keep, quotient, whole
from unacorda.privacy import events

__all__ = ["SquareRootToeplitz"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareRootToeplitz(PrefixSums):
    r"""Release all prefix sums of a stream by the square root of their matrix.

    For a unit that takes part once, no sum has a standard error above s sigma, and the whole stream
    has the sensitivity s l2_sensitivity, where s^2 = ln(steps) / pi + 1.07: next to the best of all
    factorisations, and from a thousand steps on about half of the tree's error at the same price.

    bands: keep so many coefficients, by default all; a stream of `start` keeps as many values and
    takes as long for a step. A few serve units that take part often: with a separation of at
    least `bands` the columns of a unit share no row. The other parameters are as for `BinaryTree`,
    sigma being the noise of each entry of C x, which ends at 2^61 steps of the release grid.

    Later values may be chosen after seeing earlier answers (Denisov et al. 2022, Theorem 2.1).
    Source: Fichtenberger, Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023; bands:
    Kalinin and Lampert 2024; docs/proofs/correlated.md.

    >>> root = SquareRootToeplitz(sigma=10, l2_sensitivity=1, steps=5, bands=3)
    >>> root.event.encoder
    (Fraction(1, 1), Fraction(1, 2), Fraction(3, 8))
    >>> root.release([1, 0, 1, 1]).shape
    (4,)
    """

    bands: int = cast("int", None)  # an int once it is made; None asks for all

    def _settle(self) -> None:
        most = min(self.steps, toeplitz.LARGEST_BANDS)
        if self.bands is None and self.steps > most:
            raise InvalidParameter("steps", self.steps, expected=f"at most {most}, or bands=")
        if self.bands is None:
            keep(self, bands=most)
        keep(self, bands=whole("bands", self.bands, least=1, most=most))

    @property
    def event(self) -> events.MatrixMechanism:
        """What the whole stream costs."""
        return events.MatrixMechanism(
            noise_multiplier=quotient(self.sigma, self.grid.moved),
            encoder=toeplitz.as_fractions(self.bands),
            steps=self.steps,
            participations=self.participations,
            separation=self.separation,
        )

    @property
    def coefficients(self) -> Floats:
        """The first column of C, exactly as it is used."""
        whole_numbers = toeplitz.square_root_coefficients(self.bands).astype(np.float64)
        return np.ldexp(whole_numbers, -self._scale_log2)

    def standard_errors(self, steps: int | None = None) -> Floats:
        """Standard deviation of the noise in each of the first `steps` prefix sums, by default all.

        That of sum t is sigma times the norm of the first t coefficients of A C^-1.

        >>> root = SquareRootToeplitz(sigma=10, l2_sensitivity=1, steps=1000)
        >>> root.standard_errors(4).round(4).tolist()
        [10.0, 11.1803, 11.7925, 12.1995]
        """
        column = toeplitz.inverse(self.coefficients, self._first(steps))
        return self.grid.deviation * np.sqrt(np.cumsum(np.cumsum(column) ** 2))

    @property
    def _scale_log2(self) -> int:
        return toeplitz.scale_for(self.bands)

    def _counter(self, bits: RandomBits) -> _Ring:
        return _Ring(self, bits)

    def _sums(self, steps: Integers, bits: RandomBits) -> Floats:
        if steps.size == 0:
            return np.zeros(steps.shape)
        high, low = toeplitz.product_halves(toeplitz.square_root_coefficients(self.bands), steps)
        released = self.grid.release(
            high.reshape(-1), low.reshape(-1), scale_log2=self._scale_log2, bits=bits
        ).reshape(steps.shape)
        estimates = toeplitz.decoded(self.coefficients, released)
        return np.cumsum(estimates, axis=0)


class _Ring:
    """One step after the other: the last values and the last estimates of them, in a ring."""

    __slots__ = (
        "_bands",
        "_bits",
        "_coefficients",
        "_estimates",
        "_grid",
        "_high",
        "_low",
        "_scale_log2",
        "_sum",
    )

    def __init__(self, mechanism: SquareRootToeplitz, bits: RandomBits) -> None:
        self._bands, self._bits, self._grid = mechanism.bands, bits, mechanism.grid
        self._scale_log2 = toeplitz.scale_for(mechanism.bands)
        backwards = toeplitz.square_root_coefficients(mechanism.bands)[::-1]
        # Twice, so that the coefficients in the order of the ring are a part of it.
        self._coefficients = np.concatenate([backwards, backwards])
        room = (mechanism.bands, mechanism.dimension)
        self._high, self._low = np.zeros(room, np.int64), np.zeros(room, np.int64)
        self._estimates, self._sum = np.zeros(room), np.zeros(mechanism.dimension)

    def advance(self, time: int, steps: Integers) -> Floats:
        bands = self._bands
        place = (time - 1) % bands
        used = min(time, bands)
        own = self._coefficients[bands - 1 - place :][:used]  # that of a slot, by its age
        self._high[place], self._low[place] = halves(steps)
        noisy = self._grid.release(
            own @ self._high[:used],
            own @ self._low[:used],
            scale_log2=self._scale_log2,
            bits=self._bits,
        )
        self._estimates[place] = 0.0
        older = np.ldexp(own.astype(np.float64), -self._scale_log2) @ self._estimates[:used]
        self._estimates[place] = noisy - older
        self._sum += self._estimates[place]
        return self._sum.copy()
