"""Counts of rows, or of people, by their place on a fine public grid; the engine counts.

The grid 0, 1, ..., steps is cut into bins that are public too: its two ends by themselves, and
between them bins of 2^shift points. The engine counts by bin. Where a mechanism must know more of
one bin, the engine counts within it, by 2^10 smaller ones and around one point of it; what leaves
are counts, as ever, and only of the bins that were asked about. `rejection_sampling` asks.

A line is a cell, or a part of one. Neighbouring bins without rows are one bin, since all of their
places have the same rows below them: a line has no more bins than about twice its rows, however
fine the grid is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unacorda.query.schema.units import Person, Unit

__all__ = [
    "CHILD_BINS_LOG2",
    "MOST_LINES",
    "Aim",
    "Asked",
    "Batch",
    "Bins",
    "Counted",
    "Finer",
    "Lines",
    "Part",
    "Ranking",
    "Refined",
    "Runs",
    "bit_lengths",
    "counted_up",
    "finer_counts",
    "first_counts",
    "first_lines",
    "listed",
    "refined",
    "smaller",
    "spans",
]

Integers = NDArray[np.int64]

Lines = tuple[Integers, Integers, Integers]
"""Counts where there are any: cells, bins, and how many. Private."""

CHILD_BINS_LOG2 = 10
"""The logarithm of how many bins a bin is cut into."""

_MOST_POINTS = 5_000  # up to so many steps every point is a bin


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Where draws will look: about rank q n + shift; scale: of how far off they are, in ranks."""

    q: Fraction
    scale: float
    shift: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked, one line each: cell; first and last point; shift; one point.

    The points of a line lie in one bin of the first ones.
    """

    cells: Sequence[int] | Integers
    lows: Sequence[int] | Integers
    highs: Sequence[int] | Integers
    shifts: Sequence[int] | Integers
    points: Sequence[int] | Integers

    @property
    def columns(self) -> list[Sequence[int] | Integers]:
        """The lines as columns, their numbers first."""
        lines = [range(len(self.cells)), self.cells, self.lows, self.highs, self.shifts]
        return [*lines, self.points]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Refined:
    """Counts: by line and smaller bin, how many there are, below the point, and at it. Private."""

    lines: Integers
    children: Integers
    counts: Integers
    below: Integers
    level: Integers

    def __repr__(self) -> str:
        return "Refined(...)"


Finer = Callable[[Asked], Refined]
"""Counts within bins of one ranking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What is ranked. place: SQL of a row's point, NULL where it has none; steps: the last point.

    people: where set, a person counts once in each cell, by their least or greatest point.
    """

    place: str
    steps: int
    people: Literal["min", "max"] | None = None

    def of_people(self, unit: Unit) -> bool:
        """Whether people are ranked, who may have several rows in a cell."""
        return self.people is not None and isinstance(unit, Person)

    @property
    def shift(self) -> int:
        """The first bins between the ends hold 2^shift points; 0 where every point is a bin."""
        if self.steps <= _MOST_POINTS:
            return 0
        return max((self.steps - 2).bit_length() - CHILD_BINS_LOG2, 1)

    @property
    def lows(self) -> Integers:
        """The first point of every bin."""
        inner = np.arange(1, self.steps, 1 << self.shift, dtype=np.int64)
        return np.concatenate([[0], inner, [self.steps]]).astype(np.int64)

    @property
    def bins(self) -> int:
        """How many bins there are at first."""
        return 2 + len(range(1, self.steps, 1 << self.shift))

    @property
    def sizes(self) -> Integers:
        """How many points every bin holds."""
        return np.diff(np.concatenate([self.lows, [self.steps + 1]]))

    def relation(self, unit: Unit) -> str:
        """SELECT (cell, bin, g): the points of rows or people, and their bins, over `bounded`."""
        if not self.of_people(unit):
            points = f"SELECT cell, {self.place} AS g FROM bounded"
        else:
            assert isinstance(unit, Person)
            ids = ", ".join(f"u{index}" for index in range(len(unit.id)))
            points = (
                f"SELECT cell, {self.people}({self.place}) AS g FROM bounded GROUP BY cell, {ids}"
            )
        return f"SELECT cell, {self._bin('g')} AS bin, g FROM ({points}) WHERE g IS NOT NULL"

    def finer(self, number: int, relation: str) -> str:
        """One SELECT of `finer_counts`, of the lines of `asked` with this number."""
        # Joined on the bin too, so that few rows are compared with what is asked.
        return (
            f"SELECT {number} AS r, asked.i AS i, (ranked.g - asked.low) >> asked.shift AS child, "
            "count(*) AS n, count(*) FILTER (WHERE ranked.g < asked.point) AS below, "
            "count(*) FILTER (WHERE ranked.g = asked.point) AS level "
            f"FROM {relation} AS ranked JOIN (SELECT *, {self._bin('low')} AS bin FROM listed "
            f"WHERE r = {number}) AS asked ON ranked.cell = asked.cell AND ranked.bin = asked.bin "
            "AND ranked.g BETWEEN asked.low AND asked.high GROUP BY asked.i, child"
        )

    def _bin(self, point: str) -> str:
        """SQL of the first bin of a point."""
        inner = f"1 + (({point} - 1) >> {self.shift})"
        return (
            f"CAST(CASE WHEN {point} <= 0 THEN 0 WHEN {point} >= {self.steps} THEN "
            f"{self.bins - 1} ELSE {inner} END AS SMALLINT)"
        )


def first_counts(ranked: Mapping[int, str], *, cells: tuple[int, int] | None = None) -> str:
    """SELECT (r, cell, bin, n) over relations of (cell, bin, g), by number.

    cells: the first, and the one after the last; None for all.
    """
    some = "" if cells is None else f" WHERE cell >= {cells[0]} AND cell < {cells[1]}"
    return " UNION ALL ".join(
        f"SELECT {number} AS r, cell, bin, count(*) AS n FROM {relation}{some} GROUP BY cell, bin"
        for number, relation in ranked.items()
    )


def finer_counts(parts: Sequence[str]) -> str:
    """SELECT (r, i, child, n, below, level); parts: made by `Ranking.finer`.

    Its parameters are the columns of all that is asked one after the other, and before them the
    number of the ranking that each line is about.
    """
    names = ("r", "i", "cell", "low", "high", "shift", "point")
    lists = ", ".join(f"unnest(${k}::BIGINT[]) AS {name}" for k, name in enumerate(names, 1))
    return f"WITH listed AS MATERIALIZED (SELECT {lists}) {' UNION ALL '.join(parts)}"


def listed(asked: Mapping[int, Asked]) -> list[list[int]]:
    """The parameters of `finer_counts`."""
    numbers = [np.full(len(one.cells), number) for number, one in asked.items()]
    columns = zip(*(one.columns for one in asked.values()), strict=True)
    return [np.concatenate(parts).astype(np.int64).tolist() for parts in (numbers, *columns)]


def first_lines(
    rankings: Sequence[int], of: Integers, cells: Integers, bins: Integers, rows: Integers
) -> list[Lines]:
    """What `first_counts` gave, ranking by ranking."""
    found = []
    for number in rankings:
        own = of == number if len(rankings) > 1 else slice(None)
        found.append((cells[own], bins[own], rows[own]))
    return found


def refined(asked: Mapping[int, Asked], columns: Mapping[str, Integers]) -> dict[int, Refined]:
    """What `finer_counts` gave, ranking by ranking."""
    found = {}
    for number in asked:
        own = columns["r"] == number if len(asked) > 1 else slice(None)
        found[number] = Refined(
            lines=columns["i"][own],
            children=columns["child"][own],
            counts=columns["n"][own],
            below=columns["below"][own],
            level=columns["level"][own],
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Bins, lines by bins: first place, places, weight of rows, and weight of all below.

    Weights are whole numbers, of any size where they are objects. Bins need not be in order, and
    some may have no places: where a line has fewer than others, and where they were replaced.
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

    def replaced(self, gone: tuple[Integers, Integers], by: Bins) -> Bins:
        """Others beside those that stay; gone: the lines and columns of those that do not."""
        sizes, weights = self.sizes.copy(), self.weights.copy()
        sizes[gone], weights[gone] = 0, 0
        return Bins(
            lows=np.concatenate([self.lows, by.lows], axis=1),
            sizes=np.concatenate([sizes, by.sizes], axis=1),
            weights=np.concatenate([weights, by.weights], axis=1),
            before=np.concatenate([self.before, by.before], axis=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Bins of many lines one after the other, in order; lines: which each is of, rising."""

    lines: Integers
    lows: Integers
    sizes: Integers
    weights: Any
    before: Any

    @property
    def lengths(self) -> Integers:
        """How many bins each line has, up to the last one that has any."""
        return np.bincount(self.lines).astype(np.int64)

    def padded(self, count: int, *, end: int = 0) -> Bins:
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
        return Bins(lows=lows, sizes=sizes, weights=weights, before=before)


def counted_up(lengths: Integers) -> Integers:
    """0, 1, ... for each length up to below it, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def bit_lengths(values: Integers) -> Integers:
    """How many binary digits whole numbers of at most 2^52 have, 0 or above."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def smaller(asked: Asked, found: Refined | None) -> tuple[Integers, Integers, Integers, Integers]:
    """Runs that fill what was asked about, in points: number, first point, points, rows."""
    firsts, lasts, shifts = (
        np.asarray(column, dtype=np.int64) for column in (asked.lows, asked.highs, asked.shifts)
    )
    nothing = np.zeros(0, np.int64)
    lines, children, counts = (
        (nothing,) * 3 if found is None else (found.lines, found.children, found.counts)
    )
    lines, children, lengths, counts = spans(
        lines, children, counts, ((lasts - firsts) >> shifts) + 1
    )
    lows = firsts[lines] + (children << shifts[lines])
    sizes = np.minimum(lows + (lengths << shifts[lines]), lasts[lines] + 1) - lows
    return lines, lows, sizes, counts


def spans(
    lines: Integers, places: Integers, rows: Integers, widths: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Runs that fill every line: the line, the first place, how many there are, and the rows.

    lines, places: where there are rows, or a run is to be by itself, each once, in any order;
    widths: how many places each line has, 1 or more.
    """
    starts = np.cumsum(widths) - widths
    whole = int(widths.sum())
    keys = starts[lines] + places
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], rows[order]
    marks = np.sort(np.concatenate([starts, keys, keys + 1]), kind="stable")
    marks = marks[(np.diff(marks, prepend=-1) > 0) & (marks < whole)]
    found = np.zeros(len(marks), rows.dtype)
    found[np.searchsorted(marks, keys)] = rows
    of = np.searchsorted(starts, marks, side="right") - 1
    return of, marks - starts[of], np.diff(np.append(marks, whole)), found


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
