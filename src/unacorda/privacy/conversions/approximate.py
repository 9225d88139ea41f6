"""Between (epsilon, delta) and the concentrated kinds: pure, zCDP and Gaussian DP.

A kind's own delta0 (approximate zCDP, approximate GDP) is the mass of a part of which nothing is
claimed. With P = (1 - delta0) P' + delta0 P'' and Q likewise, delta' of the pair (P', Q') gives
delta = delta0 + (1 - delta0) delta': see `delta_of_mixture` and its inverse.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from unacorda.balls import BITS, ball, float_down, float_up, normal_cdf, precision
from unacorda.numerics import bisect, boundary, golden_section, near
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, share
from unacorda.privacy.conversions.renyi import (
    approx_dp_delta_from_renyi,
    approx_dp_from_renyi,
    log_least,
    renyi_from_approx_dp,
)

# The order of Renyi divergence by which zCDP says most about one (epsilon, delta).
#
# rho-zCDP is Renyi DP (alpha, rho alpha) at every order alpha above 1, and the optimal conversion
# of any one of them holds. The order is searched in floats: it decides how close a bound is, never
# whether it holds.

GAINS: Final = 1e-4
"""Below such a delta the closed form is at most 0.2 % worse in rho, from epsilon = 0.1 on."""

_ROUNDS: Final = 3
_NARROW: Final = 1e-7


def best_rho(epsilon: Real, delta: Real) -> float:
    """A rho, rounded down, for which rho-zCDP implies (epsilon, delta)-DP; about the largest."""
    alpha = _order(float(epsilon), math.log(float(delta)))
    return float_down(ball(renyi_from_approx_dp(epsilon, delta=delta, alpha=alpha)) / ball(alpha))


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

    return 1 + math.exp(golden_section(lambda at: -rho(at), -9.0, 12.0, rounds=31))


_LEAST = 5e-324

_ENOUGH: Final = 100
"""Binary digits of a difference that are certain."""

_MOST_BITS: Final = 1 << 14
"""At this precision the bound at hand is returned; no float needs more."""


def delta_of_mixture(delta: Real, *, part: Real) -> Fraction:
    r"""Delta of a pair of which a part of mass delta0 = `part` is unknown and the rest has `delta`.

    Statement   delta0 + (1 - delta0) delta, at the same epsilon.
    Bound       upper, exact.
    Edges       part = 0 -> delta;  part = 1 -> 1.
    Source      hockey-stick divergence is jointly convex; Bun and Steinke 2016, Lemma 8.8.
    """
    share(delta=delta, part=part)
    return Fraction(part) + (1 - Fraction(part)) * Fraction(delta)


def delta_of_part(delta: Real, *, part: Real) -> Fraction | None:
    r"""The delta left for the rest of the pair, when a part of mass `part` is unknown.

    Statement   (delta - delta0) / (1 - delta0).
    Bound       lower, exact.
    Edges       part > delta -> None: no delta is left;  delta = 1 -> 1.
    Source      the inverse of delta_of_mixture.
    """
    share(delta=delta, part=part)
    if part > delta:
        return None
    if delta == 1:
        return Fraction(1)
    return (Fraction(delta) - Fraction(part)) / (1 - Fraction(part))


@cached
def approx_dp_delta_from_pure(pure_epsilon: Real, *, epsilon: Real) -> float:
    r"""Delta such that pure_epsilon-DP implies (epsilon, delta)-DP for a smaller epsilon.

    Statement   delta = (e^{pure_epsilon} - e^{epsilon}) / (1 + e^{pure_epsilon}), at least 0;
                tight (binary randomised response).
    Bound       upper, rounded up.
    Edges       pure_epsilon <= epsilon -> 0.0.
    Source      Kairouz, Oh, Viswanath 2015, Thm. 3.3 with one mechanism.
    """
    non_negative(pure_epsilon=pure_epsilon, epsilon=epsilon)
    if pure_epsilon <= epsilon:
        return 0.0
    gap = ball(Fraction(pure_epsilon) - Fraction(epsilon))
    return min(1.0, float_up(-(-gap).expm1() / (1 + (-ball(pure_epsilon)).exp())))


@cached
def pure_from_approx_dp(epsilon: Real, *, delta: Real) -> float:
    r"""The largest epsilon' for which epsilon'-DP implies (epsilon, delta)-DP.

    Statement   log((e^epsilon + delta) / (1 - delta)).
    Bound       lower, rounded down.
    Edges       delta = 1 -> inf;  delta = 0 -> epsilon, rounded down.
    Source      the inverse of approx_dp_delta_from_pure.
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    if delta == 1:
        return math.inf
    x, d = ball(epsilon), ball(delta)
    return float_down(x + (d * (-x).exp()).log1p() - (-d).log1p())


# --------------------------------------------------------------------------------------- zCDP


@cached
def approx_dp_from_zcdp(rho: Real, *, delta: Real) -> float:
    r"""Epsilon such that rho-zCDP implies (epsilon, delta)-DP.

    Statement   epsilon = inf over alpha > 1 of
                rho alpha + log(1/(alpha delta)) / (alpha - 1) + log(1 - 1/alpha), at least 0; for
                delta of 1e-4 and more the inf of approx_dp_from_renyi(rho alpha), which is less.
    Bound       upper, rounded up: every alpha gives a valid bound, the best is searched.
    Edges       rho = 0 or delta = 1 -> 0.0;  delta = 0 with rho > 0 -> inf.
    Source      Canonne, Kamath, Steinke 2020, arXiv:2004.00010v4, Prop. 12; Asoodeh et al. 2020,
                Theorem 3.

    >>> round(approx_dp_from_zcdp(0.5, delta=1e-6), 3)  # the simpler formula gives 5.757
    5.222
    """
    non_negative(rho=rho)
    share(delta=delta)
    if rho == 0 or delta == 1:
        return 0.0
    if delta == 0:
        return math.inf
    tail = -ball(delta).log()
    # The derivative vanishes where rho b^2 + log(1 + b) = log(1/delta), b = alpha - 1.
    r, t = float(rho), float(tail)
    b = ball(_increasing_root(lambda b: r * b * b + math.log1p(b) - t))
    closed = max(0.0, float_up(ball(rho) * (1 + b) + (tail - b.log1p()) / b - (1 / b).log1p()))
    return closed if delta < GAINS else best_epsilon(rho, delta=delta, closed=closed)


@cached
def approx_dp_delta_from_zcdp(rho: Real, *, epsilon: Real) -> float:
    r"""Delta such that rho-zCDP implies (epsilon, delta)-DP.

    Statement   delta = inf over alpha > 1 of
                e^{(alpha-1)(alpha rho - epsilon)} / alpha (1 - 1/alpha)^{alpha-1}, at most 1; from
                1e-4 on the inf of approx_dp_delta_from_renyi(rho alpha), which is less.
    Bound       upper, rounded up: every alpha gives a valid bound, the best is searched.
    Edges       rho = 0 -> 0.0.
    Source      as approx_dp_from_zcdp.
    """
    non_negative(rho=rho, epsilon=epsilon)
    if rho == 0:
        return 0.0
    closed = _delta_from_zcdp(rho, epsilon)
    if closed < GAINS:
        return closed
    # Never below what a smaller delta gets, so that delta falls as epsilon rises.
    return max(best_delta(rho, epsilon=epsilon, closed=closed), GAINS)


@cached
def zcdp_from_approx_dp(epsilon: Real, *, delta: Real) -> float:
    r"""The largest rho for which rho-zCDP implies (epsilon, delta)-DP.

    Statement   the root of approx_dp_delta_from_zcdp(rho, epsilon) = delta; a classic and smaller
                answer is (sqrt(L + epsilon) - sqrt(L))^2 with L = log(1/delta).
    Bound       lower, rounded down.
    Edges       delta = 0 -> 0.0;  delta = 1 -> inf.
    Source      the inverse of approx_dp_delta_from_zcdp.

    >>> round(zcdp_from_approx_dp(1.0, delta=1e-6), 6)
    0.024356
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    if delta in (0, 1):
        return math.inf if delta else 0.0
    tail = -float(ball(delta).log())
    # (sqrt(L + e) - sqrt(L))^2 without the cancellation; at epsilon = 0 about delta^2.
    start = max(
        (float(epsilon) / (math.sqrt(tail + float(epsilon)) + math.sqrt(tail))) ** 2, 1e-300
    )
    closed = _largest(lambda rho: _delta_from_zcdp(rho, epsilon), delta, start)
    if delta < GAINS:
        return closed
    found, step = best_rho(epsilon, delta), 1e-11
    while found > closed and approx_dp_delta_from_zcdp(found, epsilon=epsilon) > delta:
        found *= 1 - step  # the inverse searches its own order
        step *= 10
    return max(found, closed)


def _delta_from_zcdp(rho: Real, epsilon: Real) -> float:
    r, e = float(rho), float(epsilon)
    # The derivative vanishes where (2 b + 1) rho - epsilon + log(b / (1 + b)) = 0.
    b = ball(_increasing_root(lambda b: (2 * b + 1) * r - e - math.log1p(1 / b)))
    exponent = b * ((1 + b) * ball(rho) - ball(epsilon)) - b.log1p() - b * (1 / b).log1p()
    if exponent >= 0:
        return 1.0
    if exponent < -800:  # below the least positive float
        return _LEAST
    return min(1.0, float_up(exponent.exp()))


def _increasing_root(value: Callable[[float], float]) -> float:
    """Where an increasing function of a positive number changes sign, by bisection."""
    return math.exp(bisect(lambda at: value(math.exp(at)) > 0, -300.0, 300.0, rounds=64)[0])


# ----------------------------------------------------------------------------------- Gaussian


@cached
def approx_dp_delta_from_gdp(mu: Real, *, epsilon: Real) -> float:
    r"""Delta such that mu-GDP implies (epsilon, delta)-DP.

    Statement   delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2); exact for
                the Gaussian mechanism with noise multiplier 1/mu.
    Bound       upper, rounded up.
    Edges       mu = 0 -> 0.0;  below the least positive float -> that float.
    Source      Balle and Wang 2018, arXiv:1805.06530, Thm. 8; Dong, Roth, Su 2022, Cor. 2.13.

    >>> round(approx_dp_delta_from_gdp(1.0, epsilon=1.0), 6)
    0.126937
    """
    non_negative(mu=mu, epsilon=epsilon)
    return 0.0 if mu == 0 else _delta_from_gdp(mu, epsilon)


@cached
def approx_dp_from_gdp(mu: Real, *, delta: Real) -> float:
    r"""Epsilon such that mu-GDP implies (epsilon, delta)-DP.

    Statement   the least epsilon >= 0 with approx_dp_delta_from_gdp(mu, epsilon) <= delta.
    Bound       upper, rounded up.
    Edges       mu = 0 or delta = 1 -> 0.0;  delta = 0 with mu > 0 -> inf;  delta below the least
                float or mu > 1e154 -> r + 2 sqrt(r log(1/delta)), r = mu^2/2, which is larger.
    Source      the inverse of approx_dp_delta_from_gdp.

    >>> round(approx_dp_from_gdp(1.0, delta=1e-6), 6)
    4.886554
    """
    non_negative(mu=mu)
    share(delta=delta)
    if mu == 0 or delta == 1:
        return 0.0
    if delta == 0:
        return math.inf
    if float(delta) == 0 or mu > 1e154:
        square = ball(mu) ** 2
        return float_up(square / 2 + (-2 * square * ball(delta).log()).sqrt())
    limit = Fraction(delta)
    if _delta_from_gdp(mu, 0.0) <= limit:
        return 0.0
    rho, tail = float(mu) ** 2 / 2, -float(ball(delta).log())
    start = max(rho + 2 * math.sqrt(rho * tail), 1e-300)
    guess = near(lambda x: _delta_from_gdp(mu, x), target=math.exp(-tail), guess=start)
    return boundary(lambda x: _delta_from_gdp(mu, x) <= limit, guess=guess)[1]


@cached
def gdp_from_approx_dp(epsilon: Real, *, delta: Real) -> float:
    r"""The largest mu for which mu-GDP implies (epsilon, delta)-DP: the analytic Gaussian.

    Statement   the largest mu with approx_dp_delta_from_gdp(mu, epsilon) <= delta; the Gaussian
                mechanism then has noise l2_sensitivity / mu.
    Bound       lower, rounded down.
    Edges       delta = 0 -> 0.0;  delta = 1 -> inf.
    Source      Balle and Wang 2018, arXiv:1805.06530, Thm. 9.

    >>> round(1 / gdp_from_approx_dp(1.0, delta=1e-5), 3)
    3.731
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    if delta in (0, 1):
        return math.inf if delta else 0.0
    tail = -float(ball(delta).log())
    e = float(epsilon)
    start = max(math.sqrt(2) * e / (math.sqrt(tail + e) + math.sqrt(tail)), 1e-300)
    return _largest(lambda mu: _delta_from_gdp(mu, epsilon), delta, start)


def _delta_from_gdp(mu: Real, epsilon: Real) -> float:
    ratio = float(epsilon) / float(mu) if mu > 1e-300 else math.inf
    if epsilon > 0 and ratio - float(mu) / 2 > 45:
        return _LEAST  # Phi(-45) < 2^-1074
    if float(mu) / 2 - ratio > 45:
        return 1.0  # both terms lie within 2^-1000 of 1 and of 0
    bits = BITS
    while True:  # the difference is far smaller than its terms if epsilon is small
        with precision(bits):
            m, e = ball(mu), ball(epsilon)
            difference = normal_cdf(m / 2 - e / m) - e.exp() * normal_cdf(-e / m - m / 2)
            if difference.rel_accuracy_bits() > _ENOUGH or bits > _MOST_BITS:
                return min(1.0, float_up(difference))
        bits *= 2


def _largest(value: Callable[[float], float], delta: Real, start: float) -> float:
    """The largest float at which an increasing, certified delta does not exceed the limit."""
    limit = Fraction(delta)
    target = math.exp(float(ball(delta).log()))
    guess = near(value, target=max(target, _LEAST), guess=start)
    return boundary(lambda x: value(x) > limit, guess=guess)[0]
