"""Epsilon by quadratures of many nodes, where those of few leave their tail open."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence

from unacorda.accounting.contour.factor import Factor
from unacorda.accounting.contour.invert import invert
from unacorda.accounting.contour.plan import Curve, plan_at, refined_saddle
from unacorda.accounting.contour.quadrature import within_cap
from unacorda.privacy.estimates import Interval

__all__ = ["epsilon_by_many_nodes"]

_WORK = 8_000_000
_PASSES = 3
_SETTLED, _ENOUGH = 1e-6, 1e-8


def epsilon_by_many_nodes(
    factors: Sequence[Factor], whole: Curve, known: Interval, *, near: float, log_delta: float
) -> Interval:
    """Bounds of epsilon, within those that are known; near: where it is believed to be.

    Bound       both.
    Source      docs/proofs/contour.md, Theorem 7.
    """
    low, high = known
    for _ in range(_PASSES):
        if not low <= near <= high:
            near = 0.5 * (low + high)
        if not math.isfinite(near):
            break
        c = refined_saddle(factors, whole, near)
        plan = plan_at(factors, whole, c=c, epsilon=near, log_delta=log_delta)
        made = None if plan is None else within_cap(factors, plan, log_unit=log_delta, work=_WORK)
        if made is None:
            break
        found = invert(made, near, slope=made.plan.c)
        low, high = max(low, found.lower), min(high, found.upper)
        before, near = near, found.near
        if not abs(near - before) > _SETTLED * before or high - low <= _ENOUGH * high:
            break
    return Interval(low, high)
