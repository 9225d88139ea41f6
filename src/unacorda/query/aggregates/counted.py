"""The counts of one ranking in all cells, read some cells at a time."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unacorda.query.aggregates.bins import Bins, Runs, bit_lengths, smaller
from unacorda.query.aggregates.grid_counts import (
    CHILD_BINS_LOG2,
    Aim,
    Asked,
    Finer,
    Lines,
    Ranking,
    Refined,
)

__all__ = ["MOST_LINES", "Batch", "Counted", "Part"]

Integers = NDArray[np.int64]

MOST_LINES = 1 << 22
"""Cells times bins that are read at once."""

_MOST_ENTRIES = 1_000_000  # cells times bins, padded, that are drawn from at once
_MOST_SMALLER = 1_000_000  # bins that are asked for beforehand
_LEAST = 2.0**-14  # what is less likely is not asked for beforehand
_BESIDE = 3.0  # further away than that, in scales, since a scale is a rough one
_EACH = 2.0**-18  # or so much for each cell, where there are many


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Batch:
    """Some cells, and their bins side by side. Private.

    Between the ends of the grid, which are bins by themselves, empty bins that are neighbours are
    one, of those that were counted at once. Where a cell has fewer bins than others, those that it
    lacks follow, without places.
    """

    cells: Integers
    bins: Bins

    def __repr__(self) -> str:
        return "Batch(...)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Part:
    """Counts of cells that follow each other: where there are rows, by cell and bin. Private.

    first: the first cell; size: how many there are; cells: counted from the first. finer: what
    the engine told of smaller bins, and what it was asked.
    """

    ranking: Ranking
    first: int
    size: int
    cells: Integers
    bins: Integers
    rows: Integers
    finer: tuple[Asked, Refined] | None = None

    def batches(self) -> Iterator[Batch]:
        """All cells, those with about as many bins together."""
        runs = self._runs()
        lengths = runs.lengths
        order = np.argsort(lengths, kind="stable")[::-1]
        starts = np.cumsum(lengths) - lengths
        done = 0
        while done < len(order):
            count = max(_MOST_ENTRIES // int(lengths[order[done]]), 1)
            cells = np.sort(order[done : done + count])
            done += count
            own = lengths[cells]
            lines = np.repeat(np.arange(len(cells)), own)
            at = np.arange(len(lines)) + np.repeat(starts[cells] - np.cumsum(own) + own, own)
            chosen = Runs(
                lines=lines,
                lows=runs.lows[at],
                sizes=runs.sizes[at],
                weights=runs.weights[at],
                before=runs.before[at],
            )
            yield Batch(
                cells=self.first + cells,
                bins=chosen.padded(len(cells), end=self.ranking.steps + 1),
            )

    def _runs(self) -> Runs:
        width, lows = self.ranking.bins, self.ranking.lows
        keys = self.cells * width + self.bins
        counts = np.zeros(self.size * width + 1, dtype=np.int64)
        counts[keys] = self.rows
        begun = np.zeros(len(counts), dtype=np.bool_)
        # The ends of the grid are bins by themselves, with rows or without.
        starts = np.arange(self.size + 1) * width
        for mark in (keys, keys + 1, starts, starts[:-1] + 1, starts[1:] - 1):
            begun[mark] = True
        marks = np.flatnonzero(begun)
        lines, first = np.divmod(marks[:-1], width)
        begins, rows = lows[first], counts[marks[:-1]]
        ends = np.append(lows, self.ranking.steps + 1)[first + np.diff(marks)]
        sizes = ends - begins
        if self.finer is not None:
            lines, begins, sizes, rows = self._sharpened(lines, begins, sizes, rows)
        before = np.cumsum(rows) - rows
        before -= before[np.searchsorted(lines, np.arange(self.size))][lines]
        return Runs(lines=lines, lows=begins, sizes=sizes, weights=rows, before=before)

    def _sharpened(
        self, lines: Integers, lows: Integers, sizes: Integers, rows: Integers
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """With smaller bins in place of those that were asked about."""
        assert self.finer is not None
        asked, found = self.finer
        span = self.ranking.steps + 1
        of = np.asarray(asked.cells, dtype=np.int64) - self.first
        stay = ~np.isin(lines * span + lows, of * span + np.asarray(asked.lows, dtype=np.int64))
        numbers, *columns = smaller(asked, found)
        joined = [
            np.concatenate([old[stay], new])
            for old, new in zip((lines, lows, sizes, rows), (of[numbers], *columns), strict=True)
        ]
        order = np.argsort(joined[0] * span + joined[1], kind="stable")
        lines, lows, sizes, rows = (column[order] for column in joined)
        return lines, lows, sizes, rows

    def __repr__(self) -> str:
        return "Part(...)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Counted:
    """One ranking: rows or people by (cell, bin), and counts within bins of many points. Private.

    cells: how many there are; read: the counts of cells from a first one up to before a last one;
    finer: None where every point of the grid is a bin.
    """

    ranking: Ranking
    cells: int
    read: Callable[[int, int], Lines]
    finer: Finer | None = None
    _known: dict[int, Part] = field(default_factory=dict, init=False)

    @staticmethod
    def of(ranking: Ranking, counts: Integers, finer: Finer | None = None) -> Counted:
        """Of counts by cell and bin."""

        def read(first: int, end: int) -> Lines:
            at, bins = np.nonzero(counts[first:end])
            return at + first, bins, counts[first:end][at, bins]

        return Counted(ranking=ranking, cells=len(counts), read=read, finer=finer)

    def parts(self) -> Iterator[Part]:
        """All cells, in their order, so few at a time that their counts can be held."""
        size = self._at_once
        for first in range(0, self.cells, size):
            count = min(size, self.cells - first)
            part = self._known.get(first)
            if part is None:
                cells, bins, rows = self.read(first, first + count)
                part = Part(
                    ranking=self.ranking,
                    first=first,
                    size=count,
                    cells=cells - first,
                    bins=bins,
                    rows=rows,
                )
            if self.cells <= size:  # others would be held all at once
                self._known[first] = part
            yield part

    def batches(self) -> Iterator[Batch]:
        """All cells, those with about as many bins together."""
        for part in self.parts():
            yield from part.batches()

    def near(self, aims: Sequence[Aim]) -> Asked | None:
        """What is best asked before draws that look there, so that they need not ask one by one.

        None where that is nothing, or too much.
        """
        spread = -math.log(max(_LEAST, self.cells * _EACH))
        if self.finer is None or not 0 < self.cells <= self._at_once or spread <= 0:
            return None  # no cells: no private key was found
        spread += _BESIDE
        (part,) = self.parts()
        lows, sizes = self.ranking.lows, self.ranking.sizes
        order = np.argsort(part.cells * self.ranking.bins + part.bins)
        cells, bins, rows = part.cells[order], part.bins[order], part.rows[order]
        totals = np.bincount(cells, weights=rows, minlength=self.cells)
        before = np.cumsum(rows) - rows
        before = before - (np.cumsum(totals) - totals)[cells]
        open_ = np.zeros(len(rows), dtype=np.bool_)
        for aim in aims:
            at = (float(aim.q) * totals + aim.shift)[cells]
            open_ |= (before + rows >= at - spread * aim.scale) & (
                before <= at + spread * aim.scale
            )
        open_ &= sizes[bins] > 1
        pieces = np.minimum(2 * rows[open_], 1 << CHILD_BINS_LOG2) + 1
        if not open_.any() or pieces.sum() > _MOST_SMALLER:
            return None
        firsts, lasts = lows[bins[open_]], (lows + sizes - 1)[bins[open_]]
        return Asked(
            cells=cells[open_],
            lows=firsts,
            highs=lasts,
            shifts=np.maximum(bit_lengths(lasts - firsts) - CHILD_BINS_LOG2, 0),
            points=firsts,
        )

    def sharpen(self, asked: Asked, found: Refined) -> None:
        """Have smaller bins where the engine was asked, as `near` said, for all draws from here."""
        (part,) = self.parts()
        self._known[0] = dataclasses.replace(part, finer=(asked, found))

    @property
    def _at_once(self) -> int:
        """How many cells are read at once."""
        return max(MOST_LINES // self.ranking.bins, 1)

    @property
    def totals(self) -> Integers:
        """The rows of every cell."""
        found = np.zeros(self.cells, dtype=np.int64)
        for part in self.parts():
            np.add.at(found, part.first + part.cells, part.rows)
        return found

    @property
    def counts(self) -> Integers:
        """Cells by bins, all of them."""
        counts = np.zeros((self.cells, self.ranking.bins), dtype=np.int64)
        for part in self.parts():
            counts[part.first + part.cells, part.bins] = part.rows
        return counts

    def __repr__(self) -> str:
        return "Counted(...)"
