"""Runs an example as its reader would, and hands out what it defines."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["lines_of", "names_of"]

EXAMPLES = Path(__file__).parents[2] / "examples"


def lines_of(name: str, *arguments: str) -> list[str]:
    """What the example prints, in a process of its own where warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def names_of(name: str) -> dict[str, Any]:
    """The names that the example defines, its main part left out."""
    return runpy.run_path(str(EXAMPLES / name))
