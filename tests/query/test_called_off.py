"""What comes back: the charge of a question that failed before the engine was asked; no other."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.seams import DuckDB, Ledger, ledger_of

import unacorda
from unacorda.errors import EngineFailed, LedgerFailed, SourceChanged

ONE = unacorda.PureDP(1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text("id,part\n1,a\n2,b\n")
    return path


def opened(table: Path) -> unacorda.Session:
    place = f"sqlite:///{table.parent}/budget.db"
    unit = unacorda.Person("id", max_rows=2)
    return unacorda.Session(
        {"t": str(table)}, unit=unit, dataset="d", ledger=place, budget=unacorda.PureDP(9)
    )


def ask(session: unacorda.Session) -> None:
    session.evaluate(session.table("t").agg(n=unacorda.count()), budget=ONE)


def after(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, act: Callable[[], object]
) -> None:
    """Something happens as soon as a call has returned."""
    plain = getattr(place, name)

    def called(*given: Any, **named: Any) -> Any:
        found = plain(*given, **named)
        act()
        return found

    monkeypatch.setattr(place, name, called)


def states(session: unacorda.Session) -> list[str]:
    ledger = Ledger(ledger_of(session)._store)
    return [entry.state for entry in ledger.entries("d") if entry.state not in ("opened", "split")]


FAILURES: list[tuple[str, type[BaseException]]] = [
    ("file removed", SourceChanged),
    ("file changed", SourceChanged),
    ("engine closed", EngineFailed),
]


def failure(kind: str, table: Path, session: unacorda.Session) -> Callable[[], object]:
    if kind == "file removed":
        return table.unlink
    if kind == "file changed":
        return lambda: table.write_text("id,part\n1,a\n2,b\n3,c\n")
    return session._engine.close


@pytest.mark.parametrize(("kind", "error"), FAILURES)
@pytest.mark.parametrize("who", ["session", "analyst", "part"])
def test_what_failed_before_the_engine_was_asked_comes_back(
    kind: str, error: type[Exception], who: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(table) as session:
        asking = session
        if who == "analyst":
            asking = session.for_analyst("ana", unacorda.PureDP(2))
        elif who == "part":
            asking = session.split("part", keys=["a", "b"], budget=unacorda.PureDP(2))["a"]
        after(monkeypatch, Ledger, "reserve", failure(kind, table, session))
        with pytest.raises(error) as caught:
            ask(asking)
        assert session.spent == asking.spent == unacorda.PureDP(0)
        assert states(session) == ["reserved", "voided"]
        assert "stays spent" not in str(caught.value)
        monkeypatch.undo()
        with pytest.raises(error):  # now it is refused before
            ask(asking)
        assert states(session) == ["reserved", "voided"]
        ledger_of(session).verify("d")


def test_an_interrupt_before_the_engine_was_asked_comes_back(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(table) as session:
        calls: list[int] = []

        def second(_engine: DuckDB) -> None:
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(DuckDB, "check_open", second)
        with pytest.raises(KeyboardInterrupt):
            ask(session)
        assert (session.spent, states(session)) == (unacorda.PureDP(0), ["reserved", "voided"])


@pytest.mark.parametrize("kind", ["file removed", "file changed"])
def test_what_failed_after_it_was_asked_stays_spent(
    kind: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(table) as session:
        after(monkeypatch, DuckDB, "run", failure(kind, table, session))
        with pytest.raises(SourceChanged):
            ask(session)
        assert (session.spent, states(session)) == (ONE, ["reserved"])


@pytest.mark.parametrize("raised", [KeyboardInterrupt, EngineFailed])
def test_what_the_engine_raised_stays_spent(
    raised: type[BaseException], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: Any, **_named: Any) -> None:
        raise raised

    with opened(table) as session:
        monkeypatch.setattr(DuckDB, "run", fails)
        with pytest.raises(raised):
            ask(session)
        assert (session.spent, states(session)) == (ONE, ["reserved"])


def test_a_ledger_that_cannot_note_it_keeps_the_charge(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(ledger: Ledger, _reservation: object) -> None:
        raise LedgerFailed(repr(ledger), reason="no disk left")

    with opened(table) as session:
        after(monkeypatch, Ledger, "reserve", table.unlink)
        monkeypatch.setattr(Ledger, "void", fails)
        with pytest.raises(SourceChanged):
            ask(session)
        assert (session.spent, states(session)) == (ONE, ["reserved"])
