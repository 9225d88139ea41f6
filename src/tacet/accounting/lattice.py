"""Losses on a lattice: the optimal composition of equal (epsilon, delta) mechanisms, exactly."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tacet import checks
from tacet.checks import Number, exact
from tacet.errors import InvalidParameter
from tacet.privacy.enclosure import context, float_down, float_up, mpf
from tacet.privacy.estimates import Interval

__all__ = ["homogeneous_delta"]

_BITS_LEFT = 150  # terms below 2^-150 of the sum are bounded together


def homogeneous_delta(pure: Number, delta: Number = 0, *, count: int, epsilon: Number) -> Interval:
    r"""Delta at `epsilon` of the worst `count`-fold composition of (pure, delta)-DP mechanisms.

    Statement   1 - (1-delta)^k (1 - D), D the sum over l of C(k,l) p^l (1-p)^{k-l}
                max(0, 1 - e^{epsilon - (2l-k) pure}), p = 1/(1 + e^{-pure}), k = count.
    Bound       both sides; tight, as binary randomised response with a failure reaches it.
    Edges       epsilon >= k pure -> 1 - (1-delta)^k;  pure = 0 likewise.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3; all terms are positive, in 256 bits.

    >>> homogeneous_delta("0.1", count=2, epsilon="0.2")
    Interval(lower=0.0, upper=0.0)
    """
    loss, part, at = exact("pure", pure), exact("delta", delta), exact("epsilon", epsilon)
    many = checks.positive_integer(count=count)
    if loss < 0:
        raise InvalidParameter("pure", pure, expected="a number, 0 or above")
    if not 0 <= part <= 1:
        raise InvalidParameter("delta", delta, expected="a number from 0 to 1")
    if at < 0:
        raise InvalidParameter("epsilon", epsilon, expected="a number, 0 or above")
    mp = context()
    least, rest = _tail(loss, many, at)
    # 1 - (1 - delta)^k (1 - D), by positive terms: (1 - s) + s D
    stay = mp.mpf(0) if part == 1 else many * mp.log1p(-mpf(part))
    failed = mp.mpf(1) if part == 1 else -mp.expm1(stay)
    return Interval(
        min(1.0, float_down(failed + (1 - failed) * least)),
        min(1.0, float_up(failed + (1 - failed) * (least + rest))),
    )


def _tail(loss: Fraction, count: int, at: Fraction) -> tuple[Any, Any]:
    """D of homogeneous_delta from below, and how much more it may be."""
    mp = context()
    zero = mp.mpf(0)
    if loss == 0 or at >= count * loss:
        return zero, zero
    first = math.floor((at / loss + count) / 2) + 1  # the least l with (2l - count) loss > at
    odds = mp.exp(mpf(loss))
    log_weight = (
        mp.loggamma(count + 1)
        - mp.loggamma(first + 1)
        - mp.loggamma(count - first + 1)
        - count * mp.log1p(1 / odds)
        - (count - first) * mpf(loss)
    )
    weight = mp.exp(log_weight)
    shrink = mp.exp(mpf(at - (2 * first - count) * loss))
    square = odds * odds
    total, place = zero, first
    while place <= count:
        total += weight * (1 - shrink)
        ratio = odds * (count - place) / (place + 1)
        weight, shrink, place = weight * ratio, shrink / square, place + 1
        if ratio < 1 and weight < (1 - ratio) * mp.ldexp(total, -_BITS_LEFT):
            # the ratios fall, so the rest is at most a geometric sum
            return total, weight / (1 - ratio)
    return total, zero
