"""Wide rows are ordered by few columns and then joined: those of the order of all stay."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Person, bound_rows, bounding, salted_hash
from tests.tiers import mostly_slow

import unacorda

VALUES = [f"v{index}" for index in range(9)]
LIMITS: Sequence[dict[str, Any]] = [
    {"max_rows": 3},
    {"max_rows": 1},
    {"max_groups": 2, "max_rows_per_group": 2},
    {"max_rows": 5, "max_rows_per_group": 2},
    {"max_rows": 4, "max_groups": 2, "max_rows_per_group": 3},
]
Rewritten = Callable[[str], str]

HASHES: dict[str, Rewritten] = {
    "as it is": lambda text: text,
    "of one bit": lambda text: f"({text} >> 63)",
    "of nothing": lambda text: f"({text} & 0)",
    "by people": lambda text: f"CASE WHEN u0 % 2 = 0 THEN {text} ELSE {text} >> 62 END",
}


def connected(seed: int, people: int) -> duckdb.DuckDBPyConnection:
    """A table t of rows with few different values, some absent, many of them alike."""
    source = random.Random(seed)
    lines = []
    for person in range(people):
        for _ in range(source.choice([1, 2, 3, 4, 6, 12])):
            key = source.choice([None, "a", "b", "c"])
            values = [source.choice([None, 0.0, 1.0]) for _ in VALUES]
            lines += [(person, source.randrange(3), key, *values)] * source.choice([1, 1, 1, 2])
    source.shuffle(lines)
    connection = duckdb.connect()
    names = ["u0", "cell", "k0", *VALUES]
    columns = dict(zip(names, map(list, zip(*lines, strict=True)), strict=True))
    connection.register("given", pa.table(columns))
    connection.execute("CREATE TABLE t AS SELECT * REPLACE (cell::UTINYINT AS cell) FROM given")
    return connection


def kept(
    connection: duckdb.DuckDBPyConnection, rows: str, values: Sequence[str], **given: Any
) -> Counter[tuple[Any, ...]]:
    text = bound_rows(rows, cells=9, values=values, **given)
    wanted = ", ".join([*given["cell"], *VALUES, "u0"])
    return Counter(connection.execute(f"SELECT {wanted} FROM ({text})").fetchall())


@pytest.mark.long
@in_subtests("limits", LIMITS, ids=str)
@pytest.mark.parametrize("cell", mostly_slow([["cell"], ["cell", "k0"]]), ids=["public", "found"])
@in_subtests("name", HASHES)
def test_wide_rows_stay_as_in_the_order_of_all_columns(
    name: str, cell: list[str], limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the hash tells rows apart, and where it tells nothing or little, as after collisions.

    The plain way, with the hash as one more column before the values, has the same order.
    """
    salt, unit = 3**70, Person("id", **limits)
    mixed: list[str] = []

    def rewritten(columns: Sequence[str], *, salt: int) -> str:
        text = salted_hash(columns, salt=salt)
        if list(columns) != [*cell, *VALUES]:
            return text
        mixed.append(HASHES[name](text))
        return mixed[-1]

    monkeypatch.setattr(bounding, "salted_hash", rewritten)
    given: dict[str, Any] = {"unit": unit, "cell": cell, "salt": salt}
    # Two steps have a hash each; the plain way is told one, so that they are compared one by one.
    once = limits.keys() != {"max_rows", "max_rows_per_group"} and len(limits) < 3
    with connected(seed=len(name) + len(limits), people=150) as connection:
        narrow = kept(connection, "SELECT * FROM t", VALUES, narrow=True, **given)
        again = kept(connection, "SELECT * FROM t ORDER BY v3, v1", VALUES, narrow=True, **given)
        assert narrow == again
        if once or name == "of nothing":
            rows = f"SELECT *, {mixed[0]} AS mixed FROM t"
            assert narrow == kept(connection, rows, ["mixed", *VALUES], **given)
        everybody = Counter(
            connection.execute(f"SELECT {', '.join([*cell, *VALUES, 'u0'])} FROM t").fetchall()
        )
    assert narrow <= everybody
    owned = Counter[int]()
    for row, count in everybody.items():
        owned[row[-1]] += count
    stay = Counter[int]()
    for row, count in narrow.items():
        stay[row[-1]] += count
    most = limits.get("max_rows", limits.get("max_groups", 0) * limits.get("max_rows_per_group", 0))
    assert all(stay[person] <= most for person in owned)
    if limits.keys() == {"max_rows"}:
        assert stay == {person: min(most, rows) for person, rows in owned.items()}


def test_narrow_statements_are_written_for_wide_rows_alone() -> None:
    few = VALUES[:7]
    for values, unit, differs in (
        (VALUES, Person("id", max_rows=2), True),
        (few, Person("id", max_rows=2), False),
    ):
        given: dict[str, Any] = {
            "unit": unit,
            "cells": 4,
            "cell": ["cell"],
            "values": values,
            "salt": 1,
        }
        texts = [bound_rows("SELECT * FROM t", narrow=narrow, **given) for narrow in (True, False)]
        assert (texts[0] != texts[1]) is differs


def test_a_wide_question_counts_what_stays() -> None:
    """Through the one door: noise so faint that the exact answers are seen."""
    people, rows = 300, 4
    columns = {f"c{index}": [float(index)] * (people * rows) for index in range(12)}
    frame = {"id": [row % people for row in range(people * rows)], **columns}
    with unacorda.Session(
        {"t": pa.table(frame)},
        unit=unacorda.Person("id", max_rows=3),
        budget=unacorda.PureDP(10**6),
    ) as session:
        sums = {f"s{index}": unacorda.sum(f"c{index}", 0, 16) for index in range(12)}
        query = session.table("t").agg(n=unacorda.count(), **sums)
        (line,) = session.evaluate(query, budget=unacorda.PureDP(10**6)).to_dicts()
    assert line["n"] == 3 * people
    for index in range(12):
        assert line[f"s{index}"] == pytest.approx(3 * people * index, abs=0.1)
