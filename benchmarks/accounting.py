"""How tight, fast and small the accountant is, beside dp_accounting, PRV, Opacus and autodp.

    python benchmarks/accounting.py [--cases NAME ...] [--tools NAME ...] [--quick] [--json FILE]
    python benchmarks/accounting.py --box 300        # unacorda alone, on random sampled Gaussians
    python benchmarks/accounting.py --references     # compute the reference values anew

Every peer has a virtual environment of its own, made from benchmarks/peers/NAME.txt and kept under
--venvs; one that can not be installed is said in the tables. For each case every tool gets a fresh
process, one thread, which is asked the question once (the cold call: its time, its answer and the
memory it took above what was held after imports). Then the processes live on and take turns: in
each round every tool is asked once more, fast ones in batches of 0.05 s, each time with noise (or
the target) changed by some parts in 1e9, so that no tool can remember an answer. A time is that of
a whole question, from plain numbers to the answer. A tool that has used --patience seconds of a
case is not asked again; a call longer than --limit seconds, or one that takes more than --memory
MiB, ends that tool's process and is written down.

The reference is the true epsilon (or least noise) in 34-digit arithmetic, from
accounting_references.json: computed without unacorda by another method, twice with other settings.
"from reference" is the tool's number minus the truth over the truth: an upper bound may only lie
above. "tool : unacorda" says how many times longer the tool took. CPU milliseconds are the
process's own; where they lie far below the others, something else kept the machine busy.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accounting_cases import CASES, Case, draws, references
from accounting_tables import Record, box_table, case_table, header, overview, trouble_table
from query import machine
from tables import Report, add_json
from tools import CACHE, environment

HERE = Path(__file__).resolve().parent
TOOLS = {  # name: environment, and the argument of its script
    "unacorda": ("unacorda", ""),
    "dp_accounting-pld": ("dp_accounting", "pld"),
    "dp_accounting-rdp": ("dp_accounting", "rdp"),
    "prv_accountant": ("prv_accountant", ""),
    "opacus-prv": ("opacus", "prv"),
    "opacus-rdp": ("opacus", "rdp"),
    "autodp-rdp": ("autodp", "rdp"),
    "autodp-afa": ("autodp", "afa"),
}


class Worker:
    """A tool's process. Once a call has failed to come back, it is dead and says why."""

    def __init__(self, command: list[Any], *, ours: bool, limit: float) -> None:
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        settings = dict(os.environ, **dict.fromkeys(threads, "1"))
        if not ours:
            settings.pop("PYTHONPATH", None)  # it may point at a checkout of unacorda
        self.limit = limit
        self.dead = ""
        self.remarks = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in stop
        self.process = subprocess.Popen(
            command,
            env=settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.remarks,
            text=True,
        )
        if self._read() != "ready":
            self.dead = f"does not start: {self.dead}"

    def ask(self, do: str, case: Case, **more: float) -> dict[str, Any]:
        if self.dead:
            return {"failure": self.dead}
        assert self.process.stdin
        task = {"do": do, "case": case, **more}
        with contextlib.suppress(BrokenPipeError):  # a dead process answers nothing either
            print(json.dumps(task), file=self.process.stdin, flush=True)
        said = self._read()
        return {"failure": self.dead} if self.dead else dict(json.loads(said))

    def stop(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.remarks):
            with contextlib.suppress(BrokenPipeError):
                file.close()

    def _read(self) -> str:
        assert self.process.stdout
        late = threading.Event()

        def end() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(self.limit, end)
        timer.start()
        line = self.process.stdout.readline().strip()
        timer.cancel()
        if not line:
            code = self.process.wait()
            over = f"over the limit of {self.limit:.0f} s"
            self.dead = over if late.is_set() else f"died ({code}): {self._last_words()}"
        return line

    def _last_words(self) -> str:
        self.remarks.seek(0)
        return (self.remarks.read().strip().splitlines() or ["no message"])[-1][:160]


def start(name: str, python: Path, *, limit: float) -> Worker:
    place, argument = TOOLS[name]
    script = HERE / "peers" / f"accounting_{place}.py"
    command = [python, script, *([argument] if argument else [])]
    return Worker(command, ours=name == "unacorda", limit=limit)


def measure(case: Case, workers: dict[str, Worker], options: argparse.Namespace) -> list[Record]:
    """Cold calls one after the other, then rounds in which the tools take turns."""
    records = {name: Record(tool=name) for name in workers}
    for name, worker in workers.items():
        began = time.perf_counter()
        records[name].note_cold(worker.ask("cold", case, limit_mib=options.memory))
        print(
            f"  {name}: {time.perf_counter() - began:.1f} s {records[name].failure}",
            file=sys.stderr,
            flush=True,
        )
    names = list(workers)
    for turn in range(options.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            record = records[name]
            if record.hint is not None and record.spent < options.patience:
                record.note_time(workers[name].ask("time", case, hint=record.hint))
    for name, record in records.items():
        if name == "unacorda" and record.hint is not None:
            record.note_directions(workers[name].ask("directions", case))
    return list(records.values())


def measured(options: argparse.Namespace, pythons: dict[str, Path | str]) -> dict[str, Any]:
    """All cases; tables are printed as they are made."""
    kept = references()
    out: dict[str, Any] = {}
    for name in options.cases:
        case = CASES[name]
        print(f"{name} ...", file=sys.stderr, flush=True)
        records, workers = [], {}
        for tool in options.tools:
            python = pythons[TOOLS[tool][0]]
            if isinstance(python, str):
                records.append(Record(tool=tool, failure=python))
            else:
                workers[tool] = start(tool, python, limit=options.limit)
        records += measure(case, workers, options)
        for worker in workers.values():
            worker.stop()
        records.sort(key=lambda record: options.tools.index(record.tool))
        known = kept.get(name)
        print("\n".join(case_table(case, records, known)), flush=True)
        out[name] = {
            "question": case["title"],
            "reference": known,
            "tools": {record.tool: record.as_json(known) for record in records},
        }
    return out


def box(options: argparse.Namespace) -> dict[str, Any]:
    """Width and time of unacorda on random cases; a late or failed case starts a new process."""
    limit, python = options.limit, options.unacorda_python
    found = []
    worker = start("unacorda", python, limit=limit)
    for warm_up in draws(3, seed=1):
        worker.ask("time", warm_up, hint=1.0)
    for case in draws(options.box):
        said = worker.ask("time", case, hint=1.0)
        found.append({"delta": case["delta"], **case["parts"][0], **said})
        if worker.dead:
            worker.stop()
            worker = start("unacorda", python, limit=limit)
    worker.stop()
    lines, summary = box_table(found)
    print("\n".join(lines), flush=True)
    return {"summary": summary, "draws": found}


def made(places: Iterable[str], options: argparse.Namespace) -> dict[str, Path | str]:
    """The Python of each environment, or why there is none."""
    found: dict[str, Path | str] = {}
    for place in places:
        try:
            found[place] = (
                options.unacorda_python
                if place == "unacorda"
                else environment(place, options.venvs)
            )
        except (subprocess.CalledProcessError, OSError) as failure:
            found[place] = f"can not be installed on this Python ({type(failure).__name__})"
    return found


def versions(places: Iterable[str]) -> dict[str, str]:
    """The pin of each peer, which is the first in its requirements."""
    found = {}
    for place in places:
        if place != "unacorda":
            lines = (HERE / "peers" / f"{place}.txt").read_text().splitlines()
            found[place] = next(line for line in lines if "==" in line).partition("==")[2]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="three rounds, patience 20 s")
    parser.add_argument("--box", type=int, metavar="N", help="N random cases, unacorda alone")
    parser.add_argument("--references", action="store_true", help="compute them anew, then stop")
    parser.add_argument("--details", type=Path, metavar="FILE", help="write everything there")
    add_json(parser)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds one call may take")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds of a tool a case")
    parser.add_argument("--memory", type=float, default=6144.0, help="MiB one call may take")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--unacorda-python", type=Path, default=Path(sys.executable))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.patience = min(options.rounds, 3), min(options.patience, 20.0)
    if options.references:
        # Not imported here: a child's peak memory counts from what its parent held at its start.
        script = [options.unacorda_python, HERE / "accounting_references.py", *options.cases]
        subprocess.run(script, check=True)
        return

    said: dict[str, Any] = {"machine": machine(), "settings": settings(options)}
    if options.box:
        said["box"] = box(options)
    else:
        places = dict.fromkeys(TOOLS[tool][0] for tool in options.tools)
        said["versions"] = versions(places)
        pythons = made(places, options)
        print("\n".join(header(said)), flush=True)
        said["cases"] = measured(options, pythons)
        print("\n".join(trouble_table(said["cases"])), flush=True)
        others = [tool for tool in options.tools if tool != "unacorda"]
        with Report(__file__, options.json, peers=said["versions"]) as report:
            overview(report, said["cases"], others)
    if options.details:
        options.details.write_text(json.dumps(said, indent=1) + "\n")


def settings(options: argparse.Namespace) -> dict[str, Any]:
    names = ("rounds", "limit", "patience", "memory")
    return {name: getattr(options, name) for name in names}


if __name__ == "__main__":
    main()
