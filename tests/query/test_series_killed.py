"""A process that is killed within a step: what has left it stands in the ledger."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.support.seams import open_ledger

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


def killed_after(url: str, log: Path, calls: int) -> bool:
    """Open and answer in a child that is killed at this call or return; whether it was."""
    child = os.fork()
    if child == 0:
        left = [calls]

        def count(*_: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        session = opened(url)
        sys.setprofile(count)
        made = series(session)
        step = made.answered
        answers = made.answer(made.plan.label(step))
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps([step, answers.released[step]]) + "\n")
        sys.setprofile(None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kill_at_any_call_leaves_a_ledger_that_goes_on(tmp_path: Path) -> None:
    url, log = f"sqlite:///{tmp_path}/budget.db", tmp_path / "said"
    log.touch()
    opened(url).close()
    calls, kills = 1, 0
    while killed_after(url, log, calls):
        kills += 1
        calls += 1 + calls // 6
        with closing(open_ledger(url)) as ledger:
            ledger.verify("visits")
            spent = ledger.spent("visits")
            assert spent in (ZCDP(0), ZCDP("0.5"))
            record = ledger.series("visits", "daily")
        said = [json.loads(line) for line in log.read_text().splitlines()]
        steps = () if record is None else record.steps
        assert all(steps[number] == text for number, text in said)
    assert kills > 40
