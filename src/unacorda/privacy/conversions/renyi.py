"""Into and out of Renyi DP of one order."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.privacy.conversions.arguments import Real, cached, non_negative, order
from unacorda.privacy.enclosure import boundary, context, float_up, mpf, near, sum_up

__all__ = [
    "pure_from_renyi",
    "renyi_from_laplace",
    "renyi_from_pure",
]


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
    mp, x, b = context(), mpf(epsilon), mpf(Fraction(alpha) - 1)
    tail, head = mp.log1p(mp.exp(-(1 + 2 * b) * x)), mp.log1p(mp.exp(-x))
    return min(sum_up([x, tail / b, -head / b]), float_up(x))


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
    mp, x, b = context(), mpf(epsilon), mpf(Fraction(alpha) - 1)
    tail = mp.expm1(-(1 + 2 * b) * x) * b / (1 + 2 * b)
    return min(sum_up([x, mp.log1p(tail) / b]), float_up(x))


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
    start = max(float(epsilon), float(context().sqrt(2 * mpf(epsilon) / mpf(alpha))))
    if float(epsilon) > 0:
        start = near(lambda x: _renyi_from_pure(x, alpha), target=float(epsilon), guess=start)
    return boundary(lambda x: _renyi_from_pure(x, alpha) > limit, guess=start)[0]
