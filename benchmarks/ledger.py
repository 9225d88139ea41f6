"""Ledgers: durable reservations a second beside bare commits, decisions, and a thousand SIGKILLs.

    python benchmarks/ledger.py [--rounds N] [--questions N] [--kills N] [--folder PATH]

Reservations and bare commits take turns, so many in each round, and the median round is told: a
bare commit writes one row of as many bytes, with the same settings of the same database, and does
nothing else. PostgreSQL is a server that this script starts, with fsync on. Everything is written
under --folder, which decides what disk is measured.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from tables import Report, add_json

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.postgres_server import empty_schema, server  # noqa: E402

from unacorda.accounting.filters import Filter  # noqa: E402
from unacorda.ledger.entries import Charge  # noqa: E402
from unacorda.ledger.ledger import Ledger, open_ledger  # noqa: E402
from unacorda.privacy.events import Laplace  # noqa: E402
from unacorda.privacy.guarantees import ZCDP, PureDP  # noqa: E402

EVENT = Laplace(noise_multiplier=Fraction(10, 3))
CHARGE = Charge(
    cost=PureDP("0.1"),
    event=EVENT,
    request=PureDP("0.1"),
    reproducible=False,
    plan_digest="ab" * 32,
    salt=b"0" * 16,
    analyst="ana",
)
BUDGET = PureDP(10**9)
BYTES = 1000


def reserve(ledger: Ledger, sub_account: str | None = None) -> None:
    ledger.reserve("visits", CHARGE, sub_account=sub_account)


def opened(url: str | None) -> Ledger:
    ledger = open_ledger(url)
    ledger.open_account("visits", BUDGET, {"unit": "person", "neighbors": "AddRemove"})
    ledger.open_sub_account("visits", "ana", BUDGET)
    return ledger


def bare_sqlite(folder: Path) -> Callable[[], None]:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, text TEXT)")

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO bare (text) VALUES (?)", ("x" * BYTES,))
        connection.execute("COMMIT")

    return commit


def bare_postgres() -> Callable[[], None]:
    connection = server().connect()
    connection.execute("CREATE TABLE bare (id BIGSERIAL PRIMARY KEY, text TEXT)")

    def commit() -> None:
        with connection.transaction():
            connection.execute("INSERT INTO bare (text) VALUES (%s)", ("x" * BYTES,))

    return commit


def per_second(act: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        act()
    return times / (time.perf_counter() - start)


def together(ledger: Ledger, threads: int, questions: int) -> float:
    """Reservations a second of several threads on one ledger object."""
    workers = [
        threading.Thread(target=lambda: [reserve(ledger) for _ in range(questions // threads)])
        for _ in range(threads)
    ]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return questions / (time.perf_counter() - start)


def process(url: str, questions: int, ready: Any, go: Any, done: Any) -> None:
    ledger = opened(url)
    reserve(ledger)
    ready.release()
    go.wait()
    for _ in range(questions):
        reserve(ledger)
    done.release()
    ledger.close()


def processes(url: str, count: int, questions: int) -> float:
    """Reservations a second of several processes on one ledger."""
    context = multiprocessing.get_context("spawn")
    ready, go, done = context.Semaphore(0), context.Event(), context.Semaphore(0)
    workers = [
        context.Process(target=process, args=(url, questions // count, ready, go, done))
        for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    start = time.perf_counter()
    go.set()
    for _ in workers:
        done.acquire()
    seconds = time.perf_counter() - start
    for worker in workers:
        worker.join()
    return questions / seconds


def microseconds(act: Callable[[], object], times: int = 20_000, rounds: int = 9) -> float:
    """Of processor time, the best of several rounds: other load beside it does not count."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(times):
            act()
        found.append((time.process_time() - start) / times * 1e6)
    return min(found)


def decisions() -> dict[str, float]:
    """A filter after a hundred thousand charges decides, and takes a charge in."""
    found = {}
    for name, budget, charge in (
        ("PureDP", PureDP(10**6), PureDP("0.1")),
        ("ZCDP with delta", ZCDP(10**6, "0.5"), ZCDP("0.01", "1e-12")),
    ):
        filled = Filter(budget)
        for _ in range(100_000):
            filled = filled.spend(charge)
        found[f"{name}, decision"] = microseconds(lambda f=filled, c=charge: f.admits(c))
        found[f"{name}, new sums"] = microseconds(lambda f=filled, c=charge: f.spend(c))
    return found


def throughput(folder: Path, *, rounds: int, questions: int) -> dict[str, float]:
    """Commits and reservations a second, in rounds by turns."""
    sqlite, postgres = f"sqlite:///{folder}/budget.db", empty_schema()
    ledgers = {"memory": opened(None), "SQLite": opened(sqlite), "PostgreSQL": opened(postgres)}
    acts: dict[str, Callable[[], float]] = {}

    def one(act: Callable[[], None], share: int = 1) -> Callable[[], float]:
        return lambda: per_second(act, questions // share)

    acts["SQLite, bare commit"] = one(bare_sqlite(folder))
    acts["PostgreSQL, bare commit"] = one(bare_postgres(), 4)
    for name, ledger in ledgers.items():
        share = 4 if name == "PostgreSQL" else 1
        acts[f"{name}, reservation"] = one(lambda b=ledger: reserve(b), share)
        acts[f"{name}, with a sub-account"] = one(lambda b=ledger: reserve(b, "ana"), share)
        acts[f"{name}, 8 threads"] = lambda b=ledger, s=share: together(b, 8, questions // s)
    seen: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(rounds):
        for name, act in acts.items():
            seen[name].append(act())
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    found = {name: statistics.median(values) for name, values in seen.items()}
    found |= {f"{name}, best round": max(values) for name, values in seen.items()}
    for name, url in (("SQLite", sqlite), ("PostgreSQL", postgres)):
        found[f"{name}, 4 processes"] = processes(url, 4, questions // 4)
    for ledger in ledgers.values():
        count = ledger.verify("visits")
        print(f"{ledger!r}: {count} entries verified", file=sys.stderr)
        ledger.close()
    return found


def processor(folder: Path) -> dict[str, float]:
    """Microseconds of processor time in this process, which the disk and other load leave alone."""
    memory, sqlite = opened(None), opened(f"sqlite:///{folder}/processor.db")
    found = {
        "memory, reservation": microseconds(lambda: reserve(memory), 1000),
        "SQLite, bare commit": microseconds(bare_sqlite(folder), 500),
        "SQLite, reservation": microseconds(lambda: reserve(sqlite), 500),
    }
    sqlite.close()
    return found


def kills(folder: Path, count: int) -> dict[str, Any]:
    found = {}
    places = {"SQLite": f"sqlite:///{folder}/killed.db", "PostgreSQL": empty_schema()}
    for name, url in places.items():
        start = time.perf_counter()
        command = [sys.executable, "-m", "tests.ledger.crashes", "random", url]
        done = subprocess.run(
            [*command, str(folder / f"{name}.log"), str(count), "4", "7"],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = round(time.perf_counter() - start, 1)
        found[name] = {**json.loads(done.stdout), "seconds": seconds}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--questions", type=int, default=1000, help="a round")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    add_json(parser)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as place:
        folder = Path(place)
        (folder / "processor").mkdir()
        found: dict[str, Any] = {"microseconds": {**decisions(), **processor(folder / "processor")}}
        found["per second"] = throughput(folder, rounds=chosen.rounds, questions=chosen.questions)
        if chosen.kills:
            found["killed"] = kills(folder, chosen.kills)
    with Report(__file__, chosen.json) as report:
        report_found(report, found)


def report_found(report: Report, found: dict[str, Any]) -> None:
    """Report what was measured, a table each."""
    head = "processor time, best of nine rounds"
    row = report.table("processor", [(head, ""), ("microseconds", ".2g")])
    for name, value in found["microseconds"].items():
        row(name, value)
    print()
    row = report.table("reservations", [("", ""), ("a second, median", ",.0f"), ("best", ",.0f")])
    rates = found["per second"]
    for name, value in rates.items():
        if not name.endswith(", best round"):
            row(name, value, rates.get(f"{name}, best round"))
    print()
    if "killed" in found:
        heads = list(dict.fromkeys(name for one in found["killed"].values() for name in one))
        row = report.table("kills", [("ledger", ""), *((name, ",g") for name in heads)])
        for name, one in found["killed"].items():
            row(name, *map(one.get, heads))


if __name__ == "__main__":
    main()
