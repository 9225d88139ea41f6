"""Questions explained together: the same split, price and errors as when they are asked."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from tests.tiers import mostly_slow

import unacorda
from unacorda import PureDP
from unacorda.errors import InvalidParameter, WrongUnit

FRAME = pd.DataFrame({"id": [1, 1, 2, 3], "age": [30, 30, 41, 62], "sex": list("FFMF")})


@pytest.fixture
def session() -> Iterator[unacorda.Session]:
    unit, budget = unacorda.Person("id", max_rows=4), unacorda.ApproxDP(9, "0.1")
    with unacorda.Session(
        {"t": FRAME}, unit=unit, budget=budget, bits=unacorda.SeededBits(1)
    ) as made:
        yield made


def questions(session: unacorda.Session) -> Any:
    table = session.table("t")
    return {
        "all": table.agg(n=unacorda.count(), total=unacorda.sum("age", 0, 50)),
        "by sex": table.group_by("sex", keys=["F", "M"]).agg(n=unacorda.count()),
        "old": "SELECT COUNT(*) AS n FROM t WHERE age > 40",
    }


SPLITS: dict[str, dict[str, Any]] = {
    "alike": {},
    "weights": {"weights": {"all": 2, "old": "1/2"}},
}


@pytest.mark.parametrize("request_", mostly_slow([PureDP(2), unacorda.ApproxDP(1, 1e-6)]), ids=repr)
@pytest.mark.parametrize("split", SPLITS)
def test_a_batch_is_explained_as_it_is_answered(
    session: unacorda.Session, split: str, request_: Any
) -> None:
    asked = questions(session)
    told = session.explain(asked, budget=request_, **SPLITS[split])
    assert session.spent.additive[0] == 0
    batch = session.evaluate(asked, budget=request_, **SPLITS[split])
    assert told.cost == batch.charge == session.spent
    assert told.request == batch.request
    for name, release in zip(batch.names, batch, strict=True):
        for column, answer in release.answers.items():
            errors = [told[name].standard_error(column)] * len(release.keys)
            assert list(answer.standard_errors) == pytest.approx(errors)
    assert sum(told.parts.values()) == pytest.approx(1)
    assert told.scans == 3


def test_other_budgets_are_those_of_the_whole_batch(session: unacorda.Session) -> None:
    asked = questions(session)
    now = session.explain(asked, budget=PureDP(2))
    half = session.explain(asked, budget=PureDP(1))
    told = dict(now.outlook.budgets)[PureDP(1)]
    assert set(told) == {"all: n", "all: total", "by sex: n", "old: n"}
    assert told["old: n"].value == half["old"].standard_error("n")
    assert told["all: total"].value == half["all"].standard_error("total")


def test_one_question_is_explained_with_wished_errors(session: unacorda.Session) -> None:
    query = questions(session)["all"]
    told = session.explain(query, budget=PureDP(2), errors={"n": 40, "total": 900})
    release = session.evaluate(query, budget=PureDP(2), errors={"n": 40, "total": 900})
    assert told.cost == release.charge
    assert (told.standard_error("n") or 99) <= 40


def test_the_page_names_questions_and_repeats_no_rows(session: unacorda.Session) -> None:
    told = session.explain(list(questions(session).values()), budget=PureDP(2), detail=True)
    assert len(told) == 3
    assert told["1"] is told[1]
    text = str(told)
    assert text.startswith("3 questions together, from 3 scans of the table")
    assert [text.count(f"Question '{n}' (33.3% of the budget)") for n in range(3)] == [1, 1, 1]
    assert text.count("What it costs") == text.count("What other budgets would buy") == 1
    twice = session.table("t").agg(n=unacorda.count())
    assert "rows as in question '0'" in str(
        session.explain([twice, twice], budget=PureDP(2), detail=True)
    )
    plain = json.loads(json.dumps(told.to_dict()))
    assert list(plain["questions"]) == ["0", "1", "2"]
    assert plain["questions"]["2"]["part"] == pytest.approx(1 / 3)
    with pytest.raises(InvalidParameter, match="one of '0', '1', '2'"):
        told["old"]


def test_a_bad_member_is_named(session: unacorda.Session) -> None:
    bad: Any = {**questions(session), "bad": "SELECT SUM(name) FROM t"}
    with pytest.raises(unacorda.errors.UnacordaError, match="In question 'bad'"):
        session.explain(bad, budget=PureDP(2))
    with pytest.raises(InvalidParameter, match="weights"):
        session.explain(questions(session), budget=PureDP(2), weights=[1, 2])
    with pytest.raises(WrongUnit):
        session.explain(questions(session), budget=unacorda.ZCDP(1))
