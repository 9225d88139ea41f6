"""Trials of the draws that `ranks` and `cuts` tell of, of many cells side by side.

A line is one draw: a cell, or a part of one, as its bins are now. Lines that try again do so at
once, so that the engine hears of all of them in one question, and their weights, proposals and
coins are computed as arrays. What is random is decided as exactly as one by one.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacet.bits import RandomBits
from tacet.mechanisms.refine import LazyUniform, exp_bounds
from tacet.mechanisms.selection.exponential import choose
from tacet.query.ranking import CHILD_BINS_LOG2, Asked, Finer

__all__ = ["Bins", "Draws", "accepts", "below_each", "settle"]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_WITHIN_LOG2 = 6  # the logarithm of how many bins are made of one within a point
_SLACK = 2.0**-46  # far above the error of an exponential in float64


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Bins, lines by bins: first place, places, weight of rows, and weight of all below.

    Weights are whole numbers, of any size where they are objects. Of a line that has fewer bins
    than others the last have no places.
    """

    lows: Integers
    sizes: Integers
    weights: Any
    before: Any

    def of(self, lines: Any) -> Bins:
        """The bins of some lines."""
        return Bins(
            lows=self.lows[lines],
            sizes=self.sizes[lines],
            weights=self.weights[lines],
            before=self.before[lines],
        )

    def replaced(self, at: Integers, by: Bins) -> Bins:
        """Others in place of one bin of every line."""
        return Bins(
            lows=_replaced(self.lows, at, by.lows),
            sizes=_replaced(self.sizes, at, by.sizes),
            weights=_replaced(self.weights, at, by.weights),
            before=_replaced(self.before, at, by.before),
        )

    @staticmethod
    def joined(lines: Sequence[Bins]) -> Bins:
        """Lines of as many bins each as the longest has."""
        width = max(len(line.lows) for line in lines)
        shape = (len(lines), width)
        lows, sizes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        weights, before = (np.zeros(shape, lines[0].weights.dtype) for _ in range(2))
        for number, line in enumerate(lines):
            length = len(line.lows)
            lows[number, :length], sizes[number, :length] = line.lows, line.sizes
            weights[number, :length], before[number, :length] = line.weights, line.before
        return Bins(lows=lows, sizes=sizes, weights=weights, before=before)


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
        return np.asarray(low >> self.point_log2 != (low + size - 1) >> self.point_log2)

    @property
    def across(self) -> Flags:
        """Whether the engine must be asked about it."""
        return self.several & ~self.accepted

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

    def asked(self) -> list[list[int]]:
        """The columns of what the engine is asked: cell, first and last point, shift, point."""
        (low, size, _, _), across, log2 = self.chosen, self.across, self.point_log2
        first, last = (low >> log2)[across].tolist(), ((low + size - 1) >> log2)[across].tolist()
        shifts = [
            max((end - start).bit_length() - CHILD_BINS_LOG2, 0)
            for start, end in zip(first, last, strict=True)
        ]
        points = (self.places >> log2)[across].tolist()
        return [self.cells[across].tolist(), first, last, shifts, points]

    def judge(self, children: Sequence[Bins], bits: RandomBits) -> Draws | None:
        """Toss the coins. What is refused tries again; children: of bins across points."""
        open_, across = np.flatnonzero(~self.accepted), np.flatnonzero(self.across)
        low, _, _, before = self.chosen
        start = low.copy()
        start[across] = self.places[across] >> self.point_log2 << self.point_log2
        reached = before + (self.below << self.point_log2) + self.level * (self.places - start)
        tied = 0 * reached if self.point_log2 else self.level
        least = self.losses[np.arange(len(self.at)), self.at]
        excess = _loss(reached, tied, self.aims, self.denominator) - least
        cut = dict(zip(across.tolist(), children, strict=True))
        self.accepted[open_] = accepts(excess[open_], self.factor, bits)
        refused = np.flatnonzero(~self.accepted)
        if not len(refused):
            return None
        chosen = self.chosen
        smaller = [
            cut[line] if line in cut else _within(*(part[[line]] for part in chosen))
            for line in refused.tolist()
        ]
        return self._again(refused, smaller)

    def _again(self, lines: Integers, children: Sequence[Bins]) -> Draws:
        """The next trial of some lines, with smaller bins in place of the proposed ones."""
        at, aims = self.at[lines, None], self.aims[lines]
        cut = Bins.joined(children)
        losses = _least(cut, aims, self.denominator, spread=self.point_log2 > 0)
        return Draws(
            numbers=self.numbers[lines],
            cells=self.cells[lines],
            bins=self.bins.of(lines).replaced(at, cut),
            aims=aims,
            losses=_replaced(self.losses[lines], at, losses),
            denominator=self.denominator,
            factor=self.factor,
            point_log2=self.point_log2,
        )


def settle(draws: Sequence[Draws], finer: Finer | None, bits: RandomBits) -> list[list[Draws]]:
    """All trials of these draws, until every line has accepted a place."""
    trials: list[list[Draws]] = [[] for _ in draws]
    trying = dict(enumerate(draws))
    while trying:
        for one in trying.values():
            one.propose(bits)
        children = _counted(list(trying.values()), finer)
        again = {}
        for (number, one), bins in zip(trying.items(), children, strict=True):
            trials[number].append(one)
            later = one.judge(bins, bits)
            if later is not None:
                again[number] = later
        trying = again
    return trials


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


def _replaced(values: Any, at: Integers, by: Any) -> Any:
    """In every line one entry's place is taken by the first of others, which follow at the end."""
    np.put_along_axis(values, at, by[:, :1], axis=1)
    return np.concatenate([values, by[:, 1:]], axis=1)


def _counted(draws: Sequence[Draws], finer: Finer | None) -> list[list[Bins]]:
    """Smaller bins of all that must be asked about; what is below and at the places is noted."""
    asked = [one.asked() for one in draws]
    cells, firsts, lasts, shifts, points = (
        [value for parts in asked for value in parts[column]] for column in range(5)
    )
    if not cells:
        return [[] for _ in draws]
    assert finer is not None
    found = finer(Asked(cells=cells, lows=firsts, highs=lasts, shifts=shifts, points=points))
    below, level = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    np.add.at(below, found.lines, found.below)
    np.add.at(level, found.lines, found.level)
    order = np.argsort(found.lines, kind="stable")
    ends = np.searchsorted(found.lines[order], np.arange(len(cells) + 1))
    bins, line = [], 0
    for one in draws:
        own, log2 = [], one.point_log2
        across, (_, _, _, before) = np.flatnonzero(one.across), one.chosen
        part = slice(line, line + len(across))
        one.below[across], one.level[across] = below[part], level[part]
        for start in before[across]:
            lows = np.arange(firsts[line], lasts[line] + 1, 1 << shifts[line], dtype=np.int64)
            sizes = np.diff(np.append(lows, lasts[line] + 1))
            counts = np.zeros(len(lows), dtype=one.bins.weights.dtype)
            rows = order[ends[line] : ends[line + 1]]
            counts[found.children[rows]] = found.counts[rows]
            own.append(_after(lows << log2, sizes << log2, counts << log2, start))
            line += 1
        bins.append(own)
    return bins


def _within(first: Integers, places: Integers, weight: Any, before: Any) -> Bins:
    """Smaller bins of one line in place of one that lies within one point; each an array of one."""
    low, size = int(first[0]), int(places[0])
    children = min(CHILD_BINS_LOG2, _WITHIN_LOG2)
    step = 1 << max((size - 1).bit_length() - children, 0)
    lows = np.arange(low, low + size, step, dtype=np.int64)
    sizes = np.diff(np.append(lows, low + size))
    return _after(lows, sizes, sizes.astype(weight.dtype) * (weight // size), before)


def _after(lows: Integers, sizes: Integers, weights: Any, before: Any) -> Bins:
    """Bins of one line that follow a weight."""
    return Bins(
        lows=lows, sizes=sizes, weights=weights, before=before + np.cumsum(weights) - weights
    )


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
