r"""Means and variances of a column, with intervals for sampling and privacy errors.

With u = (x - c) / h in [-1, 1] the sums of u and of a u^2 are released together. If a is small
enough (below), the pair has the sensitivity of the sum of u alone. So the variance, which the
interval of the mean needs, costs nothing.

Wide bounds make a mean noisy, since the noise grows with their distance. `clipped_mean` locates the
values by two quartiles, which cost little, and clips values a few deviations around their middle.
If values lie beyond, this is not the mean. But no private interval of finite length covers the mean
of a completely unknown distribution.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from unacorda.bits import RandomBits, source_of
from unacorda.inference.estimates.quantiles import quartiles
from unacorda.inference.records import (
    Floats,
    check_budget,
    column,
    public_range,
    selection_epsilon,
    shareable,
    unit_values,
)
from unacorda.inference.sums import (
    ROUNDED,
    additive_noise,
    law_of,
    noisy_counts,
    noisy_mean,
    sum_noise,
)
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.privacy.estimates import Estimate, Interval
from unacorda.privacy.guarantees import Guarantee

_SQUARE_L2: Final = Fraction(83, 50)
r"""a with |(u, a u^2) - (v, a v^2)|_2 <= 2 on [-1, 1].

With s = |u + v| and |u - v| <= 2 - s this is (2 - s)^2 (1 + a^2 s^2) <= 4, that is
a^2 <= (4 - s) / (s (2 - s)^2), which is least at s = 3 - sqrt 5: a <= 1.66508.
"""

_SQUARE_L1: Final = Fraction(1, 2)
"""The same for the l1 norm: (2 - s) (1 + a s) <= 2 is a (2 - s) <= 1, at worst a = 1/2."""


def mean(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> Estimate:
    r"""Estimates the mean of a bounded column, with sampling and privacy errors and intervals.

    The noise is Laplace or normal, whichever is smaller. The estimate is unbiased for the mean of
    the clipped values. Its sampling error is that of n draws from a large population, computed from
    a private variance.

    Source: Karwa and Vadhan 2018, arXiv:1711.03908 (sampling and noise both in the interval); the
    square within the same sensitivity: docs/proofs/row_sums.md, section 2.

    Parameters
    ----------
    x
        One number per person, shape (n,); n is public. Values beyond a bound count as the bound,
        NaN as the middle between them.
    lower, upper
        Public bounds, in the unit of x.
    budget
        Any guarantee, kept under the replacement of one row.
    bits
        Omit it for secure noise; `SeededBits` makes the result reproducible, and not private.

    Returns
    -------
    Estimate
        The value, both its errors and the law of the noise, in the unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> ages = np.arange(2000) % 100
    >>> estimate = mean(
    ...     ages, lower=0, upper=100, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> 47 < estimate.value < 52, round(estimate.sampling_error, 1)
    (True, 0.6)
    """
    low, high = public_range(lower, upper, of="x")
    values = unit_values(column("x", x), lower=low, upper=high)
    moments = unit_moments(values, budget=check_budget(budget), bits=source_of(bits))
    half = (high - low) / 2
    return Estimate(
        value=low + half + half * moments.first,
        sampling_error=half * moments.deviation / math.sqrt(values.size),
        privacy_error=half * moments.first_noise,
        noise=law_of(moments.noise),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Released: the means of u and of u^2, the deviations of their noise, and the noise of sums."""

    n: int
    first: float
    second: float
    first_noise: float
    second_noise: float
    noise: Gaussian | Laplace

    @property
    def variance(self) -> float:
        """Unbiased, and perhaps negative: first^2 holds noise, and the sample's own mean."""
        return (self.second - self.first**2 + self.first_noise**2) * self.n / max(self.n - 1, 1)

    @property
    def deviation(self) -> float:
        """The deviation of u, small but not 0 where noise took the variance below 0."""
        noise = math.hypot(
            self.second_noise, 2 * self.first * self.first_noise, math.sqrt(2) * self.first_noise**2
        )
        return math.sqrt(min(positive_part(self.variance, noise), 1 + self.first_noise))


def unit_moments(values: Floats, *, budget: Guarantee, bits: RandomBits) -> Moments:
    """First and second moment of numbers in [-1, 1] within the whole budget."""
    n = values.size
    bound = 2 * ROUNDED  # |(u, a u^2)|_2 < 2 for both factors
    noise = sum_noise(
        budget,
        rows=n,
        size=2,
        row_bound=bound,
        l1=bound,
        l2=bound,
        ratio=Fraction(3, 2),  # above sqrt 2
    )
    weight = float(_SQUARE_L1 if isinstance(noise, Laplace) else _SQUARE_L2)

    def part(rows: slice) -> Floats:
        block = values[rows]
        return np.array([block.sum(), weight * np.dot(block, block)])

    (first, second), error = noisy_mean(part, noise, rows=n, size=2, row_bound=bound, bits=bits)
    return Moments(
        n=n,
        first=float(first),
        second=float(second) / weight,
        first_noise=error,
        second_noise=error / weight,
        noise=noise,
    )


def proportion(x: ArrayLike, *, budget: Guarantee, bits: RandomBits | None = None) -> Estimate:
    """Estimates the share of people for whom x is true, with sampling and privacy errors.

    The value is unbiased and not clamped to [0, 1]; its sampling error is the binomial one. For
    small counts use `binomial_test`, whose intervals are exact.

    Parameters
    ----------
    x
        One number per person, shape (n,), true where it is neither 0 nor NaN.
    budget, bits
        As for `mean`.

    Returns
    -------
    Estimate
        The share; noise can take it out of [0, 1].

    Raises
    ------
    InvalidParameter
        For shapes, dtypes and budgets that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> estimate = proportion(
    ...     [True] * 300 + [False] * 700, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> 0.29 < estimate.value < 0.31, round(estimate.privacy_error, 4)
    (True, 0.001)
    """
    given = column("x", x)
    values = np.where(np.isnan(given), 0.0, given != 0)
    # Whole numbers up to 2^13 a block: exact, so that nothing is added to the sensitivity.
    noise = additive_noise(check_budget(budget), l1=Fraction(1), l2=Fraction(1))
    (found,), error = noisy_mean(
        lambda rows: values[rows].sum(keepdims=True),
        noise,
        rows=values.size,
        size=1,
        row_bound=Fraction(1),
        bits=source_of(bits),
    )
    share = float(found)
    spread = positive_part(share * (1 - share) + error**2, error * abs(1 - 2 * share) + error**2)
    return Estimate(
        value=share,
        sampling_error=math.sqrt(min(spread, 0.25) / values.size),
        privacy_error=error,
        noise=law_of(noise),
    )


def positive_part(value: float, error: float) -> float:
    """The mean of a normal of this mean and deviation, given that it is above 0.

    A variance that noise has moved near or below 0 becomes small, never 0, so an interval is rather
    too wide.

    >>> positive_part(5.0, 0.1), round(positive_part(-1.0, 1.0), 3)
    (5.0, 0.525)
    """
    if error <= 0:
        return max(value, 0.0)
    z = value / error
    density = -z * z / 2 - math.log(2 * math.pi) / 2
    return max(value + error * math.exp(density - float(log_ndtr(z))), 0.0)


_CENTRE: Final = Fraction(1, 5)
"""The share of the budget for the mean, whose error enters the variance squared only."""


def variance(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> Estimate:
    r"""Estimates the variance of a bounded column, with sampling and privacy errors and intervals.

    A fifth of the budget releases the mean, the rest the sums of squares and of fourth powers
    around it, whose sensitivities are the largest square and half of it. The value is unbiased (up
    to terms of order 1/n^2) and may be negative.

    Source: Cramer 1946, section 27.4 (sampling error from the fourth moment);
    docs/proofs/row_sums.md, section 3.

    Parameters
    ----------
    x, lower, upper, budget, bits
        As for `mean`.

    Returns
    -------
    Estimate
        The variance and its errors, in the squared unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> estimate = variance(
    ...     np.arange(5000) % 100,
    ...     lower=0,
    ...     upper=100,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> 820 < estimate.value < 850, 10 < estimate.sampling_error < 11
    (True, True)
    """
    low, high = public_range(lower, upper, of="x")
    values = unit_values(column("x", x), lower=low, upper=high)
    whole, source = shareable(budget, releases=2), source_of(bits)
    n, square = values.size, ((high - low) / 2) ** 2
    centre, off_centre = _mean(values, budget=whole * _CENTRE, bits=source)
    moved = values - centre
    largest = (1 + abs(centre)) ** 2

    def part(rows: slice) -> Floats:
        squares = moved[rows] ** 2
        return np.array([squares.sum(), np.dot(squares, squares) / (2 * largest)])

    bound = Fraction(largest) * ROUNDED
    # Both grow with the square, so that the farthest pair is 0 and the largest square.
    l2, l1 = bound * Fraction(559017, 500000), bound * Fraction(3, 2)  # sqrt(5/4) < 1.118034
    noise = sum_noise(
        whole * (1 - _CENTRE),
        rows=n,
        size=2,
        row_bound=l2,
        l1=l1,
        l2=l2,
        ratio=Fraction(3, 2),  # above sqrt 2
    )
    sums, error = noisy_mean(part, noise, rows=n, size=2, row_bound=l2, bits=source)
    second, fourth = float(sums[0]) - off_centre**2, float(sums[1]) * 2 * largest
    excess = positive_part(fourth - second**2, math.hypot(2 * largest * error, 2 * second * error))
    return Estimate(
        value=square * second * n / max(n - 1, 1),
        sampling_error=square * math.sqrt(excess / n),
        privacy_error=square * math.hypot(error, math.sqrt(2) * off_centre**2),
        noise=law_of(noise),
    )


def stdev(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> Estimate:
    """Estimates the standard deviation of a bounded column: the root of `variance`.

    Its errors follow from those of the variance by the delta method. A variance near or below 0 is
    replaced by a small positive one.

    Parameters
    ----------
    x, lower, upper, budget, bits
        As for `mean`.

    Returns
    -------
    Estimate
        The standard deviation and its errors, in the unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> estimate = stdev(
    ...     np.arange(5000) % 100,
    ...     lower=0,
    ...     upper=100,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> 28.6 < estimate.value < 29.2
    True
    """
    square = variance(x, lower=lower, upper=upper, budget=budget, bits=bits)
    value = math.sqrt(positive_part(square.value, square.standard_error))
    return Estimate(
        value=value,
        sampling_error=square.sampling_error / (2 * value) if value else 0.0,
        privacy_error=square.privacy_error / (2 * value) if value else 0.0,
        noise=square.noise,
    )


def _mean(values: Floats, *, budget: Guarantee, bits: RandomBits) -> tuple[float, float]:
    """The mean of numbers in [-1, 1], put into them, and its noise's deviation."""
    n, one, two = values.size, Fraction(1), Fraction(2)
    noise = sum_noise(budget, rows=n, size=1, row_bound=one, l1=two, l2=two, ratio=1)
    (mean,), error = noisy_mean(
        lambda rows: values[rows].sum(keepdims=True),
        noise,
        rows=n,
        size=1,
        row_bound=one,
        bits=bits,
    )
    return min(max(float(mean), -1.0), 1.0), error


_LARGEST: Final = 64  # binary digits before the point, and after it
_MISTAKE: Final = 0.01
_FARTHER: Final = 4
_POINTS: Final = 1 << 36
_QUARTILE: Final = 2 * NormalDist().inv_cdf(0.75)  # the interquartile range in deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedMean(Estimate):
    """Holds an estimate of the mean of values that are clipped to released bounds.

    Parameters
    ----------
    value
        The mean of the clipped values, in the unit of x.
    sampling_error, privacy_error
        Standard deviations, in the unit of x.
    noise
        The distribution of the noise: "normal" or "laplace".
    bounds
        The interval that values are clipped to, released too.

    Examples
    --------
    >>> estimate = ClippedMean(
    ...     value=50.0, sampling_error=0.6, privacy_error=0.8, bounds=Interval(0.0, 100.0)
    ... )
    >>> low, high = estimate.interval()
    >>> round(low, 2), round(high, 2)
    (48.04, 51.96)
    """

    bounds: Interval

    @staticmethod
    def of(estimate: Estimate, *, bounds: Interval) -> ClippedMean:
        """Returns the estimate, of values clipped to these bounds.

        Parameters
        ----------
        estimate
            The mean of the clipped values.
        bounds
            The interval that they are clipped to.
        """
        return ClippedMean(
            value=estimate.value,
            sampling_error=estimate.sampling_error,
            privacy_error=estimate.privacy_error,
            noise=estimate.noise,
            bounds=bounds,
        )


def find_bounds(x: ArrayLike, *, budget: Guarantee, bits: RandomBits | None = None) -> Interval:
    """Finds bounds that hold almost all values: zero or powers of two, with signs.

    People are counted by the sign and the binary exponent of their value, from 2^-64 to 2^64. The
    bounds cover all counts above a level that noise alone exceeds in 1 of 100 runs. A few people
    may lie beyond them, as in the example. If no count exceeds the level, the bounds are the
    widest: -2^64 and 2^64.

    Source: Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, arXiv:1909.01917,
    section 5.1.1 (approximate bounds).

    Parameters
    ----------
    x
        One number per person, shape (n,); n is public. NaN counts as 0.
    budget, bits
        As for `mean`.

    Returns
    -------
    Interval
        The lower and the upper bound, in the unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes and budgets that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> find_bounds(range(1, 1000), budget=unacorda.GDP(1), bits=unacorda.SeededBits(1))
    Interval(lower=8.0, upper=1024.0)
    """
    values = np.nan_to_num(column("x", x), nan=0.0)
    # Index 0 is zero; k stands for 2^(k - 65) <= |value| < 2^(k - 64), with the value's sign.
    exponents = np.clip(np.frexp(values)[1], 1 - _LARGEST, _LARGEST) + _LARGEST
    places = np.where(values == 0, 0, np.sign(values) * exponents).astype(np.int64)
    reach = 2 * _LARGEST
    exact = np.bincount(places + reach, minlength=2 * reach + 1)
    counts, noise = noisy_counts(exact, budget=budget, bits=source_of(bits))
    tail = _MISTAKE / counts.size
    if isinstance(noise, Laplace):
        threshold = -math.log(2 * tail) * noise.standard_deviation / math.sqrt(2)
    else:
        threshold = NormalDist().inv_cdf(1 - tail) * noise.standard_deviation
    found = np.flatnonzero(counts > threshold) - reach
    if not found.size:  # too few people for the noise: they could be anywhere
        found = np.array([-reach, reach])
    lower, upper = -_edge(-int(found.min())), _edge(int(found.max()))
    return Interval(lower, upper) if lower < upper else Interval(lower - 1.0, upper + 1.0)


def clipped_mean(
    x: ArrayLike,
    *,
    lower: float | None = None,
    upper: float | None = None,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> ClippedMean:
    """Estimates the mean of a column clipped to bounds that are found privately.

    It is for columns whose public bounds are wide or missing. Two quartiles get a tenth of the
    budget each. The rest releases the mean of the values, clipped to sqrt(2 log n) + 1 normal
    deviations around the middle of the quartiles. Value, errors and interval are for the population
    mean of values clipped to `bounds`. For normal values that is the mean itself. With a long tail
    on one side it is not: for incomes use `mean` with bounds that hold nearly all of them, or a
    median. If the released moments show that the clipped values lie far from the middle, the
    quartiles missed most people (there were too few), or at least a ninth lie beyond the bounds.
    Then the sampling error is the whole range.

    Source: Karwa and Vadhan 2018, arXiv:1711.03908, section 4 (a range first, then the mean);
    quartiles as in `quantile`.

    Parameters
    ----------
    x
        One number per person, shape (n,); n is public.
    lower, upper
        Public bounds, perhaps far apart. If both are omitted, a tenth of the budget finds them
        (`find_bounds`).
    budget, bits
        As for `mean`.

    Returns
    -------
    ClippedMean
        The estimate and the bounds, in the unit of x.

    Raises
    ------
    InvalidParameter, MissingBound
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> estimate = clipped_mean(
    ...     5000 + np.arange(1000) % 100, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> 5047 < estimate.value < 5052, estimate.privacy_error < 1
    (True, True)
    """
    values = column("x", x)
    source = source_of(bits)
    whole = shareable(budget, releases=4)
    tenth = whole * Fraction(1, 10)
    left = whole * Fraction(8, 10)
    if lower is None and upper is None:
        found = find_bounds(values, budget=tenth, bits=source)
        # Those whom noise hid may be nearer to zero, on its other side, or somewhat farther out.
        far = _FARTHER * max(abs(found.lower), abs(found.upper))
        low, high = -far, far
        left = whole * Fraction(7, 10)
    else:
        low, high = public_range(lower, upper, of="x")
    first, third = quartiles(
        values,
        lower=low,
        upper=high,
        points=_POINTS,
        epsilon=selection_epsilon(tenth),
        bits=source,
    )
    first, third = min(first, third), max(first, third)
    reach = (third - first) / _QUARTILE * (math.sqrt(2 * math.log(values.size + 1)) + 1)
    middle = first + (third - first) / 2
    # Quartiles that meet leave the width unknown: then the bounds are kept.
    if not (reach > 0 and math.nextafter(middle, math.inf) < middle + reach / 2**20):
        whole_range = mean(values, lower=low, upper=high, budget=left, bits=source)
        return ClippedMean.of(whole_range, bounds=Interval(low, high))
    clipped = max(low, middle - reach), min(high, middle + reach)
    estimate = mean(values, lower=clipped[0], upper=clipped[1], budget=left, bits=source)
    deviation = estimate.sampling_error * math.sqrt(values.size)
    # Of normal values below a third of the reach from seven people on; at an end all of it.
    if math.hypot(deviation, estimate.value - middle) <= reach / 3:
        return ClippedMean.of(estimate, bounds=Interval(*clipped))
    unknown = dataclasses.replace(estimate, sampling_error=high - low)
    return ClippedMean.of(unknown, bounds=Interval(*clipped))


def _edge(place: int) -> float:
    """The upper end of the values at a place: of negative ones, the power of two next to zero."""
    if place == 0:
        return 0.0
    return (
        math.ldexp(1.0, place - _LARGEST) if place > 0 else -math.ldexp(1.0, -place - _LARGEST - 1)
    )
