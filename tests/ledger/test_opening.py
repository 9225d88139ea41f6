"""Addresses of ledgers, and what an in-memory ledger refuses to be."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ledger.ledgers import DURABLE, address
from tests.support.cases import in_subtests
from tests.support.seams import open_ledger
from tests.tiers import mostly_slow

from unacorda.errors import InvalidParameter


@in_subtests(
    "url",
    [
        "",
        "budget.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=ro",
        "postgresql",
        "postgres://localhost/budgets",
        "mysql://x",
        "file:///tmp/x",
    ],
)
def test_other_addresses_are_refused_with_what_there_is(url: str) -> None:
    with pytest.raises(InvalidParameter, match="sqlite:///FILE") as caught:
        open_ledger(url)
    assert caught.value.argument == "ledger"


def test_passwords_of_other_addresses_are_not_shown() -> None:
    with pytest.raises(InvalidParameter, match=r"mysql://[.]{3}") as caught:
        open_ledger("mysql://ann:topsecret@host/db")
    assert "topsecret" not in repr(caught.value.value)


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="folder"):
        open_ledger(f"sqlite:///{tmp_path}/missing/budget.db")


def test_relative_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_ledger("sqlite:///budget.db")
    assert (tmp_path / "budget.db").exists()


def test_memory_forgets_and_says_so() -> None:
    assert not open_ledger(None).durable
    assert open_ledger(None) is not open_ledger(None)


def test_a_ledger_in_memory_is_not_copied() -> None:
    ledger = open_ledger(None)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="copied"):
            way(ledger)


FORK = """
import os
from unacorda.errors import LedgerMismatch
from unacorda.ledger.entries import Charge
from unacorda.ledger.ledger import open_ledger
from unacorda.privacy.events import Pure
from unacorda.privacy.guarantees import PureDP
ledger = open_ledger(URL)
ledger.open_account("visits", PureDP(1), {})
def reserve():
    ledger.reserve("visits", Charge(cost=PureDP("0.6"), event=Pure(epsilon=0.6),
        request=PureDP("0.6"), reproducible=False))
child = os.fork()
if child == 0:
    try:
        reserve()
    except LedgerMismatch:
        os._exit(7)
    os._exit(0)
_, status = os.waitpid(child, 0)
code = os.waitstatus_to_exitcode(status)
assert ledger.spent("visits") == PureDP("0.6" if code == 0 else "0"), code
raise SystemExit(code)
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(("durable", "status"), mostly_slow([(False, 7), (True, 0)]))
def test_a_forked_child_spends_from_a_file_only(tmp_path: Path, durable: bool, status: int) -> None:
    url = repr(f"sqlite:///{tmp_path}/budget.db" if durable else None)
    code = FORK.replace("URL", url)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == status


FORKS_BESIDE_THREADS = """
import os, sys, threading, time
from unacorda.ledger.entries import Charge
from unacorda.ledger.ledger import open_ledger
from unacorda.privacy.events import Pure
from unacorda.privacy.guarantees import PureDP
ledger = open_ledger(URL)
ledger.open_account("visits", PureDP(1000), {})
class Slow:  # a child of a thread that imports can not import that again
    def find_spec(self, name, path=None, target=None):
        time.sleep(1)
sys.meta_path.insert(0, Slow())
def reserve(times):
    for _ in range(times):
        ledger.commit(ledger.reserve("visits", Charge(cost=PureDP(1), event=Pure(epsilon=1),
            request=PureDP(1), reproducible=False)))
threads = [threading.Thread(target=reserve, args=(12,)) for _ in range(3)]
for thread in threads:
    thread.start()
children = []
for _ in range(8):
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        reserve(2)
        os._exit(0)
    children.append(child)
for child in children:
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
for thread in threads:
    thread.join()
assert ledger.spent("visits") == PureDP(3 * 12 + 8 * 2)
assert ledger.verify("visits") == 2 * (3 * 12 + 8 * 2)
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("kind", mostly_slow(DURABLE))
def test_forks_in_the_middle_of_threads_share_one_budget(tmp_path: Path, kind: str) -> None:
    code = FORKS_BESIDE_THREADS.replace("URL", repr(address(kind, tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


FORKS_IN_THE_MIDDLE = """
import os, threading
from unacorda.ledger.ledger import open_ledger
from unacorda.privacy.guarantees import PureDP
ledger = open_ledger(URL)
ledger.open_account("visits", PureDP(1), {})
entered, leave = threading.Event(), threading.Event()
def hold():
    with ledger._store.reading():
        entered.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
entered.wait()
forked = []
def fork():
    child = os.fork()
    if child == 0:
        os._exit(ledger.remaining("visits") != PureDP(1))
    forked.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
forking = threading.Thread(target=fork)
forking.start()
forking.join(0.3)
assert forking.is_alive() and not forked  # it waits for the transaction
leave.set()
forking.join()
thread.join()
assert forked == [0]
with ledger._store.reading():
    fork()  # as in a handler of a signal: nobody waits for himself
    forking = threading.Thread(target=fork)
    forking.start()
    forking.join(0.3)
    assert forking.is_alive()
    fork()  # nor for somebody who waits for him
forking.join()
assert forked == [0] * 4 and ledger.remaining("visits") == PureDP(1)
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("kind", mostly_slow(DURABLE))
def test_a_fork_waits_for_the_transactions_of_other_threads(tmp_path: Path, kind: str) -> None:
    code = FORKS_IN_THE_MIDDLE.replace("URL", repr(address(kind, tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_memory_needs_no_database_package() -> None:
    code = (
        "import sys; from unacorda.ledger.ledger import open_ledger; open_ledger(None); "
        "sys.exit('sqlalchemy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_room_has_a_face_that_loads_lazily() -> None:
    import unacorda.ledger as room

    assert dir(room) == sorted(vars(room)["__all__"])
    for name in dir(room):
        assert callable(getattr(room, name))
    with pytest.raises(AttributeError, match="no attribute 'open'"):
        room.open  # type: ignore[attr-defined]  # noqa: B018
