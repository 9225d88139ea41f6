"""Estimates: a value with its sampling error and its privacy error."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Literal, NamedTuple

from unacorda import checks
from unacorda.numerics import bisect


class Interval(NamedTuple):
    """A closed interval of numbers.

    Attributes
    ----------
    lower, upper
        The ends. They may be infinite.

    Examples
    --------
    >>> Interval(1.0, 2.0).width
    1.0
    """

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """The upper end minus the lower end."""
        return self.upper - self.lower


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An unbiased estimate with its sampling error and its privacy error.

    Both errors are infinite if no budget was spent on the estimate.

    Attributes
    ----------
    value
        The estimate, in the unit of the question.
    sampling_error
        The standard deviation over fresh samples of people; 0 if the table is the whole population.
    privacy_error
        The standard deviation of the added noise, which is independent of the sampling.
    noise
        "normal" or "laplace": the distribution of the noise, which determines the width of
        intervals.

    Examples
    --------
    >>> estimate = Estimate(value=10.0, sampling_error=3.0, privacy_error=4.0)
    >>> estimate.standard_error
    5.0
    >>> estimate.interval(0.95)
    Interval(lower=0.2001800..., upper=19.7998199...)
    """

    value: float
    sampling_error: float
    privacy_error: float
    noise: Literal["normal", "laplace"] = "normal"

    def __post_init__(self) -> None:
        checks.finite(value=self.value)
        if self.sampling_error == self.privacy_error == math.inf:
            return
        checks.non_negative(sampling_error=self.sampling_error)
        checks.non_negative(privacy_error=self.privacy_error)

    @property
    def standard_error(self) -> float:
        """The square root of the sum of both squared errors."""
        return math.hypot(self.sampling_error, self.privacy_error)

    def interval(self, confidence: float = 0.95) -> Interval:
        """Compute a confidence interval that is symmetric about the value.

        Sampling errors are treated as normal. Privacy noise has its exact distribution, Gaussian or
        Laplace, also when it is added to a normal error.

        Parameters
        ----------
        confidence
            Strictly between 0 and 1.

        Returns
        -------
        Interval
            The ends.

        Raises
        ------
        InvalidParameter
            For a confidence out of its range.

        Examples
        --------
        >>> Estimate(value=0.0, sampling_error=0.0, privacy_error=1.0).interval(0.95).upper
        1.9599639845400536
        """
        checks.probability(confidence=confidence)
        half = self._half_width(confidence)
        return Interval(self.value - half, self.value + half)

    def _half_width(self, confidence: float) -> float:
        if self.standard_error in (0, math.inf):
            return self.standard_error
        if self.noise == "normal" or self.privacy_error == 0:
            return self.standard_error * statistics.NormalDist().inv_cdf((1 + confidence) / 2)
        tail = (1 - confidence) / 2
        scale = self.privacy_error / math.sqrt(2)
        if self.sampling_error == 0:
            return -scale * math.log(2 * tail)

        def enough(half: float) -> bool:
            return _tail_of_sum(half, self.sampling_error, scale) <= tail

        most = self.standard_error
        while not enough(most):
            most *= 2
        return bisect(enough, 0.0, most, rounds=80)[1]


def _tail_of_sum(t: float, sigma: float, scale: float) -> float:
    """P(S + L > t), S normal with deviation sigma, L Laplace with this scale; t >= 0."""
    from scipy.special import log_ndtr

    z, ratio = t / sigma, sigma / scale
    near = ratio * ratio / 2 - t / scale + float(log_ndtr(z - ratio))
    far = ratio * ratio / 2 + t / scale + float(log_ndtr(-z - ratio))
    return math.erfc(z / math.sqrt(2)) / 2 + (math.exp(near) - math.exp(far)) / 2
