"""A timeout interrupts the engine, and looks to the analyst as any failure does."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.query.engines_alike import ENGINES, OTHERS, opened_on
from tests.support.cases import in_subtests
from tests.support.seams import engines, interrupted_after, open_ledger

import unacorda
from unacorda.errors import EngineFailed, InvalidParameter
from unacorda.inference import LinearRegression

FRAME = pd.DataFrame({"id": range(2_000), "x": np.arange(2_000) % 7, "y": ["a", "b"] * 1_000})
BUDGET = unacorda.ApproxDP(9, 1e-3)
SOME = unacorda.PureDP(1)
NO_TIME = 1e-6
FOREVER = "(SELECT copy0.* FROM main.copy0, range(1000000000000))"
"""What takes longer than any test: a table a million million times over."""


def opened(**options: Any) -> unacorda.Session:
    unit = unacorda.Person("id", max_rows=2)
    given: dict[str, Any] = {"unit": unit, "budget": BUDGET, "ledger": open_ledger(None)}
    return unacorda.Session({"t": FRAME}, **(given | options))


def counted(session: Any) -> object:
    return session.evaluate(session.table("t").agg(n=unacorda.count()), budget=SOME)


def ranked(session: unacorda.Session) -> object:
    return session.evaluate(session.table("t").agg(m=unacorda.median("x", 0, 9)), budget=SOME)


def keyed(session: unacorda.Session) -> object:
    query = session.table("t").group_by("y", keys=unacorda.private_keys())
    return session.evaluate(query.agg(n=unacorda.count()), budget=unacorda.ApproxDP(1, 1e-6))


def batched(session: unacorda.Session) -> object:
    query = session.table("t").agg(n=unacorda.count())
    return session.evaluate([query, query], budget=SOME)


def in_part(session: unacorda.Session) -> object:
    part = session.split("y", keys=["a", "b"], budget=unacorda.ApproxDP(1, 0))["a"]
    return counted(part)


def fitted(session: unacorda.Session) -> object:
    model = LinearRegression(
        budget=unacorda.ApproxDP(1, 1e-6), feature_bounds=(0, 9), target_bounds=(0, 9)
    )
    return session.fit(model, "t", features=["x"], target="x * 2")


ASKED: Mapping[str, Callable[[unacorda.Session], object]] = {
    "evaluate": counted,
    "ranks": ranked,
    "private keys": keyed,
    "batch": batched,
    "sql": lambda session: session.sql("SELECT SUM(x) FROM t", budget=SOME, keys=None),
    "find_bounds": lambda session: session.find_bounds("t", "x", budget=SOME),
    "describe": lambda session: session.describe("t", budget=SOME),
    "a part": in_part,
    "fit": fitted,
}


@pytest.fixture(scope="module")
def failure() -> str:
    """What a failure of another cause says."""
    with opened() as session:
        engine: Any = session._engine
        engine._scans["t"] = "(SELECT error('a value of somebody') AS id, 1 AS x, 'a' AS y)"
        with pytest.raises(EngineFailed) as caught:
            counted(session)
        return str(caught.value)


@in_subtests("name", ASKED)
def test_what_takes_too_long_fails_as_anything_else_and_is_paid_for(
    name: str, failure: str
) -> None:
    with opened(timeout=NO_TIME) as session:
        with pytest.raises(EngineFailed) as caught:
            ASKED[name](session)
        assert str(caught.value) == failure
        assert caught.value.asked
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert session.spent != unacorda.ApproxDP(0, 0)


@pytest.mark.long
def test_the_engine_is_interrupted_and_the_session_goes_on(failure: str) -> None:
    with opened(timeout=0.5) as session:
        engine: Any = session._engine
        table = engine._scans["t"]
        engine._scans["t"] = FOREVER
        for asked in (counted, ranked, keyed):
            before = session.remaining
            with pytest.raises(EngineFailed) as caught:
                asked(session)
            assert str(caught.value) == failure
            assert session.remaining != before
        engine._scans["t"], engine._timeout = table, 600.0
        release: Any = counted(session)
        assert abs(release.answers["n"].values[0] - 2_000) < 100


def test_what_runs_is_interrupted_and_the_session_goes_on(failure: str) -> None:
    with opened() as session:
        session.interrupt()  # nothing runs
        engine: Any = session._engine
        table = engine._scans["t"]
        engine._scans["t"] = FOREVER
        ended = threading.Event()

        def interrupt() -> None:
            while not ended.wait(0.05):
                session.interrupt()

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(EngineFailed) as caught:
            counted(session)
        ended.set()
        interrupting.join()
        assert str(caught.value) == failure
        assert session.spent != unacorda.ApproxDP(0, 0)
        engine._scans["t"] = table
        assert counted(session)


def test_a_search_at_opening_is_limited_too() -> None:
    ledger = open_ledger(None)
    unit = unacorda.Person("id", max_rows=unacorda.auto(budget=SOME))
    with pytest.raises(EngineFailed):
        opened(unit=unit, timeout=NO_TIME, ledger=ledger, dataset="d")
    assert ledger.spent("d") == unacorda.ApproxDP(1, 0)


@in_subtests("timeout", [0, -1, float("nan"), float("inf"), 1e9, True, "5", [1], 10**400])
def test_what_is_no_time_is_refused_by_name(timeout: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"timeout=.*seconds"):
        opened(timeout=timeout)


def test_interrupts_come_until_the_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first may fall between two statements, where it stops nothing."""
    monkeypatch.setattr(engines, "_AGAIN", 1e-3)
    calls: list[int] = []

    def interrupt() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("closed meanwhile")

    def work() -> None:
        with interrupted_after(1e-3, interrupt):
            while len(calls) < 5:
                time.sleep(1e-3)

    with pytest.raises(TimeoutError):
        work()
    count = len(calls)
    time.sleep(0.02)
    assert len(calls) == count  # and none comes later
    with interrupted_after(600, interrupt):
        pass
    with interrupted_after(None, interrupt):
        pass
    assert len(calls) == count


def test_what_the_work_raises_leaves_as_it_is() -> None:
    with pytest.raises(KeyError), interrupted_after(600, lambda: None):
        raise KeyError


@pytest.mark.service
@pytest.mark.parametrize("engine", OTHERS)
def test_other_engines_are_interrupted_too(engine: str, failure: str) -> None:
    import pyarrow as pa

    table = pa.Table.from_pandas(FRAME)
    with opened_on(engine, {"t": table}, unit=unacorda.Person("id", max_rows=2)) as session:
        held: Any = session._engine
        held._timeout = 1.0
        with pytest.raises(EngineFailed) as caught:
            held._asked(ENGINES[engine].endless)
        assert str(caught.value) == failure
        held._timeout = NO_TIME
        before = session.spent
        with pytest.raises(EngineFailed) as caught:
            session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1))
        assert str(caught.value) == failure
        assert session.spent != before
        held._timeout = 600.0
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1))
