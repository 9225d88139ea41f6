"""What an event costs in the kinds that add: pure, zCDP, Gaussian and Renyi DP."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.accounting.rules.base import rules_of
from unacorda.checks import Number
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP, RenyiDP

__all__ = ["gdp_price", "pure_price", "renyi_price", "zcdp_price"]


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

    zCDP implies no GDP, so the discrete Gaussian and ZeroConcentrated have no such price: the
    discrete Gaussian of sigma 1 and sensitivity 1 needs mu of at least 1.0458, not 1.

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
