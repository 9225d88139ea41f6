"""Sums of the smallest losses of sampled steps, on a finer grid than that of all others.

Nearly all steps have such a loss. On a grid that is wide enough for rare large losses each would be
parted between two nodes; so they are summed apart, and only their sum is moved to that grid.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacet.accounting.pld.capped_laws import piece_above
from tacet.accounting.pld.capped_masses import Grid, tilted_masses
from tacet.accounting.pld.capped_plans import Planner
from tacet.accounting.pld.convolution import Tilted, Window, total
from tacet.accounting.pld.sampled_cells import SampledGaussian
from tacet.accounting.pld.settling import settled_sum
from tacet.accounting.profiles.boxes import Array

__all__ = ["base_apart"]

_U = 2.0**-53
_MARGIN = 64
_FINER = 0.25
_FARTHEST = 1e15
_MOSTLY = math.log(0.75)
_FEWEST = 1 << 11
_WIDE, _ADDED = 16.0, 0.5  # deviations in a window; the share of the variance that may be added
_UNLIKELY = -16.0


def base_apart(
    step: SampledGaussian, count: int, grid: Grid, *, low: float, high: float, nodes: int
) -> list[tuple[Tilted, int]] | None:
    """Laws whose sum's profile lies nowhere below that of so many offsets of outputs below `high`.

    A unit is removed. low: outputs below it have the smallest losses; nodes: of the finer grid.
    None where that would not be much finer.

    Bound       upper.
    Source      docs/proofs/capped.md, Theorem 3.
    """
    base = step.below(low)
    size = float(base.offset[0])
    mass = float(base.log_null[0]) + step.base + size
    if not (count * size > grid.step and mass > _MOSTLY):
        return None
    bottom, top, higher, lower = Planner.of_pieces(step, [((-math.inf, low), count)]).reach(
        grid.tilt
    )
    # no more nodes than it takes: round-off grows with their number. Of all losses each is parted
    # between two nodes, which adds count * size * h to the variance of the sum
    variance = ((top - bottom) / _WIDE) ** 2
    fewest = (top - bottom) / grid.step / _FINER
    fewest = max(fewest, count * size * (top - bottom) / (_ADDED * variance + 1e-300), _FEWEST)
    while nodes / 4 > fewest:
        nodes //= 2
    h = (top - bottom) / (nodes - 2 * _MARGIN)
    start = (bottom - float(count * Fraction(step.base))) / h if h > 0 else math.inf
    if not (nodes > fewest and abs(start) < _FARTHEST):
        return None
    finer = Grid(step=h, tilt=grid.tilt, remove=True, most=grid.most)
    law = piece_above(step, finer, low=-math.inf, high=low)
    rest = piece_above(step, grid, low=low, high=high)
    if law is None or rest is None:
        return None
    steep = 128.0 / (_MARGIN * h)
    window = Window(
        first=math.floor(start) - _MARGIN,
        size=nodes,
        tilt=grid.tilt,
        higher=min(higher, grid.tilt + steep),
        lower=max(lower, grid.tilt - steep),
    )
    smallest = total([(law, count)], step=Fraction(h), window=window, side=1)
    if not (smallest.above < _UNLIKELY and smallest.below < _UNLIKELY):
        return None
    error = float(base.null_error[0] + base.offset_error[0]) + 16 * _U * (
        abs(mass) + size - step.base
    )
    least = (size - float(base.offset_error[0])) * (1 - 8 * _U)
    return [
        (settled_sum(smallest, step=Fraction(grid.step), side=1), 1),
        (_besides(rest, mass - error, max(least, 0.0), grid), count),
    ]


def _besides(rest: Tilted, log_mass: float, offset: float, grid: Grid) -> Tilted:
    """Nothing, or one of the rest instead of one of a set of this mass and offset."""
    h = grid.step
    present = rest.values > 0
    numbers: NDArray[np.int64] = rest.first + np.flatnonzero(present)
    turned = grid.tilt * (numbers * h)
    logs: Array = np.log(rest.values[present]) - turned + (rest.height - log_mass)
    logs = logs + 16 * _U * (np.abs(logs) + 2 * np.abs(turned) + abs(rest.height) + 800)
    down = min(math.expm1(offset) / math.expm1(h) * (1 - 16 * _U), 0.5)
    shares = math.log(max(down, 1e-300)) + 1e-13, math.log1p(-down) + 1e-14
    return tilted_masses(
        np.concatenate(([0.0], logs + shares[0], logs + shares[1])),
        np.concatenate(([0], numbers - 1, numbers)),
        grid,
        drift=rest.drift,
        side=1,
    )
