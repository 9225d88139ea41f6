"""Variances of a column: around a released mean, with fourth moments for the interval."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, source_of
from unacorda.inference.budgets import shareable
from unacorda.inference.means import positive_part
from unacorda.inference.records import Floats, column, public_range, unit_values
from unacorda.inference.sums import ROUNDED, law_of, noisy_mean, sum_noise
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee

__all__ = ["stdev", "variance"]

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
    r"""The variance of a bounded column: its value, both its errors, and intervals.

    Arguments and errors as for `mean`. A fifth of the budget releases the mean; the rest the sums
    of squares and of fourth powers around it, which move by no more than the largest square and
    half of it. The value is unbiased (up to terms of order 1/n^2) and may be negative.
    Source: Cramer 1946, section 27.4 (sampling error from the fourth moment);
    docs/proofs/row_sums.md, section 3.

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
    """The standard deviation of a bounded column: the root of `variance`, its errors by the slope.

    A variance that noise took near or below 0 counts as a small positive one.

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
