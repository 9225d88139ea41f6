"""Splits that go on: after a crash, in another process, in two sessions at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.ledgers import DURABLE, address
from tests.query.neighbor_tables import statement_of
from tests.support.seams import Release, open_ledger
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import InvalidParameter, LedgerMismatch

KEYS = ["a", "b", "c"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Everybody has rows in every part."""
    path = tmp_path / "visits.csv"
    lines = [f"{person},{key},{person % 5}" for person in range(60) for key in KEYS]
    path.write_text("\n".join(["id,part,x", *lines, ""]))
    return path


def opened(table: Any, place: str | None, **options: Any) -> unacorda.Session:
    return unacorda.Session(
        {"t": str(table) if isinstance(table, Path) else table},
        unit=unacorda.Person("id", max_rows=9),
        dataset="d",
        ledger=place,
        **{"budget": unacorda.PureDP(9), **options},
    )


def parts_of(session: unacorda.Session, **changes: Any) -> dict[Any, unacorda.Session]:
    options: dict[str, Any] = {"keys": KEYS, "budget": unacorda.PureDP(4), "name": "parts"}
    return session.split("part", **{**options, **changes})


def ask(session: unacorda.Session, epsilon: Any = 1) -> Release:
    return session.evaluate(
        session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(epsilon)
    )


def people_of(session: unacorda.Session) -> Counter[Any]:
    text = statement_of(session, session.table("t").agg(n=unacorda.count()), salt=3).bounded
    cursor = session._engine._connection.cursor()  # type: ignore[attr-defined]
    return Counter(row[-1] for row in cursor.execute(text).fetchall())


KILLED = """
import os, signal, unacorda
session = unacorda.Session({"t": TABLE}, unit=unacorda.Person("id", max_rows=9), dataset="d",
    ledger=PLACE, budget=unacorda.PureDP(9))
parts = session.split("part", keys=["a", "b", "c"], budget=unacorda.PureDP(4), name="parts")
inner = parts["c"].split("x", keys=[0, 1], budget=unacorda.PureDP(2), name="inside")
for part, epsilon in ((parts["a"], 2), (parts["b"], "1.5"), (inner[0], 1), (inner[1], "0.5")):
    part.evaluate(part.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(epsilon))
if "reserved" == WHEN:
    commit = type(session._ledger).commit
    type(session._ledger).commit = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    parts["b"].evaluate(parts["b"].table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", DURABLE)
@pytest.mark.parametrize("when", mostly_slow(["between", "reserved"]))
def test_a_killed_process_is_followed_by_one_that_goes_on(
    kind: str, when: str, table: Path, tmp_path: Path
) -> None:
    place = address(kind, tmp_path)
    names = {"TABLE": str(table), "PLACE": place, "WHEN": when}
    code = KILLED
    for name, value in names.items():
        code = code.replace(name, repr(value))
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    b = "1.5" if when == "between" else "2.5"
    with opened(table, place) as session:
        owed = unacorda.PureDP(2) if when == "between" else unacorda.PureDP("2.5")
        assert session.spent == owed
        parts = parts_of(session)
        inner = parts["c"].split("x", keys=[0, 1], budget=unacorda.PureDP(2), name="inside")
        left = {"a": unacorda.PureDP(2), "b": unacorda.PureDP(b), "c": unacorda.PureDP(1)}
        assert {key: part.spent for key, part in parts.items()} == left
        assert inner[1].remaining == unacorda.PureDP("1.5")
        ask(parts["c"], "0.5")  # owed already, like what another part spends up to the largest
        ask(inner[1], "0.5")
        assert session.spent == owed
        ask(parts["a"], 1)
        assert session.spent == unacorda.PureDP(3)
    ledger = open_ledger(place)
    ledger.verify("d")
    ledger.close()


@pytest.mark.long
def test_two_sessions_on_one_split_have_the_same_parts_and_one_debt(
    table: Path, tmp_path: Path
) -> None:
    place = address("sqlite", tmp_path)
    with opened(table, place) as one, opened(table, place, budget=None) as other:
        first, second = parts_of(one), parts_of(other)
        people = {key: people_of(part) for key, part in first.items()}
        assert {key: people_of(part) for key, part in second.items()} == people
        # Everybody owns rows in every part, and is in one.
        assert set(Counter(who for part in people.values() for who in part).values()) == {1}
        assert sum(map(len, people.values())) == 60
        ask(first["a"], 2)
        ask(second["b"], 1)
        ask(second["a"], 1)
        assert one.spent == other.spent == first["a"].spent == unacorda.PureDP(3)
        release = ask(first["b"], 3)
        assert one.spent == unacorda.PureDP(4)
        with pytest.raises(unacorda.errors.BudgetExceeded, match='part "b"'):
            ask(second["b"], "0.5")
        ledger = open_ledger(place)
        found = Release.verify(release.to_json(), ledger=ledger)
        assert found.holds
        ledger.close()
        alone = ask(one, "0.1").to_json()
        stated = alone.replace(f'"salt": "{salt_of(alone)}"', f'"salt": "{release.salt}"')
        ledger = open_ledger(place)
        assert "is about a part" in str(Release.verify(stated, ledger=ledger))
        ledger.close()
        # Without a name it is another split, which is drawn anew and owed apart.
        apart = parts_of(one, name=None)
        assert {key: people_of(part) for key, part in apart.items()} != people
        ask(apart["a"], 1)
        assert one.spent == unacorda.PureDP("5.1")


def salt_of(text: str) -> str:
    import json

    salt = json.loads(text)["salt"]
    assert isinstance(salt, str)
    return salt


@pytest.mark.long
def test_a_name_stands_for_these_parts_of_these_data(table: Path, tmp_path: Path) -> None:
    place = address("sqlite", tmp_path)
    with opened(table, place) as session:
        parts_of(session)
        ana = session.for_analyst("ana", unacorda.PureDP(1))
        hers = parts_of(ana)  # a split of her own
        ask(hers["a"])
        assert (ana.spent, session.spent) == (unacorda.PureDP(1), unacorda.PureDP(1))
        for changes in (
            {"keys": ["a", "b"]},
            {"keys": ["b", "a", "c"]},
            {"max_parts": 2},
            {"budget": unacorda.PureDP(5)},
        ):
            with pytest.raises(LedgerMismatch, match="'parts' was opened with"):
                parts_of(session, **changes)
        with pytest.raises(InvalidParameter, match="name"):
            parts_of(session, name="")
    facts = {"columns": {"part": unacorda.Categories([*KEYS, "d"])}}
    with (
        opened(table, place, **facts) as session,
        pytest.raises(LedgerMismatch, match="other parts"),
    ):
        parts_of(session, keys=["a", "b"])
    rows = table.read_text()
    table.write_text(rows + "7,a,1\n")  # other data: people may be drawn to other parts
    with opened(table, place) as session:
        with pytest.raises(LedgerMismatch, match="other parts, tables, files or software"):
            parts_of(session)
        assert session.spent == unacorda.PureDP(1)
        ask(parts_of(session, name="parts of the new file")["a"])
        assert session.spent == unacorda.PureDP(2)


def test_a_file_that_changes_under_a_session_is_not_split(table: Path, tmp_path: Path) -> None:
    with opened(table, address("sqlite", tmp_path)) as session:
        table.write_text(table.read_text() + "7,a,1\n")
        with pytest.raises(unacorda.errors.SourceChanged):
            parts_of(session)


@pytest.mark.long
def test_frames_go_on_by_their_name_alone(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"id": [1, 1, 2], "part": ["a", "b", "a"]})
    place = address("sqlite", tmp_path)
    for count in (1, 2):
        with opened(frame, place) as session:
            ask(parts_of(session)["a"])
            assert session.spent == unacorda.PureDP(count)


@pytest.mark.long
def test_a_replaced_person_counts_twice_after_a_crash_too(table: Path, tmp_path: Path) -> None:
    place = address("sqlite", tmp_path)
    unit = unacorda.Person("id", max_rows=9, neighbors=unacorda.ReplaceOne)
    for spent in (2, 4):
        session = unacorda.Session(
            {"t": str(table)}, unit=unit, dataset="d", ledger=place, budget=unacorda.PureDP(9)
        )
        with session:
            for part in parts_of(session).values():
                ask(part, 1)
            assert session.spent == unacorda.PureDP(spent)
