"""Prices: what an event costs in the unit of an account, exact or rounded up to 2^-80.

The five kinds add, so a composition costs the sum of its parts; only (epsilon, delta) may do
better by way of a concentrated kind, at a delta fixed beforehand. Floats in events mean the
decimals they print as. Sampled and shuffled events have no additive price here.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TypeVar

from unacorda.accounting.arguments import Events, priceable
from unacorda.accounting.prices.additive import (
    gdp_price,
    pure_price,
    renyi_price,
    zcdp_price,
)
from unacorda.accounting.prices.approximate import approx_dp_price
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP

__all__ = [
    "approx_dp_price",
    "gdp_price",
    "price",
    "pure_price",
    "renyi_price",
    "zcdp_price",
]

_Kind = TypeVar("_Kind", PureDP, ApproxDP, ZCDP, GDP, RenyiDP)


def price(
    event: Events,
    kind: type[_Kind],
    *,
    delta: Number | None = None,
    alpha: Number | None = None,
) -> _Kind:
    """Prices an event as a guarantee of one kind, the least that this package can prove.

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
        Where no theorem here gives a price, as of samples.

    Bound       upper; exact where rational, else rounded up to a multiple of 2^-80.
    Source      those of the functions for each kind.

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
