r"""Local, down and smooth sensitivities of a statistic at given data.

**None of these numbers is private.** They are functions of the data, and so is noise with one of
them as its scale: releasing either reveals the data. They are for people who may see the data, and
for use inside mechanisms that have a proof.

Source: Nissim, Raskhodnikova, Smith 2007, Definitions 2.1 and 2.2; Asi and Duchi 2020 (distance k);
Fang, Dong, Yi 2022 (down). Proofs: docs/proofs/adaptive_sensitivities.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Final

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
