"""Powers of the transform of a law, with their round-off."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tacet.accounting.profiles.boxes import Array

__all__ = ["Raised", "raised"]

_U = 2.0**-53
_STEEP = 600.0
_ASIDE = 0.5
"""An atom is set aside where all else weighs less than this share of it."""
_Complex: TypeAlias = NDArray[np.complex128]


class Raised(NamedTuple):
    """The transform of a law's power, which stands for `unit^count` times as much.

    place: the node that was moved to 0, once for each copy; mass: of one copy, in units; height:
    of the law, with ln of the unit; errors: of the power.
    """

    power: _Complex
    errors: Array
    mass: float
    unit: float
    height: float
    place: int


def raised(folded: Array, count: int, *, rounding: float, height: float) -> Raised:
    """The transform of `count` copies of the law whose values are these, e^-height times as much.

    rounding: of a transform, in shares of the sum of what is transformed. The largest value is set
    aside where it outweighs the others: then round-off is in proportion to those alone.

    Bound       both: the power lies within `errors` of what is told.
    Source      docs/proofs/pld.md, Theorem 2.
    """
    place = int(np.argmax(folded))
    atom = float(folded[place])
    rest = np.roll(folded, -place)
    rest[0] = 0.0
    beside = float(np.sum(rest))
    if not 0 < beside < _ASIDE * atom:
        return _squared(folded, count, rounding=rounding, height=height)
    # (1 + r)^count, where r is all but the atom: only its own size brings round-off
    share = beside / atom
    r = fft.rfft(rest) / atom
    sizes = np.abs(r)
    logs = 0.5 * np.log1p(r.real * (2 + r.real) + r.imag * r.imag)
    turned = np.arctan2(r.imag, 1 + r.real)
    top = math.log1p(share)
    wrong = 2.5 * (rounding * share * 1.02 + 4 * _U * sizes) + 48 * _U * (sizes + share)
    wrong = count * (wrong + 8 * _U * (abs(height) + abs(math.log(atom))))
    with np.errstate(under="ignore", over="ignore"):
        power = np.exp(count * (logs - top)) * np.exp(1j * (count * turned))
        errors = np.abs(power) * (np.expm1(wrong) + 16 * _U) + 1e-300
        errors = np.where(wrong < _STEEP, errors, math.inf)
    unit = atom * (1 + share)
    return Raised(power, errors, 1.0 + 8 * _U, unit, height + (math.log(atom) + top), place)


def _squared(folded: Array, count: int, *, rounding: float, height: float) -> Raised:
    """The power by squaring: at most 2 count roundings pass into any factor."""
    mass = float(np.sum(folded))
    values = fft.rfft(folded)
    charge = rounding * mass * 1.01
    sizes = np.abs(values)
    result: _Complex = np.ones_like(values)
    left = count
    with np.errstate(under="ignore"):
        while left:
            if left & 1:
                result = result * values
            left >>= 1
            if left:
                values = values * values
        near = np.exp((count - 1) * np.log(np.maximum(sizes + charge, 1e-300)))
        errors = count * (charge + 8 * _U * sizes) * near
    return Raised(result, errors, mass, 1.0, height, 0)
