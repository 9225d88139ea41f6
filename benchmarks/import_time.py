"""How long ``import unacorda`` takes in a fresh process, beside its peers where they are installed.

    python benchmarks/import_time.py [--venvs DIR] [--rounds 15]

Each measurement is a process of its own, which times one import statement from the inside, so that
the start of Python is not counted. Rounds are interleaved and the first, which may write bytecode,
is dropped. Peers are looked for in the environments that ``benchmarks/query.py`` makes. With
``from unacorda import Session`` stands what a user pays who then asks a question, since unacorda
loads its parts when they are first named. ``modules`` is the number of modules an import brings in.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tables import Report, add_json
from tools import CACHE

STATEMENTS = (
    ("unacorda", "import unacorda"),
    ("unacorda", "from unacorda import Session"),
    ("opendp", "import opendp.prelude"),
    ("smartnoise", "import snsql"),
    ("duckdb", "import duckdb"),
)
PROBE = """
import sys, time
before = len(sys.modules)
began = time.perf_counter()
{statement}
print(time.perf_counter() - began, len(sys.modules) - before)
"""


@dataclass(slots=True)
class Record:
    python: Path
    seconds: list[float] = field(default_factory=list)
    modules: int = 0
    failure: str = ""


def measure(statement: str, record: Record, *, isolated: bool) -> None:
    """One fresh process; a peer's runs without the caller's PYTHONPATH."""
    settings = dict(os.environ)
    if isolated:
        settings.pop("PYTHONPATH", None)
    command = [record.python, "-c", PROBE.format(statement=statement)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        record.failure = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return
    seconds, modules = done.stdout.split()[-2:]
    record.seconds.append(float(seconds))
    record.modules = int(modules)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--unacorda-python", type=Path, default=Path(sys.executable))
    add_json(parser)
    options = parser.parse_args()

    records: dict[tuple[str, str], Record] = {}
    for tool, statement in STATEMENTS:
        python = options.venvs / tool / "bin" / "python"
        if tool == "unacorda":
            python = options.unacorda_python
        if python.exists():
            records[tool, statement] = Record(python)
        else:
            print(f"{tool}: not installed under {options.venvs}", file=sys.stderr)
    for _ in range(1 + options.rounds):
        for (tool, statement), record in records.items():
            if not record.failure:
                measure(statement, record, isolated=tool != "unacorda")

    columns = [("statement", ""), ("median ms", ".1f"), ("fastest ms", ".1f")]
    columns += [("slowest ms", ".1f"), ("modules", ".0f")]
    with Report(__file__, options.json) as report:
        row = report.table("imports", columns)
        for (_, statement), record in records.items():
            shown = f"`{statement}`"
            if record.failure:
                row(shown, f"failed: {record.failure}", None, None, None)
                continue
            times = [1000 * seconds for seconds in record.seconds[1:]]
            row(shown, statistics.median(times), min(times), max(times), record.modules)


if __name__ == "__main__":
    main()
