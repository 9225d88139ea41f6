"""What a message tells to do instead is written for a shell, and is what works."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.support.cases import in_subtests
from tests.support.cli_seams import bounds_hint, keys_hint, unit_hint

from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP

COUNT = "SELECT COUNT(*) AS n FROM visits"
PERSON = ("--unit", "person", "--max-rows", "2")
CHEAP = ("--epsilon", "300")


@pytest.fixture
def book(run: Run, visits: str, ledger: str) -> tuple[str, ...]:
    """The options of an account with epsilon = 1.5, of which 1 is spent."""
    kept = ("--ledger", ledger, "--dataset", "v")
    first = ("query", visits, *PERSON, "--epsilon", "1", *kept, "--budget", "epsilon=1.5", COUNT)
    assert run(*first).code == 0
    return kept


@pytest.mark.long
@pytest.mark.parametrize(
    "price", [("--rho", "0.01"), ("--epsilon", "0.1", "--delta", "1e-6"), ("--mu", "0.1")]
)
def test_the_options_named_for_an_account_are_taken(
    run: Run, visits: str, book: tuple[str, ...], price: tuple[str, ...]
) -> None:
    ran = run("query", visits, *PERSON, *price, *book, COUNT)
    assert ran.code == 2
    assert "within(" not in ran.err
    (written,) = re.findall(r"such as (.+?): ", ran.err)
    assert run("query", visits, *PERSON, *written.split(), *book, COUNT).code == 0


@pytest.mark.parametrize(
    ("request_", "budget", "named"),
    [
        (ZCDP("0.1"), ApproxDP(1, "1e-6"), "--epsilon"),
        (ZCDP("0.1"), GDP(1), "--mu 0.4472"),
        (ApproxDP("0.5", "1e-6"), GDP(1), "--mu 0.1241"),
        (ApproxDP("0.5", "1e-6"), RenyiDP(2, 1), "--epsilon 0.5"),
        (ZCDP(0), PureDP(1), "Ask with --epsilon."),
    ],
)
def test_every_kind_of_account_has_its_options(
    request_: Guarantee, budget: Guarantee, named: str
) -> None:
    assert named in unit_hint(request_, budget)


@pytest.mark.long
def test_missing_bounds_and_keys_name_their_column(run: Run, visits: str) -> None:
    asked = ("query", visits, *PERSON, *CHEAP)
    assert "--bounds age=LOWER:UPPER" in run(*asked, "SELECT AVG(age) AS a FROM visits").err
    product = run(*asked, "SELECT AVG(age * 2) AS a FROM visits").err
    assert "--bounds COLUMN=LOWER:UPPER for every column" in product
    grouped = "SELECT county, zip, COUNT(*) AS n FROM visits GROUP BY county, zip"
    assert "--keys county=A,B" in run(*asked, grouped).err
    assert "--keys zip=A,B" in run(*asked, "--keys", "county=A", grouped).err


@pytest.mark.parametrize("column", ["home county", "it's", "a$b", "é", "plain"])
def test_columns_are_quoted_for_the_shell(column: str) -> None:
    said = bounds_hint(column)
    assert shlex.split(said.removesuffix("."))[-1] == f"{column}=LOWER:UPPER"
    said = keys_hint(column).partition(", or")[0]
    assert shlex.split(said)[-1] == f"{column}=A,B"


def test_a_missing_file_is_said_before_a_wrong_table(run: Run, visits: str) -> None:
    asked = (*PERSON, *CHEAP, "SELECT COUNT(*) AS n FROM wrong")
    ran = run("query", f"{visits}.csv", *asked)
    assert ran.code == 4
    assert "No such file" in ran.err
    ran = run("query", visits, *asked)
    assert ran.code == 2
    assert "visits or data" in ran.err
    assert "called by the file's name" in ran.err


@pytest.mark.parametrize("address", ["budget.db", "/tmp/budget.db", "sqlite://budget.db"])
def test_a_path_is_told_its_address(run: Run, visits: str, address: str) -> None:
    path = address.removeprefix("sqlite://")
    for verb in (
        ("ledger", "show", "--ledger", address),
        ("query", visits, *PERSON, *CHEAP, "--ledger", address, "--dataset", "v", COUNT),
    ):
        ran = run(*verb)
        assert ran.code == 2
        assert f"--ledger sqlite:///{path}." in ran.err


@pytest.mark.long
def test_an_unknown_account_lists_those_there_are(
    run: Run, visits: str, ledger: str, book: tuple[str, ...]
) -> None:
    typo = (*book[:3], "vists")
    listed = "no account named 'vists' in this ledger, which has 'v'"
    ran = run("ledger", "show", *typo)
    assert (ran.code, listed in ran.err) == (5, True)
    asked = ("query", visits, *PERSON, "--epsilon", "0.1", *typo)
    ran = run(*asked, COUNT)
    assert (ran.code, listed in ran.err) == (2, True)
    assert "--budget" in ran.err
    ran = run(*asked, "--explain", COUNT)
    assert (ran.code, listed in ran.err) == (0, True)
    assert "What is left" not in ran.out
    found = json.loads(run("ledger", "show", "--ledger", ledger, "--json").out)["accounts"]
    assert [account["dataset"] for account in found] == ["v"], "looking has opened an account"


@pytest.mark.long
def test_other_terms_are_told_to_ask_with_the_old_ones(
    run: Run, visits: str, book: tuple[str, ...]
) -> None:
    ran = run("query", visits, *PERSON, "--unit", "county", "--epsilon", "0.1", *book, COUNT)
    assert ran.code == 5
    assert "id: ('person',), now ('person', 'county')" in ran.err
    assert "terms it was opened with" in ran.err


@pytest.mark.long
def test_an_explanation_says_when_too_little_is_left(
    run: Run, visits: str, book: tuple[str, ...]
) -> None:
    asked = ("query", visits, *PERSON, "--explain")
    words = " ".join(run(*asked, "--epsilon", "1", *book, COUNT).out.split())
    assert "What is left: epsilon 0.5" in words
    assert "would be refused" in words
    less = run(*asked, "--epsilon", "0.25", *book, COUNT)
    assert "would be refused" not in " ".join(less.out.split())
    found = json.loads(run(*asked, "--epsilon", "1", *book, "--json", COUNT).out)
    assert (found["left"], found["affordable"]) == ("PureDP(epsilon=0.5)", False)
    assert len(found["steps"]) == 2
    assert "rows" not in found


def test_without_an_account_nothing_is_said_to_be_left(run: Run, visits: str) -> None:
    asked = ("query", visits, *PERSON, "--explain", "--epsilon", "1")
    assert "What is left" not in run(*asked, COUNT).out
    assert json.loads(run(*asked, "--json", COUNT).out)["left"] is None


@pytest.mark.parametrize(
    ("sign", "said", "hinted"), [(";", ";", "';'"), ("\t", "tab", "tab"), ("|", "|", "'|'")]
)
def test_other_delimiters_are_read_and_hinted_at(
    run: Run, visits: str, sign: str, said: str, hinted: str
) -> None:
    path = Path(visits)
    path.write_text(path.read_text().replace(",", sign))
    ran = run("query", visits, *PERSON, *CHEAP, COUNT)
    assert ran.code == 2
    assert f"--delimiter {hinted}." in ran.err
    ran = run("query", visits, *PERSON, *CHEAP, "--delimiter", said, COUNT)
    assert ran.code == 0
    assert "400 ± 0" in ran.out
    assert "--delimiter" not in ran.err


@pytest.mark.parametrize("file", ["x.parquet", "x.duckdb::t"])
def test_a_delimiter_is_for_csv(run: Run, file: str) -> None:
    ran = run("query", file, *PERSON, *CHEAP, "--delimiter", ";", COUNT)
    assert ran.code == 2
    assert "CSV" in ran.err


@pytest.mark.parametrize(
    ("arguments", "missing", "verb"),
    [
        (("verify",), "FILE", "unacorda verify"),
        (("ledger", "show"), "--ledger", "unacorda ledger show"),
    ],
)
def test_what_is_missing_is_one_line(
    run: Run, arguments: tuple[str, ...], missing: str, verb: str
) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: Missing: {missing}. See {verb} --help.\n"


@pytest.mark.parametrize("option", ["--dataset", "--analyst", "--purpose"])
def test_what_a_ledger_keeps_needs_a_ledger(run: Run, visits: str, option: str) -> None:
    ran = run("query", visits, *PERSON, *CHEAP, option, "v", COUNT)
    assert ran.code == 2
    assert option in ran.err
    assert "--ledger" in ran.err


@in_subtests(
    ("options", "said"),
    [
        (("--max-rows", "ten", "--epsilon", "1"), "--max-rows='ten' cannot be used: expected a wh"),
        (("--max-rows", "0", "--epsilon", "1"), "--max-rows='0' cannot be used: expected a whole"),
        (
            ("--max-rows", "2", "--epsilon", "x"),
            "--epsilon='x' cannot be used: expected a finite number.\n",
        ),
        (("--max-rows", "2", "--rho", "1", "--delta", "2"), "--delta='2' cannot be used"),
        (("--max-rows", "2", "--epsilon", "1", "--level-weights", "1,a"), "--level-weights="),
        (("--max-rows", "2", "--epsilon", "1", "--delimiter", ";;"), "--delimiter=';;'"),
        (
            ("--max-rows", "2", "--epsilon", "1", "--private-keys", "county"),
            "Missing: --delta, such as --delta 1e-6, which --private-keys spends.",
        ),
    ],
)
def test_what_is_wrong_is_named_as_the_option_that_says_it(
    run: Run, visits: str, options: tuple[str, ...], said: str
) -> None:
    asked = "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"
    ran = run("query", visits, "--unit", "person", *options, asked)
    assert ran.code == 2
    assert said in ran.err


def test_numbers_of_a_budget_are_named_within_it(run: Run, visits: str, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "v", "--budget", "epsilon=much")
    ran = run("query", visits, *PERSON, *CHEAP, *book, COUNT)
    assert "--budget, epsilon='much' cannot be used: expected a finite number." in ran.err


def test_limits_are_written_as_the_budget_of_the_account(run: Run, ledger: str) -> None:
    opening = ("ledger", "init", "--ledger", ledger, "--dataset", "v", "--budget", "rho=0.5")
    ran = run(*opening, "--row", "--sub-account", "ana=epsilon=0.1")
    assert ran.code == 2
    assert "limit of a sub-account is written as the account's budget, such as rho=0.1" in ran.err
    ran = run(*opening, "--row", "--sub-account", "ana=0.1")
    assert "--sub-account='ana=0.1' cannot be used: expected NAME=epsilon=3" in ran.err


def test_keys_under_a_header_are_not_taken_for_keys(run: Run, visits: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("County\nA\nB\n")
    asked = "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"
    ran = run("query", visits, *PERSON, *CHEAP, "--keys", f"county=@{keys}", asked)
    assert ran.code == 2
    assert "the first line is the column's name" in ran.err
    assert run("query", visits, *PERSON, *CHEAP, "--keys", f"@{keys}", asked).code == 0


def test_a_file_that_is_refused_is_named_and_not_shown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,illness\n7,Smith HIV+\n")
    for verb in (("verify",), ("audit",), ("plot", "errors", "--output", str(tmp_path / "a.svg"))):
        ran = run(*verb, str(path))
        assert ran.code == 2
        assert f"FILE={str(path)!r} cannot be used" in ran.err
        assert "Smith" not in ran.err


def test_why_a_file_cannot_be_read_is_said(run: Run, visits: str, tmp_path: Path) -> None:
    asked = ("query", visits, *PERSON, *CHEAP)
    ran = run(*asked, "--columns", str(tmp_path / "no.json"), COUNT)
    assert "can be read (No such file or directory)" in ran.err
    latin = tmp_path / "latin.json"
    latin.write_bytes("é".encode("latin-1"))
    assert "(it is not in UTF-8)" in run(*asked, "--columns", str(latin), COUNT).err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("qurey",), "Did you mean 'query'?"),
        (("plot", "release"), "There are tradeoff, profile, loss, amplification, budget, errors,"),
        (("ledger", "verify", "sqlite:///budget.db"), "FILE='sqlite:///budget.db' cannot be used"),
        (("ledger", "verify", "sqlite:///budget.db"), "a ledger is given as --ledger"),
    ],
)
def test_a_wrong_word_is_told_the_right_one(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert said in ran.err


def test_bounds_name_their_option_and_days_have_theirs(run: Run, visits: str) -> None:
    asked = ("query", visits, *PERSON, *CHEAP)
    unknown = run(*asked, "--bounds", "agee=0:9", COUNT).err
    assert unknown.startswith("error: --bounds or --columns names 'agee': write a column of the")
    dated = run(*asked, "--bounds", "age=2025-01-01:2025-12-31", COUNT).err
    assert "DATE_DIFF('day', DATE '2025-01-01', \"age\")" in dated
    spaced = run(*asked, 'SELECT COUNT(*) AS n FROM "my visits"').err
    assert "with _ for other signs than letters" in spaced


def test_a_fit_shows_the_epsilon_as_it_was_written(run: Run, visits: str) -> None:
    ran = run("fit", visits, *PERSON, "--epsilon", "1", "--bounds", "age=0:100", "age ~ age")
    assert "--epsilon='1' cannot be used: expected --delta with it" in ran.err
