"""Lower bounds of epsilon and delta of very many sampled Gaussian steps, from where their sum lies.

The outputs of each step are gathered into cells. Of the sum of what is left of the losses Chernoff
bounds the probability that it lies far below its mean.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unacorda.accounting.pld.capped_masses import joined
from unacorda.accounting.pld.sampled_cells import SampledGaussian
from unacorda.accounting.profiles.boxes import Array

__all__ = ["delta_below", "epsilon_below"]

_U = 2.0**-53
_CELLS, _FAR = 3000, 9.0
_ORDERS = np.geomspace(1e-15, 1.0, 240)
_SURE = 40.0


def epsilon_below(steps: Sequence[tuple[SampledGaussian, int]], *, delta: float) -> float:
    """An epsilon at which the delta of the steps, with a unit removed, is above `delta`, or 0.

    Bound       lower.
    Source      docs/proofs/capped.md, Lemma 5.
    """
    root = math.sqrt(delta) * (1 + 4 * _U) + 1e-300
    if root >= 1:
        return 0.0
    room = math.log1p(-root) * (1 + 4 * _U) - 4 * _U
    # (1 - e^-t) (1 - g) is delta where both factors are its root
    heights = (room - _log_moments(steps)) / _ORDERS
    found = float(np.nanmax(heights * (1 - np.sign(heights) * 8 * _U) + room))
    return max(found, 0.0) if math.isfinite(found) else 0.0


def delta_below(steps: Sequence[tuple[SampledGaussian, int]], *, epsilon: float) -> float:
    """A delta that the steps, with a unit removed, have at least at an epsilon.

    Bound       lower.
    Source      docs/proofs/capped.md, Lemma 5.
    """
    logs = _log_moments(steps)
    with np.errstate(all="ignore"):
        above = np.clip(-(logs + _ORDERS * epsilon) / (2 * _ORDERS), 0.0, _SURE)
        level = logs + _ORDERS * (epsilon + above)
        level = level + 16 * _U * (np.abs(logs) + _ORDERS * (epsilon + above))
        found = -np.expm1(-above) * -np.expm1(np.minimum(level, 0.0))
    best = float(np.nanmax(found))
    return max(best * (1 - 1e-14), 0.0) if math.isfinite(best) else 0.0


def _log_moments(steps: Sequence[tuple[SampledGaussian, int]]) -> Array:
    """Bounds from above of ln E e^(-s S) at the orders s, S the sum of the cells' losses."""
    total = np.zeros_like(_ORDERS)
    for step, count in steps:
        edges = np.linspace(-_FAR, _FAR + step.mean, _CELLS)
        cells = joined(
            joined(step.below(float(edges[0])), step.grouped(edges)), step.above(float(edges[-1]))
        )
        rest = np.multiply.outer(1 - _ORDERS, step.base + cells.offset)
        errors = cells.null_error + cells.offset_error + 16 * _U * (1 + np.abs(step.base))
        errors = errors + 4 * _U * np.abs(rest) + 4 * _U * np.abs(cells.log_null)
        sums = np.exp(cells.log_null + rest + errors).sum(axis=1) * (1 + 2 * _CELLS * _U)
        logs = count * np.log(sums)
        total = total + logs + 8 * _U * (np.abs(logs) + count)
    return total
