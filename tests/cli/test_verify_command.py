"""`unacorda verify`: the table, codes, ledgers, and files that are no release."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

SQL = "SELECT county AS home, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY county"
KEYS = ("--keys", "county=A,B,\x1b[31m")
ASKED = ("--unit", "person", "--max-rows", "2", "--rho", "0.1", "--bounds", "age=0:120", *KEYS)


@pytest.fixture
def answer(run: Run, visits: str, ledger: str, tmp_path: Path) -> Path:
    """A release in a file, its charge in a ledger."""
    path = tmp_path / "answer.json"
    book = ("--ledger", ledger, "--dataset", "v", "--budget", "rho=0.5,delta=1e-8")
    ran = run("query", visits, *ASKED, *book, "--output", str(path), SQL)
    assert ran.code == 0, ran.err
    return path


def test_a_release_holds_and_its_entry_is_found(run: Run, answer: Path, ledger: str) -> None:
    ran = run("verify", str(answer), "--ledger", ledger)
    assert ran.code == 0
    lines = ran.out.splitlines()
    outcomes = [line.split()[:2] for line in lines[1 : lines.index("")]]
    checks = ["software", "question", "digest", "event", "charge"]
    assert outcomes == [[check, "ok"] for check in [*checks, "entry", "chain"]]
    assert "entry 1 of account 'v'" in ran.out
    assert "Nothing differs.\nNo file can show\n  that the engine ran" in ran.out
    assert ran.err == ""
    assert run("verify", str(answer)).code == 0
    assert run("verify", str(answer), "--ledger", ledger, "--dataset", "v").code == 0


@pytest.mark.long
def test_json_is_the_report(run: Run, answer: Path, ledger: str) -> None:
    found = json.loads(run("verify", str(answer), "--ledger", ledger, "--json").out)
    assert found["holds"] is True
    assert {check["outcome"] for check in found["checks"]} == {"ok"}
    assert len(found["not_shown"]) == 4


def test_the_printed_json_is_a_release_too(run: Run, visits: str, tmp_path: Path) -> None:
    ran = run("query", visits, *ASKED, "--json", SQL)
    (tmp_path / "printed").write_text(ran.out)
    assert run("verify", str(tmp_path / "printed")).code == 0


@pytest.mark.long
def test_a_change_ends_with_code_1(run: Run, answer: Path, ledger: str) -> None:
    stated = json.loads(answer.read_text())
    stated["query"]["aggregates"]["m"]["weight"] = "9"
    answer.write_text(json.dumps(stated))
    ran = run("verify", str(answer), "--ledger", ledger, "--json")
    assert ran.code == 1
    found = json.loads(ran.out)
    assert found["holds"] is False
    differs = [check["check"] for check in found["checks"] if check["outcome"] == "differs"]
    assert differs == ["digest", "event"]
    assert "It is not what it says." in run("verify", str(answer)).out


@pytest.mark.long
def test_what_a_file_says_steers_no_terminal(run: Run, answer: Path) -> None:
    stated = json.loads(answer.read_text())
    stated["query"]["steps"] = [{"where": "\x1b[31m nothing"}]
    answer.write_text(json.dumps(stated))
    ran = run("verify", str(answer))
    assert ran.code == 1
    assert "\x1b" not in ran.out


@pytest.mark.long
def test_another_ledger_does_not_have_it(
    run: Run, visits: str, answer: Path, tmp_path: Path
) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    book = ("--ledger", other, "--dataset", "w", "--budget", "rho=0.5")
    assert run("query", visits, *ASKED, *book, SQL).code == 0
    ran = run("verify", str(answer), "--ledger", other)
    assert ran.code == 1
    assert "there is none with this salt" in ran.out
    ran = run("verify", str(answer), "--ledger", other, "--dataset", "v")
    assert ran.code == 1
    assert "no account named 'v'" in ran.out


@pytest.mark.long
def test_wrong_usage(run: Run, answer: Path, tmp_path: Path) -> None:
    assert run("verify", str(answer), "--dataset", "v").code == 2
    assert run("verify", str(tmp_path / "missing.json")).code == 2
    assert run("verify", str(tmp_path)).code == 2
    assert run("verify", str(answer), "--ledger", f"sqlite:///{tmp_path / 'no.db'}").code == 2
    for text in ("", "[]", '{"rows": []}', "\x00"):
        answer.write_text(text)
        ran = run("verify", str(answer))
        assert ran.code == 2
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1
