"""Powers of the transform of a law, with their round-off."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.profiles.boxes import Array
from unacorda.extras import later

scipy = later("scipy")

_U = 2.0**-53
_STEEP = 600.0
_ASIDE = 0.5
"""An atom is set aside where all else weighs less than this share of it."""
_MANY, _BLOCK = 1 << 12, 64
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
    aside where it outweighs the others: then round-off is in proportion to those alone. Of many
    copies of others it is in proportion to the frequency, where that tells more.

    Bound       both: the power lies within `errors` of what is told.
    Source      docs/proofs/pld.md, Theorem 2.
    """
    place = int(np.argmax(folded))
    atom = float(folded[place])
    rest = np.roll(folded, -place)
    rest[0] = 0.0
    beside = float(np.sum(rest))
    if 0 < beside < _ASIDE * atom:  # (1 + r)^count, where r is all but the atom
        share = beside / atom
        r = scipy.fft.rfft(rest) / atom
        wrong = rounding * share * 1.02 + 4 * _U * np.abs(r)
        return _of_rest(r, wrong, count, unit=atom, height=height, place=place, share=share)
    found = _squared(folded, count, rounding=rounding, height=height)
    if count < _MANY or len(folded) % 2 or not np.all(folded >= 0):
        return found
    return _centred(folded, count, found, rounding=rounding, height=height)


def _of_rest(
    r: _Complex, wrong: Array, count: int, *, unit: float, height: float, place: int, share: float
) -> Raised:
    """(1 + r)^count, of which r is known within `wrong`: only its own size brings round-off.

    Divided by (1 + share)^count, which is hardly larger.
    """
    sizes, near = np.abs(r), np.abs(1 + r)
    top = math.log1p(share)
    with np.errstate(invalid="ignore", divide="ignore", under="ignore", over="ignore"):
        logs = 0.5 * np.log1p(r.real * (2 + r.real) + r.imag * r.imag)
        turned = np.arctan2(r.imag, 1 + r.real)
        loose = 2.5 * wrong + 48 * _U * (sizes + share)
        loose = count * (loose + 8 * _U * (abs(height) + abs(math.log(unit))))
        power = np.exp(count * (logs - top)) * np.exp(1j * (count * turned))
        errors = np.abs(power) * (np.expm1(loose) + 16 * _U) + 1e-300
        errors = np.where(loose < _STEEP, errors, math.inf)
        far = near < _ASIDE
        power = np.where(far, 0.0, power)
        errors = np.where(far, np.exp(count * np.log(near + wrong + 8 * _U)) + 1e-300, errors)
    log = math.log(unit)
    return Raised(power, errors, 1.0 + 8 * _U, unit * (1 + share), height + log + top, place)


def _centred(folded: Array, count: int, known: Raised, *, rounding: float, height: float) -> Raised:
    """The power where it is known better than by squaring: at low frequencies.

    With w the values about their middle and z = e^(-i theta), the sum of w_j (z^j - 1) is z - 1
    times that of f_i z^i, where f_i is the sum of w_j over j > i, or less that over j <= i < 0.
    """
    size = len(folded)
    half = size // 2
    mass = math.fsum(folded)
    if not 0 < mass < math.inf:
        return known
    place = int(np.searchsorted(np.cumsum(folded), mass / 2)) % size
    values = np.roll(folded, half - place)
    upper = _sums(values[half:][::-1])[::-1]
    f = np.concatenate((upper[1:], [0.0], -_sums(values[:half])))
    absolute = float(np.sum(np.abs(f))) / mass
    theta = 2 * math.pi * np.arange(half + 1) / size
    turn = -2j * np.sin(theta / 2) * np.exp(-0.5j * theta)  # z - 1
    r = turn * (scipy.fft.rfft(f) / mass)
    wrong = (rounding + _summing(size)) * absolute * np.abs(turn) * 1.02 + 16 * _U * np.abs(r) + _U
    found = _of_rest(r, wrong, count, unit=mass, height=height, place=place, share=0.0)
    # by squaring, in the same unit and about the same place
    log = math.log(mass)
    if abs(count * log) > _STEEP:
        return found
    turned = np.exp(2j * math.pi / size * ((place * count % size) * np.arange(half + 1) % size))
    squared = known.power * turned * math.exp(-count * log)
    loose = known.errors * math.exp(-count * log) * (1 + 1e-9)
    loose = loose + np.abs(squared) * 8 * _U * (16 + count * (1 + abs(log)))
    better = loose < found.errors
    power = np.where(better, squared, found.power)
    return found._replace(power=power, errors=np.where(better, loose, found.errors))


def _sums(values: Array) -> Array:
    """The sum of all values up to each, in blocks, so that few roundings pass into any."""
    if len(values) <= _BLOCK:
        return np.cumsum(values)
    rows = np.zeros(-(-len(values) // _BLOCK) * _BLOCK)
    rows[: len(values)] = values
    inner = np.cumsum(rows.reshape(-1, _BLOCK), axis=1)
    before = np.concatenate(([0.0], _sums(inner[:, -1])[:-1]))
    found: Array = (inner + before[:, None]).ravel()[: len(values)]
    return found


def _summing(size: int) -> float:
    """A bound of the relative error of such a sum."""
    return (_BLOCK + 2) * (math.log(size) / math.log(_BLOCK) + 1) * _U


def _squared(folded: Array, count: int, *, rounding: float, height: float) -> Raised:
    """The power by squaring: at most 2 count roundings pass into any factor."""
    mass = float(np.sum(folded))
    values = scipy.fft.rfft(folded)
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
        errors = count * (charge + 8 * _U * sizes) * near + 1e-300
    return Raised(result, errors, mass, 1.0, height, 0)
