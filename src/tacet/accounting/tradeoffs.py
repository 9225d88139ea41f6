"""A trade-off curve from a profile that is asked at a few epsilons."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numbers
from collections.abc import Callable
from fractions import Fraction

from tacet.errors import InvalidParameter
from tacet.privacy.estimates import Interval
from tacet.privacy.tradeoff import TradeoffCurve

__all__ = ["check_points", "sampled_curve"]

_MOST = 10_000


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

    largest: finite; pure: an epsilon at which delta is 0, where there is one.

    Bound       both: the curve's lower side is the safe one.
    Source      Dong, Roth, Su 2022, Prop. 2.12.
    """
    grid = [largest * (place / (points - 1)) ** 1.5 for place in range(points)]
    found = [(at, delta_interval(Fraction(at))) for at in grid]
    promised = [(at, interval.upper) for at, interval in found]
    if pure is not None:
        promised.append((pure, 0.0))
    return TradeoffCurve.of_profile(
        promised, attained=[(at, interval.lower) for at, interval in found]
    )
