"""Laws of a sampled step's loss on a grid, from above and below, up to a cap.

See docs/proofs/capped.md. Offsets are told in steps of the grid; a law's losses are its base and an
offset, or less both.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve_banded

from unacorda.accounting.pld.capped_masses import (
    Grid,
    joined,
    laid,
    lowered,
    parted,
    tail_at,
    tilted_masses,
)
from unacorda.accounting.pld.convolution import Tilted
from unacorda.accounting.pld.sampled_cells import SampledGaussian
from unacorda.accounting.profiles.boxes import Array

__all__ = ["CappedLaw", "law_above", "law_below", "piece_above", "piece_below"]

_U = 2.0**-53
_LOWEST = 38.0
_FEW = 4
_BALANCES, _BOUND = 3, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedLaw:
    """What of a step's loss lies below the cap, as `law` on the grid: its nodes plus `base`.

    base_error: how far the base may be off. tail: the outputs above the cap: ln of their masses
    under the law whose loss is counted and under the other, with the error of both; None where
    there are none; place: where they begin. log_masses, offsets: the upper law's masses, and
    bounds of their offsets from below.
    """

    law: Tilted
    base: float
    base_error: float
    tail: tuple[float, float, float] | None
    cap: float
    place: float
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
    found = laid(step, grid, first, last)
    if found is None:
        return None
    nodes, edges, stray = found
    fine = np.union1d(edges, step.mesh(float(edges[0]), float(edges[-1])))
    cells = joined(step.below(float(edges[0])), step.cells(fine))
    cell = np.append(0, np.searchsorted(edges, fine[:-1], side="right"))
    ends, most, least = parted(step, cells, grid, nodes=nodes, cell=cell, stray=stray)
    tail = tail_at(step, float(edges[-1]), grid)
    raised, places = (most if grid.remove else least), ends
    if not grid.remove:
        raised, places = np.append(raised, tail[0] + tail[2]), np.append(places, last)
    law = tilted_masses(raised, places, grid, drift=stray * 1.01, side=1)
    base = grid.sign * step.base
    return CappedLaw(
        law=law,
        base=base,
        base_error=8 * _U * abs(base),
        tail=tail if grid.remove else None,
        cap=base + last * h - stray - 16 * _U * (abs(base) + last * h),
        place=float(edges[-1]),
        log_masses=least,
        offsets=np.maximum(ends * h - stray, 0.0),
    )


def piece_above(step: SampledGaussian, grid: Grid, *, low: float, high: float) -> Tilted | None:
    """As `law_above` of a removed unit, of the outputs between two places, the first maybe -inf.

    Bound       upper.
    Source      docs/proofs/capped.md, Lemma 3 and Theorem 2.
    """
    h = grid.step
    if low == -math.inf:
        first = max(math.ceil(step.offset_at(-_LOWEST) / h), 1)
    else:
        first = max(math.floor(step.offset_at(low) / h), 1)
    last = max(math.ceil(step.offset_at(high) / h), first) + 1
    found = laid(step, grid, first, last) if last - first <= grid.most else None
    if found is None:
        return None
    nodes, edges, stray = found
    start = low if low > -math.inf else min(float(edges[0]), high)
    inner = edges[(edges > start) & (edges < high)]
    fine = np.union1d(np.concatenate((inner, [start, high])), step.mesh(start, high))
    if not (edges[-1] >= high and np.all((fine >= start) & (fine <= high))):
        return None
    cells = step.cells(fine)
    cell = np.searchsorted(edges, fine[:-1], side="right")
    if low == -math.inf:
        cells, cell = joined(step.below(start), cells), np.append(0, cell)
    ends, most, _ = parted(step, cells, grid, nodes=nodes, cell=cell, stray=stray)
    return tilted_masses(most, ends, grid, drift=stray * 1.01, side=1)


def law_below(step: SampledGaussian, grid: Grid, *, top: float) -> CappedLaw | None:
    """A law whose profile lies nowhere above: outputs are gathered about nodes; as `law_above`.

    Bound       lower.
    Source      docs/proofs/capped.md, Lemma 4.
    """
    balanced = _balanced(step, grid, top=top)
    if balanced is None:
        return None
    edges, first, origin = balanced
    cells = joined(step.below(float(edges[0])), step.grouped(edges))
    numbers = np.append(0, np.arange(first + 1, first + len(edges)))
    law = lowered(step, cells, numbers, grid, origin=origin)
    base = grid.sign * (step.base + origin)
    tail = tail_at(step, float(edges[-1]), grid) if grid.remove else None
    none = np.empty(0)
    return CappedLaw(
        law=law,
        base=base,
        base_error=16 * _U * (abs(step.base) + origin),
        tail=tail,
        cap=math.inf,
        place=float(edges[-1]),
        log_masses=none,
        offsets=none,
    )


def piece_below(
    step: SampledGaussian, grid: Grid, *, low: float, high: float
) -> tuple[Tilted, float] | None:
    """As `law_below` of a removed unit, of the outputs between two places, the first maybe -inf.

    And the offset of node 0.

    Bound       lower.
    Source      docs/proofs/capped.md, Lemma 4 and Theorem 2.
    """
    h = grid.step
    if low == -math.inf:
        balanced = _balanced(step, grid, top=step.offset_at(high))
        if balanced is None:
            return None
        edges, first, origin = balanced
        edges = np.append(edges[edges < high], high)
        cells = step.below(float(edges[0]))
        numbers = np.append(0, np.arange(first + 1, first + len(edges)))
        if len(edges) > 1:
            cells = joined(cells, step.grouped(edges))
        return lowered(step, cells, numbers, grid, origin=origin), origin
    first, last = (math.floor(step.offset_at(place) / h) for place in (low, high))
    if last - first > grid.most:
        return None
    halves = np.asarray(np.arange(max(first, 0), last + 1) + 0.5, dtype=np.float64)
    halves = step.places(halves * h)
    edges = np.concatenate(([low], halves[(halves > low) & (halves < high)], [high]))
    if not np.all(np.diff(edges) > 0):
        return None
    cells = step.grouped(edges)
    numbers = np.rint(cells.offset / h).astype(np.int64)
    return lowered(step, cells, numbers, grid, origin=0.0), 0.0


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
