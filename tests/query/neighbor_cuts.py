"""Losses of cuts and chains from their definition, for tests on neighboring tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.seams import Chain, Cutting, QuantileDraws, TreeCut

__all__ = ["counts_of", "cut_losses", "cut_moves", "losses_of"]

_PLACES = 2  # of a point: enough to see what a point that is cut in half does


def losses_of(counts: NDArray[Any], split: TreeCut, *, low: int, high: int) -> NDArray[Any]:
    """|W(low, P) - u W(low, high)| for every place P of the part, cells by places.

    In units of one row over the places of a point and the denominator of u. counts: of rows by
    cell and point, whose rows are spread evenly over its places.
    """
    by_place = np.repeat(counts, _PLACES, axis=1)[:, low:high]
    below = np.cumsum(by_place, axis=1) - by_place
    total = by_place.sum(axis=1, keepdims=True)
    losses: NDArray[Any] = np.abs(below * split.share.denominator - total * split.share.numerator)
    return losses


def cut_losses(counts: NDArray[Any], noise: QuantileDraws) -> list[NDArray[Any]]:
    """Of every split the losses, cells by places, earlier cuts held fixed; or those of chains.

    The fixed cuts lie where they would if every point had as many rows as any other.
    """
    if isinstance(noise, Chain):
        return [_chain_losses(counts, noise)]
    assert isinstance(noise, Cutting)
    length = counts.shape[1] * _PLACES
    return [
        losses_of(counts, split, low=round(split.low * length), high=round(split.high * length))
        for level in noise.plan.levels
        for split in level
    ]


def _chain_losses(counts: NDArray[Any], noise: Chain) -> NDArray[Any]:
    """Of 200 chains by chance, cells by chains, about a count of 3; in units of `_chain_unit`."""
    unit, total = _chain_unit(noise), 3
    by_place = np.repeat(counts, _PLACES, axis=1).astype(object)
    zero = np.zeros((len(counts), 1), dtype=object)
    below = np.concatenate([zero, np.cumsum(by_place, axis=1)], axis=1) * (unit // _PLACES)
    source, last = np.random.default_rng(6), by_place.shape[1]
    drawn = np.sort(source.integers(0, last, (200, len(noise.wanted))), axis=1)
    ends = np.concatenate([np.zeros((200, 1), int), drawn, np.full((200, 1), last)], axis=1)
    losses: NDArray[Any] = np.zeros((len(counts), 200), dtype=object)
    ranks = [Fraction(0), *noise.wanted, Fraction(1)]
    for part, (low, high) in enumerate(itertools.pairwise(ranks)):
        rows = below[:, ends[:, part + 1]] - below[:, ends[:, part]]
        losses = losses + np.abs(rows - int((high - low) * total * unit))
    return losses


def _chain_unit(noise: Chain) -> int:
    return _PLACES * math.lcm(*(q.denominator for q in noise.wanted))


def _chain_moved(
    before: NDArray[Any], after: NDArray[Any], noise: Chain, *, pairs: int
) -> Fraction:
    """The largest sum over cells of the largest change, as a share of what the draws were told."""
    delta = np.abs(before - after).reshape(pairs, -1, before.shape[1])
    moved = int(delta.max(axis=2).sum(axis=1).max())
    return Fraction(moved, _chain_unit(noise)) / Fraction(noise.draws.mechanism.sensitivity)


def counts_of(counts: NDArray[Any]) -> NDArray[Any]:
    """The counts between fixed edges: every third point begins a bin."""
    return np.add.reduceat(counts.astype(object), range(0, counts.shape[1], 3), axis=1)


def cut_moves(before: list[Any], after: list[Any], noise: QuantileDraws, *, pairs: int) -> Fraction:
    """The largest sum over cells and parts of the largest change, or of half the range of changes.

    As a share of what the mechanisms of that level were told.
    """
    if isinstance(noise, Chain):
        return _chain_moved(before[0], after[0], noise, pairs=pairs)
    assert isinstance(noise, Cutting)
    worst, moved = Fraction(0), iter(zip(before, after, strict=True))
    for level, moves in zip(noise.plan.levels, noise.plan.moves, strict=True):
        totals: Any = np.zeros((2, pairs), dtype=object)
        for split in level:
            x, y = next(moved)
            if x.shape[1]:
                delta = (x - y).reshape(pairs, -1, x.shape[1])
                largest = np.abs(delta).max(axis=2).sum(axis=1)
                spread = (delta.max(axis=2) - delta.min(axis=2)).sum(axis=1)
                unit = moves * split.steepness * split.share.denominator * _PLACES
                totals += np.array([2 * largest, spread]).astype(object) * (1 / (2 * unit))
        worst = max(worst, totals.max())
    return worst
