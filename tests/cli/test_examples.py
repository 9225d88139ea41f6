"""The examples of the helps and of the page: each runs, and prints what the page says it prints."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import shlex

import click
import pytest
from tests.cli.conftest import ROOT, Run
from tests.support.cli_seams import app
from tests.tiers import mostly_slow

PAGE = (ROOT / "docs" / "cli" / "account.md").read_text()
SHELL = re.compile(
    r"```sh\n(unacorda (?:account|calibrate) .*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL
)


def commands(text: str) -> list[str]:
    """The commands of an example, each with its continued lines."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line.strip() for line in joined.splitlines() if line.strip().startswith("unacorda ")]


VERBS = [app.get_command(click.Context(app), name) for name in ("account", "calibrate")]
HELPED = [one for verb in VERBS if verb is not None for one in commands(verb.help or "")]
PAGED = [(commands(shell)[0], printed) for shell, printed in SHELL.findall(PAGE)]


def alike(printed: str, said: str) -> bool:
    """Whether two words are equal, as numbers to eight digits; tiny ones are roundings."""
    try:
        first, second = float(printed.strip(";")), float(said.strip(";"))
    except ValueError:
        return printed == said
    return abs(first - second) <= 1e-8 * abs(second) or max(first, second) < 1e-6


def test_there_are_examples() -> None:
    assert len(HELPED) == 6
    assert len(PAGED) == 4
    assert sum(bool(printed) for _, printed in PAGED) == 2


@pytest.mark.parametrize("command", mostly_slow([*HELPED, *(command for command, _ in PAGED)]))
def test_each_example_runs(run: Run, command: str) -> None:
    ran = run(*shlex.split(command)[1:])
    assert ran.code == 0, ran.err
    assert ran.out


@pytest.mark.parametrize(("command", "said"), [example for example in PAGED if example[1]])
def test_the_page_prints_what_the_command_prints(run: Run, command: str, said: str) -> None:
    printed = run(*shlex.split(command)[1:]).out.split()
    assert len(printed) == len(said.split())
    different = [
        (one, other)
        for one, other in zip(printed, said.split(), strict=True)
        if not alike(one, other)
    ]
    assert different == []


def test_alike_is_no_blank_cheque() -> None:
    assert not alike("6.187712389", "6.187713389")
    assert not alike("closed", "contour")
    assert alike("6.187712389", "6.18771239")
