"""The true-positive rate of the best membership test, from both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from unacorda.accounting.accountant import delta_interval, tradeoff
from unacorda.accounting.arguments import Events, together
from unacorda.accounting.rules.base import leaves, rules_of
from unacorda.checks import Number, demand, exact
from unacorda.privacy.enclosure import float_down, float_up, mpf
from unacorda.privacy.estimates import Interval
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.tradeoff import TradeoffCurve

_NARROW = 1e-3
"""An interval this narrow, relative to its upper end, is not looked at again."""
_MOST = 40
"""How often the profile is asked at most, after the first curve."""
_PATIENCE = 5
"""It is asked no more where so many answers moved neither end by a tenth of what is narrow."""


def true_positive_rate(
    events: Events, *, fpr: Number, neighbors: Neighbors = AddRemove
) -> Interval:
    r"""The share of members that the best test with this false-positive rate finds.

    fpr: from 0 to 1. The privacy profile is computed where it matters: repeatedly in the middle of
    the interval of epsilons with the largest gap, until a thousandth is left, at most 40 times.

    Statement   at most inf over real epsilon of e^epsilon fpr + delta(epsilon), delta the larger
                one of both orders of the neighbors. Where both orders are alike it is that; on a
                sample they are not, no test may reach it, and the lower end is 0.
    Bound       both.
    Source      Dong, Roth, Su 2022, Prop. 2.12; the engines' profile.

    >>> from unacorda.privacy.events import Gaussian
    >>> found = true_positive_rate(Gaussian(noise_multiplier=1.0), fpr=0.01)
    >>> round(found.lower, 6), round(found.upper, 6)
    (0.092362, 0.092362)
    """
    rate = exact("fpr", fpr)
    demand(0 <= rate <= 1, "fpr", fpr, expected="a number from 0 to 1")
    event = together(events, neighbors)
    if event is None:
        return Interval(float_down(mpf(rate)), float_up(mpf(rate)))
    curve = tradeoff(event, neighbors=neighbors, points=9)
    # where exchanging the neighbors leaves the pair of laws as it is, but for names
    mirrored = all(rules_of(one).mirrored for one in leaves(event))
    seen: list[Interval] = []
    for _ in range(_MOST):
        found = _hits(curve, rate)
        if curve.mu_squared is not None or curve.exact or found.width <= _NARROW * found.upper:
            break
        if len(seen) >= _PATIENCE and _moved(seen[-_PATIENCE], found) <= _NARROW / 10:
            break
        seen.append(found)
        at = _widest(curve, float(rate))
        if at is None:
            break
        interval = delta_interval(event, epsilon=Fraction(at), neighbors=neighbors)
        curve = TradeoffCurve.of_profile(
            [*curve.promised, (at, interval.upper)],
            attained=[*curve.attained, (at, interval.lower)],
        )
    found = _hits(curve, rate)
    return found if mirrored else Interval(0.0, found.upper)


def _moved(before: Interval, now: Interval) -> float:
    """How far the ends came nearer, relative to the upper one."""
    steps = max(before.upper - now.upper, now.lower - before.lower)
    return steps / now.upper if now.upper else 0.0


def _hits(curve: TradeoffCurve, rate: Fraction) -> Interval:
    missed = curve.beta_interval(alpha=rate)
    return Interval(
        max(0.0, math.nextafter(1 - missed.upper, 0.0)), curve.true_positive_rate(fpr=rate)
    )


def _widest(curve: TradeoffCurve, rate: float) -> float | None:
    """The middle of the stretch between two epsilons that leaves the curve most room above.

    Within it delta is at least that of its right end, and e^epsilon at least that of its left.
    """
    rooms = []
    ends = [(0.0, 1.0), *((float(at), float(delta)) for at, delta in curve.attained)]
    for (low, _), (high, delta) in itertools.pairwise(ends):
        rest, slope = 1 - delta, math.exp(min(low, 700.0))
        rooms.append(
            (max(rest - slope * rate, (rest - rate) / slope), (low + high) / 2, high - low)
        )
    room, middle, width = max(rooms)
    return middle if room > 0 and width > 1e-12 * middle else None
