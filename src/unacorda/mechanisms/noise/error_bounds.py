"""How far noise reaches: half widths that cover the released error with a stated probability.

Every half width is rounded up and counts the rounding to the grid. Tails are balls of 256 binary
digits: a result is the least float (or integer) of its kind unless one lies within the ball.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from fractions import Fraction

from unacorda import checks
from unacorda.balls import ball, float_up, fraction_up
from unacorda.checks import Number
from unacorda.mechanisms.noise.discrete import LARGEST_SIGMA, cumulative_bounds
from unacorda.privacy.rounding import float_above


def laplace_quantile(confidence: Number) -> Fraction:
    """Least q with P(|Z| <= q) >= confidence for standard Laplace noise Z, rounded up."""
    return fraction_up(-ball(1 - confident(confidence)).log())


def normal_quantile(confidence: Number) -> Fraction:
    """Least q with P(|Z| <= q) >= confidence for standard normal noise Z, rounded up."""
    return Fraction(float_up(ball(2).sqrt() * ball(1 - confident(confidence)).erfcinv()))


def discrete_laplace_half_width(scale: Fraction, *, confidence: Number) -> int:
    """The least integer q with P(|X| <= q) >= confidence.

    P(|X| > q) = 2 e^(-(q + 1) / scale) / (1 + e^(-1 / scale)).
    """
    miss = ball(1 - confident(confidence))
    reach = ball(scale) * (2 / (miss * (1 + ball(-1 / scale).exp()))).log()  # of q + 1
    return max(math.ceil(fraction_up(reach)) - 1, 0)


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
    return max(math.ceil(sigma * normal_quantile(wanted) - Fraction(1, 2)), 0)


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
