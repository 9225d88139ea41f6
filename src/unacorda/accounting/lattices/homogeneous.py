"""The optimal composition of equal (epsilon, delta) mechanisms, however many."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda import checks
from unacorda.accounting.lattices.compositions import delta_of, epsilon_of
from unacorda.accounting.lattices.laws import Composition, Law
from unacorda.checks import Number, exact
from unacorda.errors import InvalidParameter
from unacorda.privacy.enclosure import context, mpf
from unacorda.privacy.estimates import Interval

__all__ = ["homogeneous_delta", "homogeneous_epsilon"]


def homogeneous_delta(pure: Number, delta: Number = 0, *, count: int, epsilon: Number) -> Interval:
    r"""Delta at `epsilon` of the worst `count`-fold composition of (pure, delta)-DP mechanisms.

    Statement   1 - (1-delta)^k (1 - D), D the sum over l of C(k,l) p^l (1-p)^{k-l}
                max(0, 1 - e^{epsilon - (2l-k) pure}), p = 1/(1 + e^{-pure}), k = count.
    Bound       both sides; tight, as binary randomised response with a failure reaches it. Some
                1e-12 wide, relative; wider from a count of 10^8 or so on.
    Edges       epsilon >= k pure -> 1 - (1-delta)^k;  pure = 0 likewise.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3; the sum over a circle,
                docs/proofs/lattices.md.

    >>> homogeneous_delta("0.1", count=2, epsilon="0.2")
    Interval(lower=0.0, upper=0.0)
    """
    composition = _composition(pure, delta, count)
    at = exact("epsilon", epsilon)
    if at < 0:
        raise InvalidParameter("epsilon", epsilon, expected="a number, 0 or above")
    return delta_of(composition, at)


def homogeneous_epsilon(pure: Number, delta: Number = 0, *, count: int, total: Number) -> Interval:
    r"""The least epsilon at which any `count` (pure, delta)-DP mechanisms are (epsilon, total)-DP.

    Statement   the least epsilon, 0 or above, at which homogeneous_delta is at most `total`.
    Bound       both sides; [0, inf] where 1 - (1-delta)^count exceeds `total`.
    Edges       total = 0 = delta -> count * pure;  pure = 0 -> 0.
    Source      as homogeneous_delta.

    >>> found = homogeneous_epsilon("0.1", count=1000, total="1e-6")
    >>> round(found.upper, 9), found.width < 1e-11
    (19.344671448, True)
    """
    composition = _composition(pure, delta, count)
    target = exact("total", total)
    if not 0 <= target < 1:
        raise InvalidParameter("total", total, expected="a number from 0, below 1")
    return epsilon_of(composition, target)


def _composition(pure: Number, delta: Number, count: int) -> Composition:
    loss, share = exact("pure", pure), exact("delta", delta)
    many = checks.positive_integer(count=count)
    if loss < 0:
        raise InvalidParameter("pure", pure, expected="a number, 0 or above")
    if not 0 <= share <= 1:
        raise InvalidParameter("delta", delta, expected="a number from 0 to 1")
    mp = context()
    infinite = mp.mpf(1) if share == 1 else -mp.expm1(many * mp.log1p(-mpf(share)))
    laws = ((Law(loss), many),) if loss > Fraction(0) else ()
    return Composition(laws=laws, infinite=infinite)
