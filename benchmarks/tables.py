"""Tables of benchmarks: printed by the scripts, kept as JSON, written into the pages.

    python benchmarks/tables.py          writes every table of results/*.json into the pages *.md
    python benchmarks/tables.py --check  changes nothing, and ends with 1 where a page differs

A script with ``--json benchmarks/results/SCRIPT.json`` puts the tables of its run there, each with
the date, the command, the versions and the load of the machine, in place of those of the same
names; the others are kept. A page holds a table between the lines ``<!-- SCRIPT: TABLE -->`` and
``<!-- end -->``.

A column has a head and a format: ``.3f``, ``,.0f``, ... for numbers, which stand to the right;
``>`` for texts to the right, and nothing for texts to the left. A cell is a number, or a text where
there is none, and is then shown as it is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PACKAGES = ("duckdb", "numpy", "scipy", "torch")
"""Whose versions are kept, where they are installed."""
BLOCK = re.compile(
    r"^<!-- (?P<script>\w+): (?P<name>[\w-]+) -->\n(?P<table>.*?)^<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)

LOAD = f"load {os.getloadavg()[0]:.1f} at the start"

Cell = str | int | float | None


@dataclass(slots=True, kw_only=True)
class Table:
    """Columns, by head and format, and rows; facts: its date, command, versions and conditions."""

    columns: Sequence[tuple[str, str]]
    rows: list[list[Cell]] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def heads(self) -> str:
        """The two lines above the rows."""
        lines = "|".join("---:" if spec else "---" for _, spec in self.columns)
        return f"{_joined([name for name, _ in self.columns])}\n|{lines}|"

    def line(self, cells: Sequence[Cell]) -> str:
        """A row."""
        both = zip(cells, self.columns, strict=True)
        return _joined([shown_as(cell, spec) for cell, (_, spec) in both])

    def markdown(self) -> str:
        """All of it."""
        return "\n".join([self.heads(), *map(self.line, self.rows)]) + "\n"


def _joined(cells: Sequence[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def shown_as(cell: Cell, spec: str) -> str:
    """A cell as text; numbers as their column writes them."""
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else format(cell, spec.strip(">"))


class Report:
    """The tables of a run, printed as they grow; on leaving they are written where `file` says.

    peers: versions of other tools, by name.

    >>> with Report("speed", None) as report:
    ...     table = report.table("sums", [("tool", ""), ("ms", ".1f")])
    ...     table("unacorda", 7.04)
    | tool | ms |
    |---|---:|
    | unacorda | 7.0 |
    """

    def __init__(
        self, script: str, file: Path | None, *, peers: Mapping[str, str] | None = None
    ) -> None:
        self.file, self.script = file, Path(script).stem
        self.tables: dict[str, Table] = {}
        self.facts = facts(peers or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        found = {name: table for name, table in self.tables.items() if table.rows}
        if self.file is not None and found:
            kept = read(self.file) if self.file.exists() else {}
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(written(self.script, {**kept, **found}))

    def table(self, name: str, columns: Sequence[tuple[str, str]], *, title: str = "") -> Rows:
        """Begin a table; what is given back adds a row, cell by cell."""
        table = self.tables[name] = Table(columns=columns, facts=self.facts)
        print(f"\n{title}\n\n{table.heads()}" if title else table.heads(), flush=True)
        return Rows(table)


class Rows:
    """Adds rows to a table and prints them."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __call__(self, *cells: Cell) -> None:
        self.table.rows.append([plain(cell) for cell in cells])
        print(self.table.line(cells), flush=True)


def plain(cell: Any) -> Cell:
    """A cell without the types of NumPy; numbers to twelve digits."""
    if cell is None or isinstance(cell, str):
        return cell
    return int(cell) if cell == int(cell) else float(f"{cell:.12g}")


def facts(peers: Mapping[str, str]) -> dict[str, Any]:
    """When, how and with what a run was made."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "command": command(sys.argv),
        "conditions": f"{os.cpu_count()} cores, {platform.machine()}, {LOAD}",
        "versions": {**found, **peers},
    }


def command(words: Sequence[str]) -> str:
    """A command without where it wrote, and without paths of one machine."""
    kept: list[str] = []
    for before, word in itertools.pairwise(words):
        if "--json" not in (before, word):
            kept.append("PATH" if Path(word).is_absolute() else word)
    return " ".join(["python", f"benchmarks/{Path(words[0]).name}", *kept])


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option for where the tables are written."""
    said = "write the tables there; benchmarks/results/SCRIPT.json is what the pages show"
    parser.add_argument("--json", type=Path, metavar="FILE", help=said)


# ---- files -----------------------------------------------------------------------------------


def read(file: Path) -> dict[str, Table]:
    """The tables of a file, by name."""
    found = json.loads(file.read_text())["tables"]
    return {
        name: Table(
            columns=[(head, spec) for head, spec in one.pop("columns")],
            rows=one.pop("rows"),
            facts=one,
        )
        for name, one in found.items()
    }


def written(script: str, tables: Mapping[str, Table]) -> str:
    """Tables as JSON, a line a row."""
    blocks = []
    for name, table in tables.items():
        rows = ",\n".join(f"        {_json(row)}" for row in table.rows)
        lines = [f"      {_json(key)}: {_json(value)}," for key, value in table.facts.items()]
        lines += [f'      "columns": {_json([list(one) for one in table.columns])},']
        lines += [f'      "rows": [\n{rows}\n      ]']
        blocks.append(f"    {_json(name)}: {{\n" + "\n".join(lines) + "\n    }")
    inside = ",\n".join(blocks)
    return f'{{\n  "script": {_json(f"{script}.py")},\n  "tables": {{\n{inside}\n  }}\n}}\n'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def rendered(page: str, results: Path = RESULTS) -> str:
    """A page with the tables that the files hold; KeyError for one that none holds."""

    def table(found: re.Match[str]) -> str:
        kept = read(results / f"{found['script']}.json")[found["name"]]
        return f"<!-- {found['script']}: {found['name']} -->\n{kept.markdown()}<!-- end -->"

    return BLOCK.sub(table, page)


def main() -> int:
    """Write the pages, or say which differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    check, differ = parser.parse_args().check, []
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text()
        now = rendered(text)
        if now != text:
            differ.append(page.name)
            if not check:
                page.write_text(now)
    print(*(f"{'differs' if check else 'written'}: {name}" for name in differ), sep="\n")
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
