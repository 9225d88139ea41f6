"""The command line, run in this process and in one of its own."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cli_seams import main

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm-256color"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


def screen_lines(text: str) -> int:
    """How many lines of a terminal of 80 columns a text takes."""
    return sum(max(1, -(-len(line) // 80)) for line in text.splitlines())


def check_screen(ran: Ran) -> Ran:
    """Check that what a command of these tests writes to stderr fits one screen of 24 lines."""
    assert screen_lines(ran.err) <= 24, ran.err
    return ran


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `unacorda` in this process."""

    def runs(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        written = capsys.readouterr()
        return check_screen(Ran(code=code, out=written.out, err=written.err))

    return runs


@pytest.fixture
def spawn() -> Run:
    """Run `unacorda` in a process of its own, with pipes."""

    def spawns(*arguments: str, **environment: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "unacorda", *arguments],
            capture_output=True,
            check=False,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
            timeout=120,
        )
        return check_screen(Ran(code=done.returncode, out=done.stdout, err=done.stderr))

    return spawns


@pytest.fixture
def visits(tmp_path: Path) -> str:
    """200 persons with two rows each: A and B by halves, ages 20 to 69, zip codes, days."""
    lines = ["person,county,age,zip,day"]
    lines += [
        f"{person},{'AB'[person % 2]},{20 + person % 50},0{person % 3},2024-01-0{1 + person % 2}"
        for person in range(200)
        for _ in range(2)
    ]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """The address of a ledger that is not there yet."""
    return f"sqlite:///{tmp_path / 'budget.db'}"
