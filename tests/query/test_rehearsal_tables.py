"""Questions about several tables, tried out on a public table for each."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.seams import Rehearsal

import unacorda
from unacorda import PureDP
from unacorda.errors import InvalidParameter

RANDOM = np.random.default_rng(7)
PEOPLE = pd.DataFrame({"id": range(30), "age": RANDOM.integers(0, 90, 30)})
VISITS = pd.DataFrame(
    {
        "id": RANDOM.integers(0, 40, 300),  # some are of nobody in the other table
        "pay": RANDOM.random(300) * 20,
        "town": RANDOM.choice(["A", "B", "C"], 300),
        "codes": RANDOM.choice(["x", "x;y", "x;y;z", ""], 300),
    }
)
TOWNS = pd.DataFrame({"town": ["A", "B"], "region": ["north", "south"]})
BOTH = {"visits": VISITS, "people": PEOPLE}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[unacorda.Session]:
    with unacorda.Session(
        {name: frame.iloc[:0] for name, frame in BOTH.items()},
        unit=unacorda.Person("id", max_rows=4),
        budget=unacorda.ApproxDP(9, "0.1"),
        public={"towns": TOWNS},
        columns={"pay": unacorda.Bounds(0, 10)},
    ) as made:
        made.table("visits").join("towns", on="town")  # is looked at once
        for name in ("run", "find", "scan"):
            monkeypatch.setattr(made._engine, name, None)  # the private tables are out of reach
        yield made


def tried(session: unacorda.Session, query: Any, assuming: Any = BOTH) -> Rehearsal:
    told = session.explain(query, budget=PureDP(1), assuming=assuming)
    assert not any(session.spent.additive)
    found: Rehearsal | None = told.rehearsal
    assert found is not None
    return found


def test_a_join_on_the_person_is_tried_out(session: unacorda.Session) -> None:
    joined = session.table("visits").join(session.table("people"), max_rows=(3, 1))
    query = joined.where("age >= 18").agg(n=unacorda.count(), s=unacorda.sum("pay"))
    found = tried(session, query)
    both = VISITS.merge(PEOPLE, on="id")
    adult = both[both["age"] >= 18]
    assert found.trials["n"].free == (len(adult),)
    assert found.trials["n"].bounded == (adult.groupby("id").size().clip(upper=3).sum(),)
    assert found.trials["s"].free[0] == pytest.approx(adult["pay"].sum(), rel=1e-6)
    assert found.assumed["s"] is not None
    assert found.assumed["s"].rows == found.trials["n"].bounded[0]
    assert found.assumed["s"].rows_per_person is not None
    assert max(found.assumed["s"].rows_per_person) == 3  # as they leave the join


def test_a_union_is_tried_out(session: unacorda.Session) -> None:
    both = session.table("visits").union(session.table("people"))
    found = tried(session, both.agg(n=unacorda.count(), p=unacorda.count_people()))
    rows = pd.concat([VISITS["id"], PEOPLE["id"]])
    assert found.trials["n"].free == (len(rows),)
    assert found.trials["n"].bounded == (rows.value_counts().clip(upper=4).sum(),)
    assert found.trials["p"].free == (rows.nunique(),)
    again = session.table("visits").union(session.table("visits")).agg(s=unacorda.sum("pay"))
    trial = tried(session, again, VISITS).trials["s"]  # one table, twice
    assert trial.free[0] == pytest.approx(2 * VISITS["pay"].sum(), rel=1e-6)


def test_a_public_table_of_the_session_stands_for_itself(session: unacorda.Session) -> None:
    query = session.table("visits").join("towns", on="town").group_by("region")
    for assuming in (VISITS, BOTH, BOTH | {"towns": TOWNS}):
        found = tried(session, query.agg(n=unacorda.count()), assuming)
        towns = VISITS["town"].value_counts()
        assert dict(zip(found.keys, found.trials["n"].free, strict=True)) == {
            ("north",): towns["A"],
            ("south",): towns["B"],
        }


def test_parts_of_a_text_are_a_limit_too(session: unacorda.Session) -> None:
    query = session.table("visits").explode("codes", separator=";", most=2)
    trial = tried(session, query.agg(n=unacorda.count()), VISITS).trials["n"]
    parts = VISITS["codes"].str.split(";").map(len)
    assert trial.free == (parts.sum(),)
    assert (trial.bounded[0] or 0) <= parts.clip(upper=2).sum()


def test_parts_of_the_people_are_tried_out() -> None:
    with unacorda.Session(
        {name: frame.iloc[:0] for name, frame in BOTH.items()},
        unit=unacorda.Person("id", max_rows=400),
        budget=PureDP(9),
    ) as session:
        parts = session.split("town", keys=["A", "B", "C"], budget=PureDP(1))
        bounded = 0.0
        for key, part in parts.items():
            trial = tried(part, part.table("visits").agg(n=unacorda.count()), VISITS).trials["n"]
            assert trial.free == ((VISITS["town"] == key).sum(),)
            bounded += trial.bounded[0] or 0
        homes = VISITS.groupby("id")["town"].value_counts().unstack(fill_value=0)
        assert homes.min(axis=1).sum() <= bounded <= homes.max(axis=1).sum()


def test_people_are_in_the_same_part_whatever_the_limits() -> None:
    with unacorda.Session(
        {"visits": VISITS.iloc[:0]},
        unit=unacorda.Person("id", max_rows=400, hash="md5"),
        budget=PureDP(9),
    ) as session:
        part = session.split("town", keys=["A", "B", "C"], budget=PureDP(1))["A"]
        found = tried(part, part.table("visits").agg(n=unacorda.count()), VISITS)
    assert found.assumed["n"] is not None
    assert found.assumed["n"].rows_kept == 1


def test_tables_must_be_there_and_have_the_columns(session: unacorda.Session) -> None:
    joined = session.table("visits").join(session.table("people"), max_rows=1)
    query = joined.agg(s=unacorda.sum("age", 0, 100))
    with pytest.raises(InvalidParameter, match=r"one for each table.*'visits'.*'people'"):
        tried(session, query, VISITS)
    with pytest.raises(InvalidParameter, match=r"tables for 'visits'.*'people'"):
        tried(session, query, {"visits": VISITS})
    with pytest.raises(InvalidParameter, match=r"'people' with the columns id.*lacks age"):
        tried(session, query, BOTH | {"people": PEOPLE[["id"]]})
    with pytest.raises(InvalidParameter, match=r"path"):
        tried(session, query, BOTH | {"people": 5})
