"""The Renyi divergence of any event at any real order, and zCDP where it exists."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.accounting.amplification.relations import check_relation
from unacorda.accounting.arguments import Events, alpha_argument, joined
from unacorda.accounting.rules.base import renyi_of_event, rules_of
from unacorda.checks import Number
from unacorda.privacy.events import Pure
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.rounding import float_above

__all__ = ["renyi", "rho"]

_LEAST_ORDER = 1 + Fraction(1, 2**60)
_NOTHING = Pure(epsilon=0)


def renyi(events: Events, *, alpha: Number, neighbors: Neighbors = AddRemove) -> float:
    r"""Renyi divergence of order alpha between the events' outputs on any two neighbours.

    alpha: above 1, at most 1e100, any real number; those below 1 + 2^-60 are read as that, which
    has the larger divergence. No events cost nothing. Sums over a composition; each part by the
    least of what is known: closed forms, the certified integral (Gaussian on a Poisson sample),
    sums over whole orders, bounds at large orders.
    Raises UnsupportedEvent where a part has a delta, InvalidParameter for a scheme that says
    nothing about the relation.

    Bound       upper, rounded up.
    Source      those of accounting/divergences; Mironov 2017, Prop. 1 (composition).

    >>> from unacorda.privacy.events import Gaussian
    >>> renyi(Gaussian(noise_multiplier=2.0) * 4, alpha=8)
    4.0
    >>> round(renyi(Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01), alpha=8), 6)
    0.000894
    """
    order = max(alpha_argument(alpha), _LEAST_ORDER)
    event = joined(events)
    check_relation(_NOTHING if event is None else event, neighbors)
    return 0.0 if event is None else float_above(renyi_of_event(event, order, neighbors))


def rho(events: Events, *, neighbors: Neighbors = AddRemove) -> float:
    r"""The rho for which the events together are rho-zCDP.

    A sample of a mechanism has the rho of the mechanism, unless it is pure: the sampled Gaussian
    loses a rare, large amount, which concentrated DP counts in full; use epsilon() there.
    Raises UnsupportedEvent where a part has a delta.

    Bound       upper, rounded up.
    Source      zcdp_price; for samples the joint quasi-convexity of Renyi divergences, and
                zcdp_from_pure of the amplified epsilon.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> rho(Gaussian(noise_multiplier=2.0) * 4)
    0.5
    >>> rho(Pure(epsilon=1.0).poisson_sampled(rate=0.1)) < rho(Pure(epsilon=1.0)) / 10
    True
    """
    event = joined(events)
    check_relation(_NOTHING if event is None else event, neighbors)
    return 0.0 if event is None else float_above(rules_of(event).rho(event, neighbors))
