"""`unacorda query`: answers, options, files, budgets."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.cli.conftest import Run
from tests.support.cli_seams import output as storing
from tests.tiers import mostly_slow

COUNTS = "SELECT county, COUNT(*) AS n, AVG(age) AS mean_age FROM visits GROUP BY county"
PERSON = ("--unit", "person", "--max-rows", "2")
FACTS = ("--bounds", "age=0:120", "--keys", "county=A,B")
CHEAP = "300"  # an epsilon under which the noise is far below one row


def test_answers_with_a_table_and_says_that_nothing_remembers(run: Run, visits: str) -> None:
    ran = run("query", visits, *PERSON, *FACTS, "--epsilon", CHEAP, COUNTS)
    assert ran.code == 0
    heads, a, b, *_ = (line.split() for line in ran.out.splitlines())
    assert heads == ["county", "n", "mean_age"]
    assert a[:4] == ["A", "200", "±", "0"]
    assert b[:2] == ["B", "200"]
    assert "Spent epsilon 300." in ran.out
    assert "nothing remembers" in ran.err
    assert ran.err.count("\n") == 1


def test_json_is_the_release_and_stdout_holds_nothing_else(run: Run, visits: str) -> None:
    ran = run("query", visits, *PERSON, *FACTS, "--epsilon", CHEAP, "--json", COUNTS)
    found = json.loads(ran.out)
    assert [row["n"] for row in found["rows"]] == [200, 200]
    assert {"event", "spent", "provenance", "query"} <= set(found)


@pytest.mark.long
def test_lines_of_bins_and_values_say_which_they_are(run: Run, visits: str) -> None:
    select = "SELECT HISTOGRAM(age, [0, 150]) AS h FROM visits"
    ran = run("query", visits, *PERSON, "--epsilon", CHEAP, select)
    lines = [line.split() for line in ran.out.splitlines()[:4]]
    assert lines[0] == ["h_from", "h_to", "h"]
    assert [line[:2] for line in lines[1:]] == [["NULL", "0"], ["0", "150"], ["150", "NULL"]]
    facts = json.dumps({"county": {"categories": ["A", "B", "C"]}})
    columns = Path(visits).with_name("facts.json")
    columns.write_text(facts, encoding="utf-8")
    select = "SELECT APPROX_TOP_K(county, 1) AS best FROM visits"
    ran = run("query", visits, *PERSON, "--columns", str(columns), "--epsilon", CHEAP, select)
    assert ran.out.splitlines()[0].split() == ["best_value", "best"]


def test_row_level_and_the_name_data(run: Run, visits: str) -> None:
    ran = run("query", visits, "--row", "--epsilon", CHEAP, "SELECT COUNT(*) AS n FROM Data")
    assert ran.out.splitlines()[1].strip() == "400 ± 0"


def test_max_rows_limits_what_a_person_brings(run: Run, visits: str) -> None:
    one = ("--unit", "person", "--max-rows", "1")
    ran = run("query", visits, *one, "--epsilon", CHEAP, "SELECT COUNT(*) AS n FROM visits")
    assert ran.out.splitlines()[1].strip() == "200 ± 0"


@pytest.mark.long
def test_groups_and_rows_in_each_limit_what_a_person_brings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("who,place\n" + "".join(f"p,{i % 3}\n" for i in range(12)), encoding="utf-8")
    select = "SELECT place, COUNT(*) AS n FROM t GROUP BY place"
    limits = ("--unit", "who", "--max-groups", "2", "--max-rows-per-group", "3")
    few = ("--epsilon", "900", "--keys", "place=0,1,2", "--json")
    ran = run("query", str(path), *limits, *few, select)
    assert sorted(row["n"] for row in json.loads(ran.out)["rows"]) == [0, 3, 3]
    ran = run("query", str(path), *limits, "--max-rows", "4", *few, select)
    assert sum(row["n"] for row in json.loads(ran.out)["rows"]) == 4


@pytest.mark.parametrize(
    "limits",
    [(), ("--max-groups", "2"), ("--max-rows-per-group", "2"), ("--row", "--max-groups", "2")],
)
def test_limits_that_leave_rows_unbounded_are_refused(
    run: Run, visits: str, limits: tuple[str, ...]
) -> None:
    who = () if "--row" in limits else ("--unit", "person")
    ran = run("query", visits, *who, *limits, "--epsilon", "1", "SELECT COUNT(*) AS n FROM visits")
    assert ran.code == 2
    assert "--max-rows" in ran.err


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--epsilon", "1"), "PureDP(epsilon=1.0)"),
        (("--epsilon", "1", "--delta", "1e-6"), "ApproxDP(epsilon=1.0, delta=1e-06)"),
        (("--rho", "0.1"), "ZCDP(rho=0.1)"),
        (("--rho", "0.1", "--delta", "1e-8"), "ZCDP(rho=0.1, delta=1e-08)"),
        (("--mu", "0.5"), "GDP(mu=0.5)"),
    ],
)
def test_each_budget_has_its_kind(
    run: Run, visits: str, options: tuple[str, ...], shown: str
) -> None:
    ran = run("query", visits, *PERSON, *options, "--json", "SELECT COUNT(*) AS n FROM data")
    assert ran.code == 0
    assert json.loads(ran.out)["request"] == shown


def test_explain_needs_no_answer_and_spends_nothing(run: Run, visits: str, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "v", "--budget", "epsilon=1")
    ran = run("query", visits, *PERSON, *FACTS, "--epsilon", "1", *book, "--explain", COUNTS)
    assert ran.code == 0
    assert "What it costs: epsilon 1, of the epsilon 1 that was offered" in ran.out
    assert ran.err == ""
    assert not Path(ledger.removeprefix("sqlite:///")).exists()
    found = json.loads(
        run("query", visits, *PERSON, *FACTS, "--epsilon", "1", "--explain", "--json", COUNTS).out
    )
    assert set(found["aggregates"]) == {"n", "mean_age", "rows_kept"}


def test_the_share_of_rows_kept_is_printed_unless_it_is_left_out(run: Run, visits: str) -> None:
    asked = ("query", visits, *PERSON, *FACTS, "--epsilon", "1", COUNTS)
    ran = run(*asked)
    assert ran.code == 0
    assert "Rows kept: " in ran.out
    found = json.loads(run(*asked, "--json").out)
    assert found["kept"]["limit"] == 2
    assert "Rows kept" not in run(*asked, "--no-kept").out


@pytest.mark.long
def test_explain_holds_an_account_to_its_terms(run: Run, visits: str, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "v")
    count = "SELECT COUNT(*) AS n FROM visits"
    asked = ("query", visits, *PERSON, *book, "--epsilon", "0.5")
    assert run(*asked, "--budget", "epsilon=1", count).code == 0
    assert run(*asked, "--explain", count).code == 0
    assert run(*asked, "--explain", "--budget", "epsilon=2", count).code == 5
    assert run(*asked, count).code == 0, "explaining has spent something"


def test_true_and_false_are_read_in_a_column_of_text(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("yes\nTrue\nFalse\nTrue\n", encoding="utf-8")
    select = "SELECT yes, COUNT(*) AS n FROM t GROUP BY yes"
    options = ("--row", "--epsilon", CHEAP, "--keys", "yes=true,false", "--json")
    ran = run("query", str(path), *options, select)
    assert {r["yes"]: r["n"] for r in json.loads(ran.out)["rows"]} == {True: 2, False: 1}


def test_keys_from_a_file_are_one_a_line(run: Run, visits: str, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes(b"A\r\nB\n\nC, D\n")
    keys = ("--keys", f"county=@{tmp_path / 'keys.txt'}", "--bounds", "age=0:120")
    ran = run("query", visits, *PERSON, *keys, "--epsilon", CHEAP, "--json", COUNTS)
    assert [row["county"] for row in json.loads(ran.out)["rows"]] == ["A", "B", "C, D"]


@pytest.mark.parametrize(
    ("sql", "keys", "found"),
    mostly_slow(
        [
            ("SELECT age, COUNT(*) AS n FROM visits GROUP BY age", "age=20,21", {20: 8, 21: 8}),
            (
                "SELECT zip, COUNT(*) AS n FROM visits GROUP BY zip",
                "zip=00,01",
                {"00": 134, "01": 134},
            ),
            (
                "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM visits GROUP BY decade",
                "decade=20,60",
                {20: 80, 60: 80},
            ),
            (
                "SELECT age >= 60 AS old, COUNT(*) AS n FROM visits GROUP BY old",
                "old=true,FALSE",
                {True: 80, False: 320},
            ),
            ("SELECT county, COUNT(*) AS n FROM visits GROUP BY county", "COUNTY= A,B", None),
        ],
        quick=3,
    ),
)
def test_keys_are_read_as_what_the_column_holds(
    run: Run, visits: str, sql: str, keys: str, found: dict[object, int] | None
) -> None:
    ran = run(
        "query", visits, *PERSON, "--bounds", "age=0:120", "--keys", keys, "--epsilon", CHEAP,
        "--json", sql,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    rows = [tuple(row.values())[:2] for row in json.loads(ran.out)["rows"]]
    assert dict(rows) == (found or {"A": 200, "B": 200})


def test_facts_from_a_file(run: Run, visits: str, tmp_path: Path) -> None:
    facts = {
        "county": {"categories": ["A", "B", None]},
        "age": {"bounds": [0, 120.5]},
        "day": {"dates": True},
        "zip": {"text": True},
    }
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    ran = run(
        "query", visits, *PERSON, "--columns", str(tmp_path / "facts.json"),
        "--keys", "day=2024-01-01", "--epsilon", CHEAP, "--json",
        "SELECT county, day, COUNT(*) AS n, SUM(age) AS ages FROM visits GROUP BY county, day",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)["rows"]
    assert [(row["county"], row["day"], row["n"]) for row in rows] == [
        ("A", "2024-01-01", 200),
        ("B", "2024-01-01", 0),
        (None, "2024-01-01", 0),
    ]


@pytest.mark.long
def test_output_is_written_whole_in_three_formats(run: Run, visits: str, tmp_path: Path) -> None:
    asked = ("query", visits, *PERSON, *FACTS, "--epsilon", CHEAP, COUNTS)
    for ending in ("csv", "json", "parquet"):
        path = tmp_path / f"answer.{ending}"
        ran = run(*asked, "--output", str(path))
        assert (ran.code, ran.out) == (0, "")
        assert "written to" in ran.err
        assert path.stat().st_mode & stat.S_IRUSR
    with (tmp_path / "answer.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["county"], row["n"]) for row in rows] == [("A", "200"), ("B", "200")]
    assert "mean_age_low" in rows[0]
    assert len(json.loads((tmp_path / "answer.json").read_text())["rows"]) == 2
    table = pyarrow.parquet.read_table(tmp_path / "answer.parquet")
    assert table.column("n").to_pylist() == [200, 200]
    assert not list(tmp_path.glob(".*")), "a part file is left"


def test_output_replaces_a_file_only_when_told_to(run: Run, visits: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.csv"
    path.write_text("precious")
    asked = ("query", visits, *PERSON, "--epsilon", "1", "SELECT COUNT(*) AS n FROM visits")
    assert run(*asked, "--output", str(path)).code == 2
    assert path.read_text() == "precious"
    assert run(*asked, "--output", str(path), "--overwrite").code == 0
    assert path.read_text().startswith("n,")


@pytest.mark.parametrize("name", ["answer.xlsx", "nowhere/answer.csv", "folder.csv"])
def test_a_useless_output_is_refused_before_anything_is_spent(
    run: Run, visits: str, ledger: str, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    ran = run(
        "query", visits, *PERSON, "--epsilon", "1", "--ledger", ledger, "--dataset", "v",
        "--budget", "epsilon=1", "--output", str(tmp_path / name),
        "SELECT COUNT(*) AS n FROM visits",
    )  # fmt: skip
    assert ran.code == 2
    assert not Path(ledger.removeprefix("sqlite:///")).exists()


def test_an_answer_that_cannot_be_stored_is_printed(
    run: Run, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storing, "write", full)
    ran = run(
        "query", visits, *PERSON, "--epsilon", CHEAP, "--output", str(tmp_path / "a.csv"),
        "SELECT COUNT(*) AS n FROM visits",
    )  # fmt: skip
    assert ran.code == 1
    assert "400 ± 0" in ran.out
    assert "No space left on device" in ran.err


@pytest.mark.long
def test_the_budget_outlives_the_process_and_the_third_question_is_refused(
    spawn: Run, visits: str, ledger: str
) -> None:
    asked = (
        "query", visits, *PERSON, "--epsilon", "0.5", "--ledger", ledger, "--dataset", "v",
        "--budget", "epsilon=1", "--analyst", "Ada", "--purpose", "a try",
        "SELECT COUNT(*) AS n FROM visits",
    )  # fmt: skip
    first, second, third = spawn(*asked), spawn(*asked), spawn(*asked)
    assert (first.code, second.code, third.code) == (0, 0, 3)
    assert "Account 'v': epsilon 0.5 of 1 left." in first.out
    assert first.err == ""
    assert "epsilon 0 is left" in third.err
    assert third.out == ""


@pytest.mark.long
def test_a_question_that_cannot_be_asked_opens_no_account(
    run: Run, visits: str, ledger: str
) -> None:
    book = ("--ledger", ledger, "--dataset", "v", "--budget", "epsilon=1")
    asked = ("query", visits, *PERSON, *book)
    assert run(*asked, "--epsilon", "1", "SELECT AVG(age) AS s FROM visits").code == 2
    assert run(*asked, "--epsilon", "1.5", "SELECT COUNT(*) AS n FROM visits").code == 3
    assert run(*asked, "--rho", "0.1", "SELECT COUNT(*) AS n FROM visits").code == 2
    assert not Path(ledger.removeprefix("sqlite:///")).exists()


@pytest.mark.long
def test_a_public_table_gives_the_keys_of_all_groups(run: Run, visits: str, tmp_path: Path) -> None:
    table = tmp_path / "counties.csv"
    table.write_text("region,county\nN,B\nS,A\n")
    sql = "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"
    asked = ("query", visits, *PERSON, "--epsilon", CHEAP, "--json")
    ran = run(*asked, "--keys", f"@{table}", sql)
    assert [row["county"] for row in json.loads(ran.out)["rows"]] == ["B", "A"]
    for more in (("--keys", "county=A"), ("--private-keys", "county")):
        assert run(*asked, "--keys", f"@{table}", *more, sql).code != 0
    assert "all group columns" in run(*asked, "--keys", "@counties", sql).err


@pytest.mark.long
def test_a_question_is_tried_out_on_a_public_table(run: Run, visits: str, tmp_path: Path) -> None:
    table = tmp_path / "old.csv"
    table.write_text("person,age\n" + "1,130\n" * 20 + "2,30\n")
    sql = "SELECT COUNT(*) AS n, SUM(age) AS s FROM visits"
    asked = ("query", visits, *PERSON, *FACTS[:2], "--epsilon", CHEAP, "--assuming", str(table))
    ran = run(*asked, "--explain", "--json", sql)
    found = json.loads(ran.out)["bias"]["columns"]
    assert found["n"]["unlimited"] == [21]
    assert found["n"]["limited"][0] < 21
    assert "Nothing but the public table was read" in run(*asked, "--explain", sql).out
    assert "--explain or --error with it" in run(*asked, sql).err
