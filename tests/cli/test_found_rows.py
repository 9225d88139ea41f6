"""`--max-rows auto`: found for a tenth of the budget, once per account, by whichever verb."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from contextlib import closing

import pytest
from tests.cli.conftest import Run
from tests.support.seams import Entry, open_ledger

from unacorda.privacy.guarantees import ZCDP, PureDP

COUNT = "SELECT COUNT(*) AS n FROM visits"
AUTO = ("--unit", "person", "--max-rows", "auto", "--epsilon", "1")


def book(ledger: str, budget: str = "epsilon=3") -> tuple[str, ...]:
    return ("--ledger", ledger, "--dataset", "v", "--budget", budget)


def kept(ledger: str) -> tuple[PureDP | object, list[Entry]]:
    with closing(open_ledger(ledger)) as opened:
        entries = [entry for entry in opened.entries("v") if entry.state == "reserved"]
        assert opened.verify("v")
        return opened.spent("v"), entries


@pytest.mark.long
def test_a_query_after_a_look_reads_what_the_look_found(run: Run, visits: str, ledger: str) -> None:
    look = ("describe", visits, "--unit", "person", "--epsilon", "1", *book(ledger), "--json")
    assert run(*look).code == 0
    assert kept(ledger)[0] == PureDP(1)
    first = run("query", visits, *AUTO, *book(ledger), "--json", COUNT)
    assert first.code == 0, first.err
    assert "a number that was found privately" in first.err
    spent, entries = kept(ledger)
    assert spent == PureDP(2)  # the whole request for the answer: the search was paid before
    searches = [entry for entry in entries if entry.search is not None]
    assert len(searches) == 1
    found = json.loads(entries[-1].limits or "")["max_rows"]
    # The table's name in a SELECT is no other search, and neither is another budget.
    again = run("query", visits, *AUTO, *book(ledger), COUNT.replace("visits", "data"))
    assert again.code == 0, again.err
    spent, entries = kept(ledger)
    assert spent == PureDP(3)
    assert json.loads(entries[-1].limits or "") == {"max_rows": found}


@pytest.mark.long
def test_a_look_and_a_question_with_a_limit_share_one_account(
    run: Run, visits: str, ledger: str
) -> None:
    look = ("describe", visits, "--unit", "person", "--epsilon", "1", *book(ledger))
    assert run(*look).code == 0
    asked = ("query", visits, "--unit", "person", "--max-rows", "50", "--epsilon", "0.5")
    ran = run(*asked, *book(ledger), COUNT)
    assert ran.code == 0, ran.err
    assert kept(ledger)[0] == PureDP("1.5")


@pytest.mark.long
def test_a_look_after_a_query_reads_what_the_query_found(
    run: Run, visits: str, ledger: str
) -> None:
    first = run("query", visits, *AUTO, *book(ledger), COUNT)
    assert first.code == 0, first.err
    assert "epsilon 2 of 3 left" in first.out
    assert first.out.splitlines()[-1].startswith(
        "Spent epsilon 0.9 for the answer, and epsilon 0.1 to find how many rows of a person "
        "count. Account"
    )
    second = run("query", visits, *AUTO, *book(ledger), COUNT)
    assert second.out.splitlines()[-1].startswith("Spent epsilon 1. Account")
    look = run("describe", visits, "--unit", "person", "--epsilon", "1", *book(ledger), "--json")
    assert look.code == 0, look.err
    assert json.loads(look.out)["before"] is None
    assert len([entry for entry in kept(ledger)[1] if entry.search is not None]) == 1


def test_without_a_ledger_the_search_is_part_of_the_price(run: Run, visits: str) -> None:
    ran = run("query", visits, *AUTO, "--json", COUNT)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["spent"] == "PureDP(epsilon=0.9)"
    assert "a number that was found privately" in ran.err


@pytest.mark.long
def test_an_explanation_pays_for_no_search(run: Run, visits: str, ledger: str) -> None:
    free = run("query", visits, *AUTO, "--explain", COUNT)
    assert free.code == 0, free.err
    assert "finding how many rows of a person to keep comes first" in " ".join(free.err.split())
    assert "costs epsilon 0.1" in free.err
    assert "1,000" in free.err
    assert run("query", visits, *AUTO, *book(ledger), "--explain", COUNT).code == 0
    assert run("ledger", "init", *book(ledger), "--unit", "person").code == 0
    known = run("query", visits, *AUTO, *book(ledger), "--explain", COUNT)
    assert "comes first" in " ".join(known.err.split())
    with closing(open_ledger(ledger)) as opened:
        assert opened.entries("v") == ()
    assert run("query", visits, *AUTO, *book(ledger), COUNT).code == 0
    after = run("query", visits, *AUTO, *book(ledger), "--explain", COUNT)
    assert after.code == 0, after.err
    assert "the account knows that" in after.err
    assert kept(ledger)[0] == PureDP(1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--epsilon", "4", COUNT), 3),
        (("--bounds", "age=0:120", "SELECT AVG(nothing) AS n FROM visits"), 2),
        (("--sub-account", "ana", COUNT), 2),
    ],
    ids=["more than there is", "no such column", "no such analyst"],
)
def test_what_is_refused_pays_for_no_search(
    run: Run, visits: str, ledger: str, more: tuple[str, ...], code: int
) -> None:
    for _ in range(2):  # before there is an account, and with one
        ran = run("query", visits, *AUTO, *book(ledger), *more)
        assert ran.code == code, ran.err
        assert run("ledger", "init", *book(ledger), "--unit", "person").code == 0
        with closing(open_ledger(ledger)) as opened:
            assert opened.entries("v") == ()


@pytest.mark.long
def test_a_sub_account_that_cannot_pay_leaves_no_search_behind(
    run: Run, visits: str, ledger: str
) -> None:
    below = ("--sub-account", "ana", "--limit", "epsilon=0.5")
    for _ in range(2):  # a new one, and one that is there
        ran = run("query", visits, *AUTO, *book(ledger), *below, COUNT)
        assert ran.code == 3, ran.err
        assert "left in account 'v/ana'" in ran.err
        assert run("ledger", "init", *book(ledger), "--unit", "person").code == 0
        with closing(open_ledger(ledger)) as opened:
            assert opened.spent("v") == PureDP(0)
            opened.open_sub_account("v", "ana", PureDP("0.5"))


@pytest.mark.long
def test_a_new_account_and_a_sub_account_are_opened_by_one_question(
    run: Run, visits: str, ledger: str
) -> None:
    below = ("--sub-account", "ana", "--limit", "epsilon=2")
    ran = run("query", visits, *AUTO, *book(ledger), *below, COUNT)
    assert ran.code == 0, ran.err
    with closing(open_ledger(ledger)) as opened:
        assert opened.spent("v") == PureDP(1)
        assert opened.spent("v", "ana") == PureDP("0.9")


@pytest.mark.long
def test_other_kinds_of_budgets_and_limits_on_groups(run: Run, visits: str, ledger: str) -> None:
    asked = ("query", visits, "--unit", "person", "--max-rows", "auto", "--max-groups", "2")
    ran = run(*asked, "--rho", "0.1", *book(ledger, "rho=1"), COUNT)
    assert ran.code == 0, ran.err
    spent, entries = kept(ledger)
    assert isinstance(spent, ZCDP)
    assert spent.rho <= ZCDP("0.1").rho
    assert json.loads(entries[-1].limits or "")["max_groups"] == 2


def test_auto_is_refused_where_nothing_is_read(run: Run, visits: str, ledger: str) -> None:
    ran = run("query", visits, "--unit", "person", "--max-rows", "auto", "--error", "n=5", COUNT)
    assert ran.code == 2
    assert "--max-rows='auto' cannot be used: expected a number with --error" in ran.err
    for wrong in ("automatic", "AUTO"):
        ran = run("query", visits, *AUTO, "--max-rows", wrong, COUNT)
        assert ran.code == 2


def test_the_last_line_says_what_the_search_and_the_answer_spent(run: Run, visits: str) -> None:
    ran = run("query", visits, *AUTO, COUNT)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == (
        "Spent epsilon 0.9 for the answer, and epsilon 0.1 to find how many rows of a person count."
    )
