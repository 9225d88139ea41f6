"""The same integer laws from whole numbers alone, for tests and for those who distrust libm.

These are the algorithms of Canonne, Kamath and Steinke 2020 (arXiv:2004.00010v4, Algorithms 1 to
3), written one draw at a time: no float occurs in them. They are slow: tens of microseconds a
draw.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.noise.discrete import exact_scale

__all__ = ["bernoulli", "bernoulli_exp", "discrete_gaussian", "discrete_laplace", "geometric"]


def bernoulli(*, probability: Fraction, bits: RandomBits) -> bool:
    """True with exactly the given rational probability.

    >>> from unacorda.bits import SeededBits
    >>> bernoulli(probability=Fraction(1), bits=SeededBits(1))
    True
    """
    return bits.below(probability.denominator) < probability.numerator


def bernoulli_exp(*, exponent: Fraction, bits: RandomBits) -> bool:
    """True with probability exp(-exponent), for a rational exponent of 0 or above.

    Algorithm 1: of independent coins with probabilities exponent/1, exponent/2, ... the number of
    heads before the first tail is even with probability exp(-exponent), for an exponent up to 1.
    """
    while exponent > 1:
        if not bernoulli_exp(exponent=Fraction(1), bits=bits):
            return False
        exponent -= 1
    count = 1
    while bernoulli(probability=exponent / count, bits=bits):
        count += 1
    return count % 2 == 1


def geometric(*, scale: float | Fraction, size: int, bits: RandomBits) -> NDArray[np.int64]:
    """Draws with P(G = k) proportional to exp(-k / scale), k >= 0, scale above 0."""
    exact = exact_scale("scale", scale)
    return np.array([_geometric(exact, bits) for _ in range(size)], dtype=np.int64)


def discrete_laplace(*, scale: float | Fraction, size: int, bits: RandomBits) -> NDArray[np.int64]:
    """Draws with P(X = k) proportional to exp(-|k| / scale), scale above 0."""
    exact = exact_scale("scale", scale)
    return np.array([_discrete_laplace(exact, bits) for _ in range(size)], dtype=np.int64)


def discrete_gaussian(*, sigma: float | Fraction, size: int, bits: RandomBits) -> NDArray[np.int64]:
    """Draws with P(X = k) proportional to exp(-k^2 / (2 sigma^2)), sigma above 0."""
    exact = exact_scale("sigma", sigma)
    return np.array([_discrete_gaussian(exact, bits) for _ in range(size)], dtype=np.int64)


def _geometric(scale: Fraction, bits: RandomBits) -> int:
    """Algorithm 2, lines 2 to 11: a geometric of scale numerator, divided down."""
    numerator, denominator = scale.numerator, scale.denominator
    while True:
        rest = bits.below(numerator)
        if bernoulli_exp(exponent=Fraction(rest, numerator), bits=bits):
            break
    whole = 0
    while bernoulli_exp(exponent=Fraction(1), bits=bits):
        whole += 1
    return (rest + numerator * whole) // denominator


def _discrete_laplace(scale: Fraction, bits: RandomBits) -> int:
    """Algorithm 2: a magnitude and a sign, where minus zero is drawn again."""
    while True:
        magnitude = _geometric(scale, bits)
        negative = bits.below(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def _discrete_gaussian(sigma: Fraction, bits: RandomBits) -> int:
    """Algorithm 3: a discrete Laplace of scale floor(sigma) + 1, kept by its distance."""
    scale = math.floor(sigma) + 1
    variance = sigma * sigma
    while True:
        draw = _discrete_laplace(Fraction(scale), bits)
        excess = abs(draw) - variance / scale
        if bernoulli_exp(exponent=excess * excess / (2 * variance), bits=bits):
            return draw
