r"""Prefix sums by a matrix factorisation whose factors are Toeplitz matrices.

What is released is C x + noise, C the lower triangular Toeplitz matrix with the coefficients of
(1 - x)^(-1/2), whose square sums up prefixes; the first `bands` of them or all. The estimate of a
prefix sum is A C^-1 of it, A the matrix of ones on and below the diagonal.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.parameters import Real, keep, quotient, whole
from unacorda.mechanisms.correlated import toeplitz
from unacorda.mechanisms.correlated.grid import Grid, halves
from unacorda.mechanisms.correlated.parameters import first_steps, grid_of, one_step, rows, set_up
from unacorda.mechanisms.correlated.streams import PrefixStream
from unacorda.privacy import events

__all__ = ["SquareRootToeplitz"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareRootToeplitz:
    r"""Release all prefix sums of a stream by the square root of their matrix.

    For a unit that takes part once, no sum has a standard error above s sigma, and the whole stream
    has the sensitivity s l2_sensitivity, where s^2 = ln(steps) / pi + 1.07: next to the best of all
    factorisations, and from a thousand steps on about half of the tree's error at the same price.

    bands: keep so many coefficients, by default all; a stream of `start` keeps as many values and
    takes as long for a step. A few serve units that take part often: with a separation of at
    least `bands` the columns of a unit share no row. The other parameters are as for `BinaryTree`,
    sigma being the noise of each entry of C x.

    Later values may be chosen after seeing earlier answers (Denisov et al. 2022, Theorem 2.1).
    Source: Fichtenberger, Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023; bands:
    Kalinin and Lampert 2024; docs/proofs/correlated.md.

    >>> root = SquareRootToeplitz(sigma=10, l2_sensitivity=1, steps=5, bands=3)
    >>> root.event.encoder
    (Fraction(1, 1), Fraction(1, 2), Fraction(3, 8))
    >>> root.release([1, 0, 1, 1]).shape
    (4,)
    """

    sigma: Real
    l2_sensitivity: Real
    steps: int
    bands: int = cast("int", None)  # an int once it is made; None asks for all
    dimension: int = 1
    participations: int = 1
    separation: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        set_up(self, scale_log2=self._fix_bands)

    def _fix_bands(self) -> int:
        most = min(self.steps, toeplitz.LARGEST_BANDS)
        if self.bands is None and self.steps > most:
            raise InvalidParameter("steps", self.steps, expected=f"at most {most}, or bands=")
        if self.bands is None:
            keep(self, bands=most)
        keep(self, bands=whole("bands", self.bands, least=1, most=most))
        return toeplitz.scale_for(self.bands)

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
    def grid(self) -> Grid:
        """The public numbers of the release."""
        return grid_of(self, scale_log2=toeplitz.scale_for(self.bands))

    @property
    def coefficients(self) -> Floats:
        """The first column of C, exactly as it is used."""
        whole_numbers = toeplitz.square_root_coefficients(self.bands).astype(np.float64)
        return np.ldexp(whole_numbers, -toeplitz.scale_for(self.bands))

    def standard_errors(self, steps: int | None = None) -> Floats:
        """Standard deviation of the noise in each of the first `steps` prefix sums, by default all.

        That of sum t is sigma times the norm of the first t coefficients of A C^-1.

        >>> root = SquareRootToeplitz(sigma=10, l2_sensitivity=1, steps=1000)
        >>> root.standard_errors(4).round(4).tolist()
        [10.0, 11.1803, 11.7925, 12.1995]
        """
        column = toeplitz.inverse(self.coefficients, first_steps(self, steps))
        return self.grid.deviation * np.sqrt(np.cumsum(np.cumsum(column) ** 2))

    def start(self, *, bits: RandomBits | None = None) -> PrefixStream:
        """A stream that is fed one step at a time, and keeps the last `bands` values."""
        return PrefixStream(_Counter(self, bits or _SECURE), steps=self.steps)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """The noisy prefix sums of a whole stream, in one go; the law is that of `start`.

        Values and refusals as for `BinaryTree.release`; entries of C x end at 2^61 steps of the
        release grid.
        """
        stream, shape = rows(self, values)
        grid = self.grid
        steps = grid.steps(stream)
        if steps.size == 0:
            return np.zeros(shape)
        high, low = toeplitz.product_halves(toeplitz.square_root_coefficients(self.bands), steps)
        released = grid.release(
            high.reshape(-1),
            low.reshape(-1),
            scale_log2=toeplitz.scale_for(self.bands),
            bits=bits or _SECURE,
        ).reshape(steps.shape)
        estimates = toeplitz.decoded(self.coefficients, released)
        return np.cumsum(estimates, axis=0).reshape(shape)


class _Counter:
    """One step after the other: the last values and the last estimates of them, in a ring."""

    __slots__ = (
        "_bits",
        "_coefficients",
        "_estimates",
        "_grid",
        "_high",
        "_low",
        "_mechanism",
        "_scale_log2",
        "_sum",
    )

    def __init__(self, mechanism: SquareRootToeplitz, bits: RandomBits) -> None:
        self._mechanism, self._bits, self._grid = mechanism, bits, mechanism.grid
        self._scale_log2 = toeplitz.scale_for(mechanism.bands)
        backwards = toeplitz.square_root_coefficients(mechanism.bands)[::-1]
        # Twice, so that the coefficients in the order of the ring are a part of it.
        self._coefficients = np.concatenate([backwards, backwards])
        room = (mechanism.bands, mechanism.dimension)
        self._high, self._low = np.zeros(room, np.int64), np.zeros(room, np.int64)
        self._estimates, self._sum = np.zeros(room), np.zeros(mechanism.dimension)

    def read(self, value: ArrayLike) -> Integers:
        return self._grid.steps(one_step(self._mechanism, value))

    def advance(self, time: int, steps: Integers) -> Any:
        bands = self._mechanism.bands
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
        return self._sum.copy() if self._mechanism.dimension > 1 else float(self._sum[0])
