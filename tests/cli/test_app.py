"""`unacorda` itself: help, version, documentation, pipes and terminals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.conftest import ENVIRONMENT, ROOT, Run
from tests.cli.terminal import on_terminal
from tests.support.cases import in_subtests
from tests.support.cli_seams import ExitCode, app

import unacorda

VERBS = [
    ("query",),
    ("describe",),
    ("fit",),
    ("synthesize",),
    ("series", "suggest"),
    ("series", "open"),
    ("series", "answer"),
    ("series", "show"),
    ("demo",),
    ("account",),
    ("calibrate",),
    ("audit",),
    ("plot",),
    ("verify",),
    ("ledger", "show"),
    ("ledger", "init"),
    ("ledger", "verify"),
    ("ledger", "export"),
    ("ledger", "limit"),
    ("serve",),
    ("ask",),
    ("server", "check"),
    ("server", "example"),
    ("server", "token", "add"),
    ("server", "token", "list"),
    ("server", "token", "revoke"),
    ("server", "analyst", "add"),
    ("server", "analyst", "limit"),
    ("server", "analyst", "close"),
    ("server", "openapi"),
    ("server", "find-max-rows"),
    ("server", "backup"),
]

SILENT = [("ledger", "export"), ("serve",), ("server", "example"), ("server", "token", "add")]
SILENT += [("server", "token", "revoke"), ("server", "openapi"), ("server", "find-max-rows")]
SILENT += [("server", "analyst", verb) for verb in ("add", "limit", "close")]
"""Verbs that print nothing else than a line, or lines of JSON."""


@in_subtests("verb", [*VERBS, ("ledger",), ("series",)])
def test_every_verb_has_help_with_an_example(verb: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*verb, "--help"])
    assert result.exit_code == 0
    assert re.search(r"Examples?:\n +unacorda ", result.output)
    if verb not in {("ledger",), ("series",)}:
        assert "Exit codes:" in result.output
        assert "--json" in result.output or verb in SILENT


def test_the_root_lists_the_verbs_that_work() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    listed = re.findall(r"^  (\w+) ", output.partition("Commands:")[2], flags=re.MULTILINE)
    assert listed == [
        "demo",
        "query",
        "describe",
        "fit",
        "synthesize",
        "series",
        "account",
        "calibrate",
        "audit",
        "plot",
        "verify",
        "ledger",
        "serve",
        "server",
        "ask",
    ]


@pytest.mark.long
def test_the_page_names_every_verb_option_and_exit_code() -> None:
    pages = [ROOT / "docs" / "cli.md", *(ROOT / "docs" / "cli").glob("*.md")]
    page = "\n".join(one.read_text() for one in pages)
    for verb in VERBS:
        assert f"## unacorda {' '.join(verb)}" in page
        options = CliRunner().invoke(app, [*verb, "--help"]).output.partition("Options:")[2]
        for option in re.findall(r"^  (--[a-z-]+)", options, flags=re.MULTILINE):
            assert f"`{option}" in page, option
    for code in ExitCode:
        assert f"| {int(code)} |" in page


@pytest.mark.long
def test_version(spawn: Run) -> None:
    ran = spawn("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"unacorda {unacorda.__version__}\n", "")


@pytest.mark.long
def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from unacorda.cli.app import main; main(['--help'])\n"
        "heavy = {'rich', 'numpy', 'scipy', 'duckdb', 'sqlglot', 'sqlalchemy'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_no_colour_in_a_pipe_whatever_the_environment_says(spawn: Run, visits: str) -> None:
    count = ("query", visits, "--row", "--epsilon", "1", "SELECT COUNT(*) AS n FROM visits")
    for arguments in (count, ("--help",), ("query", "--nix"), ("query", visits)):
        ran = spawn(*arguments, FORCE_COLOR="1", GITHUB_ACTIONS="1", PY_COLORS="1")
        assert "\x1b" not in ran.out + ran.err


@pytest.mark.slow
def test_a_terminal_gets_colour_unless_no_color_is_set(visits: str) -> None:
    asked = ("query", visits, "--row", "--epsilon", "1", "--keys", "county=A,[red]")
    grouped = (*asked, "SELECT county, COUNT(*) AS n FROM visits GROUP BY county")
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
    shown = on_terminal(*grouped).out
    assert colour.search(shown)
    assert "[red]" in shown, "a key was read as markup"
    plain = on_terminal(*grouped, NO_COLOR="1").out
    assert not colour.search(plain)
    assert "county" in plain
    assert "\x1b" not in on_terminal(*grouped, TERM="dumb").out


@pytest.mark.long
def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "unacorda", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 141
    assert err == b""


@pytest.mark.long
def test_a_question_about_a_small_file_loads_no_engine_of_the_accountant(tmp_path: Path) -> None:
    """Nor SciPy: most of the time of a short command were imports."""
    table = tmp_path / "visits.csv"
    table.write_text("patient,age\n1,30\n2,50\n")
    code = (
        "import sys; from unacorda.cli.app import main; "
        f"done = main(['query', {str(table)!r}, 'SELECT COUNT(*) AS n FROM visits', "
        "'--unit', 'patient', '--max-rows', '1', '--epsilon', '1']); "
        "print([name for name in sys.modules if name in ('scipy', 'unacorda.accounting.findings', "
        "'unacorda.query.fit', 'unacorda.query.describe', 'pandas')], done)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"
