"""Prices: the cost of an event in the unit of an account, exact or rounded up to 2^-80.

The five kinds add, so a composition costs the sum of its parts. Only (epsilon, delta) can be
cheaper by way of a concentrated kind, at a delta fixed beforehand. Floats in events mean the
decimals that they print as. Sampled and shuffled events have no additive price here: `renyi`, `rho`
and `pure_epsilon` price them under one relation.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from unacorda.accounting.arguments import (
    Events,
    alpha_argument,
    priceable,
    spendable_delta,
    together,
)
from unacorda.accounting.rules.base import pure_of, renyi_of_event, rules_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.events import Composed, Event, Repeated, compose
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.rounding import float_above, grid_up, root_up

_Kind = TypeVar("_Kind", bound=Guarantee)
_LEAST_ORDER = 1 + Fraction(1, 2**60)


def price(
    event: Events,
    kind: type[_Kind],
    *,
    delta: Number | None = None,
    alpha: Number | None = None,
) -> _Kind:
    """Prices an event as a guarantee of one kind, the least that this package can prove.

    Bound: upper; exact where rational, else rounded up to a multiple of 2^-80.

    Source: those of the functions for each kind.

    Parameters
    ----------
    event
        One event, or several that are composed.
    kind
        The class of the guarantee: PureDP, ApproxDP, ZCDP, GDP or RenyiDP.
    delta
        For ApproxDP only: the delta that may be spent.
    alpha
        For RenyiDP only: the order.

    Returns
    -------
    PureDP, ApproxDP, ZCDP, GDP or RenyiDP
        A guarantee of that kind.

    Raises
    ------
    InvalidParameter
        For an alpha or a delta that is missing or too small, and for another kind.
    UnsupportedEvent
        If no theorem here gives a price, as for samples.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian, Laplace
    >>> price(Gaussian(noise_multiplier=2.0) * 4, ZCDP)
    ZCDP(rho=0.5)
    >>> price(Laplace(noise_multiplier=10), PureDP)
    PureDP(epsilon=0.1)
    """
    whole = priceable(event)
    cost: Guarantee
    if kind is PureDP:
        cost = pure_price(whole)
    elif kind is ApproxDP:
        cost = approx_dp_price(whole, delta=delta)
    elif kind is ZCDP:
        cost = zcdp_price(whole)
    elif kind is GDP:
        cost = gdp_price(whole)
    elif kind is not RenyiDP:
        raise InvalidParameter("kind", kind, expected="PureDP, ApproxDP, ZCDP, GDP or RenyiDP")
    elif alpha is None:
        raise InvalidParameter("alpha", alpha, expected="the order of the Renyi account, above 1")
    else:
        cost = renyi_price(whole, alpha=alpha)
    assert isinstance(cost, kind)
    return cost


def pure_price(event: Event) -> PureDP:
    """The pure epsilon of an event: scale and sensitivity for Laplace noise, sums for many.

    Bound       upper, exact.
    Source      Dwork, McSherry, Nissim, Smith 2006; basic composition.
    """
    return rules_of(event).pure_price(event)


def zcdp_price(event: Event) -> ZCDP:
    """The rho, and the delta of Approximate parts, of an event.

    Bound       upper; 1/(2 m^2) and epsilon^2/8 are exact, epsilon tanh(epsilon/2) rounded up.
    Source      Bun and Steinke 2016; Canonne, Kamath, Steinke 2020, Thm. 4 (discrete Gaussian);
                Cesar and Rogers 2021 (exponential mechanism).
    """
    return rules_of(event).zcdp(event)


def gdp_price(event: Event, *, fine: bool = False) -> GDP:
    """The mu, and the delta of Approximate parts, of an event.

    fine: for a comparison, the price of an exponential mechanism without rounding it to 2^-80,
    which is more than the whole of a very small one.

    zCDP implies no GDP, so the discrete Gaussian and ZeroConcentrated have no such price. For
    example, the discrete Gaussian of sigma 1 and sensitivity 1 needs mu of at least 1.0458, not 1.

    Bound       upper; 1/m is exact, the others rounded up.
    Source      Dong, Roth, Su 2022, Thm. 2.7 and Cor. 3.3; docs/proofs/bounded_range.md.
    """
    return rules_of(event).gdp(event, fine=fine)


def renyi_price(event: Event, *, alpha: Number) -> RenyiDP:
    """The Renyi divergence of order alpha of an event.

    Bound       upper; Gaussian ones alpha/(2 m^2) are exact, the others rounded up.
    Source      Mironov 2017 (Gaussian, Laplace); Bun and Steinke 2016 (pure).
    """
    return rules_of(event).renyi_price(event, RenyiDP(alpha, 0).alpha)


def approx_dp_price(event: Event, *, delta: Number | None = None) -> ApproxDP:
    """The least epsilon of an event within `delta`, with the delta that it uses.

    It is the best of the plain sum of pure and approximate parts; all parts by Gaussian DP; all by
    zCDP; and the plain sum for the parts that have one with the others by GDP or zCDP. Without
    delta it is the plain sum.

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


def renyi(events: Events, *, alpha: Number, neighbors: Neighbors = AddRemove) -> float:
    r"""Bounds the Renyi divergence between the events' outputs on any two neighboring tables.

    Sums over a composition; each part by the least of closed forms, the certified integral
    (Gaussian on a Poisson sample), sums over whole orders and bounds at large orders.

    Bound: upper, rounded up.

    Source: those of accounting/divergences; Mironov 2017, Prop. 1 (composition).

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    alpha
        The order, a real number above 1 and at most 1e100. Orders below 1 + 2^-60 are raised to
        that, which has the larger divergence.
    neighbors
        The neighboring relation of the guarantee, and of the sensitivities of unsampled events.

    Returns
    -------
    float
        The divergence of order alpha.

    Raises
    ------
    InvalidParameter
        For a value that is not an event, an order out of range, and a scheme that does not fit the
        relation.
    UnsupportedEvent
        Where a part has a delta.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian
    >>> renyi(Gaussian(noise_multiplier=2.0) * 4, alpha=8)
    4.0
    >>> round(renyi(Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01), alpha=8), 6)
    0.000894
    """
    order = max(alpha_argument(alpha), _LEAST_ORDER)
    event = together(events, neighbors)
    return 0.0 if event is None else float_above(renyi_of_event(event, order, neighbors))


def rho(events: Events, *, neighbors: Neighbors = AddRemove) -> float:
    r"""Bounds the rho for which the events together are rho-zCDP.

    A sampled mechanism has the rho of the mechanism, unless it is pure: the sampled Gaussian has
    rare, large losses, which concentrated DP counts fully. Use epsilon() there.

    Bound: upper, rounded up.

    Source: zcdp_price; for samples the joint quasi-convexity of Renyi divergences, and
    zcdp_from_pure of the amplified epsilon.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    neighbors
        The neighboring relation of the guarantee, and of the sensitivities of unsampled events.

    Returns
    -------
    float
        The least rho that is proved here.

    Raises
    ------
    InvalidParameter
        For a value that is not an event, and a scheme that does not fit the relation.
    UnsupportedEvent
        Where a part has a delta.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> rho(Gaussian(noise_multiplier=2.0) * 4)
    0.5
    >>> rho(Pure(epsilon=1.0).poisson_sampled(rate=0.1)) < rho(Pure(epsilon=1.0)) / 10
    True
    """
    event = together(events, neighbors)
    return 0.0 if event is None else float_above(rules_of(event).rho(event, neighbors))


def pure_epsilon(events: Events, *, neighbors: Neighbors = AddRemove) -> float | None:
    r"""The epsilon for which the events together are epsilon-DP, or None if they are not pure.

    Statement   sums over compositions; log(1 + rate (e^epsilon - 1)) for a sample; shuffling
                amplifies no pure guarantee.
    Bound       upper, rounded up.
    Source      pure_price; approx_dp_of_sample.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> pure_epsilon(Pure(epsilon=1.0) * 3), pure_epsilon(Gaussian(noise_multiplier=1.0))
    (3.0, None)
    """
    event = together(events, neighbors)
    return 0.0 if event is None else checked_pure_epsilon(event, neighbors)


def checked_pure_epsilon(event: Event, neighbors: Neighbors) -> float | None:
    """`pure_epsilon` of an event whose numbers and relation have been checked.

    Bound       upper, rounded up.
    Source      as pure_epsilon.
    """
    found = pure_of(event, neighbors)
    return None if found is None else float_above(found)


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
