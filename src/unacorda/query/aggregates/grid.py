"""A public grid, counts of rows or people by their place on it, and draws by their ranks.

**The points.** There are at most 2^20, in the order of floats. A point is m units of at most b + 1
binary digits: near zero every multiple of the unit is a point, and from 2^(b + 1) units on the
distance of two points is at most 2^-b of them. So a median of 405 and one of 405,000,000 are
released equally well, whatever the bounds. Negative points mirror the positive ones. A number
counts as the nearest point; the ends of the grid are the bounds.

The points are numbered in their order. The number of x units, x >= 0, is

    j 2^b + round(x / 2^j),    j = max(0, floor(log2 x) - b),

which is the order of the bits of a float with a b-bit fraction: SQL evaluates it by cases of j with
one product of a double and a constant each, so that every engine finds the same point.

**Short numbers weigh more.** Data that are written with few digits repeat. Among points that are
all alike, a whole number that many rows have would be one in thousands of points that are about as
good. So a point whose last t binary digits are 0 has 2^floor(t / 2) slots, at most 64, and what is
drawn is a slot. This is public. There are 1.5 times as many slots as points. Where a resolution was
given, which says what values there are, each point has one slot.

**Counts.** Only places with rows are held. Neighboring places without rows between them are one
bin, since all of them have the same rows below: a cell has no more bins than about twice its rows,
however fine the grid is.

A candidate e is wrong by the distance of an aimed rank a from the ranks that e covers,

    loss(e) = max(#{x < e} - a, a - #{x <= e}, 0),

and is drawn with probability proportional to exp(-f loss(e)), f = epsilon / (2 sensitivity). With
a = q n this is the inverse sensitivity mechanism of a quantile: up to ties, the least number of
rows that must come or go before e is the quantile. A place is drawn by its slots, which are public.
All places of a bin have the same loss, so that a bin is drawn by its slots times exp(-f loss), and
one of its slots evenly.

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

import bisect
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.noise.refinement import LazyUniform, exp_bounds
from unacorda.mechanisms.selection.exponential import Exponential, choose
from unacorda.query.expressions.language import double
from unacorda.query.schema.units import Person, Unit, id_columns

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_RESOLUTION_LOG2 = -60
"""The logarithm of the least unit, as a share of the larger bound."""
SLOTS_LOG2 = 6
"""The logarithm of the most slots that a point has."""

_MOST_STEPS = 2**20
_FLOOR_LOG2 = -40  # below so much of the larger bound the distance of points stays the same
_FINEST = 46  # binary digits of a fraction: all numbers of points are doubles
_LEAST_LOG2 = -1000  # of a unit

Lines = tuple[Integers, Integers, Integers]
"""Counts where there are any: cells, places, and how many. Private."""

_MOST_ENTRIES = 1_000_000  # cells times bins, padded, that are drawn from at once
_MANY = 4_096  # bins of a cell that is drawn from by itself
_BITS = 63
_SLACK = 2.0**-46  # far above the error of an exponential in float64
_PIECES = 64  # at most, that a bin is cut into


def bisection(
    first: int, last: int, *, before: Callable[[int], str], leaf: Callable[[int], str]
) -> str:
    """SQL that picks one of the leaves `first` to `last`; before: that it is this or an earlier."""
    if first == last:
        return leaf(first)
    middle = (first + last) // 2
    earlier = bisection(first, middle, before=before, leaf=leaf)
    later = bisection(middle + 1, last, before=before, leaf=leaf)
    return f"CASE WHEN {before(middle)} THEN {earlier} ELSE {later} END"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicGrid:
    """The points from a lower bound to an upper one.

    unit: the distance of points near zero, inverted if `per_unit`: points are then multiples of
    1 / unit. fraction: b, the binary digits of a point after its first. first: the number of the
    lower bound in the order of all points; steps: how many points follow it. alike: whether each
    has one slot.
    """

    lower: float
    upper: float
    unit: float
    per_unit: bool
    fraction: int
    first: int
    steps: int
    alike: bool

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(lower: Fraction, upper: Fraction, resolution: Fraction | None = None) -> PublicGrid:
        """The finest grid of at most 2^20 steps.

        resolution: the unit; left out, points are a constant distance apart only below 2^-40 of the
        power of two that is the larger bound or the next above it.

        >>> PublicGrid.of(Fraction(0), Fraction(120), Fraction(1)).steps
        120
        >>> grid = PublicGrid.of(Fraction(0), Fraction(10**9))
        >>> grid.steps < 2**20, grid.fraction
        (True, 14)
        """
        grid = functools.partial(_grid, float(lower), float(upper), resolution)
        digits = range(1, _FINEST + 1)
        return grid(bisect.bisect_right(digits, _MOST_STEPS, key=lambda b: grid(b).steps))

    def places(self, values: ArrayLike) -> Integers:
        """The numbers of the points next to some values, 0 to `steps`; as `sql` counts them."""
        clipped = np.clip(np.asarray(values, dtype=np.float64), self.lower, self.upper)
        places = np.clip(self.numbers(clipped) - self.first, 0, self.steps)
        places = np.where(clipped <= self.lower, 0, places)
        return np.where(clipped >= self.upper, self.steps, places)

    def values(self, places: ArrayLike) -> Floats:
        """The points with some numbers."""
        places = np.asarray(places)
        points = np.clip(self.points(places + self.first), self.lower, self.upper)
        points = np.where(places <= 0, self.lower, points)
        return np.where(places >= self.steps, self.upper, points)

    def ends(self, places: ArrayLike) -> tuple[Floats, Floats]:
        """Numbers that all values which count as some points lie between."""
        numbers = np.asarray(places) + self.first
        own = self.points(numbers)
        low, high = ((own + self.points(numbers + side)) / 2 for side in (-1, 1))
        # What is halfway is rounded, and so were products before: by less than 2^-50 of it.
        low, high = low - np.abs(low) * 2.0**-50, high + np.abs(high) * 2.0**-50
        low = np.where(np.asarray(places) <= 0, self.lower, low)
        high = np.where(np.asarray(places) >= self.steps, self.upper, high)
        return np.clip(low, self.lower, self.upper), np.clip(high, self.lower, self.upper)

    def sql(self, value: str) -> str:
        """SQL for the number of the point next to a nullable double; total, NULL for NULL."""
        inner = self._sides(value)
        if self.first:
            inner = f"{inner} - {double(self.first)}"
        return (
            f"CAST(CASE WHEN {value} <= {double(self.lower)} THEN 0e0 "
            f"WHEN {value} >= {double(self.upper)} THEN {double(self.steps)} "
            f"ELSE {inner} END AS INTEGER)"
        )

    @property
    @functools.lru_cache(maxsize=16)  # noqa: B019  # grids are small values, few are kept
    def slots(self) -> Integers:
        """The first slot of each point, and how many there are in all."""
        found = np.arange(self.steps + 2, dtype=np.int64)
        if not self.alike:
            size = np.abs(found[:-1] + self.first)
            digits = size - (np.maximum((size >> self.fraction) - 1, 0) << self.fraction)
            zeros = np.log2((digits & -digits).clip(1)).astype(np.int64)
            own = 1 << np.minimum(np.where(digits == 0, self.fraction, zeros) // 2, SLOTS_LOG2)
            np.cumsum(own, out=found[1:])
            found[0] = 0
        found.setflags(write=False)
        return found

    @property
    def words(self) -> str:
        """What answers there are."""
        least = 1 / self.unit if self.per_unit else self.unit
        if len(self._starts) == 1:  # all points are a unit apart
            return (
                f"answers are the bounds and multiples of {least:g}; a value counts as the nearest"
            )
        return (
            f"answers have {self.fraction + 1} binary digits: a value counts as the nearest one, "
            f"within {2.0 ** -(self.fraction + 1):.1g} of itself, or as the nearest multiple of "
            f"{least:.3g} where that is coarser"
        )

    @property
    def _starts(self) -> list[float]:
        """Where points begin to be 2, 4, 8, ... units apart, as far as a bound reaches."""
        largest = max(abs(self.lower), abs(self.upper))
        starts = [self._scaled(2.0 ** (self.fraction + 1))]
        while starts[-1] < largest:
            starts.append(self._scaled(2.0 ** (self.fraction + 1 + len(starts))))
        return starts

    def _scaled(self, units: Any) -> Any:
        """Units as numbers."""
        return units / self.unit if self.per_unit else units * self.unit

    def _rate(self, j: int) -> float:
        """By what a value is multiplied to be counted in steps of 2^j units."""
        return (self.unit if self.per_unit else 1 / self.unit) * 2.0**-j

    def numbers(self, values: Floats) -> Integers:
        """The numbers of the points next to some values in the order of all, 0 that of 0."""
        size = np.abs(values)
        j = np.searchsorted(self._starts, size, side="right")
        rates = np.array([self._rate(k) for k in range(len(self._starts) + 1)])
        found = np.floor(size * rates[j] + 0.5) + j * 2.0**self.fraction
        numbers: Integers = np.where(values < 0, -found, found).astype(np.int64)
        return numbers

    def points(self, numbers: Integers) -> Floats:
        """The points with some numbers in the order of all, also those beyond the bounds."""
        size = np.abs(numbers)
        j = np.maximum((size >> self.fraction) - 1, 0)
        units = np.ldexp((size - (j << self.fraction)).astype(np.float64), j.astype(np.int64))
        points: Floats = self._scaled(units)
        return np.where(numbers < 0, -points, points)

    def _sides(self, value: str) -> str:
        """SQL for `numbers`, of a value between the bounds."""
        largest = max(abs(self.lower), abs(self.upper))
        last = sum(start < largest for start in self._starts)
        nearest = min(abs(self.lower), abs(self.upper))
        first = sum(start <= nearest for start in self._starts)
        if self.lower >= 0:
            return self._cases(value, first, last)
        if self.upper <= 0:
            return f"-{self._cases(f'(-{value})', first, last)}"
        below, above = self._cases(f"(-{value})", 0, last), self._cases(value, 0, last)
        return f"CASE WHEN {value} < 0e0 THEN -{below} ELSE {above} END"

    def _cases(self, value: str, first: int, last: int) -> str:
        """SQL for the number of a value of at least 0, of which j is between these."""
        starts = self._starts

        def number(j: int) -> str:
            steps = f"floor({value} * {double(self._rate(j))} + 0.5e0)"
            return f"({steps} + {double(j * 2.0**self.fraction)})" if j else steps

        return bisection(
            first, last, before=lambda j: f"{value} < {double(starts[j])}", leaf=number
        )


def _grid(lower: float, upper: float, resolution: Fraction | None, fraction: int) -> PublicGrid:
    alike = resolution is not None
    if resolution is None:
        _, exponent = math.frexp(max(abs(lower), abs(upper)))
        resolution = Fraction(2) ** max(exponent + _FLOOR_LOG2 - fraction - 1, _LEAST_LOG2)
    per_unit = resolution < 1
    whole = PublicGrid(
        lower=lower,
        upper=upper,
        unit=float(1 / resolution if per_unit else resolution),
        per_unit=per_unit,
        fraction=fraction,
        first=0,
        steps=0,
        alike=alike,
    )
    first, last = whole.numbers(np.array([lower, upper])).tolist()
    # The bounds stand for the points next to them on the far side.
    first -= int(whole.points(np.array(first)) > lower)
    last += int(whole.points(np.array(last)) < upper)
    return dataclasses.replace(whole, first=first, steps=max(last - first, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What is ranked. place: SQL of a row's place, NULL where it has none; steps: the last place.

    people: where set, a person counts once in each cell, by their least or greatest place.
    """

    place: str
    steps: int
    people: Literal["min", "max"] | None = None

    @property
    def reads(self) -> str | None:
        """SQL of a condition: other rows could go without changing it."""
        return f"({self.place}) IS NOT NULL"

    def sql(self, unit: Unit) -> str:
        """SELECT (cell, bin, n): rows or people by place, over `bounded`."""
        place, grouped = self.place, ""
        if self.people is not None and isinstance(unit, Person):
            place = f"{self.people}({place})"
            grouped = f" GROUP BY cell, {', '.join(id_columns(unit))}"
        return (
            "SELECT cell, bin, count(*) AS n FROM (SELECT cell, "
            f"{place} AS bin FROM bounded{grouped}) AS placed WHERE bin IS NOT NULL "
            "GROUP BY cell, bin"
        )


class PlaceBins(NamedTuple):
    """Bins, lines by bins: first place, places, weight of rows, and weight of all below. Private.

    Weights are whole numbers, of any size where they are objects. Bins need not be in order, and
    some may have no places: between neighbors, where a line has fewer than others, and where they
    were replaced.
    """

    lows: Integers
    sizes: Integers
    weights: Any
    before: Any

    def of(self, lines: Any) -> PlaceBins:
        """The bins of some lines."""
        return PlaceBins(*(column[lines] for column in self))

    def __repr__(self) -> str:
        return "PlaceBins(...)"


@dataclass(frozen=True, kw_only=True, repr=False)
class GridCounts:
    """One ranking: rows or people by cell and place. Private.

    cells: how many there are; keys: places with rows, rising, those of each cell beyond those of
    the one before; rows: how many each has.
    """

    steps: int
    cells: int
    keys: Integers
    rows: Integers

    @staticmethod
    def of(steps: int, cells: int, lines: Lines) -> GridCounts:
        """Of lines in any order."""
        at, places, rows = lines
        keys = at * (steps + 1) + np.clip(places, 0, steps)  # as SQL has it already
        log2 = int(rows.max(initial=0)).bit_length()
        if int(keys.max(initial=0)).bit_length() + log2 < _BITS:  # much sooner put in order
            both = np.sort((keys << log2) | rows)
            keys, rows = both >> log2, both & ((1 << log2) - 1)
        else:
            order = np.argsort(keys)
            keys, rows = keys[order], rows[order]
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        if len(begins) < len(keys):
            keys, rows = keys[begins], np.add.reduceat(rows, begins)
        return GridCounts(steps=steps, cells=cells, keys=keys, rows=rows)

    def batches(self, slots: Integers | None = None) -> Iterator[tuple[Integers, PlaceBins]]:
        """All cells: those with many bins one by one, others with about as many bins together.

        Between the ends of the grid, which are bins by themselves, empty places that are neighbors
        are one bin. Where a cell has fewer bins than others, those that it lacks follow, without
        places. slots: the first of each place, and how many there are in all, in which bins are
        counted instead of in places.
        """
        lines, bins = self._bins
        end = self.steps + 1
        if slots is not None:
            lows, end = slots[bins.lows], int(slots[-1])
            bins = bins._replace(lows=lows, sizes=slots[bins.lows + bins.sizes] - lows)
        lengths = np.bincount(lines, minlength=self.cells)
        starts, few = np.cumsum(lengths) - lengths, np.flatnonzero(lengths < _MANY)
        few = few[np.argsort(lengths[few], kind="stable")[::-1]]
        batches = list(np.flatnonzero(lengths >= _MANY)[:, None])
        while len(few):
            count = max(_MOST_ENTRIES // int(lengths[few[0]]), 1)
            batches.append(np.sort(few[:count]))
            few = few[count:]
        for cells in batches:
            if len(cells) == 1:
                alone = slice(starts[cells[0]], starts[cells[0]] + lengths[cells[0]])
                yield cells, PlaceBins(*(column[None, alone] for column in bins))
                continue
            last = lengths[cells][:, None] - 1
            columns = np.arange(last.max() + 1)
            there = columns <= last
            own = bins.of(starts[cells][:, None] + np.minimum(columns, last))
            yield (
                cells,
                PlaceBins(
                    lows=np.where(there, own.lows, end),
                    sizes=own.sizes * there,
                    weights=own.weights * there,
                    before=own.before + own.weights * ~there,
                ),
            )

    @cached_property
    def _bins(self) -> tuple[Integers, PlaceBins]:
        """Bins that fill every cell: each place with rows, each end, and what lies between."""
        starts = np.arange(self.cells + 1) * (self.steps + 1)
        # The ends of the grid are bins by themselves, with rows or without.
        ends = np.unique(np.concatenate([starts[:-1], starts[1:] - 1]))
        places = np.searchsorted(self.keys, ends)
        there = self.keys[np.minimum(places, len(self.keys) - 1)] if len(self.keys) else -1
        lacking = there != ends
        every = np.insert(self.keys, places[lacking], ends[lacking])
        rows = np.insert(self.rows, places[lacking], 0)
        lines = every // (self.steps + 1)
        lows = every - lines * (self.steps + 1)
        before = np.cumsum(rows) - rows
        before -= before[np.searchsorted(lines, np.arange(self.cells))][lines]
        # Behind each comes what lies between it and the next, if anything does.
        nothing, between = np.zeros_like(rows), np.diff(every, append=every[-1:] + 1) - 1
        bins = PlaceBins(
            *(
                np.stack(both, axis=1).ravel()
                for both in (
                    (lows, lows + 1),
                    (nothing + 1, between),
                    (rows, nothing),
                    (before, before + rows),
                )
            )
        )
        return np.repeat(lines, 2), bins

    def below(self, places: Integers) -> Integers:
        """Rows below some places of every cell; places: cells by any number of them."""
        starts = np.arange(self.cells)[:, None] * (self.steps + 1)
        return self._before(starts + places) - self._before(starts)

    @property
    def totals(self) -> Integers:
        """The rows of every cell."""
        return np.diff(self._before(np.arange(self.cells + 1) * (self.steps + 1)))

    def _before(self, keys: Integers) -> Integers:
        """The rows with smaller keys."""
        sums = np.concatenate([[0], np.cumsum(self.rows)])
        found: Integers = sums[np.searchsorted(self.keys, keys)]
        return found

    @property
    def counts(self) -> Integers:
        """Cells by places, all of them."""
        counts = np.zeros((self.cells, self.steps + 1), dtype=np.int64)
        counts.ravel()[self.keys] = self.rows
        return counts


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
        heads[tossed[place]] = is_below(number, -factor * int(excess[tossed[place]]))
    return heads


def is_below(uniform: LazyUniform, exponent: Fraction, *, chance: Fraction = Fraction(1)) -> bool:
    """Whether a uniform number is below chance e^exponent."""
    top, bottom = chance.numerator, chance.denominator
    while True:
        places = uniform.places + top.bit_length()
        low, high = exp_bounds(exponent, places)
        spare = places - uniform.length
        if (uniform.value + 1) * bottom << spare <= top * low:
            return True
        if uniform.value * bottom << spare >= top * high:
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
    for cells, bins in counted.batches(slots):
        ends = bins.lows == 0, bins.lows == slots[-2]
        losses = _rank_losses(bins.weights, bins.before, ends, q=q, shift=shift)
        drawn = _chosen(bins, losses, factor=mechanism.factor, bits=bits)
        found = bins.lows[drawn] + below_each(bins.sizes[drawn], bits)
        places[cells] = np.searchsorted(slots, found, side="right") - 1
    return places


def rank_losses(counts: Integers, q: Fraction, *, shift: int = 0) -> Integers:
    """The least loss in every bin, times the denominator of q: exact integers, cells by bins.

    The aim is rank q n + shift; with a shift the first and the last bin, the two ends of the grid,
    cover all ranks beyond 0 and n.
    """
    places = np.arange(counts.shape[1])
    ends = places == 0, places == places[-1]
    return _rank_losses(counts, np.cumsum(counts, axis=1) - counts, ends, q=q, shift=shift)


def _rank_losses(
    weights: Integers, before: Integers, ends: tuple[Flags, Flags], *, q: Fraction, shift: int
) -> Integers:
    """The same of bins in order; ends: which of them are the first, and which the last place."""
    below, at_most = before * q.denominator, (before + weights) * q.denominator
    aims = (before + weights)[:, -1:] * q.numerator + shift * q.denominator
    if shift:
        below = np.where(ends[0], np.minimum(below, aims), below)
        at_most = np.where(ends[1], np.maximum(at_most, aims), at_most)
    losses: Integers = np.maximum(np.maximum(below - aims, aims - at_most), 0)
    return losses


class SpreadDraws(NamedTuple):
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
    lines, kind = len(aims), bins.weights.dtype
    found = SpreadDraws(np.empty(lines, np.int64), np.zeros(lines, kind), np.zeros(lines, kind))
    open_ = np.arange(lines)
    while len(open_):
        losses = _least_losses(bins, aims, denominator)
        chosen = _chosen(bins, losses, factor=factor, bits=bits)
        low, size, weight, before = bins.of(chosen)
        steps = below_each(size, bits)
        level = weight // size
        reached = before + level * steps
        excess = np.abs(reached * denominator - aims) - losses[chosen]
        taken = accepts(excess, factor, bits)
        for column, drawn in zip(found, (low + steps, reached, level), strict=True):
            column[open_[taken]] = drawn[taken]
        again = np.flatnonzero(~taken)
        bins, refused = bins.of(again), (np.arange(len(again)), chosen[1][again])
        pieces = _pieces(bins.of(refused))
        bins.sizes[refused] = bins.weights[refused] = 0
        bins = PlaceBins(*(np.concatenate(both, axis=1) for both in zip(bins, pieces, strict=True)))
        open_, aims = open_[again], aims[again]
    return found


def _chosen(bins: PlaceBins, losses: Any, *, factor: Fraction, bits: RandomBits) -> Any:
    """The index of a bin of each line, drawn by its places and its loss."""
    # What has no places is not to be the best.
    losses = np.where(bins.sizes > 0, losses, losses.max(axis=1, keepdims=True))
    return np.arange(len(losses)), choose(-losses, bins.sizes, factor=factor, bits=bits)


def _least_losses(bins: PlaceBins, aims: Any, denominator: int) -> Any:
    """The least loss in every bin; its last place has all of the bin below it but its own rows."""
    first = bins.before * denominator - aims[:, None]
    last = first + (bins.weights - bins.weights // np.maximum(bins.sizes, 1)) * denominator
    return np.maximum(np.maximum(first, -last), 0)


def _pieces(bins: PlaceBins) -> PlaceBins:
    """Smaller bins in place of one of each line."""
    low, size, weight, before = bins.of((slice(None), None))
    level, step = weight // size, -(-size // _PIECES)
    skipped = np.minimum(step * np.arange(_PIECES), size)
    sizes = np.minimum(step, size - skipped)
    return PlaceBins(low + skipped, sizes, level * sizes, before + level * skipped)
