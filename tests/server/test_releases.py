"""Stored releases: their forms, whether they are what they say, and whose they are."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.served import CONFIGURATION, COUNT, Served, served
from tests.server.test_page import browser, confirmed, form
from tests.server.test_routes import ASK, EXPLAIN, problem
from tests.support.cases import in_subtests

import unacorda
from unacorda import ZCDP
from unacorda.server.remote import RemoteQuery, _asked

VERIFY = "/v1/verify"
DATASET = CONFIGURATION.replace("[server]", '[server]\nreuse = "dataset"')


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def test_a_release_is_verified_as_by_the_command_line(ask: Served) -> None:
    release = ask("POST", ASK, COUNT)
    said = ask("POST", VERIFY, release.content).json()
    assert said["holds"] is True
    assert said["stored"] == release.headers["location"].rpartition("/")[2]
    assert said["not_shown"]
    altered = release.text.replace('"weight": "1"', '"weight": "2"').encode()
    assert altered != release.content
    said = ask("POST", VERIFY, altered).json()
    assert (said["holds"], said["stored"]) == (False, None)
    assert [one["check"] for one in said["checks"] if one["outcome"] == "differs"] == ["digest"]
    assert ask("POST", VERIFY, release.content, of="ben").json()["stored"] is None
    assert ask.spent() == ZCDP("0.01")


def test_what_is_no_release_is_refused(ask: Served) -> None:
    problem(ask("POST", VERIFY, {"a": 1}), "refused")
    problem(ask("POST", VERIFY, b"{"), "refused")
    problem(ask("POST", VERIFY, b"\xff"), "not-json")
    problem(ask("POST", VERIFY, b"[" * 100_000), "refused")
    problem(ask("POST", VERIFY, b" " * ((1 << 22) + 1)), "too-large")
    problem(ask("POST", VERIFY, {}, headers={"Content-Type": "text/plain"}), "not-a-type")


@pytest.mark.long
def test_rows_are_csv_exact_or_for_spreadsheets(tmp_path: Path) -> None:
    text = CONFIGURATION.replace('["A", "B"]', '["A", "=cmd()"]')
    with served(tmp_path, text) as ask:
        grouped = {**COUNT, "sql": "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"}
        release = ask("POST", ASK, grouped)
        path = release.headers["location"]
        assert ask("GET", f"{path}.json").content == release.content == ask("GET", path).content
        found = ask("GET", f"{path}.csv")
        assert found.headers["content-type"] == "text/csv; charset=utf-8"
        read = list(csv.DictReader(io.StringIO(found.text)))
        assert [row["county"] for row in read] == ["A", "=cmd()"]
        stated = release.json()["rows"]
        assert [float(row["n_se"]) for row in read] == [row["n_se"] for row in stated]
        assert "'=cmd()" in ask("GET", f"{path}.csv?spreadsheet=true").text
        problem(ask("GET", f"{path}.csv?spreadsheet=yes"), "refused")
        for of in ("ben", "eve"):
            problem(ask("GET", f"{path}.csv", of=of), "not-found")
        problem(ask("GET", "/v1/releases/nix.csv"), "not-found")


@pytest.mark.long
def test_an_equal_question_of_another_is_given_again_where_it_is_allowed(tmp_path: Path) -> None:
    with served(tmp_path, DATASET) as ask:
        first = ask("POST", ASK, {**COUNT, "purpose": "ana's own"})
        assert first.status_code == 201
        second = ask("POST", ASK, {**COUNT, "purpose": "ben's"}, of="ben")
        assert (second.status_code, second.content) == (200, first.content)
        assert ask.spent() == ZCDP("0.01")
        (own,) = ask("GET", "/v1/datasets/visits/questions", of="ben").json()["questions"]
        assert (own["purpose"], own["cost"], own["number"]) == ("ben's", None, 1)
        assert ask("GET", own["release"], of="ben").content == first.content
        again = ask("POST", ASK, COUNT, of="ben")
        assert (again.status_code, again.headers["location"]) == (200, own["release"])
        # By its address an answer is seen by who may ask the dataset, without its purpose.
        name = first.headers["location"].rpartition("/")[2]
        assert ask("GET", first.headers["location"], of="ben").content == first.content
        seen = ask("GET", f"/v1/questions/{name}", of="ben")
        assert "ana" not in seen.text
        assert seen.json()["number"] == 0
        problem(ask("GET", f"/v1/questions/{name}", of="eve"), "not-found")
        problem(ask("DELETE", f"/v1/questions/{name}", of="ben"), "not-found")
        assert ask("POST", ASK, {**COUNT, "fresh": True}, of="ben").status_code == 201
        assert ask.spent() == ZCDP("0.02")


@pytest.mark.long
def test_equal_questions_of_two_at_once_are_paid_once_where_it_is_allowed(tmp_path: Path) -> None:
    with served(tmp_path, DATASET) as ask:
        page = browser(ask, "ben")
        location = page.post("/ask/visits/spend", confirmed(page, form())).headers["location"]
        assert "Answers are shared" in page.get("/ask/visits").text
        other = browser(ask)
        confirm = other.post("/ask/visits/confirm", form()).text
        assert "somebody has asked" in confirm
        assert location in confirm
        sent = other.post("/ask/visits/spend", {**form(), "once": "a"}).headers["location"]
        assert sent != location
        assert "Answer</h1>" in other.get(location).text
        assert "Answer</h1>" in other.get(sent).text
        assert ask.spent() == ZCDP("0.01")


@pytest.mark.long
def test_every_question_is_paid_where_none_is_given_again(tmp_path: Path) -> None:
    text = CONFIGURATION.replace("[server]", '[server]\nreuse = "off"')
    with served(tmp_path, text) as ask:
        assert [ask("POST", ASK, COUNT).status_code for _ in range(2)] == [201, 201]
        key: dict[str, Any] = {"headers": {"Idempotency-Key": "a"}}
        assert [ask("POST", ASK, COUNT, **key).status_code for _ in range(2)] == [201, 200]
        assert ask.spent() == ZCDP("0.03")
        page = browser(ask)
        assert "Already" not in page.post("/ask/visits/confirm", form()).text


@pytest.mark.long
def test_a_purpose_is_asked_for_where_it_is_required(tmp_path: Path) -> None:
    text = CONFIGURATION.replace('title = "Visits"', 'title = "Visits"\npurpose_required = true')
    with served(tmp_path, text) as ask:
        for body in (COUNT, {**COUNT, "purpose": " "}):
            assert problem(ask("POST", ASK, body), "refused")["pointer"] == "/purpose"
        assert ask.spent() == ZCDP(0)
        assert ask("POST", ASK, {**COUNT, "purpose": "a table"}).status_code == 201
        page = browser(ask)
        assert (
            'maxlength="200" autocomplete="off" required'
            in page.post("/ask/visits/confirm", form()).text
        )


def test_the_document_says_what_each_form_is(ask: Served) -> None:
    paths = json.loads(ask("GET", "/openapi.json", of=None).text)["paths"]
    said = paths["/v1/releases/{id}.csv"]["get"]
    assert list(said["responses"]["200"]["content"]) == ["text/csv"]
    assert [one["name"] for one in said["parameters"]] == ["id", "spreadsheet"]
    assert paths["/v1/verify"]["post"]["requestBody"]["required"]


SEVERAL: dict[str, Any] = {
    "questions": {
        "all": "SELECT COUNT(*) AS n FROM visits",
        "by county": "SELECT county, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY county DESC",
        "old": {
            "table": "visits",
            "steps": [{"where": "age >= 65"}],
            "aggregates": {"n": {"count": {}}},
        },
    },
    "budget": {"rho": "0.03"},
}


@pytest.mark.long
def test_questions_are_asked_together_for_one_price(ask: Served) -> None:
    explained = ask("POST", EXPLAIN, SEVERAL).json()
    assert set(explained["questions"]) == {"all", "by county", "old"}
    tried = ask("POST", "/v1/datasets/visits/try", SEVERAL).json()["release"]
    assert set(tried["releases"]) == set(SEVERAL["questions"])
    assert ask.spent() == ZCDP(0)
    found = ask("POST", ASK, SEVERAL)
    assert found.status_code == 201, found.text
    stated = found.json()["releases"]
    assert [row["county"] for row in stated["by county"]["rows"]] == ["B", "A"]
    assert ask.spent() == ZCDP("0.03")
    assert ask("POST", ASK, SEVERAL).content == found.content
    assert ask("POST", VERIFY, found.content).json()["holds"] is True
    problem(ask("GET", f"{found.headers['location']}.csv"), "refused")
    other = {**SEVERAL, "questions": dict(reversed(SEVERAL["questions"].items()))}
    assert ask("POST", ASK, other).status_code == 201  # named in another order


@pytest.mark.long
def test_an_answer_to_several_is_a_page(ask: Served) -> None:
    location = ask("POST", ASK, SEVERAL).headers["location"]
    page, name = browser(ask), location.rpartition("/")[2]
    text = html.unescape(page.get(f"/answers/{name}").text)
    for part in SEVERAL["questions"]:
        assert f"<h2>{part}</h2>" in text
    assert "rows.csv" not in text
    assert "Ask one like it" not in text
    assert page.get(f"/answers/{name}/rows.csv").status_code == 422
    assert page.get(f"/ask/visits?like={name}").status_code == 422
    assert "by county: SELECT county" in html.unescape(page.get("/history").text)
    code = text.partition('id="python">')[2].partition("</pre>")[0]
    asked: list[Any] = []

    class Remote:
        def __init__(self, *_: str, **__: str) -> None:
            pass

        def read_json(self, stated: Any) -> Any:
            return RemoteQuery(stated=stated)

        def evaluate(self, questions: Any, *, budget: Any) -> None:
            asked.extend((_asked(questions), budget))

    code = code.replace("import unacorda", "").replace("unacorda.Remote", "Remote")
    exec(code, {"Remote": Remote, "token": "t", "unacorda": unacorda})
    assert asked == [{"questions": SEVERAL["questions"]}, ZCDP("0.03")]


NO_SEVERAL: tuple[Any, ...] = (
    {},
    {"a": "SELECT 1"},
    {"a": 1},
    {"a": None},
    {"": "SELECT COUNT(*) AS n FROM visits"},
    {"a": {"table": "nix", "aggregates": {"n": {"count": {}}}}},
    {f"q{number}": "SELECT COUNT(*) AS n FROM visits" for number in range(60)},
)


@in_subtests("questions", NO_SEVERAL, ids=lambda value: str(value)[:40])
def test_what_cannot_be_asked_together_is_refused(ask: Served, questions: Any) -> None:
    said = problem(ask("POST", ASK, {**SEVERAL, "questions": questions}), "refused")
    assert said["detail"]
    assert ask.spent() == ZCDP(0)


def test_a_fault_in_one_of_several_is_pointed_at(ask: Served) -> None:
    wrong = {"table": "visits", "steps": [{"where": "nix > 1"}], "aggregates": {"n": {"count": {}}}}
    body = {**SEVERAL, "questions": {"a": SEVERAL["questions"]["all"], "b": wrong}}
    said = problem(ask("POST", EXPLAIN, body), "refused")
    assert said["pointer"].startswith("/questions/b/steps/0")
    both = {"questions": SEVERAL["questions"], "error": 5}
    assert problem(ask("POST", EXPLAIN, both), "refused")["pointer"] == "/error"
