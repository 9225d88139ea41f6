"""Exact draws of places on a grid, of many cells side by side: the exponential mechanism by rank.

A candidate e is wrong by the distance of an aimed rank a from the ranks that e covers,

    loss(e) = max(#{x < e} - a, a - #{x <= e}, 0),

and is drawn with probability proportional to exp(-f loss(e)), f = epsilon / (2 sensitivity). With
a = q n this is the inverse sensitivity mechanism of a quantile: up to ties, the least number of
rows that must come or go before e is the quantile. A place is drawn by its slots, which are public
(`grid`). All places of a bin have the same loss, so that a bin is drawn by its slots times
exp(-f loss), and one of its slots evenly.

**Places among which rows are spread** (`draw_spread`, for cuts) have losses of their own. Every
place of a bin B has at least the loss l(B), the least within it, so that B weighs at most
W(B) = |B| exp(-f l(B)), and a draw goes as follows. (1) Choose a bin with probability proportional
to W, and an even place e of it. (2) Accept e with probability exp(-f (loss(e) - l(B))). (3) If it
was refused, put smaller bins in place of B, and begin anew.

**Theorem.** The accepted place has exactly the law of the mechanism, and one is accepted with
probability 1. *Proof.* Let the bins of a trial be given, with all that came before. A place e of B
is chosen and accepted with probability W(B)/G |B|^{-1} exp(-f (loss(e) - l(B))) =
exp(-f loss(e)) / G, where G is the sum of all W: proportional to the law, whatever the bins are.
So the place accepted in this trial has the law, given all before and that the trial accepts; hence
the place that is accepted at last. After finitely many refusals no bin is left that could be
cut, and the next trial accepts. QED

Of the answer only the drawn place leaves. The trials are the curator's own (`docs/promise.md`: the
time of an answer).

Source: McSherry and Talwar 2007, Theorem 6; Asi and Duchi 2020, arXiv:2005.10630 (inverse
sensitivity); von Neumann 1951 (rejection); proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.refine import LazyUniform, exp_bounds
from unacorda.mechanisms.selection.exponential import Exponential, choose
from unacorda.query.aggregates.grid_counts import GridCounts, PlaceBins, PlaceRuns, counted_up

__all__ = ["SpreadDraws", "accepts", "below_each", "draw_places", "draw_spread", "rank_losses"]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SLACK = 2.0**-46  # far above the error of an exponential in float64
_PIECES = 64  # at most, that a bin is cut into


def below_each(bounds: Integers, bits: RandomBits) -> Integers:
    """Whole numbers that are uniform on {0, ..., bound - 1}, one for each bound."""
    limits = bounds.astype(np.uint64)
    spare = (np.uint64(0) - limits) % limits  # 2^64 modulo the bound: so many words are left over
    found, open_ = np.zeros(len(limits), np.uint64), np.flatnonzero(limits > 1)
    while len(open_):
        words = bits.words(len(open_))
        taken = words >= spare[open_]
        found[open_[taken]] = words[taken] % limits[open_[taken]]
        open_ = open_[~taken]
    return found.astype(np.int64)


def accepts(excess: Any, factor: Fraction, bits: RandomBits) -> Flags:
    """Coins that show heads with probability e^(-factor excess), exactly, one for each excess."""
    heads: Flags = np.asarray(excess == 0, dtype=np.bool_)
    tossed = np.flatnonzero(~heads)
    words = bits.words(len(tossed))
    with np.errstate(under="ignore", over="ignore"):
        chances = np.exp(-float(factor) * np.asarray(excess[tossed], dtype=np.float64))
    uniform = words * 2.0**-64
    heads[tossed] = uniform < chances
    for place in np.flatnonzero(np.abs(uniform - chances) < _SLACK).tolist():
        number = LazyUniform(int(words[place]), length=64, bits=bits)
        heads[tossed[place]] = _decided(number, -factor * int(excess[tossed[place]]))
    return heads


def _decided(uniform: LazyUniform, exponent: Fraction) -> bool:
    """Whether a uniform number is below e^exponent."""
    while True:
        low, high = exp_bounds(exponent, uniform.places)
        spare = uniform.places - uniform.length
        if uniform.value + 1 << spare <= low:
            return True
        if uniform.value << spare >= high:
            return False
        uniform.extend()


def draw_places(
    counted: GridCounts,
    slots: Integers,
    *,
    q: Fraction,
    shift: int,
    mechanism: Exponential,
    bits: RandomBits,
) -> Integers:
    """A place of the grid for every cell; mechanism: for losses times the denominator of q.

    slots: those of a grid. The aim is rank q n + shift; with a shift the two ends of the grid cover
    all ranks beyond 0 and n.
    """
    places = np.empty(counted.cells, dtype=np.int64)
    for batch in counted.batches(slots):
        bins = batch.bins
        below = bins.before * q.denominator
        aims = (bins.before + bins.weights)[:, -1] * q.numerator + shift * q.denominator
        ends = (bins.lows == 0) & (shift != 0), (bins.lows == slots[-2]) & (shift != 0)
        losses = _rank_losses(below, below + bins.weights * q.denominator, aims[:, None], ends)
        # What has no places is not to be the best.
        losses = np.where(bins.sizes > 0, losses, losses.max(axis=1, keepdims=True))
        at = choose(-losses, bins.sizes, factor=mechanism.factor, bits=bits)
        drawn = np.arange(len(at)), at
        found = bins.lows[drawn] + below_each(bins.sizes[drawn], bits)
        places[batch.cells] = np.searchsorted(slots, found, side="right") - 1
    return places


def rank_losses(counts: Integers, q: Fraction, *, shift: int = 0) -> Integers:
    """The least loss in every bin, times the denominator of q: exact integers, cells by bins.

    The aim is rank q n + shift; with a shift the first and the last bin, the two ends of the grid,
    cover all ranks beyond 0 and n.
    """
    at_most = np.cumsum(counts, axis=1) * q.denominator
    below = at_most - counts * q.denominator
    aims = at_most[:, -1:] // q.denominator * q.numerator + shift * q.denominator
    ends = np.zeros(counts.shape, dtype=np.bool_), np.zeros(counts.shape, dtype=np.bool_)
    ends[0][:, 0] = ends[1][:, -1] = shift != 0
    return _rank_losses(below, at_most, aims, ends)


def _rank_losses(
    below: Integers, at_most: Integers, aims: Integers, ends: tuple[Flags, Flags]
) -> Integers:
    """ends: which bins cover all ranks below 0, and which all beyond the last."""
    least = np.where(ends[0], np.minimum(below, aims), below)
    most = np.where(ends[1], np.maximum(at_most, aims), at_most)
    losses: Integers = np.maximum(np.maximum(least - aims, aims - most), 0)
    return losses


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadDraws:
    """Places that were drawn, one a line; the weight of rows below, and that of each place."""

    places: Integers
    below: Any
    level: Any


def draw_spread(
    bins: PlaceBins, aims: Any, *, denominator: int, factor: Fraction, bits: RandomBits
) -> SpreadDraws:
    """A place for every line, of bins among whose places rows are spread evenly.

    bins: weights are multiples of the sizes; every line has some places. aims: the weight to leave
    below, times the denominator; factor: what a unit of loss is worth in the exponent, where a
    loss is the distance from the aim of the weight below, times the denominator.
    """
    lines = len(aims)
    found = SpreadDraws(
        places=np.empty(lines, np.int64),
        below=np.zeros(lines, bins.weights.dtype),
        level=np.zeros(lines, bins.weights.dtype),
    )
    open_ = np.arange(lines)
    while len(open_):
        losses = _least_losses(bins, aims, denominator)
        at = choose(-losses, bins.sizes, factor=factor, bits=bits)
        chosen = np.arange(len(at)), at
        low, size = bins.lows[chosen], bins.sizes[chosen]
        weight, before = bins.weights[chosen], bins.before[chosen]
        steps = below_each(size, bits)
        level = weight // size
        reached = before + level * steps
        excess = np.abs(reached * denominator - aims) - losses[chosen]
        taken = accepts(excess, factor, bits)
        found.places[open_[taken]] = (low + steps)[taken]
        found.below[open_[taken]] = reached[taken]
        found.level[open_[taken]] = level[taken]
        again = np.flatnonzero(~taken)
        pieces = _pieces(low[again], size[again], level[again], before[again])
        bins = bins.of(again).replaced(at[again], pieces)
        open_, aims = open_[again], aims[again]
    return found


def _least_losses(bins: PlaceBins, aims: Any, denominator: int) -> Any:
    """The least loss in every bin; its last place has all of the bin below it but its own rows."""
    first = bins.before * denominator - aims[:, None]
    last = first + (bins.weights - bins.weights // np.maximum(bins.sizes, 1)) * denominator
    losses = np.maximum(np.maximum(first, -last), 0)
    # What has no places is not to be the best.
    there = bins.sizes > 0
    most = np.where(there, losses, 0).max(axis=1, keepdims=True)
    return np.where(there, losses, most)


def _pieces(low: Integers, size: Integers, level: Any, before: Any) -> PlaceBins:
    """Smaller bins in place of one of each line."""
    step = -(-size // _PIECES)
    lengths = -(-size // np.maximum(step, 1))
    lines, skipped = np.repeat(np.arange(len(low)), lengths), counted_up(lengths)
    skipped = skipped * step[lines]
    sizes = np.minimum(step[lines], size[lines] - skipped)
    return PlaceRuns(
        lines=lines,
        lows=low[lines] + skipped,
        sizes=sizes,
        weights=level[lines] * sizes,
        before=before[lines] + level[lines] * skipped,
    ).padded(len(low))
