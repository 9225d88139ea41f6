r"""Draws from a fine public grid by rank: the exponential mechanism, exactly, from few counts.

A candidate e is wrong by the distance of an aimed rank a from the ranks that e covers,

    loss(e) = max(#{x < e} - a, a - #{x <= e}, 0),

and is drawn with probability proportional to exp(-f loss(e)), f = epsilon / (2 sensitivity). With
a = q n this is the inverse sensitivity mechanism of a quantile: up to ties, the least number of
rows that must come or go before e is the quantile.

**Refinement.** On a grid of up to 2^40 points the losses of single points are not computed. Of a
bin B the engine says how many lie below it, A, and how many in it, c; every point of it has loss
at least l(B) = max(A - a, a - A - c, 0), and just that if c = 0. So B weighs at most
W(B) = |B| exp(-f l(B)), and a draw goes as follows. (1) Choose a bin with probability proportional
to W, of the bins as they are now, and an even point e of it. (2) Unless c = 0 or |B| = 1, ask the
engine to count in B by smaller bins and around e; then accept e with probability
exp(-f (loss(e) - l(B))). (3) If it was refused, put the smaller bins in place of B, and begin anew.

**Theorem.** The accepted point has exactly the law of the mechanism, and one is accepted with
probability 1. *Proof.* Let the bins of a trial be given, with all that came before. A point e of B
is chosen and accepted with probability W(B)/G |B|^{-1} exp(-f (loss(e) - l(B))) =
exp(-f loss(e)) / G, where G is the sum of all W: proportional to the law, whatever the bins are.
So the point accepted in this trial has the law, given all before and that the trial accepts; hence
the point that is accepted at last. After finitely many refusals no bin is left that could be
refined, and the next trial accepts. QED

How often the engine is asked depends on the data: about once for 10 of the grid's binary digits,
where the noise is small beside the data, less where it is large. Of the answer only the drawn point
leaves. The trials and the counts are the curator's own (`docs/promise.md`: the time of an answer).

Source: McSherry and Talwar 2007, Theorem 6; Asi and Duchi 2020, arXiv:2005.10630 (inverse
sensitivity); von Neumann 1951 (rejection); proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacet.bits import RandomBits
from tacet.mechanisms.coins import coin
from tacet.mechanisms.refine import exp_bounds
from tacet.mechanisms.selection.exponential import Exponential
from tacet.query.ranking import CHILD_BINS_LOG2, Asked, Finer, Ranking

__all__ = ["accepts", "draw_points", "rank_losses"]

Integers = NDArray[np.int64]

_MOST_ENTRIES = 4_000_000  # cells times bins held at once


def rank_losses(counts: Integers, q: Fraction, *, shift: int = 0) -> Integers:
    """The least loss in every bin, times the denominator of q: exact integers, cells by bins.

    The aim is rank q n + shift; with a shift the two ends of the grid, which are bins by
    themselves, cover all ranks beyond 0 and n.
    """
    at_most = np.cumsum(counts, axis=1) * q.denominator
    below = at_most - counts * q.denominator
    aim = at_most[:, -1:] // q.denominator * q.numerator + shift * q.denominator
    if shift:
        below[:, 0] = np.minimum(below[:, 0], aim[:, 0])
        at_most[:, -1] = np.maximum(at_most[:, -1], aim[:, 0])
    losses: Integers = np.maximum(np.maximum(below - aim, aim - at_most), 0)
    return losses


def draw_points(
    histogram: Integers,
    finer: Finer | None,
    *,
    ranking: Ranking,
    q: Fraction,
    shift: int,
    mechanism: Exponential,
    bits: RandomBits,
) -> Integers:
    """A point of the grid for every cell.

    histogram: counts by cell and first bin; finer: counts within bins, needed unless every point
    is a bin; mechanism: for losses times the denominator of q.
    """
    rows = max(1, _MOST_ENTRIES // ranking.bins)
    parts = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(histogram), rows):
        counts = histogram[start : start + rows]
        loss = rank_losses(counts, q, shift=shift)
        if not ranking.shift:
            parts.append(mechanism.release_rows(-loss, bits=bits))
            continue
        assert finer is not None
        bins = mechanism.release_rows(-loss, weights=ranking.sizes, bits=bits)
        cells = [
            _Cell(
                number=start + index,
                aim=int(counts[index].sum()) * q.numerator + shift * q.denominator,
                denominator=q.denominator,
                lows=ranking.lows,
                sizes=ranking.sizes,
                counts=counts[index],
                losses=loss[index],
            )
            for index in range(len(counts))
        ]
        trials = _Trials(cells=cells, finer=finer, mechanism=mechanism, bits=bits)
        parts.append(trials.accepted(bins.tolist()))
    return np.concatenate(parts)


@dataclass(slots=True, kw_only=True)
class _Cell:
    """The bins of one cell, as they are now, and the aimed rank times the denominator of q."""

    number: int
    aim: int
    denominator: int
    lows: Integers
    sizes: Integers
    counts: Integers
    losses: Integers

    def choose(self, mechanism: Exponential, bits: RandomBits) -> int:
        return mechanism.release(-self.losses, weights=self.sizes, bits=bits)

    def settled(self, at: int) -> bool:
        """Whether all points of a bin have its loss."""
        return bool(self.counts[at] == 0 or self.sizes[at] == 1)

    def excess(self, at: int, below: int, level: int) -> int:
        """By how much the loss of a point in a bin, an inner one, exceeds the bin's."""
        first = int(self.counts[:at].sum()) + below
        low, high = first * self.denominator, (first + level) * self.denominator
        return max(low - self.aim, self.aim - high, 0) - int(self.losses[at])

    def refine(self, at: int, shift: int, counts: Integers) -> None:
        """Put smaller bins of 2^shift points in place of one; counts: of each."""
        low, size, step = int(self.lows[at]), int(self.sizes[at]), 1 << shift
        lows = np.arange(low, low + size, step, dtype=np.int64)
        sizes = np.diff(np.append(lows, low + size))
        below = (int(self.counts[:at].sum()) + np.cumsum(counts) - counts) * self.denominator
        at_most = below + counts * self.denominator
        losses = np.maximum(np.maximum(below - self.aim, self.aim - at_most), 0)
        self.lows = _replaced(self.lows, at, lows)
        self.sizes = _replaced(self.sizes, at, sizes)
        self.counts = _replaced(self.counts, at, counts)
        self.losses = _replaced(self.losses, at, losses)


def _replaced(values: Integers, at: int, by: Integers) -> Integers:
    return np.concatenate([values[:at], by, values[at + 1 :]]).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trials:
    """The trials of many cells side by side, so that the engine hears of all at once."""

    cells: list[_Cell]
    finer: Finer
    mechanism: Exponential
    bits: RandomBits

    def accepted(self, bins: list[int]) -> Integers:
        """A point for every cell, of which the bins of the first trial are given."""
        cells, points = self.cells, np.zeros(len(self.cells), dtype=np.int64)
        trying = dict(enumerate(bins))
        while trying:
            for index, at in trying.items():
                size = int(cells[index].sizes[at])
                points[index] = int(cells[index].lows[at]) + self.bits.below(size)
            trying = {index: at for index, at in trying.items() if not cells[index].settled(at)}
            again = self._refused(trying, points) if trying else []
            trying = {index: cells[index].choose(self.mechanism, self.bits) for index in again}
        return points

    def _refused(self, trying: dict[int, int], points: Integers) -> list[int]:
        """The cells whose point is refused, after their bins were refined."""
        cells = self.cells
        lows = [int(cells[index].lows[at]) for index, at in trying.items()]
        sizes = [int(cells[index].sizes[at]) for index, at in trying.items()]
        shifts = [max((size - 1).bit_length() - CHILD_BINS_LOG2, 0) for size in sizes]
        found = self.finer(
            Asked(
                cells=[cells[index].number for index in trying],
                lows=lows,
                highs=[low + size - 1 for low, size in zip(lows, sizes, strict=True)],
                shifts=shifts,
                points=[int(points[index]) for index in trying],
            )
        )
        lines = len(trying)
        below, level = np.zeros(lines, dtype=np.int64), np.zeros(lines, dtype=np.int64)
        np.add.at(below, found.lines, found.below)
        np.add.at(level, found.lines, found.level)
        order = np.argsort(found.lines, kind="stable")
        ends = np.searchsorted(found.lines[order], np.arange(lines + 1))
        refused = []
        for line, (index, at) in enumerate(trying.items()):
            excess = cells[index].excess(at, int(below[line]), int(level[line]))
            if accepts(self.mechanism.factor * excess, self.bits):
                continue
            counts = np.zeros(((sizes[line] - 1) >> shifts[line]) + 1, dtype=np.int64)
            own = order[ends[line] : ends[line + 1]]
            counts[found.children[own]] = found.counts[own]
            cells[index].refine(at, shifts[line], counts)
            refused.append(index)
        return refused


def accepts(exponent: Fraction, bits: RandomBits) -> bool:
    """A coin that shows heads with probability e^-exponent, exactly."""
    if exponent == 0:
        return True
    return bool(coin(partial(exp_bounds, -exponent)).toss(1, bits)[0])
