"""Interrupts of a real process, at any time: no traceback, and what was charged."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import ENVIRONMENT, Run
from tests.support.seams import open_ledger

# What a job in the background starts has interrupts ignored.
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("unacorda", run_name="__main__")
"""
# Interrupts itself where a module is about to be loaded.
AT_MODULE = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"


def began(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )


def ended(process: subprocess.Popen[bytes]) -> str:
    """What an interrupted process wrote to stderr."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == b""
    assert b"Traceback" not in err
    return err.decode()


def book(ledger: str) -> tuple[str, ...]:
    return ("--ledger", ledger, "--dataset", "v", "--budget", "epsilon=3")


@pytest.mark.long
def test_an_interrupt_before_a_question_begins(tmp_path: Path) -> None:
    fifo = tmp_path / "keys"
    os.mkfifo(fifo)
    keys = ("--keys", f"a=@{fifo}", "SELECT COUNT(*) AS n FROM x")
    process = began(INTERRUPTIBLE, "query", "x.csv", "--row", "--epsilon", "1", *keys)
    with fifo.open("wb"):  # opens once the command waits for its keys
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said = ended(process)
    assert said == "note: Interrupted. No ledger was charged.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("unacorda.cli.app", "Nothing was charged."),
        ("click", "Nothing was charged."),
        ("unacorda.settings", "No ledger was charged."),
        ("unacorda.query.session", "Nothing was charged to account 'v'."),
        ("duckdb", "Nothing was charged to account 'v'."),
    ],
)
def test_an_interrupt_while_modules_are_loaded(
    visits: str, ledger: str, module: str, said: str
) -> None:
    code = AT_MODULE.format(module=module) + INTERRUPTIBLE
    asked = ("query", visits, "--row", "--epsilon", "1", *book(ledger), COUNT)
    assert said in ended(began(code, *asked))


@pytest.mark.slow
def test_an_interrupt_after_the_charge_names_it(run: Run, tmp_path: Path, ledger: str) -> None:
    rows = 4_000_000
    table = tmp_path / "visits.csv"
    numbers = np.random.default_rng(1).integers(0, 10**9, (rows, 2))
    table.write_text("person,value\n" + "\n".join(f"{a},{b}" for a, b in numbers.tolist()))
    sql = "SELECT COUNT(DISTINCT value) AS n, MEDIAN(value) AS m FROM visits"
    person = ("--unit", "person", "--max-rows", "1", "--bounds", "value=0:1e9")
    process = began(
        INTERRUPTIBLE, "query", str(table), *person, "--epsilon", "0.5", *book(ledger), sql
    )
    path = Path(ledger.removeprefix("sqlite:///"))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.005)
        with contextlib.suppress(Exception):
            if path.exists() and open_ledger(ledger).entries("v"):
                break
    process.send_signal(signal.SIGINT)
    said = ended(process)
    assert said == "note: Interrupted. Account 'v' was charged epsilon 0.5, which stays spent.\n"
    assert "budget:   epsilon 2.5 of 3 left" in run("ledger", "show", "--ledger", ledger).out


@pytest.mark.long
def test_a_job_in_the_background_goes_on(visits: str) -> None:
    ignoring = INTERRUPTIBLE.replace("signal.default_int_handler", "signal.SIG_IGN")
    code = AT_MODULE.format(module="duckdb") + ignoring
    process = began(code, "query", visits, "--row", "--epsilon", "300", COUNT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"400" in out
