"""Processes that make steps: killed at any place, and several at one step, in every ledger."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.ledger.ledgers import DURABLE, address
from tests.support.seams import export_account, open_ledger, verify_export

import unacorda
from unacorda import ZCDP, OverTime

FRAME = pd.DataFrame({"id": range(6), "seen": pd.to_datetime(["2025-01-01"] * 6)})


def opened(url: str) -> unacorda.Session:
    return unacorda.Session(
        {"visits": FRAME},
        unit=unacorda.Person("id", max_rows=1),
        budget=ZCDP(1),
        dataset="visits",
        ledger=url,
    )


def series(session: unacorda.Session) -> Any:
    return session.over_time(
        session.table("visits").agg(n=unacorda.count()),
        name="daily",
        by="seen",
        start="2025-01-01",
        steps=50,
        person=OverTime(max_steps=2),
        budget=ZCDP("0.5"),
    )


def forked(work: Callable[[], object]) -> int:
    """A child that does this and nothing else."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:  # noqa: BLE001  # no exception may reach the parent's code
        print(f"child: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def killed(child: int) -> bool:
    """Whether a child was killed; where it was not, it must have ended well."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


@contextmanager
def killing(calls: int) -> Iterator[None]:
    """Kill this process at a call or return of a function from now on."""
    left = [calls]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    yield
    sys.setprofile(None)


def next_step(url: str, log: Path, calls: int) -> None:
    """Open and answer the next step, killed at this call."""
    session = opened(url)
    with killing(calls):
        made = series(session)
        step = made.answered
        answers = made.answer(made.plan.calendar.label(step))
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps([step, answers.released[step]]) + "\n")


def add_step(url: str, calls: int) -> None:
    """Write the entry of the next step, killed at this call."""
    with closing(open_ledger(url)) as ledger:
        found = ledger.series("visits", "daily")
        assert found is not None
        with killing(calls):
            assert ledger.add_step("visits", found, json.dumps([calls]))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", DURABLE)
def test_a_kill_at_any_call_leaves_a_ledger_that_goes_on(tmp_path: Path, place: str) -> None:
    url, log = str(address(place, tmp_path)), tmp_path / "said"
    log.touch()
    opened(url).close()
    calls, kills = 1, 0
    while killed(forked(partial(next_step, url, log, calls))):
        kills += 1
        calls += 1 + calls // (6 if place == "sqlite" else 3)
        with closing(open_ledger(url)) as ledger:
            ledger.verify("visits")
            spent = ledger.spent("visits")
            assert spent in (ZCDP(0), ZCDP("0.5"))
            record = ledger.series("visits", "daily")
        said = [json.loads(line) for line in log.read_text().splitlines()]
        steps = () if record is None else record.steps
        assert all(steps[number] == text for number, text in said)
    assert kills > 30


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", DURABLE)
def test_a_kill_at_every_call_of_the_entry_of_a_step_leaves_it_whole_or_not_there(
    tmp_path: Path, place: str
) -> None:
    url = str(address(place, tmp_path))
    with opened(url) as session:
        series(session)
    calls, made, alive = 1, 0, False
    while not alive:
        alive = not killed(forked(partial(add_step, url, calls)))
        with closing(open_ledger(url)) as ledger:
            record = ledger.series("visits", "daily")
            assert record is not None
            assert ledger.verify("visits") == 1 + len(record.steps)
            assert len(record.steps) - made in ((1,) if alive else (0, 1))
            made = len(record.steps)
        calls += 1 + calls // 25
    assert calls > 60


@pytest.mark.long
@pytest.mark.parametrize("place", DURABLE)
def test_processes_at_one_step_make_it_once(tmp_path: Path, place: str) -> None:
    url, log = str(address(place, tmp_path)), tmp_path / "said"
    log.touch()
    with opened(url) as session:
        series(session)
    begin, let = os.pipe()

    def answered() -> None:
        os.close(let)
        with opened(url) as session:
            made = session.over_time(name="daily")
            os.read(begin, 1)  # until all have been started
            answers = made.answer_until("2025-01-03")
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(answers.released) + "\n")

    children = [forked(answered) for _ in range(4)]
    os.close(begin)
    os.write(let, b"....")
    os.close(let)
    assert [killed(child) for child in children] == [False] * 4
    (said,) = set(log.read_text().splitlines())
    with closing(open_ledger(url)) as ledger:
        record = ledger.series("visits", "daily")
        assert record is not None
        assert list(record.steps) == json.loads(said)
        assert ledger.verify("visits") == 4
        assert ledger.spent("visits") == ZCDP("0.5")
        assert verify_export(export_account(ledger, "visits")) == ("visits", 4)
