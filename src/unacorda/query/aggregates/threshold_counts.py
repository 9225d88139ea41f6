"""Ladders: people by how far their own number climbs a public row of rungs.

A person's number in a cell is one value made of their bounded rows there: their sum, their greatest
value, how many they are. On a ladder of public rungs L_0 < L_1 < ... the engine counts people by
how many rungs lie strictly below their number, and adds up their numbers, if asked for. From these
exact integers follow, for every rung at once, how many people pass it and what the sum is of all
numbers cut at it. A person is one of these counts, however many rows they bring.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unacorda.query.schema.quoting import double
from unacorda.query.schema.units import Person, Unit

__all__ = [
    "Climbers",
    "Thresholds",
    "per_person",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What to count people by.

    number: SQL of a person's number over their bounded rows of a cell, NULL where they have none;
    rungs: public, rising, whole numbers where the number is HUGEINT; summed: whether the numbers
    are added up too, which they can be where they are whole and not negative.
    """

    number: str
    rungs: tuple[float, ...]
    type: Literal["HUGEINT", "DOUBLE"]
    summed: bool = False

    def sql(self, unit: Unit) -> str:
        """SELECT (cell, bin, n, s) over `bounded`: people by the number of rungs they pass."""
        people = f"SELECT cell, {self.number} AS t FROM bounded"
        if isinstance(unit, Person):
            people += f" GROUP BY cell, {', '.join(f'u{index}' for index in range(len(unit.id)))}"
        total = "sum(t)::VARCHAR" if self.summed else "NULL::VARCHAR"
        return (
            f"SELECT cell, bin, count(*) AS n, {total} AS s FROM (SELECT cell, t, "
            f"{self._passed(0, len(self.rungs))} AS bin FROM ({people}) AS people "
            "WHERE t IS NOT NULL) GROUP BY cell, bin"
        )

    def _passed(self, least: int, most: int) -> str:
        """SQL of how many rungs lie below t, which is between these numbers, by bisection."""
        if least == most:
            return str(least)
        middle = (least + most) // 2
        rung = self.rungs[middle]
        written = f"{rung}::HUGEINT" if self.type == "HUGEINT" else double(rung)
        return (
            f"CASE WHEN t > {written} THEN {self._passed(middle + 1, most)} "
            f"ELSE {self._passed(least, middle)} END"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Climbers:
    """The exact integers of one ladder; private, nothing prints them.

    people: by cell and number of rungs passed, one column more than there are rungs; totals: by
    cell the sums of the numbers of each such group that has people.
    """

    people: NDArray[np.int64]
    totals: Sequence[Mapping[int, int]]

    def __repr__(self) -> str:
        return "Climbers(...)"

    def above(self) -> NDArray[np.int64]:
        """By cell and rung, how many people pass the rung."""
        passing = np.cumsum(self.people[:, ::-1], axis=1)[:, ::-1]
        return passing[:, 1:]

    def clipped(self, rungs: Sequence[int], at: Sequence[int]) -> list[int]:
        """By cell the sum of everyone's number, each cut at that cell's rung."""
        found = []
        for people, totals, rung in zip(self.people, self.totals, at, strict=True):
            below = sum(total for passed, total in totals.items() if passed <= rung)
            found.append(below + int(people[rung + 1 :].sum()) * rungs[rung])
        return found


def per_person(aggregate: str, sql: str, unit: Unit) -> str:
    """SQL of a person's number: an aggregate over their rows, or what it is for a single row."""
    return f"{aggregate}({sql})" if isinstance(unit, Person) else sql
