"""`unacorda synthesize`: rows, report, and what is refused before anything is spent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run
from tests.support.cases import in_subtests

from unacorda import ZCDP, AddRemove, SeededBits
from unacorda.cli.synthesis_report import report_page
from unacorda.synthesis.domain import BinnedColumn, Domain
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import SyntheticTable, synthesize
from unacorda.synthesis.tables import CodedRows

CELLS = (
    *("--bins", "age=0,18,45,120", "--bins", "sex=F,M", "--bins", "pregnant=yes,no"),
    *("--bins", "cost=4", "--bounds", "cost=0:400"),
)
PERSON = ("--unit", "patient", "--max-rows", "3")
NEVER = ("--never", "sex = 'M' AND pregnant = 'yes'", "--never", "age < 18 AND pregnant = 'yes'")


@pytest.fixture
def patients(tmp_path: Path) -> str:
    """1,500 patients with two rows each, half of them men; a fifth of women of 18 to 44 expect."""
    drawn = np.random.default_rng(5)
    lines = ["patient,age,sex,pregnant,cost"]
    for patient in range(1500):
        age, sex = int(drawn.integers(0, 90)), "FM"[patient % 2]
        expects = sex == "F" and 18 <= age < 45 and drawn.random() < 0.2
        yes = "yes" if expects else "no"
        lines += [f"{patient},{age},{sex},{yes},{drawn.gamma(2, 40):.2f}" for _ in range(2)]
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def paid(run: Run, patients: str, ledger: str) -> Callable[..., tuple[str, str]]:
    """A synthesis from an account; stdout and stderr."""

    def runs(*arguments: str) -> tuple[str, str]:
        book = ("--ledger", ledger, "--dataset", "p", "--budget", "epsilon=100")
        ran = run("synthesize", patients, *PERSON, *CELLS, "--epsilon", "40", *book, *arguments)
        assert ran.code == 0, ran.err
        return ran.out, ran.err

    return runs


def test_rows_and_a_report_are_paid_for_once(
    run: Run, tmp_path: Path, ledger: str, paid: Callable[..., tuple[str, str]]
) -> None:
    rows, page = tmp_path / "synthetic.csv", tmp_path / "report.html"
    out, said = paid("--output", str(rows), "--report", str(page), "--purpose", "a class", *NEVER)
    assert out == ""
    assert re.search(
        r"^note: round 1: \d tables? measured, noise [\d.]+ a cell", said, re.MULTILINE
    )
    assert said.count("spent epsilon 40; epsilon 60 of 100 left") == 2
    made = list(csv.DictReader(rows.read_text().splitlines()))
    assert abs(len(made) - 3000) < 30
    assert list(made[0]) == ["age", "sex", "pregnant", "cost"]
    sexes = Counter(row["sex"] for row in made)
    assert abs(sexes["F"] - 1500) < 60 > abs(sexes["M"] - 1500)
    expecting = [row for row in made if row["pregnant"] == "yes"]
    assert expecting
    assert not [row for row in expecting if row["sex"] == "M" or float(row["age"] or 18) < 18]
    shown = run("ledger", "show", "--ledger", ledger, "--dataset", "p", "--json").out
    entries = json.loads(shown)["accounts"][0]["entries"]
    (charged,) = [one for one in entries if one["state"] == "reserved"]
    assert charged["purpose"] == "a class"
    assert [one["state"] for one in entries] == ["reserved", "committed"]
    _check_page(page.read_text())


def _check_page(text: str) -> None:
    assert "src=" not in text.replace('src="data:image/svg+xml;base64,', "")
    assert "http" not in text
    tables = ("age × sex × pregnant", "age × sex × cost", "sex × pregnant × cost")
    for name in ("mean of all", *tables, "a person (patient)", "epsilon 60 of 100 left"):
        assert name in text
    assert text.count("<img ") == 4
    assert "The rows are not people." in text
    assert re.search(r'<th scope="row">F</th><td>1,\d{3} ± \d', text)
    assert "sex = &#x27;M&#x27; AND pregnant = &#x27;yes&#x27;" in text


@pytest.mark.long
def test_the_report_has_the_measured_counts_and_not_the_exact_ones(
    tmp_path: Path, paid: Callable[..., tuple[str, str]]
) -> None:
    page = tmp_path / "report.html"
    out, _ = paid("--report", str(page), "--json", "--rows", "200", "--workload", "2")
    made = SyntheticTable.from_json(out)
    assert len(made.codes) == 200
    text = page.read_text()
    assert "scaled to the number of rows of the table" in text
    place = made.plan.domain.names.index("sex")
    drawn = np.bincount(made.codes[:, place], minlength=3) * made.row_count / 200
    for label, noisy, own in zip("FM", made.marginals[place,].counts, drawn, strict=False):
        line = f'<th scope="row">{label}</th><td>{noisy:,.0f} ± '
        assert line in text
        assert f"</td><td>{own:,.0f}</td>" in text.partition(line)[2][:60]
    assert made.errors is not None
    for error in made.errors.tables:
        shown = text.partition(f"{' × '.join(error.columns)}</th><td>")[2].partition("%")[0]
        assert float(shown) == pytest.approx(100 * error.error, abs=0.006)
    mean = made.measured.mean("age")
    assert f"Mean {mean.lower:,.4g} to {mean.upper:,.4g}" in text


def test_smaller_errors_are_folded_and_large_means_are_in_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    ends = (0, 20_000, 40_000)
    columns = tuple(BinnedColumn(name=name, edges=ends, whole=True) for name in "abcdef")
    made = synthesize(
        CodedRows(np.random.default_rng(1).integers(0, 2, size=(500, 6)), sizes=(2,) * 6),
        SynthesisPlan(domain=Domain(columns=columns)),
        budget=ZCDP(1),
        rows_per_unit=1,
        neighbors=AddRemove,
        bits=SeededBits(1),
    )
    text = report_page(made, [])
    shown, _, folded = text.partition("5 tables with smaller errors")
    assert shown.count(" × ") == 2 * 15
    assert folded.partition("</details>")[0].count(" × ") == 2 * 5
    assert "e+0" not in text
    assert "20000 to 40000" in text


def test_a_page_without_matplotlib_has_tables_alone(
    tmp_path: Path, paid: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    page = tmp_path / "report.html"
    paid("--report", str(page), "--rows", "10")
    text = page.read_text()
    assert "<img" not in text
    assert "Pictures are left out" in text
    assert '<th scope="row">[18, 45)</th>' in text


def test_explaining_is_free(run: Run, patients: str, tmp_path: Path, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "p", "--budget", "epsilon=3")
    ran = run("synthesize", patients, *PERSON, *CELLS, "--epsilon", "1", *book, "--explain")
    assert ran.code == 0
    cells, found, *_ = ran.out.splitlines()
    assert cells == "Cells: age 4, sex 3, pregnant 3, cost 5."
    assert found.startswith("Found privately for cost: 4 bins at most")
    assert ran.out.endswith("Nothing was read and nothing was spent.\n")
    assert not (tmp_path / "budget.db").exists()


def test_a_public_table_shows_the_error_beforehand(run: Run, patients: str) -> None:
    cells = ("--only", "sex,age", "--bins", "sex=F,M", "--bins", "age=0,18,45,120")
    asked = ("synthesize", patients, *PERSON, *cells)
    ran = run(*asked, "--epsilon", "1", "--explain", "--assuming", patients)
    assert ran.code == 0
    assert "Tried out 3 times on the assumed table: mean error of a table 0." in ran.out
    assert ran.out.endswith("Nothing but the public table was read and nothing was spent.\n")
    refused = run(*asked, "--epsilon", "1", "--assuming", patients)
    assert refused.code == 2
    assert "--explain" in refused.err


def test_files_are_kept_and_what_cannot_be_written_is_printed(
    run: Run, patients: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("mine")
    asked = (
        "synthesize",
        patients,
        *PERSON,
        "--epsilon",
        "9",
        "--bins",
        "sex=F,M",
        "--only",
        "sex",
    )
    ran = run(*asked, "--output", str(rows))
    assert (ran.code, rows.read_text()) == (2, "mine")
    assert "--overwrite" in ran.err

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unacorda.cli.output.write", broken)
    ran = run(*asked, "--output", str(rows), "--overwrite")
    assert (ran.code, rows.read_text()) == (1, "mine")
    assert "No space left on device" in ran.err
    assert SyntheticTable.from_json(ran.out).plan.domain.names == ("sex",)


def test_budgets_in_gaussian_dp_are_spent(run: Run, patients: str) -> None:
    ran = run("synthesize", patients, *PERSON, "--only", "sex", "--bins", "sex=F,M", "--mu", "1")
    assert ran.code == 0
    assert len(ran.out.splitlines()) > 1


def test_what_is_more_than_is_left_is_refused(
    run: Run, patients: str, tmp_path: Path, ledger: str
) -> None:
    book = ("--ledger", ledger, "--dataset", "p", "--budget", "epsilon=1")
    asked = ("synthesize", patients, *PERSON, "--only", "sex", "--bins", "sex=F,M", *book)
    below = ("--sub-account", "ana", "--limit", "epsilon=0.5")
    for arguments in (("--epsilon", "2"), ("--epsilon", "0.7", *below)):
        ran = run(*asked, *arguments)
        assert (ran.code, ran.out) == (3, "")
        assert not (tmp_path / "budget.db").exists()
    assert run(*asked, "--epsilon", "0.7", "--rows", "5").code == 0
    ran = run(*asked, "--epsilon", "0.7")
    assert (ran.code, ran.out) == (3, "")


@in_subtests(
    ("arguments", "said"),
    [
        ((), "Missing: one of epsilon"),
        (("--epsilon", "1", "--never", "age < 20"), "one of 18, 45"),
        (("--epsilon", "1", "--never", "agee < 18"), "of the columns age, sex, pregnant, cost"),
        (("--epsilon", "1", "--never", "sex = 'X'"), "of sex one of F, M, other"),
        (("--epsilon", "1", "--never", "age = 20"), "whole bins of age"),
        (("--epsilon", "1", "--never", "sex = 'M' OR age < 18"), "joined by AND"),
        (("--epsilon", "1", "--never", "sex = 'M' AND sex = 'F'"), "that one row can meet"),
        (("--epsilon", "1", "--never", "sex IS NULL"), "of sex one of F, M, other"),
        (("--epsilon", "1", "--bins", "age=3"), "each column once"),
        (("--epsilon", "1", "--bins", "zip=3"), "synthesized columns"),
        (("--epsilon", "1", "--bins", "zip=a,3"), "COLUMN=EDGES, such as"),
        (("--epsilon", "1", "--only", "patient"), "columns that do not name a person"),
        (("--epsilon", "1", "--skip", "agee"), "Did you mean 'age'?"),
        (("--epsilon", "1", "--where", "agee > 1"), "Did you mean 'age'?"),
        (("--epsilon", "1", "--workload", "4"), "one of 1, 2, 3"),
        (("--epsilon", "1", "--rows", "99999999"), "--rows=99999999"),
        (("--epsilon", "1", "--output", "rows.txt"), "a file in .csv, .json, .parquet"),
        (("--epsilon", "1", "--report", "report.csv"), "--report='report.csv'"),
    ],
)
def test_what_cannot_be_synthesized_is_refused_before_an_account_is_opened(
    run: Run, patients: str, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    address = f"sqlite:///{tmp_path / 'budget.db'}"
    book = ("--ledger", address, "--dataset", "p", "--budget", "epsilon=2")
    ran = run("synthesize", patients, *PERSON, *CELLS, *book, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not (tmp_path / "budget.db").exists()


def test_cells_are_asked_for_together(run: Run, patients: str) -> None:
    ran = run("synthesize", patients, *PERSON, "--bins", "sex=F,M")
    assert ran.code == 2
    assert ran.err.startswith(
        "error: Missing: --epsilon, --rho or --mu; --bins age=CELLS; --bins pregnant=CELLS; "
        "--bins cost=CELLS."
    )
    for bins, option in (("age=5,3", "--bins age"), ("age=20", "--bounds age=LOW:HIGH")):
        ran = run(
            "synthesize", patients, "--row", "--epsilon", "1", "--bins", bins, "--only", "age"
        )
        assert ran.code == 2
        assert option.removeprefix("--bins ") in ran.err
        assert "edges that increase" in ran.err


def test_dates_of_a_text_are_edges(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    days = ("2024-02-29", "2024-05-01", "2024-11-30", "")
    lines = [f"{one},{days[one % 4]}" for one in range(2000)]
    path.write_text("\n".join(["patient,seen", *lines]) + "\n")
    bins = ("--bins", "seen=2024-01-01,2024-04-01,2024-07-01,2025-01-01")
    ran = run("synthesize", str(path), *PERSON, *bins, "--epsilon", "40")
    assert ran.code == 0, ran.err
    seen = Counter(row["seen"][:7] for row in csv.DictReader(ran.out.splitlines()))
    quarters = Counter({"2024-1": 0, "2024-2": 0, "2024-3": 0, "": 0})
    for month, count in seen.items():
        quarters["" if not month else f"2024-{min((int(month[5:]) + 2) // 3, 3)}"] += count
    assert all(abs(count - 500) < 60 for count in quarters.values()), quarters


def test_the_rows_of_a_person_are_found_for_a_tenth(
    run: Run, patients: str, ledger: str, tmp_path: Path
) -> None:
    book = ("--ledger", ledger, "--dataset", "p", "--budget", "epsilon=20")
    page = tmp_path / "report.html"
    asked = ("--unit", "patient", "--max-rows", "auto", "--only", "sex", "--bins", "sex=F,M")
    ran = run("synthesize", patients, *asked, "--epsilon", "9", *book, "--report", str(page))
    assert ran.code == 0, ran.err
    assert abs(len(ran.out.splitlines()) - 3001) < 60
    assert "spent epsilon 9; epsilon 11 of 20 left" in ran.err
    assert "a person (patient) with at most 2 rows in a question" in page.read_text()


def test_a_name_of_a_column_breaks_no_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,a\u2028Spent nothing\n1,2\n", encoding="utf-8")
    options = ["--unit", "id", "--max-rows", "1", "--rho", "1", "--explain"]
    bins = ["--bins", "a\u2028Spent nothing=0,2,4"]
    ran = run("synthesize", str(tmp_path / "t.csv"), *options, *bins)
    assert "Cells: a\\u2028Spent nothing 3." in ran.out
