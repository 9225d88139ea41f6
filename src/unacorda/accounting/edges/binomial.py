"""Steps that lose the most or the least there is and nothing between: the binomial sum itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unacorda.accounting.edges.steps import Way
from unacorda.privacy.enclosure import context, float_down, float_up, mpf

__all__ = ["delta_by_counting"]

_U = 2.0**-53
_MOST = 8_000_000  # terms
_FAINT = 60.0  # terms below e^-60 of the first are bounded together


def delta_by_counting(way: Way, epsilon: Any) -> tuple[float, float]:
    """Bounds of delta of one direction at an epsilon of the working precision; (0, 1) at worst.

    Bound       both.
    Source      docs/proofs/edges.md, Theorem 3.
    """
    mp, count = context(), way.steps.count
    gap = way.largest - epsilon
    if gap <= 0:
        return 0.0, 0.0
    drops = min(int(mp.ceil(gap / way.width)) - 1, count)
    first = gap - drops * way.width
    ratio = float(mp.exp(way.most - way.least))
    slope = -math.log(max(drops, 1) / (count - drops + 1) * ratio)
    bend = 1 / max(drops, 1) + 1 / (count - drops + 1)
    many = 2 * _FAINT / (slope + math.hypot(slope, math.sqrt(2 * _FAINT * bend)))
    terms = min(drops, math.ceil(many) + 8)
    if terms > _MOST or first <= 0:
        return 0.0, 1.0
    numbers = np.arange(terms, dtype=np.float64)
    shares = (drops - numbers) / (count - drops + 1 + numbers) * ratio
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        weights = np.cumprod(np.concatenate(([1.0], shares)))
        losses = float(first) + float(way.width) * np.arange(terms + 1)
        found = float(np.sum(weights * -np.expm1(-losses)))
    slip = (12 * terms + 100) * _U
    if not (math.isfinite(found) and slip < 0.01):
        return 0.0, 1.0
    rest = 0.0
    if terms < drops:
        last = (drops - terms) / (count - drops + 1 + terms) * ratio * (1 + 8 * _U)
        if not last < 1:
            return 0.0, 1.0
        rest = float(weights[-1]) * last / (1 - last) * (1 + slip)
    level = mp.loggamma(count + 1) - mp.loggamma(drops + 1) - mp.loggamma(count - drops + 1)
    level += (count - drops) * way.most + drops * way.least
    lower = mp.exp(level) * mpf(found * (1 - slip))
    upper = mp.exp(level) * (mpf(found * (1 + slip)) + mpf(rest * (1 + 1e-9)))
    return float_down(lower), min(1.0, float_up(upper) + 5e-324)
