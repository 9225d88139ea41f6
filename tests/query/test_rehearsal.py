"""Questions tried out on a public table: what limits and bounds would cut, beside the noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.seams import Rehearsal

import unacorda
from unacorda import PureDP
from unacorda.errors import InvalidParameter

RANDOM = np.random.default_rng(5)
PUBLIC = pd.DataFrame(
    {
        "id": RANDOM.integers(0, 40, 300),
        "age": RANDOM.integers(0, 150, 300),
        "pay": RANDOM.random(300) * 9,
        "sex": RANDOM.choice(["F", "M"], 300),
    }
)
NOBODY = PUBLIC.iloc[:0]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[unacorda.Session]:
    unit, budget = unacorda.Person("id", max_rows=4), unacorda.ApproxDP(9, "0.1")
    with unacorda.Session({"t": NOBODY}, unit=unit, budget=budget) as made:
        for name in ("run", "find", "scan"):
            monkeypatch.setattr(made._engine, name, None)  # the private table is out of reach
        yield made


def tried(session: unacorda.Session, query: Any, **options: Any) -> Rehearsal:
    told = session.explain(query, **{"budget": PureDP(1), "assuming": PUBLIC, **options})
    assert not any(session.spent.additive)
    found = told.rehearsal
    assert isinstance(found, Rehearsal)
    return found


@pytest.mark.slow
def test_what_limits_and_bounds_cut_is_told(session: unacorda.Session) -> None:
    query = session.table("t").agg(
        n=unacorda.count(),
        people=unacorda.count_people(),
        total=unacorda.sum("age", 0, 100),
        cut=unacorda.sum("age"),
        mean=unacorda.mean("age", 0, 100),
        top=unacorda.max("age", 0, 100),
        mid=unacorda.median("pay", 0, 10, resolution=0.01),
        corr=unacorda.correlation("age", "pay", (0, 100), (0, 9)),
    )
    trials = tried(session, query).trials
    rows = PUBLIC.groupby("id").size()
    assert trials["n"].bounded == (rows.clip(upper=4).sum(),)
    assert trials["n"].free == (300,)
    assert trials["people"].bias == (0,)
    for name in ("total", "cut"):
        assert trials[name].free[0] == pytest.approx(PUBLIC["age"].sum(), rel=1e-5)
    assert trials["mean"].free[0] == pytest.approx(PUBLIC["age"].mean(), rel=1e-4)
    assert trials["top"].bounded[0] == 100
    assert trials["top"].free[0] == pytest.approx(PUBLIC["age"].max(), abs=1)
    assert trials["mid"].free[0] == pytest.approx(PUBLIC["pay"].median(), abs=0.05)
    assert trials["corr"].free[0] == pytest.approx(PUBLIC["age"].corr(PUBLIC["pay"]), abs=1e-3)
    told = session.explain(query, budget=PureDP(1), assuming=PUBLIC)
    for name in ("n", "total"):
        assert list(trials[name].noise) == [pytest.approx(told.standard_error(name))]
    assert all(trial.noise[0] for name, trial in trials.items() if name not in {"top", "corr"})


def test_means_are_biased_by_clamping_alone_where_rows_are_protected() -> None:
    with unacorda.Session({"t": NOBODY}, unit=unacorda.Row(), budget=PureDP(9)) as session:
        table = session.table("t").where("pay > 3")
        query = table.group_by("sex", keys=["F", "M", "X"]).agg(m=unacorda.mean("age", 0, 100))
        found = tried(session, query)
    for (sex,), bias in zip(found.keys, found.trials["m"].bias, strict=True):
        ages = PUBLIC.loc[(PUBLIC["pay"] > 3) & (PUBLIC["sex"] == sex), "age"]
        expected = ages.clip(0, 100).mean() - ages.mean() if len(ages) else None
        assert expected is None or bias == pytest.approx(expected, rel=1e-3)


def test_declared_bounds_are_lifted_too() -> None:
    unit, columns = unacorda.Row(), {"age": unacorda.Bounds(0, 50)}
    with unacorda.Session({"t": NOBODY}, unit=unit, budget=PureDP(9), columns=columns) as session:
        found = tried(session, "SELECT SUM(age) AS s FROM t").trials["s"]
    assert found.free[0] == pytest.approx(PUBLIC["age"].sum(), rel=1e-6)
    assert found.bounded[0] == pytest.approx(PUBLIC["age"].clip(upper=50).sum(), rel=1e-6)


def test_what_declared_bounds_and_limits_in_groups_cut_is_told() -> None:
    unit = unacorda.Person("id", max_groups=2, max_rows_per_group=2)
    columns = {"age": unacorda.Bounds(0, 50)}
    with unacorda.Session({"t": NOBODY}, unit=unit, budget=PureDP(9), columns=columns) as session:
        query = session.table("t").group_by("sex", keys=["F", "M"]).agg(m=unacorda.mean("age"))
        told = session.explain(query, budget=PureDP(1), assuming=PUBLIC)
    outside = float(told.outlook.cuts[1].removeprefix("m: ").split("%")[0])
    true = 100 * (PUBLIC["age"] > 50).mean()  # of all; those that are kept are a sample of them
    assert outside == pytest.approx(true, abs=15)
    kept = PUBLIC.groupby(["id", "sex"]).size().clip(upper=2).sum() / len(PUBLIC)
    assert f"rows per person: {100 * (1 - kept):.3g}% of the rows go, of at least" in str(told)


def test_lines_are_told_one_by_one_where_they_are_few(session: unacorda.Session) -> None:
    table = session.table("t")
    few = tried(session, table.group_by("sex", keys=["F", "M"]).agg(n=unacorda.count())).words
    assert [line.split(":")[0] for line in few[1:]] == ["  n F", "  n M"]
    assert "beside noise of" in few[1]
    many = tried(session, table.group_by("age", keys=range(150)).agg(n=unacorda.count())).words
    assert len(many) == 2
    assert "in the mean of 150 lines" in many[1]


def test_keys_are_found_as_they_would_be(session: unacorda.Session) -> None:
    query = session.table("t").group_by("sex", keys=unacorda.private_keys()).agg(n=unacorda.count())
    found = tried(session, query, budget=unacorda.ApproxDP(8, "0.001"))
    assert found.keys == (("F",), ("M",))
    free = PUBLIC.groupby("sex").size()
    assert found.trials["n"].free == (free["F"], free["M"])


def test_each_question_of_a_batch_is_tried_out(session: unacorda.Session) -> None:
    table = session.table("t")
    queries = [
        table.agg(n=unacorda.count()),
        table.where("age < 50").agg(m=unacorda.mean("age", 0, 60)),
    ]
    told = session.explain(queries, budget=PureDP(1), assuming=PUBLIC)
    assert [list(one.rehearsal.trials) for one in told if one.rehearsal] == [["n"], ["m"]]
    assert told[1].standard_error("m") is not None  # rows and values are taken from the table
    assert "of the rows go" in " ".join(told.outlook.cuts)
    assert str(told).count("tried out on public tables") == 2
    assert json.loads(json.dumps(told.to_dict()))["questions"]["0"]["rehearsal"]["columns"]["n"]


def test_types_may_differ_and_columns_may_not_lack(
    session: unacorda.Session, tmp_path: Path
) -> None:
    PUBLIC.to_csv(tmp_path / "public.csv", index=False)
    query = session.table("t").agg(s=unacorda.sum("age", 0, 100))
    told = tried(session, query, assuming=tmp_path / "public.csv")
    assert told.trials["s"].free == tried(session, query).trials["s"].free
    with pytest.raises(InvalidParameter, match=r"assuming.*lacks age"):
        tried(session, query, assuming=PUBLIC[["id", "sex"]])


def test_a_table_without_rows_says_nothing(session: unacorda.Session) -> None:
    query = session.table("t").agg(n=unacorda.count(), m=unacorda.mean("age", 0, 100))
    found = tried(session, query, assuming=NOBODY)
    assert set(found.assumed.values()) == {None}
    assert found.trials["n"].bias == (0,)


def test_where_no_key_is_found_there_is_nothing_to_compare(session: unacorda.Session) -> None:
    query = session.table("t").group_by("sex", keys=unacorda.private_keys()).agg(n=unacorda.count())
    found = tried(session, query, budget=unacorda.ApproxDP("0.01", "1e-6"))
    assert (found.keys, dict(found.trials)) == ((), {})
    assert "nothing to compare" in found.words[-1]


def test_tables_that_add_up_are_tried_out(session: unacorda.Session) -> None:
    start = session.table("t").group_by("sex", keys=["F", "M"], margins="rollup")
    found = tried(session, start.agg(n=unacorda.count()))
    free = PUBLIC.groupby("sex").size()
    assert found.trials["n"].free == pytest.approx((300, free["F"], free["M"]))
    assert found.trials["n"].bounded[0] == pytest.approx(
        PUBLIC.groupby("id").size().clip(upper=4).sum()
    )
