"""Ids that are expressions: who is one person, whose rows are dropped, what is refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.neighbor_moves import EVERY, moves_of
from tests.query.neighbor_tables import make_pairs, statement_of
from tests.support.cases import in_subtests
from tests.support.seams import Release

import unacorda
from unacorda.errors import InvalidParameter
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

TABLE: dict[str, Any] = {
    "email": ["A@x", "a@x", "A@X", "b@y", None, "é@y", "É@y", ""],
    "site": ["1", "1", "2", "1", "1", "1", "1", None],
    "number": [11, 21, 12, 2**53 + 1, 2**53 + 2, None, -9, 0],
    "half": [1.0, 2.5, 2.0, float("nan"), float("inf"), None, -0.0, 1e300],
    "day": [dt.date(2024, 1, i) for i in range(1, 9)],
    "flag": [True, False, None, True, False, None, True, False],
    "at": np.datetime64("2024-01-01T05:00:00", "us")
    + np.arange(8) // 3 * np.timedelta64(86400, "s"),
}


def session_of(
    ids: str | tuple[str, ...], *, rows: int = 9, source: Any = None, **options: Any
) -> unacorda.Session:
    unit = unacorda.Person(ids, max_rows=rows)
    table = pa.table(TABLE) if source is None else source
    return unacorda.Session({"t": table}, unit=unit, budget=unacorda.PureDP(10), **options)


def people(session: unacorda.Session, *, salt: int = 3) -> Counter[Any]:
    """How many rows of everyone count."""
    query = session.table("t").agg(n=unacorda.count())
    engine: Any = session._engine
    text = statement_of(session, query, salt=salt).bounded
    width = len(session.unit.id) if isinstance(session.unit, unacorda.Person) else 0
    return Counter(row[-width:] for row in engine._connection.execute(text).fetchall())


@pytest.mark.long
@in_subtests(
    ("ids", "expected"),
    [
        ("lower(email)", {("a@x",): 3, ("b@y",): 1, ("é@y",): 2, ("",): 1}),
        (
            ("lower(email)", "site"),
            {("a@x", "1"): 2, ("a@x", "2"): 1, ("b@y", "1"): 1, ("é@y", "1"): 2},
        ),
        ("NULLIF(email, '')", {(e,): 1 for e in TABLE["email"] if e}),
        ("COALESCE(email, site)", {("1" if e is None else e,): 1 for e in TABLE["email"]}),
        # Computed in doubles: the two largest are 2^53 and 2^53 + 2.
        ("number % 10", {(1,): 2, (2,): 2, (4,): 1, (-9,): 1, (0,): 1}),
        ("half * 2", {(2,): 1, (5,): 1, (4,): 1, (0,): 1}),
        ("half / 2", {(1,): 1, (0,): 1}),
        ("CASE WHEN flag THEN 1 ELSE 2 END", {(1,): 3, (2,): 5}),
        ("CAST(at AS DATE)", {(dt.date(2024, 1, i),): n for i, n in ((1, 3), (2, 3), (3, 2))}),
        ("NUMBER", {(n,): 1 for n in TABLE["number"] if n is not None}),  # the column itself
        ('"number"', {(n,): 1 for n in TABLE["number"] if n is not None}),
        ("half", {(1,): 1, (2,): 1, (0,): 1}),
    ],
)  # fmt: skip
def test_people_are_who_the_expression_says(ids: Any, expected: dict[Any, int]) -> None:
    with session_of(ids) as session:
        assert people(session) == expected
    with session_of(ids, rows=1) as session:
        assert people(session) == dict.fromkeys(expected, 1)


@pytest.mark.long
def test_it_is_the_same_as_a_column_made_beforehand() -> None:
    table: dict[str, Any] = {
        "name": [f"{'aAbB'[i % 4]}{i % 7}" for i in range(200)],
        "x": [float(i % 13) for i in range(200)],
    }
    source = {**table, "low": [name.lower() for name in table["name"]]}
    made = pa.table(source)
    for limits in ({"max_rows": 3}, {"max_groups": 2, "max_rows_per_group": 2}):
        found = []
        for ids in ("lower(name)", "low"):
            unit = unacorda.Person(ids, **dict[str, Any](limits))
            with unacorda.Session({"t": made}, unit=unit, budget=unacorda.PureDP(1)) as session:
                query = (
                    session.table("t").derive(g="CAST(x AS INTEGER)").group_by("g", keys=range(13))
                )
                asked = statement_of(session, query.agg(s=unacorda.sum("x", 0, 20)), salt=5)
                engine: Any = session._engine
                cursor = engine._connection
                assert asked.keys is not None
                cursor.execute(f"CREATE TEMP TABLE keys AS {asked.keys.sql}", asked.keys.columns)
                found.append(Counter(cursor.execute(asked.bounded).fetchall()))
        assert found[0] == found[1]


def test_a_csv_file_is_read_as_the_expression_needs(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("email,id\nA@x,7\na@x,8\nB,7.0\nc,x\n", encoding="utf-8")
    with session_of("upper(email)", source=str(path)) as session:
        assert people(session) == {("A@X",): 2, ("B",): 1, ("C",): 1}
        page = session.explain(
            session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1), detail=True
        )
        assert "drop rows without upper(email)" in str(page)
    with session_of("id * 1", source=str(path)) as session:
        assert people(session) == {(7,): 2, (8,): 1}
    with session_of("id", source=str(path)) as session:  # the text as it stands
        assert people(session) == {("7",): 1, ("8",): 1, ("7.0",): 1, ("x",): 1}


def test_answers_and_their_file_hold() -> None:
    with session_of("lower(email)", bits=unacorda.SeededBits(3)) as session:
        release = session.sql(
            "SELECT COUNT(*) AS n, COUNT(DISTINCT person) AS p FROM t", budget=unacorda.PureDP(9)
        )
    assert Release.verify(release.to_json()).holds
    assert "lower(email)" in release.provenance[0]


@in_subtests(
    ("ids", "said"),
    [
        ("nobody", "email"),
        ("lower(nobody)", "nobody"),
        ("count(email)", "cannot be used"),
        ("(SELECT email)", "cannot be used"),
        ("email; DROP TABLE t", "cannot be used"),
        ("1", "of columns"),
        ("'x'", "of columns"),
        ("flag", "id"),
        ("NOT flag", "whole numbers, text or dates"),
        ("at", "id"),
        ("random()", "cannot be used"),
        ("lower(", "cannot be used"),
        ("half * 2", "without Bounds"),
        (("lower(email)", "nobody"), "email"),
        ("(" * 300 + "email" + ")" * 300, "cannot be used"),
    ],
)
def test_what_names_nobody_is_refused_at_once(ids: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        session_of(ids, columns={"half": unacorda.Bounds(0, 1)})


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize(("ids", "expression"), [("integer", "who * 2"), ("text", "UPPER(who)")])
def test_no_neighbor_moves_an_answer_further(
    ids: str, expression: str, neighbors: Neighbors
) -> None:
    pairs = make_pairs(count=60, ids=ids, neighbors=neighbors, rows=False, text=False, seed=4)
    unit = unacorda.Person(
        expression, max_rows=4, max_groups=2, max_rows_per_group=3, neighbors=neighbors
    )
    names = ("rows", "people", "sum_across_zero", "mean_from_zero", "median", "total")
    with unacorda.Session(dict(pairs.tables), unit=unit, budget=unacorda.PureDP(1)) as session:
        moves = moves_of(
            session,
            pipeline="plain",
            grouped=True,
            aggregates={name: EVERY[name] for name in names},
            pairs=60,
            salt=6,
        )
    assert all(share <= 1 for share in moves.values())
    assert moves["rows", "l1"] >= 0.5
