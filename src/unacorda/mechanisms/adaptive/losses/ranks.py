r"""Losses of order statistics, the k-th largest, quantiles, least and largest value: all exact.

With A records below y, C at most y and D above it, B = n - A, and r the 0-based rank that is asked:

- replace one (n is public): max(0, A - r, r + 1 - C);
- add or remove, rank r fixed: max(0, A - r + [y is not there], r + 1 - C); at the upper end, which
  stands beyond the last record, A - r alone. The k-th largest is its mirror image;
- add or remove, the least value with q n records at or below it, q = u / w: an answer below y is
  raised by records added above (each worth u) or removed from below (each worth w - u), until
  (w - u) A < u B; one above y is lowered until (w - u) C >= u D. Whatever is worth more is done. If
  that is a removal and no record is at y, one must be added there.

Proofs: docs/proofs/adaptive_inverse.md, section 2. Only records within `most` ranks of the answer
matter: beyond them every loss is `most`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.mechanisms.adaptive.losses.grid import Grid
from unacorda.mechanisms.adaptive.losses.runs import Runs, Steps, at_one_step

__all__ = ["fixed_rank", "from_the_top", "quantile", "rank_among"]


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """The steps of a grid between and at the records near a rank; A and C count records."""

    starts: Steps
    counts: Steps
    A: Steps
    C: Steps
    known: NDArray[np.bool_]  # False where there are records between: the loss is `most`

    def runs(self, losses: NDArray[Any], most: int) -> Runs:
        capped = np.where(self.known, np.clip(losses, 0, most), most).astype(np.int64)
        kept = self.counts > 0
        starts, counts, capped = self.starts[kept], self.counts[kept], capped[kept]
        # Neighbouring runs of one loss are one run.
        heads = np.flatnonzero(np.diff(capped, prepend=-1))
        return Runs(starts[heads], np.add.reduceat(counts, heads), capped[heads])


def rank_among(rank: int, steps: Steps, *, grid: Grid, most: int) -> Runs:
    """Replace one, the record of this rank; lower below the first one, upper beyond the last."""
    if rank < 0 or rank >= steps.size:
        return at_one_step(grid.first if rank < 0 else grid.last, grid=grid, most=most)
    near = _pieces(steps, rank, grid=grid, most=most)
    return near.runs(np.maximum(near.A - rank, rank + 1 - near.C), most)


def fixed_rank(rank: int, steps: Steps, *, grid: Grid, most: int) -> Runs:
    """Add or remove, the record of this rank, upper where there are too few."""
    if rank < 0:
        return at_one_step(grid.first, grid=grid, most=most)
    near = _pieces(steps, rank, grid=grid, most=most)
    last = near.starts == grid.last
    absent = near.A == near.C
    raised = near.A - rank + (absent & ~last)
    return near.runs(np.where(last, raised, np.maximum(raised, rank + 1 - near.C)), most)


def from_the_top(place: int, steps: Steps, *, grid: Grid, most: int) -> Runs:
    """Add or remove, the record of this place from above, lower where there are too few."""
    near = _pieces(steps, steps.size - place, grid=grid, most=most)
    first = near.starts == grid.first
    absent = near.A == near.C
    above, from_here = steps.size - near.C, steps.size - near.A
    lowered = above - (place - 1) + (absent & ~first)
    return near.runs(np.where(first, lowered, np.maximum(lowered, place - from_here)), most)


def quantile(q: Fraction, steps: Steps, *, grid: Grid, most: int) -> Runs:
    """Add or remove, the least value with q n records at or below it; lower where there is none."""
    n, u, w = steps.size, q.numerator, q.denominator
    near = _pieces(steps, -(-u * n // w) - 1, grid=grid, most=most)
    wide = w * (n + 1) >= 1 << 62  # beyond int64
    A, C = (part.astype(object) if wide else part for part in (near.A, near.C))
    first = near.starts == grid.first
    absent = near.A == near.C
    short = (w - u) * A - u * (n - A)  # f >= y where it is below 0
    beyond = u * (n - C) - (w - u) * C  # f <= y where it is at most 0
    if 2 * u >= w:
        raised = short // u + 1
    else:
        there = short // (w - u) + 1
        raised = np.where(absent, 1 + np.maximum((short - u) // (w - u) + 1, 0), there)
    raised = np.where((short >= 0) & ~first, raised, 0)
    if 2 * u <= w:
        lowered = -(-beyond // (w - u))
    else:
        there = -(-beyond // u)
        added = 1 + np.maximum(-(-(beyond - (w - u)) // u), 0)
        lowered = np.where(absent & ~first, added, there)
    lowered = np.where(beyond > 0, lowered, 0)
    return near.runs(np.maximum(raised, lowered), most)


def _pieces(steps: Steps, rank: int, *, grid: Grid, most: int) -> _Pieces:
    """steps: sorted. Records farther than `most` ranks are not looked at."""
    low = min(max(rank - most, 0), steps.size)
    high = max(min(rank + most + 1, steps.size), low)
    ends = np.array([grid.first, grid.last], dtype=np.int64)
    points = np.unique(np.concatenate([ends, steps[low:high]]))
    A = np.searchsorted(steps, points, side="left").astype(np.int64)
    C = np.searchsorted(steps, points, side="right").astype(np.int64)
    gaps = np.diff(points) - 1
    # A gap with records that were not looked at lies beyond them all.
    known = np.ones(2 * points.size - 1, dtype=np.bool_)
    known[1::2] = C[:-1] == A[1:]
    return _Pieces(
        starts=_alternate(points, points[:-1] + 1),
        counts=_alternate(np.ones_like(points), gaps),
        A=_alternate(A, C[:-1]),
        C=_alternate(C, C[:-1]),
        known=known,
    )


def _alternate(at: Steps, between: Steps) -> Steps:
    mixed = np.empty(at.size + between.size, dtype=np.int64)
    mixed[::2], mixed[1::2] = at, between
    return mixed
