"""Into and out of zero-concentrated DP."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from unacorda.numerics import boundary, near
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, order, share
from unacorda.privacy.enclosure import context, float_down, float_up, mpf
from unacorda.privacy.rounding import root_down


@cached
def zcdp_from_pure(epsilon: Real) -> float:
    r"""Rho such that epsilon-DP implies rho-zCDP.

    Statement   rho = epsilon tanh(epsilon / 2) = epsilon (e^epsilon - 1) / (e^epsilon + 1); tight
                (the classic epsilon^2 / 2 is larger).
    Bound       upper, rounded up.
    Edges       epsilon = 0 -> 0.0.
    Source      Bun and Steinke 2016, Prop. 3.3; in this form Steinke 2022, arXiv:2210.00597.

    >>> round(zcdp_from_pure(1.0), 6)
    0.462117
    """
    non_negative(epsilon=epsilon)
    x = mpf(epsilon)
    return float_up(x * context().tanh(x / 2))


@cached
def pure_from_zcdp(rho: Real) -> float:
    r"""The largest epsilon for which epsilon-DP implies rho-zCDP.

    Statement   the root of epsilon tanh(epsilon / 2) = rho, which is increasing.
    Bound       lower, rounded down.
    Edges       rho = 0 -> 0.0.
    Source      the inverse of zcdp_from_pure.
    """
    non_negative(rho=rho)
    if rho == 0:
        return 0.0
    limit, mp = mpf(rho) * (1 - context().ldexp(1, -100)), context()
    start = max(float(rho), float(mp.sqrt(2 * mpf(rho))))
    if float(rho) > 0:
        start = near(lambda x: x * math.tanh(x / 2), target=float(rho), guess=start)
    return boundary(lambda x: mpf(x) * mp.tanh(mpf(x) / 2) > limit, guess=start)[0]


def zcdp_from_bounded_range(epsilon: Real) -> Fraction:
    r"""Rho such that an epsilon-bounded-range mechanism (the exponential one) is rho-zCDP.

    Statement   rho = epsilon^2 / 8, by Hoeffding's lemma on a loss in an interval of length
                epsilon.
    Bound       upper, exact.
    Edges       epsilon = 0 -> 0.
    Source      Cesar and Rogers 2021, arXiv:2004.07223, Lemma 3.4.

    >>> zcdp_from_bounded_range(1.0)
    Fraction(1, 8)
    """
    non_negative(epsilon=epsilon)
    return Fraction(epsilon) ** 2 / 8


def bounded_range_from_zcdp(rho: Real) -> float:
    r"""The largest epsilon for which epsilon-bounded range implies rho-zCDP by epsilon^2 / 8.

    Statement   epsilon = sqrt(8 rho).
    Bound       lower, rounded down.
    Edges       rho = 0 -> 0.0.
    Source      the inverse of zcdp_from_bounded_range.
    """
    non_negative(rho=rho)
    return root_down(8 * Fraction(rho))


def approximate_zcdp_from_approx_dp(epsilon: Real, *, delta: Real) -> tuple[float, Real]:
    r"""(rho, delta) such that (epsilon, delta)-DP implies delta-approximate rho-zCDP.

    Statement   rho = epsilon tanh(epsilon / 2), delta unchanged: the pair is a post-processing of
                an infinite loss with probability delta, else binary randomised response.
    Bound       upper, rounded up.
    Edges       epsilon = 0 -> (0.0, delta).
    Source      Kairouz, Oh, Viswanath 2015, Thm. 3.3 (the domination); zcdp_from_pure.
    """
    share(delta=delta)
    return zcdp_from_pure(epsilon), delta


def zcdp_from_gdp(mu: Real) -> Fraction:
    r"""Rho such that mu-GDP implies rho-zCDP.

    Statement   rho = mu^2 / 2: the pair is a post-processing of N(0, 1) and N(mu, 1), whose
                Renyi divergence of order alpha is alpha mu^2 / 2.
    Bound       upper, exact.
    Edges       mu = 0 -> 0.
    Source      Dong, Roth, Su 2022, Thm. 2.10 and Cor. B.6; Bun and Steinke 2016, Prop. 1.6.

    >>> zcdp_from_gdp(1.0)
    Fraction(1, 2)
    """
    non_negative(mu=mu)
    return Fraction(mu) ** 2 / 2


def gdp_from_zcdp(rho: Real) -> float:
    r"""The largest mu for which mu-GDP implies rho-zCDP; no rho-zCDP implies GDP.

    Statement   mu = sqrt(2 rho).
    Bound       lower, rounded down.
    Edges       rho = 0 -> 0.0.
    Source      the inverse of zcdp_from_gdp.
    """
    non_negative(rho=rho)
    return float_down(context().sqrt(2 * mpf(rho)))


def renyi_from_zcdp(rho: Real, *, alpha: Real) -> Fraction:
    r"""Renyi divergence of order alpha that rho-zCDP implies.

    Statement   rho alpha.
    Bound       upper, exact.
    Edges       rho = 0 -> 0.
    Source      Bun and Steinke 2016, Definition 1.1.
    """
    non_negative(rho=rho)
    order(alpha)
    return Fraction(rho) * Fraction(alpha)


_FAR = 1e100


@cached
def gdp_from_pure(epsilon: Real) -> float:
    r"""Mu such that epsilon-DP implies mu-GDP.

    Statement   mu = 2 Phi^{-1}(e^epsilon / (1 + e^epsilon)); tight.
    Bound       upper, rounded up.
    Edges       epsilon = 0 -> 0.0.
    Source      the kink of binary randomised response; docs/proofs/bounded_range.md, Theorem 2.

    >>> round(gdp_from_pure(1.0), 6)
    1.232035
    """
    non_negative(epsilon=epsilon)
    return _twice_quantile_of_logit(Fraction(epsilon))


@cached
def gdp_from_bounded_range(epsilon: Real) -> float:
    r"""Mu such that an epsilon-bounded-range mechanism (the exponential one) is mu-GDP.

    Statement   mu = 2 Phi^{-1}(e^{epsilon/2} / (1 + e^{epsilon/2})); tight.
    Bound       upper, rounded up.
    Edges       epsilon = 0 -> 0.0.
    Source      docs/proofs/bounded_range.md, Theorem 1 (after Dong, Durfee, Rogers 2020).

    >>> round(gdp_from_bounded_range(1.0), 6)
    0.623893
    """
    non_negative(epsilon=epsilon)
    return _twice_quantile_of_logit(Fraction(epsilon) / 2)


@cached
def pure_from_gdp(mu: Real) -> float:
    r"""The largest epsilon for which epsilon-DP implies mu-GDP.

    Statement   epsilon = log(Phi(mu/2) / Phi(-mu/2)).
    Bound       lower, rounded down.
    Edges       mu = 0 -> 0.0.
    Source      the inverse of gdp_from_pure.
    """
    non_negative(mu=mu)
    return float_down(_logit_of_normal(mpf(mu) / 2))


@cached
def bounded_range_from_gdp(mu: Real) -> float:
    r"""The largest epsilon for which epsilon-bounded range implies mu-GDP.

    Statement   epsilon = 2 log(Phi(mu/2) / Phi(-mu/2)).
    Bound       lower, rounded down.
    Edges       mu = 0 -> 0.0.
    Source      the inverse of gdp_from_bounded_range.
    """
    non_negative(mu=mu)
    return float_down(2 * _logit_of_normal(mpf(mu) / 2))


def _logit_of_normal(x: Any) -> Any:
    """log(Phi(x) / Phi(-x)) for x >= 0, to a relative 2^-200: no term cancels."""
    mp = context()
    if x > _FAR:
        return x * x / 2  # Phi(-x) <= e^{-x^2/2} Phi(x), and all but reaches it
    scaled = x / mp.sqrt(2)
    return mp.log1p(2 * mp.erf(scaled) / mp.erfc(scaled))


def _twice_quantile_of_logit(logit: Fraction) -> float:
    """The least float m with log(Phi(m/2) / Phi(-m/2)) >= logit, certified."""
    if logit == 0:
        return 0.0
    mp, target = context(), mpf(logit)
    # Both starts lie above the root (the inverse is concave; Phi(-x) <= exp(-x^2/2)/2), and the
    # log odds are convex: Newton descends to the root from there.
    x = min(target * mp.sqrt(mp.pi / 8), mp.sqrt(2 * target))
    for _ in range(60 if x < _FAR else 0):
        odds = _logit_of_normal(x)
        slope = mp.npdf(x) / (mp.ncdf(x) * mp.ncdf(-x))
        step = (odds - target) / slope
        x -= step
        if abs(step) <= x * mp.ldexp(1, -60):
            break
    lowered = 1 - mp.ldexp(1, -100)
    return boundary(
        lambda mu: _logit_of_normal(mpf(mu) / 2) * lowered >= target, guess=float(2 * x)
    )[1]
