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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacet.bits import RandomBits
from tacet.mechanisms.selection.exponential import Exponential, choose
from tacet.query.aggregates.ranks import accepts
from tacet.query.aggregates.splits import Plan, Split
from tacet.query.ranking import CHILD_BINS_LOG2, Asked, Finer, Ranking

__all__ = ["PLACES_LOG2", "cut_points", "mechanism_of"]

Integers = NDArray[np.int64]

PLACES_LOG2 = 16
"""The logarithm of how many places a point of the public grid has."""

_WIDEST = 62  # bits of a loss in int64
_MOST_ENTRIES = 2_000_000  # cells times bins held at once


def mechanism_of(split: Split, *, epsilon: Fraction, moves: Fraction) -> Exponential:
    """The mechanism of a split, for losses times 2^16 and the denominator of its share."""
    unit = split.share.denominator << PLACES_LOG2
    return Exponential(epsilon=epsilon, sensitivity=moves * split.steepness * unit)


def cut_points(
    histogram: Integers,
    finer: Finer | None,
    *,
    ranking: Ranking,
    plan: Plan,
    mechanisms: Mapping[Split, Exponential],
    bits: RandomBits,
) -> dict[Fraction, list[int]]:
    """By quantile, wanted or not, the point of the grid that its cut falls on in every cell.

    histogram: counts by cell and first bin; finer: counts within bins, needed unless every point
    is a bin; mechanisms: of every split, as `mechanism_of` makes them.
    """
    rows = max(1, _MOST_ENTRIES // ranking.bins)
    found: dict[Fraction, list[int]] = {split.at: [] for split in mechanisms}
    for start in range(0, len(histogram), rows):
        drawn = _cut(
            histogram[start : start + rows],
            finer,
            first=start,
            ranking=ranking,
            plan=plan,
            mechanisms=mechanisms,
            bits=bits,
        )
        for at, points in drawn.items():
            found[at] += points
    return found


def _cut(
    histogram: Integers,
    finer: Finer | None,
    *,
    first: int,
    ranking: Ranking,
    plan: Plan,
    mechanisms: Mapping[Split, Exponential],
    bits: RandomBits,
) -> dict[Fraction, list[int]]:
    """The same for some cells, of which the first has this number."""
    factors = {split: mechanism.factor for split, mechanism in mechanisms.items()}
    lows, sizes = ranking.lows << PLACES_LOG2, ranking.sizes << PLACES_LOG2
    whole = (Fraction(0), Fraction(1))
    parts = [
        {whole: _Part(start=0, lows=lows, sizes=sizes, weights=_scaled(counts, 1 << PLACES_LOG2))}
        for counts in histogram
    ]
    found: dict[Fraction, list[int]] = {}
    for level in plan.levels:
        searches = [
            _Search.of(cell, part[split.low, split.high], split, factors[split])
            for split in level
            for cell, part in enumerate(parts, first)
        ]
        _Round(searches=searches, finer=finer, bits=bits).settle()
        for search in searches:
            split = search.split
            below, above = search.halves()
            parts[search.cell - first][split.low, split.at] = below
            parts[search.cell - first][split.at, split.high] = above
            found.setdefault(split.at, []).append(search.place >> PLACES_LOG2)
    return found


def _scaled(counts: Any, factor: int) -> Any:
    """Counts times a factor, in 64 bits where their sum fits."""
    if (int(counts.sum()) * factor).bit_length() > _WIDEST:
        return counts.astype(object) * factor
    return counts.astype(np.int64) * factor


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What lies between two cuts, by bins, from a place on. weights: of rows, times 2^16."""

    start: int
    lows: Integers
    sizes: Integers
    weights: Any


@dataclass(slots=True, kw_only=True)
class _Search:
    """The split of one part, as far as it has come.

    factor: what a unit of loss is worth in the exponent; before: the weight below each bin; aim:
    the weight to leave below, times the denominator of the share; losses: the least in every bin,
    times the denominator.
    """

    cell: int
    split: Split
    factor: Fraction
    lows: Integers
    sizes: Integers
    weights: Any
    before: Any
    aim: int
    losses: Any
    place: int
    at: int = -1
    inside: tuple[int, int] = field(default=(0, 0))

    @staticmethod
    def of(cell: int, part: _Part, split: Split, factor: Fraction) -> _Search:
        """A search that has not begun."""
        share, total = split.share, int(part.weights.sum())
        weights = _scaled(part.weights, 1)
        if (total * share.denominator).bit_length() > _WIDEST:
            weights = weights.astype(object)
        search = _Search(
            cell=cell,
            split=split,
            factor=factor,
            lows=part.lows,
            sizes=part.sizes,
            weights=weights,
            before=np.cumsum(weights) - weights,
            aim=total * share.numerator,
            losses=None,
            place=part.start,
        )
        search.losses = search.least(search.before, weights, part.sizes)
        return search

    def least(self, before: Any, weights: Any, sizes: Integers) -> Any:
        """The least loss in bins; of a single place, its loss."""
        low = before * self.split.share.denominator
        high = (before + np.where(sizes > 1, weights, 0)) * self.split.share.denominator
        return np.maximum(np.maximum(low - self.aim, self.aim - high), 0)

    def propose(self, bits: RandomBits) -> None:
        """A bin and a place of it."""
        chosen = choose(-self.losses[None], self.sizes, factor=self.factor, bits=bits)
        self.at = int(chosen[0])
        self.place = int(self.lows[self.at]) + bits.below(int(self.sizes[self.at]))

    @property
    def settled(self) -> bool:
        """Whether every place of the proposed bin has its loss."""
        return bool(self.weights[self.at] == 0 or self.sizes[self.at] == 1)

    @property
    def known(self) -> bool:
        """Whether the proposed bin lies within one point."""
        low, size = int(self.lows[self.at]), int(self.sizes[self.at])
        return low >> PLACES_LOG2 == (low + size - 1) >> PLACES_LOG2

    @property
    def density(self) -> int:
        """The weight of each place of the proposed bin, which lies within one point."""
        return int(self.weights[self.at]) // int(self.sizes[self.at])

    def excess(self) -> int:
        """By how much the loss of the proposed place exceeds the bin's."""
        below, level = self.inside
        if self.known:
            weight = (self.place - int(self.lows[self.at])) * self.density
        else:
            weight = (below << PLACES_LOG2) + level * (self.place % (1 << PLACES_LOG2))
        reached = (int(self.before[self.at]) + weight) * self.split.share.denominator
        return abs(reached - self.aim) - int(self.losses[self.at])

    def refine(self, lows: Integers, weights: Any) -> None:
        """Put smaller bins in place of the proposed one."""
        at, low, size = self.at, int(self.lows[self.at]), int(self.sizes[self.at])
        sizes = np.diff(np.append(lows, low + size))
        before = int(self.before[at]) + np.cumsum(weights) - weights
        self.losses = _replaced(self.losses, at, self.least(before, weights, sizes))
        self.lows = _replaced(self.lows, at, lows)
        self.sizes = _replaced(self.sizes, at, sizes)
        self.weights = _replaced(self.weights, at, weights)
        self.before = _replaced(self.before, at, before)

    def refine_point(self) -> None:
        """Smaller bins within one point."""
        low, size = int(self.lows[self.at]), int(self.sizes[self.at])
        step = 1 << max((size - 1).bit_length() - CHILD_BINS_LOG2, 0)
        lows = np.arange(low, low + size, step, dtype=np.int64)
        sizes = np.diff(np.append(lows, low + size))
        self.refine(lows, sizes.astype(self.weights.dtype) * self.density)

    def halves(self) -> tuple[_Part, _Part]:
        """What lies below the accepted place, and what does not."""
        if not len(self.lows):
            empty = _Part(start=self.place, lows=self.lows, sizes=self.sizes, weights=self.weights)
            return empty, empty
        at, low, size = self.at, int(self.lows[self.at]), int(self.sizes[self.at])
        weight, density = int(self.weights[at]), self.density
        if weight == 0 or self.known:
            ends = [low, self.place, low + size]
            weights = [(self.place - low) * density, (low + size - self.place) * density]
        else:
            below, level = self.inside
            first = self.place >> PLACES_LOG2 << PLACES_LOG2
            point = 1 << PLACES_LOG2
            ends = [low, first, self.place, first + point, low + size]
            weights = [below * point, (self.place - first) * level]
            weights += [(first + point - self.place) * level]
            weights += [weight - sum(weights)]
        lows = np.concatenate([self.lows[:at], ends[:-1], self.lows[at + 1 :]])
        sizes = np.concatenate([self.sizes[:at], np.diff(ends), self.sizes[at + 1 :]])
        inner = np.array(weights, dtype=self.weights.dtype)
        whole = np.concatenate([self.weights[:at], inner, self.weights[at + 1 :]])
        left = (lows < self.place) & (sizes > 0)
        right = (lows >= self.place) & (sizes > 0)
        start = int(self.lows[0])
        return (
            _Part(start=start, lows=lows[left], sizes=sizes[left], weights=whole[left]),
            _Part(start=self.place, lows=lows[right], sizes=sizes[right], weights=whole[right]),
        )


def _replaced(values: Any, at: int, by: Any) -> Any:
    return np.concatenate([values[:at], by, values[at + 1 :]])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """The searches of one level side by side, so that the engine hears of all at once."""

    searches: Sequence[_Search]
    finer: Finer | None
    bits: RandomBits

    def settle(self) -> None:
        """Propose until every search has accepted a place."""
        trying = [search for search in self.searches if len(search.lows)]  # the others are points
        while trying:
            for search in trying:
                search.propose(self.bits)
            trying = [search for search in trying if not search.settled]
            trying = self._refused(trying)

    def _refused(self, trying: Iterable[_Search]) -> list[_Search]:
        """The searches whose place is refused, after their bins were refined."""
        within: list[_Search] = []
        across: list[_Search] = []
        for search in trying:
            (within if search.known else across).append(search)
        refused = []
        for search in within:
            if not self._accepted(search):
                search.refine_point()
                refused.append(search)
        return refused + (self._asked(across) if across else [])

    def _accepted(self, search: _Search) -> bool:
        return accepts(search.factor * search.excess(), self.bits)

    def _asked(self, trying: list[_Search]) -> list[_Search]:
        assert self.finer is not None
        lows = [int(search.lows[search.at]) >> PLACES_LOG2 for search in trying]
        sizes = [int(search.sizes[search.at]) >> PLACES_LOG2 for search in trying]
        shifts = [max((size - 1).bit_length() - CHILD_BINS_LOG2, 0) for size in sizes]
        found = self.finer(
            Asked(
                cells=[search.cell for search in trying],
                lows=lows,
                highs=[low + size - 1 for low, size in zip(lows, sizes, strict=True)],
                shifts=shifts,
                points=[search.place >> PLACES_LOG2 for search in trying],
            )
        )
        below, level = (np.zeros(len(trying), dtype=np.int64) for _ in range(2))
        np.add.at(below, found.lines, found.below)
        np.add.at(level, found.lines, found.level)
        order = np.argsort(found.lines, kind="stable")
        ends = np.searchsorted(found.lines[order], np.arange(len(trying) + 1))
        refused = []
        for line, search in enumerate(trying):
            search.inside = int(below[line]), int(level[line])
            if self._accepted(search):
                continue
            step = 1 << shifts[line]
            places = np.arange(lows[line], lows[line] + sizes[line], step, dtype=np.int64)
            counts = np.zeros(len(places), dtype=search.weights.dtype)
            own = order[ends[line] : ends[line + 1]]
            counts[found.children[own]] = found.counts[own]
            search.refine(places << PLACES_LOG2, counts << PLACES_LOG2)
            refused.append(search)
        return refused
