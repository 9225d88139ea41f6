r"""The encoder of a series: the Toeplitz matrix with the least error of the wanted answers.

The release is C x + noise, and every wanted sum is a linear function of C^-1 of it. Candidates are
the coefficients of (1 - x)^-a, truncated to some bands: a = 1/2 with all bands is the square root
of the prefix sums, and a = 0 is independent noise in each step. The choice depends only on public
numbers.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unacorda.mechanisms.correlated.toeplitz import inverse, power_coefficients, scale_for
from unacorda.over_time.bounds import OverTime, SlidingWindow, Wanted
from unacorda.over_time.sensitivity import squared_norm

Floats = NDArray[np.float64]

_POWERS = tuple(Fraction(twentieths, 20) for twentieths in range(11))
_BANDS = (2, 4, 8, 16, 32, 64, 128)
HORIZON = 2_048
"""Steps by which the errors of a series without an end are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A lower triangular Toeplitz matrix of dyadic numbers.

    numbers: its first column, as multiples of 2^-scale_log2, from 2^scale_log2 down; zeros follow.
    """

    numbers: tuple[int, ...]
    scale_log2: int

    @staticmethod
    def of_power(power: Fraction, bands: int) -> Encoder:
        """The first coefficients of (1 - x)^-power.

        >>> Encoder.of_power(Fraction(1, 2), 3).column
        (Fraction(1, 1), Fraction(1, 2), Fraction(3, 8))
        """
        kept = 1 if power == 0 else bands
        numbers = power_coefficients(kept, float(power)).tolist()
        return Encoder(numbers=tuple(numbers), scale_log2=scale_for(kept))

    @property
    def bands(self) -> int:
        """The most steps that enter one number."""
        return len(self.numbers)

    @property
    def column(self) -> tuple[Fraction, ...]:
        """The first column, exactly."""
        return tuple(Fraction(number, 1 << self.scale_log2) for number in self.numbers)

    @property
    def coefficients(self) -> Floats:
        """The first column as floats, exactly."""
        return np.ldexp(np.array(self.numbers, dtype=np.float64), -self.scale_log2)

    def deviations(self, wanted: Wanted, steps: int) -> Floats:
        """Standard deviations of the first `steps` sums of a kind, for noise of deviation 1.

        >>> Encoder.of_power(Fraction(0), 1).deviations("totals", 4).round(3).tolist()
        [1.0, 1.414, 1.732, 2.0]
        """
        weights = inverse(self.coefficients, steps)
        if wanted != "steps":
            weights = np.cumsum(weights)
        if isinstance(wanted, SlidingWindow):
            whole, width = weights, wanted.width
            weights = whole.copy()
            weights[width:] -= whole[:-width] if width < steps else 0.0
        return np.sqrt(np.cumsum(weights**2))


def choose_encoder(person: OverTime, wanted: Sequence[Wanted], *, steps: int | None) -> Encoder:
    """Chooses the encoder with the least errors at a given price, from public numbers.

    Each kind of sum counts with its root mean square error over all steps, in units of the least
    error that any candidate has for it. For a series without an end, errors are those of `HORIZON`
    steps.

    >>> from unacorda.over_time.bounds import window
    >>> choose_encoder(OverTime(max_steps=10), (window(28),), steps=365).bands
    32
    """
    length = HORIZON if steps is None else steps
    candidates = _candidates(length, endless=steps is None)
    norms = [math.sqrt(squared_norm(c.coefficients, person, steps=length)) for c in candidates]
    summed = np.zeros(len(candidates))
    for kind in wanted:
        errors = np.array(norms) * _roots(length, kind, endless=steps is None)
        summed += errors / errors.min()
    return candidates[int(np.argmin(summed))]


@lru_cache(maxsize=8)  # bounds are compared with each other
def _roots(length: int, kind: Wanted, *, endless: bool) -> Floats:
    """The root mean square errors of the candidates, at noise of deviation 1."""
    every = _candidates(length, endless=endless)
    return np.array([math.sqrt(np.mean(c.deviations(kind, length) ** 2)) for c in every])


@lru_cache(maxsize=2)
def _candidates(length: int, *, endless: bool) -> tuple[Encoder, ...]:
    """Few bands first, which are taken where more err no less."""
    widths = [bands for bands in _BANDS if bands < length]
    widths += [] if endless or length == 1 else [length]
    several = (Encoder.of_power(power, bands) for bands in widths for power in _POWERS[1:])
    return (Encoder.of_power(Fraction(0), 1), *several)
