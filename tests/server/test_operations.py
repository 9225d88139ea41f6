"""What a server tells those who run it, what is copied, and an older ledger that is put back."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import logging
import re
import shutil
import sqlite3
import stat
import threading
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from tests.postgres_server import empty_schema
from tests.server.served import CONFIGURATION, COUNT, served, written
from tests.server.test_routes import ASK, problem
from tests.server.test_running import free_port
from tests.support.cases import in_subtests
from tests.support.seams import open_ledger

from unacorda import ZCDP
from unacorda.errors import InvalidParameter, LedgerFailed, LedgerMismatch
from unacorda.server.backup import back_up
from unacorda.server.config import read_config
from unacorda.server.health import metrics, readiness, reporting
from unacorda.server.run import JsonLines
from unacorda.server.store import SignIn, opened

CANARY = "zebra"


def test_counts_hold_no_names_and_no_times_of_questions(tmp_path: Path) -> None:
    text = CONFIGURATION.replace("ana =", f"{CANARY} =").replace("labs]", f"{CANARY}]")
    with served(tmp_path, text) as ask:
        ask("POST", ASK, {**COUNT, "purpose": CANARY}, of="ben")
        ask("POST", ASK, COUNT, of="ben")
        ask("POST", ASK, {}, of="ben")
        ask("GET", "/nix")
        found = metrics(ask.service)
    assert 'unacorda_requests_total{operation="ask",status="201"} 1' in found
    assert 'unacorda_requests_total{operation="ask",status="200"} 1' in found
    assert 'unacorda_requests_total{operation="ask",status="422"} 1' in found
    assert "unacorda_questions_running 0" in found
    assert "unacorda_datasets_open 2" in found
    assert not [word for word in ("ben", CANARY, "visits", "SELECT") if word in found]


def test_it_is_ready_until_it_ends_or_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise LedgerFailed("sqlite:////secret/budget.db", reason="disk full")

    with served(tmp_path) as ask:
        assert readiness(ask.service) == []
        with monkeypatch.context() as patched:
            patched.setattr(type(ask.service.ledger), "check_writable", fail)
            assert readiness(ask.service) == ["the ledger cannot be written"]
        ask.service.begin_end()
        assert readiness(ask.service) == ["it ends"]


@pytest.mark.long
def test_it_reports_at_an_address_of_its_own(tmp_path: Path) -> None:
    port = free_port()

    def at(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    with served(tmp_path) as ask, reporting(ask.service, ("127.0.0.1", port)):
        assert at("/healthz") == (200, "up\n")
        assert at("/readyz") == (200, "ready\n")
        assert at("/metrics")[1].startswith("# TYPE")
        assert at("/v1/me")[0] == 404
        ask.service.begin_end()
        assert at("/readyz") == (503, "it ends\n")
        for path in ("/healthz", "/readyz", "/metrics"):  # not at the address of analysts
            problem(ask("GET", path), "not-found")


def test_an_older_ledger_is_not_asked(tmp_path: Path) -> None:
    ledger = tmp_path / "budgets.db"
    with served(tmp_path) as ask:
        ask("POST", ASK, COUNT)
    shutil.copy(ledger, tmp_path / "old.db")
    with served(tmp_path) as ask:
        assert ask("POST", ASK, {**COUNT, "fresh": True}).status_code == 201
    shutil.copy(tmp_path / "old.db", ledger)
    _asks_nothing(tmp_path)
    ledger.unlink()  # nor another, in which all would be spent again
    _asks_nothing(tmp_path)
    with closing(open_ledger(f"sqlite:///{ledger}")) as book:
        assert "visits" not in book.datasets()


def _asks_nothing(folder: Path) -> None:
    with served(folder) as ask:
        problem(ask("POST", ASK, COUNT), "unavailable")


@pytest.mark.long
def test_a_running_server_is_copied_and_the_copy_goes_on(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    with served(tmp_path / "live") as ask:
        release = ask("POST", ASK, COUNT)
        copied = back_up(ask.service.config, tmp_path / "copy")
        token = ask.tokens["ana"]
        last = ask.service.ledger.entries("visits")[-1].digest
        with pytest.raises(InvalidParameter, match="FOLDER"):
            back_up(ask.service.config, tmp_path / "copy")
    assert set(copied.files) == {"store.db", "ledger.db", "account-1.jsonl", "account-2.jsonl"}
    assert copied.digests["visits"] == last
    for file in copied.files:
        assert stat.S_IMODE((tmp_path / "copy" / file).stat().st_mode) == 0o600
    back = tmp_path / "back"
    back.mkdir()
    shutil.copy(tmp_path / "copy" / "store.db", back / "answers.db")
    shutil.copy(tmp_path / "copy" / "ledger.db", back / "budgets.db")
    with served(back) as again:
        found = again("GET", release.headers["location"], of=token)
        assert found.content == release.content
        assert again.spent() == ZCDP("0.01")


@pytest.mark.service
def test_what_postgresql_keeps_is_exported_and_left_to_its_tools(tmp_path: Path) -> None:
    text = CONFIGURATION.replace("[server]", f'[server]\nledger = "{empty_schema()}"')
    with served(tmp_path, text) as ask:
        assert ask("POST", ASK, COUNT).status_code == 201
        copied = back_up(ask.service.config, tmp_path / "copy")
    assert copied.left_to_server == ("ledger",)
    assert "store.db" in copied.files
    assert copied.digests["visits"]
    copy = sqlite3.connect(tmp_path / "copy" / "store.db")
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_there_is_nothing_to_copy_before_there_is_a_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="used before"):
        back_up(read_config(written(tmp_path)), tmp_path / "copy")


def _older(path: Path) -> None:
    """Make a store as it was before it said its version."""
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("DROP TABLE unacorda_store")
        store.execute("ALTER TABLE unacorda_sign_ins DROP COLUMN holder")
        store.execute("ALTER TABLE unacorda_questions DROP COLUMN clamped")


@pytest.mark.long
def test_a_store_of_an_older_version_is_migrated(tmp_path: Path) -> None:
    with served(tmp_path) as ask:
        release = ask("POST", ASK, COUNT)
        token = ask.tokens["ana"]
    _older(tmp_path / "answers.db")
    with served(tmp_path) as ask:
        found = ask("GET", release.headers["location"], of=token)
        assert found.content == release.content
        made = SignIn(hash="h", token="t", made=1.0, used=1.0, holder="{}")
        ask.service.store.add_sign_in(made, before=0.0)
        assert ask.service.store.sign_in("h") == made
    with closing(sqlite3.connect(tmp_path / "answers.db")) as store:
        assert store.execute("SELECT version FROM unacorda_store").fetchall() == [(3,)]


def test_a_store_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    with opened(f"sqlite:///{path}"):
        pass
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("UPDATE unacorda_store SET version = 4")
    before = path.read_bytes()
    with (
        pytest.raises(LedgerMismatch, match=r"'answers.db' has schema version 4; .* version 3"),
        opened(f"sqlite:///{path}"),
    ):
        pass
    assert path.read_bytes() == before


@pytest.mark.service
def test_stores_on_postgresql_are_made_once_and_migrated() -> None:
    address = empty_schema()
    opening = [threading.Thread(target=_opened, args=(address,)) for _ in range(4)]
    for one in opening:
        one.start()
    for one in opening:
        one.join()
    engine = sqlalchemy.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE unacorda_store")
        connection.exec_driver_sql("ALTER TABLE unacorda_sign_ins DROP COLUMN holder")
        connection.exec_driver_sql("ALTER TABLE unacorda_questions DROP COLUMN clamped")
    _opened(address)
    with engine.begin() as connection:
        rows = connection.exec_driver_sql("SELECT version FROM unacorda_store").fetchall()
        assert [tuple(row) for row in rows] == [(3,)]
        connection.exec_driver_sql("SELECT holder FROM unacorda_sign_ins")
        connection.exec_driver_sql("SELECT clamped FROM unacorda_questions")
    engine.dispose()


def _opened(address: str) -> None:
    with opened(address):
        pass


SETTINGS = [
    ('listen = "unix:"', "listen"),
    ('listen = "unix:a.sock"', "public_url"),
    ('behind_proxy = ["unix"]', "behind_proxy"),
    ('reuse = "all"', "reuse"),
    ('timeout = "5 days"', "timeout"),
    ('timeout = "0s"', "timeout"),
    ("timeout = true", "timeout"),
    ('planning = "-1s"', "planning"),
]


@in_subtests(("line", "match"), SETTINGS)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, line: str, match: str) -> None:
    text = CONFIGURATION.replace("timeout = 20", line)
    with pytest.raises(InvalidParameter, match=match):
        read_config(written(tmp_path, text))


def test_a_socket_and_times_with_units_are_read(tmp_path: Path) -> None:
    lines = 'listen = "unix:run/a.sock"\npublic_url = "https://a.example"\n'
    lines += 'behind_proxy = ["unix"]\ntimeout = "5min"\nshutdown = "90s"\nreuse = "dataset"'
    config = read_config(written(tmp_path, CONFIGURATION.replace("timeout = 20", lines)))
    assert config.socket == tmp_path / "run" / "a.sock"
    assert (config.timeout, config.shutdown, config.reuse) == (300, 90, "dataset")
    assert config.public_host == "a.example"


def test_lines_of_the_log_hold_names_of_the_server_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What others write stands in none, with an end of line in every field."""
    caplog.set_level(logging.INFO)
    evil = f"{CANARY}\r\n{CANARY}"
    with served(tmp_path) as ask:
        ask("POST", ASK, {**COUNT, "purpose": evil})
        ask("POST", ASK, {**COUNT, "sql": f"SELECT COUNT(*) AS {CANARY} FROM visits"})
        ask("POST", ASK, {evil: evil, "sql": evil})
        ask("GET", f"/v1/releases/{CANARY}%0d%0a{CANARY}")
        ask("GET", f"/{CANARY}?{CANARY}=%0d%0a", headers={"User-Agent": CANARY})
        ask("GET", "/v1/me", of=f"unacorda_{CANARY}_{CANARY}")
        ask("GET", f"/static/{CANARY}", of=None)
        token = ask.tokens["ana"].split("_", 2)
    own = [one for one in caplog.records if one.name.startswith("unacorda")]
    lines = [JsonLines().format(one) for one in own]
    asked = [json.loads(one) for one in lines if '"request"' in one]
    assert [(one["operation"], one["status"]) for one in asked] == [
        ("ask", 201),
        ("ask", 201),
        ("ask", 422),
        ("release", 404),
        ("none", 404),
        ("me", 401),
        ("page GET /static/{name}", 404),
    ]
    assert [one["token"] for one in asked] == [token[1]] * 4 + [""] * 3
    assert set(asked[0]) == {"time", "level", "event", "operation", "status", "token"}
    text = "".join(lines)
    assert not [word for word in (CANARY, token[2], "SELECT", str(tmp_path)) if word in text]
    assert not re.search(r"[\r\n]", text)
