"""Rankings: rows, or people, by their place on a fine public grid, counted in the engine alone.

The grid 0, 1, ..., steps is cut into bins that are public too: its two ends by themselves, and
between them bins of 2^shift points. The engine counts by bin. Where a mechanism must know more of
one bin, the engine counts within it, by 2^10 smaller ones and around one point of it; what leaves
are counts, as ever, and only of the bins that were asked about. See `aggregates.ranks`, which asks.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unacorda.query.schema.units import Person, Unit

__all__ = [
    "CHILD_BINS_LOG2",
    "Aim",
    "Asked",
    "Finer",
    "Lines",
    "Ranking",
    "Refined",
    "finer_counts",
    "first_counts",
    "first_lines",
    "listed",
    "refined",
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

    people: where set, a person counts once in each cell, by her least or greatest point.
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
