"""The project's former name, which another project bears now, is gone from every file."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORMER = re.compile(r"tacet", re.IGNORECASE)
OUTSIDE = re.compile(
    r"https?://[^\s'\"]*(?:pypi|pytorch|simple|whl)|--(?:extra-)?index-url|PIP_INDEX"
)


def files() -> list[Path]:
    """What a clone holds: the files that git tracks or would, not what tools leave behind."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("The files of a checkout are listed by git, and this is none.")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.long
def test_the_former_name_stands_in_one_line_of_the_changelog_and_here() -> None:
    found = {}
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        lines = path.read_bytes().decode("utf-8", "replace").splitlines()
        count = sum(1 for line in lines if FORMER.search(line))
        if count or FORMER.search(name):
            found[name] = count
    assert found.pop(Path(__file__).relative_to(ROOT).as_posix()) >= 1
    assert found == {"CHANGELOG.md": 1}


def test_the_verification_names_no_index_of_packages() -> None:
    assert (ROOT / ".ci" / "run").is_file()
    for path in sorted((ROOT / ".ci").iterdir()):
        assert not OUTSIDE.search(path.read_text()), path
