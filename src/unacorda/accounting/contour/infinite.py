"""The delta of all losses from that of the finite ones, and back."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

from unacorda.privacy.enclosure import context, float_down, float_up, mpf
from unacorda.privacy.estimates import Interval

__all__ = ["with_infinite", "without_infinite"]

_HIDDEN = 2.0**-130
"""The relative error of p is below 2^-190."""


def without_infinite(infinite: Any, target: Fraction) -> Any:
    """The delta that the finite losses may have: (target - p) / (1 - p), p = P(infinite loss).

    Bound       within 2^-60 of itself; 0 where p is 1, or rounding hides which of both is more.
    Source      docs/proofs/contour.md, section 1.
    """
    left = mpf(target) - infinite
    if infinite >= 1 or abs(left) <= _HIDDEN * infinite:
        return context().mpf(0)
    return left / (1 - infinite)


def with_infinite(infinite: Any, found: Interval) -> Interval:
    """With infinite losses: p + (1 - p) * (delta of the finite losses), rounded outward.

    Bound       both.
    Source      docs/proofs/contour.md, section 1.
    """
    if infinite == 0:
        return found
    low, high = (infinite + (1 - infinite) * mpf(end) for end in found)
    return Interval(float_down(low), min(1.0, float_up(high)))
