"""Every route by who asks, every refusal, and equal questions that are paid once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from tests.server.served import CONFIGURATION, COUNT, Served, served, written
from tests.support.cases import in_subtests
from tests.tiers import mostly_long

import unacorda
from unacorda import ZCDP
from unacorda.errors import InvalidParameter, LedgerFailed
from unacorda.server.config import read_config
from unacorda.server.fields import ENDPOINTS, openapi_document
from unacorda.server.problems import TITLES
from unacorda.server.tokens import make_token

ASK, EXPLAIN = "/v1/datasets/visits/ask", "/v1/datasets/visits/explain"


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def problem(response: Any, kind: str) -> dict[str, Any]:
    """The problem that a response is."""
    said: dict[str, Any] = response.json()
    assert said["type"] == f"tag:unacorda,2026:{kind}", said
    assert response.status_code == said["status"] == TITLES[kind][0]
    assert response.headers["content-type"] == "application/problem+json"
    return said


@pytest.mark.long
def test_an_analyst_finds_their_data_sets(ask: Served) -> None:
    assert ask("GET", "/v1/me").json()["datasets"] == ["visits"]
    assert ask("GET", "/v1/me", of="ben").json()["datasets"] == ["visits", "labs"]
    assert ask("GET", "/v1/datasets", of="eve").json() == {"datasets": []}
    said = ask("GET", "/v1/datasets/visits").json()
    assert said["left"] == {"guarantee": "ZCDP", "rho": "1/10", "delta": "0"}
    assert said["tables"]["visits"]["age"]["fact"]["kind"] == "bounds"
    assert "total_left" not in said
    assert (said["public"], said["joins"]) == ({}, {"visits": ["patient"]})


def test_explaining_is_free_and_asking_is_not(ask: Served) -> None:
    found = ask("POST", EXPLAIN, COUNT)
    assert found.status_code == 200
    assert found.json()["affordable"] is True
    wished = {"sql": COUNT["sql"], "error": 20}
    wanted = ask("POST", "/v1/datasets/visits/suggest", wished).json()["budget"]
    assert wanted["guarantee"] == "ZCDP"
    assert ask.spent() == ZCDP(0)
    release = ask("POST", ASK, COUNT)
    assert release.status_code == 201
    assert release.json()["format"] == "unacorda release 1"
    assert ask.spent() == ZCDP("0.01")
    assert ask("GET", release.headers["location"]).content == release.content


@pytest.mark.long
def test_an_error_is_asked_for_in_place_of_a_budget(ask: Served) -> None:
    wanted = {"sql": COUNT["sql"], "error": 20}
    budget = ask("POST", "/v1/datasets/visits/suggest", wanted).json()["budget"]["rho"]
    kinds = {**wanted, "kinds": True}
    several = ask("POST", "/v1/datasets/visits/suggest", kinds).json()["budgets"]
    assert {"PureDP", "ZCDP"} <= {one["guarantee"] for one in several}
    explained = ask("POST", EXPLAIN, wanted).json()
    assert explained["aggregates"]["n"]["standard_error"] <= 20
    assert ask("POST", "/v1/datasets/visits/try", wanted).json()["made_up"] is True
    release = ask("POST", ASK, wanted)
    assert release.json()["rows"][0]["n_se"] <= 20
    assert release.json()["exact"]["charge"]["rho"] == budget
    assert ask("POST", ASK, {"sql": COUNT["sql"], "budget": {"rho": budget}}).status_code == 200
    mean = {"sql": "SELECT AVG(age) AS m FROM visits", "error": 5, "assuming": {"rows": 500}}
    assert ask("POST", ASK, mean).status_code == 201
    stated = ask("GET", "/v1/datasets/visits/questions").json()["questions"]
    assert all(set(one["asked"]) == {"sql", "budget"} for one in stated)


def test_a_question_as_json_is_answered(ask: Served) -> None:
    question = {
        "table": "visits",
        "steps": [{"where": "age >= 18"}],
        "group_by": ["county"],
        "aggregates": {"n": {"count": {}}, "m": {"mean": {"column": "age"}}},
    }
    found = ask("POST", ASK, {"question": question, "budget": {"rho": 0.01}, "purpose": "a try"})
    assert [row["county"] for row in found.json()["rows"]] == ["A", "B"]
    assert ask.service.ledger.entries("visits")[-1].purpose == "a try"


@pytest.mark.parametrize("several", mostly_long([4, 2]))
def test_equal_questions_at_once_are_paid_once(ask: Served, several: int) -> None:
    found = ask.all([("POST", ASK, COUNT)] * several)
    assert sorted(one.status_code for one in found) == [200] * (several - 1) + [201]
    assert len({one.content for one in found}) == 1
    assert ask.spent() == ZCDP("0.01")


@pytest.mark.long
def test_what_makes_another_question_is_paid_again(ask: Served) -> None:
    others = (
        COUNT,
        {**COUNT, "budget": {"rho": "0.02"}},
        {**COUNT, "sql": "SELECT COUNT(*) AS m FROM visits"},
        {**COUNT, "fresh": True},
        {**COUNT, "fresh": True},
    )
    assert [ask("POST", ASK, body).status_code for body in others] == [201] * 5
    assert ask("POST", ASK, COUNT, of="ben").status_code == 201
    assert ask.spent() == ZCDP("0.07")
    ordered = {**COUNT, "sql": "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"}
    first = ask("POST", ASK, ordered)
    last = ask("POST", ASK, {**ordered, "sql": f"{ordered['sql']} ORDER BY county DESC"})
    assert first.json()["rows"][0]["county"] == "A"
    assert last.json()["rows"][0]["county"] == "B"


def test_nobody_sees_what_is_not_theirs(ask: Served) -> None:
    release = ask("POST", ASK, COUNT)
    name = release.headers["location"].rpartition("/")[2]
    own = ask("GET", "/v1/datasets/visits/questions").json()["questions"]
    assert [one["id"] for one in own] == [name]
    assert own[0]["state"] == "answered"
    texts = set()
    for path in (
        f"/v1/releases/{name}",
        f"/v1/questions/{name}",
        "/v1/questions/nix",
        "/v1/releases/nix",
    ):
        texts.add(problem(ask("GET", path, of="ben"), "not-found")["title"])
    assert ask("GET", "/v1/datasets/visits/questions", of="ben").json() == {"questions": []}
    said = [
        problem(ask(method, path, body, of=of), "not-found")["detail"]
        for of, dataset in (("ana", "labs"), ("eve", "visits"), ("ana", "nix"))
        for method, path, body in (
            ("GET", f"/v1/datasets/{dataset}", None),
            ("GET", f"/v1/datasets/{dataset}/questions", None),
            ("POST", f"/v1/datasets/{dataset}/ask", COUNT),
            ("POST", f"/v1/datasets/{dataset}/explain", COUNT),
        )
    ]
    assert len(set(said)) == 1
    assert len(texts) == 1


@in_subtests("name", ENDPOINTS)
def test_every_operation_asks_for_a_token(ask: Served, name: str) -> None:
    one = ENDPOINTS[name]
    path = one.path.replace("{dataset}", "visits").replace("{id}", "a")
    assert (ask(one.method, path, of=None, address=name).status_code == 401) != one.open


@pytest.mark.long
def test_wrong_tokens_are_refused_and_counted(ask: Served) -> None:
    good = ask.tokens["ana"]
    short = make_token(ask.service.store, "ana", role="analyst", days=1)
    ask.service.store.revoke_token(short.split("_")[1])
    wrong = ["x", good[:-1], f"{good}x", good.upper(), short, "unacorda__", "é"]
    for number, text in enumerate(wrong[:6]):
        found = ask("GET", "/v1/me", of=text)
        assert problem(found, "no-token"), number
        assert found.headers["www-authenticate"] == "Bearer"
    for _ in range(4):
        ask("GET", "/v1/me", of="wrong")
    assert problem(ask("GET", "/v1/me"), "too-many")
    assert ask("GET", "/v1/me", address="10.0.0.2").status_code == 200


@pytest.mark.long
def test_a_token_ends(ask: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + 91 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    problem(ask("GET", "/v1/me"), "no-token")


NO_BODIES: tuple[tuple[Any, str], ...] = (
    (b"", "not-json"),
    (b"{", "not-json"),
    (b"\xff", "not-json"),
    (b'{"a": NaN}', "not-json"),
    (b'{"sql": "a", "sql": "b"}', "not-json"),
    (b"[" * 60_000, "not-json"),
    ([], "not-json"),
    (b" " * 70_000, "too-large"),
    ({}, "refused"),
    ({**COUNT, "extra": 1}, "refused"),
    ({**COUNT, "question": {}}, "refused"),
    ({"budget": {"rho": 1}}, "refused"),
    ({"sql": COUNT["sql"]}, "refused"),
    ({**COUNT, "budget": {}}, "refused"),
    ({**COUNT, "budget": {"rho": "nothing"}}, "refused"),
    ({**COUNT, "budget": {"rho": -1}}, "refused"),
    ({**COUNT, "budget": {"rho": 0}}, "refused"),
    ({**COUNT, "budget": {"rho": 0.1, "mu": 1}}, "refused"),
    ({**COUNT, "budget": {"epsilon": 1, "rho": 1}}, "refused"),
    ({**COUNT, "budget": {"epsilon": True}}, "refused"),
    ({**COUNT, "budget": {"epsilon": {"a": 1}}}, "refused"),
    ({**COUNT, "budget": 1}, "refused"),
    ({**COUNT, "sql": "SELECT * FROM visits"}, "refused"),
    ({**COUNT, "sql": "SELECT COUNT(*) AS n FROM read_csv('/etc/passwd')"}, "refused"),
    ({**COUNT, "sql": "SELECT COUNT(*) AS n FROM visits; DROP TABLE visits"}, "refused"),
    ({**COUNT, "sql": "ATTACH 'x.db'"}, "refused"),
    ({**COUNT, "sql": "COPY visits TO 'x.csv'"}, "refused"),
    ({**COUNT, "sql": "a\u0000b"}, "refused"),
    ({**COUNT, "purpose": "a\u0001"}, "refused"),
    ({**COUNT, "fresh": "yes"}, "refused"),
    ({**COUNT, "error": 5}, "refused"),
    ({"sql": COUNT["sql"], "error": 0}, "refused"),
    ({"sql": COUNT["sql"], "error": {"m": 1}}, "refused"),
    ({"sql": "SELECT AVG(age) AS m FROM visits", "error": 5}, "refused"),
    ({**COUNT, "budget": {"rho": "0.2"}}, "budget-exceeded"),
)


@in_subtests(("body", "kind"), NO_BODIES, ids=lambda value: str(value)[:50])
def test_a_refusal_has_its_problem_and_costs_nothing(ask: Served, body: Any, kind: str) -> None:
    for path in (ASK,) if kind == "budget-exceeded" else (ASK, EXPLAIN):
        said = problem(ask("POST", path, body), kind)
        assert str(ask.service.config.ledger) not in json.dumps(said)
    assert ask.spent() == ZCDP(0)


@pytest.mark.long
def test_requests_of_another_kind_are_refused(ask: Served) -> None:
    problem(ask("POST", ASK, COUNT, headers={"Content-Type": "text/plain"}), "not-a-type")
    problem(ask("GET", "/v1/me", host="http://other.example"), "another-host")
    problem(ask("GET", "/v1/nix"), "not-found")
    problem(ask("DELETE", "/v1/me"), "not-a-method")
    for path in ("/v1/datasets/..%2f..%2fetc/ask", "/v1/releases/..%2f", "/v1/datasets/file:x"):
        assert ask("GET", path).status_code in (404, 405)
    for before in ("-1", "x", "9" * 30):
        problem(ask("GET", f"/v1/datasets/visits/questions?before={before}"), "refused")


@pytest.mark.long
def test_limits_of_the_data_set_are_not_told(ask: Served) -> None:
    half = {**COUNT, "budget": {"rho": "0.05"}, "fresh": True}
    assert [ask("POST", ASK, half).status_code for _ in range(2)] == [201, 201]
    own = problem(ask("POST", ASK, {**COUNT, "fresh": True}), "budget-exceeded")
    assert "rho 0 is left of your limit" in own["detail"]
    total = problem(
        ask("POST", ASK, {**COUNT, "budget": {"rho": "0.06"}}, of="ben"), "budget-exceeded"
    )
    assert total["detail"] == "The dataset does not have enough budget left for this."


@in_subtests("name", ["v/ana", "..", "", "a b", "é"])
def test_names_of_data_sets_stand_in_addresses(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, CONFIGURATION.replace("[datasets.visits]", f'[datasets."{name}"]'))
    with pytest.raises(InvalidParameter, match="letters, digits"):
        read_config(path)


@pytest.mark.long
def test_a_curator_changes_a_limit_between_questions(ask: Served) -> None:
    assert ask("POST", ASK, {**COUNT, "budget": {"rho": "0.1"}}).status_code == 201
    problem(ask("POST", ASK, COUNT), "budget-exceeded")
    ask.service.ledger.change_limit("visits", "ana", ZCDP("0.12"), by="office")
    assert ask("POST", ASK, COUNT).status_code == 201
    ask.service.ledger.change_limit("visits", "ana", None)
    problem(ask("POST", ASK, {**COUNT, "fresh": True}), "budget-exceeded")


def test_no_number_tells_how_often_others_ask(ask: Served) -> None:
    for number, of in enumerate(("ana", "ben", "ben", "ana", "ben")):
        ask("POST", ASK, {**COUNT, "budget": {"rho": f"0.00{number + 1}"}}, of=of)
    for of, count in (("ana", 2), ("ben", 3)):
        own = ask("GET", "/v1/datasets/visits/questions", of=of).json()["questions"]
        assert [one["number"] for one in own] == list(range(count, 0, -1))


@pytest.mark.long
def test_pages_of_questions(ask: Served) -> None:
    for number in range(3):
        ask("POST", ASK, {**COUNT, "budget": {"rho": f"0.00{number + 1}"}})
    found = ask("GET", "/v1/datasets/visits/questions").json()["questions"]
    assert [one["number"] for one in found] == [3, 2, 1]
    rest = ask("GET", "/v1/datasets/visits/questions?before=2").json()["questions"]
    assert [one["number"] for one in rest] == [1]


@pytest.mark.long
def test_a_refused_question_may_be_asked_again(ask: Served) -> None:
    too_much = {**COUNT, "budget": {"rho": "0.11"}}
    problem(ask("POST", ASK, too_much), "budget-exceeded")
    ask.service.ledger.change_limit("visits", "ana", ZCDP("0.12"))
    assert ask("POST", ASK, too_much).status_code == 201
    states = [
        one["state"] for one in ask("GET", "/v1/datasets/visits/questions").json()["questions"]
    ]
    assert states == ["answered", "refused"]


@pytest.mark.long
def test_a_table_that_changes_is_told_without_its_path(ask: Served, tmp_path: Path) -> None:
    table = tmp_path / "visits.csv"
    table.write_text(table.read_text() + "9999,5,A\n")
    os.utime(table, (1, 1))
    said = problem(ask("POST", ASK, COUNT), "source-changed")
    assert str(tmp_path) not in json.dumps(said)
    assert ask.spent() == ZCDP(0)


@pytest.mark.long
def test_a_release_of_the_file_before_is_not_given_again(tmp_path: Path) -> None:
    with served(tmp_path) as ask:
        assert ask("POST", ASK, COUNT).status_code == 201
        assert ask("POST", ASK, COUNT).status_code == 200
    with served(tmp_path) as ask:  # which writes the table anew, at another time
        assert ask("POST", ASK, COUNT).status_code == 201
        assert ask.spent() == ZCDP("0.02")


@pytest.mark.long
def test_what_was_stored_stays_answered_though_the_ledger_fails(
    ask: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise LedgerFailed("sqlite:////secret/budget.db", reason="disk full")

    monkeypatch.setattr(type(ask.service.ledger), "commit", fail)
    said = problem(ask("POST", ASK, COUNT), "ledger-failed")
    assert "secret" not in json.dumps(said)
    assert ask("POST", ASK, COUNT).status_code == 200
    assert ask.spent() == ZCDP("0.01")


@pytest.mark.long
def test_a_store_that_fails_is_told_without_its_address(
    ask: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("SELECT secret", {}, Exception("postgresql://secret"))

    monkeypatch.setattr(type(ask.service.store), "begin", fail)
    said = problem(ask("POST", ASK, COUNT), "ledger-failed")
    assert "secret" not in json.dumps(said) + caplog.text
    assert ask.spent() == ZCDP(0)


@pytest.mark.long
def test_a_fault_of_the_server_tells_nothing(
    ask: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("patient 17")

    monkeypatch.setattr(unacorda.Session, "evaluate", fail)
    said = problem(ask("POST", ASK, COUNT), "failed")
    assert "17" not in json.dumps(said)
    assert "17" not in caplog.text
    (asked,) = ask("GET", "/v1/datasets/visits/questions").json()["questions"]
    assert asked["state"] == "failed"


@pytest.mark.long
def test_a_data_set_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace('labs = "visits.csv"', 'labs = "none.csv"')
    with served(tmp_path, configuration) as ask:
        assert ask("POST", ASK, COUNT).status_code == 201
        problem(ask("GET", "/v1/datasets/labs", of="ben"), "unavailable")
        problem(ask("GET", "/v1/datasets/labs", of="ana"), "not-found")


def test_the_document_and_the_routes_are_one(ask: Served) -> None:
    said = ask("GET", "/openapi.json", of=None).json()
    assert said == openapi_document("http://127.0.0.1:8040")
    stated = {(path, method) for path, of in said["paths"].items() for method in of}
    routes: Any = ask.app.routes
    assert stated == {
        (route.path, method.lower())
        for route in routes
        for method in route.methods - {"HEAD"}
        if route.path.startswith(("/v1/", "/openapi"))
    }
    for one in ENDPOINTS.values():
        codes = said["paths"][one.path][one.method]["responses"]
        assert {str(TITLES[kind][0]) for kind in one.problems} <= set(codes)


@pytest.mark.long
def test_every_response_says_that_nothing_is_to_be_kept(ask: Served) -> None:
    for found in (ask("GET", "/v1/me"), ask("GET", "/nix"), ask("GET", "/v1/me", of=None)):
        assert found.headers["cache-control"] == "no-store"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in found.headers if name.startswith("access-control")]
