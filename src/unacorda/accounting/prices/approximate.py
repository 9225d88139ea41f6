"""What an event costs as (epsilon, delta), by the best of the ways to add it up."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.accounting.arguments import spendable_delta
from unacorda.accounting.prices.additive import gdp_price, zcdp_price
from unacorda.accounting.rules.base import rules_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.events import Composed, Event, Repeated, compose
from unacorda.privacy.guarantees import ApproxDP
from unacorda.privacy.rounding import grid_up, root_up

__all__ = ["approx_dp_price"]


def approx_dp_price(event: Event, *, delta: Number | None = None) -> ApproxDP:
    """The least epsilon of an event at most at `delta`, with the delta that it takes.

    Tried are: the plain sum of pure and approximate parts; all parts by Gaussian DP; all by
    zCDP; and the plain sum for the parts that have one with the others by GDP or zCDP. Without
    delta only the plain sum is tried.

    Bound       upper, rounded up.
    Source      Dwork, Kenthapadi, et al. 2006 (sum); Balle and Wang 2018 (GDP); Canonne, Kamath,
                Steinke 2020 (zCDP).

    >>> from unacorda.privacy.events import Gaussian
    >>> approx_dp_price(Gaussian(noise_multiplier=1.0), delta=1e-6)
    ApproxDP(epsilon=4.88655411747, delta=1e-06)
    """
    parts = event.parts if isinstance(event, Composed) else (event,)
    plain = [part for part in parts if _plain(part) is not None]
    others = [part for part in parts if _plain(part) is None]
    total = sum((cost for part in plain if (cost := _plain(part))), start=ApproxDP(0, 0))
    if delta is None:
        if others:
            raise _wants_delta(compose(others), delta)
        return total
    limit = spendable_delta(delta)
    candidates = _by_concentration(event, limit)
    if total.delta <= limit:
        if others:
            candidates += [
                ApproxDP(total.epsilon + cost.epsilon, limit)
                for cost in _by_concentration(compose(others), limit - total.delta)
            ]
        else:
            candidates.append(total)
    if not candidates:
        raise _wants_delta(event, delta)
    return min(candidates, key=lambda cost: (cost.epsilon, cost.delta))


def _by_concentration(event: Event, delta: Fraction) -> list[ApproxDP]:
    """The event at exactly `delta`, by Gaussian DP and by zCDP, as far as these exist."""
    found = []
    concentrated = zcdp_price(event)  # whatever has a price in GDP has one in zCDP
    rest = conversions.delta_of_part(delta, part=concentrated.delta)
    if rest:
        epsilon = conversions.approx_dp_from_zcdp(concentrated.rho, delta=rest)
        found.append(ApproxDP(grid_up(epsilon), delta))
    try:
        gaussian = gdp_price(event)
    except UnsupportedEvent:
        return found
    rest = conversions.delta_of_part(delta, part=gaussian.delta)
    if rest:
        epsilon = conversions.approx_dp_from_gdp(root_up(gaussian.mu_squared), delta=rest)
        found.append(ApproxDP(grid_up(epsilon), delta))
    return found


def _plain(event: Event) -> ApproxDP | None:
    """(epsilon, delta) of a part that has them without a choice of delta, else None."""
    alone, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
    pair = rules_of(alone).approximate(alone)
    return None if pair is None else ApproxDP(*pair) * count


def _wants_delta(event: Event, delta: Number | None) -> InvalidParameter | UnsupportedEvent:
    zcdp_price(event)  # raises UnsupportedEvent for events that no delta would help
    return InvalidParameter("delta", delta, expected="a larger one: these events spend delta")
