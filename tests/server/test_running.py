"""A server as a process of its own: killed, ended, asked slowly, and asked by several at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.served import CONFIGURATION, COUNT, written
from tests.support.seams import open_ledger

from unacorda import ZCDP
from unacorda.server.config import read_config
from unacorda.server.store import SILENT_SECONDS, AnswerStore, opened
from unacorda.server.tokens import make_token

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(path: Path) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """A process that serves, and a client with a token of ana's."""
    config = read_config(path)
    with opened(config.store) as store:
        token = make_token(store, "ana", role="analyst")
    command = [sys.executable, "-m", "unacorda", "serve", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # its log
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=config.public_url, headers=headers, timeout=60) as client:
        try:
            for _ in range(300):
                try:
                    client.get("/v1/me")
                    break
                except httpx.TransportError:
                    assert process.poll() is None
                    time.sleep(0.1)
            yield process, client
        finally:
            process.kill()
            process.wait()


def configured(folder: Path) -> Path:
    listen = f'[server]\nlisten = "127.0.0.1:{free_port()}"\n'
    return written(folder, CONFIGURATION.replace("[server]\n", listen).replace("0.15", "5"))


def asked(client: httpx.Client, number: int) -> int | None:
    """The status of a question of its own; None where the connection broke."""
    body: Any = {**COUNT, "budget": {"rho": f"0.000{number + 1000}"}}
    try:
        return client.post("/v1/datasets/visits/ask", json=body).status_code
    except httpx.TransportError:
        return None


def test_it_answers_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with running(configured(tmp_path)) as (process, client):
        assert client.get("/v1/me").json()["analyst"] == "ana"
        assert asked(client, 1) == 201
        assert "server" not in client.get("/v1/me").headers
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)


def test_what_is_answered_was_paid_however_it_is_killed(tmp_path: Path) -> None:
    """Killed three times among questions: every answer is stored and paid, and nothing else is."""
    path = configured(tmp_path)
    config = read_config(path)
    statuses: list[int | None] = []
    for turn in range(3):
        with running(path) as (process, client):

            def many(client: httpx.Client, first: int) -> None:
                for number in range(100):
                    status = asked(client, first + number)
                    statuses.append(status)
                    if status is None:
                        return

            first = 300 * turn
            asking = [
                threading.Thread(target=many, args=(client, first + 100 * one)) for one in range(3)
            ]
            for one in asking:
                one.start()
            time.sleep(1.5 + 0.2 * turn)
            os.kill(process.pid, signal.SIGKILL)
            for one in asking:
                one.join()
    answered = sum(status == 201 for status in statuses)
    assert answered
    with closing(open_ledger(config.ledger)) as ledger, opened(config.store) as store:
        entries = ledger.entries("visits")
        ledger.verify("visits")
        store.lose(before=time.time() + SILENT_SECONDS)
        kept = store.questions("ana", "visits", most=1_000)
        paid = sum(entry.state == "reserved" for entry in entries)
        committed = sum(entry.state == "committed" for entry in entries)
        stored = sum(one.state == "answered" for one in kept)
        assert {one.state for one in kept} <= {"answered", "lost", "refused"}
        assert answered <= stored
        assert committed <= stored <= paid <= len(kept)
        assert ledger.spent("visits") <= ledger.account("visits").budget
        assert store.running() == 0


def test_a_question_that_was_lost_is_told_so(tmp_path: Path) -> None:
    path = configured(tmp_path)
    with opened(read_config(path).store) as store:
        gone = AnswerStore(read_config(path).store)
        before: Any = {"key": "k", "analyst": "ana", "dataset": "visits", "purpose": None}
        question, new = gone.begin(**before, asked="{}")
        assert new
        assert store.begin(**before, asked="{}") == (question, False)
        store.lose(before=time.time() + 1)
        found = store.question(question.id)
        assert found is not None
        assert found.state == "lost"
        assert store.begin(**before, asked="{}")[1]
        gone.close()


def test_two_processes_pay_an_equal_question_once(tmp_path: Path) -> None:
    path = configured(tmp_path)
    other = path.with_name("other.toml")
    config = read_config(path)
    other.write_text(path.read_text().replace(f":{config.port}", f":{free_port()}"))
    with running(path) as (_, first), running(other) as (_, second):
        found: list[httpx.Response] = []

        def ask(client: httpx.Client) -> None:
            found.append(client.post("/v1/datasets/visits/ask", json=COUNT))

        asking = [threading.Thread(target=ask, args=(one,)) for one in (first, second) * 2]
        for one in asking:
            one.start()
        for one in asking:
            one.join()
        assert sorted(one.status_code for one in found) == [200, 200, 200, 201]
        assert len({one.content for one in found}) == 1
    with closing(open_ledger(config.ledger)) as ledger:
        assert ledger.spent("visits") == ZCDP("0.01")


def _listens(address: str) -> bool:
    """Whether somebody listens at a socket, within half a minute."""
    for _ in range(300):
        with closing(socket.socket(socket.AF_UNIX)) as tried, suppress(OSError):
            tried.connect(address)
            return True
        time.sleep(0.1)
    return False


def test_a_socket_of_the_machine_is_listened_at(tmp_path: Path) -> None:
    """By its proxy: the last address that it adds is whose failures are counted."""
    lines = '[server]\nlisten = "unix:a.sock"\npublic_url = "https://ask.example"\n'
    lines += 'behind_proxy = ["unix"]\n'
    path = written(tmp_path, CONFIGURATION.replace("[server]\n", lines))
    config = read_config(path)
    with opened(config.store) as store:
        token = make_token(store, "ana", role="analyst")
    command = [sys.executable, "-m", "unacorda", "serve", str(path)]
    through = httpx.HTTPTransport(uds=str(config.socket))
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE) as process,
        httpx.Client(transport=through, base_url="http://ask.example", timeout=60) as client,
    ):
        try:
            assert _listens(str(config.socket))

            def me(text: str, forwarded: str) -> int:
                headers = {"Authorization": f"Bearer {text}", "X-Forwarded-For": forwarded}
                return client.get("/v1/me", headers=headers).status_code

            assert [me("x", f"10.0.0.{n}, 10.0.1.1") for n in range(11)] == [401] * 10 + [429]
            assert me(token, "10.0.1.1") == 429
            assert me(token, "10.0.1.1, 10.0.1.2") == 200
            assert me(token, "no address") == 200
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    lines_of_log = [json.loads(one) for one in said.decode().splitlines() if one.startswith("{")]
    assert {one["operation"] for one in lines_of_log} >= {"me"}
    assert token not in said.decode()


@pytest.mark.parametrize("slowly", ["header", "body", "chunks"])
def test_what_does_not_end_is_closed(tmp_path: Path, slowly: str) -> None:
    path = configured(tmp_path)
    with running(path):
        config = read_config(path)
        head = b"POST /v1/datasets/visits/ask HTTP/1.1\r\nHost: a\r\n"
        begun = {
            "header": head,
            "body": head + b"Content-Length: 60000\r\n\r\n",
            "chunks": head + b"Transfer-Encoding: chunked\r\n\r\n",
        }[slowly]
        more = {"header": b"X-A: b\r\n", "body": b"x", "chunks": b"1\r\nx\r\n"}[slowly]
        start = time.monotonic()
        with closing(socket.create_connection((config.host, config.port))) as slow:
            slow.settimeout(30)
            slow.sendall(begun)
            with suppress(ConnectionError):  # it is closed by the other side
                while time.monotonic() - start < 25:
                    slow.sendall(more)
                    time.sleep(0.5)
        assert 5 < time.monotonic() - start < 25
