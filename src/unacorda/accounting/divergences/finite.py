"""(epsilon, delta) of what has a largest finite loss, composed and on samples."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from unacorda.accounting.amplification.sampling import (
    approx_dp_of_replaced_sample,
    approx_dp_of_sample,
    pure_of_replaced_sample,
)
from unacorda.accounting.laws import by_squaring
from unacorda.privacy.rounding import grid_sum_up

_SEVERAL = 64
_LONG = 1 << 13
"""Bits of a denominator up to which masses are exact."""
_NONE = Fraction(0)


class FiniteLoss(NamedTuple):
    """(epsilon, mass)-DP: but for an infinite loss of this mass, no loss is above epsilon.

    attained: of one pair that the event allows the mass is exactly this, and epsilon its largest
    loss, but for rounding: no smaller epsilon is enough where delta is the mass.
    """

    epsilon: Fraction
    mass: Fraction
    attained: bool = False


def composed_loss(parts: list[tuple[FiniteLoss, int]]) -> FiniteLoss:
    """The loss of a composition of parts with their counts.

    Statement   (sum of epsilon, 1 - prod(1 - mass)).
    Bound       upper, rounded up.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    losses = [part.epsilon * count for part, count in parts]
    # the common denominator of many may have thousands of digits
    total = sum(losses, start=_NONE) if len(losses) <= _SEVERAL else grid_sum_up(losses)
    left = Fraction(1)
    for part, count in parts:
        if part.mass:
            left = _product(left, by_squaring(1 - part.mass, count, _product))
    bits = sum(part.mass.denominator.bit_length() * count for part, count in parts if part.mass)
    short = bits <= _LONG and len(losses) <= _SEVERAL
    return FiniteLoss(total, 1 - left, short and all(part.attained for part, _ in parts))


def _product(one: Fraction, other: Fraction) -> Fraction:
    """Rounded down where it has too many digits to be a delta that is asked for."""
    value = one * other
    if value.denominator.bit_length() <= _LONG:
        return value
    return Fraction((value.numerator << _LONG) // value.denominator, 1 << _LONG)


def sampled_loss(loss: FiniteLoss, rate: Fraction) -> FiniteLoss:
    """The loss on a sample that holds a unit at this rate.

    Statement   (log(1 + rate (e^epsilon - 1)), rate mass).
    Bound       upper, rounded up; tight.
    Source      approx_dp_of_sample.
    """
    if rate == 1:
        return loss
    amplified, _ = approx_dp_of_sample(loss.epsilon, delta=0, rate=rate)
    return FiniteLoss(Fraction(amplified), rate * loss.mass, loss.attained and rate > 0)


def sampled_replaced_loss(loss: FiniteLoss, rate: Fraction) -> FiniteLoss | None:
    """The same where one unit is replaced; None where the mass is no rational number.

    Statement   (log((1 - rate + rate e^epsilon)/(1 - rate)), rate mass) if the mass is not 0 and
                rate < 1; else pure_of_replaced_sample.
    Bound       upper, rounded up; the epsilon is tight where the mass is 0.
    Source      docs/proofs/amplification.md, Section 6.
    """
    if not loss.mass:
        return FiniteLoss(Fraction(pure_of_replaced_sample(loss.epsilon, rate=rate)), _NONE)
    if rate == 1:  # the mass of two steps has e^epsilon in it, which is no rational number
        return None
    amplified = approx_dp_of_replaced_sample(loss.epsilon, rate=rate)
    return FiniteLoss(Fraction(amplified), rate * loss.mass)
