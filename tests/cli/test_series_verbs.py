"""`unacorda series`: opened once, answered step by step, shown of the ledger alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.support.cases import in_subtests

SELECT = "SELECT COUNT(*) AS n, COUNT(DISTINCT patient) AS people FROM visits"
ASKED = (
    *("--by", "seen_on", "--start", "2025-01-01", "--steps", "5"),
    *("--max-steps", "2", "--wanted", "totals,steps"),
)
PAID = ("--rho", "0.5")


@pytest.fixture
def visits(tmp_path: Path) -> str:
    """Six patients, each with a row on each of four days."""
    lines = ["patient,seen_on,cost"]
    lines += [f"{who},2025-01-0{day},{day}" for who in range(6) for day in (1, 2, 3, 4)]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def book(ledger: str, *more: str) -> tuple[str, ...]:
    return ("--ledger", ledger, "--dataset", "v", *more)


def opens(
    run: Run, visits: str, ledger: str, *more: str, select: str = SELECT
) -> tuple[int, str, str]:
    account = book(ledger, "--budget", "rho=1")
    ran = run(
        *("series", "open", visits, "--unit", "patient", *ASKED, "--name", "daily", *PAID),
        *(*account, *more, select),
    )
    return ran.code, ran.out, ran.err


def test_a_price_that_a_new_account_does_not_have_opens_none(
    run: Run, visits: str, tmp_path: Path
) -> None:
    account = book(f"sqlite:///{tmp_path / 'new.db'}", "--budget", "rho=0.25")
    asked = ("--unit", "patient", *ASKED, "--name", "daily", *PAID)
    ran = run("series", "open", visits, *asked, *account, SELECT)
    assert (ran.code, ran.out) == (3, "")
    assert not (tmp_path / "new.db").exists()


def test_a_series_is_opened_answered_and_shown(
    run: Run, visits: str, ledger: str, tmp_path: Path
) -> None:
    code, out, err = opens(run, visits, ledger)
    assert code == 0, err
    assert "costs rho 0.5, once" in out
    assert "Series 'daily' is open. Account 'v': rho 0.5 of 1 left." in out
    answer = ("series", "answer", visits, "--unit", "patient", "--name", "daily", *book(ledger))
    first = run(*answer, "--until", "2025-01-02", "--json")
    assert first.code == 0, first.err
    later = run(*answer, "--until", "2025-01-05", "--json")
    found, before = (json.loads(one.out)["answers"] for one in (later, first))
    assert [line["day"] for line in found] == [f"2025-01-0{day}" for day in range(1, 6)]
    assert found[:2] == before
    assert set(found[0]) == {
        "day",
        *("n_total", "n_total_se", "n_step", "n_step_se"),
        *("people_total", "people_total_se", "people_step", "people_step_se"),
    }
    picture = tmp_path / "answers.svg"
    shown = run("series", "show", "--name", "daily", *book(ledger), "--picture", str(picture))
    assert shown.code == 0, shown.err
    assert "2025-01-05" in shown.out
    assert "<svg" in picture.read_text()
    again = json.loads(run("series", "show", "--name", "daily", *book(ledger), "--json").out)
    assert again["answers"] == found
    entries = run("ledger", "show", "--ledger", ledger)
    assert "5 steps" in entries.out
    verified = run("ledger", "verify", "--ledger", ledger)
    assert "6 entries chain and add up" in verified.out


def test_the_share_of_rows_kept_is_shown(run: Run, visits: str, ledger: str) -> None:
    code, out, err = opens(run, visits, ledger, "--kept", "0.5")
    assert code == 0, err
    assert "by how much is estimated for 1/2 of the budget" in out
    answer = ("series", "answer", visits, "--unit", "patient", "--name", "daily", *book(ledger))
    ran = run(*answer, "--until", "2025-01-05")
    assert ran.code == 0, ran.err
    assert "rows kept by the bound: " in ran.out
    shown = json.loads(run("series", "show", "--name", "daily", *book(ledger), "--json").out)
    assert [line["day"] for line in shown["kept"]] == [f"2025-01-0{day}" for day in range(1, 6)]
    assert set(shown["kept"][0]) >= {"rows", "kept", "share", "lower", "upper"}


def test_a_bound_is_suggested_by_earlier_rows(run: Run, tmp_path: Path, ledger: str) -> None:
    path = tmp_path / "visits.csv"
    lines = [f"{who},2024-12-{day:02}" for who in range(300) for day in range(2, 32, 3)]
    path.write_text("\n".join(["patient,seen_on", *lines]) + "\n")
    asked = (
        *("series", "suggest", str(path), "--unit", "patient", "--by", "seen_on"),
        *("--start", "2025-01-01", "--steps", "30", "--before", "30"),
        *book(ledger, "--budget", "rho=20"),
    )
    select = "SELECT COUNT(*) AS n FROM visits"
    ran = run(*asked, "--rho", "10", select)
    assert ran.code == 0, ran.err
    assert "<- least" in ran.out
    assert "Open the series with --max-steps " in ran.out
    assert ", for rho 9. Spent: rho 1. Account 'v': rho 19 of 20 left." in ran.out
    found = json.loads(run(*asked, "--rho", "10", "--share", "0.5", "--json", select).out)
    assert found["max_steps"] >= 8
    assert found["expected"][0].keys() == {"bound", "noise", "dropped"}
    for more, said in (("--share=1", "share"), ("--before=0", "before"), ("--by=x", "by")):
        ran = run(*asked, more, "--rho", "1", select)
        assert ran.code == 2
        assert said in ran.err
    entries = run("ledger", "show", "--ledger", ledger)
    assert "rho 14 of 20 left" in entries.out


def test_what_it_will_do_is_free(run: Run, visits: str, ledger: str) -> None:
    code, out, err = opens(run, visits, ledger, "--explain")
    assert code == 0, err
    assert "n total: standard error" in out
    code, out, _ = opens(run, visits, ledger, "--explain", "--json")
    assert len(json.loads(out)["errors"]["n"]["total"]) == 5
    assert run("ledger", "verify", "--ledger", ledger).code != 0  # there is none yet


@in_subtests(
    ("more", "said"),
    [
        (("--wanted", "medians"), "totals, steps, window28"),
        (("--within", "1"), "within"),
        (("--start", "soon"), "a date"),
        (("--by", "day"), "day"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_spent(
    run: Run, visits: str, ledger: str, more: tuple[str, ...], said: str
) -> None:
    code, _, err = opens(run, visits, ledger, *more)
    assert code == 2
    assert said in err
    assert run("ledger", "verify", "--ledger", ledger).code != 0


def test_a_select_with_an_order_is_refused(run: Run, visits: str, ledger: str) -> None:
    code, _, err = opens(run, visits, ledger, select=f"{SELECT} ORDER BY n")
    assert code == 2
    assert "without HAVING, ORDER BY and LIMIT" in err


def test_a_series_that_is_not_there_is_named(run: Run, visits: str, ledger: str) -> None:
    opens(run, visits, ledger)
    ran = run("series", "show", "--name", "weekly", *book(ledger))
    assert ran.code == 2
    assert "a series of account 'v'" in ran.err
    ran = run("series", "answer", "--name", "daily", "--until", "2025-01-01", *book(ledger))
    assert ran.code == 2
