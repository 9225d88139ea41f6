"""Renyi divergences of sampled mechanisms, from those of the mechanism on the whole table."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from unacorda.privacy.conversions.arguments import Real, order, share
from unacorda.privacy.enclosure import context, float_up, mpf

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
    share(rate=rate)
    order(alpha)
    if alpha > LARGEST_ORDER:
        return math.inf
    low, high = math.floor(alpha), math.ceil(alpha)
    weight = Fraction(alpha) - low
    moments = [
        _poisson_moment(divergence, mpf(rate), k) if k > 1 else mpf(0.0) for k in (low, high)
    ]
    between = (1 - mpf(weight)) * moments[0] + mpf(weight) * moments[1]
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
    share(rate=rate)
    order(alpha)
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
    share(rate=rate)
    order(alpha)
    if alpha > LARGEST_ORDER:
        return math.inf
    low, high = math.floor(alpha), math.ceil(alpha)
    weight = Fraction(alpha) - low
    moments = [
        _fixed_size_moment(divergence, largest, mpf(rate), k) if k > 1 else mpf(0.0)
        for k in (low, high)
    ]
    between = (1 - mpf(weight)) * moments[0] + mpf(weight) * moments[1]
    return float_up(between / mpf(Fraction(alpha) - 1))


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
