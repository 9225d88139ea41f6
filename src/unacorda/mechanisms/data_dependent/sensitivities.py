"""Local, down and smooth sensitivities at given data, and checks of one by brute force.

**None of these numbers is private.** They are functions of the data, and so is noise with one of
them as its scale: releasing either reveals the data. They are for people who may see the data, and
for use inside mechanisms that have a proof.

A mechanism with a user's own losses is private only if one record changes each of them by no more
than the sensitivity. Mistakes usually appear already on tiny data, for which all cases can be
tried.

Source: Nissim, Raskhodnikova, Smith 2007, Definitions 2.1 and 2.2; Asi and Duchi 2020 (distance k);
Fang, Dong, Yi 2022 (down). Proofs: docs/proofs/adaptive_sensitivities.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.statistics.base import Statistic
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_added_or_replaced

_FLOATS_END: Final = Fraction(sys.float_info.max)
_LEAST_SMOOTHNESS: Final = Fraction(1, 2**16)
_LARGEST_SMOOTHNESS: Final = Fraction(2**10)  # beyond, only the local sensitivity is left


def local_sensitivity(
    statistic: Statistic,
    values: ArrayLike,
    *,
    distance: int = 1,
    neighbors: Neighbors = AddRemove,
) -> float:
    r"""Compute the local sensitivity to up to `distance` changed records. NOT PRIVATE.

    It is the supremum of |f(x) - f(x')| over all x' within that distance of the values x. A record
    may be any number between the bounds, any category or none, any distinct value. Never release
    it, nor noise scaled to it: see examples/local_sensitivity.py.

    Source: Asi and Duchi 2020, section 2 (local modulus of continuity).

    Parameters
    ----------
    statistic
        Such as `Median(lower=0, upper=100)`.
    values
        The data, as the statistic takes them.
    distance
        The number of records, 1 or above.
    neighbors
        AddRemove or ReplaceOne.

    Returns
    -------
    float
        In the unit of the statistic: the least float at or above the exact number. For `Mode` it is
        1 where the mode can change, else 0. For a `Sum` without an upper bound it is inf.

    Raises
    ------
    InvalidParameter
        For another argument, shape or dtype.

    Examples
    --------
    >>> from unacorda.mechanisms.data_dependent import Median
    >>> local_sensitivity(Median(lower=0, upper=100), [1, 2, 2, 3, 50], distance=4)
    48.0
    """
    _check_statistic(statistic)
    steps = checks.positive_integer(distance=distance)
    check_added_or_replaced(neighbors)
    return _up(statistic.local(values, distance=steps, neighbors=neighbors))


def down_sensitivity(statistic: Statistic, values: ArrayLike, *, distance: int = 1) -> float:
    r"""Compute the down sensitivity to up to `distance` removed records. NOT PRIVATE.

    It is the supremum of |f(x) - f(x')| over all x' that are x without at most so many records.
    Added records do not count, so it is finite for sums without an upper bound. Never release it,
    nor noise scaled to it.

    Source: Fang, Dong, Yi 2022, section 3 (down neighborhoods).

    Parameters
    ----------
    statistic, values
        As for `local_sensitivity`.
    distance
        The number of records, 1 or above.

    Returns
    -------
    float
        In the unit of the statistic: the least float at or above the exact number.

    Raises
    ------
    InvalidParameter
        As `local_sensitivity`.

    Examples
    --------
    >>> from unacorda.mechanisms.data_dependent import Sum
    >>> down_sensitivity(Sum(lower=0, upper=None), [3, 1, 4, 1, 5], distance=2)
    9.0
    """
    _check_statistic(statistic)
    steps = checks.positive_integer(distance=distance)
    return _up(statistic.down(values, distance=steps))


def smooth_sensitivity(
    statistic: Statistic,
    values: ArrayLike,
    *,
    smoothness: Number,
    neighbors: Neighbors = AddRemove,
) -> float:
    r"""Compute the smooth sensitivity: local sensitivities far away, discounted. NOT PRIVATE.

    S(x) = sup over y of exp(-smoothness d(x, y)) LS(y), d the number of records that differ and LS
    the local sensitivity (distance 1). The result s is a smooth bound itself, roundings included:
    s(x) >= LS(x), and s(x) <= exp(smoothness) s(x') for neighbors x and x'. It is at least S(x),
    and, with t = 2^-36 + 2^-41 / smoothness, at most 1 + t / 4 times what S is with a smoothness
    less by t (for a rank or the mode no less than 2^-900 of the range, if not 0). It takes O(n log
    n) for n values. Never release it; noise scaled to it is private only with a proof, as
    `SmoothSensitivity` has.

    Source: Nissim, Raskhodnikova, Smith 2007, Definition 2.2 and section 3.1.

    Parameters
    ----------
    statistic
        Such as `Median(lower=0, upper=100)`, whose bounds are at least 2^-100 apart.
    values
        The data, as the statistic takes them.
    smoothness
        At least 2^-16.
    neighbors
        AddRemove or ReplaceOne.

    Returns
    -------
    float
        In the unit of the statistic; for a `Sum` without an upper bound it is inf.

    Raises
    ------
    InvalidParameter
        For another argument, shape or dtype.

    Examples
    --------
    >>> from unacorda.mechanisms.data_dependent import Median
    >>> round(smooth_sensitivity(Median(lower=0, upper=100), [1, 2, 2, 3, 50], smoothness=1), 4)
    2.4396
    """
    _check_statistic(statistic)
    given = checks.exact("smoothness", smoothness)
    if given < _LEAST_SMOOTHNESS:
        raise InvalidParameter("smoothness", smoothness, expected="at least 2^-16, about 1.6e-5")
    check_added_or_replaced(neighbors)
    # A little of the smoothness is kept for roundings, which differ between neighbors.
    slack = Fraction(1, 2**37) + Fraction(1, 2**42) / given
    rate = float(min(given, _LARGEST_SMOOTHNESS) - slack)
    found = statistic.smooth(values, smoothness=rate, neighbors=neighbors)
    return found * (1.0 + float(slack) / 4)


def _up(number: Fraction | int | None) -> float:
    """The least float at or above a number that is not negative; None is infinite."""
    if number is None or number > _FLOATS_END:
        return math.inf
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def _check_statistic(value: object) -> None:
    if not isinstance(value, Statistic):
        raise InvalidParameter(
            "statistic",
            value,
            expected="one of unacorda.mechanisms.data_dependent, as Median(lower=0, ...)",
        )


Data: TypeAlias = tuple[Any, ...]
Losses: TypeAlias = dict[Any, Fraction | float]  # a float where it is infinite or no number

_MOST: Final = 200_000
_ROUNDING: Final = Fraction(1, 2**40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Two datasets between which a loss changes too much.

    first, second: the datasets, the same records in another order where that alone moves it;
    candidate: which of the losses, None where there is one; losses: on the first and the second.
    """

    first: Data
    second: Data
    candidate: Any
    losses: tuple[Fraction | float, Fraction | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityCheck:
    """The result of `check_sensitivity`. It is true if no violation was found.

    `print` shows it in words.

    Attributes
    ----------
    sensitivity, neighbors
        The sensitivity that was checked, and the neighboring relation.
    largest
        The largest change of the loss, up to the first violation.
    data_sets, pairs
        The numbers of datasets and of pairs of neighbors that were tried.
    violation
        The first violation, with the two datasets and the losses on them; or None.

    Examples
    --------
    >>> from unacorda.mechanisms.data_dependent import check_sensitivity
    >>> found = check_sensitivity(len, domain=[0, 1], n=3)
    >>> bool(found), found.largest, found.pairs
    (True, Fraction(1, 1), 12)
    """

    sensitivity: Fraction
    neighbors: Neighbors
    largest: Fraction | float
    data_sets: int
    pairs: int
    violation: Violation | None

    def __bool__(self) -> bool:
        return self.violation is None

    def __str__(self) -> str:
        if self.violation is None:
            return (
                f"One record ({self.neighbors}) moved the loss by at most {self.largest} in all "
                f"{self.pairs} pairs of {self.data_sets} datasets; {self.sensitivity} is allowed. "
                "This is evidence, no proof: larger data and other values were not tried."
            )
        found = self.violation
        of = "" if found.candidate is None else f" of candidate {found.candidate!r}"
        first, second = list(found.first), list(found.second)
        loss = f"The loss{of} is {found.losses[0]} on {first} and {found.losses[1]} on {second}"
        if sorted(map(repr, first)) == sorted(map(repr, second)):
            return f"{loss}: it depends on the order of the records, or is not a number."
        return (
            f"{loss}, which differ in one record ({self.neighbors}): it moves by more than "
            f"{self.sensitivity}, so a mechanism that trusts this sensitivity is not private."
        )


def check_sensitivity(
    loss: Callable[[list[Any]], Any],
    domain: Iterable[Any],
    n: int,
    *,
    neighbors: Neighbors = AddRemove,
    sensitivity: Number = 1,
) -> SensitivityCheck:
    """Try all datasets of at most n records of a small domain, and all pairs of neighbors.

    It reads no real data and spends nothing. A pass is evidence, not a proof.

    Source: the definition of global sensitivity (Dwork, McSherry, Nissim, Smith 2006).

    Parameters
    ----------
    loss
        A function from a list of records to one number, or to a sequence or mapping of numbers, one
        per candidate, which must all have the sensitivity. Whole numbers are compared exactly,
        others to a relative 2^-40; two infinite losses do not differ. Other values fail, and so
        does a loss that depends on the order of the records.
    domain
        Made-up records, never the data, with edges and ties among them.
    n
        The most records of a dataset, 0 or above.
    neighbors
        AddRemove, or ReplaceOne (data of the same size).
    sensitivity
        The largest difference of the loss between neighbors, 0 or above.

    Returns
    -------
    SensitivityCheck
        True if the sensitivity holds; else printing it shows a pair of neighbors.

    Raises
    ------
    InvalidParameter
        For another relation, or for more than 200,000 datasets.

    Examples
    --------
    >>> def distance_to_a_mean_of_two(records):
    ...     return abs(sum(records) - 2 * len(records))
    >>> print(check_sensitivity(distance_to_a_mean_of_two, domain=[0, 2, 5], n=3))
    The loss is 0 on [] and 2 on [0], which differ in one record (AddRemove): it moves by more \
than 1, so a mechanism that trusts this sensitivity is not private.
    >>> bool(check_sensitivity(distance_to_a_mean_of_two, domain=[0, 2, 5], n=3, sensitivity=3))
    True
    """
    check_added_or_replaced(neighbors)
    allowed = checks.exact("sensitivity", sensitivity)
    checks.demand(allowed >= 0, "sensitivity", sensitivity, expected="0 or above")
    if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 0:
        raise InvalidParameter("n", n, expected="a whole number, 0 or above")
    records = list(domain)
    count = math.comb(len(records) + int(n), int(n))
    if count > _MOST:
        raise InvalidParameter(
            "n", n, expected=f"fewer records or a smaller domain: there are {count} datasets"
        )
    found: dict[Data, Losses] = {}
    largest: Fraction | float = Fraction(0)
    pairs = 0

    def result(violation: Violation | None) -> SensitivityCheck:
        return SensitivityCheck(
            sensitivity=allowed,
            neighbors=neighbors,
            largest=largest,
            data_sets=len(found),
            pairs=pairs,
            violation=violation,
        )

    # Records are spoken of by their places, so that any kind of record will do.
    places = range(len(records))
    for size in range(int(n) + 1):
        for chosen in combinations_with_replacement(places, size):
            here = [records[place] for place in chosen]
            found[chosen] = _losses(loss(list(here)))
            turned = _losses(loss(here[::-1]))
            for candidate, one, other in _both(found[chosen], turned):
                if not _gap(one, other) <= _allowed(one, other, Fraction(0)):
                    seen = (tuple(here), tuple(here[::-1]))
                    return result(_violation(seen, candidate, (one, other)))
            for before in _earlier(chosen, neighbors):
                pairs += 1
                for candidate, one, other in _both(found[before], found[chosen]):
                    gap = _gap(one, other)
                    largest = max(largest, gap)
                    if gap > _allowed(one, other, allowed):
                        seen = (tuple(records[place] for place in before), tuple(here))
                        return result(_violation(seen, candidate, (one, other)))
    return result(None)


def _violation(
    seen: tuple[Data, Data], candidate: Any, losses: tuple[Fraction | float, Fraction | float]
) -> Violation:
    return Violation(first=seen[0], second=seen[1], candidate=candidate, losses=losses)


def _earlier(chosen: tuple[int, ...], neighbors: Neighbors) -> Iterator[tuple[int, ...]]:
    """The neighbors that come before this dataset in the order in which all are tried."""
    for place in range(len(chosen)):
        if place and chosen[place] == chosen[place - 1]:
            continue
        rest = chosen[:place] + chosen[place + 1 :]
        if neighbors is AddRemove:
            yield rest
            continue
        for record in range(chosen[place]):
            yield tuple(sorted((*rest, record)))


def _losses(given: Any) -> Losses:
    if isinstance(given, Mapping):
        return {candidate: _number(one) for candidate, one in given.items()}
    if isinstance(given, np.ndarray | Sequence) and not isinstance(given, str):
        return {place: _number(one) for place, one in enumerate(np.asarray(given, dtype=object))}
    return {None: _number(given)}


def _number(given: Any) -> Fraction | float:
    """Exactly the number; a float where it is infinite or none."""
    if isinstance(given, Fraction):
        return given
    if isinstance(given, numbers.Integral):  # truth values too
        return Fraction(int(given))
    try:
        one = float(given)
    except (TypeError, ValueError):
        return math.nan
    return Fraction(one) if math.isfinite(one) else one


def _both(one: Losses, other: Losses) -> Iterator[tuple[Any, Fraction | float, Fraction | float]]:
    """The two losses of each candidate; a candidate that only one has has no number there."""
    for candidate in [*one, *(late for late in other if late not in one)]:
        yield candidate, one.get(candidate, math.nan), other.get(candidate, math.nan)


def _gap(one: Fraction | float, other: Fraction | float) -> Fraction | float:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return abs(one - other)
    return Fraction(0) if one == other else math.inf


def _allowed(one: Fraction | float, other: Fraction | float, most: Fraction) -> Fraction:
    """The most, and where a loss is no whole number, what it may be rounded by."""
    sizes = [abs(part) for part in (one, other) if isinstance(part, Fraction)]
    rounded = any(size.denominator > 1 for size in sizes)
    return most + _ROUNDING * max(sizes) if rounded else most
