r"""The release of one step: exact integer combinations and exact normal noise on a grid.

y_t = round(sum over j of c_j x_(t-j) + Z), with ideal normal noise Z, in multiples of a public
power of two. It is postprocessing of the Gaussian mechanism, also if later data depend on earlier
releases (Denisov et al. 2022, Theorem 2.1). Estimates are computed only from releases.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.extras import later
from unacorda.mechanisms.noise.continuous import CHUNK, gaussian_chunk
from unacorda.mechanisms.noise.error_bounds import rounded_deviation
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.over_time.bounds import SlidingWindow, Wanted
from unacorda.over_time.encoders import Encoder

signal: Any = later("scipy.signal")

Floats = NDArray[np.float64]

_GRID_BITS = 20  # doublings from the grid to the noise, at the least


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesNoise:
    """Noise of one deviation for integers of each step, correlated by an encoder.

    sigma: the standard deviation, above 0, in the unit of the integers.
    """

    encoder: Encoder
    sigma: Fraction

    @property
    def grid_log2(self) -> int:
        """Released numbers are whole multiples of 2^grid_log2."""
        return floor_log2(self.sigma) - _GRID_BITS

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in each released number, including rounding."""
        return rounded_deviation(float(self.sigma), grid_log2=self.grid_log2)

    def release(self, history: Sequence[Sequence[int]], *, bits: RandomBits) -> list[int]:
        """The noisy numbers of a step, as multiples of 2^grid_log2.

        history: the exact integers of the step, of the one before, and so on, all of one length;
        steps before the last `encoder.bands` are not read.

        >>> from unacorda import SeededBits
        >>> noise = SeriesNoise(
        ...     encoder=Encoder(numbers=(1,), scale_log2=0), sigma=Fraction(1, 2**40)
        ... )
        >>> noise.grid_log2, round(noise.release([[5, 7]], bits=SeededBits(1))[1] * 2.0**-60, 9)
        (-60, 7.0)
        """
        shift = self.encoder.scale_log2 + self.grid_log2
        sums = [0] * len(history[0])
        for number, values in zip(self.encoder.numbers, history, strict=False):
            sums = [one + number * value for one, value in zip(sums, values, strict=True)]
        if shift < 1:  # so that the half that is to be added is a whole number
            sums, shift = [one << (1 - shift) for one in sums], 1
        half, whole = 1 << (shift - 1), 1 << shift
        ratio = self.sigma / Fraction(2) ** self.grid_log2
        released: list[int] = []
        for start in range(0, len(sums), CHUNK):
            part = [one + half for one in sums[start : start + CHUNK]]
            rests = [one & (whole - 1) for one in part]
            offsets = np.array([math.ldexp(rest, -shift) for rest in rests])

            def exact(index: int, rests: Sequence[int] = rests) -> Fraction:
                return Fraction(rests[index], whole)

            noise = gaussian_chunk(offsets, exact, ratio=ratio, bits=bits)
            drawn = noise.astype(np.int64).tolist()
            released += [(one >> shift) + z for one, z in zip(part, drawn, strict=True)]
        return released

    def estimates(self, released: Sequence[Sequence[int]], wanted: Wanted) -> Floats:
        """The sums of a kind, of shape (steps, numbers), in the unit of the integers.

        released: the results of `release`, step by step. A line depends only on its own and earlier
        steps, so it never changes. It is postprocessing.
        """
        noisy = np.array([[math.ldexp(y, self.grid_log2) for y in line] for line in released])
        found: Floats = signal.lfilter([1.0], self.encoder.coefficients, noisy, axis=0)
        if wanted != "steps":
            found = np.cumsum(found, axis=0)
        if isinstance(wanted, SlidingWindow):
            whole, width = found, wanted.width
            found = whole.copy()
            found[width:] -= whole[:-width]
        return found

    def standard_errors(self, wanted: Wanted, steps: int) -> Floats:
        """Standard deviations of the noise in the first `steps` sums of a kind."""
        return self.deviation * self.encoder.deviations(wanted, steps)
