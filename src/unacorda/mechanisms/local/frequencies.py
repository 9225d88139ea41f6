"""Frequency oracles: shares of all categories, estimated from reports alone, with their errors.

A report supports a category with probability `own` if it was made of it and `other` if not, so
the share of supporting reports, less `other`, over own - other, is unbiased for the share of the
category. Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), pure protocols.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local.reports import (
    MOST_CATEGORIES,
    Support,
    checked_frequency,
    checked_indices,
    checked_tally,
    keep_epsilon,
)
from unacorda.mechanisms.noise.rounding import shaped
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.privacy import events
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.events import fields
from unacorda.privacy.events.fields import Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frequencies:
    """Unbiased estimates of the shares of all categories, with their errors.

    Some estimates may be below 0 or above 1. `frequencies[0]` is the `Estimate` of one category.

    Attributes
    ----------
    values
        The shares, in the order of the categories.
    count
        The number of reports.
    constant, slope
        The noise of one report has variance `constant + slope * share` for a category.

    Examples
    --------
    >>> import numpy as np
    >>> import unacorda
    >>> from unacorda.mechanisms.local import RandomizedResponse
    >>> oracle = RandomizedResponse(epsilon=2, categories=3)
    >>> answers = np.repeat([0, 1, 2], [500, 300, 200])
    >>> frequencies = oracle.aggregate(oracle.encode(answers, bits=unacorda.SeededBits(1)))
    >>> frequencies.values.round(2).tolist()
    [0.5, 0.31, 0.19]
    >>> frequencies.standard_errors.round(3).tolist()
    [0.023, 0.022, 0.02]
    >>> lower, upper = frequencies.interval()
    >>> lower.round(2).tolist(), upper.round(2).tolist()
    ([0.46, 0.27, 0.15], [0.55, 0.35, 0.23])
    """

    values: NDArray[np.float64]
    count: int
    constant: NDArray[np.float64]
    slope: float

    @property
    def privacy_errors(self) -> NDArray[np.float64]:
        """Standard deviations of the noise, for the shares among the people who reported."""
        noise = np.maximum(self.constant + self.slope * self.values, 0)
        return np.asarray(np.sqrt(noise / self.count))

    @property
    def sampling_errors(self) -> NDArray[np.float64]:
        """Standard deviations of these shares over fresh samples of people."""
        shares = np.clip(self.values, 0, 1)
        return np.asarray(np.sqrt(shares * (1 - shares) / self.count))

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        """The square roots of the sums of both squared errors."""
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
        """Compute a confidence interval for each share, one by one.

        These are score intervals: all shares f that differ from the estimate by at most z standard
        deviations, computed at f. So they stay wide for a category that no report supports.

        Source: Wilson 1927, for reports in place of outcomes.

        Parameters
        ----------
        confidence
            Strictly between 0 and 1.
        sampled
            If true, the share is that among all people, of whom those who reported are a random
            sample. Otherwise it is the share among those who reported.

        Returns
        -------
        tuple of arrays
            The lower ends and the upper ends, in the order of the categories.

        Raises
        ------
        InvalidParameter
            For a confidence out of its range.
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
        """Project the estimates to the nearest shares that are 0 or above and sum to 1.

        They are no longer unbiased, but often nearer to the true shares.

        Source: Wang et al. 2020, arXiv:1905.08320 (norm-sub).

        Returns
        -------
        array
            The shares, in the order of the categories.
        """
        ordered = np.sort(self.values)[::-1]
        excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
        last = np.flatnonzero(ordered > excess)[-1]
        return np.asarray(np.maximum(self.values - excess[last], 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyOracle(PureCalibrated, ABC):
    """Randomizes a category on its owner's device and estimates the shares of all at the server.

    epsilon: above 0; categories: how many, k, 2 or more.
    """

    epsilon: Real
    categories: int

    most_categories: ClassVar[int] = MOST_CATEGORIES

    def __post_init__(self) -> None:
        keep_epsilon(self)
        count = fields.whole("categories", self.categories, least=2)
        if count > self.most_categories:
            expected = f"a whole number from 2 to {self.most_categories}"
            raise InvalidParameter("categories", count, expected=expected)
        fields.keep(self, categories=count)
        _ = self._design

    @property
    @abstractmethod
    def event(self) -> events.Event:
        """What one report costs."""

    def encode(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Make the reports of devices that hold these categories, in the same shape.

        Reports of several numbers lie along a last axis of their own.

        Parameters
        ----------
        values
            Integers; those beyond 0 .. k - 1 count as the nearest category.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For a dtype that is not integer.
        """
        truths, shape = checked_indices(values, categories=self.categories)
        reports = self._randomize(truths, source_of(bits))
        if reports.ndim > 1:
            return reports.reshape(*(shape or ()), reports.shape[1])
        return shaped(reports, shape)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The same as `encode`."""
        return self.encode(values, bits=bits)

    def tally(self, reports: ArrayLike) -> NDArray[np.int64]:
        """Count reports, so that shares can be estimated; tallies of batches add up.

        Parameters
        ----------
        reports
            As `encode` returns them.
        """
        return self._count(self._read(reports))

    @abstractmethod
    def estimate(self, tally: ArrayLike, *, count: int) -> Frequencies:
        """Estimate the shares of all categories, from the tally of `count` reports.

        Parameters
        ----------
        tally
            The sum of tallies.
        count
            The number of reports in them.
        """

    def aggregate(self, reports: ArrayLike) -> Frequencies:
        """Estimate the shares of all categories, from reports.

        Parameters
        ----------
        reports
            As `encode` returns them.
        """
        rows = self._read(reports)
        return self.estimate(self._count(rows), count=len(rows))

    def variance(self, *, count: int, frequency: checks.Number = 0) -> float:
        """Compute the variance of the estimated share of a category.

        Parameters
        ----------
        count
            The number of people, 1 or more.
        frequency
            The share of the category among them, from 0 to 1.

        Examples
        --------
        >>> from unacorda.mechanisms import RandomizedResponse
        >>> RandomizedResponse(epsilon=1, categories=4).variance(count=1000) ** 0.5
        0.0399...
        """
        share = checked_frequency(frequency)
        return float(self._report_variance(share) / checks.positive_integer(count=count))

    @property
    def _exact_epsilon(self) -> Fraction:
        return checks.exact("epsilon", self.epsilon)

    @property
    @abstractmethod
    def _design(self) -> Any:
        """The integers behind a report; InvalidParameter where epsilon is too small for any."""

    @abstractmethod
    def _randomize(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[Any]:
        """One report for each category, a number or a row."""

    @abstractmethod
    def _read(self, reports: ArrayLike) -> NDArray[Any]:
        """Reports as `_randomize` returns them, or InvalidParameter."""

    @abstractmethod
    def _count(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The tally of such reports."""

    @abstractmethod
    def _report_variance(self, share: Fraction) -> Fraction:
        """Variance of the share estimated from one report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PureOracle(FrequencyOracle):
    """A frequency oracle whose tally counts the reports that support each category."""

    @property
    @abstractmethod
    def support(self) -> Support:
        """The probabilities that a report supports its own category and a given other, exactly."""

    def estimate(self, tally: ArrayLike, *, count: int) -> Frequencies:
        """The shares of all categories, from the tally of `count` reports."""
        return self._shares(tally, count=count, size=self.categories)

    def _shares(self, tally: ArrayLike, *, count: int, size: int) -> Frequencies:
        supports = checked_tally(tally, count=count, size=size)
        count = checks.positive_integer(count=count)
        own, other = self.support
        gap = own - other
        return Frequencies(
            values=(supports / count - float(other)) / float(gap),
            count=count,
            constant=np.full(size, float(other * (1 - other) / gap**2)),
            slope=float((1 - own - other) / gap),
        )

    def _report_variance(self, share: Fraction) -> Fraction:
        return self.support.variance(share)
