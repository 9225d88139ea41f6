r"""Losses that are constant on runs of grid steps.

The loss of an answer y is the least number of records to change so that the statistic, rounded to
the grid, is y. Where it is not known whether the statistic can stop at y, it is the least number
that bring it to y or beyond: the passing loss, the larger of the distances to {f >= y} and to
{f <= y}. Both are distances to sets of tables (or the larger of two), so between neighbours they
move by at most 1, whatever f is; both are 0 at f(x) and nowhere else; and an answer of loss k or
less lies between the least and the largest value that f takes within k changes.

All losses end at a public `most`: the least of a loss and a constant moves by at most 1 too.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unacorda.mechanisms.adaptive.losses.grid import Grid

__all__ = ["Runs", "at_one_step", "from_reach"]

Steps = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Every step of a grid, in runs of one loss. Private: it tells the data.

    starts: the first step of each run, rising; counts: how many steps it holds, 1 or more;
    losses: 0 or above.
    """

    starts: Steps
    counts: Steps
    losses: Steps

    def loss(self, step: int) -> int:
        """The loss at a step."""
        return int(self.losses[np.searchsorted(self.starts, step, side="right") - 1])


def from_reach(lows: Sequence[int], highs: Sequence[int], *, grid: Grid, most: int) -> Runs:
    """The passing losses, from the least and the largest step that k changes lead to.

    lows, highs: for k = 0, 1, ... at most `most`; lows[0] = highs[0] is the answer. Steps beyond
    the last ones have the loss `most`.
    """
    up = np.clip(np.array(highs, dtype=np.int64), grid.first, grid.last)
    down = np.clip(np.array(lows, dtype=np.int64), grid.first, grid.last)
    ends = np.concatenate([[grid.first], down[::-1], up + 1, [grid.last + 1]]).astype(np.int64)
    changes = np.concatenate(
        [
            [most],
            np.arange(down.size - 1, 0, -1),
            [0],
            np.arange(1, up.size),
            [most],
        ]
    )
    counts = np.diff(ends)
    kept = counts > 0
    losses = np.minimum(changes, most).astype(np.int64)
    return Runs(ends[:-1][kept], counts[kept], losses[kept])


def at_one_step(step: int, *, grid: Grid, most: int) -> Runs:
    """Losses of an answer that no change of records can move."""
    return from_reach([step], [step], grid=grid, most=most)
