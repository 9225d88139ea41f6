"""The counts of one ranking in all cells, read some cells at a time."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacet.query.aggregates.bins import Bins, Runs
from tacet.query.ranking import Finer, Lines, Ranking

__all__ = ["Batch", "Counted", "Part"]

Integers = NDArray[np.int64]

_MOST_LINES = 1 << 22  # cells times bins that are read at once
_MOST_ENTRIES = 1_000_000  # cells times bins, padded, that are drawn from at once


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Batch:
    """Some cells, and their bins side by side. Private.

    Between the ends of the grid, which are bins by themselves, empty bins that are neighbours are
    one. Where a cell has fewer bins than others, those that it lacks follow, without places.
    """

    cells: Integers
    bins: Bins

    def __repr__(self) -> str:
        return "Batch(...)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Part:
    """Counts of cells that follow each other: where there are rows, by cell and bin. Private.

    first: the first cell; size: how many there are; cells: counted from the first.
    """

    ranking: Ranking
    first: int
    size: int
    cells: Integers
    bins: Integers
    rows: Integers

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
        before = np.cumsum(rows) - rows
        before -= before[np.searchsorted(marks, starts[:-1])][lines]
        return Runs(lines=lines, lows=begins, sizes=ends - begins, weights=rows, before=before)

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
        size = max(_MOST_LINES // self.ranking.bins, 1)
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
