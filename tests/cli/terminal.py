"""The command on a terminal."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import pty
import subprocess
import sys

from tests.cli.conftest import ENVIRONMENT, Ran

__all__ = ["on_terminal"]


def on_terminal(*arguments: str, **environment: str) -> Ran:
    """What a command writes to a terminal of 80 columns: stdout and stderr together, as `out`."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "unacorda", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**ENVIRONMENT, "COLUMNS": "80", **environment},
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    return Ran(code=process.wait(timeout=60), out=written.decode().replace("\r\n", "\n"), err="")
