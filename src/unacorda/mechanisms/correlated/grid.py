r"""The public grid of correlated noise: exact inputs, exact sums, one rounding.

Inputs are rounded to multiples of g = 2^input_log2, and clamped at 2^56 of them. The release is
round(v + Z) with v an exact combination of inputs with dyadic coefficients, and Z ideal normal
noise. It is postprocessing of the Gaussian mechanism on v, in any dimension and after any earlier
releases. The grid of releases depends only on sigma and the sensitivity.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise import error_bounds
from unacorda.mechanisms.noise.continuous import CHUNK, gaussian_chunk
from unacorda.mechanisms.noise.rounding import GRID_REACH, floor_log2, floor_steps

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

END: Final = 1 << 56
"""Inputs end at +-END steps."""

HALF_BITS: Final = 28
LARGEST_ROW: Final = 1 << 33
"""Integer rows of this absolute sum keep both halves of a combination within int64."""

_MASK = (1 << HALF_BITS) - 1
_INPUT_BITS = 24  # the default grid divides sensitivity and noise 2^24 times at least
_RELEASE_BITS = 20
_LARGEST_SHIFT = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The public numbers of a release.

    input_log2, release_log2: exponents of the two grids; moved: by how much what lies on the input
    grid can move; sigma: of the noise; both in the unit of the inputs.
    """

    input_log2: int
    release_log2: int
    moved: Fraction
    sigma: Fraction

    @property
    def ratio(self) -> Fraction:
        """The noise in steps of the release grid."""
        return self.sigma / Fraction(2) ** self.release_log2

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one released combination, rounding included."""
        return error_bounds.rounded_deviation(float(self.sigma), grid_log2=self.release_log2)

    def steps(self, values: NDArray[Any]) -> Integers:
        """Each value on the grid, floor(value / g + 1/2); NaN counts as 0, values end at 2^56 g.

        values: of a dtype that `elements.numbers` gives. Two values d apart are at most ceil(d / g)
        steps apart.
        """
        return floor_steps(values, self.input_log2, end=END, half=True)

    def release(
        self, high: Integers, low: Integers, *, scale_log2: int = 0, bits: RandomBits
    ) -> Floats:
        """round(v + Z) with v = (high 2^28 + low) 2^-scale_log2 steps of the input grid.

        high, low: one dimension, at most 2^62 in size. v is clamped to +-2^61 release steps.
        The released multiples of the grid are rounded to float64, which is post-processing.
        """
        shift = scale_log2 + self.release_log2 - self.input_log2
        ratio = self.ratio
        released = np.empty(high.size)
        for start in range(0, high.size, CHUNK):
            part = slice(start, start + CHUNK)
            wholes, rests = _divided(high[part], low[part], shift)
            places = shift
            if shift == 0:  # the half that is to be added is no whole step
                rests, places = np.ones_like(rests), 1
            offsets = np.ldexp(rests.astype(np.float64), -places)

            def exact(index: int, rests: Integers = rests, places: int = places) -> Fraction:
                return Fraction(int(rests[index]), 1 << places)

            noise = gaussian_chunk(offsets, exact, ratio=ratio, bits=bits)
            wholes += noise.astype(np.int64)
            np.ldexp(wholes.astype(np.float64), self.release_log2, out=released[part])
        return released


@lru_cache(maxsize=256)
def grid_for(
    *,
    sigma: Fraction,
    sensitivity: Fraction,
    dimension: int,
    grid_log2: int | None,
    scale_log2: int,
) -> Grid:
    """The grid for this noise and sensitivity of one input, each of `dimension` numbers.

    scale_log2: coefficients are multiples of 2^-scale_log2. Raises InvalidParameter where the
    grid is out of reach.
    """
    root = math.isqrt(dimension - 1) + 1  # at least the root of the dimension
    if grid_log2 is None:
        finest = floor_log2(min(sigma, sensitivity))
        chosen = finest - _INPUT_BITS - (root - 1).bit_length()
    else:
        chosen = grid_log2
    release = max(chosen, floor_log2(sigma) - _RELEASE_BITS)
    name, value = ("sigma", sigma) if grid_log2 is None else ("grid_log2", grid_log2)
    if max(abs(chosen), abs(release)) > GRID_REACH:
        raise InvalidParameter(
            name, value, expected=f"a grid from 2^-{GRID_REACH} to 2^{GRID_REACH}"
        )
    if release - chosen + scale_log2 > _LARGEST_SHIFT:
        limit = "noise of at most a million times the sensitivity"
        coarser = f"a grid of at least 2^{release + scale_log2 - _LARGEST_SHIFT}"
        raise InvalidParameter(name, value, expected=limit if grid_log2 is None else coarser)
    step = Fraction(2) ** chosen
    # Of one number whole steps; of several, each moves by less than a step more.
    moved = math.ceil(sensitivity / step) * step if dimension == 1 else sensitivity + root * step
    return Grid(input_log2=chosen, release_log2=release, moved=moved, sigma=sigma)


def halves(values: Integers) -> tuple[Integers, Integers]:
    """The high and the low half: value = high 2^28 + low, 0 <= low < 2^28."""
    return np.right_shift(values, HALF_BITS), np.bitwise_and(values, _MASK)


def _divided(high: Integers, low: Integers, shift: int) -> tuple[Integers, Integers]:
    """The quotient and the rest of v + 2^(shift - 1) by 2^shift; only v where shift is 0."""
    carried = high + np.right_shift(low, HALF_BITS)
    digits = np.bitwise_and(low, _MASK)
    if shift <= HALF_BITS:  # beyond, it is within its ends
        end = 1 << (33 + shift)  # v is clamped, high and low together, which moves no two apart
        digits[(carried >= end) | (carried < -end)] = 0
        np.clip(carried, -end, end, out=carried)
        if shift:
            digits += 1 << (shift - 1)
        wholes = np.left_shift(carried, HALF_BITS - shift) + np.right_shift(digits, shift)
        return wholes, np.bitwise_and(digits, (1 << shift) - 1)
    more = shift - HALF_BITS
    carried += 1 << (more - 1)
    rests = np.left_shift(np.bitwise_and(carried, (1 << more) - 1), HALF_BITS)
    return np.right_shift(carried, more), np.bitwise_or(rests, digits)
