"""What can be aimed at, and how an event is measured against it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import TypeAlias

from tacet.accounting import prices
from tacet.checks import Number, exact
from tacet.errors import InvalidParameter
from tacet.privacy.additive import share
from tacet.privacy.enclosure import float_down, mpf
from tacet.privacy.events import Event
from tacet.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from tacet.privacy.neighbors import Neighbors

__all__ = ["Advantage", "Cost", "Measure", "Target", "TruePositiveRate", "measure"]

Cost: TypeAlias = float | Fraction
Measure: TypeAlias = tuple[Callable[[Event], Cost], Fraction]
"""A certified upper bound of what an event costs, and the most that it may cost."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """No test may guess membership with a larger advantage (true minus false positive rate).

    at_most: from 0 to 1; half of 1 + at_most is the best accuracy on even odds.
    """

    at_most: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_most", share("at_most", self.at_most))


@dataclass(frozen=True, slots=True, kw_only=True)
class TruePositiveRate:
    """No test with false-positive rate `fpr` may find a larger share of the members.

    at_most, fpr: from 0 to 1, fpr at most at_most: guessing blindly finds as many.
    """

    at_most: Number
    fpr: Number

    def __post_init__(self) -> None:
        at_most, fpr = share("at_most", self.at_most), share("fpr", self.fpr)
        if fpr > at_most:
            expected = f"at least fpr={self.fpr}, which blind guessing reaches"
            raise InvalidParameter("at_most", self.at_most, expected=expected)
        object.__setattr__(self, "at_most", at_most)
        object.__setattr__(self, "fpr", fpr)


Target: TypeAlias = Guarantee | Advantage | TruePositiveRate


def measure(target: object, *, neighbors: Neighbors) -> Measure:
    """How an event is measured against a target.

    ApproxDP by epsilon at its delta (by delta, where its epsilon is 0), PureDP by epsilon, ZCDP by
    rho, GDP by mu squared, RenyiDP by the divergence at its order, Advantage by delta at epsilon
    0, TruePositiveRate by the trade-off curve. An event that spends more delta of its own than a
    ZCDP or GDP target has costs inf.
    Raises InvalidParameter for what is no target.
    """
    match target:
        case ApproxDP(epsilon, delta) if epsilon > 0:
            return lambda event: _cost(
                _accountant().epsilon(event, delta=_down(delta), neighbors=neighbors)
            ), epsilon
        case ApproxDP(_, delta):
            return lambda event: _delta_at_zero(event, neighbors), delta
        case Advantage(at_most):
            return lambda event: _delta_at_zero(event, neighbors), exact("at_most", at_most)
        case TruePositiveRate(at_most=at_most, fpr=fpr):
            rate = exact("fpr", fpr)
            return lambda event: _cost(
                _accountant().tradeoff(event, neighbors=neighbors).true_positive_rate(fpr=rate)
            ), exact("at_most", at_most)
        case PureDP(epsilon):
            return lambda event: prices.pure_price(event).epsilon, epsilon
        case ZCDP(rho):
            return lambda event: _beside_delta(prices.zcdp_price(event), target), rho
        case GDP(mu_squared):
            return lambda event: _beside_delta(prices.gdp_price(event), target), mu_squared
        case RenyiDP(alpha, epsilon):
            return lambda event: _cost(
                _accountant().renyi(event, alpha=_up(alpha), neighbors=neighbors)
            ), epsilon
        case _:
            expected = (
                "a guarantee, Advantage(...) or TruePositiveRate(...); a number only with price="
            )
            raise InvalidParameter("target", target, expected=expected)


def _beside_delta(price: ZCDP | GDP, target: ZCDP | GDP) -> Cost:
    return price.additive[0] if price.delta <= target.delta else math.inf


def _delta_at_zero(event: Event, neighbors: Neighbors) -> Cost:
    return _cost(_accountant().delta(event, epsilon=0.0, neighbors=neighbors))


def _cost(value: float) -> Cost:
    """The accountant's answer as a plain float, which it holds exactly."""
    return float(value)


def _down(delta: Fraction) -> float:
    """The greatest float that is not above: a smaller delta is the harder target."""
    return float_down(mpf(delta))


def _up(alpha: Fraction) -> float:
    """The least float that is not below: the divergence grows with its order."""
    nearest = float(alpha)
    return nearest if Fraction(nearest) >= alpha else math.nextafter(nearest, math.inf)


def _accountant() -> ModuleType:
    """The accountant, which is loaded with its engines when it is first needed."""
    return importlib.import_module("tacet.accounting.accountant")
