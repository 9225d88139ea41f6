"""The Gauss-Legendre rule, each point and weight the nearest float."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from unacorda.accounting.contour.series import Floats

__all__ = ["legendre"]

_BITS = 140


@functools.lru_cache(maxsize=16)
def legendre(size: int) -> tuple[Floats, Floats]:
    """Points and weights of the Gauss-Legendre rule of an even size, each the nearest float.

    NumPy's weights are off by up to 1e-11; its points are the start of two Newton steps in
    fixed point.
    """
    start = np.polynomial.legendre.leggauss(size)[0][size // 2 :]
    points, weights = [], []
    one = 1 << _BITS
    for near in start:
        x = int(math.ldexp(float(near), 60)) << (_BITS - 60)
        for _ in range(2):
            value, slope = _polynomial(x, size)
            x -= (value << _BITS) // slope
        slope = _polynomial(x, size)[1]
        points.append(float(Fraction(x, one)))
        weights.append(float(Fraction(2 * one**4, (one * one - x * x) * slope * slope)))
    right, heights = np.array(points), np.array(weights)
    return np.concatenate([-right[::-1], right]), np.concatenate([heights[::-1], heights])


def _polynomial(x: int, size: int) -> tuple[int, int]:
    """The Legendre polynomial of this degree and its slope at x, in fixed point."""
    before, value = 1 << _BITS, x
    for degree in range(1, size):
        following = ((2 * degree + 1) * x * value >> _BITS) - degree * before
        before, value = value, following // (degree + 1)
    slope = ((x * value >> _BITS) - before) * size
    return value, (slope << _BITS) // ((x * x >> _BITS) - (1 << _BITS))
