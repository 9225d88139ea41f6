"""`unacorda ledger init`, `verify`, `export` and what `show` says of sub-accounts and prices."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.ledger.ledgers import DURABLE, EVENT
from tests.postgres_server import empty_schema
from tests.support.cases import in_subtests
from tests.support.seams import Charge, SplitPart, open_ledger
from tests.tiers import mostly_slow

from unacorda.privacy.guarantees import ZCDP

CHARGE = Charge(cost=ZCDP("0.05"), event=EVENT, request=ZCDP("0.05"), reproducible=False)

UNIT = ("--unit", "person")
LIMITED = (*UNIT, "--max-rows", "2")
BUDGET = ("--budget", "rho=0.5,delta=1e-8")


def opened(run: Run, ledger: str, *more: str) -> None:
    ran = run("ledger", "init", "--ledger", ledger, "--dataset", "v", *BUDGET, *UNIT, *more)
    assert ran.code == 0, ran.err


def asked(run: Run, visits: str, ledger: str) -> None:
    ran = run(
        "query", visits, *LIMITED, "--rho", "0.1", "--ledger", ledger, "--dataset", "v",
        "SELECT COUNT(*) AS n FROM visits",
    )  # fmt: skip
    assert ran.code == 0, ran.err


@pytest.mark.long
@pytest.mark.parametrize("place", DURABLE)
def test_an_account_that_was_opened_needs_no_budget_to_ask(
    run: Run, visits: str, ledger: str, place: str
) -> None:
    url = ledger if place == "sqlite" else empty_schema()
    opened(run, url)
    asked(run, visits, url)
    ran = run("ledger", "show", "--ledger", url)
    assert "budget:   rho 0.4 of 0.5, delta 1e-08 of 1e-08 left" in ran.out


@pytest.mark.long
def test_sub_accounts_are_opened_and_shown(run: Run, ledger: str) -> None:
    opened(run, ledger, "--sub-account", "Ada\x1b[31m=rho=0.2")
    opened(run, ledger, "--sub-account", "bo=rho=0.3,delta=1e-9")  # added
    open_ledger(ledger).reserve("v", CHARGE, sub_account="bo")
    ran = run("ledger", "show", "--ledger", ledger)
    assert "sub-account bo: rho 0.25 of 0.3, delta 1e-09 of 1e-09 left" in ran.out
    assert "sub-account Ada" in ran.out
    assert "\x1b" not in ran.out
    (account,) = json.loads(run("ledger", "show", "--ledger", ledger, "--json").out)["accounts"]
    assert account["sub_accounts"]["bo"]["spent"] == "ZCDP(rho=0.05)"


@pytest.mark.long
def test_a_limit_is_changed_and_a_sub_account_closed(run: Run, ledger: str) -> None:
    opened(run, ledger, "--sub-account", "bo=rho=0.3,delta=1e-9")
    book = open_ledger(ledger)
    book.reserve("v", CHARGE, sub_account="bo")
    of_bo = ("ledger", "limit", "--ledger", ledger, "--dataset", "v", "--sub-account", "bo")
    assert run(*of_bo, "--limit", "rho=0.4,delta=1e-9", "--by", "office").code == 0
    assert book.entries("v")[-1].analyst == "office"
    assert run(*of_bo, "--close").code == 0
    assert not any(book.remaining("v", "bo").additive)
    for wrong in ([], ["--close", "--limit", "rho=0.4"], ["--limit", "rho=1e-9"]):
        assert run(*of_bo, *wrong).code == 2
    assert run(*of_bo[:-1], "eve", "--close").code == 5


def test_a_question_spends_from_a_sub_account(run: Run, visits: str, ledger: str) -> None:
    ask = (
        "query", visits, "--unit", "person", "--max-rows", "2", "--epsilon", "0.2",
        "--ledger", ledger, "--dataset", "v", "--budget", "epsilon=3",
    )  # fmt: skip
    sql = "SELECT COUNT(*) AS n FROM visits"
    for wrong in (
        ("--sub-account", "ana"),  # nobody of that name yet
        ("--limit", "epsilon=1"),
        ("--sub-account", " ", "--limit", "epsilon=1"),
        ("--sub-account", "ana", "--limit", "rho=1"),
        ("--sub-account", "ana", "--limit", "epsilon=1", "--analyst", "bo"),
    ):
        ran = run(*ask, *wrong, sql)
        assert (ran.code, ran.out) == (2, ""), wrong
        assert ran.err
    assert not Path(ledger.removeprefix("sqlite:///")).exists()
    limited = ("--sub-account", "ana", "--limit", "epsilon=0.3")
    told = run(*ask, *limited, "--explain", sql)
    assert told.code == 0
    assert not Path(ledger.removeprefix("sqlite:///")).exists()
    first = run(*ask, *limited, sql)
    assert first.code == 0, first.err
    assert "Account 'v/ana': epsilon 0.1 of 0.3 left." in first.out
    second = run(*ask, "--sub-account", "ana", sql)
    assert (second.code, second.out) == (3, "")
    assert "v/ana" in second.err
    assert run(*ask, "--sub-account", "ana", "--limit", "epsilon=0.4", sql).code == 5
    assert "epsilon 0.1 of 0.3 left" in run("ledger", "show", "--ledger", ledger).out
    (account,) = json.loads(run("ledger", "show", "--ledger", ledger, "--json").out)["accounts"]
    assert account["sub_accounts"]["ana"]["spent"] == account["spent"] == "PureDP(epsilon=0.2)"
    assert [entry["analyst"] for entry in account["entries"] if entry["charge"]] == ["ana"]


def test_splits_are_shown(run: Run, ledger: str) -> None:
    opened(run, ledger)
    book = open_ledger(ledger)
    split = book.open_split("v", limit=ZCDP("0.3"), max_parts=1, digest="", salt=b"", name="county")
    for key in ("a\x1b[31m", "b"):
        book.reserve("v", CHARGE, part=SplitPart(split=split.sequence, key=key))
    ran = run("ledger", "show", "--ledger", ledger, "--verify")
    assert "split county: the 1 largest parts are owed" in ran.out
    assert "part b: spent rho 0.05 of rho 0.3" in ran.out
    assert "\x1b" not in ran.out
    (account,) = json.loads(run("ledger", "show", "--ledger", ledger, "--json").out)["accounts"]
    assert account["splits"][0]["spent"]["b"] == account["spent"] == "ZCDP(rho=0.05)"


@pytest.mark.parametrize(
    ("change", "code"),
    mostly_slow(
        [
            (("--budget", "rho=0.6,delta=1e-8"), 5),
            (("--unit", "county"), 5),
            (("--sub-account", "ana=rho=0.4"), 5),
            (("--sub-account", "bo=epsilon=1"), 2),
            (("--sub-account", "bo"), 2),
            (("--sub-account", "=rho=1"), 2),
            (("--sub-account", "bo=rho=x"), 2),
            (("--row",), 2),
        ],
        quick=7,
    ),
)
def test_other_terms_and_units_end_with_a_named_error(
    run: Run, ledger: str, change: tuple[str, ...], code: int
) -> None:
    opened(run, ledger, "--sub-account", "ana=rho=0.2")
    ran = run("ledger", "init", "--ledger", ledger, "--dataset", "v", *BUDGET, *UNIT, *change)
    assert ran.code == code
    assert ran.err.count("\n") <= 3


def test_the_first_opening_needs_a_budget(run: Run, ledger: str) -> None:
    ran = run("ledger", "init", "--ledger", ledger, "--dataset", "v", *UNIT)
    assert ran.code == 2
    assert "--budget" in ran.err
    assert not Path(ledger.removeprefix("sqlite:///")).exists()


@pytest.mark.long
def test_what_is_exported_is_verified_like_the_ledger(
    run: Run, visits: str, ledger: str, tmp_path: Path
) -> None:
    opened(run, ledger)
    asked(run, visits, ledger)
    ran = run("ledger", "export", "--ledger", ledger, "--dataset", "v")
    assert ran.code == 0
    assert len([json.loads(line) for line in ran.out.splitlines()]) == 3
    file = tmp_path / "v.jsonl"
    file.write_text(ran.out)
    digest = json.loads(ran.out.splitlines()[-1])["digest"]
    for source in (("--ledger", ledger, "--dataset", "v"), (str(file),)):
        ran = run("ledger", "verify", *source, "--digest", digest)
        assert ran.code == 0
        assert "v: 2 entries chain and add up" in ran.out
        assert digest in ran.out
        ran = run("ledger", "verify", *source, "--json")
        assert json.loads(ran.out)["accounts"] == [{"dataset": "v", "entries": 2, "digest": digest}]
        ran = run("ledger", "verify", *source, "--digest", "0" * 64)
        assert ran.code == 5
        assert "dropped" in ran.err
    file.write_text(file.read_text().replace("0.1", "0.01").replace("1/10", "1/100"))
    ran = run("ledger", "verify", str(file))
    assert ran.code == 5
    assert "was changed" in ran.err


@in_subtests(
    "arguments",
    [
        (),
        ("nowhere.jsonl",),
        ("nowhere.jsonl", "--ledger", "sqlite:///x.db"),
        ("nowhere.jsonl", "--dataset", "v"),
        ("--ledger", "sqlite:///x.db"),
        ("--ledger", "sqlite:///x.db", "--digest", "00"),
    ],
)
def test_verify_wants_one_place_that_is_there(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("ledger", "verify", *arguments).code == 2


def test_unknown_accounts_end_with_5(run: Run, ledger: str) -> None:
    opened(run, ledger)
    for verb in ("verify", "export", "show"):
        ran = run("ledger", verb, "--ledger", ledger, "--dataset", "nix")
        assert ran.code == 5
        assert "no account named 'nix'" in ran.err


@pytest.mark.long
def test_a_history_is_priced_again(run: Run, visits: str, ledger: str) -> None:
    opened(run, ledger)
    for _ in range(2):
        asked(run, visits, ledger)
    ran = run("ledger", "show", "--ledger", ledger, "--reprice", "1e-6")
    assert "with noise settled before the first answer" in ran.out
    (account,) = json.loads(
        run("ledger", "show", "--ledger", ledger, "--reprice", "1e-6", "--json").out
    )["accounts"]
    found = account["repriced"]
    assert 0 < found["fixed_epsilon"] < found["odometer_epsilon"]
    assert run("ledger", "show", "--ledger", ledger, "--reprice", "2").code == 2
    small = run("ledger", "show", "--ledger", ledger, "--reprice", "1e-9", "--json").out
    assert json.loads(small)["accounts"][0]["repriced"]["odometer_epsilon"] is None
