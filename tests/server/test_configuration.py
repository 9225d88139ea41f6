"""What a configuration says holds: names, addresses, secrets, limits, what analysts are shown."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.server.served import CONFIGURATION, COUNT, served, written
from tests.server.test_page import browser
from tests.server.test_routes import ASK, EXPLAIN, problem
from tests.server.test_running import configured, running
from tests.server.test_scheduling import blocked
from tests.support.cases import in_subtests

from unacorda import ZCDP
from unacorda.errors import InvalidParameter
from unacorda.server.config import read_config


def with_server(line: str) -> str:
    return CONFIGURATION.replace("[server]", f"[server]\n{line}")


WRONG = [
    (with_server("lissten = 1"), "listen"),
    (with_server('listen = "0.0.0.0:8040"'), "behind_proxy"),
    (with_server('listen = "127.0.0.1"'), "listen"),
    (with_server('listen = "127.0.0.1:99999"'), "listen"),
    (with_server('public_url = "ask.example"'), "public_url"),
    (with_server('behind_proxy = "10.0.0.1"'), "behind_proxy"),
    (with_server('ledger = "mysql://x"'), "ledger"),
    (with_server('store = "env:UNACORDA_NO_SUCH"'), "store"),
    (with_server('store = "file:nix"'), "store"),
    (with_server("queue = 0"), "queue"),
    (with_server("questions_at_once = 1.5"), "questions_at_once"),
    (with_server('most_cells = "many"'), "most_cells"),
    (CONFIGURATION.replace("title =", "heading ="), "The names are"),
    (CONFIGURATION.replace("max_rows = 4", 'max_rows = "auto"'), "max_rows"),
    (CONFIGURATION.replace("max_rows = 4", "max_rowz = 4"), "max_rows"),
    (CONFIGURATION.replace("budget = { rho = 0.15 }\n", ""), "budget"),
    (CONFIGURATION.replace("rho = 0.15", "rho = nan"), "rho"),
    (CONFIGURATION.replace("rho = 0.15", "rho = inf"), "rho"),
    (CONFIGURATION + "[datasets.visits]\n", "TOML"),
    (CONFIGURATION + "[servers]\n", "server"),
]


@in_subtests(("text", "match"), WRONG, ids=lambda value: str(value)[-40:])
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        read_config(written(tmp_path, text))


def test_secrets_stand_elsewhere_and_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "address").write_text("postgresql://u:hush@db/b\n")
    monkeypatch.setenv("UNACORDA_STORE", "sqlite:///kept.db")
    lines = 'ledger = "file:address"\nstore = "env:UNACORDA_STORE"'
    config = read_config(written(tmp_path, with_server(lines)))
    assert config.ledger == "postgresql://u:hush@db/b"
    assert config.store == f"sqlite:///{tmp_path / 'kept.db'}"
    (tmp_path / "address").write_text("mysql://u:hush@db/b\n")
    with pytest.raises(InvalidParameter) as refused:
        read_config(written(tmp_path, with_server(lines)))
    assert "hush" not in str(refused.value)


def test_the_store_is_its_owner_s_alone(tmp_path: Path) -> None:
    with served(tmp_path) as ask:
        path = Path(ask.service.config.store.removeprefix("sqlite:///"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.long
def test_questions_beyond_the_queue_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one analyst a sixteenth of it, of all together the whole; unpaid, to be sent again."""
    both = "ana = { rho = 0.1 }, eve = { rho = 0.1 }"
    text = with_server("queue = 2").replace("ana = { rho = 0.1 }", both)
    with served(tmp_path, text) as ask, blocked(monkeypatch) as go:
        soon = {"Prefer": "wait=0"}
        assert ask("POST", ASK, COUNT, headers=soon).status_code == 202
        other = {**COUNT, "budget": {"rho": "0.02"}}
        refused = ask("POST", ASK, other)
        assert "At most 1" in problem(refused, "too-many")["detail"]
        assert ask("POST", ASK, COUNT, of="ben", headers=soon).status_code == 202
        full = ask("POST", ASK, COUNT, of="eve")
        problem(full, "busy")
        assert full.headers["retry-after"] == "10"
        assert ask("POST", EXPLAIN, COUNT, of="eve").status_code == 200  # has turns of its own
        go.set()
        for _ in range(500):
            with suppress(AssertionError):
                assert ask.service.store.running() == 0
                break
            time.sleep(0.01)
        assert ask("POST", ASK, COUNT, of="eve").status_code == 201
    assert ask.spent() == ZCDP("0.03")


@pytest.mark.long
def test_the_data_set_s_rest_is_shown_where_the_file_says_so(tmp_path: Path) -> None:
    text = CONFIGURATION.replace('title = "Visits"', 'title = "Visits"\nshow_total = true')
    with served(tmp_path, text) as ask:
        assert ask("GET", "/v1/datasets/visits").json()["total_left"]["rho"] == "3/20"
        assert "of the dataset's" in browser(ask).get("/ask/visits").text
        for of in ("ana", "ben"):
            half = {**COUNT, "budget": {"rho": "0.07"}}
            assert ask("POST", ASK, half, of=of).status_code == 201
        more = {**COUNT, "budget": {"rho": "0.02"}}
        said = problem(ask("POST", ASK, more, of="ben"), "budget-exceeded")
        assert "rho 0.01 is left of the dataset's budget" in said["detail"]


@pytest.mark.long
def test_large_questions_are_refused_before_they_are_priced(tmp_path: Path) -> None:
    lines = "most_aggregates = 3\nmost_cells = 5"
    with served(tmp_path, with_server(lines)) as ask:
        many = ", ".join(f"COUNT(*) AS n{number}" for number in range(4))
        keys = {"group_by": ["age"], "keys": {"age": list(range(6))}}
        wide = {"table": "visits", **keys, "aggregates": {"n": {"count": {}}}}
        for path in (EXPLAIN, ASK):
            problem(ask("POST", path, {**COUNT, "sql": f"SELECT {many} FROM visits"}), "refused")
            body = {"question": wide, "budget": {"rho": "0.01"}}
            problem(ask("POST", path, body), "refused")
        assert ask.spent() == ZCDP(0)


@pytest.mark.long
def test_a_limit_of_the_file_that_differs_is_named_and_does_not_count(tmp_path: Path) -> None:
    with served(tmp_path):
        pass
    text = CONFIGURATION.replace("ana = { rho = 0.1 }", "ana = { rho = 0.12 }")
    with served(tmp_path, text) as ask:
        assert ask("GET", "/v1/datasets/visits").json()["limit"]["rho"] == "1/10"
        visits, _ = ask("GET", "/v1/admin/datasets", of="office").json()["datasets"]
        assert visits["other_limits"] == {"ana": {"ledger": "rho 0.1", "file": "rho 0.12"}}
        assert "ledger rho 0.1, file rho 0.12" in browser(ask, "office").get("/curator").text


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_question_that_takes_too_long_is_ended_paid_and_suspends(tmp_path: Path) -> None:
    """Within the time and a second; another analyst's is answered meanwhile."""
    text = CONFIGURATION.replace("timeout = 20", "timeout = 1")
    with served(tmp_path, text) as ask:
        engine: Any = ask.service.datasets["visits"].session._engine
        table = engine._scans["visits"]
        engine._scans["visits"] = f"(SELECT one.* FROM {table} one, range(1000000000000))"
        start = time.monotonic()
        slow = ask("POST", ASK, COUNT, headers={"Prefer": "wait=0"})
        while ask.spent() == ZCDP(0):
            time.sleep(0.01)
        engine._scans["visits"] = table
        assert ask("POST", ASK, COUNT, of="ben").status_code == 201
        said = problem(ask("POST", ASK, COUNT), "engine-failed")
        assert time.monotonic() - start < 5
        assert slow.status_code == 202
        assert "visits" not in said["detail"]
        problem(ask("POST", ASK, {**COUNT, "fresh": True}), "suspended")
        assert ask.spent() == ZCDP("0.02")


@pytest.mark.long
def test_a_data_set_with_settings_that_its_engine_refuses_is_unavailable(tmp_path: Path) -> None:
    text = CONFIGURATION.replace('title = "Visits"', 'title = "Visits"\nmemory_limit = "1 byte"')
    with served(tmp_path, text) as ask:
        problem(ask("POST", ASK, COUNT), "unavailable")
        labs = {**COUNT, "sql": "SELECT COUNT(*) AS n FROM labs", "budget": {"epsilon": "0.1"}}
        assert ask("POST", "/v1/datasets/labs/ask", labs, of="ben").status_code == 201


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_proxy_says_whom_a_request_is_from(tmp_path: Path) -> None:
    path = configured(tmp_path)
    text = path.read_text().replace("[server]", '[server]\nbehind_proxy = ["127.0.0.1"]')
    path.write_text(text)
    with running(path) as (_, client):

        def me(token: str, forwarded: str) -> int:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": forwarded}
            return client.get("/v1/me", headers=headers).status_code

        assert [me("x", "10.0.0.1") for _ in range(11)] == [401] * 10 + [429]
        assert me("x", "10.0.0.1, 10.0.0.2") == 401  # the last one is the proxy's own word
        assert client.get("/v1/me").status_code == 200
