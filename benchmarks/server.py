"""A server under load, and killed: requests a second, waiting times, memory, and what is kept.

    python benchmarks/server.py [--seconds N] [--kills N] [--crash-seconds N] [--processes N]

The server and its clients run on this machine alone, over loopback, and share its cores; everything
is bounded in time and count. Load is of 100,000 rows of Parquet, ledger and store in SQLite, 1,000
analysts with tokens, answers "at once". Crashes are SIGKILLs at random moments among questions.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tables import Report, Rows, add_json

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from unacorda.ledger.ledger import open_ledger  # noqa: E402
from unacorda.server.config import read_config  # noqa: E402
from unacorda.server.store import SILENT_SECONDS, opened  # noqa: E402
from unacorda.server.tokens import make_token  # noqa: E402

ROWS = 100_000
SQL = "SELECT county, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY county"


def written(
    folder: Path, *, port: int, datasets: int, analysts: Sequence[str], budget: str, limit: str,
    store: str = "", name: str = "server.toml",
) -> Path:  # fmt: skip
    """A configuration with its table."""
    table = folder / "visits.parquet"
    if not table.exists():
        drawn = np.random.default_rng(1)
        columns = {
            "patient": drawn.integers(0, ROWS // 3, ROWS),
            "age": drawn.integers(0, 95, ROWS),
            "county": drawn.choice(["A", "B", "C"], ROWS),
        }
        pq.write_table(pa.table(columns), table)
    limits = ", ".join(f"{one} = {{ rho = {limit} }}" for one in analysts)
    lines = ["[server]", f'listen = "127.0.0.1:{port}"', 'answer_after = "at once"', "queue = 1024"]
    lines += [f'ledger = "{store}"', f'store = "{store}"'] if store else []
    for number in range(datasets):
        lines += [
            f"[datasets.visits{number or ''}]",
            'tables = { visits = "visits.parquet" }',
            'unit = { person = "patient", max_rows = 4 }',
            f"budget = {{ rho = {budget} }}",
            'columns = { age = { bounds = [0, 120] }, county = { categories = ["A", "B", "C"] } }',
            f"analysts = {{ {limits} }}",
        ]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def started(path: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen([sys.executable, "-m", "unacorda", "serve", str(path)],
                            env=environment, stderr=subprocess.DEVNULL)  # fmt: skip


def until_up(port: int, token: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if Client(port, token).send("GET", "/v1/me")[0] == 200:
                return
        time.sleep(0.02)
    raise TimeoutError("the server does not answer")


@contextlib.contextmanager
def running(path: Path, port: int, token: str) -> Iterator[subprocess.Popen[bytes]]:
    process = started(path)
    try:
        until_up(port, token)
        yield process
    finally:
        process.kill()
        process.wait()


class Client:
    """One connection that is kept."""

    def __init__(self, port: int, token: str, *, again: bool = True) -> None:
        self._again = again
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        sent = None if body is None else json.dumps(body)
        for last in (False, True):  # a server ends connections that were silent for a while
            try:
                self._connection.request(method, path, sent, self._headers)
                response = self._connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                if last or not self._again:
                    raise
        raise AssertionError


def load(clients: int, seconds: float, send: Any) -> tuple[float, list[float], Counter[int]]:
    """Answers a second, their times in milliseconds, and statuses, of many clients at once."""
    times: list[float] = []
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds

    def run(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            start = time.perf_counter()
            status = send(number, turn)
            times.append(1_000 * (time.perf_counter() - start))
            statuses[status] += 1
            turn += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    begun = time.monotonic()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    good = sum(count for status, count in statuses.items() if status < 300)
    return good / (time.monotonic() - begun), times, statuses


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1] if len(times) > 1 else float("nan")


def memory(process: subprocess.Popen[bytes]) -> float:
    """Resident megabytes of a process."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1_024
    return float("nan")


def processor(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processor that a process has used: other work is no part of them."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_load(report: Report, folder: Path, seconds: float) -> None:
    analysts = [f"a{number}" for number in range(1_000)]
    port = free_port()
    sizes: dict[str, Any] = {"budget": "1000000", "limit": "1000"}
    path = written(folder, port=port, datasets=20, analysts=analysts, **sizes)
    config = read_config(path)
    with opened(config.store) as store:
        tokens = [make_token(store, one, role="analyst") for one in analysts]
    told = report.table("starts", [("", ""), ("", "")])
    start = time.monotonic()
    with running(path, port, tokens[0]):
        told("first start, 20 datasets, 1,000 analysts each", f"{time.monotonic() - start:.1f} s")
    start = time.monotonic()
    with running(path, port, tokens[0]) as process:
        used = processor(process)
        told("second start", f"{time.monotonic() - start:.1f} s, {used:.1f} s of processor")
        told("memory after the start", f"{memory(process):.0f} MB")
        several = [Client(port, token) for token in tokens[:40]]
        body = {"sql": SQL, "budget": {"rho": "0.001"}}
        first, kept = several[0].send("POST", "/v1/datasets/visits/ask", body)
        assert first == 201, kept
        listed = several[0].send("GET", "/v1/datasets/visits/questions")[1]
        stored = json.loads(listed)["questions"][0]["release"]

        def explain(number: int, turn: int) -> int:
            del turn
            return several[number].send("POST", "/v1/datasets/visits/explain", body)[0]

        def ask(number: int, turn: int) -> int:
            where = f"WHERE age >= {turn % 90}"
            asked = {**body, "sql": SQL.replace("GROUP", f"{where} GROUP"), "fresh": True}
            return several[20 + number].send("POST", "/v1/datasets/visits/ask", asked)[0]

        def fetch(number: int, turn: int) -> int:
            del number, turn
            return fetching().send("GET", stored)[0]

        own = threading.local()

        def fetching() -> Client:
            if not hasattr(own, "client"):
                own.client = Client(port, tokens[0])
            client: Client = own.client
            return client

        columns = [("", ""), ("a second", ".0f"), ("median, ms", ",.0f"), ("p95, ms", ",.0f")]
        columns += [("processor of the server, ms each", ".0f"), ("other statuses", "")]
        print()
        row = report.table("load", columns)
        for what, clients, send in (
            ("explain", 4, explain),
            ("ask", 16, ask),
            ("stored release", 4, fetch),
        ):
            before = processor(process)
            rate, times, statuses = load(clients, seconds, send)
            each = 1_000 * (processor(process) - before) / max(len(times), 1)
            numbers = [rate, statistics.median(times), p95(times), each]
            row(f"{what}, {clients} clients", *numbers, _odd(statuses))
        asking = threading.Thread(target=load, args=(16, seconds, ask))
        asking.start()
        _, times, statuses = load(1, seconds, explain)
        asking.join()
        what = "explain, 1 client, while 16 ask"
        row(what, None, None, p95(times), None, _odd(statuses))
        print(f"\nMemory at the end: {memory(process):.0f} MB")


def _odd(statuses: Counter[int]) -> str:
    odd = {status: count for status, count in statuses.items() if status >= 300}
    return str(odd) if odd else ""


def measure_crashes(
    row: Rows, folder: Path, *, kills: int, seconds: float, store: str, processes: int
) -> None:
    """50 writers, some processes, of which one is killed every little while."""
    analysts = [f"a{number}" for number in range(25)]
    ports = [free_port() for _ in range(processes)]
    sizes: dict[str, Any] = {"budget": "3", "limit": "0.2", "datasets": 1, "analysts": analysts}
    paths = [
        written(folder, port=port, store=store, name=f"server{port}.toml", **sizes)
        for port in ports
    ]
    config = read_config(paths[0])
    with opened(config.store) as answers:
        tokens = [make_token(answers, one, role="analyst") for one in analysts]
    running = [started(path) for path in paths]
    for port in ports:
        until_up(port, tokens[0])
    ended, statuses = threading.Event(), Counter[int]()
    answered: list[str] = []

    def write(number: int) -> None:
        drawn = random.Random(number)
        while not ended.is_set():
            token = tokens[number % len(tokens)]
            client = Client(drawn.choice(ports), token, again=False)
            body = {"sql": SQL, "budget": {"rho": "0.0005"}, "fresh": True}
            try:
                status, text = client.send("POST", "/v1/datasets/visits/ask", body)
            except (OSError, http.client.HTTPException):
                statuses[0] += 1
                time.sleep(0.05)
                continue
            statuses[status] += 1
            if status == 201:
                answered.append(text.decode())
            else:
                time.sleep(0.2)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(50)]
    for one in writers:
        one.start()
    killed, start = Counter[int](), time.monotonic()

    def kill(place: int) -> None:
        drawn = random.Random(place)
        while killed.total() < kills and time.monotonic() - start < seconds:
            until_up(ports[place], tokens[0])
            time.sleep(drawn.uniform(0.05, 2.0))
            os.kill(running[place].pid, signal.SIGKILL)
            running[place].wait()
            running[place] = started(paths[place])
            killed[place] += 1

    killers = [threading.Thread(target=kill, args=(place,)) for place in range(len(ports))]
    try:
        for one in killers:
            one.start()
        for one in killers:
            one.join()
        until_up(ports[0], tokens[0])
        time.sleep(2)
    finally:
        ended.set()
        for one in writers:
            one.join()
        for process in running:
            process.kill()
            process.wait()
    paid, committed, kept = _check(config.ledger, config.store, answered)
    kind = "PostgreSQL" if store else "SQLite"
    counts = ", ".join(f"{count:,} x {status or 'cut'}" for status, count in statuses.items())
    print(counts, file=sys.stderr)
    row(kind, killed.total(), time.monotonic() - start, paid, committed, kept, len(answered))


def _check(
    ledger_address: str, store_address: str, answered: Sequence[str]
) -> tuple[int, int, int]:
    """Nothing overspent, every 201 stored and paid, every charge answered or lost.

    The numbers of charges, of those that were committed, and of answers in the store.
    """
    with closing(open_ledger(ledger_address)) as ledger, opened(store_address) as store:
        store.lose(before=time.time() + SILENT_SECONDS)
        entries = ledger.entries("visits")
        ledger.verify("visits")
        paid = sum(entry.state == "reserved" for entry in entries)
        committed = sum(entry.state == "committed" for entry in entries)
        assert ledger.spent("visits") <= ledger.account("visits").budget
        for name, limit in ledger.sub_accounts("visits").items():
            assert ledger.spent("visits", name) <= limit
        kept = [
            one
            for name in ledger.sub_accounts("visits")
            for one in store.questions(name, "visits", most=1_000_000)
        ]
        states = Counter(one.state for one in kept)
        releases = {one.release for one in kept if one.state == "answered"}
        assert set(answered) <= releases
        assert states["running"] == states["waiting"] == 0
        assert committed <= states["answered"] <= paid <= states["answered"] + states["lost"]
        print(f"charges {paid}, committed {committed}, {dict(states)}", file=sys.stderr)
        return paid, committed, states["answered"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--crash-seconds", type=float, default=300.0, help="at most, of each store")
    parser.add_argument("--processes", type=int, default=4, help="which are killed in turn")
    parser.add_argument("--postgres", action="store_true", help="crashes on PostgreSQL too")
    add_json(parser)
    given = parser.parse_args()
    with Report(__file__, given.json) as report:
        with tempfile.TemporaryDirectory() as folder:
            if given.seconds:
                measure_load(report, Path(folder), given.seconds)
        if given.kills:
            measure_all_crashes(report, given)


def measure_all_crashes(report: Report, given: argparse.Namespace) -> None:
    """Crashes on every store."""
    stores = [""]
    if given.postgres:
        from tests.postgres_server import empty_schema

        stores.append(empty_schema())
    columns = [("store and ledger", ""), ("kills", ",.0f"), ("in seconds", ".0f")]
    names = ("charges", "committed", "answered", "answers that arrived")
    row = report.table("kills", columns + [(name, ",.0f") for name in names])
    for store in stores:
        with tempfile.TemporaryDirectory() as folder:
            most = {"kills": given.kills, "seconds": given.crash_seconds}
            measure_crashes(row, Path(folder), **most, store=store, processes=given.processes)


if __name__ == "__main__":
    main()
