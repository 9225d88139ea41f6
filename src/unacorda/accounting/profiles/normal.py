"""The profile of the Gaussian mechanism, by differences of Mills ratios, with its error.

With m(t) = (1 - Phi(t)) / phi(t) and x = epsilon/mu - mu/2,

    delta(epsilon) = Phi(-x) - e^epsilon Phi(-x - mu) = phi(x) (m(x) - m(x + mu)),

because phi(x) = e^epsilon phi(x + mu) (Balle and Wang 2018, Theorem 8, in other letters). Nothing
overflows, nothing cancels but m(x) - m(x + mu); where mu is small that difference is an integral
of J(t) = -m'(t) = 1 - t m(t) > 0, by four nodes of Gauss and Legendre.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np

from unacorda.accounting.profiles.boxes import Array, Box
from unacorda.extras import later

scipy = later("scipy")

_ULP = 2.0**-52
_SPECIAL = 16 * _ULP
"""Relative error of erfcx and ndtr, assumed; the tests find less than 6 units."""

_SMALL = 0.05  # below this mu the difference is integrated
_TERMS = 70  # of the continued fraction of J, which is used from t = 3 on
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def gaussian_profile(epsilon: Box, mu: Box) -> Box:
    """Delta of N(mu, 1) against N(0, 1) at every epsilon and mu in the boxes.

    Bound       both sides: the profile falls in epsilon and rises in mu, so two corners serve.
    Edges       mu = 0 -> max(0, 1 - e^epsilon); below epsilon = 0 by the symmetry of the pair,
                delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon).
    Source      Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 2.13.
    """
    least, most = float(mu.lower), float(mu.upper)
    above = Box(np.maximum(epsilon.lower, 0.0), np.maximum(epsilon.upper, 0.0))
    below = Box(np.minimum(epsilon.lower, 0.0), np.minimum(epsilon.upper, 0.0))
    positive = Box(_point(above.upper, least, sign=-1), _point(above.lower, most, sign=1))
    if not np.any(epsilon.lower < 0):
        return positive
    mirrored = Box(_point(-below.lower, least, sign=-1), _point(-below.upper, most, sign=1))
    negative = -below.expm1() + below.exp() * mirrored
    lower = np.where(epsilon.upper < 0, negative.lower, positive.lower)
    upper = np.where(epsilon.lower < 0, negative.upper, positive.upper)
    return Box(lower, np.minimum(upper, 1.0))


def _point(epsilon: Array, mu: float, *, sign: int) -> Array:
    """Delta at exactly these epsilon >= 0 and mu, rounded up (sign 1) or down (sign -1)."""
    if mu == 0:
        return np.zeros_like(epsilon)
    with np.errstate(over="ignore", under="ignore"):
        x = epsilon / mu - mu / 2
        # x carries an absolute error; -d ln(delta)/dx <= max(x + mu, 0) + 2, see docs/proofs/pld.md
        moved = 2 * _ULP * (epsilon / mu + mu / 2) * (np.maximum(x + mu, 0.0) + 2)
        density = np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi)
        relative = 4 * _ULP * np.square(x) + 16 * _ULP + moved
        far = x < -1.0
        near = np.maximum(x, -1.0)
        difference, error = _mills_difference(near, mu)
        value = density * difference
        slack = density * error + value * np.minimum(relative, 1.0)
        if np.any(far):
            whole = scipy.special.ndtr(-x)
            part = density * _mills(np.maximum(x + mu, -1.0))
            value = np.where(far, whole - part, value)
            slack = np.where(far, (whole + part) * (relative + 4 * _SPECIAL), slack)
        result: Array = value + sign * (slack * 1.01 + 1e-321)
    # beyond exp's range the density is below 1e-300 and so is delta
    clipped: Array = np.clip(result, 0.0, 1.0)
    return clipped


def _mills(t: Array) -> Array:
    value: Array = scipy.special.erfcx(t / math.sqrt(2)) * math.sqrt(math.pi / 2)
    return value


def _mills_difference(x: Array, mu: float) -> tuple[Array, Array]:
    """m(x) - m(x + mu) for x >= -1, and its absolute error."""
    if mu >= _SMALL:
        first, second = _mills(x), _mills(x + mu)
        # the argument x + mu is rounded once: |m'| <= 1 + |t| m(t) <= 2.6 for t >= -1
        error = (first + second) * (_SPECIAL + 3 * _ULP) + 3 * _ULP * (np.abs(x) + mu) / (
            1 + np.square(x)
        )
        return first - second, error
    total = np.zeros_like(x)
    slack = np.zeros_like(x)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        value, error = _slope(x + mu * (1 + node) / 2)
        total += weight * value
        slack += weight * error
    # the rule's own error is below 3e-20 mu^8 J_9/J_1 < 1e-25 of the value
    return total * (mu / 2), slack * (mu / 2) + total * mu * 8 * _ULP


def _slope(t: Array) -> tuple[Array, Array]:
    """J(t) = 1 - t m(t) > 0 for t >= -1, and its absolute error."""
    ratio = _mills(t)
    plain = 1 - t * ratio
    fraction = np.maximum(t, 3.0)
    tail = fraction.copy()
    for index in range(_TERMS, 1, -1):
        tail = fraction + index / tail
    by_fraction = ratio / tail  # J = m / (t + 2/(t + 3/(t + ...))), all terms positive
    value = np.where(t < 3.0, plain, by_fraction)
    error = np.where(t < 3.0, (1 + np.abs(t) * ratio) * 2 * _SPECIAL, by_fraction * 2 * _SPECIAL)
    # t itself is rounded: |J'| <= m + ... <= 4 for t >= -1, and J'/J is about -2/t beyond 3
    return value, error + 4 * _ULP * np.where(t < 3.0, 4.0 * (np.abs(t) + 1), 4 * by_fraction)
