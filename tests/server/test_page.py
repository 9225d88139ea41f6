"""The page without a browser: each screen by who sees it, and what its forms do."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import functools
import html
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from tests.server.served import CONFIGURATION, HOST, Served, served
from tests.support.cases import in_subtests

import unacorda
from unacorda import ZCDP
from unacorda.server.page.curator import _spends
from unacorda.server.store import AnswerStore
from unacorda.server.tokens import IDLE_SECONDS, LONGEST_SECONDS, make_token

SQL = "SELECT COUNT(*) AS n FROM visits"
OWN = {"Origin": HOST, "Sec-Fetch-Site": "same-origin"}


class Browser:
    """One browser: it keeps its cookies, follows no redirection, and sends forms as pages do."""

    def __init__(self, ask: Served, address: str = "10.0.0.1") -> None:
        self._ask, self._address = ask, address
        self.cookies = httpx.Cookies()
        self.form_token = ""

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", [(path, None)], headers)[0]

    def post(
        self,
        path: str,
        fields: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] = OWN,
    ) -> httpx.Response:
        return self.post_all([(path, fields or {})], headers=headers)[0]

    def post_all(
        self, forms: Sequence[tuple[str, Mapping[str, Any]]], *, headers: Mapping[str, str] = OWN
    ) -> list[httpx.Response]:
        sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        bodies = [
            (path, urlencode({"form_token": self.form_token, **fields}, doseq=True))
            for path, fields in forms
        ]
        return self.send("POST", bodies, sent)

    def send(
        self, method: str, requests: Sequence[tuple[str, str | None]], headers: Mapping[str, str]
    ) -> list[httpx.Response]:
        async def ask() -> list[httpx.Response]:
            transport = httpx.ASGITransport(
                self._ask.app, client=(self._address, 1), raise_app_exceptions=False
            )
            async with httpx.AsyncClient(
                transport=transport, base_url=HOST, cookies=self.cookies, timeout=60
            ) as client:
                found = await asyncio.gather(
                    *(
                        client.request(method, path, content=body, headers=dict(headers))
                        for path, body in requests
                    )
                )
                self.cookies = client.cookies
                return list(found)

        return asyncio.run(ask())

    def sign_in(self, token: str) -> httpx.Response:
        found = self.post("/sign-in", {"token": token})
        if found.status_code == 303:
            self.form_token = hidden(self.get("/"), "form_token")
        return found


def hidden(response: httpx.Response, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{re.escape(name)}" value="([^"]*)"', response.text)
    assert found is not None, response.text
    return html.unescape(found[1])


def browser(ask: Served, name: str = "ana") -> Browser:
    found = Browser(ask)
    assert found.sign_in(ask.tokens[name]).status_code == 303
    return found


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        found.tokens["office"] = make_token(found.service.store, "office", role="curator")
        yield found


def form(**more: Any) -> dict[str, Any]:
    """The fields of a question in SQL."""
    return {"mode": "sql", "sql": SQL, "budget.rho": "0.01", **more}


def built(**more: Any) -> dict[str, Any]:
    """The fields of a question of the builder."""
    return {
        "mode": "build",
        "table": "visits",
        "answer0.function": "count",
        "answer1.function": "mean",
        "answer1.column": "age",
        "where0.column": "age",
        "where0.operator": ">=",
        "where0.value": "18",
        "group": ["county"],
        "budget.rho": "0.02",
        **more,
    }


def confirmed(page: Browser, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the form that spends, as the confirming page has them."""
    found = page.post("/ask/visits/confirm", fields)
    assert found.status_code == 200, found.text
    return {**fields, "once": hidden(found, "once")}


def test_from_sign_in_to_an_answer(ask: Served) -> None:
    """Nothing is spent before the form that says so, and then it is spent once."""
    page = Browser(ask)
    assert page.get("/").headers["location"].startswith("/sign-in")
    page.sign_in(ask.tokens["ana"])
    assert "Visits" in page.get("/").text
    assert "listed values" in page.get("/ask/visits").text
    explained = page.post("/ask/visits", built())
    assert "95% within" in explained.text
    assert "<polyline" in explained.text
    fields = confirmed(page, built())
    assert ask.spent() == ZCDP(0)
    twice = page.post_all([("/ask/visits/spend", {**fields, "purpose": "a <try>"})] * 2)
    assert {one.headers["location"] for one in twice} == {twice[0].headers["location"]}
    assert ask.spent() == ZCDP("0.02")
    answer = page.get(twice[0].headers["location"])
    assert "mean_age" in answer.text
    assert "±" in answer.text
    assert "a &lt;try&gt;" in answer.text
    history = page.get("/history").text
    assert "count, mean" in history
    again = page.post("/ask/visits/confirm", built()).text
    assert "Already answered" in again


@pytest.mark.long
def test_paying_again_is_paid_once_for_one_form(ask: Served) -> None:
    page = browser(ask)
    fields = confirmed(page, form())
    page.post("/ask/visits/spend", fields)
    once = {**confirmed(page, form()), "fresh": "on"}
    sent = page.post_all([("/ask/visits/spend", once)] * 3)
    assert len({one.headers["location"] for one in sent}) == 1
    assert ask.spent() == ZCDP("0.02")
    page.post("/ask/visits/spend", {**confirmed(page, form()), "fresh": "on"})
    assert ask.spent() == ZCDP("0.03")


FOREIGN = {
    "another site": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    "a sister host": {"Origin": "http://a.127.0.0.1:8040", "Sec-Fetch-Site": "same-site"},
    "a frame without origin": {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    "an old browser elsewhere": {"Origin": "https://evil.example"},
    "an old browser's frame": {"Origin": "null"},
    "origin that is ours in a request that is not": {"Origin": HOST, "Sec-Fetch-Site": "none"},
    "origin that is not ours": {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    "neither": {},
}


@in_subtests("headers", FOREIGN.values())
def test_forms_of_other_origins_are_refused(ask: Served, headers: dict[str, str]) -> None:
    page = browser(ask)
    fields = {**form(), "once": "a"}
    assert page.post("/ask/visits/spend", fields, headers=headers).status_code == 403
    assert page.post("/sign-out", headers=headers).status_code == 403
    assert page.post("/sign-in", {"token": "x"}, headers=headers).status_code == 403
    assert ask.spent() == ZCDP(0)


@pytest.mark.long
def test_forms_without_the_browser_s_own_token_are_refused(ask: Served) -> None:
    page, other = browser(ask), browser(ask, "ben")
    for wrong in ("", "0" * 64, other.form_token, "é"):
        fields = {**form(), "once": "a", "form_token": wrong}
        assert page.post("/ask/visits/spend", fields).status_code == 403
    assert ask.spent() == ZCDP(0)
    for own in ({"Origin": HOST}, {"Origin": "null", "Sec-Fetch-Site": "same-origin"}):
        assert page.post("/ask/visits", form(), headers=own).status_code == 200


@pytest.mark.long
def test_what_is_no_form_is_refused(ask: Served) -> None:
    page = browser(ask)
    many = "&".join(f"a{n}=1" for n in range(600))
    for body, kind, status in (
        ("{}", "application/json", 415),
        ("form_token=%ff", "application/x-www-form-urlencoded", 400),
        (many, "application/x-www-form-urlencoded", 400),
        ("a" * 70_000, "application/x-www-form-urlencoded", 413),
    ):
        found = page.send("POST", [("/ask/visits", body)], {**OWN, "Content-Type": kind})[0]
        assert found.status_code == status


@pytest.mark.long
def test_a_question_is_confirmed_before_it_is_asked(ask: Served) -> None:
    page = browser(ask)
    for once in ("", "a b", "a" * 65, "é"):
        assert page.post("/ask/visits/spend", {**form(), "once": once}).status_code == 422
    assert ask.spent() == ZCDP(0)


@pytest.mark.long
def test_nothing_is_spent_by_get(ask: Served) -> None:
    page = browser(ask)
    fields = {**confirmed(page, form()), "form_token": page.form_token}
    routes: Any = ask.app.routes
    for route in routes:
        path = route.path.format(dataset="visits", id="nix", name="page.css")
        page.get(f"{path}?{urlencode(fields)}")
    assert ask.spent() == ZCDP(0)


def test_who_is_not_signed_in_sees_nothing(ask: Served) -> None:
    page = Browser(ask)
    routes: Any = ask.app.routes
    for route in routes:
        if route.path.startswith(("/v1", "/openapi", "/sign-in", "/static")):
            continue
        path = route.path.format(dataset="visits", id="nix", name="rows.csv")
        found = page.post(path) if "POST" in route.methods else page.get(path)
        assert found.status_code == 303, path
        assert found.headers["location"].startswith("/sign-in")
    page.cookies.set("unacorda", "x" * 43)
    assert page.get("/").status_code == 303


@pytest.mark.long
def test_wrong_tokens_are_counted_at_the_page_too(ask: Served) -> None:
    page = Browser(ask)
    statuses = [page.sign_in(f"unacorda_a_{n}").status_code for n in range(11)]
    assert statuses == [401] * 10 + [429]
    assert page.sign_in(ask.tokens["ana"]).status_code == 429


@pytest.mark.long
def test_a_sign_in_ends(ask: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    page = browser(ask)
    cookie = page.cookies["unacorda"]
    assert cookie not in Path(
        ask.service.config.store.removeprefix("sqlite:///")
    ).read_bytes().decode("latin-1")
    assert page.get("/").status_code == 200
    left = browser(ask)
    left.post("/sign-out")
    left.cookies.set("unacorda", "", path="/")
    for later in (IDLE_SECONDS + 60, LONGEST_SECONDS + 60):
        with monkeypatch.context() as patch:
            patch.setattr("time.time", functools.partial(float, time.time() + later))
            assert page.get("/").status_code == 303
    ask.service.store.revoke_token(ask.tokens["ana"].split("_")[1])
    assert page.get("/").status_code == 303


@pytest.mark.long
def test_signing_out_ends_the_cookie_wherever_it_was_copied(ask: Served) -> None:
    page, thief = browser(ask), Browser(ask)
    thief.cookies.set("unacorda", page.cookies["unacorda"])
    assert thief.get("/").status_code == 200
    assert page.post("/sign-out").status_code == 303
    assert thief.get("/").status_code == 303


@pytest.mark.long
def test_the_cookie_is_bound_to_the_host(ask: Served, tmp_path: Path) -> None:
    set_cookie = Browser(ask).sign_in(ask.tokens["ana"]).headers["set-cookie"].lower()
    assert "httponly" in set_cookie
    assert "samesite=strict" in set_cookie
    assert "domain" not in set_cookie


@pytest.mark.long
def test_under_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    url = 'public_url = "https://ask.example"\n'
    with served(tmp_path, CONFIGURATION.replace("timeout = 20\n", url)) as ask:
        body = urlencode({"token": ask.tokens["ana"]})
        sent = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": "https://ask.example",
        }
        found = ask(
            "POST", "/sign-in", body.encode(), of=None, headers=sent, host="https://ask.example"
        )
        cookie = found.headers["set-cookie"]
        assert cookie.startswith("__Host-unacorda=")
        assert "Secure" in cookie
        assert "Path=/;" in f"{cookie};"


@pytest.mark.long
def test_others_questions_and_data_sets_are_not_there(ask: Served) -> None:
    page, other = browser(ask), browser(ask, "ben")
    found = page.post("/ask/visits/spend", confirmed(page, form())).headers["location"]
    name = found.rpartition("/")[2]
    assert other.get("/ask/labs").status_code == 200
    texts = set()
    for path in (found, f"{found}/rows.csv", "/answers/nix", "/answers/nix/release.json"):
        response = other.get(path)
        assert response.status_code == 404
        texts.add(response.text)
    assert len(texts) == 1
    assert name not in other.get("/history").text
    stranger = browser(ask, "eve")
    for refused in (
        page.get("/ask/labs"),
        page.get("/ask/nix"),
        stranger.get("/ask/visits"),
        page.post("/ask/labs/spend", {**form(), "once": "a"}),
        other.get(f"/ask/labs?like={name}"),
        page.get("/static/..%2froutes.py"),
        page.get("/static/nix"),
    ):
        assert refused.status_code == 404


@pytest.mark.long
def test_the_policy_stands_on_every_response(ask: Served) -> None:
    page = browser(ask)
    answer = page.post("/ask/visits/spend", confirmed(page, form())).headers["location"]
    for path in ("/", "/ask/visits", answer, f"{answer}/rows.csv", "/static/page.css", "/sign-in"):
        found = page.get(path)
        policy = found.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert found.headers["cache-control"] == "no-store"
        assert found.headers["referrer-policy"] == "no-referrer"
        assert not re.search(r"<[^>]* (style|on\w+)=", found.text)
        assert "<style" not in found.text
        assert not re.search(r"(src|href|action)=\"(https?:)?//", found.text)
        for script in re.findall(r"<script[^>]*>(.*?)</script>", found.text, re.DOTALL):
            assert not script


def test_unknown_addresses_are_pages_for_browsers_alone(ask: Served) -> None:
    page = Browser(ask)
    found = page.get("/nix", accept="text/html,application/xhtml+xml")
    assert found.status_code == 404
    assert found.headers["content-type"].startswith("text/html")
    assert "There is nothing here" in found.text
    assert found.headers["content-security-policy"].startswith("default-src 'none'; script-src")
    for path, accept in (("/nix", "application/json"), ("/nix", "*/*"), ("/v1/nix", "text/html")):
        plain = page.get(path, accept=accept)
        assert plain.status_code == 404
        assert plain.headers["content-type"] == "application/problem+json"
    assert page.send("PUT", [("/", None)], {"accept": "text/html"})[0].status_code == 405
    signed_in = browser(ask)
    for path in ("/ask/visits/confirm", "/ask/visits/spend"):
        assert signed_in.get(path).headers["location"] == "/ask/visits"


JOINED = {
    "table": "visits",
    "steps": [
        {"where": "age >= 18"},
        {"derive": {"old": "age / 2"}},
        {"join": "regions", "on": "county"},
        {"where": "old > 3"},
    ],
    "group_by": ["region"],
    "keys": ["north", "south"],
    "aggregates": {
        "n": {"count": {}},
        "m": {"mean": {"column": "age", "lower": 0, "upper": 120, "weight": "1/2"}},
        "halves": {"sum": {"column": "age / 2", "lower": 0, "upper": 60}},
    },
}


@pytest.mark.long
def test_what_the_builder_cannot_show_of_an_older_question_is_kept(tmp_path: Path) -> None:
    (tmp_path / "regions.csv").write_text("county,region\nA,north\nB,south\n")
    public = 'tables = { visits = "visits.csv" }\npublic = { regions = "regions.csv" }'
    text = CONFIGURATION.replace('tables = { visits = "visits.csv" }', public)
    with served(tmp_path, text) as ask:
        body = {"question": JOINED, "budget": {"rho": "0.01"}}
        asked = ask("POST", "/v1/datasets/visits/ask", body)
        assert asked.status_code == 201, asked.text
        page, name = browser(ask), asked.headers["location"].rpartition("/")[2]
        public = ask("GET", "/v1/datasets/visits").json()["public"]
        assert public["regions"]["region"]["type"] == "VARCHAR"
        assert 'join "regions"' in html.unescape(page.get(f"/answers/{name}").text)
        like = page.get(f"/ask/visits?like={name}").text
        kept = [html.unescape(one) for one in re.findall(r'name="kept" value="([^"]*)"', like)]
        assert len(kept) == 7
        assert re.search(r'name="group" value="region" checked', like)
        again = {
            "mode": "build",
            "table": "visits",
            "kept": kept,
            "group": "region",
            "budget.rho": "0.01",
            "answer0.function": "count",
            "answer0.name": "n",
        }
        assert "Already answered" in page.post("/ask/visits/confirm", again).text  # it is equal
        other = {**again, "budget.rho": "0.02", "once": "a"}
        location = page.post("/ask/visits/spend", other).headers["location"]
        second = page.get(f"{location}/release.json").json()
        assert set(second["rows"][0]) == set(asked.json()["rows"][0])
        stored = ask("GET", f"/v1/questions/{location.rpartition('/')[2]}").json()["asked"]
        assert stored["question"]["steps"] == JOINED["steps"]
        assert stored["question"]["keys"] == JOINED["keys"]
        fewer = {**again, "kept": kept[:4] + kept[5:]}
        assert page.post("/ask/visits/confirm", fewer).status_code == 200
        for wrong in ("x", "[]", '["nix", "", 1]', '["step", "", {"read": "x"}]', "[" * 9_000):
            refused = page.post("/ask/visits", {**again, "kept": wrong})
            assert refused.status_code == 422
        without = page.get(f"/ask/visits?like={location.rpartition('/')[2]}").text
        assert re.findall(r'name="kept"', without) == ['name="kept"'] * 7


@pytest.mark.long
def test_possible_values_are_shown_on_demand(ask: Served) -> None:
    """Where a count came out below zero; where none did, there is nothing to choose."""
    page = browser(ask)
    none = form(sql="SELECT COUNT(*) AS n FROM visits WHERE age > 119", **{"budget.rho": "0.0001"})
    for turn in range(60):
        fields = {**none, "once": f"a{turn}", "fresh": "on"}
        location = page.post("/ask/visits/spend", fields).headers["location"]
        value = page.get(f"{location}/release.json").json()["rows"][0]["n"]
        text = page.get(location).text
        if value < 0:
            break
        assert "?values=possible" not in text or value == 0
    assert value < 0  # fails by chance once in 2 ** 60
    assert 'aria-current="true">As released' in text
    assert f"-{-value:,}" in text.replace("\u2212", "-")
    possible = page.get(f"{location}?values=possible").text
    assert 'aria-current="true">Possible values alone' in possible
    assert re.search(r'<td class="number">0 ', possible)
    assert "likelier to be near the truth" in possible
    assert page.get(f"{location}/release.json").json()["rows"][0]["n"] == value


HOSTILE = "\"><script>alert(1)</script><b x='"


@pytest.mark.long
def test_hostile_names_and_values_are_escaped(tmp_path: Path) -> None:
    column, value = 'a"><img src=x>', "<i>=cmd()</i>"
    quoted = json.dumps(column)
    facts = f"{quoted} = {{ categories = [{json.dumps(value)}] }}"
    configuration = CONFIGURATION.replace("county = {", f"{facts}, county = {{").replace(
        'title = "Visits"', f"title = {json.dumps(HOSTILE)}"
    )
    header = 'patient,age,county,"' + column.replace('"', '""') + '"\n'
    with served(tmp_path, configuration, header=header, more=value) as ask:
        page = browser(ask)
        fields = {
            **built(),
            "group": [column],
            "where0.value": HOSTILE,
            "where0.operator": "<>",
            "where0.column": column,
            "answer0.name": HOSTILE,
            "within": HOSTILE,
        }
        seen = [page.get("/"), page.get("/ask/visits"), page.post("/ask/visits", fields)]
        spend = {**confirmed(page, fields), "purpose": HOSTILE}
        location = page.post("/ask/visits/spend", spend).headers["location"]
        name = location.rpartition("/")[2]
        seen += [page.get(location), page.get("/history"), page.get(f"/ask/visits?like={name}")]
        seen.append(page.post("/ask/visits", form(sql=HOSTILE)))
        for found in seen:
            assert "<script>alert" not in found.text
            assert "<img" not in found.text
            assert "<i>" not in found.text
            assert "<b x" not in found.text
        assert html.escape(column, quote=False).replace('"', "&#34;") in seen[2].text
        sheet = page.get(f"{location}/spreadsheet.csv").text
        assert HOSTILE.replace('"', '""') in sheet


@pytest.mark.long
def test_what_the_builder_quotes_is_data(ask: Served) -> None:
    """A text that would be SQL is a value, and a column that is none is refused."""
    page = browser(ask)
    for value in ("1 OR 1=1", "A') OR ('a'='a", "read_csv('/etc/passwd')", "x'; DROP TABLE visits"):
        fields = built(**{"where0.column": "county", "where0.operator": "=", "where0.value": value})
        explained = page.post("/ask/visits", fields)
        assert explained.status_code == 200
        assert "keep rows where" in explained.text
    wrong = page.post("/ask/visits", built(**{"where0.column": "nix"}))
    assert wrong.status_code == 422
    assert "nix" in wrong.text
    many = built(**{"where0.column": "county", "where0.operator": "is one of"})
    assert "IN (" in html.unescape(page.post("/ask/visits", {**many, "where0.value": "A, B"}).text)
    for operator in ("is missing", "is not missing"):
        assert page.post("/ask/visits", built(**{"where0.operator": operator})).status_code == 200


@pytest.mark.long
def test_the_wished_error_gives_the_budget(ask: Served) -> None:
    page = browser(ask)
    fields = {**form(), "do": "suggest", "within": "40", "budget.rho": ""}
    found = page.post("/ask/visits", fields)
    assert found.status_code == 200
    rho = re.search(r'name="budget.rho" value="([^"]*)"', found.text)
    assert rho is not None
    direct = ask(
        "POST", "/v1/datasets/visits/suggest", {"sql": SQL, "error": str(40 / 1.96)}
    ).json()["budget"]["rho"]
    numerator, _, denominator = direct.partition("/")
    assert float(rho[1]) == pytest.approx(int(numerator) / int(denominator or 1))
    for within in ("", "-1", "NaN", "1e999999", "x"):
        refused = page.post("/ask/visits", {**fields, "within": within})
        assert refused.status_code == 422
        assert "near" in refused.text
    means = {**built(), "do": "suggest", "within": "5"}
    assert page.post("/ask/visits", means).status_code == 422
    assert page.post("/ask/visits", {**means, "rows": "1,000"}).status_code == 200
    assert page.post("/ask/visits", {**means, "rows": "many"}).status_code == 422


@pytest.mark.long
def test_buttons_that_change_the_form_keep_what_it_holds(ask: Served) -> None:
    page = browser(ask)
    more = page.post("/ask/visits", {**built(), "do": "answer"}).text
    assert 'name="answer2.function"' in more
    assert 'value="18"' in more
    assert 'name="where1.column"' in page.post("/ask/visits", {**built(), "do": "condition"}).text
    other = page.post("/ask/visits", {**built(sql=SQL), "do": "mode:sql"}).text
    assert hidden_mode(other) == "sql"
    assert SQL in other
    assert (
        'value="0.005"' in page.post("/ask/visits", {**form(), "do": "pick", "pick": "0.005"}).text
    )
    assert ask.spent() == ZCDP(0)


def hidden_mode(text: str) -> str:
    found = re.search(r'name="mode" value="(\w+)"', text)
    assert found is not None
    return found[1]


@pytest.mark.long
@in_subtests("budget", ["", "0", "-1", "NaN", "1e400", "x", "1/0", "100"])
def test_bad_budgets_are_refused_before_anything_is_spent(ask: Served, budget: str) -> None:
    page = browser(ask)
    found = page.post("/ask/visits/spend", {**form(), "budget.rho": budget, "once": "a"})
    assert found.status_code in (409, 422)
    assert 'role="alert"' in found.text
    assert ask.spent() == ZCDP(0)


@pytest.mark.long
def test_what_is_refused_and_lost_is_shown(ask: Served) -> None:
    page = browser(ask)
    refused = page.post("/ask/visits/spend", {**form(), "budget.rho": "0.11", "once": "a"})
    assert refused.status_code == 409
    store = ask.service.store
    gone = AnswerStore(ask.service.config.store)
    begun: Any = {"key": "k", "analyst": "ana", "dataset": "visits", "purpose": None}
    question, _ = gone.begin(**begun, asked=json.dumps({"sql": SQL, "budget": {"rho": "1"}}))
    running = page.get(f"/answers/{question.id}").text
    assert 'http-equiv="refresh"' in running
    store.lose(before=time.time() + 1)
    gone.close()
    assert "Paid, no answer" in page.get(f"/answers/{question.id}").text
    history = page.get("/history").text
    assert "paid, no answer" in history
    assert "refused, free" in history
    assert "paid, no answer</span>" not in page.get("/history?state=refused").text
    assert "None yet" in page.get("/history?dataset=labs&before=x").text


@pytest.mark.long
def test_an_answer_is_downloaded_as_it_is_stored(ask: Served) -> None:
    page = browser(ask)
    location = page.post("/ask/visits/spend", confirmed(page, built())).headers["location"]
    release = page.get(f"{location}/release.json")
    name = location.rpartition("/")[2]
    assert release.content == ask("GET", f"/v1/releases/{name}").content
    rows = page.get(f"{location}/rows.csv")
    assert rows.text.startswith("county,count,count_se,count_low,count_high,mean_age")
    assert rows.headers["content-disposition"].startswith("attachment")
    assert page.get(f"{location}/nix.csv").status_code == 404
    like = page.get(f"/ask/visits?like={name}").text
    assert "&#34;age&#34; &gt;= 18" in like
    assert re.search(r'value="county" checked', like)


@pytest.mark.long
def test_an_answer_says_how_to_ask_it_elsewhere(ask: Served) -> None:
    page = browser(ask)
    fields = form(sql="SELECT COUNT(*) AS n\nFROM visits WHERE county = 'A'")
    location = page.post("/ask/visits/spend", confirmed(page, fields)).headers["location"]
    text = html.unescape(page.get(location).text)
    found = re.search(r'id="python">(.*?)</pre>', text, re.DOTALL)
    assert found is not None
    asked: list[Any] = []

    class Remote:
        def __init__(self, url: str, *, token: str, dataset: str) -> None:
            asked.extend((url, token, dataset))

        def sql(self, text: str, *, budget: Any) -> None:
            asked.extend((text, budget))

    code = found[1].replace("import unacorda", "").replace("unacorda.Remote", "Remote")
    exec(code, {"Remote": Remote, "token": "t", "unacorda": unacorda})
    assert asked == [HOST, "t", "visits", fields["sql"], ZCDP("0.01")]
    body = re.search(r"-d '(.*)'</pre>", text.replace("'\"'\"'", "'"), re.DOTALL)
    assert body is not None
    assert ask("POST", "/v1/datasets/visits/ask", json.loads(body[1])).status_code == 200


@pytest.mark.long
def test_what_is_not_taken_is_said_before_it_is_confirmed(tmp_path: Path) -> None:
    least = 'least_a_question = { rho = "0.001" }\n'
    configuration = CONFIGURATION.replace('title = "Visits"', f'{least}title = "Visits"', 1)
    with served(tmp_path, configuration) as ask:
        page = browser(ask)
        little = page.post("/ask/visits/confirm", form(**{"budget.rho": "0.0001"}))
        assert little.status_code == 422
        assert "costs at least rho 0.001" in little.text
        ask.service.store.stop("visits")
        assert page.post("/ask/visits/confirm", form()).status_code == 503


@pytest.mark.long
def test_a_question_is_tried_on_made_up_rows(ask: Served) -> None:
    page = browser(ask)
    tried = page.post("/ask/visits", {**built(), "do": "rehearse"})
    assert tried.status_code == 200
    assert "On made-up rows" in tried.text
    assert "±" in tried.text
    assert ask.spent() == ZCDP(0)
    assert "None yet" in page.get("/history").text
    assert page.post("/ask/visits", {**form(sql="x"), "do": "rehearse"}).status_code == 422


@pytest.mark.long
def test_errors_of_several_lines_are_shown_as_such(ask: Served) -> None:
    wrong = browser(ask).post("/ask/visits", form(sql="SELECT COUNT(*) AS n\nFROM nix\x1b"))
    assert wrong.status_code == 422
    assert "\x1b" not in wrong.text.split("<textarea")[0]


@pytest.mark.long
def test_a_slow_question_runs_on_and_its_page_says_so(
    ask: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = ask.service._evaluate

    def slowly(*given: Any) -> Any:
        time.sleep(1)
        return evaluate(*given)

    monkeypatch.setattr(ask.service, "_evaluate", slowly)
    monkeypatch.setattr("unacorda.server.page.routes._WAIT_SECONDS", 0.2)
    page = browser(ask)
    location = page.post("/ask/visits/spend", confirmed(page, form())).headers["location"]
    assert "The question runs" in page.get(location).text
    for _ in range(100):
        if "Answer</h1>" in page.get(location).text:
            break
        time.sleep(0.1)
    assert "Answer</h1>" in page.get(location).text
    assert ask.spent() == ZCDP("0.01")


@pytest.mark.long
def test_what_is_not_due_yet_runs_as_far_as_the_page_tells(ask: Served) -> None:
    page, store = browser(ask), ask.service.store
    location = page.post("/ask/visits/spend", confirmed(page, form())).headers["location"]
    name = location.rpartition("/")[2]
    release = ask("GET", f"/v1/releases/{name}").text
    assert "No answer" not in page.get(location).text
    store.keep(name, release, "rho 0.01", due=time.time() + 60)
    assert "The question runs" in page.get(location).text
    assert page.get(f"{location}/rows.csv").status_code == 404
    assert "SELECT" not in page.get("/history?state=answered").text
    assert "SELECT" in page.get("/history?state=running").text
    assert "Already running" in page.post("/ask/visits/confirm", form()).text
    store.keep(name, release, "rho 0.01", due=time.time() - 1)
    assert "SELECT" in page.get("/history?state=answered").text
    assert "SELECT" not in page.get("/history?state=running").text


@pytest.mark.long
def test_a_question_that_waits_is_taken_back(ask: Served) -> None:
    page, other = browser(ask), browser(ask, "ben")
    begun: Any = {"key": "k", "analyst": "ana", "dataset": "visits", "purpose": None}
    question, _ = ask.service.store.begin(
        **begun, asked=json.dumps({"sql": SQL, "budget": {"rho": "1"}})
    )
    ask.service.store.wait(question.id)
    path = f"/answers/{question.id}"
    assert "not paid yet" in page.get(path).text
    assert other.post(f"{path}/withdraw").status_code == 404
    assert page.post(f"{path}/withdraw").status_code == 303
    assert page.get(path).status_code == 404


@pytest.mark.long
def test_another_host_is_refused(ask: Served) -> None:
    found = ask("GET", "/sign-in", of=None, host="http://evil.example")
    assert found.status_code == 421


@pytest.mark.long
def test_a_fault_of_the_page_tells_nothing(
    ask: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("patient Meier")

    page = browser(ask)
    monkeypatch.setattr(ask.service, "describe", fail)
    found = page.get("/ask/visits")
    assert found.status_code == 500
    assert "Meier" not in found.text
    assert "Meier" not in caplog.text


def office(ask: Served) -> Browser:
    return browser(ask, "office")


def test_a_curator_gives_raises_and_closes_a_limit(ask: Served) -> None:
    page, eve = office(ask), browser(ask, "eve")
    accounts = page.get("/curator").text
    assert "Visits" in accounts
    assert "rho 0.15" in accounts
    assert eve.get("/ask/visits").status_code == 404
    named = {"dataset": "visits", "analyst": "eve"}
    assert page.post("/curator", {**named, "do": "add", "budget.rho": "0.01"}).status_code == 303
    assert eve.get("/ask/visits").status_code == 200
    page.post("/curator", {**named, "do": "limit", "budget.rho": "0.02"})
    assert "rho 0.02 of 0.02 left" in eve.get("/").text
    low = page.post("/curator", {"dataset": "visits", "analyst": "nix", "do": "close"})
    assert low.status_code == 200
    assert 'role="alert"' in low.text
    page.post("/curator", {**named, "do": "close"})
    assert eve.post("/ask/visits/spend", {**form(), "once": "a"}).status_code == 409
    acts = page.get("/curator/acts").text
    assert acts.count("<td>office</td>") == 3
    assert "eve: rho 0.02" in acts
    assert "10.0.0.1" in acts


CURATORS = (
    "/curator",
    "/curator/tokens",
    "/curator/ledger/visits",
    "/curator/acts",
    "/curator/operations",
)


@in_subtests("path", CURATORS)
def test_screens_of_curators_are_not_there_for_analysts(ask: Served, path: str) -> None:
    page = browser(ask)
    there = {page.get(path).status_code, page.post(path, {"do": "add"}).status_code}
    assert there <= {404, 405}
    assert "Accounts" not in page.get("/").text
    assert ask.service.store.acts() == []


@pytest.mark.long
def test_a_curator_asks_only_with_a_limit(ask: Served) -> None:
    page = office(ask)
    assert page.get("/ask/visits").status_code == 404
    assert "There is no dataset that you may ask" in page.get("/").text
    for path in CURATORS:
        assert page.get(path).status_code == 200


@pytest.mark.long
def test_a_token_of_the_page_is_shown_once_and_ends_when_it_is_revoked(ask: Served) -> None:
    page = office(ask)
    made = page.post(
        "/curator/tokens",
        {"do": "add", "analyst": "ben", "role": "analyst", "days": "2", "note": "<b>"},
    )
    found = re.search(r"unacorda_([0-9a-f]{12})_[\w-]{43}", made.text)
    assert found is not None
    listed = page.get("/curator/tokens").text
    assert found[0] not in listed
    assert found[1] in listed
    assert "&lt;b&gt;" in listed
    ben = Browser(ask)
    assert ben.sign_in(found[0]).status_code == 303
    page.post("/curator/tokens", {"do": "revoke", "id": found[1]})
    assert ben.get("/").status_code == 303
    assert Browser(ask).sign_in(found[0]).status_code == 401
    for days in ("0", "400", "x", "1e1", ""):
        wrong = page.post("/curator/tokens", {"do": "add", "analyst": "ben", "days": days})
        assert 'role="alert"' in wrong.text, days
    wrong = page.post("/curator/tokens", {"do": "add", "analyst": "ben", "role": "root"})
    assert 'role="alert"' in wrong.text
    assert 'role="alert"' in page.post("/curator/tokens", {"do": "nix"}).text


@pytest.mark.long
def test_ledgers_are_read_page_by_page_and_checked(
    ask: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, page = browser(ask), office(ask)
    ana.post("/ask/visits/spend", {**confirmed(ana, form()), "purpose": "a <b>try</b>"})
    path = "/curator/ledger/visits"
    whole = page.get(path).text
    assert "a &lt;b&gt;try" in whole
    assert "6.67 % by now" in whole  # 0.01 of 0.15
    assert "committed" in whole
    checked = page.post(path, {"do": "verify"}).text
    last = ask.service.ledger.entries("visits")[-1]
    assert last.digest in checked
    assert "1 questions cost epsilon" in page.post(path, {"do": "reprice", "delta": "1e-6"}).text
    assert 'role="alert"' in page.post(path, {"do": "reprice", "delta": "2"}).text
    monkeypatch.setattr("unacorda.server.page.curator.PAGE", 4)
    assert f"?after={last.sequence}" in page.get(path).text
    assert "No entries here" in page.get(f"{path}?after={last.sequence}").text
    assert page.get(f"{path}?after=x").status_code == 422
    assert page.get("/curator/ledger/nix").status_code == 404


@pytest.mark.long
def test_a_data_set_is_stopped_and_started(ask: Served) -> None:
    page, ana = office(ask), browser(ask)
    spend = {**confirmed(ana, form())}
    assert page.post("/curator/operations", {"do": "stop", "dataset": "visits"}).status_code == 303
    assert "stopped" in page.get("/curator/operations").text
    refused = ana.post("/ask/visits/spend", spend)
    assert refused.status_code == 503
    assert ask.spent() == ZCDP(0)
    page.post("/curator/operations", {"do": "start", "dataset": "visits"})
    assert ana.post("/ask/visits/spend", confirmed(ana, form())).status_code == 303
    assert 'role="alert"' in page.post("/curator/operations", {"do": "stop", "dataset": "a"}).text


@pytest.mark.long
def test_a_suspended_analyst_is_resumed(ask: Served) -> None:
    page, ana = office(ask), browser(ask)
    ask.service.store.stop("visits", "ana")
    assert "suspended" in page.get("/curator").text
    assert ana.post("/ask/visits/spend", {**form(), "once": "a"}).status_code != 303
    page.post("/curator", {"dataset": "visits", "analyst": "ana", "do": "resume"})
    assert ana.post("/ask/visits/spend", {**form(), "once": "b"}).status_code == 303


@pytest.mark.long
def test_an_unavailable_data_set_is_seen_by_curators(tmp_path: Path) -> None:
    configuration = CONFIGURATION.replace('labs = "visits.csv"', 'labs = "none.csv"')
    with served(tmp_path, configuration) as ask:
        ask.tokens["office"] = make_token(ask.service.store, "office", role="curator")
        page = office(ask)
        assert "Not available" in page.get("/curator").text
        assert "not available" in page.get("/curator/operations").text
        assert browser(ask, "ben").get("/ask/labs").status_code == 503


@pytest.mark.parametrize("many", [0, 1, 2, 3, 40, 41, 1_000])
def test_spends_are_those_of_entries_from_the_first_to_the_last(many: int) -> None:
    class Entries:
        def __init__(self) -> None:
            self.read = 0

        def entries(self, _: str, *, after: int, most: int) -> tuple[Any, ...]:
            self.read += 1
            time, spent = f"2026-01-01T00:00:{after % 60:02}+00:00", ZCDP(after + 1).to_json()
            return (SimpleNamespace(time=time, spent=spent),) if after < many else ()

    ledger: Any = Entries()
    found = [spent for _, spent in _spends(ledger, "visits")]
    assert found == sorted(set(found))
    assert (found[:1], found[-1:]) == ([ZCDP(1)][:many], [ZCDP(many)][:many])
    assert len(found) == min(many, 41)
    assert ledger.read < 80
