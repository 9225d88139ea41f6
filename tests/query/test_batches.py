"""Batches: one price, one reservation, as few scans as there are ways to bound, all or nothing."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import (
    Admitted,
    Ledger,
    MemoryStore,
    allocate,
    allocate_together,
    scans_of,
    verify_record,
)

import unacorda
from unacorda import PureDP
from unacorda.bits import SeededBits
from unacorda.errors import (
    BudgetExceeded,
    EngineFailed,
    InvalidParameter,
    LedgerFailed,
    UnsafeExpression,
    WrongUnit,
)

FRAME = pd.DataFrame(
    {"id": [1, 1, 2, 3, 4], "age": [30, 30, 41, 62, 19], "sex": ["F", "F", "M", "F", None]}
)
NEARLY_EXACT = PureDP(10**5)


@pytest.fixture
def session() -> Iterator[unacorda.Session]:
    with unacorda.Session(
        {"t": FRAME},
        unit=unacorda.Person("id", max_rows=2),
        budget=PureDP(10**6),
        bits=SeededBits(3),
    ) as opened:
        yield opened


def questions(session: unacorda.Session) -> dict[str, Any]:
    table = session.table("t")
    return {
        "all": table.agg(n=unacorda.count(), people=unacorda.count_people()),
        "old": table.where("age >= 40").agg(n=unacorda.count(), mean=unacorda.mean("age", 0, 100)),
        "by sex": "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY n DESC",
        "ages": table.agg(n=unacorda.sum("age", 0, 100), mid=unacorda.median("age", 0, 100)),
    }


def ledger_of(session: unacorda.Session) -> Any:
    return session._ledger


def test_keys_may_have_the_names_that_one_select_gives_its_groups(
    session: unacorda.Session,
) -> None:
    named = "SELECT sex AS which, COUNT(*) AS n FROM t GROUP BY sex"
    batch = session.evaluate(
        [named, "SELECT COUNT(*) AS n FROM t"], budget=NEARLY_EXACT, keys={"which": ["F"]}
    )
    assert [row["which"] for row in batch[0].to_dicts()] == ["F"]


def test_every_question_gets_its_own_answer(session: unacorda.Session) -> None:
    batch = session.evaluate(
        questions(session), budget=NEARLY_EXACT, keys={"sex": ["M", "F", None]}
    )
    found = {name: batch[name].to_dicts() for name in batch.names}
    assert found["all"][0]["n"] == 5
    assert found["all"][0]["people"] == 4
    assert found["old"][0]["n"] == 2
    assert found["old"][0]["mean"] == pytest.approx(51.5, abs=0.1)
    assert (found["by sex"][0]["sex"], found["by sex"][0]["n"]) == ("F", 3)
    assert found["ages"][0]["n"] == pytest.approx(182, abs=1)
    assert found["ages"][0]["mid"] == 30
    assert list(batch) == [batch[name] for name in batch.names]
    assert len(batch) == 4


def test_one_price_is_paid_once(session: unacorda.Session) -> None:
    batch = session.evaluate(
        questions(session), budget=PureDP(4), keys={"sex": ["M", "F"]}, weights={"all": "5/2"}
    )
    assert session.spent == batch.charge == batch.request == PureDP(4)
    assert batch.remaining == session.remaining == batch["old"].remaining
    entries = ledger_of(session).entries("session")
    assert [entry.state for entry in entries] == ["reserved", "committed"]
    assert entries[0].event == batch.event.to_json()
    assert {release.charge for release in batch} == {batch.charge}
    assert "that were asked together: epsilon 4 is for all of them, once." in " ".join(
        batch["old"].provenance
    )
    assert str(batch).count("spent") == 1
    assert "for 4 questions" in str(batch["old"])


def test_a_list_is_answered_in_its_order(session: unacorda.Session) -> None:
    table = session.table("t")
    batch = session.evaluate(
        [table.agg(a=unacorda.count()), table.agg(b=unacorda.count("sex"))],
        budget=NEARLY_EXACT,
        weights=[1, 3],
    )
    assert batch.names == ("0", "1")
    assert batch[0].answers["a"].values == [5]
    assert batch[-1].answers["b"].values == [4]
    assert batch["1"] is batch[1]
    for unknown in (2, "2", -3, None):
        with pytest.raises(InvalidParameter, match="'0', '1'"):
            batch[unknown]  # type: ignore[index]


def test_questions_about_the_same_rows_are_scanned_once(
    session: unacorda.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    run = session._engine.run

    def counted(asked: Admitted) -> Any:
        runs.append(asked)
        return run(asked)

    monkeypatch.setattr(session._engine, "run", counted)
    table = session.table("t")
    grouped = table.group_by("sex", keys=["F", "M"])
    session.evaluate(
        [
            table.agg(a=unacorda.count()),
            grouped.agg(a=unacorda.count()),
            table.agg(a=unacorda.mean("age", 0, 9), b=unacorda.median("age", 0, 9)),
            table.where("age > 1").agg(a=unacorda.count()),
            grouped.agg(a=unacorda.sum("age", 0, 9)),
            table.derive(h="age / 2").agg(a=unacorda.sum("h", 0, 9)),
        ],
        budget=PureDP(1),
    )
    assert len(runs) == 4


def test_noise_in_a_batch_is_what_each_part_buys_alone(session: unacorda.Session) -> None:
    """The sensitivities are those of each question, whoever stands beside it."""
    table = session.table("t").group_by("sex", keys=["F", "M"])
    queries = [
        table.agg(n=unacorda.count(weight=3), s=unacorda.sum("age", -5, 100)),
        session.table("t").agg(m=unacorda.mean("age", 0, 90), q=unacorda.median("age", 0, 90)),
        table.agg(p=unacorda.count_people()),
    ]
    weights = [Fraction(1), Fraction(5, 2), Fraction(1, 2)]
    for request in (PureDP(2), unacorda.ZCDP("1/9"), unacorda.GDP(1)):
        together = allocate_together(queries, request, weights=weights)
        for query, weight, found in zip(queries, weights, together, strict=True):
            alone = allocate(query, request * (weight / 4))
            assert alone.noises == found.noises
    assert [scan.members for scan in scans_of(queries)] == [(0, 2), (1,)]


def test_equal_questions_get_noise_of_their_own(session: unacorda.Session) -> None:
    query = session.table("t").agg(s=unacorda.sum("age", 0, 100))
    batch = session.evaluate([query] * 6, budget=PureDP(1))
    assert len({release.answers["s"].values[0] for release in batch}) == 6


def test_a_member_that_the_budget_does_not_suit_is_named(session: unacorda.Session) -> None:
    table = session.table("t")
    found = table.group_by("sex", keys=unacorda.private_keys()).agg(n=unacorda.count())
    batch = {"plain": table.agg(n=unacorda.count()), "found": found}
    with pytest.raises(InvalidParameter, match=r"In question 'found': .*one with a delta"):
        session.evaluate(batch, budget=PureDP(1))
    assert session.spent == PureDP(0)


@pytest.mark.parametrize("listed", [True, False])
def test_a_bad_member_is_named_and_nothing_is_spent(
    session: unacorda.Session, listed: bool
) -> None:
    good = session.table("t").agg(n=unacorda.count())
    with unacorda.Session({"t": FRAME}, unit=unacorda.Row(), budget=PureDP(1)) as other:
        strange = other.table("t").agg(n=unacorda.count())
    bad: list[tuple[Any, type[Exception]]] = [
        (strange, InvalidParameter),
        (session.table("t"), InvalidParameter),
        (None, InvalidParameter),
        (3, InvalidParameter),
        ([good], InvalidParameter),
        ("SELECT COUNT(*) FROM nowhere", InvalidParameter),
        ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex", InvalidParameter),
        ("SELECT * FROM t", UnsafeExpression),
        ("SELECT AVG(age) AS m FROM t", InvalidParameter),
    ]
    for member, kind in bad:
        asked: Any = [good, member] if listed else {"fine": good, "1": member}
        with pytest.raises(kind, match=r"^In question '1'"):
            session.evaluate(asked, budget=PureDP(1))
    assert session.spent == PureDP(0)
    assert ledger_of(session).entries("session") == ()


@in_subtests(
    "weights",
    [
        [0, 0],
        [1, 0],
        [1, -1],
        [1],
        [1, 1, 1],
        [1, float("nan")],
        [1, float("inf")],
        [1, "many"],
        [1, None],
        {"0": 1},
        2,
        "11",
    ],
)
def test_weights_that_split_nothing_are_refused(session: unacorda.Session, weights: Any) -> None:
    query = session.table("t").agg(n=unacorda.count())
    with pytest.raises(InvalidParameter, match="weights"):
        session.evaluate([query, query], budget=PureDP(1), weights=weights)
    with pytest.raises(InvalidParameter, match="weights"):
        session.evaluate({"a": query, "b": query}, budget=PureDP(1), weights={"c": 1})
    with pytest.raises(InvalidParameter, match="weights"):
        session.evaluate(query, budget=PureDP(1), weights=[1])  # type: ignore[call-overload]
    assert session.spent == PureDP(0)


@in_subtests("several", [[], {}, (), [None] * 1001, {1: "SELECT 1"}, {"": "SELECT 1"}])
def test_what_is_no_batch_is_refused(session: unacorda.Session, several: Any) -> None:
    with pytest.raises(InvalidParameter):
        session.evaluate(several, budget=PureDP(1))
    assert session.spent == PureDP(0)


def test_too_large_a_budget_leaves_everything_as_it_was(session: unacorda.Session) -> None:
    query = session.table("t").agg(n=unacorda.count())
    session.evaluate(query, budget=PureDP(10**6 - 1))
    for budget, error in (
        (PureDP(2), BudgetExceeded),
        (unacorda.ZCDP(1), WrongUnit),
        (PureDP(0), InvalidParameter),
        (1, InvalidParameter),
    ):
        with pytest.raises(error):
            session.evaluate([query, query], budget=budget)  # type: ignore[arg-type]
    assert session.remaining == PureDP(1)


def test_an_engine_that_fails_late_gives_no_answer_at_all(
    session: unacorda.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second scan fails: the charge stands once, and the first scan's answer is not given."""
    run = session._engine.run

    def failing(asked: Admitted) -> Any:
        if not asked.query.measures:
            raise EngineFailed
        return run(asked)

    monkeypatch.setattr(session._engine, "run", failing)
    table = session.table("t")
    asked = [
        table.agg(n=unacorda.count()),
        table.where("age > 1").agg(q=unacorda.median("age", 0, 9)),
    ]
    with pytest.raises(EngineFailed):
        session.evaluate(asked, budget=PureDP(1))
    assert session.spent == PureDP(1)
    assert [entry.state for entry in ledger_of(session).entries("session")] == ["reserved"]


def test_a_ledger_that_fails_gives_no_answer() -> None:
    class Failing(Ledger):
        def commit(self, reservation: Any, *, found: str | None = None) -> None:
            raise LedgerFailed("memory", reason="full")

    with unacorda.Session(
        {"t": FRAME}, unit=unacorda.Row(), budget=PureDP(1), ledger=Failing(MemoryStore())
    ) as session:
        query = session.table("t").agg(n=unacorda.count())
        with pytest.raises(LedgerFailed):
            session.evaluate([query, query], budget=PureDP(1))
        assert session.spent == PureDP(1)


@pytest.mark.long
def test_every_release_of_a_batch_is_verified_by_itself(session: unacorda.Session) -> None:
    batch = session.evaluate(
        questions(session), budget=PureDP(3), keys={"sex": ["M", "F"]}, weights={"all": 4}
    )
    written = json.loads(batch.to_json())
    assert written["spent"] == repr(batch.charge)
    for name in batch.names:
        text = json.dumps(written["releases"][name])
        assert verify_record(text, ledger=ledger_of(session)).holds
    text = batch["all"].to_json()
    for old, new in (
        ('"4"', '"5"'),
        ('"place": 0', '"place": 1'),
        ('"place": 0', '"place": 7'),
        ('"old"', '"young"'),
        ("= 40", "= 50"),
        ('"batch": {', '"batch": null, "other": {'),
    ):
        assert old in text
        assert not verify_record(text.replace(old, new)).holds
