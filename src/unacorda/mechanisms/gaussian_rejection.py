"""The discrete Gaussian of large sigma: a rounded normal, kept with a probability near one.

Let g(k) be the probability that a normal of standard deviation sigma rounds to k. The ratio of
the discrete Gaussian to g is greatest at k = 0, so k is kept with probability
a(k) = e^(-k^2 / (2 sigma^2)) g(0) / g(k), and what is kept has exactly the discrete law. Since
1 - a(k) <= k^2 / (16 sigma^4) for |k| <= 12 sigma and sigma >= 200, one comparison accepts all
but a few draws in a million; for these a(k) is bracketed until the uniform number is outside the
bracket. Proofs in docs/proofs/noise.md, section 5.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from mpmath.libmp import (
    from_man_exp,
    from_rational,
    mpf_div,
    mpf_erf,
    mpf_erfc,
    mpf_mul,
    mpf_sqrt,
    mpf_sub,
    to_fixed,
)
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.certified import gaussian_chunk
from unacorda.mechanisms.refine import LazyUniform, exp_bounds

__all__ = ["acceptance_bounds", "fill_by_rejection"]

Integers = NDArray[np.int64]

_USUAL_REACH = Fraction(6)  # draws beyond it, two in 10^9, are looked at one by one
_SQUEEZE_REACH = 12  # the quick acceptance is proved for |k| <= 12 sigma
_GUARD = 32


def fill_by_rejection(draws: Integers, *, sigma: Fraction, bits: RandomBits) -> None:
    """Fill with rounded normals that were kept; the places of the others are drawn anew."""
    # One bound for all draws up to 6 sigma: a function of sigma alone, as its time is.
    reach = math.floor(_USUAL_REACH * sigma)
    sure = np.uint64(math.floor((1 << 64) * (1 - _USUAL_REACH**2 / (16 * sigma * sigma))) - 1)
    waiting = np.arange(draws.size)
    while waiting.size:
        offsets = np.full(waiting.size, 0.5)
        floors = gaussian_chunk(offsets, lambda _: Fraction(1, 2), ratio=sigma, bits=bits)
        draws[waiting] = floors.astype(np.int64)
        words = bits.words(waiting.size)
        suspects = np.flatnonzero((words >= sure) | (np.abs(floors) > reach))
        rejected = [
            i
            for i in suspects.tolist()
            if not _keeps(int(floors[i]), int(words[i]), sigma=sigma, bits=bits)
        ]
        waiting = waiting[rejected]


def _keeps(k: int, word: int, *, sigma: Fraction, bits: RandomBits) -> bool:
    """Whether a uniform number that begins with ``word`` lies below a(k)."""
    if k == 0:
        return True
    if abs(k) <= _SQUEEZE_REACH * sigma:
        sure = 1 - Fraction(k * k) / (16 * sigma**4)
        if word + 1 <= sure * (1 << 64):
            return True
    uniform = LazyUniform(word, length=64, bits=bits)
    while True:
        low, high = acceptance_bounds(abs(k), sigma=sigma, places=uniform.places)
        up = uniform.places - uniform.length
        if (uniform.value + 1) << up <= low:
            return True
        if uniform.value << up >= high:
            return False
        uniform.extend()


def acceptance_bounds(k: int, *, sigma: Fraction, places: int) -> tuple[int, int]:
    """Integers with low <= a(k) 2^places <= high, for k >= 1.

    a(k) = e^(-k^2 / (2 sigma^2)) P(rounded normal = 0) / P(rounded normal = k).
    """
    # The difference of the two tails cancels about log2(sigma) + log2(k / sigma) digits, and
    # the tails themselves carry k^2 / (2 sigma^2) binary places before their first digit.
    extra = 64 + k.bit_length() + math.ceil(sigma).bit_length()
    precision = places + extra
    root = mpf_sqrt(from_man_exp(2, 0), precision)
    unit = mpf_mul(from_rational(sigma.numerator, sigma.denominator, precision), root, precision)
    edge = [mpf_div(from_man_exp(2 * k + d, -1), unit, precision) for d in (-1, 1)]
    at_k = mpf_sub(mpf_erfc(edge[0], precision), mpf_erfc(edge[1], precision), precision)
    half = mpf_div(from_man_exp(1, -1), unit, precision)
    at_zero = mpf_mul(from_man_exp(2, 0), mpf_erf(half, precision), precision)
    quotient = int(to_fixed(mpf_div(at_zero, at_k, precision), places + _GUARD))
    exponent = -Fraction(k * k) / (2 * sigma * sigma)
    shrink = math.ceil(-exponent * 2) + 64  # the quotient is as large as the exponential is small
    low, high = exp_bounds(exponent, places + shrink)
    down = shrink + _GUARD
    return (
        max((low * quotient >> places + down) - 2, 0),
        (high * (quotient + 1) >> places + down) + 3,
    )
