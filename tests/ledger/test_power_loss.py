"""Power loss, for SQLite: whatever part of the unsynced file survives, the ledger is whole."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.ledger.ledgers import TERMS, reserve
from tests.support.seams import Ledger, SqliteStore, open_ledger
from tests.tiers import mostly_slow

from unacorda.privacy.guarantees import PureDP

HEADER, FRAME, PAGE = 32, 24 + 4096, 4096
ENTRIES = 7


@dataclass(frozen=True, slots=True)
class Image:
    """The file and its log, and how long the log was when each entry had been acknowledged."""

    file: bytes
    log: bytes
    acknowledged: list[int]
    after: bytes


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    path = tmp_path_factory.mktemp("power") / "budget.db"
    store = SqliteStore(path)
    ledger = Ledger(store)
    store._connected().execute("PRAGMA wal_autocheckpoint=0")
    ledger.open_account("visits", PureDP(1), TERMS)
    log = path.with_name("budget.db-wal")
    sizes = [log.stat().st_size]
    while len(sizes) <= ENTRIES:
        reservation = reserve(ledger, PureDP("0.1"))
        sizes.append(log.stat().st_size)
        if len(sizes) <= ENTRIES:
            ledger.commit(reservation)
            sizes.append(log.stat().st_size)
    before, frames = path.read_bytes(), log.read_bytes()
    ledger.close()  # which copies the log into the file
    return Image(before, frames, sizes, path.read_bytes())


def restarted(folder: Path, file: bytes, log: bytes) -> int:
    """How many entries stand after power came back; the ledger is whole and can be used."""
    path = folder / "budget.db"
    path.write_bytes(file)
    path.with_name("budget.db-wal").write_bytes(log)
    with closing(open_ledger(f"sqlite:///{path}")) as ledger:
        count = ledger.verify("visits")
        entries = ledger.entries("visits")
        spent = sum(entry.state == "reserved" for entry in entries) * PureDP("0.1")
        assert ledger.spent("visits") == spent
        reserve(ledger, PureDP("0.1"))
        assert ledger.verify("visits") == count + 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return count


def cuts(image: Image) -> Iterator[int]:
    """Every boundary of a frame since the account stood, and three places within each frame."""
    start = image.acknowledged[0]
    for frame in range((start - HEADER) // FRAME, (len(image.log) - HEADER) // FRAME + 1):
        boundary = HEADER + frame * FRAME
        for inside in (0, 11, 24 + 1000, FRAME - 1):
            if start <= boundary + inside <= len(image.log):
                yield boundary + inside


@pytest.mark.long
@pytest.mark.parametrize("tail", mostly_slow(["missing", "zeros", "noise"], quick=2))
def test_what_was_acknowledged_survives_any_loss_of_what_came_after(
    image: Image, tmp_path: Path, tail: str
) -> None:
    chance = random.Random(5)
    found = []
    every = 1 if tail == "missing" else 3
    for number, cut in enumerate([*cuts(image)][::every]):
        rest = {
            "missing": b"",
            "zeros": bytes(len(image.log) - cut),
            "noise": chance.randbytes(len(image.log) - cut),
        }[tail]
        folder = tmp_path / str(number)
        folder.mkdir()
        count = restarted(folder, image.file, image.log[:cut] + rest)
        durable = sum(size <= cut for size in image.acknowledged[1:])
        assert count == durable, cut
        found.append(count)
    assert len(set(found)) > ENTRIES / 2
    assert tail != "missing" or set(found) == set(range(ENTRIES + 1))


@pytest.mark.long
def test_power_lost_while_the_log_is_copied_into_the_file(image: Image, tmp_path: Path) -> None:
    chance = random.Random(6)
    old = image.file.ljust(len(image.after), b"\0")
    places = range(0, len(image.after), PAGE)
    for number in range(12):
        file = b"".join(
            (image.after if chance.random() < 0.5 else old)[place : place + PAGE]
            for place in places
        )
        folder = tmp_path / str(number)
        folder.mkdir()
        assert restarted(folder, file, image.log) == ENTRIES
