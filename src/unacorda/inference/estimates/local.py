"""Means and shares under local privacy: each device randomizes its own value.

For budgets where it beats every answer among few, reports have normal noise: a number, a category
or a vector is put on a public grid, so that its move is bounded exactly, and gets the noise there.
These classes have the manner of `unacorda.mechanisms` for local reports: a device calls `encode`,
the server `aggregate`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.records import (
    Floats,
    check_budget,
    column,
    gdp_budget,
    public_range,
    takes_normal_noise,
)
from unacorda.inference.sums import ROOT_TWO
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.contributions import clip_rows
from unacorda.mechanisms.local.categories import RandomizedResponse, SubsetSelection, UnaryEncoding
from unacorda.mechanisms.local.directions import Directions
from unacorda.mechanisms.local.frequencies import Frequencies, FrequencyOracle
from unacorda.mechanisms.local.hashing import HadamardResponse, LocalHashing
from unacorda.mechanisms.local.means import Duchi, Hybrid, MeanOracle, Piecewise
from unacorda.mechanisms.local.reports import (
    MOST_ANSWERS,
    MOST_CATEGORIES,
    checked_frequency,
    checked_indices,
    grid_places,
    value_bounds,
)
from unacorda.privacy import events
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee, PureDP

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


NumberReports: TypeAlias = MeanOracle | NoisyNumber
CategoryReports: TypeAlias = FrequencyOracle | NoisyCategories
"""Reports of a number or a category: a device calls `encode`, the server `aggregate`."""

VectorReports: TypeAlias = Directions | NoisyVector
"""Reports of a vector: a device calls `release`; each is an unbiased estimate of it."""

_Reports = TypeVar("_Reports")


def mean_randomizer(*, lower: float, upper: float, budget: Guarantee) -> NumberReports:
    """Chooses the reports of a number that have the least variance of the worst numbers.

    It chooses among `Duchi`, `Piecewise`, `Hybrid` and, where the budget allows it, normal noise.
    (Laplace noise is never better than `Hybrid` or `Duchi`.) A device calls `encode(x)`, the server
    `aggregate(reports)`.

    Source: Duchi, Jordan, Wainwright 2018, arXiv:1604.02390; Wang et al. 2019, arXiv:1907.00782.

    Parameters
    ----------
    lower, upper
        Public bounds of the number.
    budget
        Any guarantee, kept for each report by itself, under the replacement of its number by any
        other.

    Returns
    -------
    Duchi, Piecewise, Hybrid or NoisyNumber
        With `encode` and `aggregate`.

    Raises
    ------
    InvalidParameter
        For bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> for budget in (unacorda.PureDP(0.5), unacorda.PureDP(2), unacorda.GDP(1)):
    ...     print(type(mean_randomizer(lower=0, upper=1, budget=budget)).__name__)
    Duchi
    Hybrid
    NoisyNumber
    """
    public_range(lower, upper, of="x")
    ends: dict[str, Any] = {"lower": lower, "upper": upper}

    def variance(reports: NumberReports) -> float:
        return reports.variance(count=1)

    def oracle(*, epsilon: Fraction) -> NumberReports:
        oracles = [kind(epsilon=epsilon, **ends) for kind in (Duchi, Hybrid, Piecewise)]
        return min(oracles, key=variance)

    return _cheapest(
        check_budget(budget), [oracle], partial(NoisyNumber, **ends), variance=variance
    )


def local_mean(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> Estimate:
    """Estimates the mean of a bounded column from randomized reports of its owners.

    The estimate is unbiased for the mean of the clipped values; where reports are single bits, from
    which sampling and noise cannot be separated, the whole error counts as privacy error.

    Parameters
    ----------
    x
        One number per person, shape (n,); each is randomized by itself, by `mean_randomizer`, as on
        the person's own device. Values beyond a bound count as the bound, NaN as 0.
    lower, upper
        Public bounds, in the unit of x.
    budget
        Any guarantee, kept for each person whatever becomes of their report.
    bits
        Omit it for secure noise; `SeededBits` makes the result reproducible, and not private.

    Returns
    -------
    Estimate
        The mean and its errors, in the unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import numpy as np
    >>> import unacorda
    >>> ages = np.arange(20_000) % 100
    >>> found = local_mean(
    ...     ages, lower=0, upper=100, budget=unacorda.PureDP(2), bits=unacorda.SeededBits(1)
    ... )
    >>> 48 < found.value < 51, round(found.privacy_error, 2)
    (True, 0.36)
    """
    reports = mean_randomizer(lower=lower, upper=upper, budget=budget)
    values = column("x", x)
    return reports.aggregate(reports.encode(values, bits=source_of(bits)))


def frequency_randomizer(
    *, categories: int, budget: Guarantee, most_bytes: int = 1024
) -> CategoryReports:
    """Chooses the reports of a category that have the least total variance of all shares.

    It chooses among k-ary randomized response, both unary encodings, subset selection, Hadamard
    response, hashing and, where the budget allows it, normal noise on all categories. Equal ones:
    the one named first. A device calls `encode(value)`, the server `aggregate(reports)`.

    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security); Ye and Barg 2018, arXiv:1702.00610.

    Parameters
    ----------
    categories
        How many, 2 or more.
    budget
        Any guarantee, kept for each report by itself, under the replacement of its category by any
        other.
    most_bytes
        The largest size of a report, in bytes.

    Returns
    -------
    a randomizer
        With `encode` and `aggregate`.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> for categories, budget in (
    ...     (4, unacorda.PureDP(3)),
    ...     (50, unacorda.PureDP(1)),
    ...     (50, unacorda.GDP(1)),
    ... ):
    ...     print(type(frequency_randomizer(categories=categories, budget=budget)).__name__)
    RandomizedResponse
    SubsetSelection
    NoisyCategories
    """
    k = checks.positive_integer(categories=categories)
    if not 2 <= k <= MOST_CATEGORIES:
        raise InvalidParameter("categories", categories, expected=f"from 2 to {MOST_CATEGORIES}")
    most, checked = checks.positive_integer(most_bytes=most_bytes), check_budget(budget)
    packed = -(-k // 8)
    kinds: list[tuple[int, Callable[..., CategoryReports]]] = [
        (8 if k <= MOST_ANSWERS else most + 1, RandomizedResponse),
        (8, HadamardResponse),
        (24, LocalHashing),
        (packed, SubsetSelection),
        (packed, UnaryEncoding),
        (packed, partial(UnaryEncoding, variant="symmetric")),
    ]
    return _cheapest(
        checked,
        [partial(kind, categories=k) for size, kind in kinds if size <= most],
        partial(NoisyCategories, categories=k) if 8 * k <= most else None,
        # Shares of 1 / k add up to the total variance of all shares, times k.
        variance=lambda reports: reports.variance(count=1, frequency=f"1/{k}"),
        expected=f"a larger one, or most_bytes={most} larger: no report fits",
    )


def local_frequencies(
    x: ArrayLike,
    *,
    categories: int,
    budget: Guarantee,
    most_bytes: int = 1024,
    bits: RandomBits | None = None,
) -> Frequencies:
    """Estimates the shares of all categories from randomized reports of their owners.

    Estimates are unbiased, so that some lie below 0; `interval()` has ends that cover,
    `on_simplex()` the nearest shares.

    Parameters
    ----------
    x
        One category per person, integers from 0 to categories - 1, shape (n,); those beyond count
        as the nearest. Each is randomized by itself, by `frequency_randomizer`, as on the person's
        own device.
    categories
        How many, 2 or more.
    budget
        Any guarantee, kept for each person whatever becomes of their report.
    most_bytes
        The largest size of a report, in bytes.
    bits
        As for `local_mean`.

    Returns
    -------
    Frequencies
        Shares, shape (categories,), with errors and intervals.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import unacorda
    >>> answers = np.repeat([0, 1, 2], [6000, 3000, 1000])
    >>> shares = local_frequencies(
    ...     answers, categories=3, budget=unacorda.PureDP(2), bits=unacorda.SeededBits(1)
    ... )
    >>> bool(np.abs(shares.values - [0.6, 0.3, 0.1]).max() < 0.05)
    True
    """
    reports = frequency_randomizer(categories=categories, budget=budget, most_bytes=most_bytes)
    expected = "integers: indices of categories"
    given = elements.integers("x", x, dimensions=1, expected=expected)
    if given.ndim != 1 or given.size == 0:
        raise InvalidParameter("x", given.shape, expected="one dimension, of 1 or more integers")
    return reports.aggregate(reports.encode(given, bits=source_of(bits)))


def vector_randomizer(*, size: int, radius: float | Fraction, budget: Guarantee) -> VectorReports:
    """Chooses the reports of a vector of bounded length that have the least variance.

    It chooses among `Directions` and, where the budget allows it, normal noise.

    Parameters
    ----------
    size
        The number of coordinates.
    radius
        Public, an l2 norm; longer vectors are clipped to it.
    budget
        Any guarantee, kept for each report by itself, under the replacement of its vector by any
        other.

    Returns
    -------
    Directions or NoisyVector
        With `release`, whose reports are unbiased.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> type(vector_randomizer(size=5, radius=1, budget=unacorda.PureDP(2))).__name__
    'Directions'
    >>> type(vector_randomizer(size=5, radius=1, budget=unacorda.GDP(1))).__name__
    'NoisyVector'
    """
    kinds: list[Callable[..., VectorReports]] = [partial(Directions, size=size, radius=radius)]
    return _cheapest(
        check_budget(budget),
        kinds,
        partial(NoisyVector, size=size, radius=radius),
        variance=lambda reports: reports.variance,
    )


def _cheapest(
    budget: Guarantee,
    kinds: Sequence[Callable[..., _Reports]],
    normal: Callable[..., _Reports] | None,
    *,
    variance: Callable[[_Reports], float],
    expected: str = "one of which a report can make use",
) -> _Reports:
    """The reports of least variance: by kinds that take an epsilon, or with normal noise."""
    epsilon, found = PureDP.within(budget).epsilon, list[_Reports]()
    for kind in kinds:
        try:
            found.append(kind(epsilon=epsilon))
        except InvalidParameter as error:
            if error.argument != "epsilon":
                raise
    if normal is not None and takes_normal_noise(budget):
        noise = Gaussian.for_guarantee(gdp_budget(budget), l2_sensitivity=1)
        found.append(normal(noise_multiplier=checks.exact("sigma", noise.sigma)))
    checks.demand(found, "budget", budget, expected=expected)
    return min(found, key=variance)
