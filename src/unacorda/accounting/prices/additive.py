"""What an event costs in the kinds that add: pure, zCDP, Gaussian and Renyi DP.

Prices are what a ledger debits, whatever the relation; `renyi`, `rho` and `pure_epsilon` are of one
relation, and know samples.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.accounting.arguments import Events, alpha_argument, together
from unacorda.accounting.rules.base import pure_of, renyi_of_event, rules_of
from unacorda.checks import Number
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.rounding import float_above

__all__ = [
    "checked_pure_epsilon",
    "gdp_price",
    "pure_epsilon",
    "pure_price",
    "renyi",
    "renyi_price",
    "rho",
    "zcdp_price",
]

_LEAST_ORDER = 1 + Fraction(1, 2**60)


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


def renyi(events: Events, *, alpha: Number, neighbors: Neighbors = AddRemove) -> float:
    r"""Bounds the Renyi divergence between the events' outputs on any two neighboring tables.

    Sums over a composition; each part by the least of closed forms, the certified integral
    (Gaussian on a Poisson sample), sums over whole orders and bounds at large orders.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    alpha
        The order, above 1, at most 1e100, any real number; those below 1 + 2^-60 are read as that,
        which has the larger divergence.
    neighbors
        The relation that the guarantee speaks of, and the sensitivities of events outside samples.

    Returns
    -------
    float
        The divergence of order alpha.

    Raises
    ------
    InvalidParameter
        For what is no event, an order out of range, and a scheme that says nothing about the
        relation.
    UnsupportedEvent
        Where a part has a delta.

    Bound       upper, rounded up.
    Source      those of accounting/divergences; Mironov 2017, Prop. 1 (composition).

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

    A sample of a mechanism has the rho of the mechanism, unless it is pure: the sampled Gaussian
    loses a rare, large amount, which concentrated DP counts in full; use epsilon() there.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    neighbors
        The relation that the guarantee speaks of, and the sensitivities of events outside samples.

    Returns
    -------
    float
        The least rho that is proved here.

    Raises
    ------
    InvalidParameter
        For what is no event, and a scheme that says nothing about the relation.
    UnsupportedEvent
        Where a part has a delta.

    Bound       upper, rounded up.
    Source      zcdp_price; for samples the joint quasi-convexity of Renyi divergences, and
                zcdp_from_pure of the amplified epsilon.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> rho(Gaussian(noise_multiplier=2.0) * 4)
    0.5
    >>> rho(Pure(epsilon=1.0).poisson_sampled(rate=0.1)) < rho(Pure(epsilon=1.0)) / 10
    True
    """
    event = together(events, neighbors)
    return 0.0 if event is None else float_above(rules_of(event).rho(event, neighbors))


def pure_epsilon(events: Events, *, neighbors: Neighbors = AddRemove) -> float | None:
    r"""The epsilon for which the events together are epsilon-DP, or None where they are not pure.

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
