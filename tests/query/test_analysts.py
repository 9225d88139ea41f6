"""Sub-sessions of analysts: limits of their own, below one budget that all of them share."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.seams import Ledger, Query, open_ledger

import unacorda
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch, WrongUnit

TABLE = pa.table({"id": [1, 1, 2, 3], "part": ["a", "b", "a", "b"]})
TENTH = unacorda.PureDP("0.1")


def opened(**options: Any) -> unacorda.Session:
    return unacorda.Session(
        {"t": TABLE},
        unit=unacorda.Person("id", max_rows=2),
        **{"budget": unacorda.PureDP(1), **options},
    )


def ask(session: unacorda.Session, budget: unacorda.PureDP = TENTH) -> None:
    session.evaluate(session.table("t").agg(n=unacorda.count()), budget=budget)


def test_both_are_debited_and_the_smaller_limit_ends_it() -> None:
    with opened() as session:
        ana = session.for_analyst("ana", unacorda.PureDP("0.2"))
        bob = session.for_analyst("bob", unacorda.PureDP(1))  # promised more than there is together
        ask(ana)
        ask(bob, unacorda.PureDP("0.7"))
        assert ana.spent == TENTH
        assert ana.remaining == TENTH
        assert session.spent == unacorda.PureDP("0.8")
        with pytest.raises(BudgetExceeded, match="ana"):
            ask(ana, unacorda.PureDP("0.15"))
        ask(ana)
        with pytest.raises(BudgetExceeded):
            ask(bob, unacorda.PureDP("0.2"))  # more than the whole has left, and he has it
        assert bob.remaining == unacorda.PureDP("0.3")
        assert session.remaining == TENTH


def test_limits_and_names_are_kept(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/budget.db"
    with opened(ledger=address, dataset="d", analyst="lead", purpose="report") as session:
        ask(session.for_analyst("ana", unacorda.PureDP("0.5")))
        ask(session)
    with opened(ledger=address, dataset="d", budget=None) as session:
        ana = session.for_analyst("ana")
        assert ana.budget == unacorda.PureDP("0.5")
        assert ana.spent == TENTH
        with pytest.raises(LedgerMismatch, match="ana"):
            session.for_analyst("ana", unacorda.PureDP("0.6"))
    ledger = open_ledger(address)
    noted = [(e.analyst, e.purpose) for e in ledger.entries("d") if e.state == "reserved"]
    assert noted == [("ana", "report"), ("lead", "report")]
    ledger.close()


def test_a_changed_limit_is_the_budget_from_then_on(tmp_path: Path) -> None:
    with opened(ledger=f"sqlite:///{tmp_path}/budget.db", dataset="d") as session:
        ana = session.for_analyst("ana", TENTH)
        parts = ana.for_purpose("report").split("part", keys=["a"], budget=TENTH)
        ledger, _ = session.account
        assert isinstance(ledger, Ledger)
        ledger.change_limit("d", "ana", unacorda.PureDP("0.7"))
        ask(ana, unacorda.PureDP("0.6"))
        assert ana.budget == ana.for_purpose("report").budget == unacorda.PureDP("0.7")
        assert ana.remaining == parts["a"].budget == TENTH
        assert "epsilon 0.1 of 0.7 left" in repr(ana)
        ledger.change_limit("d", "ana", None)
        assert ana.budget == ana.spent == unacorda.PureDP("0.6")
        assert "epsilon 0.6 used up" in repr(ana)
        assert session.budget == unacorda.PureDP(1)


def test_a_closed_session_of_an_analyst_says_so(tmp_path: Path) -> None:
    with opened(ledger=f"sqlite:///{tmp_path}/budget.db", dataset="d") as session:
        ana = session.for_analyst("ana", TENTH)
    with pytest.raises(InvalidParameter, match="closed"):
        ask(ana)


def test_many_threads_of_many_analysts_never_overspend() -> None:
    with opened() as session:
        analysts = [session.for_analyst(f"a{n}", unacorda.PureDP("0.3")) for n in range(5)]
        answered: list[int] = []

        def work(number: int) -> None:
            for _ in range(4):
                try:
                    ask(analysts[number])
                except BudgetExceeded:
                    continue
                answered.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answered) == 10
        assert max(answered.count(number) for number in range(5)) <= 3
        assert session.remaining == unacorda.PureDP(0)


def test_parts_of_an_analyst_are_debited_to_her() -> None:
    with opened() as session:
        ana = session.for_analyst("ana", unacorda.PureDP("0.2"))
        parts = ana.split("part", keys=["a", "b"], budget=unacorda.PureDP(1))
        ask(parts["a"])
        ask(parts["b"])  # nobody is in both
        assert ana.spent == session.spent == TENTH
        with pytest.raises(BudgetExceeded, match="ana"):
            ask(parts["a"], unacorda.PureDP("0.2"))


def test_it_ends_with_its_session() -> None:
    session = opened()
    ana = session.for_analyst("ana", TENTH)
    ana.close()
    ask(session)  # goes on
    bob = session.for_analyst("bob", TENTH)
    session.close()
    with pytest.raises(InvalidParameter, match="closed"):
        ask(bob)


def test_bad_limits_are_refused() -> None:
    with opened() as session:
        with pytest.raises(InvalidParameter, match="'ana', who has none yet"):
            session.for_analyst("ana")
        with pytest.raises(WrongUnit):
            session.for_analyst("ana", unacorda.ZCDP(1))
        for limit in (0.5, "1", True):
            with pytest.raises(InvalidParameter, match="a guarantee such as"):
                session.for_analyst("ana", limit)  # type: ignore[arg-type]
            with pytest.raises(InvalidParameter, match="a guarantee such as"):
                session.split("part", keys=["a"], budget=limit)  # type: ignore[arg-type]
        for name in ("", "a\x00b", 3):
            with pytest.raises(InvalidParameter, match="name"):
                session.for_analyst(name, TENTH)  # type: ignore[arg-type]
        ana = session.for_analyst("ana", TENTH)
        with pytest.raises(InvalidParameter, match="no part and no analyst's"):
            ana.for_analyst("bob", TENTH)
        part = session.split("part", keys=["a"], budget=TENTH)["a"]
        with pytest.raises(InvalidParameter, match="no part and no analyst's"):
            part.for_analyst("bob", TENTH)
        assert session.spent == unacorda.PureDP(0)


def test_nothing_of_an_analyst_s_question_reaches_another(
    recwarn: pytest.WarningsRecorder,
) -> None:
    with opened() as session:
        ana = session.for_analyst("ana", unacorda.PureDP("0.2"))
        bob = session.for_analyst("bob", unacorda.PureDP("0.2"))

        def asked(of: unacorda.Session, where: str) -> Query:
            return of.table("t").where(where).agg(secret_alias=unacorda.count())

        before = str(bob.explain(asked(bob, "id <> 2"), budget=TENTH, detail=True))
        ana.evaluate(asked(ana, "id > 0"), budget=TENTH)
        ana.evaluate(asked(ana, "id > 0 AND id <> 3"), budget=TENTH)
        assert str(bob.explain(asked(bob, "id <> 2"), budget=TENTH, detail=True)) == before
        asked_alike = bob.table("t").where("id > 0 AND id <> 2").agg(n=unacorda.count())
        assert "secret_alias" not in str(bob.explain(asked_alike, budget=TENTH, detail=True))
        bob.evaluate(asked_alike, budget=TENTH)
    assert [str(warning.message) for warning in recwarn] == []
