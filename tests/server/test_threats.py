"""What attackers try over HTTP: questions that are none, names in addresses, guessed tokens."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.served import COUNT, Served, served
from tests.server.test_page import Browser, browser
from tests.server.test_routes import ASK, EXPLAIN, problem
from tests.server.test_running import configured, running
from tests.session.refusals import SELECTS
from tests.support.cases import in_subtests

from unacorda import ZCDP
from unacorda.accounting.charges import request_price
from unacorda.server.fields import ENDPOINTS
from unacorda.server.tokens import make_token

NAMES = ("..", "../..", "/etc/passwd", "file:///etc/passwd", "\\etc", "%", "\u202e", "a\x00b", "\n")


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


STATEMENTS = (
    *(text.replace("people", "visits") for text in SELECTS),
    "SELECT COUNT(*) AS n FROM read_text('/etc/passwd')",
    "SELECT COUNT(*) AS n FROM glob('/etc/*')",
    'SELECT COUNT(*) AS n FROM "visits.csv"',
    "SELECT COUNT(*) AS n FROM visits WHERE getenv('HOME') <> ''",
    "SELECT COUNT(*) AS n FROM visits WHERE age IN (SELECT age FROM labs)",
    "SELECT COUNT(*) AS n FROM labs",
    "SELECT COUNT(*) AS n FROM information_schema.tables",
    "SELECT COUNT(*) AS n FROM unacorda_tokens",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "PRAGMA database_list",
    "EXPLAIN SELECT COUNT(*) FROM visits",
)


@pytest.mark.long
@in_subtests("text", STATEMENTS)
def test_what_is_no_question_is_refused_unpaid(ask: Served, text: str) -> None:
    for path in (EXPLAIN, ASK):
        said = problem(ask("POST", path, {**COUNT, "sql": text}), "refused")
        assert "/tmp" not in json.dumps(said)
    assert ask.spent() == ZCDP(0)


@pytest.mark.long
@in_subtests("name", NAMES)
def test_no_name_in_an_address_leads_elsewhere(ask: Served, name: str) -> None:
    """On every route, as one part of the address, escaped as a client would."""
    for key, one in ENDPOINTS.items():
        if "{" not in one.path:
            continue
        quoted = str(httpx.QueryParams({"a": name})).partition("=")[2].replace("+", "%20")
        quoted = quoted.replace(".", "%2E")
        path = one.path.replace("{dataset}", quoted).replace("{id}", quoted)
        body = COUNT if one.method == "post" else None
        of = "office" if one.curator else "ana"
        found = ask(one.method, path, body, of=of)
        assert found.status_code in (404, 405, 422), (key, found.text)
        assert found.headers["content-type"] == "application/problem+json"
        assert "root:" not in found.text
    page = browser(ask)
    for path in ("/static/{}", "/ask/{}", "/answers/{}", "/answers/{}/rows.csv", "/ask/x?like={}"):
        assert page.get(path.format(quoted)).status_code in (404, 405)
    assert Browser(ask).get(f"/curator/ledger/{quoted}").status_code in (303, 404)


@pytest.mark.long
def test_one_question_sixteen_times_at_once_is_paid_once(tmp_path: Path) -> None:
    with served(tmp_path) as ask:
        found = ask.all([("POST", ASK, COUNT)] * 16)
        assert Counter(one.status_code for one in found) == {201: 1, 200: 15}
        assert len({one.content for one in found}) == 1
        assert ask.spent() == ZCDP("0.01")


@pytest.mark.long
def test_wrong_tokens_take_the_same_time(ask: Served) -> None:
    """An id that is unknown, one whose secret is wrong, and one that is revoked: by its processor.

    The medians of 1,500 alternating tries differ by less than 5 %, where a look-up that one of them
    leaves out is more than a half.
    """
    from unacorda.server.tokens import holder_of

    store = ask.service.store
    good = make_token(store, "ana", role="analyst")
    revoked = make_token(store, "ana", role="analyst")
    store.revoke_token(revoked.split("_")[1])
    tries = {
        "unknown": f"unacorda_{'0' * 12}_{'a' * 43}",
        "wrong": f"{good[:-43]}{'a' * 43}",
        "revoked": revoked,
    }
    times: dict[str, list[float]] = {name: [] for name in tries}
    for _ in range(1_500):
        for name, text in tries.items():
            start = time.thread_time_ns()
            assert holder_of(store, text) is None
            times[name].append(time.thread_time_ns() - start)
    medians = [statistics.median(one) for one in times.values()]
    assert max(medians) < 1.05 * min(medians), medians


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_token_ends_on_a_connection_that_is_open(tmp_path: Path) -> None:
    with running(configured(tmp_path)) as (_, client):
        assert client.get("/v1/me").status_code == 200
        office = make_store_token(tmp_path)
        own = client.headers["Authorization"].split("_")[1]
        revoke = {"Authorization": f"Bearer {office}"}
        assert client.post(f"/v1/admin/tokens/{own}/revoke", headers=revoke).status_code == 200
        assert client.get("/v1/me").status_code == 401  # on the same connection


def make_store_token(folder: Path) -> str:
    from unacorda.server.store import opened

    with opened(f"sqlite:///{folder / 'answers.db'}") as store:
        return make_token(store, "office", role="curator")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_answers_over_http_have_the_law_of_the_mechanism(tmp_path: Path) -> None:
    """Many counts: mean, spread and shape of the discrete normal noise that was stated.

    With secure noise; each check fails by chance with a probability below 1e-7.
    """
    from scipy import stats
    from tests.server.served import CONFIGURATION

    count, draws = 500, 500
    text = CONFIGURATION.replace("rho = 0.15", "rho = 100").replace("rho = 0.1 }", "rho = 50 }")
    with served(tmp_path, text) as ask:
        body = {**COUNT, "budget": {"rho": "0.02"}, "fresh": True}
        found = [ask("POST", ASK, body).json()["rows"][0] for _ in range(draws)]
    scale = found[0]["n_se"]
    assert {row["n_se"] for row in found} == {scale}
    assert scale == pytest.approx(4 / (2 * 0.02) ** 0.5, rel=1e-3)
    values = [row["n"] - count for row in found]
    far = 5.4 / draws**0.5  # 5.4 standard errors: 7e-8
    assert abs(statistics.fmean(values)) < far * scale
    assert abs(statistics.pvariance(values) / scale**2 - 1) < far * 2**0.5
    # Rounded to whole numbers, a normal law up to the ties of its grid.
    spread: Any = stats.kstest([one / scale for one in values], "norm")
    assert spread.statistic < 0.13 + 0.5 / scale
    near: Any = stats.kstest([one / (1.5 * scale) for one in values], "norm")
    assert abs(statistics.pvariance(values) / (1.5 * scale) ** 2 - 1) > far * 2**0.5
    assert near.statistic > spread.statistic
    inside = sum(row["n_low"] <= count <= row["n_high"] for row in found)
    assert stats.binomtest(inside, draws, 0.95).pvalue > 1e-7


def test_a_price_is_that_of_the_ledger(ask: Served) -> None:
    """No float becomes a price: texts and numbers are read as decimals."""
    for said in ("0.1", "1/10", 0.1):
        explained = ask("POST", EXPLAIN, {**COUNT, "budget": {"rho": said}}).json()
        assert explained["cost"] == "ZCDP(rho=0.1)"
    third = ask("POST", EXPLAIN, {**COUNT, "budget": {"rho": "1/30"}}).json()["request"]
    assert third == repr(request_price(ZCDP("1/30"), ZCDP("0.1")))
    for wrong in (b"NaN", b"Infinity", b"1e999999", b'1, "rho": 2'):
        body = b'{"sql": "SELECT COUNT(*) AS n FROM visits", "budget": {"rho": ' + wrong + b"}}"
        assert ask("POST", ASK, body).status_code in (400, 409, 422)
    assert ask.spent() == ZCDP(0)
