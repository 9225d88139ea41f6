r"""Clipped means without narrow public bounds: bounds found privately, around private quartiles.

Wide bounds make a mean noisy, since the noise grows with their distance. Two quartiles by the
exponential mechanism cost little and tell where the values are; the mean is then asked of values
clipped a few deviations around their middle. That is another number than the mean wherever values
lie beyond, and no private interval of finite length holds the mean of a law of which nothing is
known.
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

from unacorda.bits import RandomBits, source_of
from unacorda.inference.budgets import selection_epsilon, shareable
from unacorda.inference.estimates.means import mean
from unacorda.inference.estimates.quantiles import quartiles
from unacorda.inference.records import column, public_range
from unacorda.inference.sums import noisy_counts
from unacorda.mechanisms.additive.real import Laplace
from unacorda.privacy.estimates import Estimate, Interval
from unacorda.privacy.guarantees import Guarantee

__all__ = ["ClippedMean", "clipped_mean", "find_bounds"]

_LARGEST: Final = 64  # binary digits before the point, and after it
_MISTAKE: Final = 0.01
_FARTHER: Final = 4
_POINTS: Final = 1 << 36
_QUARTILE: Final = 2 * NormalDist().inv_cdf(0.75)  # the interquartile range in deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedMean(Estimate):
    """An estimate of the mean of values that are clipped to `bounds`, released with it."""

    bounds: Interval

    @staticmethod
    def of(estimate: Estimate, *, bounds: Interval) -> ClippedMean:
        """The estimate, of values clipped to these bounds."""
        return ClippedMean(
            value=estimate.value,
            sampling_error=estimate.sampling_error,
            privacy_error=estimate.privacy_error,
            noise=estimate.noise,
            bounds=bounds,
        )


def find_bounds(x: ArrayLike, *, budget: Guarantee, bits: RandomBits | None = None) -> Interval:
    """Bounds that hold all but few values, found privately: zero or powers of two, with signs.

    x: one number a person, n public; NaN counts as 0. budget: any guarantee, kept under the
    replacement of one person. People are counted by the sign and the binary exponent of their
    value, from 2^-64 to 2^64; counts that noise alone would exceed in 1 of 100 runs say where
    values are. A few people may be left out beyond them, as in the example. Where no count stands
    out of the noise, the bounds are the widest: -2^64 and 2^64.
    Source: Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, arXiv:1909.01917,
    section 5.1.1 (approximate bounds).

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
    if not found.size:  # too few people for the noise, which says nothing of where they are
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
    """The mean of a column clipped to bounds that are found, where public ones are wide or missing.

    x: one number a person, n public; lower, upper: public and perhaps far apart, or both left out:
    then a tenth of the budget finds them (`find_bounds`). A tenth each goes into two quartiles,
    the rest into the mean of the values, clipped to sqrt(2 log n) + 1 normal deviations around
    the middle of the quartiles. Value, errors and interval speak of the population's mean of
    values clipped to `bounds`, which are released too; nothing is known of what lies beyond. For
    normal values that is the mean itself; with a long tail on one side it is not: for incomes take
    `mean` with bounds that hold nearly all of them, or a median. Where the clipped values lie
    far from the middle, by the released moments, the quartiles missed most people (there were too
    few for them), or a ninth and more are beyond; the sampling error is then the whole range.
    Raises InvalidParameter and MissingBound for arguments that cannot be used.
    Source: Karwa and Vadhan 2018, arXiv:1711.03908, section 4 (a range first, then the mean);
    quartiles as in `quantile`.

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
    # Quartiles that meet say nothing of the width: then the bounds are kept.
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
