"""Turns among analysts, and when an answer leaves: no one delays or reads the time of another."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.served import CONFIGURATION, COUNT, Served, served, written
from tests.server.test_routes import ASK, EXPLAIN, problem
from tests.support.cases import in_subtests

import unacorda
from unacorda import ZCDP
from unacorda.errors import EngineFailed, InvalidParameter
from unacorda.server.config import read_config
from unacorda.server.problems import Problem
from unacorda.server.scheduling import RoundRobin, leaves_after

QUESTION = "/v1/questions/"


@contextlib.contextmanager
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Questions begin, and go on once the event is set."""
    go = threading.Event()
    evaluate = unacorda.Session.evaluate

    def later(self: Any, *asked: Any, **more: Any) -> Any:
        assert go.wait(30)
        return evaluate(self, *asked, **more)

    monkeypatch.setattr(unacorda.Session, "evaluate", later)
    try:
        yield go
    finally:
        go.set()


def test_many_questions_of_one_delay_another_by_one() -> None:
    turns, order, running = RoundRobin(1), [], threading.Event()

    def ask(analyst: str) -> None:
        with turns.slot(analyst):
            order.append(analyst)
            running.wait()

    def begin(analyst: str) -> threading.Thread:
        before = turns.waiting + turns.running
        thread = threading.Thread(target=ask, args=(analyst,))
        thread.start()
        while turns.waiting + turns.running == before:
            time.sleep(0.001)
        return thread

    asking = [begin(one) for one in ("ana", "ana", "ana", "ana", "ben", "zoe", "ben")]
    running.set()
    for one in asking:
        one.join()
    assert order == ["ana", "ana", "ben", "zoe", "ana", "ben", "ana"]
    assert turns.running == turns.waiting == 0
    assert turns.waited > 0


def test_an_analyst_asks_one_at_a_time_and_after_the_hold() -> None:
    turns = RoundRobin(3)
    with turns.slot("ana"):
        turns.hold("ana", 0.15)
    start = time.monotonic()
    with turns.slot("ben"):
        assert time.monotonic() - start < 0.1
    with turns.slot("ana"):
        assert time.monotonic() - start >= 0.14
        others: list[int] = []
        other = threading.Thread(target=lambda: others.append(_slot(turns, "ana")))
        other.start()
        time.sleep(0.05)
        assert not others
    other.join()
    assert others == [1]


def test_no_more_questions_begin_at_once_than_there_are_slots() -> None:
    turns = RoundRobin(2)
    asked = ("ana", "ana", "ben", "zoe")
    assert [turns.claim(name) for name in asked] == [True, False, True, False]
    turns.forgo("ben")
    assert turns.claim("zoe")
    with turns.slot("zoe"):
        assert not turns.claim("ben")  # ana's claim and zoe's question
        with turns.slot("ana"):
            assert not turns.claim("ben")
        assert turns.claim("ben")
        turns.hold("zoe", 9)
    assert not turns.claim("zoe")
    turns.close()
    try:
        _slot(turns, "ben")
    except Problem:
        assert turns.claim("ben")  # the claim of one that is refused is gone


def _slot(turns: RoundRobin, analyst: str) -> int:
    with turns.slot(analyst):
        return 1


def test_once_it_ends_those_that_wait_are_refused() -> None:
    turns = RoundRobin(1)
    with turns.slot("ana"):
        refused: list[str] = []

        def ask() -> None:
            try:
                _slot(turns, "ben")
            except Problem as found:
                refused.append(found.kind)

        waiting = threading.Thread(target=ask)
        waiting.start()
        while not turns.waiting:
            time.sleep(0.001)
        turns.close()
        waiting.join()
        assert refused == ["stopped"]
        assert not turns.wait_until_idle(0.01)
    assert turns.wait_until_idle(0.01)


@in_subtests(
    ("times", "seconds", "left"),
    [
        (1.0, 0.0, 1.0),
        (1.0, 0.99, 1.0),
        (1.0, 1.01, 2.0),
        (0.5, 3.2, 3.5),
        ("stepped", 0.0, 0.25),
        ("stepped", 0.26, 0.5),
        ("stepped", 5.0, 8.0),
        ("at once", 0.3, 0.3),
    ],
)
def test_answers_leave_at_stated_times(times: Any, seconds: float, left: float) -> None:
    assert leaves_after(times, seconds) == pytest.approx(left)


@pytest.mark.long
def test_nothing_that_an_analyst_sees_tells_when_their_question_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for all the while: state, release, list, and whether it may be asked again."""
    with served(tmp_path, CONFIGURATION.replace('"at once"', "1.5")) as ask:
        start = time.monotonic()
        accepted = ask("POST", ASK, COUNT, headers={"Prefer": "wait=0"})
        assert accepted.status_code == 202
        path = accepted.headers["location"]
        name = path.rpartition("/")[2]
        seen: dict[str, list[Any]] = {}
        while time.monotonic() - start < 1.2:
            seen.setdefault("state", []).append(ask("GET", path).json()["state"])
            seen.setdefault("release", []).append(ask("GET", f"/v1/releases/{name}").status_code)
            listed = ask("GET", "/v1/datasets/visits/questions").json()["questions"][0]
            seen.setdefault("listed", []).append((listed["state"], listed["cost"]))
            seen.setdefault("count", []).append(ask.service.store.running("ana"))
        kept = ask.service.store.question(name)
        assert kept is not None
        assert kept.state == "answered"  # it had long ended
        assert {what: set(values) for what, values in seen.items()} == {
            "state": {"running"},
            "release": {404},
            "listed": {("running", None)},
            "count": {1},
        }
        again = ask("POST", ASK, COUNT)
        assert again.status_code == 200
        assert 1.4 < time.monotonic() - start < 2.5
        assert ask("GET", path).json()["state"] == "answered"


@pytest.mark.long
def test_a_failure_is_seen_no_sooner_than_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise EngineFailed(asked=True)

    with served(tmp_path, CONFIGURATION.replace('"at once"', "1")) as ask:
        monkeypatch.setattr(unacorda.Session, "evaluate", fail)
        start = time.monotonic()
        accepted = ask("POST", ASK, COUNT, headers={"Prefer": "wait=0"})
        time.sleep(0.3)
        assert ask("GET", accepted.headers["location"]).json()["state"] == "running"
        other = {**COUNT, "budget": {"rho": "0.02"}}
        second = ask("POST", ASK, other, headers={"Prefer": "wait=0"})  # not "suspended" yet
        assert second.status_code == 202
        problem(ask("POST", ASK, COUNT), "engine-failed")
        assert time.monotonic() - start > 0.9


def test_a_waiting_question_is_taken_back_and_a_running_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as ask, blocked(monkeypatch) as go:
        soon = {"Prefer": "wait=0"}
        first = ask("POST", ASK, COUNT, headers=soon).headers["location"]
        other = {**COUNT, "budget": {"rho": "0.02"}}
        second = ask("POST", ASK, other, headers=soon).headers["location"]
        _until(lambda: ask("GET", second).json()["state"] == "waiting")
        problem(ask("DELETE", first), "runs")
        problem(ask("DELETE", second, of="ben"), "not-found")
        assert ask("DELETE", second).status_code == 204
        problem(ask("GET", second), "not-found")
        go.set()
        _until(lambda: ask("GET", first).json()["state"] == "answered")
        problem(ask("DELETE", first), "refused")
        _until(lambda: ask.service.store.running() == 0)
        assert ask.spent() == ZCDP("0.01")


def test_what_waits_when_its_process_ends_was_not_paid_and_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored as waiting from the first, not as one that may have been paid."""
    with served(tmp_path) as ask, blocked(monkeypatch) as go:
        soon = {"Prefer": "wait=0"}
        first = ask("POST", ASK, COUNT, headers=soon).headers["location"]
        _until(lambda: ask.service.turns.running == 1)
        wait = ask.service.store.wait
        monkeypatch.setattr(ask.service.store, "wait", lambda _: None)  # killed before it
        other = {**COUNT, "budget": {"rho": "0.02"}}
        second = ask("POST", ASK, other, headers=soon).headers["location"]
        assert _state(ask, second.rpartition("/")[2]) == "waiting"
        ask.service.store.lose(before=time.time() + 1)
        assert _state(ask, first.rpartition("/")[2]) == "lost"
        assert _state(ask, second.rpartition("/")[2]) is None
        monkeypatch.setattr(ask.service.store, "wait", wait)
        go.set()
        _until(lambda: ask.service.turns.running + ask.service.turns.waiting == 0)
        assert ask.spent() == ZCDP("0.01")


def _until(done: Any) -> None:
    for _ in range(1_000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come")


async def _left(ask: Served, body: Any, leaves: asyncio.Event, *, of: str = "ana") -> list[Any]:
    """What the server sends to a client that asks, and leaves once it is told to."""
    headers = {
        "host": "127.0.0.1:8040",
        "authorization": f"Bearer {ask.tokens[of]}",
        "content-type": "application/json",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": ASK,
        "raw_path": ASK.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("10.0.0.1", 1),
        "server": ("127.0.0.1", 8040),
    }
    sent: list[Any] = []
    told: list[dict[str, Any]] = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> dict[str, Any]:
        if told:
            return told.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    with contextlib.suppress(Exception):  # what is not answered is no matter of the client
        await ask.app(scope, receive, send)
    return sent


@pytest.mark.long
def test_who_leaves_before_their_question_was_taken_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unacorda.server.app._LOOK_SECONDS", 0.02)
    with served(tmp_path) as ask, blocked(monkeypatch) as go:
        first = ask("POST", ASK, COUNT, headers={"Prefer": "wait=0"}).headers["location"]
        other = {**COUNT, "budget": {"rho": "0.02"}}

        async def leave() -> None:
            leaves = asyncio.Event()
            asking = asyncio.create_task(_left(ask, other, leaves))
            while ask.service.store.running("ana") < 2:
                await asyncio.sleep(0.01)
            leaves.set()
            while ask.service.store.running("ana") > 1:
                await asyncio.sleep(0.01)
            go.set()
            await asking

        asyncio.run(asyncio.wait_for(leave(), 30))
        _until(lambda: ask("GET", first).json()["state"] == "answered")
        listed = ask("GET", "/v1/datasets/visits/questions").json()["questions"]
        assert [one["number"] for one in listed] == [1]
        assert ask.spent() == ZCDP("0.01")


@pytest.mark.long
def test_who_leaves_a_running_question_finds_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unacorda.server.app._LOOK_SECONDS", 0.02)
    with served(tmp_path) as ask, blocked(monkeypatch) as go:

        async def leave() -> None:
            leaves = asyncio.Event()
            asking = asyncio.create_task(_left(ask, COUNT, leaves))
            while not ask.service.turns.running:
                await asyncio.sleep(0.01)
            leaves.set()
            await asyncio.sleep(0.2)
            go.set()
            await asking

        asyncio.run(asyncio.wait_for(leave(), 30))
        _until(lambda: ask.service.store.running() == 0)
        assert ask("POST", ASK, COUNT).status_code == 200
        assert ask.spent() == ZCDP("0.01")


@pytest.mark.long
def test_a_key_of_idempotency_stands_for_one_question(tmp_path: Path) -> None:
    with served(tmp_path) as ask:
        fresh, key = {**COUNT, "fresh": True}, {"Idempotency-Key": "a1"}
        found = [ask("POST", ASK, fresh, headers=key) for _ in range(2)]
        assert [one.status_code for one in found] == [201, 200]
        assert found[0].content == found[1].content
        other = {**COUNT, "budget": {"rho": "0.02"}}
        problem(ask("POST", ASK, other, headers=key), "refused")
        assert ask("POST", ASK, fresh, headers={"Idempotency-Key": "a2"}).status_code == 201
        assert ask("POST", ASK, fresh, headers=key, of="ben").status_code == 201
        for wrong in ("", "x" * 201):
            problem(ask("POST", ASK, fresh, headers={"Idempotency-Key": wrong}), "refused")
        assert ask.spent() == ZCDP("0.03")


@pytest.mark.long
def test_no_question_costs_less_or_more_than_one_may(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace(
        "[server]", "[server]\nleast_a_question = { epsilon = 0.001 }"
    ).replace("ben = { rho = 0.1 }", 'ben = { rho = 0.1, most_a_question = "0.01" }')
    with served(tmp_path, configuration) as ask:
        little = {**COUNT, "budget": {"rho": "1e-7"}}
        said = problem(ask("POST", ASK, little), "refused")
        assert said["pointer"] == "/budget"
        assert "at least epsilon 0.001" in said["detail"]
        much = {**COUNT, "budget": {"rho": "0.02"}}
        assert "at most rho 0.01" in problem(ask("POST", ASK, much, of="ben"), "refused")["detail"]
        assert ask("POST", ASK, COUNT, of="ben").status_code == 201
        assert ask("POST", ASK, much).status_code == 201
        assert ask.spent() == ZCDP("0.03")


@in_subtests(
    ("line", "match"),
    [
        ('answer_after = "never"', "answer_after"),
        ("answer_after = 0", "answer_after"),
        ("answer_after = 1e9", "answer_after"),
        ("least_a_question = 1", "least_a_question"),
        ("least_a_question = { rho = -1 }", "least_a_question"),
        ("least_a_question = { rho = 0.1 }", "datasets.labs"),
        ("shutdown = 0", "shutdown"),
        ('health = "here"', "health"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, line: str, match: str) -> None:
    text = CONFIGURATION.replace('answer_after = "at once"', line if "answer" in line else "")
    text = text if "answer" in line else text.replace("[server]", f"[server]\n{line}")
    with pytest.raises(InvalidParameter, match=match):
        read_config(written(tmp_path, text))


def test_what_is_free_is_explained_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One analyst has at most four at once, and does not keep another from it."""
    go, explain = threading.Event(), unacorda.Session.explain

    def later(self: Any, *asked: Any, **more: Any) -> Any:
        assert go.wait(30)
        return explain(self, *asked, **more)

    monkeypatch.setattr(unacorda.Session, "explain", later)
    with served(tmp_path) as ask:
        waits = threading.Timer(0.3, go.set)
        waits.start()
        found = ask.all([("POST", EXPLAIN, COUNT)] * 6)
        assert sorted(one.status_code for one in found) == [200] * 4 + [429] * 2
        assert json.loads(found[0].text)


def test_a_server_that_ends_takes_no_questions_and_interrupts_late_ones(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace("[server]", "[server]\nshutdown = 0.2")
    with served(tmp_path, configuration) as ask:
        engine: Any = ask.service.datasets["visits"].session._engine
        table = engine._scans["visits"]
        engine._scans["visits"] = f"(SELECT one.* FROM {table} one, range(1000000000000))"
        accepted = ask("POST", ASK, COUNT, headers={"Prefer": "wait=0"})
        name = accepted.headers["location"].rpartition("/")[2]
        _until(lambda: ask.spent() != ZCDP(0))
        start = time.monotonic()
        ask.service.finish()
        assert time.monotonic() - start < 5
        problem(ask("POST", ASK, COUNT), "stopped")
        _until(lambda: _state(ask, name) == "failed")
        assert ask.service.store.stopped("visits") == set()  # it is not the analyst's doing
        assert ask.spent() == ZCDP("0.01")


def _state(ask: Served, name: str) -> str | None:
    found = ask.service.store.question(name)
    return None if found is None else found.state


def test_what_takes_too_long_to_price_is_refused_unpaid(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace("[server]", "[server]\nplanning = 0.001").replace(
        "budget = { rho = 0.15 }", "budget = { epsilon = 1, delta = 1e-6 }"
    )
    configuration = configuration.replace(
        "ana = { rho = 0.1 }", "ana = { epsilon = 1, delta = 1e-6 }"
    )
    configuration = configuration.replace(", ben = { rho = 0.1 }", "")
    medians = ", ".join(f"MEDIAN(age) AS m{number}" for number in range(3))
    body = {
        "sql": f"SELECT {medians} FROM visits",
        "budget": {"epsilon": "0.1", "delta": "1e-8"},
    }
    with served(tmp_path, configuration) as ask:
        for path in (EXPLAIN, ASK):
            problem(ask("POST", path, body), "too-long")
        assert ask.spent() == unacorda.ApproxDP(0, 0)
