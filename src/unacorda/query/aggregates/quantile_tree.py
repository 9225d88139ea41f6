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

**Drawing.** As in `grid`, by rejection from bins, with |B| exp(-f l(B)) as the weight of a
bin, l(B) the least loss within it. The law is that of the theorem, whatever the bins are.

Source: Kaplan, Schnapp, Stemmer 2022, arXiv:2110.05429, for single rows; proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from unacorda.bits import RandomBits
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy import events
from unacorda.privacy.guarantees import PureDP
from unacorda.query.aggregates.grid import (
    SLOTS_LOG2,
    GridCounts,
    Integers,
    PlaceBins,
    SpreadDraws,
    draw_spread,
)
from unacorda.query.noise.additive import CONFIDENCE, Sensitivity, Share, of_ranks
from unacorda.query.noise.selection import Draws, draws_for
from unacorda.query.schema.units import Reach

PLACES_LOG2 = 16
"""The logarithm of how many places a slot of the public grid has."""
_PARTS_LOG2 = 20  # a level's part of the budget is a multiple of 2^-20
_LEAST = Fraction(1, 4)  # of an even share, that every level gets: errors are small only then
_WIDEST = 62  # bits of a loss in int64


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
    variance: of all rank errors together, for epsilon 1 in all levels, or for its square.
    """

    levels: Levels
    parts: tuple[Fraction, ...]
    moves: tuple[Fraction, ...]
    errors: Mapping[Fraction, Mapping[Fraction, float]]
    variance: float


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
    return min(plans, key=lambda plan: (plan.variance, len(plan.levels)))


def _trees(wanted: Sequence[Fraction]) -> Iterable[Levels]:
    """One cut after the other in all rows, and trees with more and more cuts not asked for."""
    trees: list[Levels] = [
        tuple((TreeCut(at=at, low=Fraction(0), high=Fraction(1)),) for at in wanted)
    ]
    for halved in (True, False):
        trees += [
            _tree(wanted, helped=helped, halved=halved)
            for helped in range(len(wanted).bit_length() + 1)
        ]
    return dict.fromkeys(trees)


def _tree(wanted: Sequence[Fraction], *, helped: int, halved: bool) -> Levels:
    """The tree whose first `helped` levels may be cut where nothing is wanted.

    halved: whether cuts halve the list of what is wanted, otherwise the ranks, as nearly as may be.
    """
    levels: list[tuple[TreeCut, ...]] = []
    open_parts = [(list(wanted), Fraction(0), Fraction(1))]
    while open_parts:
        splits, further = [], []
        for inside, low, high in open_parts:
            middle = (low + high) / 2
            if len(levels) < helped and inside[0] < middle < inside[-1]:
                at = middle
            elif halved:
                at = inside[len(inside) // 2]
            else:
                at = min((abs(one - middle), one) for one in inside)[1]
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
    weights = []  # by level the sum of the variances of what is wanted, for epsilon 1 there
    for level, moved in zip(levels, moves, strict=True):
        own = {split.at: 8 * float(split.steepness * moved) ** 2 for split in level}
        weights.append(0.0)
        for shares in errors.values():
            for at, coefficient in shares.items():
                weights[-1] += own.get(at, 0.0) * coefficient**2
    parts = _parts(weights, power=1 / 2 if squares else 1 / 3)
    spent = [float(part) if squares else float(part) ** 2 for part in parts]
    variance = math.fsum(weight / part for weight, part in zip(weights, spent, strict=True))
    return QuantileTree(levels=levels, parts=parts, moves=moves, errors=errors, variance=variance)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileDraws(ABC):
    """The draws of several quantiles, and where bought those of the ends of their intervals.

    wanted: rising; ends: of each wanted quantile, of either end.
    """

    wanted: tuple[Fraction, ...]
    ends: Mapping[Fraction, Draws]

    @property
    @abstractmethod
    def costs(self) -> Sequence[events.Event]:
        """What it costs to find the quantiles, in all cells together."""

    @property
    @abstractmethod
    def deviations(self) -> dict[Fraction, float]:
        """By wanted quantile the standard deviation of its rank, where values hardly repeat."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What is done."""

    @abstractmethod
    def rank_error(self, *, slots: int) -> float:
        """A bound on the rank error of every wanted quantile, with 95% probability."""

    @abstractmethod
    def places(
        self, counted: GridCounts, slots: Integers, bits: RandomBits
    ) -> Mapping[Fraction, Integers]:
        """By quantile, wanted or not, the place of the grid that its cut falls on in every cell."""

    def rising(self, counted: GridCounts, slots: Integers, bits: RandomBits) -> Integers:
        """The places of the wanted quantiles, quantiles by cells; in every cell they rise."""
        found = self.places(counted, slots, bits)
        # Those of one tree do not cross; draws by themselves may, and are nearer in order.
        return np.sort(np.array([found[q] for q in self.wanted], dtype=np.int64), axis=0)

    @property
    def event(self) -> events.Event:
        both = [draws.event for draws in self.ends.values() for _ in range(2)]
        return events.compose([*self.costs, *both])

    @property
    def log_scale(self) -> float:
        return math.log(math.fsum(sd**2 for sd in self.deviations.values())) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting(QuantileDraws):
    """The cuts of all levels.

    levels: what draws of each level are made by, for splits of steepness 1, and what those of all
    cells cost; mechanisms: of each split, level by level, for losses by weight, times the
    denominator of its share.
    """

    plan: QuantileTree
    levels: tuple[Draws, ...]
    mechanisms: Mapping[TreeCut, Exponential]

    @staticmethod
    def within(
        share: Share, reach: Reach, wanted: Sequence[Fraction], ends: Mapping[Fraction, Draws]
    ) -> Cutting:
        """The cuts of the least expected error within a share."""
        plan = plan_for(wanted, reach, squares=not isinstance(share, PureDP))
        levels, mechanisms = [], {}
        for level, part in zip(plan.levels, plan.parts, strict=True):
            moves = functools.partial(moves_of, level)
            draws = draws_for(share * part, reach.split(len(level)), moves)
            levels.append(draws)
            for split in level:
                unit = split.steepness * split.share.denominator * row_weight()
                mechanisms[split] = Exponential(
                    epsilon=draws.mechanism.epsilon,
                    sensitivity=Fraction(draws.mechanism.sensitivity) * unit,
                )
        return Cutting(
            wanted=tuple(wanted), ends=ends, plan=plan, levels=tuple(levels), mechanisms=mechanisms
        )

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Of the draws of each level."""
        return tuple(Fraction(draws.mechanism.epsilon) for draws in self.levels)

    @property
    def costs(self) -> Sequence[events.Event]:
        return [draws.event for draws in self.levels]

    @property
    def deviations(self) -> dict[Fraction, float]:
        rates = self._rates
        return {
            q: math.sqrt(2 * math.fsum((c / rates[at]) ** 2 for at, c in shares.items()))
            for q, shares in self.plan.errors.items()
        }

    def rank_error(self, *, slots: int) -> float:
        """A bound on the rank error of every wanted quantile, with 95% probability.

        A cut's loss passes t with probability at most (places) exp(-f t), since some place has
        loss 0 but for a share of 2^-16 of one point's rows: McSherry and Talwar 2007, Theorem 6.
        """
        misses = len(self.mechanisms) / (1 - float(CONFIDENCE))
        reach = math.log(slots * misses) + PLACES_LOG2 * math.log(2)
        rates = self._rates
        return max(
            math.fsum(c * reach / rates[at] for at, c in shares.items())
            for shares in self.plan.errors.values()
        )

    @property
    def words(self) -> str:
        levels = ", ".join(f"{float(epsilon):.6g}" for epsilon in self.epsilons)
        return (
            f"exponential mechanism with epsilon = {levels} in {len(self.levels)} rounds of cuts, "
            f"{len(self.mechanisms)} in all"
        )

    def places(
        self, counted: GridCounts, slots: Integers, bits: RandomBits
    ) -> Mapping[Fraction, Integers]:
        found = {split.at: np.empty(counted.cells, dtype=np.int64) for split in self.mechanisms}
        unit = max(split.share.denominator for split in self.mechanisms) * row_weight()
        for cells, bins in counted.batches(slots):
            base = _all_places(bins, unit=unit)
            edges = {Fraction(0): _Edge.of(base, 0), Fraction(1): _Edge.of(base, -1)}
            for split, mechanism in self.mechanisms.items():
                start, share = edges[split.low], split.share
                part = _part(base, start, edges[split.high])
                # A part of no places has nothing to be drawn: the cut is where it begins.
                lines = np.flatnonzero((part.sizes > 0).any(axis=1))
                total = part.weights[lines].sum(axis=1)
                drawn = draw_spread(
                    part.of(lines),
                    start.weight[lines] * share.denominator + total * share.numerator,
                    denominator=share.denominator,
                    factor=mechanism.factor,
                    bits=bits,
                )
                edges[split.at] = start.moved(lines, drawn)
                places = edges[split.at].place >> PLACES_LOG2
                found[split.at][cells] = np.searchsorted(slots, places, side="right") - 1
        return found

    @property
    def _rates(self) -> dict[Fraction, float]:
        """By cut, the exponent that a rank is worth."""
        return {
            split.at: float(mechanism.factor * (split.share.denominator * row_weight()))
            for split, mechanism in self.mechanisms.items()
        }


def row_weight() -> int:
    """The weight of a row, which is a multiple of the places of any point."""
    return 1 << PLACES_LOG2 + SLOTS_LOG2


def spread(bins: PlaceBins) -> PlaceBins:
    """All places of the same, and rows by weight, spread evenly over those of their point."""
    weight = row_weight()
    lows, sizes = bins.lows << PLACES_LOG2, bins.sizes << PLACES_LOG2
    return PlaceBins(lows, sizes, bins.weights * weight, bins.before * weight)


def _all_places(bins: PlaceBins, *, unit: int) -> PlaceBins:
    """All places of every cell; in 64 bits where losses by weight, in such units, fit."""
    most = int((bins.before + bins.weights).max(initial=0))
    kind = object if (most * unit).bit_length() > _WIDEST else np.int64
    weights, before = bins.weights.astype(kind), bins.before.astype(kind)
    return spread(bins._replace(weights=weights, before=before))


class _Edge(NamedTuple):
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
        return _Edge(place, place, place, weight, weight, weight)

    def moved(self, lines: Integers, drawn: SpreadDraws) -> _Edge:
        """The same in arrays of its own, but for some lines, whose cuts were drawn."""
        begin = drawn.places >> PLACES_LOG2 << PLACES_LOG2
        end = begin + (1 << PLACES_LOG2)
        cuts = _Edge(
            place=drawn.places,
            begin=begin,
            end=end,
            weight=drawn.below,
            begin_weight=drawn.below - drawn.level * (drawn.places - begin),
            end_weight=drawn.below + drawn.level * (end - drawn.places),
        )
        found = _Edge(*(column.copy() for column in self))
        for column, values in zip(found, cuts, strict=True):
            column[lines] = values
        return found


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
    return PlaceBins(lows, ends - lows, after - before, before).of((slice(None), some))
