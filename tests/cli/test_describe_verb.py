"""`unacorda describe`: a report on the terminal, a page in a file, and what it refuses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cases import in_subtests
from tests.support.cli_seams import main

ROWS = "".join(f"{k % 40},{20 + k % 50},{'NY' if k % 3 else 'LA'}\n" for k in range(200))


@pytest.fixture
def visits(tmp_path: Path) -> str:
    path = tmp_path / "visits.csv"
    path.write_text(f"person,age,city\n{ROWS}")
    return str(path)


@pytest.mark.long
def test_a_look_at_a_file(visits: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", visits, "--unit", "person", "--epsilon", "2000"]) == 0
    said = capsys.readouterr()
    assert "visits: about" in said.out
    assert "age: number, by a private vote" in said.out
    assert "city: text, by a private vote" in said.out
    assert "no --ledger" in said.err


@pytest.mark.long
def test_a_page_is_written_whole_and_no_file_is_replaced(
    visits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "look.html"
    verb = ["describe", visits, "--unit", "person", "--max-rows", "5", "--rho", "1"]
    assert main([*verb, "--html", str(page)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert "spent" in capsys.readouterr().err
    assert main([*verb, "--html", str(page)]) == 2
    assert main([*verb, "--html", str(page), "--overwrite"]) == 0
    assert main([*verb, "--html", str(tmp_path / "look.txt")]) == 2


@pytest.mark.long
def test_an_account_pays_and_refuses_what_is_too_much(
    visits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = f"sqlite:///{tmp_path / 'budget.db'}"
    verb = ["describe", visits, "--unit", "person", "--max-rows", "5", "--epsilon", "1"]
    kept = [*verb, "--ledger", ledger, "--dataset", "visits"]
    assert main(kept) == 2  # there is no account yet
    assert main([*kept, "--budget", "epsilon=0.5"]) == 3
    assert not (tmp_path / "budget.db").exists()
    assert main([*kept, "--budget", "epsilon=1", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["request"] == "PureDP(epsilon=1.0)"
    assert main(kept) == 3
    assert main([*verb, "--dataset", "visits"]) == 2


@in_subtests(
    "wrong",
    [
        ["--unit", "nobody", "--epsilon", "1"],
        ["--unit", "person"],
        ["--epsilon", "1"],
        ["--row", "--unit", "person", "--epsilon", "1"],
        ["--unit", "person", "--epsilon", "0"],
        ["--unit", "person", "--epsilon", "1", "--bounds", "age"],
    ],
    ids=" ".join,
)
def test_mistakes_are_named(
    wrong: list[str], visits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", visits, *wrong]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.long
def test_every_answer_is_recorded_and_verified(
    visits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A loud budget: the votes of 40 people must come out as they are, whatever the noise.
    record, ledger = tmp_path / "look.json", f"sqlite:///{tmp_path / 'budget.db'}"
    verb = ["describe", visits, "--unit", "person", "--max-rows", "5", "--rho", "500"]
    book = ["--ledger", ledger, "--dataset", "v", "--budget", "rho=1000"]
    assert main([*verb, *book, "--output", str(record)]) == 0
    assert main([*verb, "--output", str(record)]) == 2  # it exists
    capsys.readouterr()
    assert main(["verify", str(record), "--ledger", ledger]) == 0
    said = capsys.readouterr().out
    lines = [line.split("  ")[0] for line in said.splitlines()[1:]]
    assert lines[:6] == [
        "rows of a person", "types", "ranges", "numbers", "picture of age", "spent",
    ]  # fmt: skip
    stated = json.loads(record.read_text())
    releases = stated["releases"]
    # Selections take no more than makes a miss impossible in practice: 500 is too much for them.
    rho = float(stated["spent"].removeprefix("ZCDP(rho=").removesuffix(")"))
    charges = [
        float(r["spent"].removeprefix("ZCDP(rho=").removesuffix(")")) for r in releases.values()
    ]
    assert 300 < rho <= 500
    assert rho == pytest.approx(sum(charges), rel=1e-9)
    gone = stated | {"releases": {k: v for k, v in releases.items() if k != "types"}}
    changed = json.loads(json.dumps(stated))
    changed["releases"]["numbers"]["query"]["aggregates"]["rows"]["weight"] = "7"
    for text, words in ((gone, "but the charges are"), (changed, "numbers: digest")):
        record.write_text(json.dumps(text))
        assert main(["verify", str(record)]) == 1
        assert words in capsys.readouterr().out
    wrongs: list[object] = [{}, [], {"a": 1}]
    for wrong in wrongs:
        record.write_text(json.dumps(stated | {"releases": wrong}))
        assert main(["verify", str(record)]) == 2
