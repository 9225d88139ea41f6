"""What only a file can be asked: processes, crashes, tampering, permissions, versions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.seams import Charge, Ledger, Reservation, SplitPart, SqliteStore, open_ledger

from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerFailed, LedgerMismatch
from unacorda.privacy.events import Pure
from unacorda.privacy.guarantees import PureDP

TERMS = {"unit": "person"}
DATA = Path(__file__).parents[1] / "data"


def reserve(ledger: Ledger, epsilon: str = "0.1", *, part: SplitPart | None = None) -> Reservation:
    charge = Charge(
        cost=PureDP(epsilon),
        event=Pure(epsilon=0.1),
        request=PureDP(epsilon),
        reproducible=False,
        plan_digest="ab",
        salt=b"salt",
    )
    return ledger.reserve("visits", charge, part=part)


def spend_until_refused(url: str, attempts: int) -> int:
    """Runs in a process of its own: open, reserve so many times, count what was granted."""
    ledger = open_ledger(url)
    ledger.open_account("visits", PureDP(1), TERMS)
    granted = 0
    for _ in range(attempts):
        with contextlib.suppress(BudgetExceeded):
            ledger.commit(reserve(ledger))
            granted += 1
    return granted


@pytest.mark.long
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_never_overspend(tmp_path: Path, processes: int) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"  # a new file: they also race to make it
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        granted = pool.starmap(spend_until_refused, [(url, 20)] * processes)
    ledger = open_ledger(url)
    assert sum(granted) == 10
    assert ledger.remaining("visits") == PureDP(0)
    assert ledger.verify("visits") == 20


@pytest.mark.long
def test_a_crash_between_reserve_and_commit_keeps_the_charge(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"
    code = f"""
import os
from unacorda.ledger.entries import Charge
from unacorda.ledger.ledger import open_ledger
from unacorda.privacy.events import Pure
from unacorda.privacy.guarantees import PureDP
ledger = open_ledger({url!r})
ledger.open_account("visits", PureDP(1), {TERMS!r})
ledger.reserve("visits", Charge(cost=PureDP("0.3"), event=Pure(epsilon=0.3),
    request=PureDP("0.3"), reproducible=False))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    ledger = open_ledger(url)
    ledger.open_account("visits", None, TERMS)
    assert ledger.remaining("visits") == PureDP("0.7")
    assert [entry.state for entry in ledger.entries("visits")] == ["reserved"]
    assert ledger.verify("visits") == 1


def test_the_spend_outlives_the_ledger(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"
    first = open_ledger(url)
    assert first.durable
    first.open_account("visits", PureDP(1), TERMS)
    reservation = reserve(first)
    first.close()
    second = open_ledger(url)
    assert second.spent("visits") == PureDP(0.1)
    second.commit(reservation)
    assert second.verify("visits") == 2


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    open_ledger(f"sqlite:///{tmp_path}/budget.db").open_account("visits", PureDP(1), TERMS)
    assert stat.S_IMODE((tmp_path / "budget.db").stat().st_mode) == 0o600


def test_the_file_waits_for_the_disk(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "budget.db")
    connection = store._connected()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open_account("visits", PureDP(1), TERMS)
    for _ in range(3):
        ledger.commit(reserve(ledger))
    return tmp_path / "budget.db"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE unacorda_entries SET spent = ''",
        "DELETE FROM unacorda_entries",
        "UPDATE unacorda_accounts SET budget = ''",
        "DELETE FROM unacorda_accounts",
        "DELETE FROM unacorda_schema",
    ],
)
def test_nothing_is_updated_or_deleted(filled: Path, statement: str) -> None:
    with (
        contextlib.closing(sqlite3.connect(filled)) as connection,
        pytest.raises(sqlite3.DatabaseError, match="append-only"),
    ):
        connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE unacorda_entries SET analyst = 'eve' WHERE sequence = 2",
        """UPDATE unacorda_entries SET charge = '{"guarantee": "PureDP", "epsilon": "0"}'
           WHERE sequence = 3""",
        """UPDATE unacorda_entries SET spent = '{"guarantee": "PureDP", "epsilon": "0"}'
           WHERE sequence = 6""",
        "UPDATE unacorda_entries SET spent = 'nothing', charge = 'nothing' WHERE sequence = 5",
        "DELETE FROM unacorda_entries WHERE sequence = 2",
        "DELETE FROM unacorda_entries WHERE sequence = 1",
        """UPDATE unacorda_accounts SET budget = '{"guarantee": "PureDP", "epsilon": "100"}'""",
        "UPDATE unacorda_accounts SET terms = '{}'",
        "UPDATE unacorda_accounts SET terms = 'nothing'",
        "UPDATE unacorda_accounts SET terms = '[]'",
        "UPDATE unacorda_accounts SET terms = x'00'",
        "UPDATE unacorda_accounts SET budget = 'nothing'",
        "UPDATE unacorda_entries SET spent = x'00' WHERE sequence = 2",
        "UPDATE unacorda_entries SET time = '2000-01-01T00:00:00+00:00' WHERE sequence = 1",
    ],
)
def test_verify_finds_what_was_changed_by_force(filled: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(filled)) as connection:
        for table in ("unacorda_entries", "unacorda_accounts"):
            for verb in ("update", "delete"):
                connection.execute(f"DROP TRIGGER {table}_no_{verb}")
        connection.execute(statement)
        connection.commit()
    ledger = open_ledger(f"sqlite:///{filled}")
    with pytest.raises(LedgerMismatch, match="was changed"):
        ledger.verify("visits")


@pytest.mark.parametrize("version", [1, 3, 99])
def test_another_schema_version_is_refused(version: int, filled: Path) -> None:
    with contextlib.closing(sqlite3.connect(filled)) as connection:
        connection.execute("DROP TRIGGER unacorda_schema_no_update")
        connection.execute(f"UPDATE unacorda_schema SET version = {version}")
        connection.commit()
    with pytest.raises(LedgerMismatch, match=rf"version {version}; this unacorda reads version 6"):
        open_ledger(f"sqlite:///{filled}")


@pytest.mark.parametrize(
    "table", ["unacorda_schema (about TEXT)", "unacorda_entries (version INTEGER)"]
)
def test_tables_of_the_same_names_that_are_no_ledger_are_left_alone(
    table: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table}")
        with pytest.raises(LedgerMismatch, match=r"has tables unacorda_\w+ that no unacorda made"):
            open_ledger(f"sqlite:///{path}")
        found = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        assert found == [(1,)]


def test_a_budget_that_was_changed_by_force_is_found_when_it_is_opened(filled: Path) -> None:
    with contextlib.closing(sqlite3.connect(filled)) as connection:
        connection.execute("DROP TRIGGER unacorda_accounts_no_update")
        connection.execute("UPDATE unacorda_accounts SET budget = ?", (PureDP(100).to_json(),))
        connection.commit()
    ledger = open_ledger(f"sqlite:///{filled}")
    with pytest.raises(LedgerMismatch, match="budget or terms were changed"):
        ledger.open_account("visits", None, TERMS)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look at twice" * 40)
    before = path.read_bytes()
    with pytest.raises(InvalidParameter, match="SQLite"):
        open_ledger(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_damaged_ledger_is_one_of_our_errors(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = open_ledger(f"sqlite:///{path}")
    ledger.open_account("d", PureDP(1), {})
    for name in (path, tmp_path / "budget.db-wal"):
        if name.exists():
            name.write_bytes(b"no database " * 500)
    ledger.close()  # it would look at pages that it has read before
    with pytest.raises(LedgerFailed, match="No answer was given"):
        ledger.remaining("d")


def test_a_file_that_was_replaced_is_refused(filled: Path) -> None:
    ledger = open_ledger(f"sqlite:///{filled}")
    assert ledger.spent("visits") == PureDP("0.3")
    filled.rename(filled.with_name("elsewhere.db"))
    with pytest.raises(LedgerFailed, match="moved, removed or replaced"):
        reserve(ledger)
    open_ledger(f"sqlite:///{filled}").open_account("visits", PureDP(1), TERMS)
    with pytest.raises(LedgerFailed, match="moved, removed or replaced"):
        reserve(ledger)


def put_back(older: bytes, filled: Path) -> None:
    """Write an older copy into the file itself, as a restore may."""
    with filled.open("r+b") as file:
        file.write(older)
        file.truncate()


@pytest.mark.parametrize("entries", [0, 6])
def test_an_older_copy_under_an_open_ledger_is_not_spent_from(tmp_path: Path, entries: int) -> None:
    file = tmp_path / "budget.db"
    ledger = open_ledger(f"sqlite:///{file}")
    ledger.open_account("visits", PureDP(1), TERMS)
    for _ in range(entries // 2):
        ledger.commit(reserve(ledger))
    ledger.close()
    older = file.read_bytes()
    made = reserve(ledger, "0.7")
    ledger.close()
    put_back(older, file)
    for again in (
        lambda: reserve(ledger, "0.7"),
        lambda: ledger.void(made),
        lambda: ledger.open_sub_account("visits", "ana", PureDP("0.1")),
        lambda: ledger.open_split(
            "visits", limit=PureDP("0.1"), max_parts=1, digest="ab", salt=b"salt"
        ),
    ):
        with pytest.raises(LedgerMismatch, match=f"Entry {entries + 1} .* older copy"):
            again()
    assert len(ledger.entries("visits")) == entries
    # Somebody else spends on top of the older copy: the entry there is another one.
    reserve(open_ledger(f"sqlite:///{file}"), "0.2")
    with pytest.raises(LedgerMismatch, match="older copy"):
        reserve(ledger, "0.7")


def test_what_others_wrote_meanwhile_is_no_older_copy(filled: Path) -> None:
    ledger, other = (open_ledger(f"sqlite:///{filled}") for _ in range(2))
    for _ in range(3):
        reserve(ledger)
        other.commit(reserve(other))
    assert ledger.verify("visits") == 15


def test_a_file_of_two_names_is_refused_under_both(filled: Path) -> None:
    # Each would have a log of its own, and two processes would spend the same budget.
    folder = filled.parent / "elsewhere"
    folder.mkdir()
    other = folder / "budget.db"
    other.hardlink_to(filled)
    for name in (filled, other):
        with pytest.raises(InvalidParameter, match=r"^ledger=.*hard link"):
            open_ledger(f"sqlite:///{name}")
    other.unlink()
    other.symlink_to(filled)  # which SQLite follows
    assert open_ledger(f"sqlite:///{other}").verify("visits") == 6


def test_a_file_that_is_mounted_without_its_folder_is_refused(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled.parent / "the data"
    folder.mkdir()
    file = filled.rename(folder / "budget.db")
    mounts, written = filled.parent / "mountinfo", str(file).replace(" ", "\\040")
    monkeypatch.setattr("unacorda.ledger.sqlite._MOUNTS", mounts)
    for place, refused in ((written, True), (str(folder), False)):
        mounts.write_text(f"42 27 254:0 /b {place} rw,relatime - ext4 /dev/vda rw\n")
        if refused:
            with pytest.raises(InvalidParameter, match=r"^ledger=.*mounted without its folder"):
                open_ledger(f"sqlite:///{file}")
        else:
            assert open_ledger(f"sqlite:///{file}").verify("visits") == 6


def test_a_name_that_is_no_file_or_cannot_be_one_is_refused(tmp_path: Path) -> None:
    folder, loop = tmp_path / "folder", tmp_path / "loop"
    folder.mkdir()
    loop.symlink_to(loop)
    for name in (str(folder), "/dev/null", str(loop), f"{tmp_path}/{300 * 'a'}"):
        with pytest.raises(LedgerFailed, match="could not be used"):
            open_ledger(f"sqlite:///{name}")
