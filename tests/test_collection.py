"""The tests run where the machine is not as tidy as it could be."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests import postgres_server

ROOT = Path(__file__).parents[1]


@pytest.mark.long
def test_tests_collect_beside_a_distribution_that_brings_a_package_called_tests(
    tmp_path: Path,
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    files = ["tests/ledger/test_tampering.py", "tests/query/test_postgres_engine.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "--collect-only", *files],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{tmp_path}"},
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.service
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root has another user")
def test_postgresql_starts_where_its_programs_lie_in_a_folder_of_root_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Path(postgres_server._binary("postgres")).parents[1]
    with tempfile.TemporaryDirectory(prefix="home-") as folder:  # its mode is 0700
        home = Path(folder)
        link = shutil.copytree(
            installed, home / "site" / installed.parent.name / installed.name, symlinks=True
        )
        libraries = installed.parents[1] / f"{installed.parent.name}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, home / "site" / libraries.name)
        monkeypatch.setattr(postgres_server, "_binary", lambda name: str(link / "bin" / name))
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        running = postgres_server.Server()
        with contextlib.closing(running.connect()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        running.crash()
