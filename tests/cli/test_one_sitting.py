"""A look, a question and Python on one account, one after the other."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

import pytest
from tests.cli.conftest import Run

import unacorda

COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.mark.long
def test_a_look_a_question_and_python_share_one_account(run: Run, visits: str, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "v")
    look = run(
        "describe", visits, "--unit", "person", "--epsilon", "1", *book, "--budget=epsilon=3"
    )
    assert look.code == 0, look.err
    assert "; epsilon 2 of 3 left" in look.out
    asked = run("query", visits, "--unit=person", "--max-rows=2", "--epsilon=1", *book, COUNT)
    assert asked.code == 0, asked.err
    assert asked.out.endswith("Spent epsilon 1. Account 'v': epsilon 1 of 3 left.\n")
    unit = unacorda.Person("person", max_rows=2)
    with unacorda.Session({"visits": visits}, unit=unit, dataset="v", ledger=ledger) as session:
        assert repr(session).endswith("; epsilon 1 of 3 left)")
        release = session.sql(COUNT, budget=unacorda.PureDP(1))
        assert str(release).endswith("\nspent epsilon 1; epsilon 3 used up")
        with pytest.raises(unacorda.errors.BudgetExceeded):
            session.sql(COUNT, budget=unacorda.PureDP(1))
    shown = run("ledger", "show", *book)
    assert "budget:   epsilon 3 used up\n" in shown.out
    numbers = re.findall(r"^(\d+)  ", shown.out, re.MULTILINE)
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    for purpose in ("rows of a person", *(f"describe visits: {x}" for x in ("types", "numbers"))):
        assert f"  {purpose}\n" in shown.out
    assert "PureDP" not in look.out + asked.out + shown.out


def test_a_purpose_follows_that_of_the_session(visits: str) -> None:
    ledger = unacorda.ledger.open_ledger(None)
    with unacorda.Session(
        {"visits": visits},
        unit=unacorda.Person("person", max_rows=2),
        budget=unacorda.PureDP(3),
        dataset="v",
        ledger=ledger,
        purpose="thesis",
    ) as session:
        session.for_purpose("first count").sql(COUNT, budget=unacorda.PureDP(1))
        session.sql(COUNT, budget=unacorda.PureDP(1))
        with pytest.raises(unacorda.errors.InvalidParameter, match="purpose"):
            session.for_purpose("\ud800")
        purposes = [entry.purpose for entry in ledger.entries("v") if entry.state == "reserved"]
    assert purposes == ["thesis (first count)", "thesis"]
