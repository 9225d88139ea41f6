"""What can not be put together is refused by name, before anything is read; what can is told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.query.neighbor_joins import OF_PEOPLE, PUBLIC, Way
from tests.support.cases import in_subtests
from tests.support.seams import Query, Release
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import InvalidParameter

VISITS = {"pid": [1, 1, 2], "day": ["a", "b", "a"], "x": [1.0, 2.0, 3.0], "zip": ["z", "q", None]}
LABS = {"patient": [1, 2, 2], "day": ["a", "a", "b"], "y": [1.0, 2.0, 3.0]}
ZIPS = {"zip": ["z", "z", "q"], "people": [10, 20, 30], "x": [1, 2, 3], "open": [True, False, True]}


def session_of(*, rows: bool = False, **tables: Any) -> unacorda.Session:
    known = {"visits": pa.table(VISITS), "labs": pa.table(LABS), **tables}
    ids = {"visits": "pid", "labs": "patient"} | dict.fromkeys(tables, "pid")
    unit = unacorda.Row() if rows else unacorda.Person(ids, max_rows=5)
    return unacorda.Session(
        known,
        unit=unit,
        budget=unacorda.PureDP(10),
        public={"zips": pa.table(ZIPS), "codes": PUBLIC},
        bits=unacorda.SeededBits(3),
    )


REFUSED: dict[str, tuple[Callable[[Query, Query], Query], str]] = {
    "no bounds": (lambda v, u: v.join(u), "max_rows=(3, 5): without bounds"),
    "three bounds": (lambda v, u: v.join(u, max_rows=(1, 2, 3)), "max_rows"),  # type: ignore[arg-type]
    "bound of nothing": (lambda v, u: v.join(u, max_rows=0), "max_rows"),
    "bounds beyond all": (lambda v, u: v.join(u, max_rows=5_000), "a product of at most"),
    "not on the id": (
        lambda v, u: v.join(u, "day", max_rows=3),
        "the person's id among the columns, on={'pid': 'patient'}: otherwise rows of different",
    ),
    "on another's id": (lambda v, u: v.join(u, {"pid": "y"}, max_rows=3), "the person's id"),
    "a taken name": (lambda v, u: v.join(u, max_rows=3), "'visits' has that column too"),
    "a name twice": (
        lambda v, u: v.join(u, columns={"Y": "y", "y": "y"}, max_rows=3),
        "new names",
    ),
    "no such column": (lambda v, u: v.join(u, columns=["z"], max_rows=3), "a column of table"),
    "a column as text": (lambda v, u: v.join(u, columns="y", max_rows=3), "a list of columns"),
    "an unknown way": (
        lambda v, u: v.join(u, max_rows=3, columns=[], how="outer"),  # type: ignore[arg-type]
        "'inner' or 'left'",
    ),
    "a private table by name": (lambda v, u: v.join("labs"), "a public table, given as"),
    "a public one with bounds": (lambda v, u: v.join("zips", "zip", max_rows=3), "max_rows"),
    "a public one on nothing": (lambda v, u: v.join("zips"), "on=None"),
    "a public one by numbers": (lambda v, u: v.join("zips", [1]), "a column that both have"),  # type: ignore[list-item]
    "numbers and booleans": (
        lambda v, u: v.join("zips", {"x": "open"}),
        "columns of one type: 'x' of 'visits' holds number, and 'open' of 'zips' boolean",
    ),
    "after groups": (
        lambda v, u: v.group_by("day", keys=["a"]).join("zips", "zip"),
        "before group_by",
    ),
    "with groups": (lambda v, u: v.union(u.group_by("day", keys=["a"])), "without group_by"),
    "a union with text": (lambda v, u: v.union("labs"), "rows of a table"),  # type: ignore[arg-type]
    "too many tables": (
        lambda v, u: v.union(v).union(v.union(v)).union(v.union(v).union(v.union(v))).union(
            v.union(v).union(v.union(v)).union(v.union(v).union(v.union(v)))
        ).union(v),
        "at most 16",
    ),
    "parts of a number": (lambda v, u: v.explode("x * 2", most=3), "explode"),
    "parts without a name": (lambda v, u: v.explode("LOWER(day)", most=3), "into=None"),
    "parts under a taken name": (lambda v, u: v.explode("day", most=3, into="x"), "a new name"),
    "no parts": (lambda v, u: v.explode("day", most=0), "most"),
    "parts without a bound": (lambda v, u: v.explode("day"), "most=5"),
    "too many parts": (lambda v, u: v.explode("day", most=10**6), "at most 1,000 parts"),
    "no separator": (lambda v, u: v.explode("day", separator="", most=2), "separator"),
    "too many copies": (
        lambda v, u: v.explode("day", most=1000).explode("day", most=2),
        "one row may become 1,000 rows at most, and here it may become 2,000",
    ),
    "too many matches and parts": (
        lambda v, u: v.explode("day", most=501).join("zips", "zip", columns=["people"]),
        "join='zips' cannot be used: expected fewer",
    ),
    "too many rows of a pair": (lambda v, u: v.join(u, max_rows=(26, 39)), "at most 1,000 rows"),
    "too many parts before a join": (
        lambda v, u: v.explode("day", most=40).join(u, max_rows=(2, 26), columns=["y"]),
        "here it may become 1,040",
    ),
    "too many parts after a join": (
        lambda v, u: v.join(u, max_rows=(10, 10), columns=["y"]).explode("day", most=11),
        "here it may become 1,100",
    ),
    "too many on both sides": (
        lambda v, u: v.explode("day", most=500).union(v.explode("day", most=501)),
        "here it may become 1,001",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> Iterator[unacorda.Session]:
    with session_of() as session:
        yield session


@in_subtests("name", REFUSED)
def test_refusals_name_the_mend_and_cost_nothing(name: str, shared: unacorda.Session) -> None:
    build, words = REFUSED[name]
    with pytest.raises(InvalidParameter) as caught:
        build(shared.table("visits"), shared.table("labs"))
    assert words in str(caught.value), str(caught.value)
    assert caught.value.argument in str(caught.value)
    assert shared.remaining == unacorda.PureDP(10)


def test_ids_of_two_types_are_refused() -> None:
    others: dict[str, Any] = {
        "text": pa.table({"pid": ["1", "2"]}),
        "day": pa.table({"pid": pa.array([1, 2], pa.date32())}),
        "decimal": pa.table({"pid": pa.array([1, 2], pa.decimal128(9, 2))}),
    }
    with session_of(**others) as session:
        for name, words in (("text", "text"), ("day", "dates"), ("decimal", "decimal numbers")):
            puts: list[Callable[[Query, Query], Query]] = [
                lambda v, o: v.join(o, max_rows=2),
                lambda v, o: v.union(o),
            ]
            for put in puts:
                with pytest.raises(
                    InvalidParameter, match=f"whole numbers in 'visits' and {words}"
                ):
                    put(session.table("visits"), session.table(name))


def test_single_rows_meet_public_ones_alone() -> None:
    with session_of(rows=True) as session:
        start = session.table("visits")
        with pytest.raises(InvalidParameter, match=r"unacorda.Row\(\) protects single rows"):
            start.join(session.table("labs"), max_rows=3)
        many = start.join("zips", "zip", columns=["people"])
        for asked in (
            {"n": unacorda.count_people()},
            {"n": unacorda.sum("people")},
            {"n": unacorda.max("people", 0, 50)},
            {"r": unacorda.find_bounds("people")},
        ):
            if asked.get("n") == unacorda.sum("people"):
                continue  # its bounds are public
            with pytest.raises(InvalidParameter, match="one row of the table becomes up to 2"):
                many.agg(**asked)
        with pytest.raises(InvalidParameter, match="becomes up to 2"):
            many.group_by("day", keys=unacorda.private_keys()).agg(n=unacorda.count())
        many.agg(n=unacorda.count(), s=unacorda.sum("people"), m=unacorda.median("people"))


def test_units_name_every_table() -> None:
    tables = {"visits": pa.table(VISITS), "labs": pa.table(LABS)}
    for ids in (
        {"visits": "pid"},
        {"visits": "pid", "labs": "patient", "others": "pid"},
    ):
        with pytest.raises(InvalidParameter, match="the id of every table: 'visits', 'labs'"):
            unacorda.Session(
                tables, unit=unacorda.Person(ids, max_rows=2), budget=unacorda.PureDP(1)
            )
    with pytest.raises(InvalidParameter, match="as many columns as for the others"):
        unacorda.Person({"visits": "pid", "labs": ("patient", "day")}, max_rows=2)
    with pytest.raises(InvalidParameter, match="for every table"):
        unacorda.Person({}, max_rows=2)
    for public in ({"visits": pa.table(ZIPS)}, {"": pa.table(ZIPS), 3: pa.table(ZIPS)}, "zips"):
        with pytest.raises(InvalidParameter, match="public"):
            unacorda.Session(
                tables,
                unit=unacorda.Row(),
                budget=unacorda.PureDP(1),
                public=public,  # type: ignore[arg-type]
            )
    with session_of() as session, pytest.raises(InvalidParameter, match="table="):
        session.table("zips")


def test_rows_of_another_session_are_refused() -> None:
    with session_of() as one, session_of() as other:
        query = one.table("visits").union(other.table("labs")).agg(n=unacorda.count())
        with pytest.raises(InvalidParameter, match="a question begun with this session's table"):
            one.evaluate(query, budget=unacorda.PureDP(1))
        public = other.table("visits").join("zips", "zip", columns=[]).agg(n=unacorda.count())
        with pytest.raises(InvalidParameter, match="a question begun with this session's table"):
            one.evaluate(public, budget=unacorda.PureDP(1))


def test_explain_says_how_many_rows_one_unit_has() -> None:
    def page(session: unacorda.Session, query: Query) -> str:
        return str(
            session.explain(query.agg(n=unacorda.count()), budget=unacorda.PureDP(1), detail=True)
        )

    with session_of() as session:
        visits, labs = session.table("visits"), session.table("labs")
        met = page(session, visits.join(labs, columns=["y"], max_rows=(2, 2)))
        assert "labs: keep at most 2 rows of each person (patient)" in met
        assert "on pid = patient; the others go: one person has at most 4 rows" in met
        assert "one unit brings at most 4 rows" in met
        public = page(session, visits.join("zips", "zip", columns=["people"], how="left"))
        assert "2. keep at most 5 rows of each person (pid), chosen at random, before a" in public
        assert "2; rows that meet none stay: one person has at most 10 rows" in public
        assert "one unit brings at most 5 rows" in public
        both = page(session, visits.union(labs).explode("day", most=3))
        assert "put the rows of visits and of labs together: a person's rows" in both
        assert "into day, a row for each of its first 3 parts: one person has at most 15" in both
        twice = page(session, visits.explode("day", most=3).explode("zip", most=7))
        assert twice.count("of each person (pid)") == 2
        assert "first 7 parts: one person has at most 105 rows, which are bounded again" in twice
    with session_of(rows=True) as session:
        start = session.table("visits").join("zips", "zip", columns=["people"])
        public = page(session, start.explode("day", most=3))
        assert "one row of the table counts as at most 2 rows" in public
        assert "one row of the table counts as at most 6 rows" in public
        assert "one unit brings at most 6 rows" in public


@pytest.mark.parametrize("name", mostly_slow(reversed(list(OF_PEOPLE)), quick=4))
def test_a_release_over_several_tables_is_verified(name: str) -> None:
    way: Way = OF_PEOPLE[name]
    columns = {"pair": [0] * 4, "who": [1, 1, 2, 3], "x": [1.0, -2.0, 3.0, None]}
    columns |= {"whole": [1, 2, 3, 4], "note": ["z", "", None, "é"], "region": ["a", "b"] * 2}
    table = pa.table(columns)
    with unacorda.Session(
        {"left": table, "left labs": table},
        unit=unacorda.Person("who", max_rows=6),
        budget=unacorda.ZCDP(9),
        public={"codes": PUBLIC},
    ) as session:
        query = way(session, "left").derive(more="x * 3").where("more < 100 OR more IS NULL")
        query = query.group_by("region", keys=["a", "b"])
        release = session.evaluate(
            query.agg(
                n=unacorda.count(), s=unacorda.sum("more", 0, 5), p=unacorda.count_people("note")
            ),
            budget=unacorda.ZCDP(1),
        )
        text = release.to_json()
        found = Release.verify(text)
        assert found.holds, str(found)
        stated = json.loads(text)
        for change in _changes(stated["query"]):
            changed = json.dumps({**stated, "query": change})
            assert not Release.verify(changed).holds


def _changes(query: dict[str, Any]) -> list[dict[str, Any]]:
    """The question with each whole number and text that is about its rows replaced."""
    rows = {name: query[name] for name in ("steps", "join", "of") if name in query}
    text = json.dumps(rows)
    found = []
    for old, new in (
        ('"most": 3', '"most": 2'),
        ('"how": "left"', '"how": "inner"'),
        ('"max_rows": [2, 3]', '"max_rows": [3, 3]'),
        ('"separator": ","', '"separator": ";"'),
        ('"lookup": "codes"', '"lookup": "other"'),
        ('["note", "code"]', '["whole", "code"]'),
        ('"id": ["who"]', '"id": []'),
    ):
        if old in text:
            found.append({**query, **json.loads(text.replace(old, new))})
    return found
