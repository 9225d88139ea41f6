"""Exact vectorised samplers of integer noise.

Each returns ``size`` independent draws of exactly the named law: float64 does the work under a
proved error bound, and the few draws it cannot decide are refined in exact arithmetic (see
`certified` and docs/proofs/noise.md). A float scale means its exact binary value; a Fraction is
taken as it stands. `reference` has the same laws from integers alone, slowly.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.certified import (
    CHUNK,
    LARGEST_RATIO,
    laplace_shift,
    magnitude_chunk,
)
from unacorda.mechanisms.gaussian_rejection import fill_by_rejection
from unacorda.mechanisms.gaussian_table import LARGEST_SIGMA, table

__all__ = ["discrete_gaussian", "discrete_laplace", "exact_scale", "geometric", "within_range"]

Integers = NDArray[np.int64]


def exact_scale(argument: str, value: float | Fraction) -> Fraction:
    """A noise scale as the exact number it is: 0.1 is the float64 nearest to 1/10.

    Raises InvalidParameter unless it is finite and above 0.
    """
    expected = "a finite number above 0, as int, float or Fraction"
    if isinstance(value, bool | str):
        raise InvalidParameter(argument, value, expected=expected)
    try:
        scale = Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(argument, value, expected=expected) from None
    if scale <= 0:
        raise InvalidParameter(argument, value, expected=expected)
    return scale


def discrete_laplace(*, scale: float | Fraction, size: int, bits: RandomBits) -> Integers:
    r"""Draws of the discrete Laplace law, P(X = k) proportional to exp(-|k| / scale).

    scale: above 0, at most 2^40; size: how many. Source: the magnitude is
    floor(scale (c - ln U)) with c = ln(2 / (1 + e^(-1/scale))), since
    P(|X| >= k) = 2 q^k / (1 + q) for k >= 1 and q = e^(-1/scale); the sign is fair.

    >>> from unacorda.bits import SeededBits
    >>> discrete_laplace(scale=2, size=5, bits=SeededBits(1)).dtype
    dtype('int64')
    """
    ratio, count = within_range("scale", scale), _counted(size)
    shift = laplace_shift(ratio)
    draws = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        part = draws[start : start + CHUNK]
        floors, signed = magnitude_chunk(part.size, scale=ratio, shift=shift, bits=bits)
        np.copysign(floors, signed, out=floors)
        np.copyto(part, floors, casting="unsafe")
    return draws


def geometric(*, scale: float | Fraction, size: int, bits: RandomBits) -> Integers:
    r"""Draws of the geometric law, P(G = k) proportional to exp(-k / scale) for k >= 0.

    scale: above 0, at most 2^40; size: how many. It is floor(-scale ln U).

    >>> from unacorda.bits import SeededBits
    >>> bool((geometric(scale=2, size=100, bits=SeededBits(1)) >= 0).all())
    True
    """
    ratio, count = within_range("scale", scale), _counted(size)
    draws = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        part = draws[start : start + CHUNK]
        floors, _ = magnitude_chunk(part.size, scale=ratio, shift=None, bits=bits)
        np.copyto(part, floors, casting="unsafe")
    return draws


def discrete_gaussian(*, sigma: float | Fraction, size: int, bits: RandomBits) -> Integers:
    r"""Draws of the discrete Gaussian law, P(X = k) proportional to exp(-k^2 / (2 sigma^2)).

    sigma: above 0, at most 2^40 (its square is the variance only in the limit); size: how many.
    Up to sigma = 200 by an integer table of the distribution function. Above, a continuous
    normal is rounded to the nearest integer k and kept with probability a(k), the ratio of the
    two laws at k over their ratio at 0, where they differ most (docs/proofs/noise.md,
    section 5): all but about 1 in 24 sigma^2 are kept.

    >>> from unacorda.bits import SeededBits
    >>> discrete_gaussian(sigma=2, size=5, bits=SeededBits(1)).shape
    (5,)
    """
    ratio, count = within_range("sigma", sigma), _counted(size)
    draws = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        part = draws[start : start + CHUNK]
        if ratio <= LARGEST_SIGMA:
            words = bits.words(part.size).view(np.int64)
            magnitudes = table(ratio * ratio).magnitudes(words, bits)
            signs = np.right_shift(words, 63)
            np.bitwise_xor(magnitudes, signs, out=part)
            part -= signs
        else:
            fill_by_rejection(part, sigma=ratio, bits=bits)
    return draws


def within_range(argument: str, value: float | Fraction) -> Fraction:
    """A noise scale that the samplers accept, exactly: above 0, at most 2^40."""
    scale = exact_scale(argument, value)
    if scale > LARGEST_RATIO:
        raise InvalidParameter(
            argument,
            value,
            expected="at most 2^40; for more noise round to a coarser grid, say multiples of "
            "2^20, and divide the scale by as much",
        )
    return scale


def _counted(size: int) -> int:
    try:
        count = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        count = -1
    if count < 0:
        raise InvalidParameter("size", size, expected="a whole number, 0 or above")
    return count
