"""The files by which a server is deployed say what the pages say, and name what there is."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.cli_seams import app

ROOT = Path(__file__).parents[2]


def test_the_unit_of_systemd_gives_no_rights() -> None:
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their capitals
    unit.read_string((ROOT / "deploy" / "unacorda.service").read_text())
    service = dict(unit["Service"])
    wanted = {"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes"}
    wanted |= {"CapabilityBoundingSet": "", "UMask": "0077"}
    assert {name: service[name] for name in wanted} == wanted
    assert service["MemoryMax"]
    assert int(service["TimeoutStopSec"]) > 60  # `shutdown`, and what follows it


@pytest.mark.long
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze")
    text = (ROOT / "deploy" / "unacorda.service").read_text()
    unit = tmp_path / "unacorda.service"
    unit.write_text(text.replace("/opt/unacorda/bin/unacorda", sys.executable))
    found = subprocess.run(
        [program, "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_the_container_runs_without_rights_and_installs_what_there_is() -> None:
    lines = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (installs,) = (line for line in lines if "pip install" in line)
    named = installs.partition("[")[2].partition("]")[0].split(",")
    assert set(named) <= set(extras)
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER 10001"]
    assert lines.index(users[0]) < lines.index('CMD ["serve", "/served/server.toml"]')


def test_verbs_on_the_page_are_there() -> None:
    page = (ROOT / "docs" / "server-administration.md").read_text()
    for verb in ("check", "find-max-rows", "token add", "token revoke", "analyst close", "backup"):
        assert f"unacorda server {verb}" in page
        asked = CliRunner().invoke(app, ["server", *verb.split(), "--help"])
        assert asked.exit_code == 0
