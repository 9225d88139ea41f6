"""What the pages about the server say to type, typed as it stands there, from first to last."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.server.test_running import free_port
from tests.support.seams import open_ledger

from unacorda import ZCDP

ROOT = Path(__file__).parents[2]
PAGES = ("server", "server/operation", "server/page", "server/guarantees", "server-administration")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(unacorda [^`]*server\.toml[^`]*)`")
WAIT = "until curl -s -o /dev/null http://127.0.0.1:8040/openapi.json; do sleep 0.2; done\n"


def script() -> str:
    """The blocks of the pages in order, the server in the background."""
    text = "".join((ROOT / "docs" / f"{page}.md").read_text() for page in PAGES[:2])
    lines = ["set -euo pipefail\n"]
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            lines += ["unacorda-python - <<'EOF'\n", block, "EOF\n"]
            continue
        begun = block.replace(
            "unacorda serve demo/server.toml\n",
            f"unacorda serve demo/server.toml & trap 'kill $!; wait' EXIT\n{WAIT}",
        )
        # A refusal is no failure of curl's own.
        lines.append(begun.replace("curl -s ", "echo; curl -s --fail-with-body "))
    return "".join(lines)


def inline(folder: str) -> list[str]:
    """The commands within the text of the pages, about the example."""
    found = []
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for number, one in enumerate(INLINE.findall(text)):
            said = one.replace("demo/", "").replace("server.toml", "demo/server.toml")
            found.append(said.replace("FOLDER", f"{folder}/{Path(page).name}{number}"))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_runs_as_it_is_written(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in (("unacorda", "-m unacorda"), ("unacorda-python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        program.chmod(0o755)
    port = str(free_port())
    example = 'unacorda server example demo && sed -i "s/:8040/:PORT/" demo/server.toml'
    text = script().replace("unacorda server example demo", example)
    commands = inline(str(tmp_path / "copies"))
    assert len(commands) >= 5
    (tmp_path / "copies").mkdir()
    commands = [
        one.replace(" ID", " $(unacorda server token list demo/server.toml --json | grep -om1 "
                    "'[0-9a-f]\\{12\\}')")
        for one in commands
    ]  # fmt: skip
    text += "".join(f"{one}\n" for one in commands)
    text = (
        text.replace("8040", port).replace(":PORT", f":{port}").replace(f"s/:{port}/", "s/:8040/")
    )
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", text],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert "tag:unacorda" not in ran.stdout
    assert json.loads((tmp_path / "release.json").read_text())["format"] == "unacorda release 1"
    assert '"holds":true' in ran.stdout
    assert sorted(one.name for one in (tmp_path / "copies").iterdir())
    with closing(open_ledger(f"sqlite:///{tmp_path / 'demo' / 'budgets.db'}")) as ledger:
        assert ledger.spent("visits", "ana") == ledger.limit("visits", "ana") == ZCDP("0.02")
        assert ledger.remaining("visits", "eve") == ZCDP(0)
