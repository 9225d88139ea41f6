"""The hot paths of noise of other shapes: cut Laplace noise and the staircase.

As in `certified`, float64 decides under a proved error bound, and what it cannot decide is
refined from the same bits and more (docs/proofs/noise.md, section 9).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.certified import magnitude_chunk
from unacorda.mechanisms.coins import Coin, coin
from unacorda.mechanisms.refine import (
    cut_laplace_floor_exact,
    exp_bounds,
    linear_floor_exact,
)

__all__ = ["cut_laplace_chunk", "low_part", "staircase_chunk"]

Floats = NDArray[np.float64]

_RELATIVE = 2.0**-40  # of one standard Laplace, as in `certified`
_STEPS = 2.0**-48  # of a staircase's value in units of its step
_ABSOLUTE = 2.0**-48
_TAIL = 13.0


@np.errstate(divide="ignore", invalid="ignore")  # ln 0 is refined
def cut_laplace_chunk(
    offsets: Floats,
    exact: Callable[[int], Fraction],
    *,
    ratio: Fraction,
    bits: RandomBits,
    reach: Fraction,
) -> Floats:
    """floor(offset + ratio Z), Z standard Laplace given that it lies in [-reach, reach].

    An exponential number is taken modulo the reach, which gives it the cut law without rejection:
    the density at each x of [0, reach) is that of x, x + reach, x + 2 reach, ..., all like e^-x.
    """
    words = bits.words(offsets.size).view(np.int64)
    signed = np.multiply(words, 2.0**-63)
    value = np.abs(signed)
    np.log(value, out=value)
    np.negative(value, out=value)
    far = value > _TAIL
    factor, length = float(ratio), float(reach)
    turns = np.divide(value, length)
    whole = np.floor(turns)
    # Near a whole number of turns the float may stand on the wrong side.
    turns -= whole
    turns -= 0.5
    np.abs(turns, out=turns)
    certain = turns <= 0.5 - _RELATIVE / length
    whole *= length
    value -= whole
    value *= factor
    np.copysign(value, signed, out=value)
    value += offsets
    floors = np.floor(value)
    certain &= _clear(value, floors, slack=factor * _RELATIVE + _ABSOLUTE)
    certain &= ~far
    for index in np.flatnonzero(~certain).tolist():
        floors[index] = cut_laplace_floor_exact(
            int(words[index]), ratio=ratio, offset=exact(index), reach=reach, bits=bits
        )
    return floors


def staircase_chunk(
    offsets: Floats,
    exact: Callable[[int], Fraction],
    *,
    ratio: Fraction,
    bits: RandomBits,
    epsilon: Fraction,
    split: Fraction,
) -> Floats:
    """floor(offset + ratio Z), Z of the staircase law with steps of length 1.

    |Z| = G + split U on the high part of a step and G + split + (1 - split) U on its low part, G
    geometric and U uniform.
    """
    count = offsets.size
    steps, signed = magnitude_chunk(count, scale=1 / epsilon, shift=None, bits=bits)
    low = low_part(epsilon, split).toss(count, bits)
    words = bits.words(count)
    factor, high = float(ratio), float(split)
    value = np.multiply(words, 2.0**-64)
    value *= np.where(low, float(1 - split), high)
    value += np.where(low, high, 0.0)
    value += steps
    value *= factor
    np.copysign(value, signed, out=value)
    value += offsets
    floors = np.floor(value)
    slack = (steps + 1) * (factor * _STEPS) + _ABSOLUTE
    for index in np.flatnonzero(~_clear(value, floors, slack=slack)).tolist():
        start, length = (split, 1 - split) if low[index] else (Fraction(0), split)
        signed_ratio = -ratio if np.signbit(signed[index]) else ratio
        floors[index] = linear_floor_exact(
            int(words[index]),
            slope=signed_ratio * length,
            offset=exact(index) + signed_ratio * (int(steps[index]) + start),
            bits=bits,
        )
    return floors


@lru_cache(maxsize=256)
def low_part(epsilon: Fraction, split: Fraction) -> Coin:
    """The coin that shows heads on the low part of a step: (1 - s) b / (s + (1 - s) b), b = e^-eps.

    It rises with b, so brackets of b bracket it.
    """

    def bounds(places: int) -> tuple[int, int]:
        work = places + 64
        ends = [(1 - split) * Fraction(end, 1 << work) for end in exp_bounds(-epsilon, work)]
        low, high = (end / (split + end) if split + end else Fraction(1) for end in ends)
        return math.floor(low * (1 << places)), math.ceil(high * (1 << places))

    return coin(bounds)


def _clear(value: Floats, floors: Floats, *, slack: float | Floats) -> NDArray[np.bool_]:
    """Where no integer lies within ``slack`` of the value; the value array is used up."""
    value -= floors
    value -= 0.5
    np.abs(value, out=value)
    clear: NDArray[np.bool_] = value <= 0.5 - slack
    return clear
