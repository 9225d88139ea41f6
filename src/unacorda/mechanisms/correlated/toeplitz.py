r"""Lower triangular Toeplitz matrices: the square root of prefix sums, products, inverses.

The coefficients of an encoder are dyadic numbers c_k = m_k 2^-scale_log2, so that products with
integers are exact; those of its inverse are floats, which are used on released numbers alone.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Inexact, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from unacorda.mechanisms.correlated.grid import END, HALF_BITS, LARGEST_ROW, halves

__all__ = [
    "LARGEST_BANDS",
    "as_fractions",
    "decoded",
    "inverse",
    "product_halves",
    "scale_for",
    "square_root_coefficients",
]

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


@lru_cache(maxsize=8)
def square_root_coefficients(bands: int) -> Integers:
    r"""The first `bands` coefficients of (1 - x)^(-1/2), as multiples of 2^-scale_for(bands).

    They are binom(2 k, k) / 4^k, from 1 down to about 1 / sqrt(pi k): the Toeplitz square root of
    the lower triangular matrix of ones. Rounded to the nearest, so they do not increase.
    Source: Fichtenberger, Henzinger, Upadhyay 2023, arXiv:2202.11205, Theorem 1.
    """
    ratios = 1 - 0.5 / np.arange(1, bands)
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
