r"""Local reports with normal noise, for budgets where it beats every answer among few.

A number, a category or a vector is put on a public grid, so that its move is bounded exactly, and
gets normal noise there. The classes have the manner of `unacorda.mechanisms` for local reports:
A device calls `encode`, the server `aggregate`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks, elements
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats
from unacorda.inference.sums import ROOT_TWO
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.contributions import clip_rows
from unacorda.mechanisms.local.frequencies import Frequencies
from unacorda.mechanisms.local.reports import (
    checked_frequency,
    checked_indices,
    grid_places,
    value_bounds,
)
from unacorda.privacy import events
from unacorda.privacy.estimates import Estimate

_STEPS: Final = 1 << 30
_FINE: Final = 28
"""The radius of a ball is about this many powers of two of its grid."""


class _NormalReports(ABC):
    """Reports with normal noise."""

    __slots__ = ()

    noise_multiplier: float | Fraction
    """The noise's deviation over how far apart the values of two devices can be."""

    @property
    def event(self) -> events.Gaussian:
        """The event of one report, under the replacement of its value by any other."""
        return self._noise.event

    @property
    @abstractmethod
    def _apart(self) -> Fraction:
        """The distance of the values of two devices at most, in the unit of the noise."""

    @property
    def _noise(self) -> Gaussian:
        multiplier = checks.exact("noise_multiplier", self.noise_multiplier)
        return Gaussian(sigma=multiplier * self._apart, l2_sensitivity=self._apart)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyNumber(_NormalReports):
    """Send a number between public bounds with normal noise.

    lower, upper: public; noise_multiplier: the noise's deviation over upper - lower.

    >>> import unacorda
    >>> reports = NoisyNumber(lower=0, upper=10, noise_multiplier=1)
    >>> reports.event
    Gaussian(noise_multiplier=1)
    >>> reports.encode([0, 5, 10], bits=unacorda.SeededBits(1)).shape
    (3,)
    """

    lower: float
    upper: float
    noise_multiplier: float | Fraction

    def __post_init__(self) -> None:
        value_bounds(self.lower, self.upper)
        _ = self._noise

    def encode(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The reports of devices that hold these numbers, in their unit and shape.

        x: integers or floats; NaN counts as 0, whatever lies beyond a bound as the bound.
        """
        ends = value_bounds(self.lower, self.upper)
        places, shape = grid_places(x, ends=ends, last=_STEPS)
        noisy = self._noise.release(places.astype(np.float64), bits=bits)
        reports = float(ends.lower) + noisy * float(ends.width / _STEPS)
        return float(reports[0]) if shape is None else reports.reshape(shape)

    def aggregate(self, reports: ArrayLike) -> Estimate:
        """The mean of all values; its sampling error is the scatter of reports beyond the noise."""
        values = _reports(reports).reshape(-1)
        ends, noise = value_bounds(self.lower, self.upper), self.variance(count=1)
        value, half = float(values.mean()), float(ends.width) / 2
        off = min(abs(value - float(ends.lower) - half), half)
        left = (float(np.var(values, ddof=1)) if values.size > 1 else math.inf) - noise
        return Estimate(
            value=value,
            sampling_error=math.sqrt(min(max(left, 0.0), half**2 - off**2) / values.size),
            privacy_error=math.sqrt(noise / values.size),
        )

    def variance(self, *, count: int) -> float:
        """Variance of the mean of `count` values, whatever they are."""
        width = float(value_bounds(self.lower, self.upper).width)
        deviation = self._noise.standard_deviation * (width / _STEPS)
        return deviation**2 / checks.positive_integer(count=count)

    @property
    def _apart(self) -> Fraction:
        return Fraction(_STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCategories(_NormalReports):
    """Send 1 for the own category and 0 for the others, each with normal noise.

    categories: how many, 2 or more; noise_multiplier: the noise's deviation over sqrt 2, by which
    two such vectors differ. A report is that many float64.

    >>> import unacorda
    >>> reports = NoisyCategories(categories=3, noise_multiplier=1)
    >>> reports.encode([0, 2], bits=unacorda.SeededBits(1)).shape
    (2, 3)
    """

    categories: int
    noise_multiplier: float | Fraction

    def __post_init__(self) -> None:
        if checks.positive_integer(categories=self.categories) < 2:
            raise InvalidParameter("categories", self.categories, expected="2 or more")
        _ = self._noise

    def encode(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """The reports of devices that hold these categories, in rows along the last axis.

        values: integers; those beyond 0 .. k - 1 count as the nearest category.
        """
        truths, shape = checked_indices(values, categories=self.categories)
        rows = np.zeros((truths.size, self.categories))
        rows[np.arange(truths.size), truths] = 1.0
        noisy: Floats = self._noise.release(rows, bits=bits)
        return noisy.reshape(*(shape or ()), self.categories)

    def aggregate(self, reports: ArrayLike) -> Frequencies:
        """The shares of all categories."""
        rows = _reports(reports)
        if rows.shape[-1] != self.categories:
            raise InvalidParameter(
                "reports", rows.shape, expected=f"rows of {self.categories} numbers"
            )
        rows = rows.reshape(-1, self.categories)
        return Frequencies(
            values=rows.mean(axis=0),
            count=len(rows),
            constant=np.full(self.categories, self.variance(count=1)),
            slope=0.0,
        )

    def variance(self, *, count: int, frequency: checks.Number = 0) -> float:
        """Variance of the estimated share of a category, the same for all shares."""
        checked_frequency(frequency)
        return self._noise.standard_deviation**2 / checks.positive_integer(count=count)

    @property
    def _apart(self) -> Fraction:
        return ROOT_TWO


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyVector(_NormalReports):
    """Send a vector of bounded length with normal noise.

    size: how many numbers; radius: public, longer vectors are cut to it; noise_multiplier: the
    noise's deviation over the diameter, twice the radius.

    >>> import unacorda
    >>> reports = NoisyVector(size=2, radius=1, noise_multiplier=0.5)
    >>> reports.release([[3.0, 4.0]], bits=unacorda.SeededBits(1)).shape
    (1, 2)
    >>> round(reports.variance, 6)
    1.0
    """

    size: int
    radius: float | Fraction
    noise_multiplier: float | Fraction

    def __post_init__(self) -> None:
        checks.positive_integer(size=self.size)
        if not Fraction(1, 10**100) <= checks.exact("radius", self.radius) <= 10**100:
            raise InvalidParameter("radius", self.radius, expected="from 1e-100 to 1e100")
        _ = self._noise

    @property
    def variance(self) -> float:
        """Variance of each number of one report."""
        return self._noise.standard_deviation**2

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """The reports of devices that hold these vectors, along the last axis.

        x: integers or floats; NaN counts as 0, longer vectors as cut to the radius.
        """
        array = elements.numbers("x", x, width=self.size)
        if array.ndim == 0 or array.shape[-1] != self.size:
            raise InvalidParameter("x", array.shape, expected=f"vectors of {self.size} numbers")
        radius = checks.exact("radius", self.radius)
        rows = array.reshape(-1, self.size)
        steps = clip_rows(rows, l2=radius, unit_log2=self._unit_log2)
        exact = np.ldexp(steps.astype(np.float64), self._unit_log2)
        noisy: Floats = self._noise.release(exact, bits=bits)
        return noisy.reshape(array.shape)

    @property
    def _unit_log2(self) -> int:
        return math.floor(math.log2(float(self.radius))) - _FINE

    @property
    def _apart(self) -> Fraction:
        return 2 * checks.exact("radius", self.radius)


def _reports(reports: ArrayLike) -> Floats:
    array = elements.numbers("reports", reports)
    # Reports are public, so the elements of a list may refuse.
    if array.dtype.kind != "f" or array.size == 0 or array.ndim == 0 or np.isnan(array).any():
        raise InvalidParameter(
            "reports",
            (array.dtype, array.shape),
            expected="one report or more, floats as `encode` returns them",
        )
    return array.astype(np.float64)
