"""The tables of the benchmark pages are those of the JSON that the scripts write."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGES = sorted(BENCHMARKS.glob("*.md"))
WRITTEN = re.compile(r"^<!-- \w+: .*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
SPEED = [("tool", ""), ("ms", ".1f"), ("rows", ",.0f"), ("remark", ">")]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("tables")


def test_the_pages_show_what_the_files_hold(tables: Any) -> None:
    shown: set[tuple[str, str]] = set()
    for page in PAGES:
        text = page.read_text()
        assert tables.rendered(text) == text, f"{page.name}: run python benchmarks/tables.py"
        shown |= set(re.findall(r"^<!-- (\w+): ([\w-]+) -->$", text, re.MULTILINE))
    kept = {(file.stem, name) for file in tables.RESULTS.glob("*.json") for name in of(file)}
    assert shown == kept
    assert len(kept) > 55


def of(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())["tables"]
    return found


def test_no_other_table_of_figures_stands_on_a_page() -> None:
    for page in PAGES:
        bare = WRITTEN.sub("", page.read_text())
        heads = re.findall(r"^\|.*\n\|[-:|]+$", bare, re.MULTILINE)
        assert len(heads) == (page.name == "README.md"), page.name


def test_every_script_writes_its_tables() -> None:
    for file in (BENCHMARKS / "results").glob("*.json"):
        text = (BENCHMARKS / f"{file.stem}.py").read_text()
        assert "add_json(" in text, file.stem
        assert "Report(__file__" in text, file.stem


def test_a_run_writes_its_tables_and_keeps_the_others(
    tables: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results" / "speed.json"
    for name, ms in (("sums", 7.04), ("counts", 3.0), ("sums", 7.25)):
        with tables.Report("speed.py", file, peers={"opendp": "0.16.0"}) as report:
            row = report.table(name, SPEED)
            row("unacorda", ms, 1_000_000, None)
            row("peer", "failed", None, "too slow")
    assert "| unacorda | 7.0 | 1,000,000 | |\n| peer | failed | | too slow |" in (
        capsys.readouterr().out
    )
    found = of(file)
    assert list(found) == ["sums", "counts"]
    assert found["sums"]["rows"][0] == ["unacorda", 7.25, 1_000_000, None]
    assert found["sums"]["versions"]["opendp"] == "0.16.0"
    assert {"date", "command", "conditions"} <= set(found["sums"])


def test_the_command_holds_no_path_of_a_machine(tables: Any) -> None:
    words = ["/here/noise.py", "--venvs", "/there", "--json", "/there/a.json", "--rounds", "3"]
    assert tables.command(words) == "python benchmarks/noise.py --venvs PATH --rounds 3"


def test_a_page_with_another_figure_differs(tables: Any, tmp_path: Path) -> None:
    with tables.Report("speed.py", tmp_path / "speed.json") as report:
        report.table("sums", SPEED)("unacorda", 7.25, 10, None)
    page = "Text.\n\n<!-- speed: sums -->\n<!-- end -->\n\nMore.\n"
    full = tables.rendered(page, tmp_path)
    assert full == (
        "Text.\n\n<!-- speed: sums -->\n| tool | ms | rows | remark |\n|---|---:|---:|---:|\n"
        "| unacorda | 7.2 | 10 | |\n<!-- end -->\n\nMore.\n"
    )
    assert tables.rendered(full, tmp_path) == full
    changed = full.replace("7.2", "6.2")
    assert tables.rendered(changed, tmp_path) == full != changed
    with pytest.raises(KeyError):
        tables.rendered("<!-- speed: none -->\n<!-- end -->", tmp_path)
