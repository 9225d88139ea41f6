"""`unacorda ledger show`: accounts and entries, and what was changed by hand."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.cli.conftest import Run


@pytest.fixture
def kept(run: Run, visits: str, ledger: str) -> str:
    """A ledger with two accounts, one of them with two entries."""
    for dataset in ("visits-2024", "visits-2025"):
        asked = (
            "query", visits, "--unit", "person", "--max-rows", "2", "--rho", "0.1",
            "--ledger", ledger, "--dataset", dataset, "--budget", "rho=0.5,delta=1e-8",
            "--analyst", "Ada\x1b[31m", "SELECT COUNT(*) AS n FROM visits",
        )  # fmt: skip
        assert run(*asked).code == 0
    return ledger


@pytest.mark.long
def test_shows_every_account(run: Run, kept: str) -> None:
    ran = run("ledger", "show", "--ledger", kept)
    assert ran.code == 0
    assert ran.out.count("budget:   rho 0.4 of 0.5, delta 1e-08 of 1e-08 left") == 2
    assert "a person by 'person'" in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.long
def test_json_holds_the_chain(run: Run, kept: str) -> None:
    ran = run("ledger", "show", "--ledger", kept, "--dataset", "visits-2025", "--verify", "--json")
    ((account),) = json.loads(ran.out)["accounts"]
    assert account["verified"] == 2
    assert account["spent"] == "ZCDP(rho=0.1)"
    reserved, committed = account["entries"]
    assert (reserved["state"], committed["state"]) == ("reserved", "committed")
    assert reserved["answered"]
    assert committed["previous"] == reserved["digest"]


@pytest.mark.long
def test_verify_finds_a_change(run: Run, kept: str) -> None:
    assert run("ledger", "show", "--ledger", kept, "--verify").code == 0
    with sqlite3.connect(kept.removeprefix("sqlite:///")) as connection:
        connection.execute("DROP TRIGGER unacorda_entries_no_update")
        connection.execute("UPDATE unacorda_entries SET analyst = 'Eve' WHERE sequence = 1")
    connection.close()
    ran = run("ledger", "show", "--ledger", kept, "--verify")
    assert ran.code == 5
    assert "was changed" in ran.err


@pytest.mark.long
def test_an_entry_without_an_answer_is_told_apart(run: Run, kept: str) -> None:
    with sqlite3.connect(kept.removeprefix("sqlite:///")) as connection:
        connection.execute("DROP TRIGGER unacorda_entries_no_delete")
        connection.execute("DELETE FROM unacorda_entries WHERE state = 'committed'")
    connection.close()
    ran = run("ledger", "show", "--ledger", kept, "--dataset", "visits-2024", "--json")
    (account,) = json.loads(ran.out)["accounts"]
    assert [entry["answered"] for entry in account["entries"]] == [False]
    assert account["spent"] == "ZCDP(rho=0.1)"


@pytest.mark.long
def test_looking_makes_no_ledger(run: Run, ledger: str) -> None:
    assert run("ledger", "show", "--ledger", ledger).code == 2
    assert not Path(ledger.removeprefix("sqlite:///")).exists()


@pytest.mark.long
def test_unknown_accounts_and_files_that_are_no_ledger(run: Run, kept: str, tmp_path: Path) -> None:
    ran = run("ledger", "show", "--ledger", kept, "--dataset", "nix")
    assert ran.code == 5
    assert "no account named 'nix'" in ran.err
    (tmp_path / "text.db").write_text("this is no database, however long it may be" * 50)
    assert run("ledger", "show", "--ledger", f"sqlite:///{tmp_path / 'text.db'}").code == 2


@pytest.mark.long
def test_each_question_is_shown_with_its_limits(run: Run, visits: str, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "v", "--budget", "epsilon=3")
    look = run("describe", visits, "--unit", "person", "--epsilon", "1", *book)
    assert look.code == 0, look.err
    count = "SELECT COUNT(*) AS n FROM visits"
    for limits in (("--max-rows", "50"), ("--max-groups", "1", "--max-rows-per-group", "2")):
        asked = run("query", visits, "--unit", "person", *limits, "--epsilon", "0.5", *book, count)
        assert asked.code == 0, asked.err
    ran = run("ledger", "show", "--ledger", ledger, "--verify")
    assert ran.code == 0, ran.err
    assert "budget:   epsilon 1 of 3 left" in ran.out
    assert "max_rows 50" in ran.out
    assert "max_groups 1, max_rows_per_group 2" in ran.out
    (shown,) = json.loads(run("ledger", "show", "--ledger", ledger, "--json").out)["accounts"]
    assert shown["terms"] == {"unit": "person", "id": ["person"], "neighbors": "AddRemove"}
    asked_last = [entry for entry in shown["entries"] if entry["state"] == "reserved"][-1]
    assert asked_last["limits"] == {"max_groups": 1, "max_rows_per_group": 2}
