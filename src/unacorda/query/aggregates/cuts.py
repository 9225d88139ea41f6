r"""Cuts of rows that are ordered on a fine grid, and cuts of the parts between them, drawn exactly.

The finest grid has 2^16 places for every point of the public grid, and the rows at a point are
spread evenly over its places: of c rows a cut at place P counts those at lower points and c times
the share of the point's places below P. A part is what lies between two cuts, lo <= P < hi, and
holds a weight of rows W(lo, hi), not always a whole number. A split of it at the share u is a
place P of the part, drawn with probability proportional to

    exp(-f |W(lo, P) - u W(lo, hi)|),    f = epsilon / (2 moves max(u, 1 - u)).

(Rows that are equal must go to both sides of a cut, in the right proportion: with all of them on
one side, or half of them on either, what is sought in the parts would be the wrong rank.)

**Theorem.** Let the splits of one level cut disjoint parts, in all cells, and let `moves` bound the
sum over parts and cells of (largest change of any loss) / max(u, 1 - u). Then given the earlier
cuts, the cuts of the level together have bounded range epsilon. *Proof.* Given the parts, splits
are independent. In one part a log-probability moves by f times the change of its loss, up to the
normaliser, that is within a range of 2 f times the largest change; f is epsilon / (2 moves) over
the steepness, so that these ranges add up to epsilon. And a unit's rows that come, k, moves each
loss by k (u - 1) to k u: a row adds its weight w in the part, 0 <= w <= 1, to W(lo, hi), and
between 0 and w to W(lo, P); its weights in all parts of a cell add up to 1 at most. `splits` takes
it from there: what it maximises is convex in the weights, so that fractions reach no further than
whole rows. QED

Levels one after the other compose, as mechanisms that see what was drawn before: their epsilons
add up, in zCDP the squares of them over 8. (The range of all levels together may pass the sum of
their epsilons, since the normaliser of a level depends on the earlier cuts.)

**Drawing.** As in `ranks`, by rejection from bins, with |B| exp(-f l(B)) as the weight of a bin,
l(B) the least loss that its counts allow. Within one point all is known, since rows are spread
evenly; of a bin of several points the engine is asked. The law is that of the theorem, whatever
the bins.

Source: Kaplan, Schnapp, Stemmer 2022, arXiv:2110.05429, for single rows; proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.query.aggregates.bins import Bins
from unacorda.query.aggregates.counted import Batch, Counted
from unacorda.query.aggregates.grid_counts import Finer
from unacorda.query.aggregates.splits import Plan, Split
from unacorda.query.aggregates.trials import Draws, settle

__all__ = ["PLACES_LOG2", "cut_points", "mechanism_of"]

Integers = NDArray[np.int64]

PLACES_LOG2 = 16
"""The logarithm of how many places a point of the public grid has."""

_WIDEST = 62  # bits of a loss in int64


def mechanism_of(split: Split, even: Exponential) -> Exponential:
    """The mechanism of a split, for losses times 2^16 and the denominator of its share.

    even: that of a split of steepness 1, for losses in rows.
    """
    unit = split.share.denominator << PLACES_LOG2
    sensitivity = Fraction(even.sensitivity) * split.steepness * unit
    return Exponential(epsilon=even.epsilon, sensitivity=sensitivity)


def cut_points(
    counted: Counted, *, plan: Plan, mechanisms: Mapping[Split, Exponential], bits: RandomBits
) -> dict[Fraction, Integers]:
    """By quantile, wanted or not, the point of the grid that its cut falls on in every cell.

    mechanisms: of every split, as `mechanism_of` makes them.
    """
    found = {split.at: np.empty(counted.cells, dtype=np.int64) for split in mechanisms}
    for batch in counted.batches():
        drawn = _cut(batch, counted.finer, plan=plan, mechanisms=mechanisms, bits=bits)
        for at, points in drawn.items():
            found[at][batch.cells] = points
    return found


def _cut(
    batch: Batch,
    finer: Finer | None,
    *,
    plan: Plan,
    mechanisms: Mapping[Split, Exponential],
    bits: RandomBits,
) -> dict[Fraction, Integers]:
    """The same for some cells."""
    base = _all_places(batch.bins, plan)
    edges = {Fraction(0): _Edge.of(base, 0), Fraction(1): _Edge.of(base, -1)}
    found: dict[Fraction, Integers] = {}
    for level in plan.levels:
        given = [_part(base, edges[split.low], edges[split.high]) for split in level]
        # A part of no places has nothing to be drawn: the cut is where it begins.
        open_ = [np.flatnonzero((part.sizes > 0).any(axis=1)) for part in given]
        draws = [
            _draws(
                part.of(lines),
                split,
                mechanisms[split],
                below=edges[split.low].weight,
                numbers=lines,
                cells=batch.cells,
            )
            for part, lines, split in zip(given, open_, level, strict=True)
        ]
        trials = iter(settle([one for one in draws if len(one.cells)], finer, bits))
        for split, one in zip(level, draws, strict=True):
            edge = edges[split.low].copy()
            for trial in next(trials) if len(one.cells) else []:
                edge.note(trial)
            edges[split.at] = edge
            found[split.at] = edge.place >> PLACES_LOG2
    return found


def _all_places(bins: Bins, plan: Plan) -> Bins:
    """All places of every cell; weights are of rows times 2^16, in 64 bits where losses fit."""
    weights: Any = bins.weights
    before: Any = bins.before
    unit = max(split.share.denominator for level in plan.levels for split in level) << PLACES_LOG2
    if (int((before + weights).max(initial=0)) * unit).bit_length() > _WIDEST:
        weights, before = weights.astype(object), before.astype(object)
    return Bins(
        lows=bins.lows << PLACES_LOG2,
        sizes=bins.sizes << PLACES_LOG2,
        weights=weights << PLACES_LOG2,
        before=before << PLACES_LOG2,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """Where every cell is cut, and the point around the cut; with the weights below all three.

    place: of the cut; begin, end: the first place of its point, and the first one after it.
    """

    place: Integers
    begin: Integers
    end: Integers
    weight: Any
    begin_weight: Any
    end_weight: Any

    @staticmethod
    def of(bins: Bins, side: int) -> _Edge:
        """The first (0) or the last (-1) end of the grid."""
        place = bins.lows[:, side] - side * bins.sizes[:, side]
        weight = bins.before[:, side] - side * bins.weights[:, side]
        return _Edge(
            place=place,
            begin=place,
            end=place,
            weight=weight,
            begin_weight=weight,
            end_weight=weight,
        )

    def copy(self) -> _Edge:
        """The same in arrays of its own."""
        names = ("place", "begin", "end", "weight", "begin_weight", "end_weight")
        return _Edge(**{name: getattr(self, name).copy() for name in names})

    def note(self, trial: Draws) -> None:
        """Where a trial's draws were accepted."""
        lines = np.flatnonzero(trial.accepted)
        cells, place, level = trial.numbers[lines], trial.places[lines], trial.level[lines]
        low, _, _, before = (part[lines] for part in trial.chosen)
        begin = place >> PLACES_LOG2 << PLACES_LOG2
        # Of a bin within one point the level is known from its own first place on.
        start = np.where(trial.several[lines], begin, low)
        reached = before + (trial.below[lines] << PLACES_LOG2) + level * (place - start)
        self.place[cells], self.begin[cells] = place, begin
        self.end[cells] = begin + (1 << PLACES_LOG2)
        self.weight[cells] = reached
        self.begin_weight[cells] = reached - level * (place - begin)
        self.end_weight[cells] = reached + level * (begin + (1 << PLACES_LOG2) - place)


def _part(base: Bins, start: _Edge, stop: _Edge) -> Bins:
    """What lies between two cuts: the bins of all, cut off there, and the rest of both points."""
    low = np.minimum(start.end, stop.place)
    low_weight = np.where(start.end <= stop.place, start.end_weight, stop.weight)
    high = np.maximum(stop.begin, low)
    high_weight = np.where(stop.begin >= low, stop.begin_weight, low_weight)

    def between(first: Any, inner: Any, last: Any, ends: tuple[Any, Any]) -> Any:
        cut = np.clip(inner, ends[0][:, None], ends[1][:, None])
        return np.concatenate([first[:, None], cut, last[:, None]], axis=1)

    lows = between(start.place, base.lows, high, (low, high))
    ends = between(low, base.lows + base.sizes, stop.place, (low, high))
    weights = low_weight, high_weight
    before = between(start.weight, base.before, high_weight, weights)
    after = between(low_weight, base.before + base.weights, stop.weight, weights)
    some = (ends > lows).any(axis=0)
    return Bins(
        lows=lows[:, some],
        sizes=(ends - lows)[:, some],
        weights=(after - before)[:, some],
        before=before[:, some],
    )


def _draws(
    part: Bins,
    split: Split,
    mechanism: Exponential,
    *,
    below: Any,
    numbers: Integers,
    cells: Integers,
) -> Draws:
    """The draws of a cut in some of these cells, by their numbers among them.

    below: the weight before the parts of all cells.
    """
    share, total = split.share, part.weights.sum(axis=1)
    return Draws.of(
        numbers,
        cells[numbers],
        part,
        below[numbers] * share.denominator + total * share.numerator,
        denominator=share.denominator,
        factor=mechanism.factor,
        point_log2=PLACES_LOG2,
    )
