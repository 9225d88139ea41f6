"""Thousands of releases of one small table at once: what an audit of an aggregate looks at.

Copies of a table about a few people lie side by side in one wide table, told apart by a column. No
person is in two of them, so that one question, grouped by that column, is as many independent runs
as there are copies: what a release says of one copy is said of its people alone.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tests.support.seams import Aggregate, Unit

import unacorda
from unacorda.bits import SeededBits
from unacorda.privacy.guarantees import Guarantee

__all__ = ["FAR", "PAIRS", "REPLACED", "Pair", "People", "crowds", "released"]

Row = tuple[str | None, float | None, int | None, str | None]
People = Mapping[str, Sequence[Row]]
"""By name her rows: region, x, whole and note."""

Pair = tuple[People, People]

REGIONS = ("a", "b")
MOST_ROWS = 2

OTHERS: People = {
    "ann": [("a", 1.0, 2, "z"), ("b", 2.5, 3, "abc")],
    "bea": [("a", 0.5, 1, "3")],
    "cyd": [("b", 3.0, 4, "")],
}
HIGH: Sequence[Row] = [("a", 1e308, 2**62, "abc")] * 6
LOW: Sequence[Row] = [("a", -math.inf, -(2**62), "-2")] * 6
SPREAD: Sequence[Row] = [("a", 10.0, 9, "z"), ("b", 10.0, 9, "z")] * 4
OTHER_GROUP: Sequence[Row] = [("b", 10.0, 9, "z")] * 6
APART: Sequence[Row] = [("a", 9.0, 8, "3"), ("a", -9.0, -4, "none"), ("b", math.nan, None, None)]


def _with(rows: Sequence[Row], others: People = OTHERS) -> People:
    return {**others, "eve": rows}


PAIRS: Sequence[Pair] = [(_with(rows), OTHERS) for rows in (HIGH, LOW, SPREAD, APART)]
"""The others with somebody who has more rows than count, at an end of every range, and without."""

REPLACED: Sequence[Pair] = [
    (_with(one), _with(other))
    for one, other in ((HIGH, LOW), (SPREAD, HIGH), (SPREAD, APART), (HIGH, OTHER_GROUP))
]
"""The others with one such person or with another one in her place."""

FAR: Row = ("a", 1e15, 2**50, "1e15")
FAR_IN_BOTH: Sequence[Row] = [FAR, ("b", *FAR[1:])]


def crowds(rows: Sequence[Row] = FAR_IN_BOTH, *, replaced: bool = False) -> Sequence[Pair]:
    """One more far out where so many are, or another one in her place.

    A search for an end passes many numbers there, at each of which she has a say.
    """
    found = []
    for people in (0, 1, 4, 12, 32):
        crowd = {"zoe": [("b", 0.0, 0, "")], **{f"p{number}": rows for number in range(people)}}
        less = _with([("a", 0.0, 0, "0")], crowd) if replaced else crowd
        found.append((_with(rows, crowd), less))
    return found


def released(
    make: Callable[[], Aggregate], *, unit: Unit, budget: Guarantee, margins: bool = False
) -> Callable[[People, int], Any]:
    """From a table and a number to what so many runs say of it, all columns of a run in a line.

    margins: totals stand above the groups, which copies would share: each run is asked alone.
    """
    seeds = itertools.count(1)

    def side_by_side(people: People, count: int) -> Any:
        table, bits = _copies(people, count), SeededBits(next(seeds))
        with unacorda.Session({"t": table}, unit=unit, budget=budget, bits=bits) as session:
            keys = {"copy": range(count), "region": REGIONS}
            query = session.table("t").group_by("copy", "region", keys=keys).agg(answer=make())
            told = session.evaluate(query, budget=budget).to_arrow()
        assert np.array_equal(told["copy"].to_numpy(), np.repeat(range(count), len(told) // count))
        return _lines(told, besides=keys).reshape(count, -1)

    def alone(people: People, count: int) -> Any:
        table, bits = _copies(people, 1), SeededBits(next(seeds))
        with unacorda.Session({"t": table}, unit=unit, budget=budget * count, bits=bits) as session:
            groups = session.table("t").group_by("region", keys=list(REGIONS), margins="rollup")
            query = groups.agg(answer=make())
            told = [session.evaluate(query, budget=budget).to_arrow() for _ in range(count)]
        return np.array([_lines(one, besides=["region"]).ravel() for one in told])

    return alone if margins else side_by_side


def _lines(told: pa.Table, *, besides: Collection[str]) -> NDArray[np.float64]:
    columns = [name for name in told.column_names if name not in besides]
    return np.column_stack([_numbers(told[name].to_pylist()) for name in columns])


def _copies(people: People, count: int) -> pa.Table:
    rows = [(place, *row) for place, name in enumerate(people) for row in people[name]]
    who, region, x, whole, note = (list(column) * count for column in zip(*rows, strict=True))
    copy = np.repeat(np.arange(count), len(rows))
    return pa.table(
        {
            "copy": copy,
            "who": copy * len(people) + np.array(who),
            "region": region,
            "x": pa.array(x, type=pa.float64(), from_pandas=False),
            "whole": pa.array(whole, type=pa.int64()),
            "note": note,
        }
    )


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    """Numbers as they are, NaN for None, and a number of its own for every text."""
    return np.array(
        [
            math.nan if v is None else float(zlib.crc32(v.encode()) if isinstance(v, str) else v)
            for v in values
        ]
    )
