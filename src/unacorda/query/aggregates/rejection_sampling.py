"""Exact draws from grids too fine to be counted whole, of many cells side by side.

A line is one draw: a cell, or a part of one, as its bins are now. Lines that try again do so at
once, so that the engine hears of all of them in one question, and their weights, proposals and
coins are computed as arrays. What is random is decided as exactly as one by one.

Draws from a fine public grid by rank: the exponential mechanism, exactly, from few counts.

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

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.refine import LazyUniform, exp_bounds
from unacorda.mechanisms.selection.exponential import Exponential, choose
from unacorda.query.aggregates.grid_counts import (
    CHILD_BINS_LOG2,
    Asked,
    Bins,
    Counted,
    Finer,
    Runs,
    bit_lengths,
    counted_up,
    smaller,
)

__all__ = [
    "Draws",
    "accepts",
    "below_each",
    "draw_points",
    "rank_losses",
    "settle",
]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SLACK = 2.0**-46  # far above the error of an exponential in float64


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


Pairs = tuple[Integers, Integers]
"""Bins: their lines and columns."""

_PIECES = 64  # at most, of a bin within a point
_COARSE = 1.0  # in the exponent: bins whose places may differ by more are cut first
_FINE = 0.25  # by how much those may differ that they are cut into
_LIKELY = 2.0**-8  # if they have at least so much of the weight of their line
_LEAST = 2.0**-14  # at first, or so much for each line
_EACH = 2.0**-18
_RARE = 0.1  # and fewer proposals than so many are left to their chance
_MOST_CUT = 4_000_000  # bins of all lines, about, that they are cut into


@dataclass(slots=True, kw_only=True)
class Draws:
    """One trial of draws from bins, one a line, at one rate.

    numbers: the caller's, of each line; cells: which are asked about. aims: the weight to leave
    below, times the denominator; losses: of every bin the least, likewise. factor: what a unit of
    loss is worth in the exponent. point_log2: the logarithm of how many places a point has; where
    it is 0, rows at a point are on both sides of it, else they are spread evenly over its places.

    places: what was proposed; at: its bins; below, level: the weight of the bin's rows at points
    below the place's, and of each place of its point; accepted: whether it is what was drawn.
    """

    numbers: Integers
    cells: Integers
    bins: Bins
    aims: Any
    losses: Any
    denominator: int
    factor: Fraction
    point_log2: int
    places: Integers = field(init=False)
    at: Integers = field(init=False)
    below: Any = field(init=False)
    level: Any = field(init=False)
    accepted: Flags = field(init=False)

    @staticmethod
    def of(
        numbers: Integers,
        cells: Integers,
        bins: Bins,
        aims: Any,
        *,
        denominator: int,
        factor: Fraction,
        point_log2: int,
    ) -> Draws:
        """The first trial. Every line has some places."""
        return Draws(
            numbers=numbers,
            cells=cells,
            bins=bins,
            aims=aims,
            losses=_least(bins, aims, denominator, spread=point_log2 > 0),
            denominator=denominator,
            factor=factor,
            point_log2=point_log2,
        )

    @property
    def chosen(self) -> tuple[Integers, Integers, Any, Any]:
        """Of the bins with the proposed places: first place, places, weight, and weight below."""
        bins, lines = self.bins, np.arange(len(self.cells))
        return (
            bins.lows[lines, self.at],
            bins.sizes[lines, self.at],
            bins.weights[lines, self.at],
            bins.before[lines, self.at],
        )

    @property
    def several(self) -> Flags:
        """Whether the bin of a proposed place has several points."""
        low, size, _, _ = self.chosen
        return _across(low, size, self.point_log2)

    def propose(self, bits: RandomBits) -> None:
        """A bin and a place of it; where all places of a bin are level, that is the draw."""
        sizes = self.bins.sizes
        weights = None if (sizes == 1).all() else sizes
        self.at = choose(-self.losses, weights, factor=self.factor, bits=bits)
        low, size, weight, _ = self.chosen
        self.places = low + below_each(size, bits)
        # Of bins within one point; of others the engine says it.
        self.below, self.level = np.zeros_like(weight), weight // size
        self.accepted = np.asarray((weight == 0) | (size == 1), dtype=np.bool_)

    @property
    def proposed(self) -> Pairs:
        """What the engine must be asked about: lines, and their columns."""
        lines = np.flatnonzero(self.several & ~self.accepted)
        return lines, self.at[lines]

    def coarse(self, *, after: int = 0) -> Pairs:
        """The bins with rows that are best cut before a trial; after: of the columns from there on.

        Those that are likely to be proposed, and at first all that may well be, so that the engine
        is asked once: of few lines more than of many.
        """
        rate, new = self.denominator * float(self.factor), slice(after, None)
        lows, sizes = self.bins.lows[:, new], self.bins.sizes[:, new]
        weights = self.bins.weights[:, new]
        heavy = np.asarray(weights, dtype=np.float64) * rate > _COARSE
        if after:
            open_ = heavy & (sizes > 1)
        else:
            open_ = (sizes > 1) & (weights > 0)
            if self.point_log2:
                open_ &= heavy | _across(lows, sizes, self.point_log2)
        if not self.point_log2:  # all places of a point are alike
            open_ &= _across(lows, sizes, 0)
        some = np.flatnonzero(open_.any(axis=1))
        if not len(some):
            return _nothing()
        bins, losses = self.bins.of(some), np.asarray(self.losses[some], dtype=np.float64)
        losses -= losses.min(axis=1, keepdims=True)
        with np.errstate(under="ignore", divide="ignore"):
            likely = np.log(bins.sizes) - float(self.factor) * losses
            likely = np.exp(likely - likely.max(axis=1, keepdims=True))
        likely = (likely / likely.sum(axis=1, keepdims=True))[:, new]
        least = _LIKELY if after else max(_LEAST, len(some) * _EACH)
        chosen, columns = np.nonzero(open_[some] & (likely >= least))
        if not after:  # the engine is not asked about what is hardly ever proposed
            at = chosen, columns
            far = _across(bins.lows[at], bins.sizes[at], self.point_log2)
            if likely[at][far].sum() < _RARE:
                chosen, columns = chosen[~far], columns[~far]
        columns += after
        # So many that memory stays bounded, of each line the first.
        rows = np.asarray(bins.weights[chosen, columns], dtype=np.float64) / 2**self.point_log2
        pieces = np.cumsum(np.minimum(2 * rows, 1 << CHILD_BINS_LOG2) + 1)
        pieces -= pieces[np.searchsorted(chosen, chosen)]
        few = pieces <= _MOST_CUT / len(some)
        return some[chosen[few]], columns[few]

    def across(self, pairs: Pairs) -> Flags:
        """Which of these bins have several points."""
        return _across(self.bins.lows[pairs], self.bins.sizes[pairs], self.point_log2)

    def judge(self, children: Runs, bits: RandomBits) -> Draws | None:
        """Toss the coins. What is refused tries again; children: of what was proposed."""
        open_, (across, _) = np.flatnonzero(~self.accepted), self.proposed
        low, _, _, before = self.chosen
        start = low.copy()
        start[across] = self.places[across] >> self.point_log2 << self.point_log2
        reached = before + (self.below << self.point_log2) + self.level * (self.places - start)
        tied = 0 * reached if self.point_log2 else self.level
        least = self.losses[np.arange(len(self.at)), self.at]
        excess = _loss(reached, tied, self.aims, self.denominator) - least
        self.accepted[open_] = accepts(excess[open_], self.factor, bits)
        refused = np.flatnonzero(~self.accepted)
        if not len(refused):
            return None
        known = np.isin(refused, across)
        asked = np.isin(across, refused)
        # Numbers of the lines that are left, in place of those of what was proposed.
        renumbered = np.full(len(across), -1)
        renumbered[asked] = np.flatnonzero(known)
        within = self._within((refused[~known], self.at[refused[~known]]), _PIECES)
        smaller = _joined(
            _chosen(children, renumbered), within, np.flatnonzero(~known), count=len(refused)
        )
        later = Draws(
            numbers=self.numbers[refused],
            cells=self.cells[refused],
            bins=self.bins.of(refused),
            aims=self.aims[refused],
            losses=self.losses[refused],
            denominator=self.denominator,
            factor=self.factor,
            point_log2=self.point_log2,
        )
        later.cut((np.arange(len(refused)), self.at[refused]), smaller)
        return later

    def cut(self, gone: Pairs, smaller: Bins) -> None:
        """Smaller bins in place of some."""
        losses = _least(smaller, self.aims, self.denominator, spread=self.point_log2 > 0)
        self.bins = self.bins.replaced(gone, smaller)
        worst = self.losses.max(axis=1)
        self.losses[gone] = worst[gone[0]]  # what has no places is not to be the best
        self.losses = np.concatenate([self.losses, losses], axis=1)

    def within(self, pairs: Pairs) -> Runs:
        """Smaller bins of some that lie within one point each, about as fine as is called for."""
        weights = np.asarray(self.bins.weights[pairs], dtype=np.float64)
        wanted = np.ceil(weights * (self.denominator * float(self.factor) / _FINE))
        return self._within(pairs, np.clip(wanted, 2, _PIECES).astype(np.int64))

    def _within(self, pairs: Pairs, pieces: Any) -> Runs:
        """So many smaller bins of some that lie within one point each, numbered from 0 on."""
        low, size, weight, before = (
            part[pairs]
            for part in (self.bins.lows, self.bins.sizes, self.bins.weights, self.bins.before)
        )
        step = -(-size // pieces)
        lengths = -(-size // np.maximum(step, 1))
        lines, first = np.repeat(np.arange(len(low)), lengths), counted_up(lengths)
        first = first * step[lines]
        sizes = np.minimum(step[lines], size[lines] - first)
        level = weight // np.maximum(size, 1)
        return Runs(
            lines=lines,
            lows=low[lines] + first,
            sizes=sizes,
            weights=sizes * level[lines],
            before=before[lines] + first * level[lines],
        )


def settle(draws: Sequence[Draws], finer: Finer | None, bits: RandomBits) -> list[list[Draws]]:
    """All trials of these draws, until every line has accepted a place."""
    trials: list[list[Draws]] = [[] for _ in draws]
    _sharpen(draws, finer)
    trying = dict(enumerate(draws))
    while trying:
        for one in trying.values():
            one.propose(bits)
        children = _counted([(one, one.proposed) for one in trying.values()], finer, note=True)
        again = {}
        for (number, one), bins in zip(trying.items(), children, strict=True):
            trials[number].append(one)
            later = one.judge(bins, bits)
            if later is not None:
                again[number] = later
        trying = again
    return trials


def _sharpen(draws: Sequence[Draws], finer: Finer | None) -> None:
    """Cut what is likely to be proposed and then refused, before anything is random.

    The law is the same whatever the bins are; they are a function of the counts.
    """
    coarse = [(one, one.coarse()) for one in draws]
    while coarse := [(one, pairs) for one, pairs in coarse if len(pairs[0])]:
        apart = [one.across(pairs) for one, pairs in coarse]
        widths = [one.bins.sizes.shape[1] for one, _ in coarse]
        asked = [
            (one, (lines[far], columns[far]))
            for (one, (lines, columns)), far in zip(coarse, apart, strict=True)
        ]
        for (one, pairs), far, children in zip(
            coarse, apart, _counted(asked, finer, note=False), strict=True
        ):
            lines, columns = pairs
            near = lines[~far], columns[~far]
            one.cut(
                pairs,
                _joined(
                    _chosen(children, lines[far]), one.within(near), near[0], count=len(one.cells)
                ),
            )
        coarse = [
            (one, one.coarse(after=width)) for (one, _), width in zip(coarse, widths, strict=True)
        ]


def _across(lows: Integers, sizes: Integers, log2: int) -> Flags:
    return np.asarray(lows >> log2 != (lows + sizes - 1) >> log2)


def _nothing() -> Pairs:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _chosen(runs: Runs, lines: Integers) -> Runs:
    """Runs whose lines are called by these numbers; those of a negative one are left out."""
    if (lines >= 0).all():
        return dataclasses.replace(runs, lines=lines[runs.lines])
    kept = lines[runs.lines] >= 0
    return Runs(
        lines=lines[runs.lines[kept]],
        lows=runs.lows[kept],
        sizes=runs.sizes[kept],
        weights=runs.weights[kept],
        before=runs.before[kept],
    )


def _joined(runs: Runs, others: Runs, lines: Integers, *, count: int) -> Bins:
    """Both side by side; lines: what those of the others are called."""
    both = [
        np.concatenate(pair)
        for pair in (
            (runs.lines, lines[others.lines]),
            (runs.lows, others.lows),
            (runs.sizes, others.sizes),
            (runs.weights, others.weights),
            (runs.before, others.before),
        )
    ]
    order = np.argsort(both[0], kind="stable")
    lined, lows, sizes, weights, before = (part[order] for part in both)
    found = Runs(lines=lined, lows=lows, sizes=sizes, weights=weights, before=before)
    return found.padded(count)


def _loss(before: Any, level: Any, aims: Any, denominator: int) -> Any:
    low, high = before * denominator, (before + level) * denominator
    return np.maximum(np.maximum(low - aims, aims - high), 0)


def _least(bins: Bins, aims: Any, denominator: int, *, spread: bool) -> Any:
    """The least loss in bins; of a single place, its loss."""
    weights = np.where(bins.sizes > 1, bins.weights, 0) if spread else bins.weights
    losses = _loss(bins.before, weights, aims[:, None], denominator)
    # What has no places is not to be the best.
    there = bins.sizes > 0
    most = np.where(there, losses, 0).max(axis=1, keepdims=True)
    return np.where(there, losses, most)


def _counted(
    asked: Sequence[tuple[Draws, Pairs]], finer: Finer | None, *, note: bool
) -> list[Runs]:
    """Smaller bins of some with several points, which are numbered from 0 on.

    note: whether they were proposed, so that what is below and at the places is noted.
    """
    cells, firsts, lasts, points = (
        np.concatenate(parts)
        for parts in zip(*(_question(one, pairs, note=note) for one, pairs in asked), strict=True)
    )
    shifts = np.maximum(bit_lengths(lasts - firsts) - CHILD_BINS_LOG2, 0)
    question = Asked(cells=cells, lows=firsts, highs=lasts, shifts=shifts, points=points)
    below, level = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    found = None
    if len(cells):
        assert finer is not None
        found = finer(question)
        np.add.at(below, found.lines, found.below)
        np.add.at(level, found.lines, found.level)
    lines, lows, sizes, counts = smaller(question, found)
    runs, line = [], 0
    for one, (own, columns) in asked:
        part, log2 = slice(line, line + len(own)), one.point_log2
        if note:
            one.below[own], one.level[own] = below[part], level[part]
        of = slice(*np.searchsorted(lines, [part.start, part.stop]))
        weights = counts[of].astype(one.bins.weights.dtype) << log2
        total = np.cumsum(weights) - weights
        numbers = lines[of] - line
        start = one.bins.before[own, columns]
        starts = np.searchsorted(numbers, np.arange(len(own)))
        runs.append(
            Runs(
                lines=numbers,
                lows=lows[of] << log2,
                sizes=sizes[of] << log2,
                weights=weights,
                before=(start - total[starts])[numbers] + total,
            )
        )
        line = part.stop
    return runs


def _question(one: Draws, pairs: Pairs, *, note: bool) -> tuple[Integers, ...]:
    """The columns of what the engine is asked of bins: cell, first and last point, point."""
    lines, log2 = pairs[0], one.point_log2
    low, size = one.bins.lows[pairs], one.bins.sizes[pairs]
    first, last = low >> log2, (low + size - 1) >> log2
    return one.cells[lines], first, last, one.places[lines] >> log2 if note else first


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
