"""Questions that need more memory than they may have: the disk helps, and tells nothing."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.seams import DuckDB

import unacorda

PEOPLE = 120_000
MANY = unacorda.PureDP(10**6)


class Watcher(threading.Thread):
    """Reads what lies in a folder, over and over."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder, self.over = Path(folder), threading.Event()
        self.most, self.seen = 0, b""

    def run(self) -> None:
        while not self.over.wait(0.05):
            size = 0
            for path in self.folder.glob("**/*"):
                try:
                    found = path.read_bytes()
                except OSError:  # it is gone again
                    continue
                size += len(found)
                if b"nobody-may-read-this" in found:
                    self.seen = found[:100]
            self.most = max(self.most, size)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five rows of each person, under long ids."""
    path = tmp_path_factory.mktemp("spilling") / "t.parquet"
    ids = [f"nobody-may-read-this-{'x' * 60}-{i % PEOPLE:08d}" for i in range(5 * PEOPLE)]
    values = [i % 7 for i in range(5 * PEOPLE)]
    pq.write_table(pa.table({"id": ids, "x": values}), path, row_group_size=20_000)
    return path


@pytest.mark.long
def test_more_than_fits_is_answered_exactly_and_is_not_on_the_disk_in_clear(table: Path) -> None:
    unit = unacorda.Person("id", max_rows=3)
    with unacorda.Session(
        {"t": table}, unit=unit, budget=MANY * 2, memory_limit="120MB", threads=1
    ) as session:
        assert isinstance(session._engine, DuckDB)
        watcher = Watcher(session._engine._folder)
        watcher.start()
        try:
            asked = session.table("t").agg(n=unacorda.count(), people=unacorda.count_people())
            answers = session.evaluate(asked, budget=MANY).to_dicts()[0]
        finally:
            watcher.over.set()
            watcher.join()
    assert round(answers["n"]) == 3 * PEOPLE
    assert round(answers["people"]) == PEOPLE
    assert watcher.most > 1_000_000  # it did not fit
    assert not watcher.seen
