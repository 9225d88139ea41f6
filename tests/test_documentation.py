"""What README.md and the pages of docs/ show can be run, and prints what the page says."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import doctest
import re
import shlex
from pathlib import Path

import pytest
from tests.support.cli_seams import main
from tests.tiers import mostly_slow

import unacorda

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if ">>>" in page.read_text()
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert "accounting.md" in PAGES


@pytest.mark.parametrize("page", mostly_slow(PAGES, quick=3))
def test_examples_of_the_page_run(page: str) -> None:
    text = (DOCS / page).read_text()
    code = "\n".join(block for block in BLOCK.findall(text) if ">>>" in block)
    if "import torch" in code:
        pytest.importorskip("torch")  # the test extra does not bring it
    example = doctest.DocTestParser().get_doctest(code, {}, page, page, 0)
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(said)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "least"), [("README.md", 0), ("docs/getting-started.md", 4)])
def test_the_page_can_be_pasted_from_top_to_bottom(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = BLOCK.findall(text)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    shell = "".join(SHELL.findall(text)).replace("\\\n", " ")
    commands = re.findall(r"^unacorda .*", shell, re.MULTILINE)
    assert len(commands) >= least
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0


@pytest.mark.long
def test_the_output_in_the_readme_is_that_of_its_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Equal but for the released numbers, which are drawn anew."""
    text = (ROOT / "README.md").read_text()
    (shown,) = OUTPUT.findall(text)
    exec(compile(BLOCK.findall(text)[0], "README.md", "exec"), {})
    assert _without_numbers(capsys.readouterr().out) == _without_numbers(shown)


def _without_numbers(text: str) -> list[str]:
    bare = re.sub(r"[\d.,]+ (± [\d.,]+|\([\d.,]+ to [\d.,]+\))", "N", text)
    return [" ".join(line.split()) for line in bare.splitlines()]


@pytest.mark.parametrize("page", ["moments.md", "ranks.md"])
def test_questions_on_the_page_can_be_explained(page: str, tmp_path: Path) -> None:
    """Their questions are over a table of the page's own columns, and told what they would cost."""
    columns = ("patient", "age", "cost", "smokes", "days", "persons")
    (tmp_path / "visits.csv").write_text(",".join(columns) + "\n")
    person = unacorda.Person("patient", max_rows=5)
    with unacorda.Session(
        {"visits": tmp_path / "visits.csv"}, unit=person, budget=unacorda.PureDP(1)
    ) as session:
        blocks = BLOCK.findall((DOCS / page).read_text())
        asked = [
            ast.unparse(node)
            for node in ast.walk(ast.parse("\n".join(blocks)))
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".agg")
        ]
        assert asked
        for question in asked:
            query = eval(question, {"session": session, "unacorda": unacorda})
            assert session.explain(query, budget=unacorda.PureDP(1)).affordable
