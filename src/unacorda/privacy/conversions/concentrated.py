"""Into and out of zero-concentrated DP."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

from unacorda.balls import Ball, ball, erfc, float_down, float_up
from unacorda.numerics import boundary, near
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, order, share
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
    x = ball(epsilon)
    return float_up(x * (x / 2).tanh())


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
    limit = ball(rho)
    start = max(float(rho), float((2 * ball(rho)).sqrt()))
    if float(rho) > 0:
        start = near(lambda x: x * math.tanh(x / 2), target=float(rho), guess=start)
    return boundary(lambda x: not ball(x) * (ball(x) / 2).tanh() <= limit, guess=start)[0]


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
    return float_down((2 * ball(rho)).sqrt())


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


_FAR = 1e30


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
    return float_down(_logit_of_normal(ball(mu) / 2))


@cached
def bounded_range_from_gdp(mu: Real) -> float:
    r"""The largest epsilon for which epsilon-bounded range implies mu-GDP.

    Statement   epsilon = 2 log(Phi(mu/2) / Phi(-mu/2)).
    Bound       lower, rounded down.
    Edges       mu = 0 -> 0.0.
    Source      the inverse of gdp_from_bounded_range.
    """
    non_negative(mu=mu)
    return float_down(2 * _logit_of_normal(ball(mu) / 2))


def _logit_of_normal(x: Ball) -> Ball:
    """log(Phi(x) / Phi(-x)) for x >= 0; no term cancels."""
    if x > _FAR:
        return x * x / 2  # Phi(-x) <= e^{-x^2/2} Phi(x), and all but reaches it
    scaled = x / ball(2).sqrt()
    return (2 * scaled.erf() / erfc(scaled)).log1p()


def _twice_quantile_of_logit(logit: Fraction) -> float:
    """A float not below 2 Phi^{-1}(e^x / (1 + e^x)), x the logit."""
    x = ball(logit)
    if x > _FAR:
        return float_up(2 * (2 * x).sqrt())  # as Phi(-m) <= e^{-m^2/2} / 2
    half = (x / 2).tanh().erfinv() if x < 1 else (2 / (1 + x.exp())).erfcinv()
    return float_up(2 * ball(2).sqrt() * half)
