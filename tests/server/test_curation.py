"""What curators do over HTTP, that nobody else can, and that every change is an act of a chain."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.served import CONFIGURATION, COUNT, Served, served
from tests.server.test_routes import ASK, problem

import unacorda
from unacorda import ZCDP
from unacorda.errors import EngineFailed
from unacorda.server.fields import ENDPOINTS
from unacorda.server.tokens import make_token

ADMIN = "/v1/admin"
BODIES: dict[str, Any] = {
    "explain": COUNT,
    "suggest": {"sql": COUNT["sql"], "error": 20},
    "ask": COUNT,
    "rehearse": COUNT,
    "add_analyst": {"dataset": "visits", "analyst": "eve", "budget": {"rho": "0.01"}},
    "change_limit": {"dataset": "visits", "analyst": "ana", "budget": {"rho": "0.12"}},
    "close_analyst": {"dataset": "labs", "analyst": "ben"},
    "resume_analyst": {"dataset": "visits", "analyst": "ana"},
    "add_token": {"analyst": "ana"},
}
OWN = {"question", "release", "release_csv", "release_json", "withdraw"}
"""Of a question of ana's."""
OF_ANA = {"dataset", "explain", "suggest", "rehearse", "ask", "questions"} | OWN


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def allowed(name: str, role: str | None) -> int:
    """The status that an operation about `visits`, or a question of ana's, has for a role."""
    one = ENDPOINTS[name]
    if one.open:
        return 200
    if role is None:
        return 401
    if one.curator:
        return 403 if role != "office" else 201 if one.makes else 200
    if name in OF_ANA and role not in (("ana", "ben") if name not in OWN else ("ana",)):
        return 404
    if name == "withdraw":
        return 422  # it has ended
    return 201 if name == "ask" and role == "ben" else 200  # ana's own is stored


@pytest.mark.long
def test_every_route_by_every_role(ask: Served) -> None:
    asked = ask("POST", ASK, COUNT)
    question, release = asked.headers["location"].rpartition("/")[2], asked.json()
    for name, one in ENDPOINTS.items():
        for role in (None, "ana", "ben", "eve", "office"):
            ident = question if name in OWN else ask.tokens["ben"].split("_")[1]
            path = one.path.replace("{dataset}", "visits").replace("{id}", ident)
            if name == "revoke_token" and role == "office":
                spare = make_token(ask.service.store, "eve", role="analyst")
                path = path.replace(ident, spare.split("_")[1])
            body = BODIES.get(name, {}) if one.method == "post" else None
            body = release if name == "verify" else body
            found = ask(one.method, path, body, of=role, address=name)
            assert found.status_code == allowed(name, role), (name, role, found.text)


def test_a_refusal_tells_only_that_it_is_for_curators(ask: Served) -> None:
    said = {
        json.dumps(problem(ask(one.method, one.path, {}, of=of), "not-allowed"))
        for one in ENDPOINTS.values()
        if one.curator
        for of in ("ana", "eve")
    }
    assert len(said) == 1
    assert ask.service.store.acts() == []


def test_a_curator_adds_raises_and_closes(ask: Served) -> None:
    problem(ask("POST", ASK, COUNT, of="eve"), "not-found")
    eve = {"dataset": "visits", "analyst": "eve"}
    added = ask("POST", f"{ADMIN}/analysts", {**eve, "budget": {"rho": "0.01"}}, of="office")
    assert added.status_code == 201
    assert added.json()["left"]["rho"] == "1/100"
    assert ask("POST", ASK, COUNT, of="eve").status_code == 201
    more = {**COUNT, "fresh": True}
    problem(ask("POST", ASK, more, of="eve"), "budget-exceeded")
    ask("POST", f"{ADMIN}/analysts/limit", {**eve, "budget": {"rho": "0.02"}}, of="office")
    assert ask("POST", ASK, more, of="eve").status_code == 201
    closed = ask("POST", f"{ADMIN}/analysts/close", eve, of="office").json()
    assert closed["limit"] == closed["spent"]
    problem(ask("POST", ASK, more, of="eve"), "budget-exceeded")
    entries = ask("GET", f"{ADMIN}/datasets/visits/ledger", of="office").json()["entries"]
    limited = [one for one in entries if one["state"] == "limited"]
    assert [one["analyst"] for one in limited] == ["office", "office"]
    acts = ask("GET", f"{ADMIN}/acts", of="office").json()["acts"]
    assert [one["what"] for one in acts] == ["add analyst", "limit", "close"]
    assert {(one["by"], one["address"]) for one in acts} == {("office", "10.0.0.1")}


@pytest.mark.long
def test_what_cannot_be_is_refused_and_noted(ask: Served) -> None:
    ask("POST", ASK, COUNT)
    ana = {"dataset": "visits", "analyst": "ana"}
    low = ask("POST", f"{ADMIN}/analysts/limit", {**ana, "budget": {"rho": "0.001"}}, of="office")
    problem(low, "refused")
    wrong = {**ana, "dataset": "labs", "analyst": "eve", "budget": {"rho": 1}}
    problem(ask("POST", f"{ADMIN}/analysts", wrong, of="office"), "refused")
    for body, kind in (
        ({**ana, "analyst": "nix", "budget": {"rho": 1}}, "not-found"),
        ({**ana, "dataset": "nix", "budget": {"rho": 1}}, "not-found"),
        ({**ana, "budget": {"rho": "x"}}, "refused"),
        ({**ana, "budget": {}}, "refused"),
        (ana, "refused"),
    ):
        problem(ask("POST", f"{ADMIN}/analysts/limit", body, of="office"), kind)
    for days in (0, 367, -1, "9"):
        given = {"analyst": "ana", "days": days}
        problem(ask("POST", f"{ADMIN}/tokens", given, of="office"), "refused")
    problem(ask("POST", f"{ADMIN}/tokens/nix/revoke", of="office"), "not-found")
    for after in ("-1", "x", "9" * 20):
        problem(ask("GET", f"{ADMIN}/acts?after={after}", of="office"), "refused")
    acts = ask("GET", f"{ADMIN}/acts", of="office").json()["acts"]
    assert acts[1]["what"] == "limit, refused"


@pytest.mark.long
def test_tokens_are_made_listed_and_revoked(ask: Served) -> None:
    made = ask("POST", f"{ADMIN}/tokens", {"analyst": "ana", "days": 3}, of="office").json()
    assert ask("GET", "/v1/me", of=made["token"]).json()["analyst"] == "ana"
    listed = ask("GET", f"{ADMIN}/tokens", of="office").json()["tokens"]
    assert made["id"] in {one["id"] for one in listed}
    assert not any("hash" in one for one in listed)
    ask("POST", f"{ADMIN}/tokens/{made['id']}/revoke", of="office")
    problem(ask("GET", "/v1/me", of=made["token"]), "no-token")
    acts = ask("GET", f"{ADMIN}/acts", of="office").text
    _, _, secret = made["token"].split("_", 2)  # which may hold the sign itself
    assert len(secret) > 40
    assert secret not in acts


def test_a_data_set_is_stopped_and_started(ask: Served) -> None:
    release = ask("POST", ASK, COUNT)
    assert ask("POST", f"{ADMIN}/datasets/visits/stop", of="office").json()["stopped"] is True
    problem(ask("POST", ASK, COUNT), "stopped")
    problem(ask("POST", ASK, COUNT, of="ben"), "stopped")
    problem(ask("POST", ASK, COUNT, of="eve"), "not-found")
    assert ask("GET", release.headers["location"]).content == release.content
    assert ask("POST", f"{ADMIN}/datasets/visits/start", of="office").json()["stopped"] is False
    assert ask("POST", ASK, COUNT, of="ben").status_code == 201


def test_a_failure_of_the_engine_suspends_until_a_curator_resumes(
    ask: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise EngineFailed(asked=True)

    with monkeypatch.context() as patched:
        patched.setattr(unacorda.Session, "evaluate", fail)
        problem(ask("POST", ASK, COUNT), "engine-failed")
    problem(ask("POST", ASK, COUNT), "suspended")
    assert ask("POST", ASK, COUNT, of="ben").status_code == 201
    ana = {"dataset": "visits", "analyst": "ana"}
    assert ask("POST", f"{ADMIN}/analysts/resume", ana, of="office").json()["suspended"] is False
    assert ask("POST", ASK, COUNT).status_code == 201


def test_accounts_are_shown_verified_and_priced_again(ask: Served) -> None:
    ask("POST", ASK, COUNT)
    visits, labs = ask("GET", f"{ADMIN}/datasets", of="office").json()["datasets"]
    assert (visits["spent"]["rho"], labs["spent"]["epsilon"]) == ("1/100", "0")
    shown = ask("GET", f"{ADMIN}/analysts", of="office").json()["datasets"]
    assert [one["analyst"] for one in shown["visits"]] == ["ana", "ben"]
    assert "newest" not in labs
    verified = ask("GET", f"{ADMIN}/datasets/visits/verify", of="office").json()
    assert visits["newest"] == {"sequence": verified["entries"], "digest": verified["digest"]}
    entries = ask("GET", f"{ADMIN}/datasets/visits/ledger", of="office").json()["entries"]
    assert verified == {"entries": len(entries), "digest": entries[-1]["digest"]}
    page = ask("GET", f"{ADMIN}/datasets/visits/ledger?after=3", of="office").json()["entries"]
    assert page == entries[3:]
    again = ask("GET", f"{ADMIN}/datasets/visits/reprice?delta=1e-6", of="office").json()
    assert 0 < again["fixed"] <= again["odometer"]
    problem(ask("GET", f"{ADMIN}/datasets/visits/reprice?delta=x", of="office"), "refused")


def test_an_act_that_was_changed_is_seen(ask: Served) -> None:
    for name in ("a", "b"):
        ask("POST", f"{ADMIN}/tokens", {"analyst": name}, of="office")
    assert ask("GET", f"{ADMIN}/acts", of="office").json()["count"] == 2
    assert ask("GET", f"{ADMIN}/acts?after=1", of="office").json()["acts"][0]["sequence"] == 2
    path = ask.service.config.store.removeprefix("sqlite:///")
    with sqlite3.connect(path) as store:
        store.execute("UPDATE unacorda_acts SET about = 'x' WHERE sequence = 1")
    problem(ask("GET", f"{ADMIN}/acts", of="office"), "ledger-failed")


@pytest.mark.long
def test_what_was_added_is_known_where_a_data_set_cannot_be_opened(tmp_path: Path) -> None:
    with served(tmp_path) as ask:
        eve = {"dataset": "visits", "analyst": "eve", "budget": {"rho": "0.01"}}
        ask("POST", f"{ADMIN}/analysts", eve, of="office")
        assert ask.spent() == ZCDP(0)
    with served(
        tmp_path, CONFIGURATION.replace('visits = "visits.csv"', 'visits = "no.csv"')
    ) as ask:
        problem(ask("POST", ASK, COUNT, of="eve"), "unavailable")
        problem(ask("POST", ASK, COUNT, of="office"), "not-found")
        accounts = ask("GET", f"{ADMIN}/datasets", of="office").json()["datasets"]
        assert accounts[0]["unavailable"]
        raised = {**eve, "budget": {"rho": "0.02"}}
        found = ask("POST", f"{ADMIN}/analysts/limit", raised, of="office")
        assert found.json()["limit"]["rho"] == "1/50"
