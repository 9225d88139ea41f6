"""How far noise reaches: half widths that cover the released error with a stated probability.

Every half width is rounded up and counts the rounding to the grid. Tails are evaluated to 120
binary digits, so that a result is the least float (or integer) of its kind up to one step.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from mpmath import libmp

from unacorda import checks
from unacorda.checks import Number
from unacorda.mechanisms.noise.discrete import LARGEST_SIGMA, cumulative_bounds
from unacorda.privacy.rounding import float_above

_PRECISION = 120
_ONE_MORE = Fraction(1) + Fraction(1, 1 << 100)  # above every rounding at that precision


def laplace_quantile(confidence: Number) -> Fraction:
    """Least q with P(|Z| <= q) >= confidence for standard Laplace noise Z, rounded up."""
    return _minus_log(1 - confident(confidence))


def normal_quantile(confidence: Number) -> Fraction:
    """Least q with P(|Z| <= q) >= confidence for standard normal noise Z, rounded up."""
    return _normal_quantile(confident(confidence))


def discrete_laplace_half_width(scale: Fraction, *, confidence: Number) -> int:
    """The least integer q with P(|X| <= q) >= confidence.

    P(|X| > q) = 2 e^(-(q + 1) / scale) / (1 + e^(-1 / scale)).
    """
    miss = 1 - confident(confidence)

    def covers(q: int) -> bool:
        # 2 e^(-(q+1)/t) <= miss (1 + e^(-1/t)), both sides divided by e^(-(q+1)/t).
        bound = _exp_up(-Fraction(q + 1) / scale) * 2
        return bound <= miss * (1 + _exp_up(-1 / scale) / _ONE_MORE**2)

    guess = max(math.floor(scale * _minus_log(miss)) - 2, 0)
    return _first(covers, guess)


@functools.lru_cache(maxsize=1_024)
def discrete_gaussian_half_width(sigma: Fraction, *, confidence: Number) -> int:
    """An integer q with P(|X| <= q) >= confidence; the least one up to sigma = 200.

    Above, the rounded normal stands in, whose magnitude is the larger of the two in law (the
    ratio of the two laws falls with |k|) by less than 1 part in sigma^2.
    """
    wanted = confident(confidence)
    if sigma <= LARGEST_SIGMA:
        places = 128
        target = wanted * (1 << places)
        bounds = cumulative_bounds(sigma * sigma, places)
        return next((k for k, (low, _) in enumerate(bounds) if low >= target), len(bounds) - 1)
    return max(math.ceil(sigma * _normal_quantile(wanted) - Fraction(1, 2)), 0)


def rounded_deviation(ideal: float, *, grid_log2: int) -> float:
    """The deviation of ideal noise and of a rounding error spread evenly over one grid step."""
    return math.hypot(ideal, math.ldexp(1.0, grid_log2) / math.sqrt(12))


def discrete_laplace_deviation(scale: Fraction) -> float:
    """Standard deviation 1 / (sqrt 2 sinh(1 / (2 scale))) of the discrete Laplace."""
    half = float(min(1 / (2 * scale), Fraction(10_000)))
    return 0.0 if half > 700 else 1 / (math.sqrt(2) * math.sinh(half))


def discrete_gaussian_deviation(sigma: Fraction) -> float:
    """Standard deviation of the discrete Gaussian; below sigma, and equal to it in float64 from 3.

    The variance is sigma^2 (1 - O(sigma^2 e^(-2 pi^2 sigma^2))).
    """
    width = float(sigma)
    if width >= 3:
        return width
    weights = [math.exp(max(-k * k / (2 * width * width), -745.0)) for k in range(1, 60)]
    second = 2 * math.fsum(k * k * w for k, w in enumerate(weights, start=1))
    return math.sqrt(second / (1 + 2 * math.fsum(weights)))


def confident(confidence: Number) -> Fraction:
    """The confidence exactly, if it lies between 0 and 1; else InvalidParameter."""
    value = checks.exact("confidence", confidence)
    checks.demand(0 < value < 1, "confidence", confidence, expected="a number between 0 and 1")
    return value


def on_grid_width(width: Fraction, *, grid_log2: int, on_grid: bool) -> float:
    """The half width of the rounded error where that of the ideal one is known, rounded up."""
    step = Fraction(2) ** grid_log2
    if on_grid:
        # The error is j steps where |Z| < (j + 1/2) steps.
        return float_above(max(math.ceil(width / step - Fraction(1, 2)), 0) * step)
    return float_above(width + step / 2)


@functools.lru_cache(maxsize=1_024)
def _minus_log(value: Fraction) -> Fraction:
    """-ln(value), rounded up, for a value in (0, 1)."""
    argument = libmp.from_rational(value.numerator, value.denominator, _PRECISION + 64)
    return _fraction(libmp.mpf_neg(libmp.mpf_log(argument, _PRECISION))) * _ONE_MORE


def _exp_up(exponent: Fraction) -> Fraction:
    """e^exponent for an exponent of 0 or below, rounded up."""
    argument = libmp.from_rational(exponent.numerator, exponent.denominator, _PRECISION + 64)
    return _fraction(libmp.mpf_exp(argument, _PRECISION)) * _ONE_MORE


@functools.lru_cache(maxsize=1_024)
def _normal_quantile(confidence: Fraction) -> Fraction:
    """A z with P(|N(0, 1)| <= z) >= confidence, the least float up to one step."""
    miss = 1 - confidence
    # 2^-100 covers every rounding below, so what passes is covered in truth.
    limit = miss / _ONE_MORE**2
    goal = libmp.from_rational(limit.numerator, limit.denominator, _PRECISION)
    root = libmp.mpf_sqrt(libmp.from_man_exp(2, 0), _PRECISION)

    def covers(z: float) -> bool:
        exact = Fraction(z)
        argument = libmp.mpf_div(
            libmp.from_rational(exact.numerator, exact.denominator, _PRECISION), root, _PRECISION
        )
        return bool(libmp.mpf_lt(libmp.mpf_erfc(argument, _PRECISION), goal))

    z = -NormalDist().inv_cdf(max(float(miss / 2), 5e-324))  # a first guess
    z = max(z * (1 - 2.0**-49), 0.0)
    while not covers(z):
        z = math.nextafter(z, math.inf)
    return Fraction(z)


def _first(holds: Callable[[int], bool], guess: int) -> int:
    """The least integer from ``guess`` on (or just below it) for which a rising condition holds."""
    while guess > 0 and holds(guess - 1):
        guess -= 1
    while not holds(guess):
        guess += 1
    return guess


def _fraction(value: Any) -> Fraction:
    sign, mantissa, exponent, _ = value
    magnitude = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -magnitude if sign else magnitude
