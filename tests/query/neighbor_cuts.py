"""Losses of cuts written down from their definition, for tests on neighbouring tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacet.query.aggregates.several import Cutting
from tacet.query.aggregates.splits import Split

__all__ = ["counts_of", "cut_losses", "cut_moves", "losses_of"]

_PLACES = 2  # of a point: enough to see what a point that is cut in half does


def losses_of(counts: NDArray[Any], split: Split, *, low: int, high: int, places: int) -> Any:
    """|W(low, P) - u W(low, high)| for every place P of the part, cells by places, exact.

    counts: of rows by cell and point; every point has so many places, rows spread evenly.
    """
    by_place = np.repeat(counts, places, axis=1)[:, low:high]
    below = (np.cumsum(by_place, axis=1) - by_place).astype(object)
    total = by_place.sum(axis=1).astype(object)[:, None]
    return abs(below - split.share * total) * Fraction(1, places)


def cut_losses(counts: NDArray[Any], noise: Cutting) -> list[NDArray[Any]]:
    """By level the losses over the steepness, cells by parts by places, earlier cuts held fixed.

    The fixed cuts lie where they would if every point had as many rows as any other.
    """
    length = counts.shape[1] * _PLACES
    found = []
    for level in noise.plan.levels:
        losses = np.zeros((len(counts), len(level), length), dtype=object)
        for number, split in enumerate(level):
            low, high = round(split.low * length), round(split.high * length)
            own = losses_of(counts, split, low=low, high=high, places=_PLACES)
            losses[:, number, low:high] = own / split.steepness
        found.append(losses)
    return found


def counts_of(counts: NDArray[Any]) -> NDArray[Any]:
    """The counts between fixed edges: every third point begins a bin."""
    return np.add.reduceat(counts.astype(object), range(0, counts.shape[1], 3), axis=1)


def cut_moves(before: list[Any], after: list[Any], noise: Cutting, *, pairs: int) -> Fraction:
    """The largest sum over cells and parts of the largest change, or of half the range of changes.

    As a share of what the mechanisms of that level were told.
    """
    worst = Fraction(0)
    for x, y, moves in zip(before, after, noise.plan.moves, strict=True):
        delta = (x - y).reshape(pairs, -1, x.shape[-1])
        largest = abs(delta).max(axis=2).sum(axis=1).max()
        spread = (delta.max(axis=2) - delta.min(axis=2)).sum(axis=1).max()
        worst = max(worst, Fraction(largest) / moves, Fraction(spread) / 2 / moves)
    return worst
