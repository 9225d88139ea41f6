"""The tools a benchmark runs: each in its own virtual environment and its own process."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "unacorda-bench"


def environment(name: str, venvs: Path) -> Path:
    """The Python of a tool's own virtual environment, made anew when its requirements change."""
    requirements = HERE / "peers" / f"{name}.txt"
    place = venvs / name
    done = place / "requirements-installed.txt"
    python = place / "bin" / "python"
    if not (done.exists() and done.read_text() == requirements.read_text()):
        print(f"making {place}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        install = [python, "-m", "pip", "install", "-qq", "-r", requirements]
        subprocess.run(install, check=True)
        done.write_text(requirements.read_text())
    return python


class Tool:
    """A process with one thread that reads a question a line, as JSON, and writes its answer.

    greeting: what it said when it was ready. ours: it may import this checkout.
    """

    def __init__(self, command: list[Any], *, ours: bool) -> None:
        settings = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        if not ours:
            settings.pop("PYTHONPATH", None)  # it may point at a checkout of unacorda
        self.process = subprocess.Popen(
            command, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.greeting = self._read()

    def ask(self, question: Any) -> Any:
        assert self.process.stdin
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return self._read()

    def stop(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def _read(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())
