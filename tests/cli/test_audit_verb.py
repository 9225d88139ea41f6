"""`unacorda audit`: what it prints, its codes, and what it refuses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.support.cases import in_subtests

from unacorda import audit


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    drawn = random.Random(1)
    lines = ["score,included"]
    for _ in range(2000):
        inside = drawn.random() < 0.5
        lines.append(f"{1.5 * inside + drawn.gauss(0, 1)!r},{'true' if inside else 0}")
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("method", ["one-run", "f-dp", "anytime", "many-runs"])
def test_bounds_are_those_of_the_library(run: Run, scores: Path, method: str) -> None:
    delta = ["--delta", "1e-5"] if method in ("one-run", "f-dp") else []
    ran = run("audit", str(scores), "--method", method, *delta, "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    rows = [line.split(",") for line in scores.read_text().splitlines()[1:]]
    values, inside = [float(row[0]) for row in rows], [row[1] == "true" for row in rows]
    expected = {
        "one-run": lambda: audit.one_run(values, inside, delta=1e-5),
        "f-dp": lambda: audit.one_run_f_dp(values, inside, delta=1e-5),
        "anytime": lambda: audit.anytime(values, inside),
        "many-runs": lambda: audit.many_runs(values, inside),
    }[method]()
    assert told["epsilon"] == expected.epsilon
    assert (told["guesses"], told["right"], told["mu"]) == (
        expected.guesses,
        expected.right,
        expected.mu,
    )


def test_a_broken_promise_is_code_one(run: Run, scores: Path) -> None:
    asked = ("audit", str(scores), "--method", "f-dp", "--delta", "1e-5", "--promised")
    ran = run(*asked, "0.5")
    assert ran.code == 1
    assert "refuted" in ran.out
    kept = run(*asked, "50")
    assert kept.code == 0
    assert "not refuted" in kept.out
    assert "mu is at least" in kept.out


@in_subtests(
    ("text", "options", "named"),
    [
        ("a,b\n1,2\n", [], "score and included"),
        ("score,included\nx,1\n", [], "score in line 2"),
        ("score,included\n1,maybe\n", [], "included in line 2"),
        ("score,included\n1,1\n2,1\n", [], "included"),
        ("score,included\n1,1\n2,0\n", ["--method", "best"], "--method"),
        ("score,included\nnan,1\n2,0\n", [], "score in line 2"),
        ("score,included\n2,0\n1\n", [], "included in line 3"),
        ('score,included\n2,0\n"1,1\n', [], "score in line 3"),
        ("score,score,included\n1,2,1\n", [], "each once"),
        ("score;included\n1;1\n", [], "each once"),
        ("score,included\n", [], "a line for each canary"),
        ("", [], "each once"),
        (f"score,included\n{'9' * 200_000},1\n", [], "no CSV"),
        ("score,included\n1,1\n2,0\n", ["--confidence", "2"], "--confidence"),
        ("score,included\n1,1\n2,0\n", ["--confidence", "0"], "--confidence"),
        ("score,included\n1,1\n2,0\n", ["--confidence", "nan"], "--confidence"),
        ("score,included\n1,1\n2,0\n", ["--delta", "-1"], "--delta"),
        ("score,included\n1,1\n2,0\n", ["--delta", "1"], "--delta"),
        ("score,included\n1,1\n2,0\n", ["--delta", "nan"], "--delta"),
        ("score,included\n1,1\n2,0\n", ["--delta", "much"], "--delta"),
        ("score,included\n1,1\n2,0\n", ["--promised", "nan"], "--promised"),
        ("score,included\n1,1\n2,0\n", ["--promised", "-1"], "--promised"),
        ("score,included\n1,1\n2,0\n", ["--promised", "inf"], "--promised"),
        ("score,included\n1,1\n2,0\n", ["--method", "f-dp"], "--delta"),
        ("score,included\n1,1\n2,0\n", ["--method", "many-runs"], "included"),
        (
            "score,included\n1,1\n2,0\n",
            ["--method", "anytime", "--delta", "0.1"],
            "--delta",
        ),
    ],
)
def test_what_cannot_be_used_is_named(
    run: Run, tmp_path: Path, text: str, options: list[str], named: str
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    ran = run("audit", str(path), *options)
    assert ran.code == 2
    assert named in ran.err


def test_a_file_that_is_not_there_or_not_in_utf_8_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes("score,included\n1,1\né,0\n".encode("latin-1"))
    for name in (str(path), str(tmp_path), str(tmp_path / "nowhere.csv")):
        ran = run("audit", name)
        assert ran.code == 2
        assert "FILE" in ran.err
    assert run("audit").code == 2


def test_what_programs_write_is_read(run: Run, tmp_path: Path, scores: Path) -> None:
    """A mark of byte order, other line ends, blanks, capitals, and columns beside these."""
    plain = json.loads(run("audit", str(scores), "--json").out)
    rows = [line.split(",") for line in scores.read_text().splitlines()[1:]]
    other = "id,included,score\r\n" + "".join(
        f"{place},{' TRUE ' if row[1] == 'true' else 'False'}, {row[0]}\r\n"
        for place, row in enumerate(rows)
    )
    scores.write_bytes(b"\xef\xbb\xbf" + other.encode())
    assert json.loads(run("audit", str(scores), "--json").out) == plain
    assert json.loads(run("audit", str(scores), "--delta", "0/1", "--json").out) == plain
