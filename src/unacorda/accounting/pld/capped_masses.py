"""Masses of cells of outputs moved to the nodes of a grid of offsets, upwards or downwards.

See docs/proofs/capped.md, Lemmas 2 to 4.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.pld.convolution import Side, Tilted, cumulant_of
from unacorda.accounting.pld.sampled_cells import Cells, SampledGaussian
from unacorda.accounting.profiles.boxes import Array

__all__ = ["Grid", "joined", "laid", "lowered", "parted", "tail_at", "tilted_masses"]

_U = 2.0**-53
_FAINT = 690.0
_MOST_STRAY = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A step of offsets, the tilt of losses, whether the unit is removed, and the most nodes."""

    step: float
    tilt: float
    remove: bool
    most: int

    @property
    def sign(self) -> int:
        """How losses go with offsets."""
        return 1 if self.remove else -1


def laid(
    step: SampledGaussian, grid: Grid, first: int, last: int
) -> tuple[NDArray[np.int64], Array, float] | None:
    """Node 0 and those from first to last, places of the latter, how far those may be off them.

    None where the floats are too coarse for the grid.

    Bound       upper, of how far.
    Source      docs/proofs/capped.md, Lemma 3.
    """
    h = grid.step
    nodes = np.append(0, np.arange(first, last + 1))
    edges: Array = step.places(nodes[1:] * h)
    z, z_error = step.z(edges)
    at = Cells(log_null=z, null_error=z_error, z=z, z_error=z_error)
    stray = float(np.max(np.abs(at.offset - nodes[1:] * h) + at.offset_error))
    if not (stray < _MOST_STRAY * h and np.all(np.diff(edges) > 0)):
        return None
    return nodes, edges, stray


def parted(
    step: SampledGaussian,
    cells: Cells,
    grid: Grid,
    *,
    nodes: NDArray[np.int64],
    cell: NDArray[np.int64],
    stray: float,
) -> tuple[NDArray[np.int64], Array, Array]:
    """Cells moved to the nodes beside them: numbers, ln of masses with the most above, the least.

    cell: each lies between nodes[cell] and nodes[cell + 1].

    Bound       upper, with the most above where the unit is removed, else with the least.
    Source      docs/proofs/capped.md, Lemma 3.
    """
    h = grid.step
    low: Array = np.asarray(nodes[cell] * h, dtype=np.float64)
    width: Array = np.asarray((nodes[cell + 1] - nodes[cell]) * h, dtype=np.float64)
    shares = _shares(cells.offset - low, width, cells.offset_error, stray, remove=grid.remove)
    logs, errors = _log_masses(step, cells, grid)
    with np.errstate(divide="ignore"):
        most, least = (
            np.concatenate((logs + errors + np.log(share), logs + errors + np.log1p(-share)))
            for share in shares
        )
    return np.concatenate((nodes[cell + 1], nodes[cell])), most, least


def _shares(
    away: Array, width: Array, error: Array, stray: float, *, remove: bool
) -> tuple[Array, Array]:
    """Bounds from above and below of what of masses goes to the larger offset of two.

    Masses lie `away` from the smaller one, within error + stray; both ends are off by stray.
    """
    wrong = (error + stray) * 1.01
    steep = np.exp((wrong if remove else width + wrong) + 2 * stray)
    turned = (-np.expm1(-away), -np.expm1(-width)) if remove else (np.expm1(away), np.expm1(width))
    with np.errstate(all="ignore"):
        most = (turned[0] + wrong * steep) / (turned[1] - 2 * stray * steep)
        least = (turned[0] - wrong * steep) / (turned[1] + 2 * stray * steep)
    most = np.where(turned[1] > 2 * stray * steep, most * (1 + 32 * _U) + 32 * _U, 1.0)
    least = least * (1 - 32 * _U) - 32 * _U
    return (
        np.clip(np.nan_to_num(most, nan=1.0), 0.0, 1.0),
        np.clip(np.nan_to_num(least, nan=0.0), 0.0, 1.0),
    )


def lowered(
    step: SampledGaussian,
    cells: Cells,
    numbers: NDArray[np.int64],
    grid: Grid,
    *,
    origin: float,
) -> Tilted:
    """Cells as sets at about these nodes, told from the origin; each falls to one not above it.

    Bound       lower.
    Source      docs/proofs/capped.md, Lemma 4.
    """
    h = grid.step
    logs, errors = _log_masses(step, cells, grid)
    # how far each set's loss lies below that of its node
    lacking = cells.offset_error + 16 * _U * (cells.offset + numbers * h)
    lacking = lacking + grid.sign * (origin + numbers * h - cells.offset)
    known = np.isfinite(lacking) & np.isfinite(logs) & np.isfinite(errors)
    numbers, lacking = numbers[known], lacking[known]
    logs, errors = logs[known] - errors[known], errors[known]
    heights = logs + grid.sign * grid.tilt * numbers * h
    drift = _allowance(np.maximum(lacking, 0.0), np.exp(heights - heights.max()), h)
    falls = np.ceil(np.maximum(lacking - drift, 0.0) / h * (1 + 4 * _U))
    near = falls < 1e6
    places = numbers[near] - grid.sign * falls[near].astype(np.int64)
    return tilted_masses(logs[near], places, grid, drift=drift * (1 + 8 * _U), side=-1)


def _allowance(lacking: Array, weights: Array, h: float) -> float:
    """How much lower all nodes may best lie, instead of that sets fall by whole steps."""
    order = np.argsort(lacking)
    ends, masses = lacking[order], weights[order] / weights.sum()
    beyond = np.maximum(1.0 - np.cumsum(masses), 0.0)
    costs = ends + h * beyond
    return float(ends[np.argmin(costs)])


def _log_masses(step: SampledGaussian, cells: Cells, grid: Grid) -> tuple[Array, Array]:
    """Masses as logarithms, under the law whose loss is counted, and bounds of their errors."""
    if not grid.remove:
        return cells.log_null, cells.null_error
    logs = cells.log_null + step.base + cells.offset
    error = cells.null_error + cells.offset_error + 8 * _U * (np.abs(logs) + abs(step.base))
    return logs, error


def tail_at(step: SampledGaussian, place: float, grid: Grid) -> tuple[float, float, float]:
    """CappedLaw.tail of what lies above a place.

    Bound       both: the last number is the error of the others.
    Source      docs/proofs/capped.md, Lemma 2.
    """
    above = step.above(place)
    null = float(above.log_null[0])
    mixed = null + step.base + float(above.offset[0])
    error = float(above.null_error[0] + above.offset_error[0]) + 16 * _U * (abs(mixed) + 1)
    return (mixed, null, error) if grid.remove else (null, mixed, error)


def joined(first: Cells, second: Cells) -> Cells:
    """The cells of both.

    Bound       none: it only gathers.
    Source      the cells.
    """
    return Cells(
        log_null=np.concatenate((first.log_null, second.log_null)),
        null_error=np.concatenate((first.null_error, second.null_error)),
        z=np.concatenate((first.z, second.z)),
        z_error=np.concatenate((first.z_error, second.z_error)),
    )


def _pushed(
    logs: Array, offsets: NDArray[np.int64], grid: Grid, drift: float
) -> tuple[Array, NDArray[np.int64]]:
    """Masses whose losses are at most `drift` above their nodes, but at node 0: none are then.

    Each is parted between its node and the next larger loss as a mass between both would be.
    """
    moved = offsets > 0
    share = math.expm1(-drift) / math.expm1(-grid.step)
    up, stay = math.log(share) + 1e-13, math.log1p(-share * (1 - 1e-13)) + 4 * _U
    return (
        np.concatenate((np.where(moved, logs + stay, logs), logs[moved] + up)),
        np.concatenate((offsets, offsets[moved] + grid.sign)),
    )


def tilted_masses(
    logs: Array, offsets: NDArray[np.int64], grid: Grid, *, drift: float, side: Side
) -> Tilted:
    """Masses at numbers of offsets as a law under the tilt, rounded to the side.

    Bound       to the side.
    Source      docs/proofs/pld.md, Theorem 2.
    """
    if side > 0 and drift > 0:
        logs, offsets = _pushed(logs, offsets, grid, drift)
        drift = 0.0
    present = logs > -math.inf
    numbers = grid.sign * offsets[present]
    turned = grid.tilt * (numbers * grid.step)
    heights = logs[present] + turned
    peak = float(np.max(heights))
    if side > 0:
        heights = np.maximum(heights, peak - _FAINT)
    first = int(numbers.min())
    with np.errstate(under="ignore"):
        sizes = np.exp(heights - peak)
        above = float(np.sum(sizes))
        height, loose = peak, 16 * _U * (np.abs(turned) + np.abs(logs[present]))
        if above < 2.0:  # the largest weighs more than all others: it is 1, its error told apart
            largest = int(np.argmax(heights))
            height += side * float(loose[largest])
        else:
            height, largest = peak + math.log(above), -1
        loose = loose + 16 * _U * (abs(height) + 4)
        own = np.exp(heights - height + side * loose)
        if largest >= 0:
            own[largest] = 1.0
        values: Array = np.asarray(np.bincount(numbers - first, weights=own), dtype=np.float64)
        most = int(np.max(np.bincount(numbers - first)))
        values = values * (1 + side * 2 * _U * (most + 2))
        if largest >= 0:  # its node is summed exactly, and rounded once
            node = numbers[largest]
            values[node - first] = math.fsum(own[numbers == node]) * (1 + side * 2 * _U)
    step = Fraction(grid.step)
    return Tilted(
        first=first,
        values=values,
        height=height,
        cumulant=cumulant_of(first, values, height=height, step=step, tilt=grid.tilt),
        infinity=0.0,
        drift=drift,
    )
