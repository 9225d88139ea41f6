"""Processes that spend from a ledger and are killed, and the check of what they left behind.

    python -m tests.ledger.crashes random URL LOG KILLS WRITERS SEED
    python -m tests.ledger.crashes steps URL LOG STEPS
    python -m tests.ledger.crashes stack URL LOG STEPS

A child is forked from one warm process, writes to LOG what it is about to do and what it was told,
and gets SIGKILL: at a random moment, or at the n-th call or return of a function since it began to
reserve (`steps`: with the ledger alone; `stack`: within a session, up to the release). After it the
ledger is opened again and compared with LOG. Prints what was seen as JSON.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from tests.support.seams import Charge, Ledger, Reservation, open_ledger

from unacorda.errors import BudgetExceeded
from unacorda.privacy.events import Pure
from unacorda.privacy.guarantees import PureDP, guarantee_from_json

__all__ = ["BUDGET", "DATASET", "check", "main", "random_kills"]

DATASET = "visits"
BUDGET = PureDP(4)
_TERMS = {"unit": "row", "neighbors": "AddRemove"}
_CHARGES = [PureDP(Fraction(1, n)) for n in (29, 100, 1000)]
_SECONDS_BETWEEN = 0.003
_TRIED, _RESERVED, _RELEASED = b"T", b"R", b"C"
_RECORD = 17

Note: TypeAlias = Callable[[bytes, bytes], None]
Question: TypeAlias = Callable[[Callable[[], None]], None]


def check(url: str, log: Path) -> dict[str, int]:
    """Compare the ledger with the log; AssertionError where they contradict each other."""
    told = log.read_bytes()
    assert len(told) % _RECORD == 0
    said: dict[bytes, set[str]] = {_TRIED: set(), _RESERVED: set(), _RELEASED: set()}
    for place in range(0, len(told), _RECORD):
        said[told[place : place + 1]].add(told[place + 1 : place + _RECORD].hex())
    with closing(open_ledger(url)) as ledger:
        entries = ledger.entries(DATASET)
        assert ledger.verify(DATASET) == len(entries)
        spent, budget = ledger.spent(DATASET), ledger.account(DATASET).budget
    reserved = Counter(entry.salt for entry in entries if entry.state == "reserved")
    answered = {entry.salt for entry in entries if entry.state == "committed"}
    charges = [guarantee_from_json(e.charge) for e in entries if e.state == "reserved"]
    assert not reserved or max(reserved.values()) == 1  # no charge twice
    assert said[_RESERVED] <= set(reserved)  # what was reserved stays spent
    assert said[_RELEASED] <= answered  # no release without its entry
    if said[_TRIED]:
        assert set(reserved) <= said[_TRIED]  # no charge that nobody asked for
    assert spent == sum(charges, start=PureDP(0))
    assert spent <= budget
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return {"reserved": len(reserved), "answered": len(answered), "released": len(said[_RELEASED])}


def random_kills(url: str, log: Path, *, kills: int, writers: int, seed: int) -> dict[str, Any]:
    """Keep so many writers running, kill one after the other, and check at the end."""
    chance = random.Random(seed)
    # Room for two questions in three kills or so: the last third is fought for what is left.
    open_ledger(url).open_account(DATASET, PureDP(Fraction(kills, 100)), _TERMS)
    note = _notes(log)
    running = [_forked(lambda: _spend_on(url, note)) for _ in range(writers)]
    for _ in range(kills):
        _grown(log)  # somebody is at work, so that most die in the middle of it
        time.sleep(chance.expovariate(1 / _SECONDS_BETWEEN))
        killed = running.pop(chance.randrange(writers))
        os.kill(killed, signal.SIGKILL)
        assert _status(killed) == -signal.SIGKILL
        running.append(_forked(lambda: _spend_on(url, note)))
    for child in running:
        os.kill(child, signal.SIGKILL)
        _status(child)
    with closing(open_ledger(url)) as ledger:  # one that nobody kills
        _asked(ledger, note)
        left = ledger.remaining(DATASET)
    return {"kills": kills + writers, "left": str(left), **check(url, log)}


def _grown(log: Path, *, patience: float = 2) -> None:
    """Wait until the writers have noted something more."""
    size, deadline = log.stat().st_size, time.monotonic() + patience
    while log.stat().st_size < size + 3 * _RECORD and time.monotonic() < deadline:
        time.sleep(0.0005)


def _at_steps(url: str, log: Path, steps: Sequence[int], question: Question) -> Any:
    """A child for each step, killed there; those that live to the end counted."""
    ended = Counter[str]()
    for step in steps:
        status = _status(_forked(partial(question, partial(_die_at, step))))
        assert status in (0, -signal.SIGKILL), status
        ended["lived" if status == 0 else "killed"] += 1
        check(url, log)
    return {**ended, **check(url, log)}


def _die_at(step: int) -> None:
    count = 0

    def seen(_frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal count
        count += 1
        if count > step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(seen)


def _spend_on(url: str, note: Note) -> NoReturn:
    ledger = open_ledger(url)
    while True:
        if not _asked(ledger, note):
            time.sleep(0.001)


def _asked(ledger: Ledger, note: Note) -> bool:
    """Whether a question was granted; what is noted last is what leaves the process."""
    salt = os.urandom(16)
    cost = _CHARGES[salt[0] % len(_CHARGES)]
    note(_TRIED, salt)
    try:
        charge = Charge(
            cost=cost,
            event=Pure(epsilon=cost.epsilon),
            request=cost,
            reproducible=False,
            plan_digest="ab" * 32,
            salt=salt,
            analyst=str(os.getpid()),
        )
        reservation = ledger.reserve(DATASET, charge)
    except BudgetExceeded:
        return False
    note(_RESERVED, salt)
    ledger.commit(reservation)
    note(_RELEASED, salt)
    return True


def _alone(url: str, note: Note) -> Question:
    """A question to the ledger alone."""

    def question(begun: Callable[[], None]) -> None:
        ledger = open_ledger(url)
        begun()
        _asked(ledger, note)

    return question


def _stack(url: str, note: Note) -> Question:
    """A question to a session, answered into the caller's hand."""
    import pandas as pd

    import unacorda

    frame = pd.DataFrame({"x": [1, 2, 3]})

    def answered(ledger: Ledger, budget: PureDP) -> str:
        with unacorda.Session(
            {"t": frame},
            unit=unacorda.Row(),
            budget=BUDGET,
            dataset=DATASET,
            ledger=ledger,
            threads=1,
        ) as session:
            query = session.table("t").agg(n=unacorda.count())
            return session.evaluate(query, budget=budget).to_json()

    def question(begun: Callable[[], None]) -> None:
        ledger = open_ledger(url)
        reserve = ledger.reserve

        def begins(*arguments: Any, **named: Any) -> Reservation:
            begun()
            return reserve(*arguments, **named)

        ledger.reserve = begins  # type: ignore[method-assign]
        release = answered(ledger, PureDP(Fraction(1, 50)))
        note(_RELEASED, bytes.fromhex(json.loads(release)["salt"]))

    answered(open_ledger(None), PureDP(1))  # so that no child has to import anything
    return question


def _notes(log: Path) -> Note:
    file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def note(kind: bytes, salt: bytes) -> None:
        assert os.write(file, kind + salt) == _RECORD

    return note


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:  # noqa: BLE001  # no exception may reach the parent's code
        print(f"child: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(arguments: Sequence[str]) -> None:
    """See the head of this file."""
    kind, url, log, *rest = arguments
    found: Any
    match kind:
        case "random":
            kills, writers, seed = map(int, rest)
            found = random_kills(url, Path(log), kills=kills, writers=writers, seed=seed)
        case _:
            note = _notes(Path(log))
            open_ledger(url).open_account(DATASET, BUDGET, _TERMS)
            question = (_stack if kind == "stack" else _alone)(url, note)
            steps = [int(step) for step in rest[0].split(",")]
            found = _at_steps(url, Path(log), steps, question)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
