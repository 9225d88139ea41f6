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

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacet.bits import RandomBits
from tacet.mechanisms.selection.exponential import Exponential
from tacet.query.aggregates.trials import Bins, Draws, settle
from tacet.query.ranking import Finer, Ranking

__all__ = ["draw_points", "rank_losses"]

Integers = NDArray[np.int64]

_MOST_ENTRIES = 1_000_000  # cells times bins held at once


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
    points = np.empty(len(histogram), dtype=np.int64)
    for start in range(0, len(histogram), rows):
        counts = histogram[start : start + rows]
        losses = rank_losses(counts, q, shift=shift)
        if not ranking.shift:
            points[start : start + rows] = mechanism.release_rows(-losses, bits=bits)
            continue
        draws = Draws(
            numbers=np.arange(start, start + len(counts)),
            cells=np.arange(start, start + len(counts)),
            bins=Bins(
                lows=np.broadcast_to(ranking.lows, counts.shape),
                sizes=np.broadcast_to(ranking.sizes, counts.shape),
                weights=counts,
                before=np.cumsum(counts, axis=1) - counts,
            ),
            aims=counts.sum(axis=1) * q.numerator + shift * q.denominator,
            losses=losses,
            denominator=q.denominator,
            factor=mechanism.factor,
            point_log2=0,
        )
        for trial in settle([draws], finer, bits)[0]:
            points[trial.numbers[trial.accepted]] = trial.places[trial.accepted]
    return points
