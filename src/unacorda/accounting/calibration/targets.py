"""What can be aimed at, and how an event is measured against it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import TypeAlias

from unacorda.accounting import prices
from unacorda.accounting.prices import pure_epsilon, renyi, rho
from unacorda.accounting.rules.base import units_replaced
from unacorda.checks import Number, exact
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.conversions import gdp_from_pure
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP, share
from unacorda.privacy.neighbors import Neighbors
from unacorda.privacy.tradeoff import TradeoffCurve

Cost: TypeAlias = float | Fraction
Measure: TypeAlias = tuple[Callable[[Event], Cost], Fraction]
"""A certified upper bound of what an event costs, and the most that it may cost."""

_STEEPEST = 700.0
"""e to this power is still a float."""


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

    ApproxDP by epsilon at its delta (by delta, where its epsilon is 0; as PureDP, where its delta
    is 0), PureDP by epsilon, ZCDP by rho, GDP by mu squared (of samples, by that of their pure
    epsilon), RenyiDP by the divergence at its order, Advantage by delta at epsilon 0,
    TruePositiveRate by the trade-off curve. An event that spends more delta of its own than a ZCDP
    or GDP target has costs inf.
    Raises InvalidParameter for what is no target.
    """
    match target:
        case ApproxDP(epsilon, delta) if delta == 0:
            return partial(_pure, neighbors=neighbors), epsilon
        case ApproxDP(epsilon, delta) if epsilon > 0:
            return lambda event: _cost(
                _accountant().epsilon(event, delta=delta, neighbors=neighbors)
            ), epsilon
        case ApproxDP(_, delta):
            return lambda event: _delta_at_zero(event, neighbors), delta
        case Advantage(at_most):
            return lambda event: _delta_at_zero(event, neighbors), exact("at_most", at_most)
        case TruePositiveRate(at_most=at_most):
            return partial(_true_positive_rate, target=target, neighbors=neighbors), exact(
                "at_most", at_most
            )
        case PureDP(epsilon):
            return partial(_pure, neighbors=neighbors), epsilon
        case ZCDP(most):
            return partial(_concentrated, target=target, neighbors=neighbors), most
        case GDP(mu_squared):
            return partial(_gaussian, target=target, neighbors=neighbors), mu_squared
        case RenyiDP(alpha, epsilon):
            return lambda event: renyi(event, alpha=alpha, neighbors=neighbors), epsilon
        case _:
            expected = (
                "a guarantee, Advantage(...) or TruePositiveRate(...); a number only with price="
            )
            raise InvalidParameter("target", target, expected=expected)


def _pure(event: Event, neighbors: Neighbors) -> Cost:
    try:
        return prices.pure_price(event).epsilon  # exact
    except UnsupportedEvent:
        epsilon = pure_epsilon(event, neighbors=neighbors)  # also of samples
        if epsilon is None:
            raise
        return epsilon


def _concentrated(event: Event, target: ZCDP, neighbors: Neighbors) -> Cost:
    try:
        price = prices.zcdp_price(units_replaced(event, neighbors))  # exact where rational
    except UnsupportedEvent:
        return rho(event, neighbors=neighbors)  # also of samples
    return _beside_delta(price, target)


def _gaussian(event: Event, target: GDP, neighbors: Neighbors) -> Cost:
    try:
        price = prices.gdp_price(units_replaced(event, neighbors))
    except UnsupportedEvent:
        epsilon = pure_epsilon(event, neighbors=neighbors)  # of samples
        if epsilon is None:
            raise
        return Fraction(gdp_from_pure(epsilon)) ** 2
    return _beside_delta(price, target)


def _beside_delta(price: ZCDP | GDP, target: ZCDP | GDP) -> Cost:
    return price.additive[0] if price.delta <= target.delta else math.inf


def _delta_at_zero(event: Event, neighbors: Neighbors) -> Cost:
    return _cost(_accountant().delta(event, epsilon=0.0, neighbors=neighbors))


def _cost(value: float) -> Cost:
    """The accountant's answer as a plain float, which it holds exactly."""
    return float(value)


def _true_positive_rate(event: Event, target: TruePositiveRate, neighbors: Neighbors) -> Cost:
    """The share of members that a test with the target's false-positive rate can find, at most.

    Every point of the privacy profile bounds the share by a line; the least bound is convex in
    the slope e^epsilon, and slopes outside the range searched can not meet the target.
    """
    accountant, fpr = _accountant(), exact("fpr", target.fpr)
    curve: TradeoffCurve = accountant.tradeoff(event, neighbors=neighbors, points=2)
    if curve.mu_squared is not None:  # exact
        return curve.true_positive_rate(fpr=fpr)
    rate, share = float(fpr), float(exact("at_most", target.at_most))
    pure = pure_epsilon(event, neighbors=neighbors)
    points: list[tuple[float, float]] = [] if pure is None else [(pure, 0.0)]

    def bound(log_slope: float) -> float:
        epsilon = abs(log_slope)
        delta = accountant.delta(event, epsilon=Fraction(epsilon), neighbors=neighbors)
        points.append((epsilon, delta))
        if log_slope >= 0:
            return float(math.exp(epsilon) * rate + delta)
        return float(1 - math.exp(-epsilon) * (1 - delta - rate))

    low = math.log((1 - share) / (1 - rate)) if share < 1 else -_STEEPEST
    high = math.log(share / rate) if rate > 0 else _STEEPEST
    _descend(bound, max(low, -_STEEPEST), min(high, _STEEPEST))
    return TradeoffCurve.of_profile(points).true_positive_rate(fpr=fpr)


def _descend(value: Callable[[float], float], low: float, high: float) -> None:
    """Evaluate a unimodal function at about 25 places that close in on its least value."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(24):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)


def _accountant() -> ModuleType:
    """The accountant, which is loaded with its engines when it is first needed."""
    return importlib.import_module("unacorda.accounting.accountant")
