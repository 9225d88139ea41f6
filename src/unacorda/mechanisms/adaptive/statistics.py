"""What is asked of data: order statistics, means, sums, the mode, distinct counts.

A statistic is a value that holds public parameters alone. Its `value` is the plain answer, which
is **not private** and is never to be released; the mechanisms beside it are what releases.

Numbers: integers or floats of at most 64 bits, one dimension, a record each. Each record counts as
a float64, NaN as 0, and is then clamped to the bounds, infinities too; a bound counts as the
float64 nearest to it. Which values are there, and how many, raises nothing.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.adaptive import records

__all__ = [
    "Bounded",
    "DistinctCount",
    "KthLargest",
    "Maximum",
    "Mean",
    "Median",
    "Minimum",
    "Mode",
    "OrderStatistic",
    "Quantile",
    "RankStatistic",
    "Statistic",
    "Sum",
    "Variance",
    "clamped_values",
]

Category: TypeAlias = str | int

_LARGEST: Final = Fraction(2) ** 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenBounds(ABC):
    """A statistic of numbers that are clamped to public bounds, lower < upper."""

    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        _keep_bounds(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatistic(BetweenBounds):
    """The value at one place among the sorted values."""

    @abstractmethod
    def place(self, count: int) -> int:
        """Which of `count` sorted values it is: 0 the smallest.

        Below 0 it is the lower bound, from `count` on the upper one.
        """

    def value(self, values: ArrayLike) -> float:
        """The answer itself. NOT private: never release it."""
        numbers = clamped_values(self, values)
        place = self.place(numbers.size)
        if place < 0:
            return float(self.lower)
        if place >= numbers.size:
            return float(self.upper)
        return float(np.partition(numbers, place)[place])


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatistic(RankStatistic):
    """The value of a fixed rank, from below, the smallest being 0.

    Where there are no more than `rank` values it is `upper`.
    rank: 0 or above; lower, upper: public, lower < upper.

    >>> OrderStatistic(rank=1, lower=0, upper=10).value([7, 3, 99])
    7.0
    """

    rank: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", _whole("rank", self.rank, least=0))
        _keep_bounds(self)

    def place(self, count: int) -> int:  # noqa: ARG002 - the same whatever their number
        """The rank."""
        return self.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum(OrderStatistic):
    """The smallest value; for empty data it is `upper`. lower, upper: public, lower < upper.

    >>> Minimum(lower=0, upper=10).value([4, 3, -5])
    0.0
    """

    rank: int = field(default=0, init=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KthLargest(RankStatistic):
    """The k-th largest value; the first is the maximum.

    Where there are fewer than k values, so for empty data, it is `lower`.
    k: 1 or above; lower, upper: public, lower < upper.

    >>> KthLargest(k=2, lower=0, upper=10).value([7, 3, 99])
    7.0
    """

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", _whole("k", self.k, least=1))
        _keep_bounds(self)

    def place(self, count: int) -> int:
        """The k-th from the end."""
        return count - self.k


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum(KthLargest):
    """The largest value; for empty data it is `lower`. lower, upper: public, lower < upper.

    >>> Maximum(lower=0, upper=10).value([4, 3, -5])
    4.0
    """

    k: int = field(default=1, init=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(RankStatistic):
    """The least value that at least the share q of the values do not exceed.

    That is the value of rank ceil(q n) - 1 of n, never one between two values; for empty data it
    is `lower`.
    q: strictly between 0 and 1, else take Minimum or Maximum; lower, upper: public, lower < upper.

    >>> Quantile(q=0.9, lower=0, upper=10).value(range(10))
    8.0
    """

    q: Number

    def __post_init__(self) -> None:
        share = checks.exact("q", self.q)
        if not 0 < share < 1:
            raise InvalidParameter(
                "q", self.q, expected="above 0 and below 1; else take Minimum or Maximum"
            )
        object.__setattr__(self, "q", share)
        _keep_bounds(self)

    def place(self, count: int) -> int:
        """The rank ceil(q count) - 1."""
        return math.ceil(Fraction(self.q) * count) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Median(Quantile):
    """The lower median, of rank (n - 1) // 2 of n; `Quantile` with q = 1/2.

    It is `lower` for empty data. lower, upper: public, lower < upper.

    >>> Median(lower=0, upper=10).value([1, 2, 8, 9])
    2.0
    """

    q: Number = field(default=Fraction(1, 2), init=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(BetweenBounds):
    """The mean, exactly; for empty data the middle of the bounds.

    lower, upper: public, lower < upper.

    >>> Mean(lower=0, upper=10).value([1, 2, 99])
    Fraction(13, 3)
    """

    def value(self, values: ArrayLike) -> Fraction:
        """The answer itself. NOT private: never release it."""
        numbers = clamped_values(self, values)
        if not numbers.size:
            return sum(_ends(self), Fraction(0)) / 2
        return records.exact_sum(numbers) / numbers.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(BetweenBounds):
    """The mean squared distance from the mean (divided by n), exactly; 0 for empty data.

    lower, upper: public, lower < upper.

    >>> Variance(lower=0, upper=10).value([1, 2, 6])
    Fraction(14, 3)
    """

    def value(self, values: ArrayLike) -> Fraction:
        """The answer itself. NOT private: never release it."""
        numbers = clamped_values(self, values)
        if not numbers.size:
            return Fraction(0)
        mean = records.exact_sum(numbers) / numbers.size
        return records.exact_sum_of_squares(numbers) / numbers.size - mean * mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sum of one total a person, exactly; 0 for empty data.

    lower, upper: public, lower < upper; upper may be None where lower is 0: totals that are
    non-negative and of any size (an infinite one counts as the largest float64), for mechanisms
    that only ever remove people.

    >>> Sum(lower=0, upper=None).value([1, -2, 99])
    Fraction(100, 1)
    """

    lower: Number
    upper: Number | None

    def __post_init__(self) -> None:
        if self.upper is not None:
            _keep_bounds(self)
            return
        object.__setattr__(self, "lower", checks.exact("lower", self.lower))
        if self.lower != 0:
            raise InvalidParameter("lower", self.lower, expected="0 where upper is None")

    def value(self, values: ArrayLike) -> Fraction:
        """The answer itself. NOT private: never release it."""
        return records.exact_sum(clamped_values(self, values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The most frequent of public categories; of several, the one that stands first.

    A record that is none of them counts for none; for empty data it is the first category.
    categories: text or whole numbers, each once, at least one.

    >>> Mode(categories=("red", "green")).value(["green", "red", "blue"])
    'red'
    """

    categories: tuple[Category, ...]

    def __post_init__(self) -> None:
        given = tuple(self.categories)
        kinds = {_kind(category) for category in given}
        if kinds not in ({"text"}, {"whole number"}) or len(set(given)) < len(given):
            raise InvalidParameter(
                "categories",
                self.categories,
                expected="text, or whole numbers within int64, each once and at least one",
            )
        object.__setattr__(self, "categories", given)

    def counts(self, values: ArrayLike) -> NDArray[np.int64]:
        """How many records each category has, in the order of the categories. NOT private."""
        found, repeats = records.multiplicities(values)
        of = dict(zip(found, repeats.tolist(), strict=True))
        return np.array([of.get(category, 0) for category in self.categories], dtype=np.int64)

    def value(self, values: ArrayLike) -> Category:
        """The answer itself. NOT private: never release it."""
        return self.categories[int(self.counts(values).argmax())]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctCount:
    """How many different values there are, integers or text, one a record; 0 for empty data.

    >>> DistinctCount().value(["a", "b", "a"])
    2
    """

    def value(self, values: ArrayLike) -> int:
        """The answer itself. NOT private: never release it."""
        return len(records.multiplicities(values)[0])


Bounded: TypeAlias = RankStatistic | Mean | Variance | Sum
Statistic: TypeAlias = Bounded | Mode | DistinctCount


def clamped_values(statistic: BetweenBounds | Sum, values: ArrayLike) -> NDArray[np.float64]:
    """Each record as the statistic counts it, in the order they came. NOT private.

    Raises InvalidParameter for another dtype or more dimensions.

    >>> clamped_values(Median(lower=0, upper=10), [3.5, float("nan"), float("inf"), -0.0]).tolist()
    [3.5, 0.0, 10.0, 0.0]
    """
    upper = None if statistic.upper is None else float(statistic.upper)
    return records.clamped(values, lower=float(statistic.lower), upper=upper)


def _keep_bounds(statistic: BetweenBounds | Sum) -> None:
    """Put the exact bounds in place of what was written, if they can be used."""
    for name in ("lower", "upper"):
        given = getattr(statistic, name)
        bound = checks.exact(name, given)
        if abs(bound) > _LARGEST:
            raise InvalidParameter(name, given, expected="within +-2^1000")
        object.__setattr__(statistic, name, bound)
    low, high = _ends(statistic)
    if low >= high:
        expected = f"a number above lower, which is {statistic.lower}"
        raise InvalidParameter("upper", statistic.upper, expected=expected)


def _ends(statistic: BetweenBounds | Sum) -> tuple[Fraction, Fraction]:
    """The bounds as float64 has them, exactly."""
    assert statistic.upper is not None
    return Fraction(float(statistic.lower)), Fraction(float(statistic.upper))


def _whole(name: str, value: object, *, least: int) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise InvalidParameter(name, value, expected=f"a whole number, {least} or above")


def _kind(category: object) -> str:
    if isinstance(category, str):
        return "text"
    whole = isinstance(category, int | np.integer) and not isinstance(category, bool)
    return "whole number" if whole and -(2**63) <= int(category) < 2**63 else "neither"  # type: ignore[call-overload]
