"""Which cuts find several quantiles with the least error: a tree of splits, and what each costs.

Rows between two cuts are a part. A split of a part at the quantile s between those of its ends,
l < s < h, looks for the cut that leaves the share u = (s - l) / (h - l) of the part's rows below
it. Parts of one level are disjoint, so that a level costs what one split costs, and m
quantiles are found in about log2(m + 1) levels instead of m draws.

**What error is expected.** Where values hardly repeat, a cut is off by a rank error t of density
proportional to exp(-f |t|), f = epsilon / (2 g rows), g = max(u, 1 - u): its variance is 2 / f^2.
The ends of the part are off already, by e_l and e_h ranks, of which the cut takes over its share:

    e_s = (1 - u) e_l + u e_h + t.

So errors are sums of the draws of all levels with known coefficients, and the sum of the variances
of the wanted quantiles is a sum over levels of w_j / epsilon_j^2. It is least, for a given sum of
the epsilon_j (pure privacy), where these are proportional to w_j^(1/3), and for a given sum of
their squares (zCDP, GDP) where the squares are proportional to w_j^(1/2).

**Splits that no one asked for.** A split near the middle of a part has g = 1/2, which is half of
what a far one has, and its own error counts only by a share in what lies below it. For the two
quartiles a cut at the median comes first: the sum of their variances is 17.3 then (in units of
(rows / epsilon)^2), 33.9 if one quartile is sought after the other, and 36 if each is sought in all
rows for half of epsilon. So several trees are tried, with such splits on the first few levels and
without, and the one of the least expected error is taken. It is a function of public numbers.

Source: the recursion, Kaplan, Schnapp, Stemmer 2022, arXiv:2110.05429; the rest: proof above.

**Cuts.** Rows are ordered on a fine grid; they, and the parts between cuts, are cut by exact draws.
The finest grid has 2^16 places for every slot of the public grid, and the rows at a point are
spread evenly over its places: of c rows a cut at place P counts those at lower points and c times
the share of the point's places below P. A part is what lies between two cuts, lo <= P < hi, and
holds a weight of rows W(lo, hi), not always a whole number. A split of it at the share u is a place
P of the part, drawn with probability proportional to

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
between 0 and w to W(lo, P); its weights in all parts of a cell add up to 1 at most. The tree takes
it from there: what it maximises is convex in the weights, so that fractions reach no further than
whole rows. QED

Levels one after the other compose, as mechanisms that see what was drawn before: their epsilons
add up, in zCDP the squares of them over 8. (The range of all levels together may pass the sum of
their epsilons, since the normaliser of a level depends on the earlier cuts.)

**Drawing.** As in `grid_counts`, by rejection from bins, with |B| exp(-f l(B)) as the weight of a
bin, l(B) the least loss within it. The law is that of the theorem, whatever the bins are.

Source: Kaplan, Schnapp, Stemmer 2022, arXiv:2110.05429, for single rows; proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.query.aggregates.grid import SLOTS_LOG2
from unacorda.query.aggregates.grid_counts import GridCounts, PlaceBins, SpreadDraws, draw_spread
from unacorda.query.noise.sensitivity import Sensitivity, of_ranks
from unacorda.query.schema.units import Reach

__all__ = [
    "PLACES_LOG2",
    "QuantileTree",
    "TreeCut",
    "cut_places",
    "mechanism_of",
    "moves_of",
    "plan_for",
    "row_weight",
]

_PARTS_LOG2 = 20  # a level's part of the budget is a multiple of 2^-20
_LEAST = Fraction(1, 4)  # of an even share, that every level gets: errors are small only then


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCut:
    """A cut at the quantile `at` of a part that lies between the quantiles `low` and `high`."""

    at: Fraction
    low: Fraction
    high: Fraction

    @property
    def share(self) -> Fraction:
        """The share of the part's rows that the cut leaves below it."""
        return (self.at - self.low) / (self.high - self.low)

    @property
    def steepness(self) -> Fraction:
        """By how much one row moves the distance of a cut from the right one."""
        return max(self.share, 1 - self.share)


Levels = tuple[tuple[TreeCut, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileTree:
    """Splits by level: the parts of one level are disjoint, and were cut by earlier levels.

    parts: of the budget, by level; they add up to 1. moves: by level, how many rows of steepness 1
    one unit comes to. errors: by wanted quantile, the coefficients of the draws in its rank error.
    """

    levels: Levels
    parts: tuple[Fraction, ...]
    moves: tuple[Fraction, ...]
    errors: Mapping[Fraction, Mapping[Fraction, float]]

    def variance(self, *, squares: bool) -> float:
        """Of all rank errors together, for epsilon 1 (squares: or its square) in all levels."""
        weights = _weights(self.levels, self.moves, self.errors)
        spent = [float(part) if squares else float(part) ** 2 for part in self.parts]
        return math.fsum(weight / part for weight, part in zip(weights, spent, strict=True))


def plan_for(wanted: Sequence[Fraction], reach: Reach, *, squares: bool) -> QuantileTree:
    """The plan of the least expected error among those that are tried.

    wanted: quantiles, rising; squares: whether it is the squares of the levels' epsilons that add
    up (zCDP and GDP), and not the epsilons.

    >>> reach = Reach.within(max_rows=1, cells=1, replaced=False)
    >>> plan = plan_for([Fraction(1, 4), Fraction(3, 4)], reach, squares=False)
    >>> [[str(split.at) for split in level] for level in plan.levels]
    [['1/2'], ['1/4', '3/4']]
    """
    plans = [_planned(levels, wanted, reach, squares=squares) for levels in _trees(wanted)]
    return min(plans, key=lambda plan: (plan.variance(squares=squares), len(plan.levels)))


def _trees(wanted: Sequence[Fraction]) -> Iterator[Levels]:
    deepest = len(wanted).bit_length()
    seen = set()
    yield tuple((TreeCut(at=at, low=Fraction(0), high=Fraction(1)),) for at in wanted)
    for choose in (_middle_of_list, _nearest_to_middle):
        for helped in range(deepest + 1):
            levels = _tree(wanted, helped=helped, choose=choose)
            if levels not in seen:
                seen.add(levels)
                yield levels


_Choice = Callable[[Sequence[Fraction], Fraction, Fraction], Fraction]


def _middle_of_list(inside: Sequence[Fraction], low: Fraction, high: Fraction) -> Fraction:
    del low, high
    return inside[len(inside) // 2]


def _nearest_to_middle(inside: Sequence[Fraction], low: Fraction, high: Fraction) -> Fraction:
    return min(inside, key=lambda at: abs(2 * at - low - high))


def _tree(wanted: Sequence[Fraction], *, helped: int, choose: _Choice) -> Levels:
    """The tree whose first `helped` levels may be cut where nothing is wanted."""
    levels: list[tuple[TreeCut, ...]] = []
    open_parts = [(list(wanted), Fraction(0), Fraction(1))]
    while open_parts:
        splits, further = [], []
        for inside, low, high in open_parts:
            middle = (low + high) / 2
            if len(levels) < helped and inside[0] < middle < inside[-1]:
                at = middle
            else:
                at = choose(inside, low, high)
            splits.append(TreeCut(at=at, low=low, high=high))
            below, above = [q for q in inside if q < at], [q for q in inside if q > at]
            further += [(below, low, at)] if below else []
            further += [(above, at, high)] if above else []
        levels.append(tuple(splits))
        open_parts = further
    return tuple(levels)


def _planned(
    levels: Levels, wanted: Sequence[Fraction], reach: Reach, *, squares: bool
) -> QuantileTree:
    moves = tuple(moves_of(level, reach.split(len(level))).l1 for level in levels)
    inherited = _inherited(levels)
    errors = {q: inherited[q] for q in wanted}
    parts = _parts(_weights(levels, moves, errors), power=1 / 2 if squares else 1 / 3)
    return QuantileTree(levels=levels, parts=parts, moves=moves, errors=errors)


def _weights(
    levels: Levels,
    moves: Sequence[Fraction],
    errors: Mapping[Fraction, Mapping[Fraction, float]],
) -> list[float]:
    """By level the sum of the variances of the wanted quantiles, for epsilon 1 in that level."""
    draws = {
        split.at: (number, 8 * float(split.steepness * moved) ** 2)
        for number, (level, moved) in enumerate(zip(levels, moves, strict=True))
        for split in level
    }
    weights = [0.0] * len(levels)
    for shares in errors.values():
        for at, coefficient in shares.items():
            number, variance = draws[at]
            weights[number] += variance * coefficient**2
    return weights


def _inherited(levels: Levels) -> dict[Fraction, dict[Fraction, float]]:
    """By cut: the coefficients of all draws in its error."""
    errors: dict[Fraction, dict[Fraction, float]] = {}
    for split in (split for level in levels for split in level):
        own, share = {split.at: 1.0}, float(split.share)
        for end, part in ((split.low, 1 - share), (split.high, share)):
            # The ends of the table are no cuts.
            for at, coefficient in errors.get(end, {}).items() if 0 < end < 1 else ():
                own[at] = own.get(at, 0.0) + part * coefficient
        errors[split.at] = own
    return errors


def _parts(weights: Sequence[float], *, power: float) -> tuple[Fraction, ...]:
    """Parts of a budget, proportional to the powers of the weights, none far below the others."""
    whole = math.fsum(weight**power for weight in weights)
    least = _LEAST / len(weights)
    weighed = [max(Fraction(weight**power / whole), least) for weight in weights]
    total = sum(weighed)
    parts = [Fraction(int(wish / total * 2**_PARTS_LOG2), 2**_PARTS_LOG2) for wish in weighed]
    return (*parts[:-1], 1 - sum(parts[:-1], Fraction(0)))


def moves_of(level: Sequence[TreeCut], reach: Reach) -> Sensitivity:
    r"""How many rows of steepness 1 one unit's rows come to, in the parts of a level in all cells.

    reach: into these parts, of all cells.

    Statement   Let a part move by k x - k' y, where k rows come to it and k' leave it, x and y
        between u - 1 and u. Divided by the part's steepness its losses move by at most
        max(k, k') + c min(k, k'), c = min(u, 1 - u) / max(u, 1 - u), which grows with c. So sums
        over parts and cells, of these numbers and of their squares, are at most what they are if
        all parts have the greatest c of the level, and that is `of_ranks`. They are convex in the
        rows of each part, so that rows that lie in several parts by shares reach no further.
    Bound       upper; attained where all splits of a level have one steepness.
    """
    evenest = min(level, key=lambda split: split.steepness)
    found, unit = of_ranks(reach, quantile=evenest.share), evenest.steepness
    return Sensitivity(
        l1=found.l1 / unit, l2_squared=found.l2_squared / unit**2, reason=found.reason
    )


Integers = NDArray[np.int64]

PLACES_LOG2 = 16
"""The logarithm of how many places a slot of the public grid has."""


def row_weight() -> int:
    """The weight of a row, which is a multiple of the places of any point."""
    return 1 << PLACES_LOG2 + SLOTS_LOG2


_WIDEST = 62  # bits of a loss in int64


def mechanism_of(split: TreeCut, even: Exponential) -> Exponential:
    """The mechanism of a split, for losses by weight, times the denominator of its share.

    even: that of a split of steepness 1, for losses in rows.
    """
    unit = split.share.denominator * row_weight()
    sensitivity = Fraction(even.sensitivity) * split.steepness * unit
    return Exponential(epsilon=even.epsilon, sensitivity=sensitivity)


def cut_places(
    counted: GridCounts,
    slots: Integers,
    *,
    plan: QuantileTree,
    mechanisms: Mapping[TreeCut, Exponential],
    bits: RandomBits,
) -> dict[Fraction, Integers]:
    """By quantile, wanted or not, the place of the grid that its cut falls on in every cell.

    slots: those of a grid; mechanisms: of every split, as `mechanism_of` makes them.
    """
    found = {split.at: np.empty(counted.cells, dtype=np.int64) for split in mechanisms}
    for batch in counted.batches(slots):
        drawn = _cut(batch.bins, plan=plan, mechanisms=mechanisms, bits=bits)
        for at, places in drawn.items():
            found[at][batch.cells] = np.searchsorted(slots, places, side="right") - 1
    return found


def _cut(
    bins: PlaceBins,
    *,
    plan: QuantileTree,
    mechanisms: Mapping[TreeCut, Exponential],
    bits: RandomBits,
) -> dict[Fraction, Integers]:
    """The same for some cells."""
    base = _all_places(bins, plan)
    edges = {Fraction(0): _Edge.of(base, 0), Fraction(1): _Edge.of(base, -1)}
    found: dict[Fraction, Integers] = {}
    for split in (split for level in plan.levels for split in level):
        start, share = edges[split.low], split.share
        part = _part(base, start, edges[split.high])
        # A part of no places has nothing to be drawn: the cut is where it begins.
        lines = np.flatnonzero((part.sizes > 0).any(axis=1))
        total = part.weights[lines].sum(axis=1)
        drawn = draw_spread(
            part.of(lines),
            start.weight[lines] * share.denominator + total * share.numerator,
            denominator=share.denominator,
            factor=mechanisms[split].factor,
            bits=bits,
        )
        edges[split.at] = start.moved(lines, drawn)
        found[split.at] = edges[split.at].place >> PLACES_LOG2
    return found


def _all_places(bins: PlaceBins, plan: QuantileTree) -> PlaceBins:
    """All places of every cell; in 64 bits where losses by weight fit."""
    weights: Any = bins.weights
    before: Any = bins.before
    unit = max(split.share.denominator for level in plan.levels for split in level) * row_weight()
    if (int((before + weights).max(initial=0)) * unit).bit_length() > _WIDEST:
        weights, before = weights.astype(object), before.astype(object)
    return PlaceBins(
        lows=bins.lows << PLACES_LOG2,
        sizes=bins.sizes << PLACES_LOG2,
        weights=weights * row_weight(),
        before=before * row_weight(),
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
    def of(bins: PlaceBins, side: int) -> _Edge:
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

    def moved(self, lines: Integers, drawn: SpreadDraws) -> _Edge:
        """The same in arrays of its own, but for some lines, whose cuts were drawn."""
        begin = drawn.places >> PLACES_LOG2 << PLACES_LOG2
        end = begin + (1 << PLACES_LOG2)
        known = {
            "place": drawn.places,
            "begin": begin,
            "end": end,
            "weight": drawn.below,
            "begin_weight": drawn.below - drawn.level * (drawn.places - begin),
            "end_weight": drawn.below + drawn.level * (end - drawn.places),
        }
        found = {}
        for name, values in known.items():
            found[name] = getattr(self, name).copy()
            found[name][lines] = values
        return _Edge(**found)


def _part(base: PlaceBins, start: _Edge, stop: _Edge) -> PlaceBins:
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
    return PlaceBins(
        lows=lows[:, some],
        sizes=(ends - lows)[:, some],
        weights=(after - before)[:, some],
        before=before[:, some],
    )
