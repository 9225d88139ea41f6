r"""Prefix sums by the square root of their matrix, and Toeplitz matrices.

What is released is C x + noise, C the lower triangular Toeplitz matrix with the coefficients of
(1 - x)^(-1/2), whose square sums up prefixes; the first `bands` of them or all. The estimate of a
prefix sum is A C^-1 of it, A the matrix of ones on and below the diagonal.

The coefficients of an encoder are dyadic numbers c_k = m_k 2^-scale_log2, so that products with
integers are exact; those of its inverse are floats, which are used on released numbers alone.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Inexact, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.mechanisms.correlated.grid import END, HALF_BITS, LARGEST_ROW, halves
from unacorda.mechanisms.correlated.prefix_sums import PrefixSums
from unacorda.mechanisms.parameters import quotient, whole
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep

signal: Any = later("scipy.signal")

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

LARGEST_BANDS: Final = 1 << 22
_FINEST: Final = 28
_DIRECT = 2048  # bands from which the fast products are faster
_DIRECT_FLOATS = 256


def scale_for(bands: int) -> int:
    """The exponent of the coefficients: 2^-28, or coarser where long rows would not stay exact."""
    longest = 2 * math.sqrt(bands / math.pi) + 2  # above the sum of the coefficients
    return min(_FINEST, LARGEST_ROW.bit_length() - 1 - math.ceil(math.log2(longest)))


def square_root_coefficients(bands: int) -> Integers:
    r"""The first `bands` coefficients of (1 - x)^(-1/2), as multiples of 2^-scale_for(bands).

    They are binom(2 k, k) / 4^k, from 1 down to about 1 / sqrt(pi k): the Toeplitz square root of
    the lower triangular matrix of ones.
    Source: Fichtenberger, Henzinger, Upadhyay 2023, arXiv:2202.11205, Theorem 1.
    """
    return power_coefficients(bands, 0.5)


@lru_cache(maxsize=8)
def power_coefficients(bands: int, power: float) -> Integers:
    r"""The first `bands` coefficients of (1 - x)^-power, as multiples of 2^-scale_for(bands).

    power: from 0, which has one coefficient that is not 0, to 1/2. Rounded to the nearest, so they
    do not increase.
    """
    ratios = 1 - (1 - power) / np.arange(1, bands)
    exact = np.concatenate([[1.0], np.cumprod(ratios)])
    rounded = np.rint(np.ldexp(exact, scale_for(bands))).astype(np.int64)
    coefficients: Integers = np.minimum.accumulate(rounded)
    coefficients.setflags(write=False)
    return coefficients


@lru_cache(maxsize=8)
def as_fractions(bands: int) -> tuple[Fraction, ...]:
    """The same coefficients as exact numbers; equal ones are one object."""
    scale = 1 << scale_for(bands)
    different, places = np.unique(square_root_coefficients(bands), return_inverse=True)
    fractions = [Fraction(m, scale) for m in different.tolist()]
    return tuple(fractions[place] for place in places.tolist())


def product_halves(coefficients: Integers, values: Integers) -> tuple[Integers, Integers]:
    """The products sum over k of m_k x_{t-k}, for all t, exactly: as high 2^28 + low.

    coefficients: 0 or above, of sum at most 2^33; values: of shape (steps, dimension), at most
    2^56 in size.
    """
    steps = values.shape[0]
    first = coefficients[:steps]
    product = _direct if first.size <= _DIRECT else _by_one_number
    high, low = np.empty_like(values), np.empty_like(values)
    for column in range(values.shape[1]):
        high[:, column], low[:, column] = product(first, values[:, column])
    return high, low


def inverse(coefficients: Floats, steps: int) -> Floats:
    """The first `steps` coefficients of 1 / c(x), c_0 not 0, in floats.

    By Newton's iteration d <- d (2 - c d), which doubles how many of them are right.
    """
    column = np.zeros(steps)
    column[: coefficients.size] = coefficients[:steps]
    found = np.array([1 / coefficients[0]])
    while found.size < steps:
        size = min(2 * found.size, steps)
        error = signal.fftconvolve(column[:size], found)[:size]
        error[: found.size] = 0.0  # right already
        found = np.concatenate([found, -signal.fftconvolve(found, error)[found.size : size]])
    return found[:steps]


def decoded(coefficients: Floats, released: Floats) -> Floats:
    """The x with C x = released, along the first axis, in floats: post-processing."""
    steps = released.shape[0]
    first = coefficients[:steps]
    if first.size <= _DIRECT_FLOATS:
        filtered: Floats = signal.lfilter([1.0], first, released, axis=0)
        return filtered
    column = inverse(first, steps).reshape(-1, *([1] * (released.ndim - 1)))
    whole: Floats = signal.fftconvolve(column, released, axes=0)[:steps]
    return whole


def _direct(coefficients: Integers, values: Integers) -> tuple[Integers, Integers]:
    # Halves are at most 2^28 in size, so nothing passes 2^61.
    high, low = (np.convolve(coefficients, half)[: values.size] for half in halves(values))
    return high, low


def _by_one_number(coefficients: Integers, values: Integers) -> tuple[Integers, Integers]:
    """The same through one product of two long decimal numbers, whose digits are the values.

    Kronecker's substitution; the decimal module multiplies by exact number theoretic transforms.
    """
    width = 28  # decimal digits: every sum is below 2^57 2^33
    form = f"%0{width}d"
    context = Context(
        prec=width * (coefficients.size + values.size),
        Emax=MAX_EMAX,
        Emin=MIN_EMIN,
        traps=[Inexact, InvalidOperation],
    )
    one, other = (
        context.create_decimal("".join(form % number for number in reversed(numbers.tolist())))
        for numbers in (coefficients, values + END)  # none is negative
    )
    room = width * values.size
    text = str(context.multiply(one, other))[-room:].rjust(room, "0")
    sums = [int(text[end - width : end]) for end in range(room, 0, -width)]
    excess = np.full(values.size, coefficients.sum())
    excess[: coefficients.size] = np.cumsum(coefficients)
    high = np.array([total >> HALF_BITS for total in sums], dtype=np.int64)
    low = np.array([total & ((1 << HALF_BITS) - 1) for total in sums], dtype=np.int64)
    return high - excess * (END >> HALF_BITS), low


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareRootToeplitz(PrefixSums):
    """Release all prefix sums of a stream by the square root of their matrix.

    For a unit that takes part once, no sum has a standard error above s sigma, and the whole stream
    has the sensitivity s l2_sensitivity, where s^2 = ln(steps) / pi + 1.07. This is close to the
    best of all factorizations. From a thousand steps on it is about half of the tree's error at the
    same price.

    A few bands serve units that take part often: if the separation is at least `bands`, the columns
    of a unit share no row. Later values may be chosen after seeing earlier answers (Denisov et al.
    2022, Theorem 2.1).

    Source: Fichtenberger, Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023; bands:
    Kalinin and Lampert 2024; docs/proofs/correlated.md.

    Parameters
    ----------
    sigma
        The standard deviation of the noise on each entry of C x, above 0. Entries are clamped to
        2^61 steps of the release grid.
    l2_sensitivity, steps, dimension, participations, separation, grid_log2
        As for `BinaryTree`.
    bands
        The number of coefficients that are kept; all by default. A stream of `start` keeps as many
        values, and its time for a step is proportional to it.

    Examples
    --------
    >>> root = SquareRootToeplitz(sigma=10, l2_sensitivity=1, steps=5, bands=3)
    >>> root.event.encoder
    (Fraction(1, 1), Fraction(1, 2), Fraction(3, 8))
    >>> root.release([1, 0, 1, 1]).shape
    (4,)
    """

    bands: int = cast("int", None)  # an int once it is made; None asks for all

    def _settle(self) -> None:
        most = min(self.steps, LARGEST_BANDS)
        if self.bands is None and self.steps > most:
            raise InvalidParameter("steps", self.steps, expected=f"at most {most}, or bands=")
        if self.bands is None:
            keep(self, bands=most)
        keep(self, bands=whole("bands", self.bands, least=1, most=most))

    @property
    def event(self) -> events.MatrixFactorization:
        """What the whole stream costs."""
        return events.MatrixFactorization(
            noise_multiplier=quotient(self.sigma, self.grid.moved),
            encoder=as_fractions(self.bands),
            steps=self.steps,
            participations=self.participations,
            separation=self.separation,
        )

    @property
    def coefficients(self) -> Floats:
        """The first column of C, exactly as it is used."""
        whole_numbers = square_root_coefficients(self.bands).astype(np.float64)
        return np.ldexp(whole_numbers, -self._scale_log2)

    def standard_errors(self, steps: int | None = None) -> Floats:
        """Standard deviation of the noise in each of the first `steps` prefix sums, by default all.

        That of sum t is sigma times the norm of the first t coefficients of A C^-1.

        >>> root = SquareRootToeplitz(sigma=10, l2_sensitivity=1, steps=1000)
        >>> root.standard_errors(4).round(4).tolist()
        [10.0, 11.1803, 11.7925, 12.1995]
        """
        column = inverse(self.coefficients, self._first(steps))
        return self.grid.deviation * np.sqrt(np.cumsum(np.cumsum(column) ** 2))

    @property
    def _scale_log2(self) -> int:
        return scale_for(self.bands)

    def _counter(self, bits: RandomBits) -> _Ring:
        return _Ring(self, bits)

    def _sums(self, steps: Integers, bits: RandomBits) -> Floats:
        if steps.size == 0:
            return np.zeros(steps.shape)
        high, low = product_halves(square_root_coefficients(self.bands), steps)
        released = self.grid.release(
            high.reshape(-1), low.reshape(-1), scale_log2=self._scale_log2, bits=bits
        ).reshape(steps.shape)
        estimates = decoded(self.coefficients, released)
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
        self._scale_log2 = scale_for(mechanism.bands)
        backwards = square_root_coefficients(mechanism.bands)[::-1]
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
