"""What a server tells those who run it, what is copied, and an older ledger that is put back."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import shutil
import sqlite3
import stat
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import empty_schema
from tests.server.served import CONFIGURATION, COUNT, served, written
from tests.server.test_routes import ASK, problem
from tests.server.test_running import free_port
from tests.support.seams import open_ledger

from unacorda import ZCDP
from unacorda.errors import InvalidParameter, LedgerFailed
from unacorda.server.backup import back_up
from unacorda.server.config import read_config
from unacorda.server.health import metrics, readiness, reporting

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
    assert sqlite3.connect(tmp_path / "copy" / "store.db").execute("PRAGMA integrity_check")


def test_there_is_nothing_to_copy_before_there_is_a_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="used before"):
        back_up(read_config(written(tmp_path)), tmp_path / "copy")
