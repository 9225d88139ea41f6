"""From Renyi divergences to (epsilon, delta): the best order, and masses of which nothing is known.

An event with a delta of its own is a pair of which a mass is unknown and the rest is an event
without a delta. Sampling at rate q leaves q times the mass: with P = (1-m) P' + m T and
Q = (1-m) Q' + m B, T and B apart, the mixture q P + (1-q) Q is (1 - q m) A + q m T and Q is
(1 - q m) C + q m B, where (A, C) is the sampled pair (q P' + (1-q) Q', Q') or, independently of the
data, (B, B): joint quasi-convexity bounds its divergence by that of the sampled pair.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from unacorda.accounting.prices import renyi
from unacorda.accounting.rules.base import without_mass
from unacorda.privacy import conversions
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import Neighbors
from unacorda.privacy.rounding import float_above

_COARSE = [2.0**k for k in range(-5, 15)]
_FINE = 14


def epsilon_from_renyi(event: Event, *, delta: Fraction, neighbors: Neighbors) -> float:
    r"""Epsilon, at `delta`, of an event by way of its Renyi divergences.

    Statement   min over some orders a of approx_dp_from_renyi(D_a), at the delta that is left
                next to the event's own mass; inf where none is left.
    Bound       upper, rounded up: every order gives a valid bound, the best is searched.
    Source      Asoodeh et al. 2020, Theorem 3; the module's text for masses.
    """
    mass, rest = without_mass(event, neighbors)
    left = conversions.delta_of_part(delta, part=min(mass, Fraction(1)))
    if not left:
        return math.inf

    def spent(alpha: Fraction) -> float:
        return renyi(rest, alpha=alpha, neighbors=neighbors)

    found = _best(
        lambda alpha: conversions.approx_dp_from_renyi_closed(spent(alpha), alpha=alpha, delta=left)
    )
    return min(
        conversions.approx_dp_from_renyi(spent(alpha), alpha=alpha, delta=left)
        for alpha in _near(found)
    )


def delta_from_renyi(event: Event, *, epsilon: Fraction, neighbors: Neighbors) -> float:
    r"""Delta, at `epsilon`, of an event by way of its Renyi divergences.

    Statement   min over some orders a of approx_dp_delta_from_renyi(D_a), and the event's own mass.
    Bound       upper, rounded up.
    Source      as epsilon_from_renyi.
    """
    mass, rest = without_mass(event, neighbors)

    def spent(alpha: Fraction) -> float:
        return renyi(rest, alpha=alpha, neighbors=neighbors)

    found = _best(
        lambda alpha: conversions.approx_dp_delta_from_renyi_closed(
            spent(alpha), alpha=alpha, epsilon=epsilon
        )
    )
    least = min(
        conversions.approx_dp_delta_from_renyi(spent(alpha), alpha=alpha, epsilon=epsilon)
        for alpha in _near(found)
    )
    total = conversions.delta_of_mixture(min(least, 1.0), part=min(mass, Fraction(1)))
    return float_above(total)


def _near(found: dict[float, float]) -> list[Fraction]:
    """The best order of the closed form, and orders about it: the optimal form's lie lower."""
    best = min(found, key=lambda b: found[b])
    return [1 + Fraction(_order(math.log(best * share))) for share in (0.5, 0.7, 0.85, 1.0, 1.1)]


def _best(value: Callable[[Fraction], float]) -> dict[float, float]:
    """Values at orders 1 + b, by a coarse grid of b and a golden section around its best."""
    found: dict[float, float] = {}

    def at(b: float) -> float:
        if b not in found:
            found[b] = value(1 + Fraction(b))
        return found[b]

    best = 0
    for place, b in enumerate(_COARSE):
        if at(b) < at(_COARSE[best]):
            best = place
        elif place > best + 3 and math.isfinite(at(_COARSE[best])):
            break
    low = math.log(_COARSE[max(best - 1, 0)])
    high = math.log(_COARSE[min(best + 1, len(_COARSE) - 1)])
    ratio = (math.sqrt(5) - 1) / 2
    inner, outer = high - ratio * (high - low), low + ratio * (high - low)
    for _ in range(_FINE):
        if at(_order(inner)) <= at(_order(outer)):
            high, outer = outer, inner
            inner = high - ratio * (high - low)
        else:
            low, inner = inner, outer
            outer = low + ratio * (high - low)
    return found


def _order(logarithm: float) -> float:
    """A float with few digits: exact arithmetic on orders stays short."""
    b = math.exp(logarithm)
    digits = 2.0 ** (math.frexp(b)[1] - 20)
    return round(b / digits) * digits
