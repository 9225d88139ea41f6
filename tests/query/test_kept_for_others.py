"""What a program between people and analysts needs: size limits, stored answers, public errors."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import open_ledger

import unacorda
from unacorda import errors

FRAME = pd.DataFrame({"id": range(50), "x": [1.0] * 50, "y": list("ab") * 25})
SOME = unacorda.PureDP("0.5")
Y = ["a", "b"]
COUNT: dict[str, Any] = {"count": {}}


def opened(**options: Any) -> unacorda.Session:
    unit = unacorda.Person("id", max_rows=1)
    given: dict[str, Any] = {"unit": unit, "budget": unacorda.PureDP(3)}
    return unacorda.Session({"t": FRAME}, **(given | options))


def counts(session: unacorda.Session, number: int, *, keys: list[str] | None = None) -> Any:
    query = session.table("t")
    query = query if keys is None else query.group_by("y", keys=keys)
    return query.agg(**{f"n{i}": unacorda.count() for i in range(number)})


ASKED: dict[str, Callable[[unacorda.Session, Any], object]] = {
    "evaluate": lambda session, query: session.evaluate(query, budget=SOME),
    "explain": lambda session, query: session.explain(query, budget=SOME),
    "suggest_budget": lambda session, query: session.suggest_budget(query, error=100),
    "batch": lambda session, query: session.explain([query, query], budget=SOME),
    "forecast": lambda session, query: session.explain_over_time(
        query, by="x", start="2024-01-01", steps=2, budget=SOME
    ),
}


@in_subtests("name", ASKED)
def test_what_is_too_large_is_refused_at_every_door(name: str) -> None:
    with opened(most_aggregates=3, most_cells=4) as session:
        for query in (counts(session, 4), counts(session, 3, keys=Y)):
            with pytest.raises(errors.InvalidParameter, match=r"at most [34] "):
                ASKED[name](session, query)
        many = "SELECT " + ", ".join(f"COUNT(*) AS n{i}" for i in range(4)) + " FROM t"
        for ask in (session.sql, session.evaluate, session.explain):
            with pytest.raises(errors.InvalidParameter, match="at most 3 aggregates"):
                ask(many, budget=SOME)
        assert session.spent == unacorda.PureDP(0)


LARGE: dict[str, Callable[[unacorda.Session], Any]] = {
    "bins": lambda session: session.table("t").agg(h=unacorda.histogram("x", range(6))),
    "values": lambda session: session.table("t").agg(t=unacorda.top("y", 3, values=list("abc"))),
    "numbers of a vector": lambda session: session.table("t").agg(
        v=unacorda.vector_sum([f"x + {n}" for n in range(5)], norm=1)
    ),
    "quantiles": lambda session: session.table("t").agg(
        q=unacorda.quantiles("x", ["0.3", "0.5"], 0, 1)
    ),
    "levels": lambda session: (
        session.table("t")
        .group_by("y", "id", keys={"y": Y, "id": [1, 2]}, margins="cube")
        .agg(n=unacorda.count())
    ),
    "levels of a rollup": lambda session: (
        session.table("t")
        .group_by("y", "id", keys={"y": Y, "id": [1, 2]}, margins="rollup")
        .agg(n=unacorda.count())
    ),
    "bins of private keys": lambda session: (
        session.table("t")
        .group_by("y", keys=unacorda.private_keys())
        .agg(h=unacorda.histogram("x", range(6)))
    ),
}


@in_subtests("name", LARGE)
def test_all_numbers_of_a_release_count(name: str) -> None:
    with opened() as session:
        size = LARGE[name](session).numbers
        if "private" not in name:
            answers = session.evaluate(LARGE[name](session), budget=SOME).answers
            assert size == sum(len(answer.values) for answer in answers.values()) > 1
    with opened(most_cells=size - 1) as session:
        query = LARGE[name](session)
        with pytest.raises(errors.InvalidParameter, match=rf"at most {size - 1} numbers"):
            session.evaluate(query, budget=SOME)
        assert session.spent == unacorda.PureDP(0)


def test_keys_of_json_are_counted_before_they_are_combined() -> None:
    listed = {"y": Y, "id": list(range(5))}
    stated = {"table": "t", "group_by": ["y", "id"], "keys": listed, "aggregates": {"n": COUNT}}
    with opened(most_cells=9) as session, pytest.raises(errors.InvalidParameter) as refused:
        session.read_json(stated)
    assert refused.value.pointer == "/keys"
    with opened(most_cells=10) as session:
        assert session.read_json(stated).numbers == 10


def test_combinations_that_a_cube_lacks_are_counted_and_not_made() -> None:
    keys = [(n,) * 6 for n in range(1000)]
    columns = [f"c{n}" for n in range(6)]
    with opened() as session:
        query = session.table("t").derive(**dict.fromkeys(columns, "id"))
        with pytest.raises(errors.InvalidParameter, match="margins='rollup'"):
            query.group_by(*columns, keys=keys, margins="cube")


def test_a_first_look_is_as_large_as_its_table() -> None:
    with opened(most_aggregates=1, most_cells=1, columns={"x": unacorda.Bounds(0, 1)}) as session:
        assert session.describe("t", budget=SOME, only=["x"]).columns


def test_questions_together_are_as_large_as_their_sum() -> None:
    with opened(most_aggregates=3, most_cells=4) as session:
        session.evaluate([counts(session, 1), counts(session, 2)], budget=SOME)
        with pytest.raises(errors.InvalidParameter, match="at most 3 aggregates"):
            session.evaluate([counts(session, 2), counts(session, 2)], budget=SOME)
        ana = session.for_analyst("ana", SOME)
        with pytest.raises(errors.InvalidParameter, match="at most 3 aggregates"):
            ana.evaluate(counts(ana, 4), budget=SOME)


@in_subtests("wrong", [0, -1, 1.5, True, "3"])
def test_limits_are_whole_numbers(wrong: Any) -> None:
    for name in ("most_aggregates", "most_cells"):
        with pytest.raises(errors.InvalidParameter, match=name):
            opened(**{name: wrong})


def test_what_is_committed_was_kept() -> None:
    ledger = open_ledger(None)
    with opened(ledger=ledger, dataset="v") as session:
        seen: list[tuple[Any, str]] = []

        def keep(release: Any) -> None:
            seen.append((release, ledger.entries("v")[-1].state))

        asked: tuple[Any, ...] = (
            counts(session, 1),
            "SELECT y, COUNT(*) AS n FROM t GROUP BY y ORDER BY n",
            [counts(session, 1), counts(session, 2)],
        )
        for number, query in enumerate(asked):
            keys = {"y": Y} if number == 1 else None
            found = session.evaluate(query, budget=SOME, keys=keys, keep=keep)
            assert seen[-1][0] is found
        assert [state for _, state in seen] == ["reserved"] * 3
        assert ledger.entries("v")[-1].state == "committed"


def test_what_could_not_be_kept_is_paid_and_not_committed() -> None:
    ledger = open_ledger(None)
    with opened(ledger=ledger, dataset="v") as session:

        def full(_: object) -> None:
            raise OSError("no space left")

        with pytest.raises(OSError, match="no space left"):
            session.evaluate(counts(session, 1), budget=SOME, keep=full)
        assert [entry.state for entry in ledger.entries("v")] == ["reserved"]
        assert session.spent == SOME


@in_subtests("wrong", [5, "store"])
def test_what_stores_nothing_is_refused_before_it_costs(wrong: Any) -> None:
    with opened() as session:
        with pytest.raises(errors.InvalidParameter, match="keep"):
            session.evaluate(counts(session, 1), budget=SOME, keep=wrong)
        assert session.spent == unacorda.PureDP(0)


def test_public_texts_hold_no_path(tmp_path: Path) -> None:
    path = tmp_path / "secret_folder.csv"
    path.write_text("id,x\n1,2\n2,3\n")
    unit = unacorda.Person("id", max_rows=1)
    with unacorda.Session({"t": path}, unit=unit, budget=unacorda.PureDP(1)) as session:
        path.write_text("id,x\n1,2\n2,3\n3,4\n")
        os.utime(path, (1, 1))
        with pytest.raises(errors.SourceChanged) as changed:
            session.evaluate(counts(session, 1), budget=SOME)
    with pytest.raises(errors.SourceUnreadable) as unreadable:
        unacorda.Session({"t": tmp_path / "none.csv"}, unit=unit, budget=unacorda.PureDP(1))
    failed = errors.LedgerFailed(f"sqlite:///{tmp_path}/b.db", reason="disk full")
    for error in (changed.value, unreadable.value, failed):
        assert str(tmp_path) in str(error)
        assert "/" not in error.public
        assert "No answer was given" in error.public
    for address in (f"sqlite:///{tmp_path}/nix/b.db", f"sqlite:///{path}", f"oracle://{path}"):
        with pytest.raises(errors.UnacordaError) as refused:
            open_ledger(address)
        assert str(tmp_path) in str(refused.value) or "oracle" in address
        assert str(tmp_path) not in refused.value.public
    for table in (f"{tmp_path}/a.xlsx", tmp_path / "b.pdf", f"{tmp_path}/c.duckdb::t"):
        with pytest.raises(errors.UnacordaError) as refused:
            unacorda.Session({"t": table}, unit=unit, budget=unacorda.PureDP(1))
        assert str(tmp_path) not in refused.value.public
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as foreign:
        foreign.execute("CREATE TABLE unacorda_entries (x)")
    with pytest.raises(errors.LedgerMismatch, match=r"other\.db") as mismatch:
        open_ledger(f"sqlite:///{tmp_path}/other.db")
    assert "other.db" not in mismatch.value.public
    other = errors.InvalidParameter("query", 1, expected="a question")
    assert other.public == str(other)
