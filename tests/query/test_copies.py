"""Nothing multiplies a person's rows before they are bound, whatever makes several rows of one.

Otherwise a question about one person's many rows would take long, or run out of memory, exactly
where she is there: a failure or a delay that no noise hides. Counted are the lines that every
operator of the engine hands on, so that no clock is read.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.query.neighbor_joins import Way
from tests.query.neighbor_tables import statement_of
from tests.support.cases import in_subtests
from tests.support.seams import Query, Relation
from tests.tiers import mostly_slow

import unacorda

OWN = 2_000
"""The rows of the one person, in each table: far more than she may bring."""
MATCHES = 25
TEXT = ",".join(["a b c d e f g h i j"] * 30)
VISITS = pa.table(
    {"who": [7] * OWN, "x": [n % 50 for n in range(OWN)], "tags": [TEXT] * OWN, "key": ["k"] * OWN}
)
CODES = pa.table({"code": ["k"] * MATCHES + ["l"], "size": list(range(MATCHES + 1))})


def _exploded(session: unacorda.Session, table: str) -> Query:
    return session.table(table).where("x >= 0").explode("tags", most=30, into="tag")


def _twice(session: unacorda.Session, table: str) -> Query:
    parts = _exploded(session, table).where("tag <> 'nothing'")
    return parts.explode("tag", separator=" ", most=10, into="word").where("word <> 'c'")


def _looked_up(session: unacorda.Session, table: str) -> Query:
    return session.table(table).join("codes", {"key": "code"})


def _looked_up_in_parts(session: unacorda.Session, table: str) -> Query:
    kept = session.table(table).explode("tags", most=1, into="first").derive(y="x * 2")
    return kept.join("codes", {"key": "code"}, how="left").explode("tags", most=30).where("y > 5")


def _looked_up_twice(session: unacorda.Session, table: str) -> Query:
    more = _looked_up(session, table)
    return more.join("codes", {"key": "code"}, columns={"other": "size"})


def _united(session: unacorda.Session, table: str) -> Query:
    return session.table(table).union(session.table("labs")).explode("tags", most=30, into="tag")


def _both_exploded(session: unacorda.Session, table: str) -> Query:
    return _exploded(session, table).union(_exploded(session, "labs"))


def _met(session: unacorda.Session, table: str) -> Query:
    left, right = _exploded(session, table), _looked_up(session, "labs")
    met = left.join(right, columns={"size": "size"}, max_rows=(10, 3))
    return met.explode("tag", separator=" ", most=3, into="word")


WAYS: Mapping[str, Way] = {
    "exploded": _exploded,
    "twice": _twice,
    "looked up": _looked_up,
    "looked up in parts": _looked_up_in_parts,
    "looked up twice": _looked_up_twice,
    "united": _united,
    "both exploded": _both_exploded,
    "met": _met,
}
LIMITS: Mapping[str, Mapping[str, Any]] = {
    "rows": {"max_rows": 2},
    "groups": {"max_groups": 2, "max_rows_per_group": 1},
}


@pytest.fixture(params=mostly_slow(LIMITS))
def session(request: pytest.FixtureRequest) -> Iterator[unacorda.Session]:
    with unacorda.Session(
        {"visits": VISITS, "labs": VISITS},
        unit=unacorda.Person("who", **LIMITS[request.param]),
        budget=unacorda.PureDP(1),
        public={"codes": CODES},
    ) as opened:
        yield opened


def most_lines(session: unacorda.Session, query: Query) -> int:
    """The most lines that an operator hands on, while a question is counted."""
    statement = statement_of(session, query, salt=5)
    engine: Any = session._engine
    cursor = engine._connection.cursor()
    sql = f"WITH bounded AS ({statement.bounded}) {statement.counts}"
    ((_, told),) = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json) {sql}").fetchall()
    return max(_lines(json.loads(told)))


def _lines(node: Any) -> Iterator[int]:
    """How many lines each operator hands on, as one or another version of the engine tells it."""
    match node:
        case dict():
            for name, value in node.items():
                if name in {"intermediate_rows", "operator_cardinality"}:
                    yield int(value)
                else:
                    yield from _lines(value)
        case list():
            for one in node:
                yield from _lines(one)
        case _:
            pass


def ways_of_counting(session: unacorda.Session, way: Way) -> list[Query]:
    query = way(session, "visits")
    return [query.agg(n=unacorda.count()), query.agg(s=unacorda.sum("x", 0, 50))]


@in_subtests("name", WAYS)
def test_no_stage_has_more_rows_of_a_person_than_her_limits_allow(
    name: str, session: unacorda.Session
) -> None:
    for query in ways_of_counting(session, WAYS[name]):
        tables, copies = len(query.rows.tables) * OWN, sum(query.rows.most_of_row.values())
        assert most_lines(session, query) <= max(tables, 2 * copies)


@pytest.mark.parametrize("name", ["exploded", "looked up", "looked up in parts", "met"])
def test_copies_before_bounding_are_found(
    name: str, session: unacorda.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Relation, "multiplying", None)
    (query, *_) = ways_of_counting(session, WAYS[name])
    assert most_lines(session, query) > 10 * OWN
