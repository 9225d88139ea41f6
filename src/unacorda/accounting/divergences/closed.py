"""Renyi divergences in closed form: of finite laws, of discrete Laplace noise, of samples."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from unacorda.accounting.laws import Finite, of_discrete_laplace, of_points
from unacorda.privacy.conversions.arguments import Real, cached
from unacorda.privacy.enclosure import context, float_up, mpf

_LARGEST_SHIFT = 64


def renyi_of_law(law: Finite, *, alpha: Real) -> float:
    r"""Renyi divergence of a pair with a symmetric law of finitely many losses.

    Statement   log(1 + sum over losses l > 0 of P(l) (e^{b l} - 1) (1 - e^{-a l}))/b, b = a - 1:
                the terms of l and -l together, which are positive.
    Bound       upper, rounded up; exact.
    Source      the definition, with P(-l) = e^{-l} P(l).

    >>> from unacorda.accounting.laws import of_points
    >>> round(renyi_of_law(of_points(Fraction(1), 2), alpha=2), 6)
    0.735326
    """
    return float_up(_divergence(law, mpf(Fraction(alpha) - 1)))


def _divergence(law: Finite, b: Any) -> Any:
    mp = context()
    losses = [(mpf(loss), mass) for loss, mass in law.masses.items() if loss > 0]
    above = mp.fsum(mass * mp.expm1(b * x) * -mp.expm1(-(b + 1) * x) for x, mass in losses)
    return mp.log1p(above) / b


@cached
def renyi_of_discrete_laplace(scale: Real, *, sensitivity: Real, alpha: Real) -> float:
    r"""Renyi divergence of integers with two-sided geometric noise, P(k) ~ e^{-|k|/scale}.

    Statement   for one coordinate renyi_of_law; for several, the worst way to share the l1
                sensitivity out in whole numbers. Above 64 the bound of pure DP.
    Bound       upper, rounded up; exact for one coordinate.
    Edges       sensitivity below 1 -> 0.0: integers that move by less do not move.
    Source      the definition, summed as geometric series.

    >>> round(renyi_of_discrete_laplace(1.0, sensitivity=1, alpha=2), 6)
    0.735326
    """
    shift, rate, b = int(sensitivity), 1 / Fraction(scale), mpf(Fraction(alpha) - 1)
    if shift > _LARGEST_SHIFT:
        return renyi_of_law(of_points(shift * rate, 2), alpha=alpha)
    best = [mpf(0.0)]
    alone = [_divergence(of_discrete_laplace(rate, m), b) for m in range(shift + 1)]
    for moved in range(1, shift + 1):
        best.append(max(best[moved - m] + alone[m] for m in range(1, moved + 1)))
    return float_up(best[shift])


@cached
def renyi_of_sampled_pure(epsilon: Real, *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of an epsilon-DP mechanism on a Poisson sample.

    Statement   the larger of D_a(qP + (1-q)Q || Q) and D_a(Q || qP + (1-q)Q) for the coins
                P = (s, 1-s), Q = (1-s, s), s = e^eps/(1 + e^eps): every epsilon-DP pair is a
                post-processing of that pair, hence its mixture is one of this mixture.
    Bound       upper, rounded up; tight (binary randomised response).
    Edges       epsilon = 0 or rate = 0 -> 0.0;  rate = 1 -> renyi_from_pure.
    Source      Kairouz, Oh, Viswanath 2015, Thm. 3.3 (the domination); Steinke 2022, Section 6.
    """
    if epsilon == 0 or rate == 0:
        return 0.0
    mp, x, q = context(), mpf(epsilon), mpf(rate)
    a, b = mpf(alpha), mpf(Fraction(alpha) - 1)
    head = 1 / (1 + mp.exp(-x))
    tail = mp.exp(-x) * head
    up = mp.log1p(q * mp.expm1(x))  # log of the mixture over Q where P is likelier
    down = mp.log1p(q * mp.expm1(-x))
    # E_Q[e^{t L}] - 1 with E_Q[e^L] = 1; both exponents give sums of one sign.
    found = mpf(0.0)
    for exponent in (a, -b):
        gain, loss = tail * mp.expm1(exponent * up), head * mp.expm1(exponent * down)
        # The two may cancel to first order in a - 1, of which 256 bits leave enough: the error of
        # the sum is below 2^-200 of its terms, and is added before the logarithm.
        moment = gain + loss + mp.ldexp(abs(gain) + abs(loss), -200)
        found = max(found, mp.log1p(max(moment, mpf(0.0))) / b)
    return float_up(found)


LARGEST_ORDER = 256
"""Above this integer order the sums over all smaller ones are not formed."""


def renyi_of_poisson(divergence: Callable[[int], float], *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of a mechanism on a Poisson sample.

    divergence: an upper bound of D_k(P || Q) and D_k(Q || P) of the mechanism for whole k >= 2.

    Statement   for whole a: log(sum over k of C(a,k) (1-p)^{a-k} p^k e^{(k-1) D_k})/(a - 1) with
                the terms k = 0, 1 without an exponential; between whole orders, (a - 1) D_a is
                convex and is interpolated linearly, from 0 at order 1.
    Bound       upper, rounded up; one direction bounds the other (Thm. 35).
    Edges       alpha above 256 -> inf: use renyi_at_large_orders.
    Source      Steinke 2022, arXiv:2210.00597, Thms. 34 and 35; Zhu and Wang 2019.
    """
    return between_orders(lambda k: _poisson_moment(divergence, mpf(rate), k), alpha)


def between_orders(moment: Callable[[int], Any], alpha: Real) -> float:
    """D_a from (a - 1) D_a at whole orders, between which it is interpolated, from 0 at order 1.

    Bound       upper, rounded up; inf above LARGEST_ORDER.
    Source      van Erven and Harremoes 2014, Thm. 11 (convexity).
    """
    if alpha > LARGEST_ORDER:
        return math.inf
    low, high = math.floor(alpha), math.ceil(alpha)
    weight = mpf(Fraction(alpha) - low)
    ends = [moment(k) if k > 1 else mpf(0.0) for k in (low, high)]
    between = (1 - weight) * ends[0] + weight * ends[1]
    return float_up(between / mpf(Fraction(alpha) - 1))


def _poisson_moment(divergence: Callable[[int], float], rate: Any, alpha: int) -> Any:
    """(a - 1) D_a: the log of 1 + sum of C(a,k) (1-p)^{a-k} p^k (e^{(k-1) D_k} - 1)."""
    mp = context()
    above = mp.fsum(
        math.comb(alpha, k)
        * (1 - rate) ** (alpha - k)
        * rate**k
        * mp.expm1((k - 1) * mpf(divergence(k)))
        for k in range(2, alpha + 1)
    )
    return mp.log1p(above)


def renyi_at_large_orders(divergence: float, *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of a mechanism on a Poisson sample, at any order.

    divergence: an upper bound of D_a of the mechanism, in both directions, at the same order.

    Statement   min(D_a, a/(a-1) log(1 - p + p e^{(a-1) D_a / a})).
    Bound       upper, rounded up; close to the truth for large orders only.
    Edges       divergence = inf -> inf.
    Source      Steinke 2022, arXiv:2210.00597, Prop. 42 (Minkowski's inequality), and Thm. 35;
                the first is quasi-convexity of the divergence.
    """
    if math.isinf(divergence):
        return math.inf
    mp, a, b = context(), mpf(alpha), mpf(Fraction(alpha) - 1)
    mixed = a / b * mp.log1p(mpf(rate) * mp.expm1(b / a * mpf(divergence)))
    return min(divergence, float_up(mixed))


def renyi_of_fixed_size(
    divergence: Callable[[int], float], *, largest: float, rate: Real, alpha: Real
) -> float:
    r"""Renyi divergence, under replacement, of a mechanism on a sample without replacement.

    divergence: an upper bound, under replacement, of D_k for whole k >= 2, in both directions;
    largest: of D_infinity, the pure epsilon, or inf; rate: size / population.

    Statement   for whole a: log(1 + p^2 C(a,2) min(4 (e^{D_2} - 1), e^{D_2} m_2) + sum over k > 2
                of p^k C(a,k) e^{(k-1) D_k} m_k)/(a - 1), m_k = min(2, (e^{D_inf} - 1)^k); between
                whole orders interpolated as in renyi_of_poisson. Never above D_a itself.
    Bound       upper, rounded up.
    Edges       alpha above 256 -> inf.
    Source      Wang, Balle, Kasiviswanathan 2019, arXiv:1808.00087, Thm. 9.
    """
    return between_orders(lambda k: _fixed_size_moment(divergence, largest, mpf(rate), k), alpha)


def _fixed_size_moment(
    divergence: Callable[[int], float], largest: float, rate: Any, alpha: int
) -> Any:
    mp = context()
    ratio = mp.inf if math.isinf(largest) else mp.expm1(mpf(largest))

    def term(k: int) -> Any:
        d = mpf(divergence(k))
        size = mp.exp((k - 1) * d) * min(mpf(2.0), ratio**k)
        if k == 2:
            size = min(size, 4 * mp.expm1(d))
        return math.comb(alpha, k) * rate**k * size

    return mp.log1p(mp.fsum(term(k) for k in range(2, alpha + 1)))
