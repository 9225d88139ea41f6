"""Means and shares under local privacy: each device randomizes its own value."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias, TypeVar

from numpy.typing import ArrayLike

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import check_budget, gdp_budget, takes_normal_noise
from unacorda.inference.local.reports import (
    NoisyCategories,
    NoisyNumber,
    NoisyVector,
)
from unacorda.inference.records import column, public_range
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.local.categories import RandomizedResponse, SubsetSelection, UnaryEncoding
from unacorda.mechanisms.local.directions import Directions
from unacorda.mechanisms.local.frequencies import Frequencies, FrequencyOracle
from unacorda.mechanisms.local.hashing import HadamardResponse, LocalHashing
from unacorda.mechanisms.local.means import Duchi, Hybrid, MeanOracle, Piecewise
from unacorda.mechanisms.local.reports import MOST_ANSWERS, MOST_CATEGORIES
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee, PureDP

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
