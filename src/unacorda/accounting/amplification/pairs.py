"""Replacing a unit as removing one and adding another, where a profile of each step is known."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from unacorda.privacy.conversions.group import approx_dp_of_group
from unacorda.privacy.enclosure import context, float_down, mpf


def delta_of_pairs(delta_at: Callable[[Fraction], float], *, epsilon: Fraction) -> float:
    """Delta, at `epsilon`, under replacement, from the delta of adding or removing one unit.

    Statement   (1 + e^{epsilon/2}) delta(epsilon/2), at most 1.
    Bound       upper, rounded up.
    Source      approx_dp_of_group of two.
    """
    half = epsilon / 2
    return approx_dp_of_group(half, delta=min(1.0, delta_at(half)), size=2)[1]


def epsilon_of_pairs(epsilon_at: Callable[[Fraction], float], *, delta: Fraction) -> float:
    """Epsilon, at `delta`, under replacement, from the epsilon of adding or removing one unit.

    Statement   2 x, where x is at least the epsilon at delta / (1 + e^x).
    Bound       upper, rounded up: an x is kept only where that holds.
    Source      approx_dp_of_group of two.
    """
    guess = epsilon_at(delta / 2)
    for _ in range(8):
        if guess > 600:
            return math.inf
        share = float_down(mpf(delta) / (1 + context().exp(mpf(guess))))
        found = epsilon_at(Fraction(share)) if share else math.inf
        if found <= guess:
            return 2 * guess
        guess = found * 1.002
    return math.inf
