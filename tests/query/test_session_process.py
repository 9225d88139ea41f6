"""One budget is spent by one process: no copies, no forks, and a crash stays spent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.query.exact_answers import opened
from tests.query.test_leaks import FRAME, PURE, query
from tests.support.seams import Session, ledger_of

import unacorda
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch


@pytest.mark.parametrize("attempt", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_cannot_be_doubled(attempt: Callable[[Any], Any]) -> None:
    with opened(FRAME) as session, pytest.raises(TypeError, match="cannot be pickled or copied"):
        attempt(session)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.long
def test_a_forked_child_may_look_but_not_spend_from_memory() -> None:
    done = run(
        """
        import os
        import polars as pl
        import unacorda
        from unacorda.errors import LedgerMismatch
        session = unacorda.Session(
            {"t": pl.DataFrame({"x": [1]})},
            unit=unacorda.Row(),
            budget=unacorda.PureDP(1),
            threads=1,
        )
        query = session.table("t").agg(n=unacorda.count())
        child = os.fork()
        if child == 0:
            try:
                session.evaluate(query, budget=unacorda.PureDP(0.5))
            except LedgerMismatch:
                session.close()
                os._exit(0 if session.spent == unacorda.PureDP(0) else 2)
            os._exit(3)
        status = os.waitpid(child, 0)[1]
        session.evaluate(query, budget=unacorda.PureDP(0.5))
        print(os.waitstatus_to_exitcode(status), os.path.isdir(session._engine._folder))
        """
    )
    assert (done.stdout, done.returncode) == ("0 True\n", 0), done.stderr


@pytest.mark.long
def test_a_forked_child_answers_selects_of_its_own_and_ends_as_it_should() -> None:
    """What evaluates released tables is not handed down: a child with it ended in an abort."""
    done = run(
        """
        import os, sys, threading
        import polars as pl
        import unacorda

        def select():
            with unacorda.Session(
                {"t": pl.DataFrame({"x": ["a", "b", "a"]})},
                unit=unacorda.Row(),
                budget=unacorda.PureDP(1),
                threads=1,
            ) as session:
                text = "SELECT x, COUNT(*) AS n FROM t GROUP BY x HAVING n > -99 ORDER BY n"
                release = session.sql(text, budget=unacorda.PureDP(1), keys={"x": ["a", "b"]})
                assert len(release.to_dicts()) == 2

        select()
        workers = [threading.Thread(target=select) for _ in range(4)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        if (child := os.fork()) == 0:
            select()
            sys.exit(7)
        status = os.waitpid(child, 0)[1]
        select()
        print(os.waitstatus_to_exitcode(status))
        """
    )
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr


@pytest.mark.long
def test_seeded_noise_is_refused_by_a_ledger_that_remembers(tmp_path: Path) -> None:
    ledger = f"sqlite:///{tmp_path / 'budget.db'}"
    with opened(FRAME, ledger=ledger, dataset="d") as session:
        with pytest.raises(InvalidParameter):
            session.evaluate(query(session), budget=PURE(0.5))
        assert session.spent == PURE(0)
    with opened(FRAME, ledger=ledger, dataset="d", seed=None) as session:
        assert not session.evaluate(query(session), budget=PURE(0.5)).reproducible
    with opened(FRAME) as session:
        assert session.evaluate(query(session), budget=PURE(0.5)).reproducible


@pytest.mark.long
def test_a_crash_while_the_engine_runs_stays_spent(tmp_path: Path) -> None:
    ledger = f"sqlite:///{tmp_path / 'budget.db'}"
    done = run(
        """
        import os
        import polars as pl
        import unacorda
        from unacorda.query.engines.duckdb import DuckDB
        session = unacorda.Session(
            {"t": pl.DataFrame({"x": [1]})},
            unit=unacorda.Row(),
            budget=unacorda.PureDP(1),
            dataset="d",
            ledger=os.environ["LEDGER"],
        )
        DuckDB.run = lambda *_, **__: os._exit(9)
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(0.75))
        """,
        LEDGER=ledger,
    )
    assert done.returncode == 9, done.stderr
    frame = pl.DataFrame({"x": [1]})
    with opened(frame, ledger=ledger, dataset="d", budget=PURE(1), seed=None) as session:
        assert session.spent == PURE(0.75)
        assert [entry.state for entry in ledger_of(session).entries("d")] == ["reserved"]
        with pytest.raises(BudgetExceeded):
            session.evaluate(session.table("t").agg(n=unacorda.count()), budget=PURE(0.5))


def test_an_account_is_found_again_under_its_own_terms_only(tmp_path: Path) -> None:
    ledger = f"sqlite:///{tmp_path / 'budget.db'}"
    unit = unacorda.Person("id", max_rows=2)
    with opened(FRAME, unit=unit, ledger=ledger, dataset="d", seed=None) as session:
        session.evaluate(query(session), budget=PURE(0.25))
    with Session({"t": FRAME}, unit=unit, ledger=ledger, dataset="d") as session:
        assert (session.budget, session.spent) == (PURE(1), PURE(0.25))
    for change in ({"unit": unacorda.Row()}, {"budget": PURE(2)}, {"budget": unacorda.ZCDP(1)}):
        with pytest.raises(LedgerMismatch):
            Session({"t": FRAME}, **{"unit": unit, "ledger": ledger, "dataset": "d", **change})  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="the account's name") as caught:
        Session({"t": FRAME}, unit=unit, ledger=ledger, budget=PURE(1))
    assert caught.value.argument == "dataset"
