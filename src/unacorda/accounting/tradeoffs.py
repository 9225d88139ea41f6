"""A trade-off curve from a profile that is asked at a few epsilons."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numbers
from collections.abc import Callable
from fractions import Fraction

from unacorda.errors import InvalidParameter
from unacorda.privacy.estimates import Interval
from unacorda.privacy.tradeoff import TradeoffCurve

_MOST = 10_000
_FALLEN = 2e-9
"""A delta that falls by no more than this has stopped falling."""
_SMALL = 1e-6


def check_points(points: int) -> None:
    """Refuse numbers of points that make no curve."""
    if (
        isinstance(points, bool)
        or not isinstance(points, numbers.Integral)
        or not 2 <= points <= _MOST
    ):
        raise InvalidParameter("points", points, expected=f"a whole number from 2 to {_MOST}")


def sampled_curve(
    delta_interval: Callable[[Fraction], Interval],
    *,
    largest: float,
    points: int,
    pure: float | None = None,
) -> TradeoffCurve:
    """The curve between the bounds of a profile at `points` epsilons from 0 to `largest`.

    largest: finite; where delta has stopped falling long before, as it does beside a mass of which
    nothing is known, the epsilons end there. pure: an epsilon at which delta is 0, where there is
    one.

    Bound       both: the curve's lower side is the safe one.
    Source      Dong, Roth, Su 2022, Prop. 2.12.
    """
    flat, last = delta_interval(Fraction(largest)), largest
    if flat.upper > _FALLEN:
        level = flat.upper + _FALLEN
        last = _end_of_fall(lambda at: delta_interval(at).upper, largest, level)
    grid = [last * (place / (points - 1)) ** 1.5 for place in range(points)]
    found = [(at, delta_interval(Fraction(at))) for at in grid if at < largest]
    found.append((largest, flat))
    promised = [(at, interval.upper) for at, interval in found]
    if pure is not None:
        promised.append((pure, 0.0))
    return TradeoffCurve.of_profile(
        promised, attained=[(at, interval.lower) for at, interval in found]
    )


def _end_of_fall(delta: Callable[[Fraction], float], largest: float, level: float) -> float:
    """About the least epsilon, not above `largest`, where a falling delta is at most `level`."""
    low = largest
    while low > _SMALL and delta(Fraction(low)) <= level:
        low, largest = low / 2, low
    for _ in range(7):
        middle = (low + largest) / 2
        low, largest = (low, middle) if delta(Fraction(middle)) <= level else (middle, largest)
    return largest
