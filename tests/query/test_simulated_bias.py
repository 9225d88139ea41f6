"""Questions tried out on a public table: what limits on a person's rows do, beside the noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.seams import SimulatedBias

import unacorda
from unacorda import Assume, PureDP
from unacorda.errors import InvalidParameter, SourceUnreadable

RANDOM = np.random.default_rng(5)
PUBLIC = pd.DataFrame(
    {
        "id": RANDOM.integers(0, 40, 300),
        "age": RANDOM.integers(0, 150, 300),
        "pay": RANDOM.random(300) * 9,
        "sex": RANDOM.choice(["F", "M"], 300),
    }
)
TOWNS = pd.DataFrame({"sex": ["F", "M"], "letter": ["f", "m"]})
LIKE = Assume.from_table(PUBLIC)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[unacorda.Session]:
    with unacorda.Session(
        {"t": PUBLIC.iloc[:0], "other": PUBLIC.iloc[:0][["id"]]},
        unit=unacorda.Person("id", max_rows=4),
        budget=unacorda.ApproxDP(9, "0.1"),
        public={"towns": TOWNS},
    ) as made:
        made.table("t").join("towns", on="sex")  # is looked at once
        for name in ("run", "find", "scan"):
            monkeypatch.setattr(made._engine, name, None)  # the private table is out of reach
        yield made


def tried(session: unacorda.Session, query: Any, **options: Any) -> SimulatedBias:
    told = session.explain(query, **{"budget": PureDP(1), "assuming": LIKE, **options})
    assert not any(session.spent.additive)
    found = told.bias
    assert isinstance(found, SimulatedBias)
    return found


@pytest.mark.long
def test_what_limits_on_rows_cut_is_told(session: unacorda.Session) -> None:
    query = session.table("t").agg(
        n=unacorda.count(),
        people=unacorda.count_people(),
        total=unacorda.sum("age", 0, 100),
        mean=unacorda.mean("age", 0, 100),
        corr=unacorda.correlation("age", "pay", (0, 100), (0, 9)),
    )
    told = session.explain(query, budget=PureDP(1), assuming=LIKE)
    columns = tried(session, query).columns
    assert columns["n"].limited == (PUBLIC.groupby("id").size().clip(upper=4).sum(),)
    assert columns["n"].unlimited == (300,)
    assert columns["people"].bias == (0,)
    clamped = PUBLIC["age"].clip(0, 100)
    assert columns["total"].unlimited[0] == pytest.approx(clamped.sum(), rel=1e-5)
    assert columns["mean"].unlimited[0] == pytest.approx(clamped.mean(), rel=1e-4)
    assert columns["corr"].unlimited[0] == pytest.approx(clamped.corr(PUBLIC["pay"]), abs=1e-3)
    for name in ("n", "total", "mean"):
        assert columns[name].noise == pytest.approx(told.standard_error(name))
    assert "of the values of age are clamped to [0, 100]" in str(told)


def test_declared_bounds_and_limits_in_groups_are_told() -> None:
    unit = unacorda.Person("id", max_groups=2, max_rows_per_group=2)
    columns = {"age": unacorda.Bounds(0, 50)}
    nobody = {"t": PUBLIC.iloc[:0]}
    with unacorda.Session(nobody, unit=unit, budget=PureDP(9), columns=columns) as session:
        query = session.table("t").group_by("sex", keys=["F", "M"]).agg(m=unacorda.mean("age"))
        told = session.explain(query, budget=PureDP(1), assuming=LIKE)
    outside = float(told.outlook.cuts[1].removeprefix("m: ").split("%")[0])
    true = 100 * (PUBLIC["age"] > 50).mean()  # of all; those that are kept are a sample of them
    assert outside == pytest.approx(true, abs=15)
    kept = PUBLIC.groupby(["id", "sex"]).size().clip(upper=2).sum() / len(PUBLIC)
    assert f"rows per person: {100 * (1 - kept):.3g}% of the rows are dropped, of at least" in str(
        told
    )


def test_rows_that_are_protected_have_no_limits() -> None:
    nobody = {"t": PUBLIC.iloc[:0]}
    with unacorda.Session(nobody, unit=unacorda.Row(), budget=PureDP(9)) as session:
        query = session.table("t").agg(m=unacorda.mean("age", 0, 100))
        told = session.explain(query, budget=PureDP(1), assuming=LIKE)
    assert told.bias is None
    assert told.forecasts["m"].assumed_rows == 300


@pytest.mark.long
def test_lines_are_told_one_by_one_where_they_are_few(session: unacorda.Session) -> None:
    table = session.table("t")
    few = tried(session, table.group_by("sex", keys=["F", "M"]).agg(n=unacorda.count())).words
    assert [line.split(":")[0] for line in few[1:]] == ["  n F", "  n M"]
    assert "next to noise of" in few[1]
    many = tried(session, table.group_by("age", keys=range(150)).agg(n=unacorda.count())).words
    assert len(many) == 2
    assert "in the mean of 150 lines" in many[1]


@pytest.mark.long
def test_keys_are_found_as_they_would_be(session: unacorda.Session) -> None:
    query = session.table("t").group_by("sex", keys=unacorda.private_keys()).agg(n=unacorda.count())
    found = tried(session, query, budget=unacorda.ApproxDP(8, "0.001"))
    assert found.keys == (("F",), ("M",))
    free = PUBLIC.groupby("sex").size()
    assert found.columns["n"].unlimited == (free["F"], free["M"])
    none = tried(session, query, budget=unacorda.ApproxDP("0.01", "1e-6"))
    assert (none.keys, dict(none.columns)) == ((), {})
    assert "nothing to compare" in none.words[-1]


@pytest.mark.long
def test_public_tables_of_the_session_and_margins(session: unacorda.Session) -> None:
    start = session.table("t").join("towns", on="sex")
    found = tried(session, start.group_by("letter", margins="rollup").agg(n=unacorda.count()))
    free = PUBLIC.groupby("sex").size()
    assert found.columns["n"].unlimited == pytest.approx((300, free["F"], free["M"]))


@pytest.mark.long
def test_each_question_of_a_batch_is_tried_out(session: unacorda.Session) -> None:
    table = session.table("t")
    queries = [
        table.agg(n=unacorda.count()),
        table.where("age < 50").agg(m=unacorda.mean("age", 0, 60)),
    ]
    told = session.explain(queries, budget=PureDP(1), assuming=LIKE, detail=True)
    assert [list(one.bias.columns) for one in told if one.bias] == [["n"], ["m"]]
    assert told[1].standard_error("m") is not None  # rows and values are taken from the table
    assert "of the rows are dropped" in " ".join(told.outlook.cuts)
    assert str(told).count("tried out on the public table") == 2
    assert json.loads(json.dumps(told.to_dict()))["questions"]["0"]["bias"]["columns"]["n"]


@pytest.mark.long
def test_types_may_differ_and_columns_may_not_lack(
    session: unacorda.Session, tmp_path: Path
) -> None:
    PUBLIC.to_csv(tmp_path / "public.csv", index=False)
    query = session.table("t").agg(s=unacorda.sum("age", 0, 100))
    told = tried(session, query, assuming=Assume.from_table(tmp_path / "public.csv"))
    assert told.columns["s"].unlimited == tried(session, query).columns["s"].unlimited
    with pytest.raises(InvalidParameter, match=r"assuming.*lacks age"):
        tried(session, query, assuming=Assume.from_table(PUBLIC[["id", "sex"]]))


def test_what_a_table_is_not_for_is_refused(session: unacorda.Session, tmp_path: Path) -> None:
    both = session.table("t").join(session.table("other"), max_rows=2)
    with pytest.raises(InvalidParameter, match="one private table"):
        tried(session, both.agg(n=unacorda.count()))
    with pytest.raises(InvalidParameter, match=r"Assume\.from_table"):
        tried(session, session.table("t").agg(n=unacorda.count()), assuming=PUBLIC)
    with pytest.raises(InvalidParameter, match="a file"):
        Assume.from_table([1, 2])
    with pytest.raises(InvalidParameter, match="with rows"):
        Assume.from_table(PUBLIC.iloc[:0])
    with pytest.raises(SourceUnreadable):
        Assume.from_table(tmp_path / "none.csv")


def test_a_part_of_the_people_is_told_of_by_numbers() -> None:
    unit = unacorda.Person("id", max_rows=4)
    with unacorda.Session({"t": PUBLIC}, unit=unit, budget=PureDP(9)) as session:
        part = session.split("sex", keys=["F", "M"], budget=PureDP(1))["F"]
        query = part.table("t").agg(m=unacorda.mean("age", 0, 100))
        with pytest.raises(InvalidParameter, match="all of the people"):
            part.explain(query, budget=PureDP(1), assuming=LIKE)
        told = part.explain(query, budget=PureDP(1), assuming=Assume(rows=100))
        assert told.standard_error("m") is not None


def test_a_table_gives_rows_and_numbers(tmp_path: Path) -> None:
    frame = PUBLIC.assign(when=pd.Timestamp("2020-01-01"), gone=np.nan)
    assert LIKE.rows == 300
    assert sorted(LIKE.values["age"]) == sorted(PUBLIC["age"])
    assert set(Assume.from_table(frame).values) == {"id", "age", "pay"}
    frame.to_csv(tmp_path / "public.csv", index=False)
    assert set(Assume.from_table(tmp_path / "public.csv").values) == {"id", "age", "pay"}
