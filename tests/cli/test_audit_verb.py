"""`tacet audit`: what it prints, its codes, and what it refuses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from tacet import audit


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


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [
        ("a,b\n1,2\n", [], "score and included"),
        ("score,included\nx,1\n", [], "score in line 2"),
        ("score,included\n1,maybe\n", [], "included in line 2"),
        ("score,included\n1,1\n2,1\n", [], "included"),
        ("score,included\n1,1\n2,0\n", ["--method", "best"], "--method"),
        ("score,included\n1,1\n2,0\n", ["--confidence", "2"], "confidence"),
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
