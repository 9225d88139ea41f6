"""Points of the panels: a Gauss-Legendre rule on each, and what bounds the density about them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from unacorda.accounting.contour.atoms import Atoms
from unacorda.accounting.contour.ratios import Ratio
from unacorda.accounting.contour.series import UNIT, Floats

__all__ = ["ORDER", "bound_of_density", "joined", "legendre", "pieces_of", "points_of"]


# The Gauss-Legendre rule, each point and weight the nearest float.

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


ORDER = 32
"""Points of each panel."""


def bound_of_density(rows: Floats, low: Floats, high: Floats, y: Floats) -> Floats:
    """A bound of ln |q| for low <= Re z <= high, |Im z| <= y; q the sum of e^(a + b z + c z^2)."""
    total = np.full_like(low, -math.inf)
    for a, b, c in rows:
        top = np.clip(-b / (2 * c), low, high) if c < 0 else np.where(b > 0, high, low)
        total = np.logaddexp(total, a + b * top + c * top * top - c * y * y)
    return total + 1e-9


def points_of(rows: Floats, ratio: Ratio, edges: Floats) -> Atoms:
    """Points and weights of every panel; both count 2^-50."""
    places, weights = legendre(ORDER)
    half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
    z = (middle[:, None] + half[:, None] * places).ravel()
    slip = (
        half[:, None] * 2.0**-50
        + 2 * UNIT * np.abs(edges[1:, None])
        + 2 * UNIT * np.abs(edges[:-1, None])
        + 0 * places
    ).ravel()
    levels = np.array([a + b * z + c * z * z for a, b, c in rows])
    sizes = np.array([abs(a) + np.abs(b * z) + np.abs(c * z * z) for a, b, c in rows])
    moved = np.array([np.abs(b + 2 * c * z) for _, b, c in rows])
    top = levels.max(axis=0)
    shares = np.exp(levels - top)
    total = shares.sum(axis=0)
    shares /= total
    measure = np.log((half[:, None] * weights).ravel())
    log_mass = top + np.log(total) + measure
    error = (shares * (12 * UNIT * sizes + moved * slip)).sum(axis=0)
    error += 2.0**-50 + UNIT * (16 + 2 * len(rows) + 4 * np.abs(measure) + 4 * np.abs(log_mass))
    value, wrong = ratio.log(z)
    return Atoms(
        log_mass=log_mass,
        log_mass_error=error + UNIT * np.abs(top),
        log_ratio=value,
        log_ratio_error=wrong + ratio.slope(z, z)[1] * slip,
    )


def pieces_of(edges: Floats) -> Floats:
    """Eight pieces of each panel."""
    parts = edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(8) / 8)
    return np.append(parts.ravel(), edges[-1])


def joined(first: Atoms, second: Atoms) -> Atoms:
    """Atoms of both."""
    return Atoms(
        log_mass=np.concatenate([first.log_mass, second.log_mass]),
        log_mass_error=np.concatenate([first.log_mass_error, second.log_mass_error]),
        log_ratio=np.concatenate([first.log_ratio, second.log_ratio]),
        log_ratio_error=np.concatenate([first.log_ratio_error, second.log_ratio_error]),
    )
