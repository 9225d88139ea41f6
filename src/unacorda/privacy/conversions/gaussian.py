"""Pure and bounded-range mechanisms as Gaussian DP."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

from unacorda.privacy.conversions.arguments import Real, cached, non_negative
from unacorda.privacy.enclosure import boundary, context, float_down, mpf

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
