"""Counts of rows, or of people, by their place on a public grid; the engine counts, in one scan.

Only places with rows are held. Neighboring places without rows between them are one bin, since all
of them have the same rows below: a cell has no more bins than about twice its rows, however fine
the grid is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unacorda.query.schema.units import Person, Unit

__all__ = ["CellBatch", "GridCounts", "Lines", "PlaceBins", "PlaceRuns", "Ranking", "counted_up"]

Integers = NDArray[np.int64]

Lines = tuple[Integers, Integers, Integers]
"""Counts where there are any: cells, places, and how many. Private."""

_MOST_ENTRIES = 1_000_000  # cells times bins, padded, that are drawn from at once
_MANY = 4_096  # bins of a cell that is drawn from by itself
_BITS = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What is ranked. place: SQL of a row's place, NULL where it has none; steps: the last place.

    people: where set, a person counts once in each cell, by their least or greatest place.
    """

    place: str
    steps: int
    people: Literal["min", "max"] | None = None

    def sql(self, unit: Unit) -> str:
        """SELECT (cell, bin, n): rows or people by place, over `bounded`."""
        placed = f"SELECT cell, {self.place} AS bin FROM bounded"
        if self.people is not None and isinstance(unit, Person):
            ids = ", ".join(f"u{index}" for index in range(len(unit.id)))
            placed = (
                f"SELECT cell, {self.people}({self.place}) AS bin FROM bounded GROUP BY cell, {ids}"
            )
        return (
            f"SELECT cell, bin, count(*) AS n FROM ({placed}) AS placed WHERE bin IS NOT NULL "
            "GROUP BY cell, bin"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceBins:
    """Bins, lines by bins: first place, places, weight of rows, and weight of all below.

    Weights are whole numbers, of any size where they are objects. Bins need not be in order, and
    some may have no places: where a line has fewer than others, and where they were replaced.
    """

    lows: Integers
    sizes: Integers
    weights: Any
    before: Any

    def of(self, lines: Any) -> PlaceBins:
        """The bins of some lines."""
        return PlaceBins(
            lows=self.lows[lines],
            sizes=self.sizes[lines],
            weights=self.weights[lines],
            before=self.before[lines],
        )

    def replaced(self, columns: Integers, by: PlaceBins) -> PlaceBins:
        """Others in place of one bin of each line."""
        gone = np.arange(len(columns)), columns
        sizes, weights = self.sizes.copy(), self.weights.copy()
        sizes[gone], weights[gone] = 0, 0
        return PlaceBins(
            lows=np.concatenate([self.lows, by.lows], axis=1),
            sizes=np.concatenate([sizes, by.sizes], axis=1),
            weights=np.concatenate([weights, by.weights], axis=1),
            before=np.concatenate([self.before, by.before], axis=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRuns:
    """Bins of many lines one after the other, in order; lines: which each is of, rising."""

    lines: Integers
    lows: Integers
    sizes: Integers
    weights: Any
    before: Any

    def padded(self, count: int, *, end: int = 0) -> PlaceBins:
        """The same as so many lines side by side; end: the place where missing ones stand.

        These follow the others of their line, and have what the last of those ends with below.
        """
        lengths = np.bincount(self.lines, minlength=count)
        columns = counted_up(lengths)
        shape = (count, int(lengths.max(initial=0)))
        lows, sizes = np.full(shape, end, np.int64), np.zeros(shape, np.int64)
        weights, before = (np.zeros(shape, self.weights.dtype) for _ in range(2))
        some = np.flatnonzero(lengths)
        last = np.cumsum(lengths)[some] - 1
        before[some] = (self.before[last] + self.weights[last])[:, None]
        at = self.lines, columns
        lows[at], sizes[at], weights[at], before[at] = (
            self.lows,
            self.sizes,
            self.weights,
            self.before,
        )
        return PlaceBins(lows=lows, sizes=sizes, weights=weights, before=before)

    def alone(self, start: int, end: int) -> PlaceBins:
        """Those of one line, by itself."""
        part = slice(start, end)
        return PlaceBins(
            lows=self.lows[None, part],
            sizes=self.sizes[None, part],
            weights=self.weights[None, part],
            before=self.before[None, part],
        )

    def of(self, lines: Integers) -> PlaceRuns:
        """Those of some lines, which are numbered from 0 on."""
        lengths = np.bincount(self.lines, minlength=int(lines.max(initial=-1)) + 1)
        own = lengths[lines]
        starts = (np.cumsum(lengths) - lengths)[lines]
        at = np.repeat(starts, own) + counted_up(own)
        return PlaceRuns(
            lines=np.repeat(np.arange(len(lines)), own),
            lows=self.lows[at],
            sizes=self.sizes[at],
            weights=self.weights[at],
            before=self.before[at],
        )


def counted_up(lengths: Integers) -> Integers:
    """0, 1, ... for each length up to below it, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CellBatch:
    """Some cells, and their bins side by side. Private.

    Between the ends of the grid, which are bins by themselves, empty places that are neighbors are
    one bin. Where a cell has fewer bins than others, those that it lacks follow, without places.
    """

    cells: Integers
    bins: PlaceBins

    def __repr__(self) -> str:
        return "CellBatch(...)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GridCounts:
    """One ranking: rows or people by cell and place. Private.

    cells: how many there are; keys: places with rows, rising, those of each cell beyond those of
    the one before; rows: how many each has.
    """

    steps: int
    cells: int
    keys: Integers
    rows: Integers
    _known: dict[str, PlaceRuns] = field(default_factory=dict, init=False)

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

    def batches(self, slots: Integers | None = None) -> Iterator[CellBatch]:
        """All cells: those with many bins one by one, others with about as many bins together.

        slots: the first of each place, and how many there are in all, in which bins are
        counted instead of in places.
        """
        if "runs" not in self._known:
            self._known["runs"] = self._runs()
        runs, end = self._known["runs"], self.steps + 1
        if slots is not None:
            lows, end = slots[runs.lows], int(slots[-1])
            runs = dataclasses.replace(runs, lows=lows, sizes=slots[runs.lows + runs.sizes] - lows)
        lengths = np.bincount(runs.lines, minlength=self.cells)
        ends = np.cumsum(lengths)
        for cell in np.flatnonzero(lengths >= _MANY).tolist():
            yield CellBatch(
                cells=np.array([cell]), bins=runs.alone(ends[cell] - lengths[cell], ends[cell])
            )
        few = np.flatnonzero(lengths < _MANY)
        order, done = few[np.argsort(lengths[few], kind="stable")[::-1]], 0
        while done < len(order):
            count = max(_MOST_ENTRIES // int(lengths[order[done]]), 1)
            cells = np.sort(order[done : done + count])
            done += count
            yield CellBatch(cells=cells, bins=runs.of(cells).padded(len(cells), end=end))

    def _runs(self) -> PlaceRuns:
        """Bins that fill every cell: each place with rows, each end, and what lies between."""
        starts = np.arange(self.cells + 1) * (self.steps + 1)
        # The ends of the grid are bins by themselves, with rows or without.
        every = np.sort(np.concatenate([self.keys, starts[:-1], starts[1:] - 1]), kind="stable")
        every = every[np.diff(every, prepend=-1) > 0]
        between = np.diff(every) - 1
        empty = np.flatnonzero(between)
        at = np.arange(len(every))
        at[1:] += np.cumsum(between > 0)
        gaps = at[empty] + 1
        marks, sizes, counts = (np.zeros(len(every) + len(empty), np.int64) for _ in range(3))
        marks[at], marks[gaps] = every, every[empty] + 1
        sizes[at], sizes[gaps] = 1, between[empty]
        counts[at[np.searchsorted(every, self.keys)]] = self.rows
        lines, lows = np.divmod(marks, self.steps + 1)
        before = np.cumsum(counts) - counts
        before -= before[np.searchsorted(lines, np.arange(self.cells))][lines]
        return PlaceRuns(lines=lines, lows=lows, sizes=sizes, weights=counts, before=before)

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

    def __repr__(self) -> str:
        return "GridCounts(...)"
