"""Normals of training noise with 1000 digits, and sums that are hard to round."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from unacorda.bits import SeededBits
from unacorda.learning.noise import gaussian
from unacorda.learning.noise.keys import NoiseKey

Floats = NDArray[np.float64]

KEY = NoiseKey.drawn(SeededBits(3))
SCALE = 0.37
GRID = 2.0 ** (math.floor(math.log2(SCALE)) - 12)
DIGITS = 1000
MORE = 60  # words after the first: 3840 bits, more than 1000 digits


def normals(
    key: NoiseKey, labels: tuple[int, ...], count: int, *, first: int | None = None
) -> list[Any]:
    """The normals of one chunk with 1000 digits, or its first cosines, from all their bits."""
    pairs = (count + 1) // 2
    words = key.stream(gaussian._WORDS, *labels, 0).words(2 * pairs).tolist()
    cosines, sines = [], []
    with mpmath.workdps(DIGITS):
        for pair in range(pairs if first is None else first):
            later = key.stream(gaussian._MORE_BITS, *labels, 0, pair).words(2 * MORE).tolist()
            radius = words[pair] if words[pair] < 1 << 63 else (1 << 64) - 1 - words[pair]
            length = mpmath.sqrt(-2 * mpmath.log(number(radius, 63, later[::2])))
            turns = 2 * number(words[pairs + pair], 64, later[1::2])
            cosines.append(length * mpmath.cospi(turns))
            sines.append(length * mpmath.sinpi(turns))
    return (cosines + sines)[:count] if first is None else cosines


def number(prefix: int, length: int, later: Iterable[int]) -> Any:
    for word in later:
        prefix, length = prefix << 64 | word, length + 64
    return mpmath.ldexp(mpmath.mpf(prefix), -length)


def rounded(sums: Floats, found: list[Any]) -> Floats:
    with mpmath.workdps(DIGITS):
        steps = [
            mpmath.floor((mpmath.mpf(s) + mpmath.mpf(SCALE) * z) / GRID + mpmath.mpf(0.5))
            for s, z in zip(sums.tolist(), found, strict=True)
        ]
        return np.array([float(step * GRID) for step in steps])


def ambiguous(found: list[Any], *, far: float = 0.0) -> Floats:
    """Sums whose noisy value lies as near to a middle of two multiples as float64 can bring it."""
    with mpmath.workdps(DIGITS):
        middle = mpmath.mpf(math.floor(far / GRID) + 0.5) * GRID
        return np.array([float(middle - mpmath.mpf(SCALE) * z) for z in found])
