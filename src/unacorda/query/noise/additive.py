"""A share of a budget becomes noise: which mechanism, at which scale, for which sensitivity.

A share is a guarantee of one of three kinds, and each kind has its noise: PureDP is spent by
Laplace noise in the l1 norm, ZCDP and GDP by normal noise in the l2 norm. Whole numbers under
PureDP and ZCDP get discrete noise; under GDP, which the discrete Gaussian does not keep, the
ideal normal rounded to whole numbers.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP
from unacorda.privacy.rounding import root_up
from unacorda.query.noise.sensitivity import Sensitivity

CONFIDENCE = Fraction(95, 100)
"""Of every interval in a release."""

Share = PureDP | ZCDP | GDP
"""The part of a request that one aggregate may spend."""


class Noise(Protocol):
    """What an aggregate makes of its share."""

    @property
    def event(self) -> events.Event:
        """What it costs, in all cells together."""
        ...

    @property
    def log_scale(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
        ...


_LARGEST_DISCRETE = 2.0**30  # beyond it the grid of whole numbers is finer than anyone can use


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditiveNoise:
    """Noise for exact integers, each meaning integer times 2^unit_log2.

    mechanism: in absolute units; whole: whether answers are whole numbers.
    """

    mechanism: Laplace | Gaussian | DiscreteLaplace | DiscreteGaussian
    unit_log2: int
    whole: bool

    @property
    def event(self) -> events.Event:
        return self.mechanism.event

    @property
    def log_scale(self) -> float:
        # Discrete noise of a tiny scale is 0 but for chances below the least double.
        return math.log(max(self.standard_deviation, sys.float_info.min))

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of each noisy number, absolute, rounding included."""
        return self.mechanism.standard_deviation

    @property
    def scale(self) -> Fraction:
        """The mechanism's parameter: of Laplace noise the scale, of normal noise sigma."""
        match self.mechanism:
            case Laplace(scale=scale) | DiscreteLaplace(scale=scale):
                return Fraction(scale)
            case Gaussian(sigma=sigma) | DiscreteGaussian(sigma=sigma):
                return Fraction(sigma)

    @property
    def laplace(self) -> bool:
        """Whether the noise has the Laplace's tails (otherwise the normal's)."""
        return isinstance(self.mechanism, Laplace | DiscreteLaplace)

    def half_width(self, confidence: Fraction) -> float:
        """The least q with P(|noisy - exact| <= q) >= confidence, rounded up."""
        match self.mechanism:
            case Laplace() | Gaussian():
                return self.mechanism.error_bound(confidence, on_grid=self.whole)
            case DiscreteLaplace() | DiscreteGaussian():
                return float(self.mechanism.error_bound(confidence))

    def release(self, values: Sequence[int], *, bits: RandomBits) -> list[Fraction] | list[int]:
        """The noisy numbers, absolute: integers where `whole`, else multiples of a public grid."""
        match self.mechanism:
            case DiscreteLaplace() | DiscreteGaussian():
                return self.mechanism.release_exact(values, bits=bits)
            case Laplace() | Gaussian():
                noisy = self.mechanism.release_exact(values, unit_log2=self.unit_log2, bits=bits)
                return [int(value) for value in noisy] if self.whole else noisy

    def doubles(self, values: Sequence[int], *, bits: RandomBits) -> NDArray[np.float64]:
        """The same numbers, each rounded once."""
        match self.mechanism:
            case Laplace() | Gaussian() if not self.whole:
                return self.mechanism.release_doubles(values, unit_log2=self.unit_log2, bits=bits)
        return np.array([float(value) for value in self.release(values, bits=bits)])

    def __str__(self) -> str:
        discrete = isinstance(self.mechanism, DiscreteLaplace | DiscreteGaussian)
        kind = "Laplace noise of scale" if self.laplace else "normal noise of standard deviation"
        return f"{'discrete ' if discrete else ''}{kind} {float(self.scale):.6g}"


def additive_noise(
    share: Share, sensitivity: Sensitivity, *, unit_log2: int, counts: bool
) -> AdditiveNoise:
    """The least noise that keeps the share.

    sensitivity: in grid units of 2^unit_log2. counts: the numbers are counts, so that answers
    should be whole (unit_log2 is 0).
    """
    unit = Fraction(2) ** unit_log2
    if isinstance(share, PureDP):
        laplace = Laplace.for_guarantee(share, l1_sensitivity=sensitivity.l1 * unit)
        if counts and laplace.scale <= _LARGEST_DISCRETE:
            discrete = DiscreteLaplace(scale=laplace.scale, l1_sensitivity=laplace.l1_sensitivity)
            return AdditiveNoise(mechanism=discrete, unit_log2=0, whole=True)
        return AdditiveNoise(mechanism=laplace, unit_log2=unit_log2, whole=False)
    l2 = _root_up(sensitivity.l2_squared) * unit
    normal = Gaussian.for_guarantee(share, l2_sensitivity=l2)
    if counts and isinstance(share, ZCDP) and normal.sigma <= _LARGEST_DISCRETE:
        discrete_normal = DiscreteGaussian(sigma=normal.sigma, l2_sensitivity=l2)
        return AdditiveNoise(mechanism=discrete_normal, unit_log2=0, whole=True)
    if counts and 1 <= normal.sigma <= _LARGEST_DISCRETE:
        whole = Gaussian(sigma=normal.sigma, l2_sensitivity=l2, grid_log2=0)
        return AdditiveNoise(mechanism=whole, unit_log2=0, whole=True)
    return AdditiveNoise(mechanism=normal, unit_log2=unit_log2, whole=False)


def _root_up(square: Fraction) -> Fraction:
    """The square root, exact where it is rational, else rounded up."""
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    return Fraction(root_up(square))


_ROUNDED_UP = 1 + 2.0**-18  # the grid's rounding is below 2^-19


def noise_quantile(beyond: float, *, laplace: bool) -> float:
    """z: any combination of noises is beyond z standard deviations with at most this chance.

    beyond: at most 0.05.
    """
    z = -math.log(beyond) / math.sqrt(2) if laplace else -NormalDist().inv_cdf(beyond / 2)
    return z * _ROUNDED_UP


def grid_unit(lower: Fraction, upper: Fraction, *, whole: bool) -> int:
    """The exponent of the public unit in which values between the bounds become integers.

    A function of the bounds alone. Values fill 52 bits, so that a double loses nothing that
    matters and the sum of any number of rows below 2^74 fits in 128; whole numbers between whole
    bounds keep the unit 1.

    >>> grid_unit(Fraction(0), Fraction(100), whole=False)
    -46
    """
    largest = max(abs(lower), abs(upper))
    if whole and lower.denominator == upper.denominator == 1 and largest <= 2**52:
        return 0
    return floor_log2(largest) - 52
