"""The excess e^y - 1 - y, without cancellation near 0."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
_Numbers = TypeVar("_Numbers", Floats, Complexes)

UNIT = 2.0**-53
"""Rounding unit of float64. exp, expm1, log1p, sin, cos, arctan2 count as 4 units."""

_SWITCH = 0.5
_SMALL = 0.06


def excess(y: _Numbers) -> _Numbers:
    """e^y - 1 - y, for |y| < 700, within 45 units relative.

    Bound       below 1/2 in modulus by its series to y^17 (to y^11 if all are below 0.06).
    Source      docs/proofs/contour.md, section 5.

    >>> float(excess(np.array([1e-9]))[0])
    5.000000001666667e-19
    """
    size = np.abs(y)
    largest = float(size.max(initial=0.0))
    if largest < _SWITCH:
        return _series(y, 11 if largest < _SMALL else 17)
    near = size < _SWITCH
    return np.where(near, _series(np.where(near, y, 0.0), 17), np.expm1(y) - y)


def weighted_excess(log_mass: Floats, mass: Floats, y: Floats) -> Floats:
    """The product mass * (e^y - 1 - y), also where e^y alone would overflow; mass = e^log_mass."""
    size = np.abs(y)
    largest = float(size.max(initial=0.0))
    if largest < _SWITCH:
        return mass * _series(y, 11 if largest < _SMALL else 17)
    near = size < _SWITCH
    far = np.exp(np.minimum(log_mass + y, 700.0)) - mass * (1.0 + y)
    return np.where(near, mass * _series(np.where(near, y, 0.0), 17), far)


def log_sum(levels: Floats) -> Floats:
    """For each row the logarithm of its sum of exponentials; no overflow, rounded up by 1e-9."""
    peak: Floats = levels.max(axis=-1)
    total: Floats = np.log(np.exp(levels - peak[..., None]).sum(axis=-1))
    total += peak + 1e-9
    return total


def short(value: float) -> float:
    """The value with 24 binary digits: its multiples up to 2^29 are exact floats."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, 24)), exponent - 24)


def _series(y: _Numbers, degree: int) -> _Numbers:
    total = y * (1.0 / math.factorial(degree))
    for power in range(degree - 1, 2, -1):
        total += 1.0 / math.factorial(power)
        total *= y
    total += 0.5
    total *= y * y
    return total
