"""Shares of all categories, estimated from reports alone, with their errors.

A report supports a category with probability `own` if it was made of it and `other` if not, so
the share of supporting reports, less `other`, over own - other, is unbiased for the share of the
category. Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), pure protocols.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import statistics
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.response.thresholds import Support
from unacorda.privacy.estimates import Estimate

__all__ = ["Frequencies", "frequencies", "frequency", "tallied", "variance"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frequencies:
    """The estimated share of every category, unbiased, so that some lie below 0 or above 1.

    values: the shares; count: the number of reports; constant, slope: the noise of one report
    about a share f has variance constant + slope f, an array and a number.
    """

    values: NDArray[np.float64]
    count: int
    constant: NDArray[np.float64]
    slope: float

    @property
    def privacy_errors(self) -> NDArray[np.float64]:
        """Standard deviations of the noise about the shares among the people who reported."""
        noise = np.maximum(self.constant + self.slope * self.values, 0)
        return np.asarray(np.sqrt(noise / self.count))

    @property
    def sampling_errors(self) -> NDArray[np.float64]:
        """Standard deviations of these shares over fresh samples of people."""
        shares = np.clip(self.values, 0, 1)
        return np.asarray(np.sqrt(shares * (1 - shares) / self.count))

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        """The roots of the sums of both squares."""
        return np.asarray(np.hypot(self.privacy_errors, self.sampling_errors))

    def __len__(self) -> int:
        return self.values.size

    def __getitem__(self, index: int) -> Estimate:
        """The estimate of one category, by its place among the values."""
        return Estimate(
            value=float(self.values[index]),
            sampling_error=float(self.sampling_errors[index]),
            privacy_error=float(self.privacy_errors[index]),
        )

    def interval(
        self, confidence: float = 0.95, *, sampled: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper ends that cover each share this often, one by one.

        They are score intervals: all shares f that differ from the estimate by at most z standard
        deviations, the deviation being that at f. So they stay wide where no report supports a
        category. sampled: of the share among all people of whom those who reported are a random
        sample; otherwise of the share among those who reported.
        Source: Wilson 1927, for reports in place of outcomes.
        """
        checks.probability(confidence=confidence)
        unit = statistics.NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / self.count
        # (value - f)^2 <= unit (constant + slope f + f (1 - f)), the last term if sampled.
        square = 1 + unit * sampled
        linear = 2 * self.values + unit * (self.slope + sampled)
        rest = self.values**2 - unit * self.constant
        root = np.sqrt(np.maximum(linear**2 - 4 * square * rest, 0))
        return (linear - root) / (2 * square), (linear + root) / (2 * square)

    def on_simplex(self) -> NDArray[np.float64]:
        """The nearest shares that are 0 or above and sum to 1: no longer unbiased, often nearer.

        Source: Wang et al. 2020, arXiv:1905.08320 (norm-sub).
        """
        ordered = np.sort(self.values)[::-1]
        excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
        last = np.flatnonzero(ordered > excess)[-1]
        return np.asarray(np.maximum(self.values - excess[last], 0))


def frequencies(tally: ArrayLike, *, count: int, support: Support, size: int) -> Frequencies:
    """The shares of `size` categories of which each is supported by that many of `count` reports.

    Raises InvalidParameter unless the tally has that size and counts from 0 to count.
    """
    supports, count = tallied(tally, count=count, size=size), checks.positive_integer(count=count)
    own, other = support
    gap = own - other
    return Frequencies(
        values=(supports / count - float(other)) / float(gap),
        count=count,
        constant=np.full(size, float(other * (1 - other) / gap**2)),
        slope=float((1 - own - other) / gap),
    )


def tallied(tally: ArrayLike, *, count: int, size: int) -> NDArray[np.int64]:
    """The tally as int64, if it can be one of `count` reports."""
    array = elements.numbers("tally", tally)
    count = checks.positive_integer(count=count)
    if array.dtype.kind not in "iu" or array.shape != (size,):
        raise InvalidParameter(
            "tally", (array.dtype, array.shape), expected=f"{size} integers, as `tally` returns"
        )
    if array.min() < 0 or array.max() > count:
        raise InvalidParameter("tally", None, expected=f"integers from 0 to {count}, the reports")
    return array.astype(np.int64)


def variance(support: Support, *, count: int, frequency: Fraction) -> float:
    """Variance of the estimated share of a category held by this share of `count` people."""
    own, other = support
    noise = frequency * own * (1 - own) + (1 - frequency) * other * (1 - other)
    return float(noise / (own - other) ** 2 / checks.positive_integer(count=count))


def frequency(value: checks.Number) -> Fraction:
    """The share of people who hold a category, checked."""
    share = checks.exact("frequency", value)
    if not 0 <= share <= 1:
        raise InvalidParameter("frequency", value, expected="a number from 0 to 1")
    return share
