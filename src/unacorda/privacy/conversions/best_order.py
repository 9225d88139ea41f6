"""The order of Renyi divergence by which zCDP says most about one (epsilon, delta).

rho-zCDP is Renyi DP (alpha, rho alpha) at every order alpha above 1, and the optimal conversion of
any one of them holds. The order is searched in floats: it decides how close a bound is, never
whether it holds.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from unacorda.privacy.conversions.arguments import Real
from unacorda.privacy.conversions.renyi_tails import (
    approx_dp_delta_from_renyi,
    approx_dp_from_renyi,
    log_least,
    renyi_from_approx_dp,
)
from unacorda.privacy.enclosure import float_down, mpf

__all__ = ["GAINS", "best_delta", "best_epsilon", "best_rho"]

GAINS: Final = 1e-4
"""Below such a delta the closed form is at most 0.2 % worse in rho, from epsilon = 0.1 on."""

_ROUNDS: Final = 3
_NARROW: Final = 1e-7
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


def best_rho(epsilon: Real, delta: Real) -> float:
    """A rho, rounded down, for which rho-zCDP implies (epsilon, delta)-DP; about the largest."""
    alpha = _order(float(epsilon), math.log(float(delta)))
    return float_down(mpf(renyi_from_approx_dp(epsilon, delta=delta, alpha=alpha)) / mpf(alpha))


def best_epsilon(rho: Real, *, delta: Real, closed: float) -> float:
    """About the least epsilon that rho-zCDP implies; closed: one that it does imply."""
    found = closed
    for _ in range(_ROUNDS):
        alpha = _order(found, math.log(float(delta)))
        spent = Fraction(rho) * Fraction(alpha)
        better = approx_dp_from_renyi(spent, alpha=alpha, delta=delta)
        if better >= found * (1 - _NARROW):
            return min(better, found)
        found = better
    return found


def best_delta(rho: Real, *, epsilon: Real, closed: float) -> float:
    """About the least delta that rho-zCDP implies; closed: one that it does imply."""
    found = closed
    for _ in range(_ROUNDS):
        alpha = _order(float(epsilon), math.log(found))
        spent = Fraction(rho) * Fraction(alpha)
        better = approx_dp_delta_from_renyi(spent, alpha=alpha, epsilon=epsilon)
        if better >= found * (1 - _NARROW):
            return min(better, found)
        found = better
    return found


def _order(epsilon: float, log_delta: float) -> float:
    """About the order at which the largest divergence that keeps both allows the largest rho."""

    def rho(log_rest: float) -> float:
        rest = math.exp(log_rest)
        return (epsilon + log_least(epsilon, log_delta, 1 + rest) / rest) / (1 + rest)

    low, high = -9.0, 12.0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = rho(left), rho(right)
    while high - low > 1e-5:
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = rho(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = rho(right)
    return 1 + math.exp((low + high) / 2)
