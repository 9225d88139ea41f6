"""The rows of a person are searched once per account, whoever opens it, wherever, and at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from tests.ledger.ledgers import DURABLE, address
from tests.support.seams import (
    Charge,
    DuckDB,
    Ledger,
    SearchBegun,
    chain,
    execution,
    ledger_of,
    open_ledger,
)
from tests.support.seams import LedgerSearch as Search
from tests.tiers import mostly_slow

import unacorda
from unacorda import Person, PureDP, auto
from unacorda.errors import EngineFailed, LedgerMismatch

FRAME = pd.DataFrame({"id": [i // 7 for i in range(7_000)]})
UNIT = Person("id", max_rows=auto(budget=PureDP("0.1"), most=50))


def opened(ledger: Any, unit: Person = UNIT, tables: Any = None, **more: Any) -> unacorda.Session:
    rest = {"budget": PureDP(1), "dataset": "d", "ledger": ledger, **more}
    return unacorda.Session(tables or {"t": FRAME}, unit=unit, **rest)


def rows_of(session: unacorda.Session) -> int:
    assert isinstance(session.unit, Person)
    assert session.unit.max_rows is not None
    return session.unit.max_rows


@pytest.fixture(params=DURABLE)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = address(request.param, tmp_path)
    assert found is not None
    return found


def test_three_openings_pay_once(at: str) -> None:
    found = set()
    for _ in range(3):
        with opened(at) as session:
            assert session.remaining == PureDP("0.9")
            found.add(rows_of(session))
    assert len(found) == 1
    with closing(open_ledger(at)) as ledger:
        assert ledger.verify("d") == 2
        begun, ended = ledger.entries("d")
        assert (begun.state, ended.state) == ("reserved", "committed")
        assert begun.search == ended.search
        assert json.loads(ended.found or "") == {"rows": found.pop()}


def test_a_ledger_in_memory_knows_it_too() -> None:
    ledger = open_ledger(None)
    for _ in range(2):
        with opened(ledger) as session:
            assert session.spent == PureDP("0.1")


@pytest.mark.long
@pytest.mark.parametrize(
    "other",
    [
        Person("id", max_rows=auto(budget=PureDP("0.3"), most=50)),
        Person("id", max_rows=auto(budget=unacorda.ZCDP("0.001"), most=50)),
        Person("id", max_rows=auto(budget=PureDP("0.1"), most=50), max_groups=2),
    ],
    ids=["another budget", "another kind", "another limit on groups"],
)
def test_the_same_search_under_another_budget_is_read(other: Person, tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/b.db"
    with opened(at, budget=unacorda.ZCDP(1)) as session:
        found, spent = rows_of(session), session.spent
    with opened(at, other, budget=None) as session_again:
        assert (rows_of(session_again), session_again.spent) == (found, spent)
        assert not session_again.searches
        query = session_again.table("t").agg(n=unacorda.count())
        assert "found privately" in str(
            session_again.explain(query, budget=PureDP("0.1"), detail=True)
        )
        look = session_again.evaluate(query, budget=PureDP("0.1"))
        # What was paid is what the record says, not what this opening would have paid.
        assert '"epsilon": "1/10"' in json.dumps(json.loads(look.to_json())["query"]["search"])


@pytest.mark.long
def test_another_end_and_other_tables_are_another_search(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/b.db"
    opened(at).close()
    other = Person("id", max_rows=auto(budget=PureDP("0.1"), most=60))
    with opened(at, other) as session:
        assert session.spent == PureDP("0.2")
    for _ in range(2):
        with opened(at, tables={"t": FRAME, "u": FRAME}) as session:
            assert session.spent == PureDP("0.3")
    with opened(at) as session:
        assert session.spent == PureDP("0.3")


@pytest.mark.long
def test_a_first_look_at_what_was_found_before_is_verified(tmp_path: Path) -> None:
    frame = FRAME.assign(x=1.0)
    at = f"sqlite:///{tmp_path}/b.db"
    for before in (PureDP("0.1"), None):
        with opened(at, tables={"t": frame}) as session:
            look = session.describe("t", budget=PureDP("0.4"))
            assert look.before == before
            assert unacorda.Release.verify(look.to_json(), ledger=ledger_of(session)).holds


OPEN = """
import sys, pandas as pd, unacorda
frame = pd.DataFrame({"id": [i // 7 for i in range(7_000)]})
unit = unacorda.Person("id", max_rows=unacorda.auto(budget=unacorda.PureDP("0.1"), most=50))
sys.stdin.readline()
with unacorda.Session(
    {"t": frame}, unit=unit, budget=unacorda.PureDP(1), ledger=sys.argv[1], dataset="d"
) as session:
    print(session.unit.max_rows)
"""


@pytest.mark.long
@pytest.mark.parametrize("count", mostly_slow([3, 8], quick=1))
def test_processes_that_open_at_once_pay_once(at: str, count: int) -> None:
    command = [sys.executable, "-c", OPEN, at]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(count)
    ]
    for one in running:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    done = [one.communicate(timeout=120) for one in running]
    assert [one.returncode for one in running] == [0] * count, done
    assert len({out for out, _ in done}) == 1
    with closing(open_ledger(at)) as ledger:
        assert ledger.spent("d") == PureDP("0.1")
        assert ledger.verify("d") == 2


@pytest.mark.long
def test_threads_that_open_at_once_pay_once(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/b.db"
    opened(at, Person("id", max_rows=1)).close()
    found: list[int] = []

    def opens() -> None:
        with opened(at) as session:
            found.append(rows_of(session))

    threads = [threading.Thread(target=opens) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    with closing(open_ledger(at)) as ledger:
        assert ledger.spent("d") == PureDP("0.1")


@pytest.mark.long
@pytest.mark.parametrize("step", mostly_slow(["run", "commit"]))
def test_a_search_that_dies_is_paid_for_and_found_again(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill between paying and recording the charge stands, and nothing was known."""
    at = f"sqlite:///{tmp_path}/b.db"
    dies = {
        "run": "from unacorda.query.engines.duckdb import DuckDB as c; name = 'run'",
        "commit": "from unacorda.ledger.ledger import Ledger as c; name = 'commit'",
    }[step]
    text = f"import os\n{dies}\nsetattr(c, name, lambda *_, **__: os._exit(9))\n{OPEN}"
    command = [sys.executable, "-c", text, at]
    done = subprocess.run(command, input="go\n", text=True, check=False, env=os.environ)
    assert done.returncode == 9
    with closing(open_ledger(at)) as ledger:
        assert ledger.spent("d") == PureDP("0.1")
        (entry,) = ledger.entries("d")
        assert (entry.state, entry.found) == ("reserved", None)
    monkeypatch.setattr(execution, "_WAIT_SECONDS", 0.3)  # as after a minute
    for _ in range(2):
        with opened(at) as session:
            assert session.spent == PureDP("0.2")


def test_a_search_that_began_long_ago_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = f"sqlite:///{tmp_path}/b.db"
    with monkeypatch.context() as patched:
        then = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="microseconds")
        patched.setattr(chain, "_now", lambda: then)
        patched.setattr(DuckDB, "run", lambda *_, **__: (_ for _ in ()).throw(EngineFailed()))
        with pytest.raises(EngineFailed):
            opened(at)
    # The module's own clock: threads of other services in this process may sleep.
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("it waited"))
    monkeypatch.setattr(execution, "time", clock)
    with opened(at) as session:
        assert session.spent == PureDP("0.2")


def test_nobody_begins_a_search_on_top_of_another(tmp_path: Path) -> None:
    """What was seen is held against what stands within the transaction that pays."""
    ledger = open_ledger(f"sqlite:///{tmp_path}/b.db")
    opened(ledger, Person("id", max_rows=1)).close()
    search = Search(digest="x", seen=0)
    first = _reserve(ledger, search)
    with pytest.raises(SearchBegun):
        _reserve(ledger, search)
    again = ledger.searched("d", "x")
    assert (again.found, again.seen, again.begun is not None) == (None, 1, True)
    _reserve(ledger, Search(digest="x", seen=1))
    ledger.commit(first, found='{"rows": 3}')
    with pytest.raises(SearchBegun):
        _reserve(ledger, Search(digest="x", seen=2))
    assert ledger.searched("d", "x").found == '{"rows": 3}'
    assert ledger.spent("d") == PureDP("0.2")
    assert ledger.verify("d") == 3
    ordinary = _reserve(ledger, None)
    with pytest.raises(unacorda.errors.InvalidParameter, match="found"):
        ledger.commit(ordinary, found="7")


def _reserve(ledger: Ledger, search: Search | None) -> Any:
    charge = Charge(
        cost=PureDP("0.1"),
        event=unacorda.privacy.events.Pure(epsilon=Fraction(1, 10)),
        request=PureDP("0.1"),
        reproducible=False,
        plan_digest="p",
        search=search,
    )
    return ledger.reserve("d", charge)


def test_an_answer_that_was_changed_is_not_read(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "b.db"
    at = f"sqlite:///{path}"
    opened(at).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER unacorda_entries_no_update")
        connection.execute("UPDATE unacorda_entries SET found = '{\"rows\": 1}' WHERE sequence = 2")
        connection.commit()
    with pytest.raises(LedgerMismatch, match="Entry 2"):
        opened(at)
