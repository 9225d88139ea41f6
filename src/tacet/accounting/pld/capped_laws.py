"""Laws of a sampled step's loss on a grid, from above and below, up to a cap.

See docs/proofs/capped.md. Offsets are told in steps of the grid; a law's losses are its base and an
offset, or less both.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from tacet.accounting.pld.convolution import Side, Tilted, cumulant_of
from tacet.accounting.pld.sampled_cells import Cells, SampledGaussian
from tacet.accounting.profiles.boxes import Array

__all__ = ["CappedLaw", "Grid", "law_above", "law_below"]

_U = 2.0**-53
_FAINT = 690.0
_LOWEST = 38.0
_FEW = 4
_BALANCES, _BOUND = 3, 0.8
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedLaw:
    """What of a step's loss lies below the cap, as `law` on the grid: its nodes plus `base`.

    base_error: how far the base may be off. tail: the outputs above the cap: ln of their masses
    under the law whose loss is counted and under the other, with the error of both; None where
    there are none. log_masses, offsets: the upper law's masses, and bounds of their offsets from
    below.
    """

    law: Tilted
    base: float
    base_error: float
    tail: tuple[float, float, float] | None
    cap: float
    log_masses: Array = field(repr=False)
    offsets: Array = field(repr=False)


def law_above(step: SampledGaussian, grid: Grid, *, top: float) -> CappedLaw | None:
    """A law whose profile lies nowhere below; top: the largest offset that is of interest.

    None where the floats are too coarse for the grid.

    Bound       upper.
    Source      docs/proofs/capped.md, Lemma 3.
    """
    h = grid.step
    first = max(math.ceil(step.offset_at(-_LOWEST) / h), 1)
    if first > grid.most:
        return None
    last = max(min(math.floor(top / h), grid.most), first)
    nodes = np.append(0, np.arange(first, last + 1))
    edges: Array = step.places(nodes[1:] * h)
    z, z_error = step.z(edges)
    at = Cells(log_null=z, null_error=z_error, z=z, z_error=z_error)
    stray = float(np.max(np.abs(at.offset - nodes[1:] * h) + at.offset_error))
    if not (stray < _MOST_STRAY * h and np.all(np.diff(edges) > 0)):
        return None
    fine = np.union1d(edges, step.mesh(float(edges[0]), float(edges[-1])))
    cells = _joined(step.below(float(edges[0])), step.cells(fine))
    cell = np.append(0, np.searchsorted(edges, fine[:-1], side="right"))
    low, width = nodes[cell] * h, (nodes[cell + 1] - nodes[cell]) * h
    shares = _shares(cells.offset - low, width, cells.offset_error, stray, remove=grid.remove)
    logs, errors = _log_masses(step, cells, grid)
    ends = np.concatenate((nodes[cell + 1], nodes[cell]))
    with np.errstate(divide="ignore"):
        most, least = (
            np.concatenate((logs + errors + np.log(share), logs + errors + np.log1p(-share)))
            for share in shares
        )
    tail = _tail(step, float(edges[-1]), grid)
    raised, places = (most if grid.remove else least), ends
    if not grid.remove:
        raised, places = np.append(raised, tail[0] + tail[2]), np.append(places, last)
    law = _tilted(raised, places, grid, drift=stray * 1.01, side=1)
    base = grid.sign * step.base
    return CappedLaw(
        law=law,
        base=base,
        base_error=8 * _U * abs(base),
        tail=tail if grid.remove else None,
        cap=base + last * h - stray - 16 * _U * (abs(base) + last * h),
        log_masses=least,
        offsets=np.maximum(ends * h - stray, 0.0),
    )


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


def law_below(step: SampledGaussian, grid: Grid, *, top: float) -> CappedLaw | None:
    """A law whose profile lies nowhere above: outputs are gathered about nodes; as `law_above`.

    Bound       lower.
    Source      docs/proofs/capped.md, Lemma 4.
    """
    h = grid.step
    balanced = _balanced(step, grid, top=top)
    if balanced is None:
        return None
    edges, first, origin = balanced
    cells = _joined(step.below(float(edges[0])), step.grouped(edges))
    numbers = np.append(0, np.arange(first + 1, first + len(edges)))
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
    law = _tilted(logs[near], places, grid, drift=drift * (1 + 8 * _U), side=-1)
    base = grid.sign * (step.base + origin)
    tail = _tail(step, float(edges[-1]), grid) if grid.remove else None
    return CappedLaw(
        law=law,
        base=base,
        base_error=16 * _U * (abs(step.base) + origin),
        tail=tail,
        cap=math.inf,
        log_masses=logs,
        offsets=logs,
    )


def _balanced(step: SampledGaussian, grid: Grid, *, top: float) -> tuple[Array, int, float] | None:
    """Edges of sets whose losses are about nodes, the number of the node below the first edge.

    And the offset of node 0: where it matters, that of what lies below the first edge. By Newton's
    method from the half nodes on, from the last edge to the first, along which errors shrink with
    the masses.
    """
    h = grid.step
    lowest = step.offset_at(-_LOWEST)
    origin = 0.0
    for _ in range(6):
        start = max(float(step.places(np.array([origin + 0.5 * h]))[0]), -_LOWEST)
        origin = float(step.below(start).offset[0])
    first = max(math.ceil((lowest - origin) / h - 0.5), 0)
    last = min(math.floor((top - origin) / h - 0.5), grid.most)
    if last < first + _FEW:  # all are gathered
        edges = step.places(np.array([top]))
        return edges, 0, float(step.below(float(edges[0])).offset[0])
    nodes = np.arange(first, last + 1)
    edges = step.places(np.asarray(origin + (nodes + 0.5) * h, dtype=np.float64))
    if not np.all(np.diff(edges) > 0):
        return None
    for _ in range(_BALANCES):
        cells = step.grouped(edges)
        offsets = origin + nodes[1:] * h
        wanted = offsets + np.log(-np.expm1(-offsets))
        z = step.z(edges)[0]
        with np.errstate(all="ignore"):
            level = -0.5 * edges * edges - 0.5 * math.log(2 * math.pi)
            low = np.exp(level[:-1] - cells.log_null) * -np.expm1(z[:-1] - cells.z)
            high = np.exp(level[1:] - cells.log_null) * np.expm1(z[1:] - cells.z)
            lack = wanted - cells.z
        good = (low > 0) & (high > 0) & np.isfinite(low + high + lack)
        low, high = np.where(good, low, 1.0), np.where(good, high, 0.0)
        lack = np.where(good, lack, 0.0)
        # low[k] move[k] + high[k] move[k + 1] = lack[k] + slope[k] turn, the last edge stays; the
        # nodes move by turn with the first edge, as the offset of what lies below it does
        slope = np.where(good, -1 / np.expm1(-offsets), 0.0)
        band = np.zeros((2, len(low)))
        band[1], band[0, 1:] = low, high[:-1]
        both = solve_banded((0, 1), band, np.stack((lack, slope), axis=1), check_finite=False)
        lump = step.below(float(edges[0]))
        with np.errstate(all="ignore"):
            pull = np.exp(level[:1] - lump.log_null) * np.expm1(z[:1] - lump.z)
            pull = pull * -np.expm1(-lump.offset)
            turn = pull * both[0, 0] / (1 - pull * both[0, 1])
        bound = bool(np.abs(pull * both[0, 1])[0] < _BOUND and np.abs(turn)[0] < h)
        move = np.append(both[:, 0] + (turn * both[:, 1] if bound else 0.0), 0.0)
        gaps = np.diff(edges)
        room = 0.4 * np.minimum(np.append(gaps, gaps[-1]), np.append(gaps[0], gaps))
        edges = edges + np.clip(np.nan_to_num(move), -room, room)
        if bound:  # else so little lies below the first edge that its loss may fall to a node
            origin = float(step.below(float(edges[0])).offset[0])
    return (edges, first, origin) if np.all(np.diff(edges) > 0) else None


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


def _tail(step: SampledGaussian, place: float, grid: Grid) -> tuple[float, float, float]:
    """CappedLaw.tail of what lies above a place."""
    above = step.above(place)
    null = float(above.log_null[0])
    mixed = null + step.base + float(above.offset[0])
    error = float(above.null_error[0] + above.offset_error[0]) + 16 * _U * (abs(mixed) + 1)
    return (mixed, null, error) if grid.remove else (null, mixed, error)


def _joined(first: Cells, second: Cells) -> Cells:
    return Cells(
        log_null=np.concatenate((first.log_null, second.log_null)),
        null_error=np.concatenate((first.null_error, second.null_error)),
        z=np.concatenate((first.z, second.z)),
        z_error=np.concatenate((first.z_error, second.z_error)),
    )


def _tilted(
    logs: Array, offsets: NDArray[np.int64], grid: Grid, *, drift: float, side: Side
) -> Tilted:
    """Masses at numbers of offsets as a law under the tilt, rounded to the side."""
    present = logs > -math.inf
    numbers = grid.sign * offsets[present]
    turned = grid.tilt * (numbers * grid.step)
    heights = logs[present] + turned
    peak = float(np.max(heights))
    if side > 0:
        heights = np.maximum(heights, peak - _FAINT)
    first = int(numbers.min())
    with np.errstate(under="ignore"):
        height = peak + math.log(float(np.sum(np.exp(heights - peak))))
        loose = 16 * _U * (np.abs(turned) + np.abs(logs[present]) + abs(height) + 4)
        own = np.exp(heights - height + side * loose)
        values: Array = np.asarray(np.bincount(numbers - first, weights=own), dtype=np.float64)
        most = int(np.max(np.bincount(numbers - first)))
    values = values * (1 + side * 2 * _U * (most + 2))
    step = Fraction(grid.step)
    return Tilted(
        first=first,
        values=values,
        height=height,
        cumulant=cumulant_of(first, values, height=height, step=step, tilt=grid.tilt),
        infinity=0.0,
        drift=drift,
    )
