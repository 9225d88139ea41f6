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
where the noise is small beside the data, less where it is large. It is asked once for all draws of
a question before the first of them (`Counted.near`): bins near where they look are counted finer,
which by the theorem changes nothing of the law. Of the answer only the drawn point leaves. The
trials and the counts are the curator's own (`docs/promise.md`: the time of an answer).

Source: McSherry and Talwar 2007, Theorem 6; Asi and Duchi 2020, arXiv:2005.10630 (inverse
sensitivity); von Neumann 1951 (rejection); proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.query.aggregates.counted import Counted
from unacorda.query.aggregates.trials import Draws, settle

__all__ = ["draw_points", "rank_losses"]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
    return _losses(below, at_most, aims, ends)


def _losses(
    below: Integers, at_most: Integers, aims: Integers, ends: tuple[Flags, Flags]
) -> Integers:
    """ends: which bins cover all ranks below 0, and which all beyond the last."""
    least = np.where(ends[0], np.minimum(below, aims), below)
    most = np.where(ends[1], np.maximum(at_most, aims), at_most)
    losses: Integers = np.maximum(np.maximum(least - aims, aims - most), 0)
    return losses


def draw_points(
    counted: Counted, *, q: Fraction, shift: int, mechanism: Exponential, bits: RandomBits
) -> Integers:
    """A point of the grid for every cell; mechanism: for losses times the denominator of q.

    The aim is rank q n + shift; with a shift the two ends of the grid cover all ranks beyond 0 and
    n.
    """
    steps = counted.ranking.steps
    points = np.empty(counted.cells, dtype=np.int64)
    for batch in counted.batches():
        bins = batch.bins
        below = bins.before * q.denominator
        aims = (bins.before + bins.weights)[:, -1] * q.numerator + shift * q.denominator
        losses = _losses(
            below,
            below + bins.weights * q.denominator,
            aims[:, None],
            ((bins.lows == 0) & (shift != 0), (bins.lows == steps) & (shift != 0)),
        )
        draws = Draws(
            numbers=batch.cells,
            cells=batch.cells,
            bins=bins,
            aims=aims,
            losses=np.where(bins.sizes > 0, losses, losses.max(axis=1, keepdims=True)),
            denominator=q.denominator,
            factor=mechanism.factor,
            point_log2=0,
        )
        for trial in settle([draws], counted.finer, bits)[0]:
            points[trial.numbers[trial.accepted]] = trial.places[trial.accepted]
    return points
