"""Continuous laws, drawn as floors of an offset plus noise, a chunk at a time.

Each function evaluates in float64 the number whose floor is wanted. Where no integer lies within
the error bound of it, the floor of the float is the floor of the truth and stands; elsewhere, and
in the far tail, `refinement` decides in exact arithmetic from the same bits and 64 more at a time.
The output so has exactly the ideal law. Every bound is derived, operation by operation, in
docs/proofs/noise.md, sections 2 (Laplace and normal noise) and 9 (truncated Laplace noise and the
staircase).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.balls import Ball, ball, bracket, float_down, ldexp
from unacorda.bits import RandomBits
from unacorda.mechanisms.noise import refinement

Floats = NDArray[np.float64]

CHUNK: Final = 1 << 14
"""Samples computed at once: the work then stays in the second-level cache."""

LARGEST_RATIO: Final = Fraction(1 << 40)
"""Noise scale over grid from which the certificate decides nothing, and nothing is offered."""

_RELATIVE = 2.0**-40  # bound on the error of a standard Laplace or normal, see the proof
_ABSOLUTE = 2.0**-48  # bound on what adding the offset rounds away
_TAIL = -13.0  # -ln U beyond this is refined: U < 2^-18.7, so 2^44 < u holds for the others
_HEAD = -(2.0**-20)  # for normals also -ln U below this: the root would blow up its error

_TABLE_BITS = 12
_REST_BITS = 64 - _TABLE_BITS
_STEPS = 2.0**-48  # of a staircase's value in units of its step
_CUT_TAIL = 13.0


@cache
def _trigonometric_table() -> tuple[Floats, Floats]:
    """Cosine and sine at the middle of each of 4096 equal parts of the circle, rounded toward 0."""
    parts = 1 << _TABLE_BITS
    # An eighth of the circle is computed; the rest of it follows by reflection, without error.
    middles = [ldexp(2 * k + 1, -_TABLE_BITS).sin_cos_pi() for k in range(parts // 8)]
    sine = np.array([float_down(s) for s, _ in middles])
    cosine = np.array([float_down(c) for _, c in middles])
    quarter_cosine = np.concatenate([cosine, sine[::-1]])
    quarter_sine = np.concatenate([sine, cosine[::-1]])
    half_cosine = np.concatenate([quarter_cosine, -quarter_sine])
    half_sine = np.concatenate([quarter_sine, quarter_cosine])
    return np.concatenate([half_cosine, -half_cosine]), np.concatenate([half_sine, -half_sine])


@lru_cache(maxsize=256)
def laplace_shift(scale: Fraction) -> float:
    """ln(2 / (1 + e^(-1/scale))) to within 2^-53."""
    low, high = refinement.log_ratio_bounds(scale, 128)
    return (low + high) / (1 << 129)


@np.errstate(divide="ignore", invalid="ignore")  # ln 0 is refined
def magnitude_chunk(
    count: int, *, scale: Fraction, shift: float | None, bits: RandomBits
) -> tuple[Floats, Floats]:
    """``count`` draws of floor(scale (shift - ln U)), and floats whose signs are fair.

    shift: `laplace_shift` of the scale for the magnitude of a discrete Laplace; None for a
    geometric number.
    """
    words = bits.words(count).view(np.int64)
    signed = np.multiply(words, 2.0**-63)
    logarithm = np.abs(signed)
    np.log(logarithm, out=logarithm)
    lowest = logarithm.min(initial=0.0)
    factor = float(scale)
    value = np.multiply(logarithm, -factor)
    if shift is not None:
        value += factor * shift
    floors = np.floor(value)
    doubtful = _doubtful(value, floors, slack=factor * _RELATIVE + _ABSOLUTE)
    if doubtful.size or lowest < _TAIL:
        doubtful = np.union1d(doubtful, np.flatnonzero(logarithm < _TAIL))
        for index in doubtful.tolist():
            _, uniform = refinement.signed_uniform(int(words[index]), bits)
            floors[index] = refinement.magnitude_exact(
                uniform, scale=scale, two_sided=shift is not None
            )
    return floors, signed


@np.errstate(divide="ignore", invalid="ignore")  # ln 0 is refined
def laplace_chunk(
    offsets: Floats, exact: Callable[[int], Fraction], *, ratio: Fraction, bits: RandomBits
) -> Floats:
    """floor(offset + ratio Z) with independent standard Laplace Z, one for each offset.

    offsets: the float64 nearest to each true offset in [0, 1]; exact: the true offset at an index.
    """
    words = bits.words(offsets.size).view(np.int64)
    signed = np.multiply(words, 2.0**-63)
    logarithm = np.abs(signed)
    np.log(logarithm, out=logarithm)
    lowest = logarithm.min(initial=0.0)
    factor = float(ratio)
    value = np.multiply(logarithm, factor)
    np.copysign(value, signed, out=value)
    value += offsets
    floors = np.floor(value)
    doubtful = _doubtful(value, floors, slack=factor * _RELATIVE + _ABSOLUTE)
    if doubtful.size or lowest < _TAIL:
        doubtful = np.union1d(doubtful, np.flatnonzero(logarithm < _TAIL))
        for index in doubtful.tolist():
            floors[index] = refinement.laplace_floor_exact(
                int(words[index]), ratio=ratio, offset=exact(index), bits=bits
            )
    return floors


@np.errstate(divide="ignore", invalid="ignore")  # ln 0 is refined
def gaussian_chunk(
    offsets: Floats,
    exact: Callable[[int], Fraction],
    *,
    ratio: Fraction,
    bits: RandomBits,
    more: Callable[[int], RandomBits] | None = None,
) -> Floats:
    """floor(offset + ratio Z) with independent standard normal Z, one for each offset.

    Box and Muller (1958): of two uniforms, sqrt(-2 ln U) times the cosine and the sine of 2 pi V.
    The first half of the offsets takes the cosines, the second half the sines. more: the further
    bits of each pair, by its number, so that Z is the same whatever the offsets; by default those
    of `bits` that come next.
    """
    pairs = (offsets.size + 1) // 2
    words = bits.words(2 * pairs)
    radius_words, angle_words = words[:pairs].view(np.int64), words[pairs:]
    logarithm = np.multiply(radius_words, 2.0**-63)
    np.abs(logarithm, out=logarithm)
    np.log(logarithm, out=logarithm)
    extreme = logarithm.min(initial=-1.0) < _TAIL or logarithm.max(initial=-1.0) > _HEAD
    factor = float(ratio)
    radius = np.multiply(logarithm, -2.0)
    np.sqrt(radius, out=radius)
    radius *= factor
    cosine, sine = cosine_and_sine(angle_words)
    value = np.empty(offsets.size)
    np.multiply(radius, cosine, out=value[:pairs])
    second = offsets.size - pairs
    np.multiply(radius[:second], sine[:second], out=value[pairs:])
    value += offsets
    floors = np.floor(value)
    doubtful = _doubtful(value, floors, slack=factor * _RELATIVE + _ABSOLUTE)
    if doubtful.size or extreme:
        tail = np.flatnonzero((logarithm < _TAIL) | (logarithm > _HEAD))
        for pair in np.union1d(doubtful % pairs, tail).tolist():
            # Both normals of a pair share their bits, so they are decided together.
            used = pair + pairs < offsets.size
            first_floor, second_floor = refinement.gaussian_floors_exact(
                int(radius_words[pair]),
                int(angle_words[pair]),
                ratio=ratio,
                offsets=(exact(pair), exact(pair + pairs) if used else None),
                bits=bits if more is None else more(pair),
            )
            floors[pair] = first_floor
            if used:
                floors[pair + pairs] = second_floor
    return floors


def cosine_and_sine(words: NDArray[np.uint64]) -> tuple[Floats, Floats]:
    """Cosine and sine of 2 pi word / 2^64: a table of 4096 angles and a rotation by the rest."""
    index = np.right_shift(words, np.uint64(_REST_BITS)).view(np.int64)
    rest = np.bitwise_and(words, np.uint64((1 << _REST_BITS) - 1)).view(np.int64)
    angle = np.subtract(rest, 2.0 ** (_REST_BITS - 1))
    angle *= 2 * math.pi / 2.0**64  # now within pi / 4096 of zero
    square = np.multiply(angle, angle)
    sine_rest = np.multiply(square, -1 / 6)
    sine_rest += 1.0
    sine_rest *= angle
    cosine_rest = np.multiply(square, 1 / 24)  # the cosine less one
    cosine_rest -= 0.5
    cosine_rest *= square
    cosines, sines = _trigonometric_table()
    base_cosine = np.take(cosines, index, mode="wrap")
    base_sine = np.take(sines, index, mode="wrap")
    cosine = np.multiply(base_cosine, cosine_rest)
    np.multiply(base_sine, sine_rest, out=square)
    cosine -= square
    cosine += base_cosine
    sine_rest *= base_cosine
    cosine_rest *= base_sine
    sine_rest += cosine_rest
    sine_rest += base_sine
    return cosine, sine_rest


def _doubtful(value: Floats, floors: Floats, *, slack: float) -> NDArray[np.int64]:
    """Where an integer lies within ``slack`` of the value; the value array is used up."""
    value -= floors
    value -= 0.5
    np.abs(value, out=value)
    bound = 0.5 - slack
    if value.max(initial=0.0) <= bound:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(~(value <= bound)).astype(np.int64, copy=False)


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
    far = value > _CUT_TAIL
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
        floors[index] = refinement.cut_laplace_floor_exact(
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
        floors[index] = refinement.linear_floor_exact(
            int(words[index]),
            slope=signed_ratio * length,
            offset=exact(index) + signed_ratio * (int(steps[index]) + start),
            bits=bits,
        )
    return floors


@lru_cache(maxsize=256)
def low_part(epsilon: Fraction, split: Fraction) -> refinement.Coin:
    """The coin that shows heads on the low part of a step: 1 - s / (s + (1 - s) e^-epsilon)."""

    def chance() -> Ball:
        return 1 - ball(split) / (ball(split) + ball(1 - split) * ball(-epsilon).exp())

    def bounds(places: int) -> tuple[int, int]:
        low, high = bracket(chance, places)
        return max(low, 0), high

    return refinement.coin(bounds)


def _clear(value: Floats, floors: Floats, *, slack: float | Floats) -> NDArray[np.bool_]:
    """Where no integer lies within ``slack`` of the value; the value array is used up."""
    value -= floors
    value -= 0.5
    np.abs(value, out=value)
    clear: NDArray[np.bool_] = value <= 0.5 - slack
    return clear
