"""Several tables, files of settings, and all that a command lacks in one message."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Run

COUNT = "SELECT COUNT(*) AS n FROM visits"
SETTINGS = """
[server]
ledger = "sqlite:///budget.db"
[datasets.clinic]
tables = { visits = "visits.csv", persons = "persons.csv" }
public = { zips = "zips.csv" }
unit = { person = "person", max_rows = 2 }
budget = { epsilon = 900 }
query_budget = { epsilon = 300 }
columns = { age = { bounds = [0, 120] } }
analysts = { ana = { epsilon = 400 } }
"""


@pytest.fixture
def clinic(visits: str, tmp_path: Path) -> Path:
    """A folder with visits, persons of whom half are men, and a public table of zip codes."""
    persons = ["person,sex", *(f"{person},{'fm'[person % 2]}" for person in range(200))]
    (tmp_path / "persons.csv").write_text("\n".join(persons) + "\n")
    (tmp_path / "zips.csv").write_text("zip,region\n00,north\n01,south\n02,north\n")
    (tmp_path / "unacorda.toml").write_text(SETTINGS)
    assert Path(visits).parent == tmp_path
    return tmp_path


@pytest.mark.parametrize(
    ("sql", "exact"),
    [
        ("SELECT COUNT(*) AS n FROM visits JOIN persons USING (person) WHERE sex = 'm'", 200),
        ("SELECT COUNT(*) AS n FROM visits JOIN zips USING (zip) WHERE region = 'south'", 134),
    ],
)
def test_joins_of_tables_run(run: Run, clinic: Path, sql: str, exact: int) -> None:
    tables = [f"--table={name}={clinic / name}.csv" for name in ("visits", "persons")]
    public = f"--public=zips={clinic / 'zips.csv'}"
    asked = ("--unit=person", "--max-rows=2", "--epsilon=300", sql)
    ran = run("query", *tables, public, *asked)
    assert ran.code == 0, ran.err
    assert f"{exact} ± 0" in ran.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--table=a=x.csv", "--table=A=y.csv"), "--table='A=y.csv' cannot be used: expected each"),
        (("--table=a=x.csv", "--public=A=y.csv"), "--public='A' cannot be used"),
        (("--table=x.csv",), "NAME=FILE, such as labs=labs.csv"),
        (("--table=a b=x.csv",), "a name of letters, digits and _"),
        (("--table=a=x.csv", "--settings=s.toml"), "--settings='s.toml' cannot be used"),
        (("--table=a=x.csv", "y.csv"), "DATA='y.csv' cannot be used"),
        (("--table=a=x.csv", "a"), "DATA='a' cannot be used: expected it left out"),
        (("x.csv", "y.csv"), "DATA=['x.csv', 'y.csv'] cannot be used"),
    ],
)
def test_tables_that_cannot_be_are_refused(run: Run, options: tuple[str, ...], said: str) -> None:
    ran = run("query", "--row", "--epsilon", "1", *options, COUNT)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.long
def test_settings_stand_in_for_options(
    run: Run, clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clinic)
    ran = run("query", "SELECT AVG(age) AS a FROM visits")
    assert ran.code == 0, ran.err
    assert "Account 'clinic': epsilon 600 of 900 left." in ran.out
    ran = run("query", "--epsilon=1", "--max-rows=1", "--sub-account=ana", COUNT)
    assert ran.code == 0, ran.err
    assert "Account 'clinic/ana': epsilon 399 of 400 left." in ran.out
    look = run("describe", "persons", "--epsilon", "100")
    assert look.code == 0, look.err
    assert look.out.startswith("persons: about 200")
    assert run("describe", "--epsilon", "1").err.startswith(
        "error: Missing: DATA, one of the tables visits, persons."
    )
    monkeypatch.chdir(clinic.parent)
    explained = run("query", "--settings", str(clinic / "unacorda.toml"), "--explain", COUNT)
    assert "What is left: epsilon 499" in explained.out
    # A file of its own has no settings.
    alone = run("query", str(clinic / "visits.csv"), COUNT)
    assert "--unit" in alone.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("columns", "colums"), "'columns'?"),
        (("unit", "units"), "'unit'?"),
        (("tables =", "tables"), "TOML"),
        (("persons =", "Visits ="), "differ by more than capitals"),
        (("[server]\nledger", "[server]\nledgr"), "'ledgr'"),
        (('[server]\nledger = "sqlite:///budget.db"', ""), "datasets.clinic.budget"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_spent(
    run: Run, clinic: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], said: str
) -> None:
    monkeypatch.chdir(clinic)
    Path("unacorda.toml").write_text(SETTINGS.replace(*change))
    ran = run("query", COUNT)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not Path("budget.db").exists()


MEANS = "SELECT county, AVG(age) AS mean_age FROM visits GROUP BY county"


def test_all_that_is_missing_is_one_message_with_the_command(run: Run, visits: str) -> None:
    ran = run("query", visits, MEANS)
    assert (ran.code, ran.out) == (2, "")
    said, write, *lines = ran.err.splitlines()
    assert said == (
        "error: Missing: --unit with --max-rows, or --row; --epsilon, --rho or --mu; "
        "--keys of county; --bounds of age."
    )
    assert write == "Write:"
    words = shlex.split(" ".join(line.removesuffix("\\") for line in lines))
    given = {"COLUMN": "person", "N": "2", "1": "300", "age=LOW:HIGH": "age=0:120"}
    program, *command = [given.get(word, word) for word in words]
    assert program == "unacorda"
    ran = run(*command)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("county")


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ((), "DATA; --unit with --max-rows, or --row; --epsilon, --rho or --mu; SELECT"),
        (("x.csv", "--row"), "--epsilon, --rho or --mu; SELECT"),
        ((COUNT, "--row"), "DATA; --epsilon, --rho or --mu"),
    ],
)
def test_what_a_query_lacks_is_listed_in_order(
    run: Run, arguments: tuple[str, ...], missing: str
) -> None:
    ran = run("query", *arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"error: Missing: {missing}.\nWrite:\n  unacorda query ")


@pytest.mark.parametrize(("verb", "text"), [("query", "SELECT 1 AS n FROM v"), ("fit", "a ~ b")])
def test_words_in_the_other_order_are_refused(run: Run, visits: str, verb: str, text: str) -> None:
    ran = run(verb, text, visits, "--row", "--epsilon", "1")
    assert ran.code == 2
    assert "the file first, and" in ran.err
