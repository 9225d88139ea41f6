"""Epsilon by splitting off jumps: places of the cuts tried in turn, and what work they may take."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence

from unacorda.accounting.contour.factor import Factor
from unacorda.accounting.contour.invert import invert
from unacorda.accounting.contour.jump_sum import rough_epsilon, sum_of_terms
from unacorda.accounting.contour.jumps import split
from unacorda.accounting.contour.sampled_gaussian import SampledGaussian
from unacorda.privacy.estimates import Interval

NARROW = 1e-9
MOST_WORK = 25_000_000
PLACES = ((1.0,), (0.4, 0.9), (0.2, 0.45, 0.9), (0.1, 0.4, 0.8))
"""Of the cuts: shares of ln delta at which about the numbers of jumps above them lie."""
_MANY = 10**6
_TRIES = 6
_ANYWHERE = Interval(0.0, math.inf)
_SETTLED = 1e-7
"""More places are not tried for less."""


def is_narrow(low: float, high: float) -> bool:
    """Whether an interval is not worth more work.

    Bound       none: it only looks.
    Source      none.
    """
    return high < math.inf and high - low <= max(NARROW * high, 1e-12)


def epsilon_by_jumps(
    factors: Sequence[Factor], log_delta: float, *, known: Interval = _ANYWHERE
) -> Interval:
    """Bounds of epsilon by splitting off jumps; [0, inf] where nothing can be split.

    known: where it lies.

    Bound       both.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    low, high, work = 0.0, math.inf, MOST_WORK
    near = rough_epsilon(factors, log_delta=log_delta)
    many = are_many(factors)
    for places in PLACES:
        parts = split(factors, log_delta=log_delta, aims=[part * log_delta for part in places])
        if not math.isfinite(near):
            break
        if parts is None:  # more places make smaller pieces
            continue
        work = MOST_WORK if many else work
        settled = False
        for _ in range(_TRIES):
            bottom, top = max(low, known.lower), min(high, known.upper)
            if not bottom <= near <= top:
                near = 0.5 * (bottom + top)
            made, work = sum_of_terms(parts, epsilon=near, log_unit=log_delta, work=work)
            found = invert(made, near, slope=made.c)
            low, high = max(low, found.lower), min(high, found.upper)
            sides = made.at(near)
            low = max(low, near) if sides.lower >= 1.0 + 1e-15 else low
            high = min(high, near) if sides.upper <= 1.0 else high
            if is_narrow(max(low, known.lower), min(high, known.upper)):
                return Interval(low, high)
            before, near = near, found.near if math.isfinite(found.near) else near
            close = abs(near - before) <= 0.02 * before
            if work <= 0 or (close and settled):
                break
            settled = close
        if work <= 0 and not many:
            break
        if high < math.inf and high - low <= _SETTLED * high:
            break
    return Interval(low, high)


def are_many(factors: Sequence[Factor]) -> bool:
    """Whether there are more copies than sums on grids serve: then no work is spared here.

    Bound       none: it only looks.
    Source      none.
    """
    return any(isinstance(one, SampledGaussian) and one.count > _MANY for one in factors)
