"""Into and out of Renyi DP of one order."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

from unacorda.balls import Ball, ball, float_down, float_up, greatest
from unacorda.numerics import bisect, boundary, near
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, order, share

# From one Renyi divergence to (epsilon, delta): the optimal conversion, and a quick closed one.
#
# Let an event A break (epsilon, delta): p - e^epsilon q > delta, p = P(A), q = Q(A). Telling A from
# its complement is post-processing, so the coins p and q are within the divergence too. The worst
# delta is therefore the largest p - e^epsilon q of two coins whose divergence of order alpha is at
# most the given one, and coins are themselves distributions: the conversion can not be improved.


@cached
def approx_dp_from_renyi(epsilon: Real, *, alpha: Real, delta: Real) -> float:
    r"""Epsilon such that Renyi DP (alpha, epsilon) implies (result, delta)-DP; none is smaller.

    Statement   the least x >= 0 with x + log(min over p of g(p)) / (alpha - 1) >= epsilon,
                g(p) = p^alpha (p - delta)^{1-alpha} + (1-p)^alpha (e^x - p + delta)^{1-alpha}.
                Without the second term it is approx_dp_from_renyi_closed, the classic.
    Bound       upper, rounded up; g is convex, and its least value bounded by two tangents.
    Edges       delta = 1 -> 0.0;  delta = 0 -> inf, unless epsilon = 0 -> 0.0;  delta below the
                least float -> the closed form.
    Source      Asoodeh, Liao, Calmon, Kosut, Sankar 2020, Theorem 3; the module's text proves it.

    >>> round(approx_dp_from_renyi(0.1, alpha=4, delta=0.01), 4)  # the closed form gives 0.8853
    0.5273
    """
    closed = approx_dp_from_renyi_closed(epsilon, alpha=alpha, delta=delta)
    if closed in (0.0, math.inf) or float(delta) == 0:
        return closed
    spent, part, a = Fraction(epsilon), Fraction(delta), Fraction(alpha)
    if _keeps(0.0, spent, part, a):
        return 0.0
    log_delta, height, order_near = math.log(part), float(spent), _about(a)

    def about(place: float) -> bool:
        return place + log_least(place, log_delta, order_near) / (order_near - 1) >= height

    guess = bisect(about, 0.0, closed, rounds=55)[1]
    found = boundary(lambda x: _keeps(x, spent, part, a), guess=max(guess, 1e-300))[1]
    return min(found, closed)


@cached
def approx_dp_delta_from_renyi(renyi_epsilon: Real, *, alpha: Real, epsilon: Real) -> float:
    r"""Delta such that Renyi DP (alpha, renyi_epsilon) implies (epsilon, delta)-DP; none is less.

    Statement   the inverse, in delta, of approx_dp_from_renyi.
    Bound       upper, rounded up.
    Edges       renyi_epsilon = 0 -> 0.0.
    Source      as approx_dp_from_renyi.
    """
    closed = approx_dp_delta_from_renyi_closed(renyi_epsilon, alpha=alpha, epsilon=epsilon)
    if closed < 1e-290:
        return closed
    spent, at, a = Fraction(renyi_epsilon), Fraction(epsilon), Fraction(alpha)
    height, place, order_near = float(spent), float(at), _about(a)

    def about(log_delta: float) -> bool:
        return place + log_least(place, log_delta, order_near) / (order_near - 1) >= height

    guess = bisect(about, -700.0, math.log(closed), rounds=60)[1]
    found = boundary(
        lambda x: x >= closed or _keeps(at, spent, Fraction(x), a), guess=math.exp(guess)
    )[1]
    return min(found, closed)


@cached
def renyi_from_approx_dp(epsilon: Real, *, delta: Real, alpha: Real) -> float:
    r"""The largest divergence r for which Renyi DP (alpha, r) implies (epsilon, delta)-DP.

    Statement   epsilon + log(min over p of g(p)) / (alpha - 1), g as in approx_dp_from_renyi.
    Bound       lower, rounded down.
    Edges       delta = 0 -> 0.0;  delta = 1 -> inf;  delta below the least float -> the inverse
                of the closed form.
    Source      Asoodeh et al. 2020, Theorem 3.

    >>> round(renyi_from_approx_dp(0.5274, delta=0.01, alpha=4), 4)
    0.1
    """
    non_negative(epsilon=epsilon, delta=delta)
    share(delta=delta)
    order(alpha)
    if delta in (0, 1):
        return math.inf if delta else 0.0
    part, a = Fraction(delta), Fraction(alpha)
    closed = float_down(ball(epsilon) - _closed_rise(part, a))
    least = None if float(part) == 0 else _least(Fraction(epsilon), part, a)
    if least is None:
        return closed
    return max(closed, float_down(ball(epsilon) + least.log() / ball(a - 1)))


@cached
def approx_dp_from_renyi_closed(epsilon: Real, *, alpha: Real, delta: Real) -> float:
    r"""As approx_dp_from_renyi, by a formula: little larger where delta is small, and quick.

    Statement   epsilon + log(1/(alpha delta)) / (alpha - 1) + log(1 - 1/alpha), at least 0.
    Bound       upper, rounded up.
    Edges       delta = 1 -> 0.0;  delta = 0 -> inf, unless epsilon = 0 -> 0.0.
    Source      Canonne, Kamath, Steinke 2020, arXiv:2004.00010v4, Prop. 12.
    """
    non_negative(epsilon=epsilon, delta=delta)
    share(delta=delta)
    order(alpha)
    if epsilon == 0 or delta == 1:
        return 0.0
    if delta == 0:
        return math.inf
    return max(0.0, float_up(ball(epsilon) + _closed_rise(delta, Fraction(alpha))))


@cached
def approx_dp_delta_from_renyi_closed(renyi_epsilon: Real, *, alpha: Real, epsilon: Real) -> float:
    r"""As approx_dp_delta_from_renyi, by a formula: little larger where delta is small.

    Statement   e^{(alpha-1)(renyi_epsilon - epsilon)} / alpha (1 - 1/alpha)^{alpha-1}, at most 1.
    Bound       upper, rounded up.
    Edges       renyi_epsilon = 0 -> 0.0.
    Source      Canonne, Kamath, Steinke 2020, arXiv:2004.00010v4, Prop. 12.
    """
    non_negative(renyi_epsilon=renyi_epsilon, epsilon=epsilon)
    order(alpha)
    if renyi_epsilon == 0:
        return 0.0
    a, b = ball(alpha), ball(Fraction(alpha) - 1)
    gap = ball(Fraction(renyi_epsilon) - Fraction(epsilon))
    return min(1.0, float_up((b * gap - a.log() - b * (1 / b).log1p()).exp()))


def _closed_rise(delta: Real, alpha: Fraction) -> Ball:
    """What the closed form adds to the divergence."""
    a, b = ball(alpha), ball(alpha - 1)
    return -(1 / b).log1p() - (a * ball(delta)).log() / b


def _slope_sign(x: float, log_delta: float, log_bound: float, alpha: float) -> float:
    """The sign of g' at p = x + delta, in floats; log_bound: ln(e^epsilon - x) is near it."""
    ratio = math.exp(min(log_delta - math.log(x), 700.0))  # delta / x = u - 1
    log_u = math.log1p(ratio)
    rest = 1.0 - x - math.exp(log_delta)
    rising = (1 - (alpha - 1) * ratio) * math.exp(min((alpha - 1) * log_u, 700.0))
    if rest <= 0:
        return rising
    log_v = math.log(rest) - log_bound
    v = math.exp(log_v)
    return rising - math.exp((alpha - 1) * log_v) * (alpha - (alpha - 1) * v)


def _about(alpha: Fraction) -> float:
    """The order as a float, for guesses: above 1."""
    return max(float(alpha), math.nextafter(1.0, 2.0))


def _log_bound(epsilon: float, x: float) -> float:
    """ln(e^epsilon - x)."""
    if epsilon > 30:
        return epsilon + math.log1p(-x * math.exp(-epsilon))
    return math.log(max(math.expm1(epsilon) + (1 - x), 1e-300))


def _place(epsilon: float, log_delta: float, alpha: float) -> float:
    """About the x = p - delta at which g is least, in floats; its range is open."""
    delta = math.exp(log_delta)
    low, high = math.log(alpha - 1) + log_delta, math.log1p(-delta) if delta < 1 else -700.0
    if low >= high:
        return math.exp(high)

    def rising(log_x: float) -> bool:
        x = math.exp(log_x)
        return _slope_sign(x, log_delta, _log_bound(epsilon, x), alpha) >= 0

    return math.exp(sum(bisect(rising, low, high, rounds=55)) / 2)


def log_least(epsilon: float, log_delta: float, alpha: float) -> float:
    """About ln min g, in floats."""
    x = _place(epsilon, log_delta, alpha)
    delta = math.exp(log_delta)
    ratio = math.exp(min(log_delta - math.log(x), 700.0))
    first = math.log(x) + alpha * math.log1p(ratio)
    rest = 1.0 - x - delta
    if rest <= 0:
        return first
    second = alpha * math.log(rest) - (alpha - 1) * _log_bound(epsilon, x)
    larger, smaller = max(first, second), min(first, second)
    if abs(larger) < 1 and epsilon < 1e-3:  # g is near 1: its distance from 1 counts
        return math.log(math.exp(first) + math.exp(second))
    return larger + math.log1p(math.exp(smaller - larger))


def _keeps(epsilon: Real, spent: Fraction, delta: Fraction, alpha: Fraction) -> bool:
    """Whether every pair within `spent` is (epsilon, delta) apart: proved, or False."""
    least = _least(Fraction(epsilon), delta, alpha)
    log_needed = ball(alpha - 1) * ball(spent - Fraction(epsilon))
    return least is not None and bool(least >= log_needed.exp())


def _least(epsilon: Fraction, delta: Fraction, alpha: Fraction) -> Ball | None:
    """Not above the least value of g, by two tangents; None where they could not be placed."""
    a, b, d, bound = ball(alpha), ball(alpha - 1), ball(delta), ball(epsilon).exp()
    top = ball(1 - delta)

    def tangent(x: Ball) -> tuple[Ball, Ball]:
        u, v = 1 + d / x, (top - x) / (bound - x)
        high, low = u**b, v**b if v > 0 else ball(0)
        value = x * u * high + (bound - x) * v * low
        return value, high * (a - b * u) - low * (a - b * v)

    if alpha * delta >= 1:  # g falls to its end
        return tangent(top)[0]

    def placed(order_near: float) -> Ball | None:
        guess = ball(_place(float(epsilon), math.log(delta), order_near))
        for width in (1e-9, 1e-6, 1e-3, 0.3):
            left, right = guess * (1 - width), guess * (1 + width)
            if not 0 < left < top:
                left = top * (1 - width)
            right = min(top, right)
            (low, fall), (high, rise) = tangent(left), tangent(right)
            if fall <= 0 <= rise and fall < rise:
                meeting = (high - low + fall * left - rise * right) / (fall - rise)
                return low + fall * (meeting - left)
        return None

    # Near order 1 floats have few digits left, and the place may all but not depend on the order.
    near = _about(alpha)
    found = [one for one in map(placed, {near, max(near, 1 + 1e-8)}) if one is not None]
    return greatest(found) if found else None


@cached
def renyi_from_pure(epsilon: Real, *, alpha: Real) -> float:
    r"""Renyi divergence of order alpha that epsilon-DP implies.

    Statement   log((e^{alpha epsilon} + e^{(1-alpha) epsilon}) / (1 + e^epsilon)) / (alpha - 1),
                at most epsilon; tight (binary randomised response).
    Bound       upper, rounded up.
    Edges       epsilon = 0 -> 0.0.
    Source      Bun and Steinke 2016, Prop. 3.3 (the proof's extreme pair); Steinke 2022.

    >>> round(renyi_from_pure(1.0, alpha=2), 6)
    0.735326
    """
    non_negative(epsilon=epsilon)
    order(alpha)
    return _renyi_from_pure(epsilon, alpha)


def _renyi_from_pure(epsilon: Real, alpha: Real) -> float:
    x, b = ball(epsilon), ball(Fraction(alpha) - 1)
    tail, head = (-(1 + 2 * b) * x).exp().log1p(), (-x).exp().log1p()
    return min(max(0.0, float_up(x + (tail - head) / b)), float_up(x))


@cached
def renyi_from_laplace(epsilon: Real, *, alpha: Real) -> float:
    r"""Renyi divergence of order alpha of the Laplace mechanism with scale sensitivity/epsilon.

    Statement   log(a/(2a-1) e^{(a-1) epsilon} + (a-1)/(2a-1) e^{-a epsilon}) / (a - 1); for a
                vector the same, since this is convex in epsilon and 0 at 0.
    Bound       upper, rounded up; exact for one number.
    Edges       epsilon = 0 -> 0.0.
    Source      Mironov 2017, arXiv:1702.07476, Prop. 6.
    """
    non_negative(epsilon=epsilon)
    order(alpha)
    x, b = ball(epsilon), ball(Fraction(alpha) - 1)
    tail = (-(1 + 2 * b) * x).expm1() * b / (1 + 2 * b)
    return min(max(0.0, float_up(x + tail.log1p() / b)), float_up(x))


@cached
def pure_from_renyi(epsilon: Real, *, alpha: Real) -> float:
    r"""The largest epsilon' for which epsilon'-DP implies Renyi DP (alpha, epsilon).

    Statement   the root of renyi_from_pure(epsilon', alpha) = epsilon, which is increasing.
    Bound       lower, rounded down.
    Edges       epsilon = 0 -> 0.0.
    Source      the inverse of renyi_from_pure.
    """
    non_negative(epsilon=epsilon)
    order(alpha)
    if epsilon == 0:
        return 0.0
    limit = Fraction(epsilon)
    start = max(float(epsilon), float((2 * ball(epsilon) / ball(alpha)).sqrt()))
    if float(epsilon) > 0:
        start = near(lambda x: _renyi_from_pure(x, alpha), target=float(epsilon), guess=start)
    return boundary(lambda x: _renyi_from_pure(x, alpha) > limit, guess=start)[0]
